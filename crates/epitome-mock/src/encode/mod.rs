//! Encodes a reply in each protocol: as one JSON object, or as a stream of events in the real provider's order.
//!
//! It decides nothing about the content of a reply.

mod anthropic;
mod chat;
mod gemini;
mod responses;

pub(super) use responses::{compacted, output_items};

use serde_json::Value;

use super::endpoint::ProviderProtocol;
use super::reply::{ModelReply, ReplyUsage};
use super::request::MockRequest;

/// The creation time in every answer, fixed so that answers are the same on every run.
pub(super) const CREATED: u64 = 1_767_225_600;

/// Encodes a reply as the protocol of its request.
pub(super) struct AnswerEncoder<'a> {
    pub(super) request: &'a MockRequest,
    pub(super) reply: &'a ModelReply,
    pub(super) usage: ReplyUsage,
}

/// One server-sent event, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SseFrame {
    pub(super) text: String,
    /// True if it carries a token, and waits for the time between tokens.
    pub(super) is_token: bool,
}

impl SseFrame {
    /// A `data:` line.
    pub(super) fn data(value: &Value) -> SseFrame {
        SseFrame { text: format!("data: {value}\n\n"), is_token: false }
    }

    /// An event named after its type.
    pub(super) fn event(value: &Value) -> SseFrame {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        SseFrame { text: format!("event: {kind}\ndata: {value}\n\n"), is_token: false }
    }

    /// Any text.
    pub(super) fn raw(text: impl Into<String>) -> SseFrame {
        SseFrame { text: text.into(), is_token: false }
    }

    /// The same, carrying a token.
    fn token(self) -> SseFrame {
        SseFrame { is_token: true, ..self }
    }
}

impl AnswerEncoder<'_> {
    /// The answer as one JSON object.
    pub(super) fn whole(&self) -> Value {
        match self.request.protocol() {
            ProviderProtocol::Chat => chat::whole(self),
            ProviderProtocol::Responses => responses::whole(self),
            ProviderProtocol::Anthropic => anthropic::whole(self),
            ProviderProtocol::Gemini => gemini::whole(self),
        }
    }

    /// The answer as the events of a stream.
    pub(super) fn frames(&self) -> Vec<SseFrame> {
        match self.request.protocol() {
            ProviderProtocol::Chat => chat::frames(self),
            ProviderProtocol::Responses => responses::frames(self),
            ProviderProtocol::Anthropic => anthropic::frames(self),
            ProviderProtocol::Gemini => gemini::frames(self),
        }
    }
}
