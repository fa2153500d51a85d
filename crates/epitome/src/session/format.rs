//! The formats a session can be kept in, and how to tell them apart.
//!
//! Telling looks at the first lines only; it never guesses from a file's name.

use std::fmt;
use std::str::FromStr;

use super::fields::Fields;
use super::lines::text_lines;
use super::pi_message;
use crate::message::{NewMessage, Raw};
use crate::wire::{Dialect, decode_message};

/// How many lines are looked at to tell a format.
const LINES_LOOKED_AT_MAX: usize = 64;

/// What kind of session a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// pi's first format: lines in the order of events, without ids.
    PiEvents,
    /// pi's tree format: entries with `id` and `parentId`.
    PiTree,
    /// Claude Code's transcript: entries with `uuid` and `parentUuid`.
    ClaudeCode,
    /// Codex's rollout: a typed `payload` a line.
    Codex,
    /// A plain request, list or lines of messages.
    List(Dialect),
}

impl Format {
    /// Every format, in the order in which they are listed to people.
    pub const ALL: [Format; 8] = [
        Format::PiEvents,
        Format::PiTree,
        Format::ClaudeCode,
        Format::Codex,
        Format::List(Dialect::Chat),
        Format::List(Dialect::Responses),
        Format::List(Dialect::Anthropic),
        Format::List(Dialect::AiSdk),
    ];

    /// The name used in commands and messages; a list goes by its dialect.
    pub fn name(self) -> &'static str {
        match self {
            Format::PiEvents => "pi-events",
            Format::PiTree => "pi-tree",
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
            Format::List(dialect) => dialect.name(),
        }
    }

    /// What it is, for people.
    pub fn description(self) -> &'static str {
        match self {
            Format::PiEvents => "a pi session, one event a line",
            Format::PiTree => "a pi session, a tree of entries",
            Format::ClaudeCode => "a Claude Code transcript",
            Format::Codex => "a Codex rollout",
            Format::List(Dialect::Chat) => "OpenAI Chat messages",
            Format::List(Dialect::Responses) => "OpenAI Responses items",
            Format::List(Dialect::Anthropic) => "Anthropic messages",
            Format::List(Dialect::AiSdk) => "AI SDK messages",
        }
    }

    /// Reads one message as the format writes it: the JSON that a [`Session`](super::Session)'s messages keep.
    pub fn decode(self, raw: &Raw) -> NewMessage {
        match self {
            Format::PiEvents | Format::PiTree => pi_message::decode(raw).message,
            Format::ClaudeCode => decode_message(Dialect::Anthropic, raw),
            Format::Codex => decode_message(Dialect::Responses, raw),
            Format::List(dialect) => decode_message(dialect, raw),
        }
    }

    /// How the model is told a summary by the format's own loader, where the loader has its own words for it.
    pub(crate) fn worded(self, summary: &str) -> String {
        match self {
            Format::PiEvents => format!("{EVENTS_PREFIX}{summary}"),
            Format::PiTree => format!("{TREE_PREFIX}{summary}{TREE_SUFFIX}"),
            Format::ClaudeCode | Format::Codex | Format::List(_) => summary.to_owned(),
        }
    }

    /// Tells an agent's own format by its first lines; `None` for plain messages.
    pub(super) fn detect(text: &str) -> Option<Format> {
        let mut events = false;
        for (_, line) in text_lines(text).take(LINES_LOOKED_AT_MAX) {
            match sign_of(line) {
                Sign::Sure(format) => return Some(format),
                Sign::Pi => events = true,
                Sign::None => {}
            }
        }
        events.then_some(Format::PiEvents)
    }
}

const EVENTS_PREFIX: &str = "Another language model worked on this task and produced a summary. Use this to continue the \
                             work without duplicating effort:\n\n";
const TREE_PREFIX: &str =
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n";
const TREE_SUFFIX: &str = "\n</summary>";

/// What one line tells.
enum Sign {
    Sure(Format),
    Pi,
    None,
}

fn sign_of(line: &str) -> Sign {
    let Some(fields) = Fields::parse(line) else { return Sign::None };
    let kind = fields.text("type").unwrap_or_default();
    let pi = match kind.as_str() {
        "session" => fields.has("id") || fields.has("cwd"),
        "message" => fields.raw("message").is_some_and(|message| message.starts_with('{')),
        "compaction" => fields.has("summary"),
        "model_change" | "thinking_level_change" => true,
        _ => false,
    };
    if fields.has("payload") && fields.has("type") {
        Sign::Sure(Format::Codex)
    } else if is_claude(&kind, &fields) {
        Sign::Sure(Format::ClaudeCode)
    } else if fields.has("parentId") && fields.has("id") || pi && fields.number("version").is_some_and(|v| v >= 2) {
        Sign::Sure(Format::PiTree)
    } else if pi {
        Sign::Pi
    } else {
        Sign::None
    }
}

fn is_claude(kind: &str, fields: &Fields<'_>) -> bool {
    let chained = fields.has("uuid") && fields.has("parentUuid");
    let about_session =
        fields.has("sessionId") && matches!(kind, "queue-operation" | "user" | "assistant" | "mode" | "last-prompt");
    chained || about_session || kind == "file-history-snapshot" || kind == "summary" && fields.has("leafUuid")
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("`{name}` is not a session format; the formats are {}", names.join(", "))
        })
    }
}
