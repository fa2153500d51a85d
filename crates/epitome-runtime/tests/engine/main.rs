//! The engine through its one door, on the store in memory and on SQLite: threads that last and are compacted.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr, reason = "this is a test")]

mod back;
mod basics;
mod faults;
mod overflow;
mod real_model;
mod summaries;
mod tenants;
mod world;
