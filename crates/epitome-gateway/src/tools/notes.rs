//! The notes on a thread as tools: MCP has them, a proxied model has not, because they are a person's to change.

use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, NoteChange, ThreadNotes};
use epitome_runtime::ids::ThreadId;
use serde_json::Value;

use super::refusal::sentence;
use super::{Outcome, Tool};

/// A change of the notes, as JSON schema: what MCP and the API take.
pub(crate) const NOTE_CHANGE: &str = r#"{"type":"object","properties":{"action":{"type":"string","enum":["hide","show","pin","unpin","remember","end_task"],"description":"hide: `text` stands for `message` in every later prompt; show: takes that back; pin: every later prompt holds `text`; unpin: takes that back; remember: adds `text` to the memory block; end_task: says whether the task was completed"},"message":{"type":"string","description":"For hide and show: a message such as m41"},"text":{"type":"string","description":"For hide, pin, unpin and remember"},"completed":{"type":"boolean","description":"For end_task"}},"required":["action"],"additionalProperties":false}"#;

/// Changes the notes.
pub(crate) const ANNOTATE: Tool = Tool {
    name: "annotate",
    description: "Changes what is noted about a thread: hides a message behind other words, pins words that every later \
                  prompt must hold, adds an entry to the memory block, or says how the task ended. Nothing is deleted: a \
                  hidden message is still in the log.",
    parameters: NOTE_CHANGE,
};

/// Shows the notes.
pub(crate) const NOTES: Tool = Tool {
    name: "notes",
    description: "Shows what is noted about a thread: hidden messages, pins, the memory block, the workstream state and \
                  quality metrics.",
    parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
};

/// Performs a call of one of the two: the text for a model, and the notes for a program.
pub(crate) async fn notes(
    engine: &Engine,
    access: &Access,
    thread: ThreadId,
    name: &str,
    arguments: Value,
) -> (Outcome, Option<Value>) {
    let change = match name {
        _ if name == ANNOTATE.name => match serde_json::from_value::<NoteChange>(arguments) {
            Ok(change) => Some(change),
            Err(error) => {
                let text =
                    format!("The arguments of `annotate` cannot be used: {error}. Call it again with its schema.");
                return (Outcome::failure(text), None);
            }
        },
        _ => None,
    };
    let mut open = match engine.resume(access, thread).await {
        Ok(open) => open,
        Err(error) => return (Outcome::failure(sentence(&error)), None),
    };
    let notes = match change {
        Some(change) => open.annotate(&change).await,
        None => open.notes().await,
    };
    match notes {
        Ok(notes) => (Outcome::answer(notes.to_string()), facts(&notes)),
        Err(error) => (Outcome::failure(sentence(&error)), None),
    }
}

fn facts(notes: &ThreadNotes) -> Option<Value> {
    serde_json::to_value(notes).ok()
}
