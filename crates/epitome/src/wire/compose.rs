//! Composing messages: new ones, and kept ones with a part exchanged.
//!
//! What is not exchanged is spliced over byte for byte. Nothing here decides what to exchange.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Dialect;
use super::cache_mark::MarkLifetime;
use super::media::media;
use super::splice::{RawFields, extend_list, quoted, set_field, splice, without_field};
use crate::message::{NewMessage, Part, Raw, Role};

crate::named_enum! {
    /// In whose name a new message speaks.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Voice {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The operator.
        System = "system",
    }
}

/// What becomes of one part of a kept message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartEdit {
    /// The tool's answer reads differently; the call it answers stays.
    Result(String),
    /// The words of a tool's answer read differently; its media stay.
    ResultWords(String),
    /// Words stand in its place.
    Words(String),
    /// A call's arguments read differently; they are JSON.
    Arguments(String),
    /// It goes.
    Remove,
}

/// A new message of plain words.
pub fn say(dialect: Dialect, voice: Voice, text: &str) -> String {
    let role = voice.name();
    match (dialect, voice) {
        (Dialect::Responses, Voice::Assistant) => {
            json!({"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]})
        }
        (Dialect::Responses, _) => {
            json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
        }
        (Dialect::Anthropic, Voice::System) => json!({"role": "user", "content": text}),
        _ => json!({"role": role, "content": text}),
    }
    .to_string()
}

/// A kept message with some of its parts exchanged; `None` when nothing is left of it.
pub(crate) fn edit(dialect: Dialect, message: &NewMessage, edits: &[(usize, PartEdit)]) -> Option<String> {
    if let Some(json) = edit_whole(dialect, message, edits) {
        return json;
    }
    let called = edit_calls(dialect, message, edits);
    let raw = called.as_deref().unwrap_or(message.raw.as_str());
    let mut rest: Vec<(usize, PartEdit)> = match called {
        Some(_) => edits.iter().filter(|(_, edit)| !matches!(edit, PartEdit::Arguments(_))).cloned().collect(),
        None => edits.to_vec(),
    };
    let spoken = spoken_part(dialect, message);
    let silent = rest.iter().position(|(part, _)| Some(*part) == spoken).map(|at| rest.remove(at));
    match silent {
        Some((_, PartEdit::Words(text))) => edit_content(dialect, message, &without_audio(raw, &text), &rest),
        _ => edit_content(dialect, message, raw, &rest),
    }
}

/// The part that is what a Chat assistant said aloud: it stands beside the content, the last of all.
fn spoken_part(dialect: Dialect, message: &NewMessage) -> Option<usize> {
    let is_spoken = |part: &Part| matches!(part, Part::Media(media) if &*media.shape == "audio");
    let last = message.parts.len().checked_sub(1)?;
    (dialect == Dialect::Chat && message.role == Role::Assistant && is_spoken(&message.parts[last])).then_some(last)
}

/// A Chat message with words at the end of its content in the place of what was said aloud.
fn without_audio(raw: &str, text: &str) -> String {
    let raw = without_field(raw, "audio");
    let fields = serde_json::from_str::<RawFields<'_>>(&raw).ok();
    let content = fields.and_then(|fields| fields.get("content")).map(RawValue::get).unwrap_or("null");
    let words = match serde_json::from_str::<Value>(content) {
        Ok(Value::String(before)) => quoted(&format!("{before}\n{text}")),
        Ok(Value::Array(blocks)) if !blocks.is_empty() => {
            extend_list(content, &text_block(Dialect::Chat, Role::Assistant, text))
        }
        _ => quoted(text),
    };
    set_field(&raw, "content", &words)
}

/// The field beside the content in which a message keeps its calls: Chat's, and that of old versions of the AI SDK.
fn calls_field(dialect: Dialect, raw: &str) -> Option<&'static str> {
    match dialect {
        Dialect::Chat => Some("tool_calls"),
        Dialect::AiSdk => Some("toolCalls").filter(|field| block_has(raw, field)),
        Dialect::Responses | Dialect::Anthropic => None,
    }
}

/// The message with the arguments of calls exchanged that stand beside its content.
fn edit_calls(dialect: Dialect, message: &NewMessage, edits: &[(usize, PartEdit)]) -> Option<String> {
    let exchanged: Vec<(usize, &str)> = edits
        .iter()
        .filter_map(|(part, edit)| match edit {
            PartEdit::Arguments(json) => {
                let calls = message.parts[..*part].iter().filter(|part| matches!(part, Part::ToolCall(_)));
                Some((calls.count(), json.as_str()))
            }
            _ => None,
        })
        .collect();
    let raw = message.raw.as_str();
    let field = calls_field(dialect, raw).filter(|_| !exchanged.is_empty())?;
    let fields: RawFields<'_> = serde_json::from_str(raw).ok()?;
    let list = fields.get(field)?;
    let calls: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
    let written: Vec<String> = calls
        .iter()
        .enumerate()
        .map(|(at, call)| match exchanged.iter().find(|(call, _)| *call == at) {
            Some((_, arguments)) if dialect == Dialect::AiSdk => call_block(dialect, call.get(), arguments),
            Some((_, arguments)) => chat_call(call.get(), arguments),
            None => call.get().to_owned(),
        })
        .collect();
    Some(splice(raw, list.get(), &format!("[{}]", written.join(","))))
}

fn chat_call(call: &str, arguments: &str) -> String {
    let Ok(fields) = serde_json::from_str::<RawFields<'_>>(call) else { return call.to_owned() };
    match fields.get("function") {
        Some(function) => splice(call, function.get(), &set_field(function.get(), "arguments", &quoted(arguments))),
        None => call.to_owned(),
    }
}

fn edit_content(dialect: Dialect, message: &NewMessage, raw: &str, edits: &[(usize, PartEdit)]) -> Option<String> {
    if edits.is_empty() {
        return Some(raw.to_owned());
    }
    let fields: RawFields<'_> = serde_json::from_str(raw).ok()?;
    let Some(content) = fields.get("content") else { return Some(raw.to_owned()) };
    let blocks: Vec<&RawValue> = match serde_json::from_str(content.get()) {
        Ok(blocks) => blocks,
        Err(_) => return edit_string(raw, content, edits),
    };
    let first = first_block(dialect, message);
    let mut kept = Vec::with_capacity(blocks.len());
    for (at, block) in blocks.iter().enumerate() {
        match edits.iter().find(|(part, _)| *part == at + first) {
            None => kept.push(block.get().to_owned()),
            Some((_, PartEdit::Remove)) => {}
            Some((_, PartEdit::Words(text))) => kept.push(text_block(dialect, message.role, text)),
            Some((_, PartEdit::Result(text))) => kept.push(result_block(dialect, block.get(), text)),
            Some((_, PartEdit::ResultWords(text))) => kept.push(worded_block(dialect, block.get(), text)),
            Some((_, PartEdit::Arguments(json))) => kept.push(call_block(dialect, block.get(), json)),
        }
    }
    let has_calls = message.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    match (kept.is_empty(), has_calls && calls_field(dialect, raw).is_some()) {
        (true, false) => None,
        (true, true) => Some(splice(raw, content.get(), if dialect == Dialect::Chat { "null" } else { "\"\"" })),
        (false, _) => Some(splice(raw, content.get(), &format!("[{}]", kept.join(",")))),
    }
}

/// Messages that hold a single part outside a list of blocks.
fn edit_whole(dialect: Dialect, message: &NewMessage, edits: &[(usize, PartEdit)]) -> Option<Option<String>> {
    let raw = message.raw.as_str();
    let field = match (dialect, &message.parts[..]) {
        (Dialect::Chat, [Part::ToolResult(_)]) => "content",
        (Dialect::Responses, [Part::ToolResult(_)]) => "output",
        (Dialect::Responses, [Part::ToolCall(_)]) => match edits {
            [(0, PartEdit::Arguments(json))] => return Some(Some(set_field(raw, "arguments", &quoted(json)))),
            _ => return None,
        },
        // An item of its own becomes a message.
        (Dialect::Responses, [Part::Media(_)]) if !block_has(raw, "content") => match edits {
            [(0, PartEdit::Words(text))] => return Some(Some(say(dialect, Voice::Assistant, text))),
            [(0, PartEdit::Remove)] => return Some(None),
            _ => return None,
        },
        (Dialect::Responses, [Part::Reasoning(_)]) if matches!(edits, [(0, PartEdit::Remove)]) => return Some(None),
        _ => return None,
    };
    match edits {
        [(0, PartEdit::Result(text) | PartEdit::Words(text))] => Some(Some(set_field(raw, field, &answer(raw, text)))),
        [(0, PartEdit::ResultWords(text))] => Some(Some(with_words(dialect, raw, field, text))),
        [(0, PartEdit::Remove)] => Some(None),
        _ => None,
    }
}

/// What a tool answered, as the item's kind wants it: a shell's output is a list.
fn answer(raw: &str, text: &str) -> String {
    let Ok(item) = serde_json::from_str::<Value>(raw) else { return quoted(text) };
    if item.get("type").and_then(Value::as_str) != Some("shell_call_output") {
        return quoted(text);
    }
    let outcome = item.pointer("/output/0/outcome").cloned().unwrap_or(json!({"type": "exit", "exit_code": 0}));
    json!([{"stdout": text, "stderr": "", "outcome": outcome}]).to_string()
}

/// A tool's answer whose words read differently: one text in the place of all of them, and its media as they were.
fn with_words(dialect: Dialect, object: &str, field: &str, text: &str) -> String {
    let blocks = serde_json::from_str::<RawFields<'_>>(object).ok().and_then(|fields| fields.get(field));
    let Some(Ok(blocks)) = blocks.map(|list| serde_json::from_str::<Vec<&RawValue>>(list.get())) else {
        return set_field(object, field, &quoted(text));
    };
    let is_media = |block: &&&RawValue| {
        let value: Value = serde_json::from_str(block.get()).unwrap_or_default();
        media(&value, &|| Raw::whole(block.get())).is_some()
    };
    let role = if dialect == Dialect::Responses { Role::Tool } else { Role::User };
    let kept = blocks.iter().filter(is_media).map(|block| block.get().to_owned());
    let all: Vec<String> = std::iter::once(text_block(dialect, role, text)).chain(kept).collect();
    set_field(object, field, &format!("[{}]", all.join(",")))
}

/// A block of an answer whose words read differently; the AI SDK has its list one level further down.
fn worded_block(dialect: Dialect, block: &str, text: &str) -> String {
    if dialect != Dialect::AiSdk {
        return with_words(dialect, block, "content", text);
    }
    let fields = serde_json::from_str::<RawFields<'_>>(block).ok();
    match fields.and_then(|fields| fields.get("output")) {
        Some(output) => splice(block, output.get(), &with_words(dialect, output.get(), "value", text)),
        None => result_block(dialect, block, text),
    }
}

fn edit_string(raw: &str, content: &RawValue, edits: &[(usize, PartEdit)]) -> Option<String> {
    match edits {
        [(_, PartEdit::Words(text) | PartEdit::Result(text) | PartEdit::ResultWords(text))] => {
            Some(splice(raw, content.get(), &quoted(text)))
        }
        [(_, PartEdit::Remove)] => None,
        _ => Some(raw.to_owned()),
    }
}

/// The part that the first content block became: Chat keeps its reasoning beside the content.
fn first_block(dialect: Dialect, message: &NewMessage) -> usize {
    usize::from(dialect == Dialect::Chat && matches!(message.parts.first(), Some(Part::Reasoning(_))))
}

fn text_block(dialect: Dialect, role: Role, text: &str) -> String {
    let kind = match (dialect, role) {
        (Dialect::Responses, Role::Assistant) => "output_text",
        (Dialect::Responses, _) => "input_text",
        _ => "text",
    };
    json!({"type": kind, "text": text}).to_string()
}

fn result_block(dialect: Dialect, block: &str, text: &str) -> String {
    match dialect {
        Dialect::AiSdk if block_has(block, "output") => {
            set_field(block, "output", &json!({"type": "text", "value": text}).to_string())
        }
        Dialect::AiSdk => set_field(block, "result", &quoted(text)),
        _ => set_field(block, "content", &quoted(text)),
    }
}

fn call_block(dialect: Dialect, block: &str, arguments: &str) -> String {
    match dialect {
        Dialect::AiSdk if block_has(block, "args") => set_field(block, "args", arguments),
        _ => set_field(block, "input", arguments),
    }
}

fn block_has(block: &str, key: &str) -> bool {
    serde_json::from_str::<RawFields<'_>>(block).is_ok_and(|fields| fields.get(key).is_some())
}

/// The provider's id of a Responses item.
pub fn item_id(raw: &str) -> Option<String> {
    let fields: RawFields<'_> = serde_json::from_str(raw).ok()?;
    serde_json::from_str(fields.get("id")?.get()).ok()
}

/// A Responses item without the provider's id, which only means something beside the reasoning that was dropped.
pub fn without_id(raw: &str) -> String {
    without_field(raw, "id")
}

/// An Anthropic message with a cache mark on its last block; as it was when it cannot carry one.
pub(crate) fn mark_cached(raw: &str, lifetime: MarkLifetime) -> String {
    marked(raw, lifetime.json()).unwrap_or_else(|| raw.to_owned())
}

fn marked(raw: &str, mark: &str) -> Option<String> {
    let fields: RawFields<'_> = serde_json::from_str(raw).ok()?;
    let content = fields.get("content")?.get();
    if let Ok(text) = serde_json::from_str::<String>(content) {
        let block = format!(r#"[{{"type":"text","text":{content},"cache_control":{mark}}}]"#);
        return (!text.trim().is_empty()).then(|| splice(raw, content, &block));
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let last = blocks.last()?.get();
    let block: Value = serde_json::from_str(last).ok()?;
    let can_carry = match block.get("type")?.as_str()? {
        "text" => block.get("text")?.as_str().is_some_and(|text| !text.trim().is_empty()),
        "image" | "document" | "tool_use" | "tool_result" => true,
        _ => false,
    };
    (can_carry && block.get("cache_control").is_none_or(Value::is_null))
        .then(|| splice(raw, last, &set_field(last, "cache_control", mark)))
}
