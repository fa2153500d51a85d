//! The gateway: stands in front of any provider, so that an agent's prompt never outgrows its window.
//!
//! ```text
//! client ──► proxy ──► identity ──► (plan) ──► upstream ──► stream ──► client
//!               │          │                                  │
//!               │          └ which thread is this?            └ usage ──► ledger
//!               └ under budget: the very bytes
//! ```
//!
//! It fails open: whatever breaks in here, the provider gets the request that the client sent.

pub mod api;
mod body_memory;
pub mod caller;
pub mod identity;
pub mod ledger;
pub mod mcp;
pub mod policy;
pub mod proxy;
pub mod refusal;
mod running;
pub mod serve;
pub mod settings;
pub mod sse;
pub mod tools;
mod upstream;
pub mod weave;

pub use running::{RunningGateway, StopReport};
