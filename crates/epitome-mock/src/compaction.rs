//! Compactions that a client asks for itself, and answers in the shape each of them expects.

use serde_json::Value;

use super::asked::Asked;
use super::endpoint::{Endpoint, Protocol};
use super::prompt::{content_blocks, input_items};

/// How a compaction is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compaction {
    /// The answer is one sealed block or item.
    Sealed,
    /// The answer begins with a sealed block or item, and goes on.
    SealedFirst,
    /// The answer begins with a sealed block and ends there, so that the client can go on itself.
    SealedPause,
    /// The answer is prose.
    Prose,
    /// The answer is prose in `<summary>` tags.
    Summary,
    /// The answer is a `<state_snapshot>`.
    Snapshot,
}

/// Sentences with which agents ask for a summary, and how they want it.
const SENTENCES: &[(&str, Compaction)] = &[
    ("<state_snapshot>", Compaction::Snapshot),
    ("Your task is to create a detailed summary of the conversation", Compaction::Summary),
    ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools", Compaction::Summary),
    ("CONTEXT CHECKPOINT COMPACTION", Compaction::Prose),
    ("Create a structured context checkpoint summary", Compaction::Prose),
    ("Provide a detailed prompt for continuing our conversation", Compaction::Prose),
];

impl Compaction {
    /// The compaction that a request of so many tokens asks for.
    pub(crate) fn asked_by(asked: &Asked, tokens: u64) -> Option<Compaction> {
        Compaction::on_demand(asked).or_else(|| Compaction::over_threshold(asked, tokens)).or_else(|| {
            let words = last_words(asked);
            SENTENCES.iter().find(|(sentence, _)| words.contains(sentence)).map(|(_, compaction)| *compaction)
        })
    }

    fn on_demand(asked: &Asked) -> Option<Compaction> {
        let triggered =
            || asked.list("input").last().and_then(|item| item.get("type")?.as_str()) == Some("compaction_trigger");
        let summarized = || asked.body.pointer("/compaction/type").and_then(Value::as_str) == Some("summarize");
        (asked.endpoint == Endpoint::Compact || triggered() || summarized()).then_some(Compaction::Sealed)
    }

    fn over_threshold(asked: &Asked, tokens: u64) -> Option<Compaction> {
        match asked.protocol() {
            Protocol::Anthropic => {
                let edits = asked.body.pointer("/context_management/edits")?.as_array()?;
                let edit =
                    edits.iter().find(|edit| edit.get("type").and_then(Value::as_str) == Some("compact_20260112"))?;
                let trigger = edit.pointer("/trigger/value").and_then(Value::as_u64).unwrap_or(150_000);
                let pauses = edit.get("pause_after_compaction").and_then(Value::as_bool).unwrap_or(false);
                let compaction = if pauses { Compaction::SealedPause } else { Compaction::SealedFirst };
                (tokens > trigger).then_some(compaction)
            }
            Protocol::Responses => {
                let edits = asked.list("context_management").iter();
                let threshold = edits.filter_map(|edit| edit.get("compact_threshold")?.as_u64()).min()?;
                (tokens > threshold).then_some(Compaction::SealedFirst)
            }
            _ => None,
        }
    }

    /// A summary in the shape that is expected.
    pub(crate) fn summary(self, messages: usize) -> String {
        let body = format!(
            "## Goal\nFinish the work that the user asked for.\n## Progress\n{messages} messages were exchanged.\n## Next \
             steps\nGo on with the next command."
        );
        match self {
            Compaction::Summary => {
                format!(
                    "<analysis>\nThe conversation has {messages} messages.\n</analysis>\n\n<summary>\n{body}\n</summary>"
                )
            }
            Compaction::Snapshot => format!(
                "<state_snapshot>\n<overall_goal>Finish the work that the user asked \
                 for.</overall_goal>\n<key_knowledge>{messages} messages were \
                 exchanged.</key_knowledge>\n<current_plan>Go on with the next command.</current_plan>\n</state_snapshot>"
            ),
            _ => body,
        }
    }
}

/// The system prompt and the last thing the user said.
fn last_words(asked: &Asked) -> String {
    let mut words = String::new();
    for field in ["system", "instructions", "systemInstruction"] {
        if let Some(value) = asked.field(field) {
            gather(value, &mut words);
        }
    }
    let messages = match asked.protocol() {
        Protocol::Responses => input_items(asked),
        Protocol::Gemini => asked.list("contents").to_vec(),
        _ => asked.list("messages").to_vec(),
    };
    let is = |message: &Value, role: &str| message.get("role").and_then(Value::as_str) == Some(role);
    for message in messages.iter().filter(|message| is(message, "system") || is(message, "developer")) {
        gather(message, &mut words);
    }
    if let Some(last) = messages.last().filter(|last| is(last, "user")) {
        match asked.protocol() {
            Protocol::Gemini => gather(last, &mut words),
            _ => content_blocks(last).iter().for_each(|block| gather(block, &mut words)),
        }
    }
    words
}

/// All texts of a value that were said, not returned by a tool.
fn gather(value: &Value, words: &mut String) {
    match value {
        Value::String(text) => {
            words.push_str(text);
            words.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, words)),
        Value::Object(fields) if fields.get("type").and_then(Value::as_str) == Some("tool_result") => {}
        Value::Object(fields) => {
            ["text", "content", "parts"]
                .iter()
                .filter_map(|name| fields.get(*name))
                .for_each(|field| gather(field, words));
        }
        _ => {}
    }
}
