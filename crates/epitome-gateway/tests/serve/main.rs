//! Serving: what clients, operators and attackers see of the port itself.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]

#[allow(dead_code, reason = "the tests of the API use the rest")]
mod fixture;
mod limits;
mod lock;
mod probes;
mod stopping;
mod tls;
