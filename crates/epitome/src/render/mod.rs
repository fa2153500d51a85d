//! Rendering: a thread under a compaction becomes a prompt. Same thread, same compaction: same bytes.
//!
//! Kept messages are passed through byte for byte. What a dialect forbids is never written, whatever the policy says.

mod layout;
mod prompt;
mod repair;
mod stand_in;

pub use layout::layout;
pub(crate) use prompt::said_in;
pub use prompt::{Prompt, Rehydrated, render};
pub(crate) use repair::repaired_tokens;
pub(crate) use stand_in::{is_stand_in, stand_in};
