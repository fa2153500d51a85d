//! The thread: an append-only log of messages, with its exchanges, turns and legal cuts.

mod chain;
mod envelope;
mod evicted;
mod exchange;
mod harness;
mod log;
mod media;
mod message;
mod raw;

pub use chain::Chain;
pub use envelope::{Determinism, Durability, Outcome, ResultForm, ToolResult};
pub use evicted::{Evicted, Restored};
pub use exchange::{Cut, Exchange, Span};
pub use harness::{HarnessText, Speaker, own_words, pieces};
pub(crate) use harness::{is_codex_context, outside_reminders};
pub use log::Thread;
pub use media::{Extent, Media, MediaKind, MediaSource};
pub use message::{Message, MessageId, NewMessage, Opaque, Part, Reasoning, Role, Seal, ToolCall};
pub use raw::Raw;
pub(crate) use raw::offset_range;
