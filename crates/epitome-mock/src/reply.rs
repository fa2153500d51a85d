//! What the model says, before any protocol writes it down.

use serde_json::Value;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) parts: Vec<Part>,
    pub(crate) stop: Stop,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// A thought with its seal: a signature, or encrypted content.
    Thought {
        text: String,
        seal: String,
    },
    Text(String),
    Call(Call),
    /// What stands for the conversation so far.
    Compaction {
        summary: String,
        seal: String,
    },
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
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

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
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

impl Reply {
    /// An answer of one text.
    pub(crate) fn text(text: impl Into<String>) -> Reply {
        Reply { parts: vec![Part::Text(text.into())], stop: Stop::End }
    }

    /// All its words, as they are billed.
    pub(crate) fn spoken(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Thought { text, .. } | Part::Text(text) => out.push_str(text),
                Part::Call(call) => {
                    out.push_str(&call.name);
                    out.push_str(&call.input.to_string());
                }
                Part::Compaction { summary, .. } => out.push_str(summary),
            }
            out.push('\n');
        }
        out
    }

    /// Its thoughts.
    pub(crate) fn thoughts(&self) -> String {
        let thought = |part: &Part| match part {
            Part::Thought { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(thought).collect::<Vec<_>>().join("\n")
    }

    /// Its calls.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// A text in the pieces in which it is streamed.
pub(crate) fn tokens_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// What an answer is billed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) served: super::cache::Served,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}
