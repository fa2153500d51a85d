//! The gateway's own tools, as values: what a model is told of them, and what comes of a call.
//!
//! ```text
//! name, arguments ──► Call ──► Reader ──► text, within its tokens ──► Outcome
//! ```
//!
//! An outcome never costs more than its cap, so that reading back does not fill the prompt again; one that is cut says
//! how to read on. What went wrong is a sentence that a model can act on. Nothing here decides who may read: the access
//! that a thread was opened with does.

mod call;
mod handoff;
mod notes;
mod page;
mod reader;
mod refusal;

pub use call::{Call, ReadTarget};
pub(crate) use handoff::{HANDOFF, HandoffRequest, handoff};
pub(crate) use notes::{ANNOTATE, NOTE_CHANGE, NOTES, notes};
pub(crate) use page::read;
pub use reader::{Imported, OpenedThread, Reader};
use refusal::no_artifact;
pub(crate) use refusal::no_thread;
pub use refusal::{refused, sentence};

use epitome::budget::Tokens;
use epitome::thread::Media;
use epitome_runtime::engine::{Engine, OpenThread};
use epitome_runtime::recall::RecallRequest;

/// A tool as a model is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// Its parameters, as JSON schema.
    pub parameters: &'static str,
}

/// Reads an artifact or a message.
pub const READ_ARTIFACT: Tool = Tool {
    name: "read_artifact",
    description: "Reads back content that was moved out of this conversation to save room: an artifact that a \
                  placeholder names, messages such as m41 or m188-m193, all edits of a file, or a file as it stands after them. \
                  Long content comes in parts; each part says how to read on. Images and files come back as what they are.",
    parameters: r#"{"type":"object","properties":{"id":{"type":"string","description":"The artifact's id, or messages: m41; m188-m193, m200"},"around":{"type":"integer","description":"So many messages before and after these as well"},"edits":{"type":"string","description":"Instead of id: a file, for all its edits as diffs"},"file":{"type":"string","description":"Instead of id: a file, for its lines as they stand now, as far as they are known"},"from":{"type":"integer","description":"First line, counted from 1"},"to":{"type":"integer","description":"Last line"},"grep":{"type":"string","description":"Only lines that hold this text, in any case"},"context":{"type":"integer","description":"Lines around each of those"},"byte":{"type":"integer","description":"Where to go on inside a long line"}},"additionalProperties":false}"#,
};

/// Searches what left the prompts.
pub const RECALL: Tool = Tool {
    name: "recall",
    description: "Searches everything that was left out of this conversation to save room, and answers the passages \
                  that fit best, with the newest mention and the newest failure. Use it before asking again or redoing work.",
    parameters: r#"{"type":"object","properties":{"query":{"type":"string","description":"Words to look for: names, paths, errors, values"},"who":{"type":"string","enum":["user","assistant","tool"],"description":"Only what they said"},"file":{"type":"string","description":"Only what is about this file: its path, or the end of it"},"tool":{"type":"string","description":"Only calls of this tool and their results"},"after":{"type":"string","description":"Only messages after this one, such as m41"},"newest":{"type":"boolean","description":"The newest first"},"limit":{"type":"integer","description":"The most passages"}},"additionalProperties":false}"#,
};

/// The tools that a request is given.
pub const TOOLS: [Tool; 2] = [READ_ARTIFACT, RECALL];

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The text that the model reads.
    pub text: String,
    /// True if the call failed.
    pub is_error: bool,
    /// Images and files that were read back: they are shown to the model, not told.
    pub media: Vec<Media>,
}

impl Outcome {
    /// A call that was answered.
    pub fn answer(text: impl Into<String>) -> Self {
        Outcome { text: text.into(), is_error: false, media: Vec::new() }
    }

    /// A call that failed.
    pub fn failure(text: impl Into<String>) -> Self {
        Outcome { text: text.into(), is_error: true, media: Vec::new() }
    }
}

/// The limits of results. `recall` has the engine's own limit, `recall.tokens_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The most tokens of an answer of `read_artifact`.
    pub read_tokens_max: Tokens,
}

impl Default for Caps {
    fn default() -> Self {
        Caps { read_tokens_max: Tokens::new(4000) }
    }
}

/// True if a tool of this name is one of the gateway's own.
pub fn is_own(name: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == name)
}

/// Performs a model's call on an open thread. The arguments are JSON as the model wrote them; nothing means none. What is
/// another thread's is not there: an id may have come from anybody.
pub async fn perform(engine: &Engine, thread: &mut OpenThread, caps: Caps, name: &str, arguments: &str) -> Outcome {
    match Call::parse(name, arguments) {
        Ok(call) => match call.artifact() {
            Some(id) if !thread.has_artifact(id).await => Outcome::failure(no_artifact(id)),
            _ => answer(engine, &mut Reader::Open(thread), caps, &call).await,
        },
        Err(outcome) => outcome,
    }
}

/// Answers a call that was understood.
pub async fn answer(engine: &Engine, reader: &mut Reader<'_>, caps: Caps, call: &Call) -> Outcome {
    match call {
        Call::ReadArtifact(wanted) => match page::read(engine, reader, caps.read_tokens_max, wanted).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::failure(refused(&error, &wanted.name(), reader.row())),
        },
        Call::Recall(request) => recall(reader, request).await,
    }
}

async fn recall(reader: &mut Reader<'_>, request: &RecallRequest) -> Outcome {
    match reader.recall(request).await {
        Ok(found) if found.hits.is_empty() && found.others.is_empty() => {
            Outcome::answer(match request.filter.is_empty() {
                true => "Nothing that was left out matches. Try other words.",
                false => "Nothing that was left out matches. Try other words, or fewer filters.",
            })
        }
        Ok(found) => Outcome::answer(found.render()),
        Err(error) => Outcome::failure(sentence(&error)),
    }
}
