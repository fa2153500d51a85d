//! Everything of epitome that touches the world: what lasts, who is asked, what runs in the background.
//!
//! The core decides, as data; this crate performs. A [`store`] keeps threads, plans and jobs; a [`model`] answers
//! requests for summaries; an [`event`] tells whoever listens; the [`engine`] is the one type that a program uses.

pub mod artifact;

pub mod config;
pub mod engine;
pub mod event;
pub mod ids;
pub mod log;
pub mod model;
pub mod recall;
pub mod rehydrate;
pub mod store;
pub mod summarize;
mod tls;
pub mod upkeep;
pub mod vault;
