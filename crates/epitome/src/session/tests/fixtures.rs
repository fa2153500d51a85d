//! Conversations in a short notation, written out in every format.

use serde_json::{Value, json};

use crate::session::reading::text_of;
use crate::session::{CompactedContext, Format, ReadOptions, Session};
use crate::thread::{NewMessage, Part, Role};
use crate::wire::{PromptMessage, Voice};

/// The time at which tests write.
pub(super) const STAMP: &str = "2031-02-03T04:05:06.000Z";

/// A format to write a conversation in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fixture {
    PiEvents,
    PiTree,
    Claude,
    Codex,
    ChatList,
    ChatLines,
    AnthropicRequest,
}

/// One word of the notation: who, its name, and whether calls are made in it.
struct Word<'a> {
    name: &'a str,
    role: char,
    calls: Vec<String>,
    answers: String,
}

impl Fixture {
    pub(super) const ALL: [Fixture; 7] = [
        Fixture::PiEvents,
        Fixture::PiTree,
        Fixture::Claude,
        Fixture::Codex,
        Fixture::ChatList,
        Fixture::ChatLines,
        Fixture::AnthropicRequest,
    ];

    /// A conversation as a whole file. `[words n]` is a compaction of pi's first format.
    pub(super) fn text(self, script: &str) -> String {
        match self {
            Fixture::ChatList => list(&self.lines(script, "")),
            Fixture::AnthropicRequest => {
                let messages = list(&self.lines(script, ""));
                format!(r#"{{"model":"m","max_tokens":64,"system":"be brief","tools":[],"messages":{messages}}}"#)
            }
            _ => self.header() + &joined(&self.lines(script, "")),
        }
    }

    /// Lines that go on from the end of a file.
    pub(super) fn more(self, text: &str, script: &str) -> String {
        joined(&self.lines(script, text))
    }

    /// Whether it is one JSON value, to which nothing can be appended.
    pub(super) fn is_value(self) -> bool {
        matches!(self, Fixture::ChatList | Fixture::AnthropicRequest)
    }

    fn header(self) -> String {
        let header = match self {
            Fixture::PiEvents => {
                json!({"type": "session", "id": "s1", "timestamp": "2030", "cwd": "/x", "modelId": "m"})
            }
            Fixture::PiTree => json!({"type": "session", "version": 3, "id": "s1", "timestamp": "2030", "cwd": "/x"}),
            Fixture::Codex => json!({"timestamp": "2030", "type": "session_meta", "payload":
                {"id": "s1", "timestamp": "2030", "cwd": "/x", "base_instructions": {"text": "be brief"}}}),
            _ => return String::new(),
        };
        format!("{header}\n")
    }

    fn lines(self, script: &str, before: &str) -> Vec<String> {
        let mut parent = last_id(before);
        let mut lines = Vec::new();
        for (at, word) in words(script, before.lines().count()).iter().enumerate() {
            let id = format!("{}-{at}-{}", before.lines().count(), word.name);
            let entry = self.entry(word, &id, parent.as_deref());
            lines.push(entry.to_string());
            if self == Fixture::Codex && word.role == 'a' {
                lines.push(codex_usage().to_string());
            }
            parent = Some(id);
        }
        lines
    }

    fn entry(self, word: &Word<'_>, id: &str, parent: Option<&str>) -> Value {
        match self {
            Fixture::PiEvents if word.role == '[' => compaction(word.name),
            Fixture::PiEvents => json!({"type": "message", "timestamp": "2030", "message": pi(word)}),
            Fixture::PiTree => json!({"type": "message", "id": id, "parentId": parent, "message": pi(word)}),
            Fixture::Claude => json!({
                "parentUuid": parent, "isSidechain": false, "cwd": "/x", "sessionId": "s1", "version": "2.0.0",
                "type": if word.role == 'a' { "assistant" } else { "user" }, "message": claude(word, id), "uuid": id,
                "timestamp": "2030-01-01T00:00:00Z"}),
            Fixture::Codex => json!({"timestamp": "2030", "type": "response_item", "payload": responses(word)}),
            Fixture::ChatList | Fixture::ChatLines => chat(word),
            Fixture::AnthropicRequest => anthropic(word),
        }
    }
}

/// Reads a session that must be readable.
pub(super) fn read(text: &str) -> Session {
    Session::read(text, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What the model sees, in the notation.
pub(super) fn seen(session: &Session) -> String {
    session.context().iter().map(|seen| name(&seen.message)).collect::<Vec<_>>().join(" ")
}

/// A message's word in the notation.
pub(super) fn name(message: &NewMessage) -> String {
    let result = message.parts.iter().find_map(|part| match part {
        Part::ToolResult(result) => Some(result.text.to_string()),
        _ => None,
    });
    let text = result.unwrap_or_else(|| text_of(&message.parts));
    let bare = [Format::PiEvents, Format::PiTree].iter().find_map(|format| {
        let wording = format.worded("\0");
        let (before, after) = wording.split_once('\0')?;
        text.strip_prefix(before)?.strip_suffix(after)
    });
    match bare {
        Some(summary) => format!("[{summary}]"),
        None if message.summary || text == "sum" => format!("[{text}]"),
        None if text.is_empty() && message.role == Role::Assistant => "a".to_owned(),
        None => text,
    }
}

/// A summary and the last messages.
pub(super) fn compacted(session: &Session, tail: usize) -> CompactedContext {
    let count = session.context().len();
    let summary = PromptMessage::summary(Voice::User, "sum");
    let messages = std::iter::once(summary).chain((count - tail..count).map(PromptMessage::Kept)).collect();
    CompactedContext {
        messages,
        summary: "sum".into(),
        tokens_before: 1000,
        tokens_after: 100,
        ..CompactedContext::default()
    }
}

fn words(script: &str, seed: usize) -> Vec<Word<'_>> {
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = script.trim();
    while !rest.is_empty() {
        let end = if rest.starts_with('[') { rest.find(']').map(|at| at + 1) } else { rest.find(' ') };
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        parts.push(word);
        rest = after.trim();
    }
    let call = |at: usize| format!("call-{seed}-{at}");
    let calls = |at: usize| -> Vec<String> {
        let results = (at + 1..parts.len()).take_while(|next| parts[*next].starts_with('t'));
        results.map(call).filter(|_| parts[at].starts_with('a')).collect()
    };
    let role = |at: usize| parts[at].chars().next().unwrap_or(' ');
    let word = |at: usize| Word { name: parts[at], role: role(at), calls: calls(at), answers: call(at) };
    (0..parts.len()).map(word).collect()
}

fn last_id(text: &str) -> Option<String> {
    let entry: Value = serde_json::from_str(text.lines().last()?).ok()?;
    ["uuid", "id"].iter().find_map(|key| entry.get(*key)?.as_str()).map(str::to_owned)
}

fn list(items: &[String]) -> String {
    format!("[\n  {}\n]", items.join(",\n  "))
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn compaction(word: &str) -> Value {
    let inside = word.trim_matches(['[', ']']);
    let (summary, keep) = inside.rsplit_once(' ').expect("a compaction says how much it keeps");
    let keep: usize = keep.parse().expect("a number");
    json!({"type": "compaction", "timestamp": "2030", "summary": summary, "keepLastMessages": keep, "tokensBefore": 9})
}

fn pi(word: &Word<'_>) -> Value {
    let text = json!({"type": "text", "text": word.name});
    let call = |id: &String| json!({"type": "toolCall", "id": id, "name": "look", "arguments": {"at": 1}});
    match word.role {
        'u' => json!({"role": "user", "content": [text]}),
        'a' => json!({"role": "assistant", "model": "m", "usage": {"input": 10, "output": 4, "cacheRead": 50},
            "content": std::iter::once(text).chain(word.calls.iter().map(call)).collect::<Vec<_>>()}),
        _ => json!({"role": "toolResult", "toolCallId": word.answers, "toolName": "look", "content": [text]}),
    }
}

fn anthropic(word: &Word<'_>) -> Value {
    let text = json!({"type": "text", "text": word.name});
    let call = |id: &String| json!({"type": "tool_use", "id": id, "name": "look", "input": {"at": 1}});
    match word.role {
        'u' => json!({"role": "user", "content": word.name}),
        'a' => json!({"role": "assistant",
            "content": std::iter::once(text).chain(word.calls.iter().map(call)).collect::<Vec<_>>()}),
        _ => {
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": word.answers, "content": word.name}]})
        }
    }
}

fn claude(word: &Word<'_>, id: &str) -> Value {
    let mut message = anthropic(word);
    if word.role == 'a' {
        message["id"] = json!(format!("msg-{id}"));
        message["model"] = json!("m");
        message["usage"] = json!({"input_tokens": 10, "cache_read_input_tokens": 50, "output_tokens": 4});
    }
    message
}

fn chat(word: &Word<'_>) -> Value {
    let call = |id: &String| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    match word.role {
        'u' => json!({"role": "user", "content": word.name}),
        'a' if word.calls.is_empty() => json!({"role": "assistant", "content": word.name}),
        'a' => {
            json!({"role": "assistant", "content": word.name, "tool_calls": word.calls.iter().map(call).collect::<Vec<_>>()})
        }
        _ => json!({"role": "tool", "tool_call_id": word.answers, "content": word.name}),
    }
}

/// Codex writes each call as a line of its own; these conversations need only its words, so a call is left unmade.
fn responses(word: &Word<'_>) -> Value {
    match word.role {
        'u' => json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": word.name}]}),
        'a' => json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": word.name}]}),
        _ => json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": word.name}]}),
    }
}

fn codex_usage() -> Value {
    json!({"timestamp": "2030", "type": "event_msg", "payload": {"type": "token_count", "info":
        {"last_token_usage": {"input_tokens": 60, "output_tokens": 4, "total_tokens": 64}}}})
}
