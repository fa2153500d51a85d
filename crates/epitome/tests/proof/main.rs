//! The proof: the invariants of the design, over generated threads, recordings, golden prompts and what the presets promise.

#![allow(missing_docs, clippy::print_stderr, reason = "this is a test")]

mod claims;
mod continuation;
mod drift;
mod forall;
mod generate;
mod golden;
mod harness;
mod hundred_rounds;
mod lists;
mod matching;
mod model_words;
mod outcomes;
mod presets;
mod promises;
mod properties;
mod protect;
mod recordings;
mod robust;
mod world;
