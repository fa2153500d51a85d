//! Messages: one message for the client out of the events of several, its blocks numbered through.
//!
//! A thinking block that stands behind one of the gateway's calls is bound, on models that bind thinking, to a
//! conversation that the client does not have: sent back it would be refused. Such blocks are withheld from the client
//! on those models; the follow-up holds them all the same.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use epitome::wire::{binds_thinking, set_field, splice};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OwnNames;
use super::edit::{edit_field, fields, new_event, replace_field, text_at, with_data};
use crate::sse::Event;

/// The parts of a message that the client was sent, and those of the current answer that are withheld.
#[derive(Debug, Default)]
pub(super) struct AnthropicStream {
    started: bool,
    binds: bool,
    /// The index of the client's next block.
    next: u64,
    /// The fate of each block of this answer.
    fates: HashMap<u64, Fate>,
    /// True if this answer calls one of ours, and one of the client's.
    own: bool,
    theirs: bool,
    /// True if any answer has called one of ours.
    behind_own: bool,
    /// The provider's count of this answer's prompt, if the client was not sent it.
    prompt: Option<Value>,
    held: Vec<Event>,
    /// True if the client was sent the end.
    pub(super) ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The client has it, as its block of this index.
    Shown(u64),
    Hidden,
}

/// An event, as far as it is read.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

/// A content block, as far as it is read.
#[derive(Deserialize)]
pub(super) struct BlockHead<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

impl BlockHead<'_> {
    pub(super) fn read(block: &str) -> Option<BlockHead<'_>> {
        serde_json::from_str(block).ok()
    }

    pub(super) fn is_own(&self, own: &OwnNames) -> bool {
        self.is_call() && own.has(&self.name)
    }

    pub(super) fn is_call(&self) -> bool {
        self.r#type == "tool_use"
    }

    pub(super) fn is_thinking(&self) -> bool {
        matches!(&*self.r#type, "thinking" | "redacted_thinking")
    }
}

/// The end of a message that calls no tool of the client's, which it does not stop for.
pub(super) fn stopped(delta: &str) -> String {
    match text_at(delta, "stop_reason").as_deref() {
        Some("tool_use") => replace_field(delta, "stop_reason", r#""end_turn""#),
        _ => delta.to_owned(),
    }
}

/// True if the model of a message binds its thinking to the messages before it.
pub(super) fn message_binds(message: &str) -> bool {
    text_at(message, "model").is_some_and(|model| binds_thinking(&model))
}

impl AnthropicStream {
    pub(super) fn take(&mut self, event: &Event, data: &str, own: &OwnNames) -> Vec<Bytes> {
        let Ok(head) = serde_json::from_str::<Head<'_>>(data) else { return vec![event.raw.clone()] };
        match &*head.r#type {
            "message_start" => self.start(event, head.message.map_or("{}", RawValue::get)),
            "content_block_start" => self.block(event, data, &head, own),
            "message_delta" | "message_stop" => self.end(event, data),
            _ if head.index.is_some() => self.within(event, data, &head),
            _ => vec![event.raw.clone()],
        }
    }

    pub(super) fn calls_own(&self) -> bool {
        self.own
    }

    pub(super) fn next_answer(&mut self) {
        self.held.clear();
        self.fates.clear();
        self.own = false;
        self.theirs = false;
    }

    pub(super) fn release(&mut self) -> Vec<Bytes> {
        let theirs = self.theirs;
        self.ended |= !self.held.is_empty();
        let shown = |event: Event| match event.text() {
            Some(data) if !theirs => with_data(&event, &edit_field(data, "delta", stopped)),
            _ => event.raw,
        };
        self.held.drain(..).map(shown).collect()
    }

    /// The error that a stream of this kind ends with.
    pub(super) fn failure(error: &Value) -> Bytes {
        let kind = error.get("type").and_then(Value::as_str).unwrap_or("api_error");
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        new_event("error", &json!({"type": "error", "error": {"type": kind, "message": message}}).to_string())
    }

    fn start(&mut self, event: &Event, message: &str) -> Vec<Bytes> {
        self.binds = message_binds(message);
        if !std::mem::replace(&mut self.started, true) {
            return vec![event.raw.clone()];
        }
        self.prompt = fields(message).and_then(|fields| serde_json::from_str(fields.get("usage")?.get()).ok());
        Vec::new()
    }

    fn block(&mut self, event: &Event, data: &str, head: &Head<'_>, own: &OwnNames) -> Vec<Bytes> {
        let Some(index) = head.index.and_then(|index| index.get().parse().ok()) else { return vec![event.raw.clone()] };
        let block = head.content_block.and_then(|block| BlockHead::read(block.get()));
        let is_own = block.as_ref().is_some_and(|block| block.is_own(own));
        self.own |= is_own;
        self.theirs |= !is_own && block.as_ref().is_some_and(BlockHead::is_call);
        self.behind_own |= is_own;
        let is_bound = self.binds && self.behind_own && block.is_some_and(|block| block.is_thinking());
        let fate = if is_own || is_bound {
            Fate::Hidden
        } else {
            self.next += 1;
            Fate::Shown(self.next - 1)
        };
        self.fates.insert(index, fate);
        self.within(event, data, head)
    }

    /// An event of a block: with the client's index, or not at all.
    fn within(&self, event: &Event, data: &str, head: &Head<'_>) -> Vec<Bytes> {
        let Some((json, index)) = head.index.and_then(|json| Some((json.get(), json.get().parse::<u64>().ok()?)))
        else {
            return vec![event.raw.clone()];
        };
        match self.fates.get(&index) {
            Some(Fate::Hidden) => Vec::new(),
            Some(Fate::Shown(shown)) if *shown != index => {
                vec![with_data(event, &splice(data, json, &shown.to_string()))]
            }
            _ => vec![event.raw.clone()],
        }
    }

    fn end(&mut self, event: &Event, data: &str) -> Vec<Bytes> {
        let event = match self.with_prompt(data) {
            Some(data) => Event::read(with_data(event, &data)),
            None => event.clone(),
        };
        if self.own {
            self.held.push(event);
            return Vec::new();
        }
        self.ended = true;
        vec![event.raw]
    }

    /// The end with what the provider counted of the last prompt, which the client was not sent with the start.
    fn with_prompt(&self, data: &str) -> Option<String> {
        const COUNTS: [&str; 3] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        let prompt = self.prompt.as_ref()?;
        let usage = fields(data)?.get("usage")?.get();
        let told = fields(usage)?;
        let absent = |name: &&&str| told.get(name).is_none_or(|value| value.get() == "null");
        let missing = COUNTS.iter().filter(absent).filter_map(|name| Some((name, prompt.get(name)?)));
        let whole = missing.fold(usage.to_owned(), |usage, (name, value)| set_field(&usage, name, &value.to_string()));
        Some(splice(data, usage, &whole))
    }
}
