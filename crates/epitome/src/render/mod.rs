//! Rendering: a thread under a compaction becomes a prompt. Same thread, same compaction: same bytes.
//!
//! Kept messages are passed through byte for byte. What a dialect forbids is never written, whatever the policy says.

mod layout;
mod prompt;
mod stand_in;
mod validity;

pub use layout::layout;
pub(crate) use prompt::prompt_words;
pub use prompt::{Piece, Prompt, Rehydrated, render};
pub use stand_in::stand_in;
