//! The mock provider, through its one door: a request goes in, a status and a body come out.
#![allow(clippy::unwrap_used)]

mod bench;
mod cache;
mod embeddings;
mod rules;
mod seals;
mod shapes;
mod streams;
mod transport;
mod work;
