//! Serving: what clients, operators and attackers see of the port itself.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]

mod fixture;
mod limits;
mod lock;
mod probes;
mod stopping;
mod tls;
