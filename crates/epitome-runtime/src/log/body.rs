//! The body of a message: a line that says what the JSON alone does not, then the JSON as it came, byte for byte.

use std::collections::BTreeMap;

use epitome::budget::Tokens;
use epitome::files::call_text;
use epitome::session::Format;
use epitome::thread::{Determinism, Durability, Media, Message, MessageId, NewMessage, Part, Raw, Role};
use epitome::wire::{Dialect, decode_message};
use serde::{Deserialize, Serialize};

use crate::ids::{Moment, ThreadId};
use crate::store::MessageRow;

/// The metadata of a tool result that the caller supplies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Envelope {
    /// The call that it answers.
    pub call_id: String,
    /// Fields that must survive any compaction.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub key_fields: BTreeMap<String, String>,
    /// The durability of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// The state of its source when it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub determinism: Option<Determinism>,
    /// When the call started and ended, in milliseconds of Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing_ms: Option<(i64, i64)>,
}

impl Envelope {
    /// Puts what is known into the message.
    pub fn apply(envelopes: &[Envelope], message: &mut NewMessage) {
        for part in &mut message.parts {
            let Part::ToolResult(result) = part else { continue };
            let Some(known) = envelopes.iter().find(|known| *known.call_id == *result.call_id) else { continue };
            result.key_fields.clone_from(&known.key_fields);
            result.durability = known.durability;
            result.determinism.clone_from(&known.determinism);
            result.timing_ms = known.timing_ms;
        }
    }
}

/// The first line of a body.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct BodyHeader {
    #[serde(rename = "e", skip_serializing_if = "Vec::is_empty")]
    envelopes: Vec<Envelope>,
    /// Of a message in a session's own format: who speaks, and what is said.
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    said: Option<(Role, String)>,
    /// The counter it was counted with, where that is not the thread's.
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    counter: Option<String>,
    /// The id, where the row has a blinded one.
    #[serde(rename = "i", skip_serializing_if = "Option::is_none")]
    id: Option<MessageId>,
}

/// A message of a log, opened.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Its place, from 0.
    pub place: u64,
    /// Its id.
    pub id: MessageId,
    /// Its id as it stands in the open: blinded where there is a key.
    pub stored: MessageId,
    /// Its turn.
    pub turn: u32,
    /// The tokens of each of its parts.
    pub part_tokens: Vec<Tokens>,
    /// The counter it was counted with, where that is not the thread's.
    pub counter: Option<String>,
    /// When it was appended.
    pub at: Moment,
    /// The message; its number is its place, counted from 1.
    pub message: NewMessage,
}

impl LogEntry {
    pub(super) fn read(row: MessageRow, plain: &[u8], dialect: &str) -> Option<LogEntry> {
        let text = std::str::from_utf8(plain).ok()?;
        let (head, json) = text.split_once('\n')?;
        let head: BodyHeader = if head == "{}" { BodyHeader::default() } else { serde_json::from_str(head).ok()? };
        let raw = Raw::whole(json);
        let mut message = match (head.said, dialect.parse::<Dialect>()) {
            (Some((role, words)), _) => said_in_session(role, words, dialect, &raw),
            (None, Ok(dialect)) => decode_message(dialect, &raw),
            (None, Err(_)) => return None,
        };
        Envelope::apply(&head.envelopes, &mut message);
        message.number = usize::try_from(row.place).ok().map(|place| place + 1);
        let MessageRow { place, id, turn, part_tokens, at, .. } = row;
        let (id, stored) = (head.id.unwrap_or(id), id);
        Some(LogEntry { place, id, stored, turn, part_tokens, counter: head.counter, at, message })
    }

    /// The body of a message in a session's own format.
    pub(super) fn foreign(&self, is_blinded: bool) -> Vec<u8> {
        let id = is_blinded.then_some(self.id);
        let head = BodyHeader { said: Some((self.message.role, self.words())), id, ..BodyHeader::default() };
        framed(&head, self.message.raw.as_str())
    }

    /// Everything that is said in it, tool calls and results included.
    pub fn words(&self) -> String {
        words_of(&self.message.parts)
    }
}

/// A message in a session's own format. Where its JSON does not tell its parts, as in an entry that stands for a compaction, its
/// words are one part.
fn said_in_session(role: Role, words: String, format: &str, raw: &Raw) -> NewMessage {
    let read = format.parse::<Format>().map(|format| format.decode(raw)).ok().filter(|read| !read.parts.is_empty());
    let parts = read.map_or_else(|| vec![Part::Text(words.into())], |read| read.parts);
    NewMessage::new(role, parts, raw.clone())
}

/// Everything that is said in a message's parts, tool calls and results included: what it is found by, and what its lines are
/// counted in.
pub fn words_of(parts: &[Part]) -> String {
    parts.iter().filter_map(part_words).collect::<Vec<_>>().join("\n")
}

/// Everything that is said in one part; `None` for a part that is never told.
pub fn part_words(part: &Part) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.to_string()),
        Part::ToolCall(call) => Some(call_text(call)),
        Part::ToolResult(result) => {
            let media = result.media.iter().map(media_words);
            Some(std::iter::once(result.text.to_string()).chain(media).collect::<Vec<_>>().join("\n"))
        }
        Part::Media(media) => Some(media_words(media)),
        Part::Reasoning(_) | Part::Opaque(_) => None,
    }
}

/// Media as it is found and told: its kind, name, type and size, and the words of a document that is words.
fn media_words(media: &Media) -> String {
    let named = format!("[{}: {media}]", media.kind.label());
    media.words().map_or(named.clone(), |words| format!("{named}\n{words}"))
}

/// The name under which a message is sealed.
pub(super) fn name(thread: &ThreadId, place: u64) -> String {
    format!("{thread}#{place}")
}

pub(super) fn written(
    message: &Message,
    envelopes: &[Envelope],
    counter: Option<&str>,
    id: Option<MessageId>,
) -> Vec<u8> {
    let answered = |known: &&Envelope| message.results().any(|(_, result)| *result.call_id == *known.call_id);
    let envelopes: Vec<Envelope> = envelopes.iter().filter(answered).cloned().collect();
    framed(&BodyHeader { envelopes, said: None, counter: counter.map(str::to_owned), id }, message.raw().as_str())
}

fn framed(head: &BodyHeader, raw: &str) -> Vec<u8> {
    let mut body = serde_json::to_vec(head).unwrap_or_else(|_| b"{}".to_vec());
    body.push(b'\n');
    body.extend_from_slice(raw.as_bytes());
    body
}

/// A body with the id in it, or without.
pub(super) fn with_id(plain: &[u8], id: Option<MessageId>) -> Option<Vec<u8>> {
    let (head, raw) = std::str::from_utf8(plain).ok()?.split_once('\n')?;
    let head: BodyHeader = serde_json::from_str(head).ok()?;
    Some(framed(&BodyHeader { id, ..head }, raw))
}
