//! Tokens and the budget: what a prompt costs and what it may cost.

mod meter;
mod tokens;

pub use meter::Meter;
pub use tokens::{Count, CountSource, TokenCounter, Tokens};

/// Placeholder until the overhead module lands.
pub fn image_size(_: &str) -> Option<(u32, u32)> { None }
/// Placeholder until the overhead module lands.
pub fn image_tokens(_: Option<(u32, u32)>) -> Tokens { Tokens::new(1000) }
