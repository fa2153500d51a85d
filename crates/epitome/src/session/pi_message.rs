//! Reading one message as pi writes it.
//!
//! Reading cannot fail: what is not understood becomes an opaque part and is carried through.

use serde_json::{Map, Value};

use super::Format;
use crate::message::{Media, NewMessage, Opaque, Outcome, Part, Raw, Reasoning, Role, Seal, ToolCall, ToolResult};
use crate::wire::media;

/// A message, or an entry that stands for one, and whether the model is shown it.
pub(super) struct PiMessage {
    pub(super) message: NewMessage,
    pub(super) hidden: bool,
}

/// Reads a message object (`message` entries) or a whole entry (`custom_message`, `branch_summary`).
pub(super) fn decode(raw: &Raw) -> PiMessage {
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(raw.as_str()) else {
        return PiMessage { message: NewMessage::new(Role::Other, vec![opaque(raw, "")], raw.clone()), hidden: false };
    };
    let (role, parts) = match speaker(&object) {
        "user" | "custom" | "hookMessage" | "custom_message" => (Role::User, content(&object)),
        "assistant" => (Role::Assistant, content(&object)),
        "toolResult" => (Role::Tool, vec![Part::ToolResult(result(&object, raw))]),
        "bashExecution" => (Role::User, vec![words(&bash_text(&object))]),
        "branchSummary" | "branch_summary" => (Role::User, vec![words(&branch_text(str_of(&object, "summary")))]),
        "compactionSummary" => (Role::User, vec![words(&Format::PiTree.worded(str_of(&object, "summary")))]),
        "system" => (Role::System, content(&object)),
        _ => (Role::Other, content(&object)),
    };
    let hidden = object.get("excludeFromContext").and_then(Value::as_bool).unwrap_or(false);
    PiMessage { message: NewMessage::new(role, parts, raw.clone()), hidden }
}

/// A message whose role, or an entry whose type, says who speaks.
fn speaker(object: &Map<String, Value>) -> &str {
    ["role", "type"].iter().find_map(|key| object.get(*key)?.as_str()).unwrap_or_default()
}

fn str_of<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn words(text: &str) -> Part {
    Part::Text(text.into())
}

fn opaque(raw: &Raw, kind: &str) -> Part {
    Part::Opaque(Opaque { kind: kind.into(), json: raw.clone() })
}

fn content(object: &Map<String, Value>) -> Vec<Part> {
    match object.get("content") {
        Some(Value::String(text)) => vec![words(text)],
        Some(Value::Array(blocks)) => blocks.iter().map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(block: &Value) -> Part {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type").unwrap_or_default() {
        "text" => words(text("text").unwrap_or_default()),
        "thinking" => Part::Reasoning(Reasoning {
            text: text("thinking").unwrap_or_default().into(),
            seal: seal(text("thinkingSignature"), block.get("redacted")),
        }),
        "toolCall" => Part::ToolCall(ToolCall {
            id: text("id").unwrap_or_default().into(),
            name: text("name").unwrap_or_default().into(),
            arguments: block.get("arguments").map(Value::to_string).unwrap_or_default().into(),
        }),
        kind => match media_in(block) {
            Some(media) => Part::Media(media),
            None => opaque(&Raw::whole(block.to_string()), kind),
        },
    }
}

fn seal(signature: Option<&str>, redacted: Option<&Value>) -> Seal {
    match signature {
        _ if redacted.and_then(Value::as_bool).unwrap_or(false) => Seal::Encrypted,
        None | Some("") => Seal::Open,
        Some(_) => Seal::Signed,
    }
}

fn media_in(block: &Value) -> Option<Media> {
    media(block, &|| Raw::whole(block.to_string()))
}

fn result(object: &Map<String, Value>, raw: &Raw) -> ToolResult {
    let declared = object.get("isError").and_then(Value::as_bool);
    let declared = declared.map(|is_error| if is_error { Outcome::Failure } else { Outcome::Success });
    let mut result = ToolResult::new(str_of(object, "toolCallId"), "", declared);
    result.tool = str_of(object, "toolName").into();
    let mut texts: Vec<String> = Vec::new();
    match object.get("content") {
        Some(Value::String(text)) => texts.push(text.clone()),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                match (block.get("text").and_then(Value::as_str), media_in(block)) {
                    (Some(text), _) => texts.push(text.to_owned()),
                    (None, Some(media)) => result.media.push(media),
                    (None, None) => texts.push(block.to_string()),
                }
            }
        }
        _ => {}
    }
    result.text = texts.join("\n").into();
    result.json = (!result.media.is_empty()).then(|| raw.clone());
    result
}

/// What pi tells the model of a command the user ran.
fn bash_text(object: &Map<String, Value>) -> String {
    let output = match str_of(object, "output") {
        "" => "(no output)".to_owned(),
        output => format!("```\n{output}\n```"),
    };
    let code = object.get("exitCode").and_then(Value::as_i64).unwrap_or(0);
    let ending = match (object.get("cancelled").and_then(Value::as_bool), code) {
        (Some(true), _) => "\n\n(command cancelled)".to_owned(),
        (_, 0) => String::new(),
        (_, code) => format!("\n\nCommand exited with code {code}"),
    };
    let cut = match (object.get("truncated").and_then(Value::as_bool), str_of(object, "fullOutputPath")) {
        (Some(true), path) if !path.is_empty() => format!("\n\n[Output truncated. Full output: {path}]"),
        _ => String::new(),
    };
    format!("Ran `{}`\n{output}{ending}{cut}", str_of(object, "command"))
}

/// What pi tells the model of a branch it came back from.
fn branch_text(summary: &str) -> String {
    format!(
        "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{summary}</summary>"
    )
}
