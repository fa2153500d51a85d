//! The Merkle chain: a message's id is the hash of its parent's id and its own meaning.
//!
//! Cache marks, key order, volatile provider ids and the dialect's way of writing things stay out of the hash, so the
//! same conversation has the same ids however it was sent.

use std::collections::HashMap;

use blake3::Hasher;
use serde_json::Value;

use super::message::MessageId;
use crate::message::{Media, NewMessage, Part, Role};

/// Keys that say how to treat content, not what it is.
const MARKS: [&str; 4] =
    ["cache_control", "prompt_cache_breakpoint", "providerOptions", "experimental_providerMetadata"];

/// Gives messages their ids, one after the other.
#[derive(Clone, Debug)]
pub struct Chain {
    tip: MessageId,
    calls: HashMap<Box<str>, u64>,
    calls_seen: u64,
}

impl Chain {
    /// A chain that goes on from a message.
    pub fn from(tip: MessageId) -> Self {
        Chain { tip, calls: HashMap::new(), calls_seen: 0 }
    }

    /// The id of the newest message.
    pub fn tip(&self) -> MessageId {
        self.tip
    }

    /// The id of the next message.
    pub fn push(&mut self, message: &NewMessage) -> MessageId {
        let mut hash = Hasher::new();
        hash.update(self.tip.as_bytes());
        hash.update(message.role.name().as_bytes());
        field(&mut hash, b'n', message.name.as_deref().unwrap_or_default());
        for part in &message.parts {
            self.part(&mut hash, message.role, part);
        }
        self.tip = MessageId::new(hash.finalize());
        self.tip
    }

    /// Goes on from a message whose id is known.
    pub(super) fn adopt(&mut self, message: &NewMessage, id: MessageId) {
        for part in &message.parts {
            if let Part::ToolCall(call) = part {
                self.note_call(&call.id);
            }
        }
        self.tip = id;
    }

    fn note_call(&mut self, id: &str) {
        self.calls_seen += 1;
        self.calls.insert(id.into(), self.calls_seen);
    }

    fn part(&mut self, hash: &mut Hasher, role: Role, part: &Part) {
        match part {
            Part::Text(text) if text.trim().is_empty() && role != Role::Other => {}
            Part::Text(text) => field(hash, b't', text),
            Part::Media(media) => media_content(hash, media),
            Part::Reasoning(_) => {}
            Part::ToolCall(call) => {
                self.note_call(&call.id);
                field(hash, b'c', &call.name);
                json_text(hash, &call.arguments);
            }
            Part::ToolResult(result) => {
                // Which call it answers, told without the provider's id: how many calls back.
                let back = self.calls.get(&result.call_id).map_or(0, |ordinal| self.calls_seen - ordinal + 1);
                hash.update(b"r").update(&back.to_le_bytes());
                field(hash, b'x', &result.text);
                for media in &result.media {
                    media_content(hash, media);
                }
            }
            Part::Opaque(opaque) => {
                field(hash, b'o', &opaque.kind);
                json_text(hash, opaque.json.as_str());
            }
        }
    }
}

fn field(hash: &mut Hasher, tag: u8, text: &str) {
    hash.update(&[tag]).update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}

/// A picture is the same however a dialect wraps it; anything else is what its JSON says.
fn media_content(hash: &mut Hasher, media: &Media) {
    if media.is_plain_image() {
        return field(hash, b'i', media.source.as_str());
    }
    field(hash, b'o', &media.shape);
    json_text(hash, media.json.as_str());
}

fn json_text(hash: &mut Hasher, text: &str) {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => canonical(hash, &value),
        Err(_) => field(hash, b'?', text),
    }
}

fn canonical(hash: &mut Hasher, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().filter(|key| !MARKS.contains(&key.as_str())).collect();
            keys.sort_unstable();
            hash.update(b"{").update(&(keys.len() as u64).to_le_bytes());
            for key in keys {
                field(hash, b'k', key);
                canonical(hash, &map[key]);
            }
        }
        Value::Array(items) => {
            hash.update(b"[").update(&(items.len() as u64).to_le_bytes());
            for item in items {
                canonical(hash, item);
            }
        }
        Value::String(text) => field(hash, b's', text),
        other => field(hash, b'v', &other.to_string()),
    }
}
