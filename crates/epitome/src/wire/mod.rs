//! The wire: requests and message lists of four dialects, decoded into messages and written back byte for byte.

mod binding;
mod cache_mark;
mod check;
mod compose;
mod decode;
mod dialect;
mod document;
mod media;
mod prompt_message;
mod splice;

pub use binding::{BINDING_HEADER, binds_thinking};
pub use cache_mark::{MarkLifetime, cache_marks, unmarked};
pub use check::{LastExchange, Place, Reach, Rule, Severity, Violation, check};
pub(crate) use compose::{PartEdit, edit};
pub use compose::{Voice, item_id, say, without_id};
pub use decode::{decode_message, media_in};
pub use dialect::Dialect;
pub use document::{Document, DocumentError, Layout};
pub use media::media;
pub use prompt_message::PromptMessage;
pub use splice::{RawFields, extend_list, has_letter_escapes, may_spell, set_field, splice, without_field};
