//! A summary that is still to be written: its span, its limit, and what stays in the prompt beside it.

use std::collections::HashSet;

use super::structured::StructuredSummary;
use crate::budget::{Meter, Tokens};
use crate::policy::Policy;
use crate::thread::{MessageId, Part, Span, Thread};

/// A summary to be written.
pub struct Pending<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// The policy.
    pub policy: &'a Policy,
    /// Counts.
    pub meter: Meter<'a>,
    /// What it stands for.
    pub span: Span,
    /// Messages of the span that stay.
    pub kept: Vec<MessageId>,
    /// The most tokens its message may take.
    pub limit: Tokens,
    /// Whether the span ends inside a turn.
    pub splits_turn: bool,
    /// Words that must be in every later prompt.
    pub pins: Vec<String>,
    /// What the user wants it to look at; may be empty.
    pub focus: String,
    /// Which round this is, from 1.
    pub round: u32,
    /// The items of the summary that this one takes the place of.
    pub earlier: Option<StructuredSummary>,
    /// What of them a model wrote.
    pub written: StructuredSummary,
    /// The texts that stand in the prompt beside it.
    pub beside: Vec<String>,
    /// The messages that stand in the prompt whole.
    pub whole: HashSet<usize>,
}

impl Pending<'_> {
    /// Whether a message stands in the prompt whole.
    pub fn keeps(&self, place: usize) -> bool {
        self.whole.contains(&place)
    }

    /// A summary's text with the policy's words around it.
    pub fn dressed(&self, text: &str) -> String {
        self.policy.render.dressed(text)
    }
}

/// Everything that is said in a message, call arguments included.
pub fn all_words(thread: &Thread, place: usize) -> String {
    let mut words: Vec<&str> = Vec::new();
    for part in thread.message(place).parts() {
        match part {
            Part::Text(text) => words.push(text),
            Part::ToolCall(call) => words.push(&call.arguments),
            Part::ToolResult(result) => words.push(&result.text),
            _ => {}
        }
    }
    words.join("\n")
}
