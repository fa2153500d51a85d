//! Decoding one message of a dialect into its typed form.
//!
//! Decoding cannot fail: what is not understood becomes an opaque part and is carried through. The raw JSON stays the
//! truth; the typed form is a reading of it.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Dialect;
use super::media::{media, spoken};
use super::splice::RawFields;
use crate::message::{
    Media, NewMessage, Opaque, Outcome, Part, Raw, Reasoning, ResultForm, Role, Seal, ToolCall, ToolResult,
    offset_range,
};

/// Reads one message or item of a dialect.
pub fn decode_message(dialect: Dialect, raw: &Raw) -> NewMessage {
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(raw.as_str()) else {
        return NewMessage::new(Role::Other, vec![opaque(raw, "")], raw.clone());
    };
    let mut message = match dialect {
        Dialect::Chat => chat(object, raw),
        Dialect::Responses => responses(object, raw),
        Dialect::Anthropic => {
            NewMessage::new(role_of(&object), content(raw, object.get("content"), anthropic_block), raw.clone())
        }
        Dialect::AiSdk => ai_sdk(&object, raw),
    };
    message.parts.shrink_to_fit();
    message
}

fn role_named(name: &str) -> Role {
    match name {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" | "toolResult" => Role::Tool,
        _ => Role::Other,
    }
}

fn role_of(object: &Map<String, Value>) -> Role {
    object.get("role").and_then(Value::as_str).map_or(Role::Other, role_named)
}

fn opaque(raw: &Raw, kind: &str) -> Part {
    Part::Opaque(Opaque { kind: kind.into(), json: raw.clone() })
}

