//! The proxy, end to end: a client, the gateway on a port of its own, and the strict mock provider behind it.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]

mod failing;
mod faults;
mod forks;
mod identity;
mod isolation;
mod keys;
mod ledger;
mod marks;
mod media;
mod natively;
mod notes;
mod over;
mod overflow;
mod own_tools;
mod persisting;
mod rounds;
mod sealing;
mod size;
mod talk;
mod under;
mod windows;
mod wire;
mod wishes;
mod world;
