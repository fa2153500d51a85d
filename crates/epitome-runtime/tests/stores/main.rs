//! What every store promises, on every store: the conformance suite, races between processes, crashes, and the same
//! answers from all of them.

#![allow(clippy::unwrap_used)]

mod away;
mod claims;
mod crash;
mod failures;
mod model;
mod place;
mod process;
mod race;
mod sample;
mod schema;
