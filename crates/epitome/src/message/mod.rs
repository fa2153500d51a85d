//! Messages as data: roles, parts, media, tool results, and the raw JSON that each came as.
//!
//! The lowest folder. The wire decodes into these types, the budget counts them, and a thread gives them ids and places;
//! [`crate::thread`] is the public path to them.

mod envelope;
mod harness;
mod media;
mod media_bytes;
mod new_message;
mod part;
mod raw;
mod said_in_result;

pub use envelope::{Determinism, Durability, Outcome, ResultForm, ToolResult};
pub(crate) use harness::{
    HarnessText, Speaker, is_codex_context, is_user_command, outside_reminders, own_words, pieces,
};
pub use media::{Extent, ImageDetail, ImageSize, Media, MediaKind, MediaSource};
pub(crate) use media_bytes::{BASE64_CHARS_MIN, decode_base64, extent_of, is_base64, media_type_of};
pub use new_message::{NewMessage, Role};
pub use part::{Opaque, Part, Reasoning, Seal, ToolCall};
pub use raw::Raw;
pub(crate) use raw::offset_range;
pub(crate) use said_in_result::{SaidInResult, is_rejected, said_in_result};
