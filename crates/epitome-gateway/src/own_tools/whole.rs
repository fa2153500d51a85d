//! Answers that come whole: what several of them say, in the last one's body.

use bytes::Bytes;
use epitome::wire::{Dialect, set_field, splice, without_field};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::OwnNames;
use super::anthropic::{BlockHead, message_binds, stopped as stopped_message};
use super::chat::stopped as stopped_choice;
use super::edit::{elements, fields, list};
use super::inject::tool_name;
use super::responses::{shown_items, without_own_tools};

/// The contents of earlier answers, and the body of the current one.
#[derive(Debug)]
pub(super) struct WholeAnswer {
    dialect: Dialect,
    body: Bytes,
    /// Blocks or items of earlier answers, as JSON.
    earlier: Vec<String>,
    /// Texts of earlier answers, by the field of the message that held them.
    words: Map<String, Value>,
    /// True if an earlier answer was withheld.
    later: bool,
}

/// The fields of a Chat message that hold words.
const WORDS: [&str; 3] = ["content", "reasoning_content", "reasoning"];

impl WholeAnswer {
    pub(super) fn new(dialect: Dialect) -> Self {
        WholeAnswer { dialect, body: Bytes::new(), earlier: Vec::new(), words: Map::new(), later: false }
    }

    pub(super) fn take(&mut self, body: Bytes) {
        self.body = body;
    }

    pub(super) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }

    /// Keeps what the answer at hand says, for the one that follows it.
    pub(super) fn next_answer(&mut self, own: &OwnNames) {
        let body = std::mem::take(&mut self.body);
        let body = std::str::from_utf8(&body).unwrap_or_default();
        match self.dialect {
            Dialect::Anthropic => self.earlier = self.blocks(body, own),
            Dialect::Responses => self.earlier = self.items(body, own),
            Dialect::Chat | Dialect::AiSdk => self.words = self.said(body),
        }
        self.later = true;
    }

    /// The body that the client gets.
    pub(super) fn release(&mut self, own: &OwnNames) -> Bytes {
        let joined = self.text().and_then(|body| match self.dialect {
            Dialect::Anthropic => self.message(body, own),
            Dialect::Responses => self.response(body, own),
            Dialect::Chat | Dialect::AiSdk => self.completion(body, own),
        });
        joined.map_or_else(|| self.body.clone(), Bytes::from)
    }

    fn message(&self, body: &str, own: &OwnNames) -> Option<String> {
        let blocks = self.blocks(body, own);
        let told = content_of(body)?;
        if are(&blocks, told) {
            return None;
        }
        let joined = splice(body, told, &list(&blocks));
        let calls = elements(told)
            .iter()
            .any(|block| BlockHead::read(block.get()).is_some_and(|block| block.is_call() && !block.is_own(own)));
        Some(if calls { joined } else { stopped_message(&joined) })
    }

    /// The client's blocks by now.
    fn blocks(&self, body: &str, own: &OwnNames) -> Vec<String> {
        let binds = message_binds(body);
        let mut behind_own = self.later;
        let mut blocks = self.earlier.clone();
        for block in elements(content_of(body).unwrap_or("[]")) {
            let head = BlockHead::read(block.get());
            let is_own = head.as_ref().is_some_and(|block| block.is_own(own));
            behind_own |= is_own;
            let is_bound = binds && behind_own && head.is_some_and(|block| block.is_thinking());
            if !is_own && !is_bound {
                blocks.push(block.get().to_owned());
            }
        }
        blocks
    }

    fn response(&self, body: &str, own: &OwnNames) -> Option<String> {
        let told = fields(body)?.get("output")?.get();
        let items = self.items(body, own);
        let joined = if are(&items, told) { body.to_owned() } else { splice(body, told, &list(&items)) };
        Some(without_own_tools(&joined, own))
    }

    /// The client's items by now.
    fn items(&self, body: &str, own: &OwnNames) -> Vec<String> {
        let output = fields(body).and_then(|body| body.get("output")).map_or("[]", RawValue::get);
        let shown = shown_items(&elements(output), own).into_iter().map(str::to_owned);
        self.earlier.iter().cloned().chain(shown).collect()
    }

    fn completion(&self, body: &str, own: &OwnNames) -> Option<String> {
        let choice = first_choice(body)?;
        let message = fields(choice)?.get("message")?.get();
        let calls = elements(fields(message)?.get("tool_calls").map_or("[]", RawValue::get));
        let is_own = |call: &str| {
            let is_function = fields(call).is_some_and(|call| call.get("function").is_some());
            is_function && tool_name(call).is_some_and(|name| own.has(&name))
        };
        let theirs: Vec<&str> = calls.iter().map(|call| call.get()).filter(|call| !is_own(call)).collect();
        if !self.later && theirs.len() == calls.len() {
            return None;
        }
        let mut shown = message.to_owned();
        for (name, value) in &self.said(body) {
            shown = set_field(&shown, name, &value.to_string());
        }
        if theirs.len() < calls.len() {
            shown = if theirs.is_empty() {
                without_field(&shown, "tool_calls")
            } else {
                set_field(&shown, "tool_calls", &list(&theirs))
            };
        }
        let joined = splice(choice, message, &shown);
        Some(splice(body, choice, &if theirs.is_empty() { stopped_choice(&joined) } else { joined }))
    }

    /// The words of all answers by now, where any were said.
    fn said(&self, body: &str) -> Map<String, Value> {
        let mut words = self.words.clone();
        let message = first_choice(body).and_then(|choice| Some(fields(choice)?.get("message")?.get()));
        let Some(message) = message.and_then(fields) else { return words };
        for name in WORDS {
            let Some(Ok(more)) = message.get(name).map(|value| serde_json::from_str::<String>(value.get())) else {
                continue;
            };
            let before = words.get(name).and_then(Value::as_str).unwrap_or_default();
            words.insert(name.to_owned(), Value::from(format!("{before}{more}")));
        }
        words
    }
}

/// True if these are the elements of a list.
fn are(texts: &[String], told: &str) -> bool {
    let told = elements(told);
    told.len() == texts.len() && told.iter().zip(texts).all(|(told, text)| told.get() == text)
}

fn content_of(message: &str) -> Option<&str> {
    fields(message)?.get("content").map(RawValue::get)
}

fn first_choice(body: &str) -> Option<&str> {
    elements(fields(body)?.get("choices")?.get()).first().map(|choice| choice.get())
}
