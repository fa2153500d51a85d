//! Tokens and the budget: what a prompt costs and what it may cost.
//!
//! A [`TokenCounter`] prices text; [`Overhead`] and [`ImageRule`] price what is around and between it; [`Model`] and
//! [`Window`] say how much there may be; [`Threshold`] says when it is too much; [`CountFactor`] and
//! [`classify`] learn from what the provider answered.

mod bpe;
mod calibration;
mod cautious;
mod cut;
mod estimate;
mod image;
mod media;
mod meter;
mod models;
mod overflow;
mod overhead;
mod phrase;
mod recount;
mod scaled;
mod settled;
mod threshold;
#[cfg(feature = "tokenizer-json")]
mod tokenizer_json;
mod tokens;
mod windows;

pub use bpe::Bpe;
pub use calibration::CountFactor;
pub use cautious::CautiousCounter;
pub(crate) use cut::longest;
pub use cut::truncate;
pub use estimate::{Characters, Estimate};
pub use image::ImageRule;
pub use meter::Meter;
pub use models::{FALLBACK_WINDOW, Known, Model, ModelName, Tokenizer, UnknownCounter, counter_for, counter_named};
pub use overflow::{Overflow, classify, is_quoted};
pub use overhead::{FixedOverhead, Overhead};
pub(crate) use recount::Recount;
pub use scaled::ScaledCounter;
pub use settled::{ProvenWindow, SettledWindow, WindowHints, WindowProof, WindowSource};
pub use threshold::{Threshold, ThresholdError};
#[cfg(feature = "tokenizer-json")]
pub use tokenizer_json::{TokenizerJson, TokenizerJsonError};
pub use tokens::{Count, CountSource, TokenCounter, Tokens, UnknownAmount};
pub use windows::Window;
