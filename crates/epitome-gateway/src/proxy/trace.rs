//! Traces: what an answer leaves in every history that holds it.
//!
//! A client that compacts by itself goes on with a history that shares its beginning with none. Where it does not name its
//! conversation either, the thread that it comes from is known by what the model said in it: calls and words that the
//! client kept, or the summary that it asked for.

use epitome::thread::{Part, Raw, Role, ToolCall};
use epitome::wire::{Dialect, decode_message};
use epitome_runtime::engine::EngineError;
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::log::NewDocument;
use epitome_runtime::model::ModelAnswer;
use epitome_runtime::store::{DocumentKind, Write};
use serde_json::Value;

use super::Inner;
use super::turn::Turn;
use crate::identity::Scope;

/// The shortest line that is nobody else's by chance.
const LINE_BYTES_MIN: usize = 60;
/// The most traces that one answer leaves.
const LEFT_MAX: usize = 4;
/// The most answers of a history that are looked at, newest first.
const ANSWERS_MAX: usize = 6;
/// How many messages at the beginning may hold a summary, and the most of its lines that are looked at.
const LEADING: usize = 2;
const LINES_MAX: usize = 4;

/// What was said, in few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trace(blake3::Hash);

impl Trace {
    fn of_call(call: &ToolCall) -> Trace {
        // Clients write arguments that are objects anew.
        let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
        let arguments = arguments.map_or_else(|| call.arguments.to_string(), |arguments| arguments.to_string());
        Trace(blake3::hash(format!("call\n{}\n{}\n{arguments}", call.id, call.name).as_bytes()))
    }

    fn of_line(line: &str) -> Trace {
        Trace(blake3::hash(format!("line\n{line}").as_bytes()))
    }

    /// The name of its document: of two callers neither finds the other's.
    fn name(&self, scope: &Scope) -> String {
        format!("{}-{}", scope.document(), &self.0.to_hex()[..32])
    }
}

/// The lines of a text that tell, the longest first.
fn telling(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.len()));
    lines
}

fn said<'a>(calls: impl IntoIterator<Item = &'a ToolCall>, text: &str) -> Vec<Trace> {
    let calls = calls.into_iter().map(Trace::of_call);
    let words = telling(text).first().map(|line| Trace::of_line(line));
    words.into_iter().chain(calls).take(LEFT_MAX).collect()
}

/// The traces that answers have left in a history, the most telling first.
fn found_in(dialect: Dialect, messages: &[Raw]) -> Vec<Trace> {
    let read = |raw: &Raw| {
        let message = decode_message(dialect, raw);
        let text = message.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        });
        let text = text.collect::<Vec<_>>().join("\n");
        (message, text)
    };
    let answers = messages.iter().rev().map(read).filter(|(message, _)| message.role == Role::Assistant);
    let kept = answers.take(ANSWERS_MAX).flat_map(|(message, text)| {
        let calls = message.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        });
        said(calls, &text)
    });
    let leading = messages.iter().take(LEADING).map(read).filter(|(message, _)| message.role != Role::Assistant);
    let summed_up = leading
        .flat_map(|(_, text)| telling(&text).into_iter().take(LINES_MAX).map(Trace::of_line).collect::<Vec<_>>());
    kept.chain(summed_up).collect()
}

impl Inner {
    /// What an answer leaves, for whoever goes on from it without a name.
    pub(super) fn traces(&self, turn: &Turn, answer: &ModelAnswer, at: Moment) -> Vec<Write> {
        if turn.scope.is_named() {
            return Vec::new();
        }
        let key = turn.placed.thread.key();
        let value = key.thread.to_string();
        let put = |trace: Trace| {
            let name = trace.name(&turn.scope);
            let (tenant, kind) = (&key.tenant, DocumentKind::Trace);
            let document = NewDocument::new(tenant, kind, &name, &value).at(at);
            self.engine.log().put_document(document)
        };
        said(&answer.calls, &answer.text).into_iter().map(put).collect()
    }

    /// The thread that a new history comes from, as far as what it holds was said here. A store that does not answer is not
    /// waited for again by whoever asks it next.
    pub(super) async fn traced(&self, turn: &Turn) -> Result<Option<ThreadId>, EngineError> {
        if turn.scope.is_named() {
            return Ok(None);
        }
        let (log, tenant) = (self.engine.log(), &turn.caller.tenant);
        // One after the other: many at once would keep the store from everybody else.
        for trace in found_in(turn.asked.dialect(), turn.asked.messages()) {
            let (found, _) = log.document::<String>(tenant, DocumentKind::Trace, &trace.name(&turn.scope)).await?;
            if let Some(thread) = found.and_then(|thread| thread.parse().ok()) {
                return Ok(Some(thread));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SUMMARY: &str =
        "The parser lost its last line because trim_end was called before the split; fixed in src/parse.rs.";

    fn history(messages: &[Value]) -> Vec<Raw> {
        messages.iter().map(|message| Raw::whole(message.to_string())).collect()
    }

    #[test]
    fn a_summary_is_found_among_other_words_and_a_call_however_it_is_written() {
        let summary = said([], &format!("<summary>\n{SUMMARY}\n</summary>"));
        let retold = history(&[json!({"role": "user", "content": format!("So far:\n\n  {SUMMARY}\n\nGo on.")})]);
        assert_eq!(found_in(Dialect::Chat, &retold), summary);
        let call = ToolCall { id: "t1".into(), name: "read".into(), arguments: r#"{"path": "a", "to": 3}"#.into() };
        let kept = history(&[
            json!({"role": "user", "content": "Go on."}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a", "to": 3}}]}),
        ]);
        assert_eq!(found_in(Dialect::Anthropic, &kept), said([&call], ""));
    }

    #[test]
    fn what_anybody_may_say_is_no_trace() {
        assert!(said([], "Done.\nI have read the file.").is_empty());
        let plain =
            history(&[json!({"role": "user", "content": "Hi."}), json!({"role": "assistant", "content": "Hello."})]);
        assert!(found_in(Dialect::Chat, &plain).is_empty());
    }
}
