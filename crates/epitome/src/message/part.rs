//! The parts of a message, typed: words, media, reasoning, calls, results, and what is not understood.
//!
//! Words are shared: a session's log and the thread made of it hold one copy of a text, however large the file.

use std::sync::Arc;

use super::envelope::ToolResult;
use super::media::Media;
use super::raw::Raw;

/// One piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words.
    Text(Arc<str>),
    /// A picture, a document, a recording or a file.
    Media(Media),
    /// The model's thinking.
    Reasoning(Reasoning),
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// A tool answers.
    ToolResult(ToolResult),
    /// Something this library does not know; carried through untouched.
    Opaque(Opaque),
}

impl Part {
    /// The media in it: itself, or what a tool result holds.
    pub fn media(&self) -> &[Media] {
        match self {
            Part::Media(media) => std::slice::from_ref(media),
            Part::ToolResult(result) => &result.media,
            _ => &[],
        }
    }
}

/// The model's thinking, and who can still read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasoning {
    /// What is readable of it.
    pub text: Arc<str>,
    /// Whether the provider signed or encrypted it, so that it is immutable or absent.
    pub seal: Seal,
}

/// How a provider binds reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// Plain text.
    Open,
    /// Readable, with a signature over it.
    Signed,
    /// Unreadable.
    Encrypted,
}

/// The model asks for a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id of the call, which its result repeats.
    pub id: Box<str>,
    /// The tool's name.
    pub name: Box<str>,
    /// The arguments as JSON text (or, for free-form tools, as text).
    pub arguments: Arc<str>,
}

/// Something this library does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its `type`, where it has one.
    pub kind: Box<str>,
    /// Its JSON.
    pub json: Raw,
}
