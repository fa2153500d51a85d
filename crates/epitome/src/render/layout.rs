//! The layout of a prompt: one line for each message, for people and for golden files.

use super::prompt::Prompt;
use crate::thread::{Part, Raw, Role, Thread};
use crate::wire::{PromptMessage, Voice, decode_message};

/// How much of a message's words a line shows.
const WORDS_MAX: usize = 72;

/// One line for each message of a prompt: its number, who speaks, and how it begins.
pub fn layout(prompt: &Prompt, thread: &Thread) -> String {
    let mut lines = Vec::with_capacity(prompt.messages.len());
    for (at, message) in prompt.messages.iter().enumerate() {
        let line = match message {
            PromptMessage::Kept(place) => {
                kept(thread.message(*place).role(), thread.message(*place).parts(), &thread.reference(*place), "")
            }
            PromptMessage::Edited { place, json } => {
                let now = decode_message(prompt.dialect, &Raw::whole(json.as_str()));
                kept(now.role, &now.parts, &thread.reference(*place), "~")
            }
            PromptMessage::Written { voice, text, summary, .. } => written(*voice, text, *summary),
        };
        lines.push(format!("{at:02} {line}"));
    }
    lines.join("\n")
}

fn kept(role: Role, parts: &[Part], reference: &str, mark: &str) -> String {
    let what: Vec<String> = parts.iter().map(part).collect();
    format!("{}{mark} {} {}", role.name(), reference, what.join(" + "))
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => begin(text),
        Part::Media(media) => media.kind.label().to_lowercase(),
        Part::Reasoning(_) => "reasoning".to_owned(),
        Part::ToolCall(call) => format!("call {}", call.name),
        Part::ToolResult(result) => format!("result {}", begin(&result.text)),
        Part::Opaque(opaque) => format!("opaque {}", opaque.kind),
    }
}

fn written(voice: Voice, text: &str, summary: bool) -> String {
    let who = match voice {
        Voice::User => "user",
        Voice::Assistant => "assistant",
        Voice::System => "system",
    };
    let what = if summary { "summary" } else { "note" };
    format!("{who}+ {what} {}", begin(text))
}

fn begin(text: &str) -> String {
    let line = text.trim().replace('\n', "⏎");
    match line.char_indices().nth(WORDS_MAX) {
        Some((at, _)) => format!("{:?}…", &line[..at]),
        None => format!("{line:?}"),
    }
}
