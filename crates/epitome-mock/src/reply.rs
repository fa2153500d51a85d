//! The model's reply, before a protocol encodes it.

use serde_json::Value;

/// A reply of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelReply {
    pub(crate) parts: Vec<ReplyPart>,
    pub(crate) stop: StopReason,
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReplyPart {
    /// A thought with its seal: a signature, or encrypted content.
    Thought {
        text: String,
        seal: String,
    },
    Text(String),
    Call(ReplyCall),
    /// A sealed summary that replaces the conversation so far.
    Compaction {
        summary: String,
        seal: String,
    },
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplyCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) kind: CallKind,
}

/// The kinds of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Function,
    /// OpenAI's own shell tool, whose input is an action.
    LocalShell,
}

/// The reason for which a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It is finished.
    End,
    /// Tools are to be run.
    Tools,
    /// The reserved output is used up.
    Length,
    /// The window is full.
    WindowFull,
    /// It was compacted, and nothing else was asked for.
    Compaction,
}

impl ModelReply {
    /// Makes a reply of one text.
    pub(crate) fn text(text: impl Into<String>) -> ModelReply {
        ModelReply { parts: vec![ReplyPart::Text(text.into())], stop: StopReason::End }
    }

    /// Returns everything that counts as output.
    pub(crate) fn spoken(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                ReplyPart::Thought { text, .. } | ReplyPart::Text(text) => out.push_str(text),
                ReplyPart::Call(call) => {
                    out.push_str(&call.name);
                    out.push_str(&call.input.to_string());
                }
                ReplyPart::Compaction { summary, .. } => out.push_str(summary),
            }
            out.push('\n');
        }
        out
    }

    /// Returns its thoughts.
    pub(crate) fn thoughts(&self) -> String {
        let thought = |part: &ReplyPart| match part {
            ReplyPart::Thought { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(thought).collect::<Vec<_>>().join("\n")
    }

    /// Returns its tool calls.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &ReplyCall> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// A text in the pieces in which it is streamed.
pub(crate) fn tokens_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// The tokens that a reply is billed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplyUsage {
    pub(crate) served: super::cache::InputUsage,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}
