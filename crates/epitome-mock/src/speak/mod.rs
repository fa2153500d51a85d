//! How each protocol writes an answer down: whole, or as the events of a stream, in the order of the real provider.
//!
//! What is said is decided elsewhere; a speaker only spells.

mod anthropic;
mod chat;
mod gemini;
mod responses;

pub(super) use responses::{compacted, output_items};

use serde_json::Value;

use super::asked::Asked;
use super::endpoint::Protocol;
use super::reply::{Reply, Usage};

/// The second at which everything is created: answers are the same on every run.
pub(super) const CREATED: u64 = 1_767_225_600;

/// An answer, ready to be written.
pub(super) struct Speech<'a> {
    pub(super) asked: &'a Asked,
    pub(super) reply: &'a Reply,
    pub(super) usage: Usage,
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) text: String,
    /// Whether it carries a token, and so takes its time.
    pub(super) is_token: bool,
}

impl Frame {
    /// A `data:` line.
    pub(super) fn data(value: &Value) -> Frame {
        Frame { text: format!("data: {value}\n\n"), is_token: false }
    }

    /// An event named after its type.
    pub(super) fn event(value: &Value) -> Frame {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        Frame { text: format!("event: {kind}\ndata: {value}\n\n"), is_token: false }
    }

    /// Any text.
    pub(super) fn raw(text: impl Into<String>) -> Frame {
        Frame { text: text.into(), is_token: false }
    }

    /// The same, carrying a token.
    fn token(self) -> Frame {
        Frame { is_token: true, ..self }
    }
}

impl Speech<'_> {
    /// The answer as one JSON object.
    pub(super) fn whole(&self) -> Value {
        match self.asked.protocol() {
            Protocol::Chat => chat::whole(self),
            Protocol::Responses => responses::whole(self),
            Protocol::Anthropic => anthropic::whole(self),
            Protocol::Gemini => gemini::whole(self),
        }
    }

    /// The answer as the events of a stream.
    pub(super) fn frames(&self) -> Vec<Frame> {
        match self.asked.protocol() {
            Protocol::Chat => chat::frames(self),
            Protocol::Responses => responses::frames(self),
            Protocol::Anthropic => anthropic::frames(self),
            Protocol::Gemini => gemini::frames(self),
        }
    }
}
