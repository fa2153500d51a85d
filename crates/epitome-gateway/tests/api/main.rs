//! The API: every endpoint of its document, on a gateway with threads of two tenants in it.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]

mod document;
#[allow(dead_code, reason = "the tests of serving use the rest")]
#[path = "../serve/fixture.rs"]
mod fixture;
mod reading;
mod schema;
mod streams;
mod tenants;
mod world;