fn str_of<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn kind_of(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

/// An argument value as the text a model would have written.
fn argument_text(value: Option<&Value>) -> Arc<str> {
    match value {
        None | Some(Value::Null) => Arc::default(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

/// The raw JSON of each element of the list under `key`, for parts that are kept as they came.
fn raw_elements(raw: &Raw, key: &str) -> Vec<Raw> {
    let Ok(fields) = serde_json::from_str::<RawFields<'_>>(raw.as_str()) else { return Vec::new() };
    let Some(list) = fields.get(key) else { return Vec::new() };
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else { return Vec::new() };
    items.iter().map(|item| raw.slice(offset_range(raw.as_str(), item.get()))).collect()
}
fn raw_field(raw: &Raw, key: &str) -> Option<Raw> {
    let fields = serde_json::from_str::<RawFields<'_>>(raw.as_str()).ok()?;
    fields.get(key).map(|value| raw.slice(offset_range(raw.as_str(), value.get())))
}

/// The JSON of something, cut out of the message when it is asked for.
type RawOf<'a> = &'a dyn Fn() -> Raw;

/// Reads a content value that nobody else needs: a string is not copied.
fn moved_content(raw: &Raw, value: Option<Value>, block: fn(&Value, RawOf<'_>) -> Option<Part>) -> Vec<Part> {
    match value {
        Some(Value::String(words)) => vec![Part::Text(words.into())],
        value => content(raw, value.as_ref(), block),
    }
}

/// Reads a content value: a string, or a list of blocks read one by one. A block that is no other part is media, or is
/// kept as it came.
fn content(raw: &Raw, value: Option<&Value>, block: fn(&Value, RawOf<'_>) -> Option<Part>) -> Vec<Part> {
    match value {
        Some(Value::String(words)) => vec![text(words)],
        Some(Value::Array(blocks)) => {
            let elements: OnceCell<Vec<Raw>> = OnceCell::new();
            let part = |(at, value): (usize, &Value)| {
                let element = || elements.get_or_init(|| raw_elements(raw, "content")).get(at).unwrap_or(raw).clone();
                let found = block(value, &element).or_else(|| media(value, &element).map(Part::Media));
                found.unwrap_or_else(|| opaque(&element(), kind_of(value)))
            };
            blocks.iter().enumerate().map(part).collect()
        }
        _ => Vec::new(),
    }
}

/// Where the JSON of a tool's answer is cut out of: that of the whole part, and of each block of its content.
struct Cuts<'a> {
    whole: RawOf<'a>,
    blocks: &'a dyn Fn() -> Vec<Raw>,
}

/// The text and media of a tool's answer, whatever shape it has.
fn fill_result(result: &mut ToolResult, value: Option<&Value>, cuts: &Cuts<'_>) {
    match value {
        None | Some(Value::Null) => {}
        Some(Value::String(words)) => result.text = words.as_str().into(),
        Some(Value::Array(blocks)) if blocks.iter().all(|block| !kind_of(block).is_empty()) => {
            let elements: OnceCell<Vec<Raw>> = OnceCell::new();
            let mut texts: Vec<String> = Vec::new();
            for (at, block) in blocks.iter().enumerate() {
                let element = || {
                    let cut = elements.get_or_init(cuts.blocks).get(at).cloned();
                    cut.unwrap_or_else(|| Raw::whole(block.to_string()))
                };
                match block.get("text").and_then(Value::as_str) {
                    Some(words) => texts.push(words.to_owned()),
                    None => match media(block, &element).filter(|_| !holds_blocks(block)) {
                        Some(found) => result.media.push(found),
                        None => texts.push(without_media(block, &mut result.media)),
                    },
                }
            }
            result.text = texts.join("\n").into();
        }
        Some(other) if result.form == ResultForm::Fixed => {
            result.text = without_media(other, &mut result.media).into();
        }
        Some(other) => result.text = other.to_string().into(),
    }
    if !result.media.is_empty() {
        result.json = Some((cuts.whole)());
    }
}

/// The media in a part that was read back: the part itself, or what a tool's answer holds.
pub fn media_in(json: &str) -> Vec<Media> {
    let mut found = Vec::new();
    if let Ok(mut value) = serde_json::from_str::<Value>(json) {
        match media(&value, &|| Raw::whole(json)).filter(|_| value.is_object() && !holds_blocks(&value)) {
            Some(media) => found.push(media),
            None => take_media(&mut value, &mut found),
        }
    }
    found
}

/// A value as text, without the media that is nested in it.
fn without_media(value: &Value, found: &mut Vec<Media>) -> String {
    let mut rest = value.clone();
    take_media(&mut rest, found);
    if rest.is_null() { String::new() } else { rest.to_string() }
}

fn take_media(value: &mut Value, found: &mut Vec<Media>) {
    if !kind_of(value).is_empty()
        && !holds_blocks(value)
        && let Some(media) = media(value, &|| Raw::whole(value.to_string()))
    {
        found.push(media);
        *value = Value::Null;
        return;
    }
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| take_media(item, found));
            items.retain(|item| !item.is_null());
        }
        Value::Object(fields) => fields.values_mut().for_each(|item| take_media(item, found)),
        _ => {}
    }
}

/// Whether a block is but a wrapping: what it holds are blocks again.
fn holds_blocks(block: &Value) -> bool {
    let is_block = |value: &Value| !kind_of(value).is_empty() && kind_of(value) != "text";
    ["content", "output", "value"].iter().filter_map(|key| block.get(*key)).any(|inner| match inner {
        Value::Array(blocks) => blocks.iter().any(is_block),
        inner => is_block(inner),
    })
}

/// The outcome that a flag for errors declares.
fn declared(is_error: bool) -> Outcome {
    if is_error { Outcome::Failure } else { Outcome::Success }
}

// --- OpenAI Chat ---------------------------------------------------------------------------------------------------

fn chat(mut object: Map<String, Value>, raw: &Raw) -> NewMessage {
    let role = role_of(&object);
    let words = object.get_mut("content").map(Value::take);
    let object = &object;
    let mut message = NewMessage::new(role, Vec::new(), raw.clone());
    message.name = str_of(object, "name").map(Into::into);
    if role == Role::Tool {
        message.parts.push(Part::ToolResult(chat_result(object, words, raw)));
        return message;
    }
    if let Some(words) = str_of(object, "reasoning_content").or_else(|| str_of(object, "reasoning"))
        && !words.is_empty()
    {
        message.parts.push(Part::Reasoning(Reasoning { text: words.into(), seal: Seal::Open }));
    }
    message.parts.extend(moved_content(raw, words, chat_block));
    if let Some(words) = str_of(object, "refusal") {
        message.parts.push(text(words));
    }
    let calls = object.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    message.parts.extend(calls.filter_map(chat_call));
    if let Some(call) = object.get("function_call").filter(|call| call.is_object()) {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        message.parts.push(Part::ToolCall(ToolCall {
            id: format!("function:{name}").into(),
            name: name.into(),
            arguments: argument_text(call.get("arguments")),
        }));
    }
    // What an assistant said aloud stands beside the content, last of all parts.
    if let Some(audio) = object.get("audio").filter(|audio| audio.is_object()) {
        message.parts.extend(raw_field(raw, "audio").and_then(|json| spoken(audio, json)).map(Part::Media));
    }
    message
}

fn chat_result(object: &Map<String, Value>, words: Option<Value>, raw: &Raw) -> ToolResult {
    let legacy = || str_of(object, "name").map(|name| format!("function:{name}"));
    let id = str_of(object, "tool_call_id").map(str::to_owned).or_else(legacy).unwrap_or_default();
    let mut result = ToolResult::new(&id, "", None);
    result.tool = str_of(object, "name").unwrap_or_default().into();
    match words {
        Some(Value::String(words)) => result.text = words.into(),
        words => {
            let cuts = Cuts { whole: &|| raw.clone(), blocks: &|| raw_elements(raw, "content") };
            fill_result(&mut result, words.as_ref(), &cuts);
        }
    }
    result
}

fn chat_block(block: &Value, _: RawOf<'_>) -> Option<Part> {
    match kind_of(block) {
        "text" => block.get("text").and_then(Value::as_str).map(text),
        "refusal" => block.get("refusal").and_then(Value::as_str).map(text),
        _ => block.as_str().map(text),
    }
}

fn chat_call(call: &Value) -> Option<Part> {
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default().into();
    let (body, arguments) = match call.get("custom") {
        Some(custom) => (custom, "input"),
        None => (call.get("function")?, "arguments"),
    };
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default().into();
    Some(Part::ToolCall(ToolCall { id, name, arguments: argument_text(body.get(arguments)) }))
}

// --- OpenAI Responses ----------------------------------------------------------------------------------------------

fn responses(object: Map<String, Value>, raw: &Raw) -> NewMessage {
    let kind = str_of(&object, "type").unwrap_or("message").to_owned();
    let (role, parts) = match kind.as_str() {
        "message" => (role_of(&object), content(raw, object.get("content"), responses_block)),
        "reasoning" => (Role::Assistant, vec![Part::Reasoning(responses_reasoning(&object))]),
        "compaction" => (Role::System, vec![opaque(raw, &kind)]),
        kind if kind.ends_with("_output") && object.contains_key("call_id") => {
            (Role::Tool, vec![Part::ToolResult(responses_result(&object, raw))])
        }
        kind if kind.ends_with("_call") && object.contains_key("call_id") => {
            (Role::Assistant, vec![Part::ToolCall(responses_call(&object, kind))])
        }
        kind => {
            let item = Value::Object(object);
            let found = media(&item, &|| raw.clone()).map(Part::Media);
            (Role::Assistant, vec![found.unwrap_or_else(|| opaque(raw, kind))])
        }
    };
    NewMessage::new(role, parts, raw.clone())
}

fn responses_block(block: &Value, _: RawOf<'_>) -> Option<Part> {
    match kind_of(block) {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            block.get("text").and_then(Value::as_str).map(text)
        }
        "refusal" => block.get("refusal").and_then(Value::as_str).map(text),
        _ => None,
    }
}

fn responses_reasoning(object: &Map<String, Value>) -> Reasoning {
    let lines = |key: &str| -> Vec<String> {
        let blocks = object.get(key).and_then(Value::as_array).into_iter().flatten();
        blocks.filter_map(|block| Some(block.get("text")?.as_str()?.to_owned())).collect()
    };
    let mut words = lines("summary");
    words.extend(lines("content"));
    let encrypted = str_of(object, "encrypted_content").is_some_and(|data| !data.is_empty());
    let sealed = encrypted || object.contains_key("id");
    Reasoning { text: words.join("\n").into(), seal: if sealed { Seal::Encrypted } else { Seal::Open } }
}

fn responses_call(object: &Map<String, Value>, kind: &str) -> ToolCall {
    let arguments = ["arguments", "input", "action", "operation"].iter().find_map(|key| object.get(*key));
    ToolCall {
        id: str_of(object, "call_id").unwrap_or_default().into(),
        name: str_of(object, "name").unwrap_or(kind.trim_end_matches("_call")).into(),
        arguments: argument_text(arguments),
    }
}

fn responses_result(object: &Map<String, Value>, raw: &Raw) -> ToolResult {
    let declared = match str_of(object, "status") {
        Some("incomplete") => Some(Outcome::Partial),
        Some("failed") => Some(Outcome::Failure),
        // Clients send `completed` with every output, whatever became of the call.
        _ => None,
    };
    let mut result = ToolResult::new(str_of(object, "call_id").unwrap_or_default(), "", declared);
    // A screenshot is an object: a string in its place is refused.
    if object.get("output").is_some_and(Value::is_object) {
        result.form = ResultForm::Fixed;
    }
    let cuts = Cuts { whole: &|| raw.clone(), blocks: &|| raw_elements(raw, "output") };
    fill_result(&mut result, object.get("output"), &cuts);
    result
}

// --- Anthropic Messages --------------------------------------------------------------------------------------------

fn anthropic_block(block: &Value, json: RawOf<'_>) -> Option<Part> {
    match kind_of(block) {
        "text" => block.get("text").and_then(Value::as_str).map(text),
        "thinking" => Some(Part::Reasoning(Reasoning {
            text: block.get("thinking").and_then(Value::as_str).unwrap_or_default().into(),
            seal: match block.get("signature").and_then(Value::as_str) {
                None | Some("") => Seal::Open,
                Some(_) => Seal::Signed,
            },
        })),
        "redacted_thinking" => Some(Part::Reasoning(Reasoning { text: Arc::default(), seal: Seal::Encrypted })),
        "tool_use" | "server_tool_use" | "mcp_tool_use" => anthropic_call(block).map(Part::ToolCall),
        kind if kind.ends_with("tool_result") => anthropic_result(block, json).map(Part::ToolResult),
        _ => block.as_str().map(text),
    }
}

fn anthropic_call(block: &Value) -> Option<ToolCall> {
    Some(ToolCall {
        id: block.get("id")?.as_str()?.into(),
        name: block.get("name").and_then(Value::as_str).unwrap_or_default().into(),
        arguments: argument_text(block.get("input")),
    })
}

fn anthropic_result(block: &Value, json: RawOf<'_>) -> Option<ToolResult> {
    let declared = block.get("is_error").and_then(Value::as_bool).map(declared);
    let mut result = ToolResult::new(block.get("tool_use_id")?.as_str()?, "", declared);
    // What a tool of the provider's own answered: it takes back nothing but what it made.
    if !matches!(kind_of(block), "tool_result" | "mcp_tool_result") {
        result.form = ResultForm::Fixed;
    }
    let cuts = Cuts { whole: json, blocks: &|| raw_elements(&json(), "content") };
    fill_result(&mut result, block.get("content"), &cuts);
    Some(result)
}

// --- AI SDK --------------------------------------------------------------------------------------------------------

fn ai_sdk(object: &Map<String, Value>, raw: &Raw) -> NewMessage {
    let mut parts = content(raw, object.get("content"), ai_sdk_part);
    // Old versions keep calls beside the content, as Chat does.
    let calls = object.get("toolCalls").and_then(Value::as_array).into_iter().flatten();
    parts.extend(calls.filter_map(ai_sdk_call).map(Part::ToolCall));
    NewMessage::new(role_of(object), parts, raw.clone())
}

fn ai_sdk_call(call: &Value) -> Option<ToolCall> {
    Some(ToolCall {
        id: call.get("toolCallId")?.as_str()?.into(),
        name: call.get("toolName").and_then(Value::as_str).unwrap_or_default().into(),
        arguments: argument_text(call.get("input").or_else(|| call.get("args"))),
    })
}

fn ai_sdk_part(part: &Value, json: RawOf<'_>) -> Option<Part> {
    match kind_of(part) {
        "text" => part.get("text").and_then(Value::as_str).map(text),
        "reasoning" => Some(Part::Reasoning(Reasoning {
            text: part.get("text").and_then(Value::as_str).unwrap_or_default().into(),
            seal: if part.get("providerOptions").is_some() { Seal::Signed } else { Seal::Open },
        })),
        "tool-call" => ai_sdk_call(part).map(Part::ToolCall),
        "tool-result" => ai_sdk_result(part, json).map(Part::ToolResult),
        _ => None,
    }
}

fn ai_sdk_result(part: &Value, json: RawOf<'_>) -> Option<ToolResult> {
    let mut result = ToolResult::new(part.get("toolCallId")?.as_str()?, "", None);
    result.tool = part.get("toolName").and_then(Value::as_str).unwrap_or_default().into();
    let output = part.get("output").or_else(|| part.get("result"));
    let kind = output.map(kind_of).unwrap_or_default();
    result.outcome = part.get("isError").and_then(Value::as_bool).map(declared);
    if kind.starts_with("error") || kind == "execution-denied" {
        result.outcome = Some(Outcome::Failure);
    }
    let value = match kind {
        "" => output,
        _ => output.and_then(|output| output.get("value")).or(output),
    };
    let list = || {
        let output = raw_field(&json(), "output").or_else(|| raw_field(&json(), "result"));
        output.map_or_else(Vec::new, |output| raw_elements(&output, "value"))
    };
    fill_result(&mut result, value, &Cuts { whole: json, blocks: &list });
    Some(result)
}
