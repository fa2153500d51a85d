//! Tokens and the budget: what a prompt costs and what it may cost.

mod tokens;

pub use tokens::{Count, CountSource, TokenCounter, Tokens};
