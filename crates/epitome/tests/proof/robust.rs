//! No input makes a decoder panic: the bounded run of the fuzz targets in `fuzz/`, on the stable toolchain.

use epitome::policy::{Policy, Preset};
use epitome::session::{Format, ReadOptions, Session};
use epitome::thread::Raw;
use epitome::wire::{Dialect, Document, PromptMessage, decode_message};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::claims::hold;
use crate::forall::forall;
use crate::generate::{document, script, style};

const FORMATS: [Format; 4] = [Format::PiEvents, Format::PiTree, Format::ClaudeCode, Format::Codex];

/// Words that decoders look for.
const WORDS: &[&str] = &[
    "",
    " ",
    "user",
    "assistant",
    "tool",
    "system",
    "developer",
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "function_call",
    "function_call_output",
    "reasoning",
    "message",
    "tool-call",
    "tool-result",
    "compaction",
    "session",
    "summary",
    "compact_boundary",
    "response_item",
    "compacted",
    "turn_context",
    "event_msg",
    "data:image/png;base64,AAAA",
    "{}",
    "a",
    "\u{0}",
    "🏳️‍🌈",
];
const FIELDS: &[&str] = &[
    "role",
    "content",
    "type",
    "id",
    "call_id",
    "tool_use_id",
    "tool_call_id",
    "toolCallId",
    "toolName",
    "name",
    "input",
    "output",
    "text",
    "signature",
    "tool_calls",
    "function",
    "arguments",
    "cache_control",
    "encrypted_content",
    "messages",
    "uuid",
    "parentUuid",
    "message",
    "parentId",
    "firstKeptEntryId",
    "payload",
    "timestamp",
    "isSidechain",
    "subtype",
    "source",
    "data",
    "image_url",
    "summary",
    "replacement_history",
];

/// Any JSON made of words that decoders know.
fn known_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        6 => select(WORDS).prop_map(|word| json!(word)),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            3 => prop::collection::vec((select(FIELDS), inner), 0..7)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Texts near what decoders read: JSON, lines of JSON, documents cut off or with bytes exchanged, and plain noise.
fn texts() -> impl Strategy<Value = String> {
    let lines = prop::collection::vec(known_json(), 0..8)
        .prop_map(|values| values.iter().map(|value| format!("{value}\n")).collect::<String>());
    let list = prop::collection::vec(known_json(), 0..8).prop_map(|values| Value::Array(values).to_string());
    let written = (script(), select(&Dialect::ALL[..]), style())
        .prop_map(|(script, dialect, style)| document(&script, dialect, style));
    let damaged = (written, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, at, byte)| {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match byte % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] = byte,
            _ => bytes.insert(at, byte),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let noise =
        prop::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    prop_oneof![2 => lines.boxed(), 2 => list.boxed(), 2 => known_json().prop_map(|value| value.to_string()).boxed(), 2 => damaged.boxed(), 1 => noise.boxed()]
}

#[test]
fn no_text_makes_a_document_panic_and_what_is_read_is_written_back() {
    forall(1500, &(texts(), prop::option::of(select(&Dialect::ALL[..]))), |(text, dialect)| {
        let Ok(document) = Document::decode(&text, dialect) else { return Ok(()) };
        let kept: Vec<PromptMessage> = (0..document.items().len()).map(PromptMessage::Kept).collect();
        hold!(document.encode(&kept) == text, "other bytes");
        hold!(document.messages().len() == kept.len(), "a message went missing");
        let _ = document.encode(&kept[..kept.len() / 2]);
        Ok(())
    });
}

#[test]
fn no_text_makes_a_session_panic_and_every_line_is_carried() {
    forall(
        1500,
        &(texts(), prop::option::of(select(&FORMATS[..])), any::<bool>()),
        |(text, format, skip_bad_lines)| {
            if let Ok(session) = Session::read(&text, &ReadOptions { format, skip_bad_lines }) {
                hold!(session.source().as_str() == text, "other bytes");
                hold!(session.messages().len() == session.context().len(), "a message went missing");
            }
            Ok(())
        },
    );
}

#[test]
fn no_json_makes_a_message_panic_and_its_raw_text_stays() {
    forall(1500, &(known_json(), select(&Dialect::ALL[..])), |(value, dialect)| {
        let raw = Raw::whole(value.to_string());
        hold!(decode_message(dialect, &raw).raw == raw, "other bytes");
        Ok(())
    });
}

#[test]
fn no_text_makes_a_policy_panic_and_a_damaged_preset_is_read_or_refused_with_a_sentence() {
    let damaged = (
        select(&Preset::ALL[..]),
        any::<prop::sample::Index>(),
        prop_oneof!["[a-z_.=\\[\\]\"0-9 \n-]{0,12}", ".{0,6}"],
    );
    forall(600, &damaged, |(preset, at, noise)| {
        let at = at.index(preset.toml.len());
        let at = (0..=at).rev().find(|at| preset.toml.is_char_boundary(*at)).unwrap_or(0);
        if let Err(error) = Policy::parse(&format!("{}{noise}{}", &preset.toml[..at], &preset.toml[at..])) {
            hold!(!error.to_string().is_empty(), "an error without words");
        }
        let _ = Policy::parse(&noise);
        Ok(())
    });
}
