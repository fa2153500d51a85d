//! The thread: an append-only log of messages, with its exchanges, turns and legal cuts.

mod chain;
mod evicted;
mod exchange;
mod log;
mod message;

pub use chain::Chain;
pub use evicted::{EvictedRun, RestoredMessage};
pub use exchange::{Exchange, Span};
pub use log::Thread;
pub use message::{Message, MessageId};

pub use crate::message::{
    Determinism, Durability, Extent, ImageDetail, ImageSize, Media, MediaKind, MediaSource, NewMessage, Opaque,
    Outcome, Part, Raw, Reasoning, ResultForm, Role, Seal, ToolCall, ToolResult,
};
pub(crate) use crate::message::{HarnessText, Speaker, own_words, pieces};
