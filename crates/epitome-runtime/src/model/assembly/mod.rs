//! Assembly: an answer put together from the events of its stream, or read whole.
//!
//! What is put together can be appended to the thread as it is. Half an answer is an error, never an answer.

mod anthropic;
mod chat;
mod merge;
mod reader;
mod responses;

use serde_json::Value;

use super::protocol::Protocol;
use super::refusal::{refused_within, said_nothing};
use super::{Hear, ModelAnswer, ModelError, StreamPiece, Usage};
use anthropic::AnthropicAssembly;
use chat::ChatAssembly;
use responses::ResponsesAssembly;

pub use reader::AnswerReader;

/// The state of a stream after one of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    Done,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StreamEvent<'a> {
    /// Its name; `message` where it has none.
    pub(super) name: &'a str,
    pub(super) data: &'a str,
}

impl StreamEvent<'_> {
    /// The event's data, or the error that it is.
    fn value(&self) -> Result<Value, ModelError> {
        let value: Value = serde_json::from_str(self.data).map_err(|error| garbled("an event is not JSON", &error))?;
        let holds_error = value.get("error").is_some_and(|error| !error.is_null());
        let is_error = self.name == "error" || value.get("type").and_then(Value::as_str) == Some("error");
        if holds_error || is_error { Err(refused_within(self.data)) } else { Ok(value) }
    }
}

/// The receiver of an answer's pieces, with a note whether it got any.
pub(super) struct Ears<'a, 'b> {
    hear: &'a mut Hear<'b>,
    heard: bool,
}

impl<'a, 'b> Ears<'a, 'b> {
    pub(super) fn new(hear: &'a mut Hear<'b>) -> Self {
        Ears { hear, heard: false }
    }

    pub(super) fn heard(&self) -> bool {
        self.heard
    }

    fn tell(&mut self, piece: &StreamPiece) {
        self.heard = true;
        (self.hear)(piece);
    }

    fn words(&mut self, text: &str, piece: fn(String) -> StreamPiece) {
        if !text.is_empty() {
            self.tell(&piece(text.to_owned()));
        }
    }

    fn call(&mut self, id: &str, name: &str) {
        self.tell(&StreamPiece::Call { id: id.to_owned(), name: name.to_owned() });
    }

    /// Tells an answer that was to come in pieces and came whole.
    pub(super) fn whole(&mut self, answer: &ModelAnswer) {
        self.words(&answer.text, StreamPiece::Text);
        for call in &answer.calls {
            self.call(&call.id, &call.name);
            self.words(&call.arguments, StreamPiece::Arguments);
        }
    }
}

/// An answer in the making.
#[derive(Debug)]
pub(super) enum Assembly {
    Chat(ChatAssembly),
    Responses(ResponsesAssembly),
    Anthropic(AnthropicAssembly),
}

impl Assembly {
    pub(super) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Chat => Assembly::Chat(ChatAssembly::default()),
            Protocol::Responses => Assembly::Responses(ResponsesAssembly::default()),
            Protocol::Anthropic => Assembly::Anthropic(AnthropicAssembly::default()),
        }
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: StreamEvent<'_>, ears: &mut Ears<'_, '_>) -> Result<Flow, ModelError> {
        match self {
            Assembly::Chat(chat) => chat.take(event, ears),
            Assembly::Responses(responses) => responses.take(event, ears),
            Assembly::Anthropic(anthropic) => anthropic.take(event, ears),
        }
    }

    /// Returns the usage that the provider has reported so far.
    pub(super) fn usage(&self) -> Option<Usage> {
        match self {
            Assembly::Chat(chat) => chat.usage(),
            Assembly::Responses(_) => None,
            Assembly::Anthropic(anthropic) => anthropic.usage(),
        }
    }

    /// Tells whether the answer is complete, whatever becomes of the rest of the stream.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Assembly::Chat(chat) => chat.is_whole(),
            Assembly::Responses(responses) => responses.is_whole(),
            Assembly::Anthropic(anthropic) => anthropic.is_whole(),
        }
    }

    /// Tells whether nothing has come yet.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Assembly::Chat(chat) => chat.is_empty(),
            Assembly::Responses(responses) => responses.is_empty(),
            Assembly::Anthropic(anthropic) => anthropic.is_empty(),
        }
    }

    /// The answer, at the end of the stream.
    pub(super) fn finish(self) -> Result<ModelAnswer, ModelError> {
        if self.is_empty() {
            return Err(said_nothing());
        }
        if !self.is_whole() {
            return Err(ModelError::Garbled("the stream ended in the middle of the answer".into()));
        }
        match self {
            Assembly::Chat(chat) => chat.finish(),
            Assembly::Responses(responses) => responses.finish(),
            Assembly::Anthropic(anthropic) => anthropic.finish(),
        }
    }
}

/// Reads an answer that came whole.
pub(super) fn whole(protocol: Protocol, body: &str) -> Result<ModelAnswer, ModelError> {
    let value: Value = serde_json::from_str(body).map_err(|error| garbled("it is not JSON", &error))?;
    let is_error = value.get("type").and_then(Value::as_str) == Some("error");
    let failed = value.get("status").and_then(Value::as_str) == Some("failed");
    if is_error || failed || value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(refused_within(body));
    }
    match protocol {
        Protocol::Chat => chat::whole(value),
        Protocol::Responses => responses::whole(body),
        Protocol::Anthropic => anthropic::whole(body),
    }
}

/// An answer that ended because the window was full; nothing said at all means that the prompt alone filled it.
fn or_overflow(answer: ModelAnswer, word: &str) -> Result<ModelAnswer, ModelError> {
    if answer.is_empty() && word == "model_context_window_exceeded" {
        return Err(refused_within(&serde_json::json!({ "stop_reason": word }).to_string()));
    }
    Ok(answer)
}

/// An answer that cannot be read. The parser names a place, never what stands there.
fn garbled(what: &str, error: &serde_json::Error) -> ModelError {
    ModelError::Garbled(format!("{what}: {error}"))
}

fn str_at<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
