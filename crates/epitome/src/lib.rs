//! epitome decides, as data, what a model sees next.
//!
//! A request is decoded into a [`thread`]; a [`budget`] is taken of it; a [`policy`] makes a [`plan`] of what to leave
//! out; the thread is rendered under the plan into a prompt. The crate is pure: it opens no file or socket, starts no
//! async task, reads no clock and draws no random number.

pub mod budget;
pub mod plan;
pub mod policy;
pub mod render;
pub mod session;
pub mod summary;
pub mod thread;
pub mod wire;
