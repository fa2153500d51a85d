//! Compactions that a client asks for itself, and answers in the shape each of them expects.

use serde_json::Value;

use super::endpoint::{MockEndpoint, ProviderProtocol};
use super::prompt::{content_blocks, input_items};
use super::request::MockRequest;

/// The kind of compaction a request asks for, and so the shape of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedCompaction {
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
const SENTENCES: &[(&str, RequestedCompaction)] = &[
    ("<state_snapshot>", RequestedCompaction::Snapshot),
    ("Your task is to create a detailed summary of the conversation", RequestedCompaction::Summary),
    ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools", RequestedCompaction::Summary),
    ("CONTEXT CHECKPOINT COMPACTION", RequestedCompaction::Prose),
    ("Create a structured context checkpoint summary", RequestedCompaction::Prose),
    ("Provide a detailed prompt for continuing our conversation", RequestedCompaction::Prose),
];

impl RequestedCompaction {
    /// The compaction that a request of so many tokens asks for.
    pub(crate) fn requested_by(request: &MockRequest, tokens: u64) -> Option<RequestedCompaction> {
        RequestedCompaction::on_demand(request)
            .or_else(|| RequestedCompaction::over_threshold(request, tokens))
            .or_else(|| {
                let words = last_words(request);
                SENTENCES.iter().find(|(sentence, _)| words.contains(sentence)).map(|(_, compaction)| *compaction)
            })
    }

    fn on_demand(request: &MockRequest) -> Option<RequestedCompaction> {
        let triggered =
            || request.list("input").last().and_then(|item| item.get("type")?.as_str()) == Some("compaction_trigger");
        let summarized = || request.body.pointer("/compaction/type").and_then(Value::as_str) == Some("summarize");
        (request.endpoint == MockEndpoint::Compact || triggered() || summarized())
            .then_some(RequestedCompaction::Sealed)
    }

    fn over_threshold(request: &MockRequest, tokens: u64) -> Option<RequestedCompaction> {
        match request.protocol() {
            ProviderProtocol::Anthropic => {
                let edits = request.body.pointer("/context_management/edits")?.as_array()?;
                let edit =
                    edits.iter().find(|edit| edit.get("type").and_then(Value::as_str) == Some("compact_20260112"))?;
                let trigger = edit.pointer("/trigger/value").and_then(Value::as_u64).unwrap_or(150_000);
                let pauses = edit.get("pause_after_compaction").and_then(Value::as_bool).unwrap_or(false);
                let compaction =
                    if pauses { RequestedCompaction::SealedPause } else { RequestedCompaction::SealedFirst };
                (tokens > trigger).then_some(compaction)
            }
            ProviderProtocol::Responses => {
                let edits = request.list("context_management").iter();
                let threshold = edits.filter_map(|edit| edit.get("compact_threshold")?.as_u64()).min()?;
                (tokens > threshold).then_some(RequestedCompaction::SealedFirst)
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
            RequestedCompaction::Summary => {
                format!(
                    "<analysis>\nThe conversation has {messages} messages.\n</analysis>\n\n<summary>\n{body}\n</summary>"
                )
            }
            RequestedCompaction::Snapshot => format!(
                "<state_snapshot>\n<overall_goal>Finish the work that the user asked \
                 for.</overall_goal>\n<key_knowledge>{messages} messages were \
                 exchanged.</key_knowledge>\n<current_plan>Go on with the next command.</current_plan>\n</state_snapshot>"
            ),
            _ => body,
        }
    }
}

/// The system prompt and the last thing the user said.
fn last_words(request: &MockRequest) -> String {
    let mut words = String::new();
    for field in ["system", "instructions", "systemInstruction"] {
        if let Some(value) = request.field(field) {
            gather(value, &mut words);
        }
    }
    let messages = match request.protocol() {
        ProviderProtocol::Responses => input_items(request),
        ProviderProtocol::Gemini => request.list("contents").to_vec(),
        _ => request.list("messages").to_vec(),
    };
    let is = |message: &Value, role: &str| message.get("role").and_then(Value::as_str) == Some(role);
    for message in messages.iter().filter(|message| is(message, "system") || is(message, "developer")) {
        gather(message, &mut words);
    }
    if let Some(last) = messages.last().filter(|last| is(last, "user")) {
        match request.protocol() {
            ProviderProtocol::Gemini => gather(last, &mut words),
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
