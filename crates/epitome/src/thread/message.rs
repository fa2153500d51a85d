//! A message: one immutable entry of a thread, with its id, its turn and its counts.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::budget::Tokens;
use crate::message::{Media, NewMessage, Part, Raw, Role, ToolCall, ToolResult, own_words};

/// Identifies a message by its content and its place: the hash of its parent's id and its own canonical content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId([u8; 32]);

impl MessageId {
    /// The parent of every first message.
    pub const ROOT: MessageId = MessageId([0; 32]);

    pub(crate) fn new(hash: blake3::Hash) -> Self {
        MessageId(*hash.as_bytes())
    }

    /// The id of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        MessageId(bytes)
    }

    /// The bytes of the id.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads an id from its 64 hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(MessageId::new)
    }

    /// The first twelve hexadecimal digits: enough to tell messages of one thread apart.
    pub(crate) fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        MessageId::parse(&hex).ok_or_else(|| serde::de::Error::custom(format!("`{hex}` is not a message id")))
    }
}

/// One immutable entry of a thread.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) id: MessageId,
    pub(super) body: NewMessage,
    pub(super) turn: u32,
    pub(super) number: usize,
    pub(super) tokens: Tokens,
    pub(super) part_tokens: Vec<Tokens>,
    /// Whether a person says something in it; asked often, and told by its text alone.
    pub(super) opens_turn: bool,
}

impl Message {
    /// A message with its place in a thread; its turn is still to be told.
    pub(super) fn new(
        id: MessageId,
        body: NewMessage,
        number: usize,
        tokens: Tokens,
        part_tokens: Vec<Tokens>,
    ) -> Self {
        let opens_turn = body.opens_turn();
        Message { id, body, turn: 0, number, tokens, part_tokens, opens_turn }
    }

    /// The id: content and place.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// The message as it was before it had a place.
    pub(crate) fn body(&self) -> &NewMessage {
        &self.body
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        self.body.role
    }

    /// What is said.
    pub fn parts(&self) -> &[Part] {
        &self.body.parts
    }

    /// The JSON it came as.
    pub fn raw(&self) -> &Raw {
        &self.body.raw
    }

    /// The name of the speaker, where one is given.
    pub fn name(&self) -> Option<&str> {
        self.body.name.as_deref()
    }

    /// Whether this is what an earlier compaction left behind.
    pub fn is_summary(&self) -> bool {
        self.body.summary
    }

    /// The number that people and summaries call it by; 0 for what an earlier compaction left behind.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The turn it belongs to, from 1; 0 before the first user message.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// What it costs in a prompt, with what the provider adds.
    pub fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// What one part of it costs.
    pub fn part_tokens(&self, part: usize) -> Tokens {
        self.part_tokens.get(part).copied().unwrap_or_default()
    }

    /// Its words: text parts joined by newlines.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.texts().collect();
        texts.join("\n")
    }

    /// Its text parts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts().iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        })
    }

    /// What a person says in it: of a user message, its words without a harness's.
    pub(crate) fn own_text(&self) -> String {
        if self.role() != Role::User || self.is_summary() {
            return self.text();
        }
        let words: Vec<&str> = self.texts().flat_map(own_words).map(str::trim).collect();
        words.join("\n")
    }

    /// The tool calls in it.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts().iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results in it, each with its place among the parts.
    pub fn results(&self) -> impl Iterator<Item = (usize, &ToolResult)> {
        self.parts().iter().enumerate().filter_map(|(at, part)| match part {
            Part::ToolResult(result) => Some((at, result)),
            _ => None,
        })
    }

    /// The media in it, that of its tool results included.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.parts().iter().flat_map(Part::media)
    }

    /// Its place in the log that it is numbered by; the first for what an earlier compaction left behind.
    pub fn log_place(&self) -> usize {
        self.number.saturating_sub(1)
    }

    /// Whether a person says something in it: a user message that is not only tool results or a harness's text, nor a
    /// summary.
    pub fn opens_turn(&self) -> bool {
        self.opens_turn
    }
}
