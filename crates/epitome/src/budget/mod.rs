//! Tokens and the budget: what a prompt costs and what it may cost.

mod bpe;
mod cut;
mod estimate;
mod tokens;

pub use bpe::Bpe;
pub use cut::{tail, truncate};
pub use estimate::{Characters, Estimate};
pub use tokens::{Count, CountSource, TokenCounter, Tokens};
