//! The mock provider, through its one door: a request goes in, a status and a body come out.

mod bench;
mod cache;
mod rules;
mod seals;
mod shapes;
mod streams;
mod transport;
mod work;
