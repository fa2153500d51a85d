//! Threads written as small text, for the tests of this folder.
//!
//! One line, one message: `user: …`, `assistant: …`, `think: …`, `summary: …`, `call TOOL: …`, `result TOOL: …`. In a
//! line, `\n` is a new line.

use crate::budget::{CountSource, Meter, TokenCounter, Tokens};
use crate::thread::{NewMessage, Outcome, Part, Raw, Reasoning, Role, Seal, Thread, ToolCall, ToolResult};

/// Counts four characters as a token.
pub(super) struct Fours;

impl TokenCounter for Fours {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count().div_ceil(4) as u64)
    }

    fn source(&self) -> CountSource {
        CountSource::Characters
    }

    fn name(&self) -> &str {
        "chars/4"
    }
}

/// The thread that some lines tell.
pub(super) fn thread(lines: &str) -> Thread {
    let mut thread = Thread::new();
    for line in lines.lines() {
        thread.append(message(line), &Meter::new(&Fours, crate::wire::Dialect::Chat));
    }
    thread
}

fn message(line: &str) -> NewMessage {
    let (head, text) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
    let text = text.replace("\\n", "\n");
    let (kind, tool) = head.split_once(' ').unwrap_or((head, ""));
    let (role, part) = match kind {
        "user" | "summary" => (Role::User, Part::Text(text.into())),
        "assistant" => (Role::Assistant, Part::Text(text.into())),
        "think" => (Role::Assistant, Part::Reasoning(Reasoning { text: text.into(), seal: Seal::Open })),
        "call" => {
            (Role::Assistant, Part::ToolCall(ToolCall { id: tool.into(), name: tool.into(), arguments: text.into() }))
        }
        "result" => (Role::Tool, Part::ToolResult(ToolResult::new(tool, text, Outcome::Success))),
        other => panic!("no such line: {other}"),
    };
    let mut message = NewMessage::new(role, vec![part], Raw::whole(line));
    message.summary = kind == "summary";
    message
}
