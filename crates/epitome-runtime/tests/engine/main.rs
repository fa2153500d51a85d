//! The engine through its one door, on the store in memory and on SQLite: threads that last and are compacted.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr, reason = "this is a test")]

mod back;
mod basics;
mod commit;
mod embedder;
mod faults;
mod jobs;
mod limits;
mod meaning;
mod notes;
mod overflow;
mod properties;
mod reading;
mod real_embeddings;
mod real_model;
mod rounds;
mod saving;
mod sharing;
mod summaries;
mod tenants;
mod world;

#[path = "../../../epitome/tests/proof/forall.rs"]
mod forall;
#[allow(dead_code, unused_imports, reason = "the core's tests use the rest")]
#[path = "../../../epitome/tests/proof/generate/mod.rs"]
mod generate;
