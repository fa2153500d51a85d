//! A summary that is still to be written: its span, its limit, and what stays in the prompt beside it.
//!
//! [`PendingSummary`] is the order, as data that can be kept while a model is asked. [`SummaryContext`] is that order beside the
//! thread it is about.

use std::collections::HashSet;

use super::structured::StructuredSummary;
use crate::budget::{Meter, Tokens};
use crate::policy::Policy;
use crate::thread::{MessageId, Part, Span, Thread};

/// An order for a summary. It borrows nothing, so that it can be kept across the call to a model.
#[derive(Clone, Debug)]
pub struct PendingSummary {
    /// The messages it stands for.
    pub span: Span,
    /// Messages of the span that stay in the prompt.
    pub kept: Vec<MessageId>,
    /// The most tokens its message may take.
    pub limit: Tokens,
    /// Whether the span ends inside a turn.
    pub splits_turn: bool,
    /// Words that must be in every later prompt.
    pub pins: Vec<String>,
    /// The user's instructions for it; may be empty.
    pub focus: String,
    /// The number of this round, from 1.
    pub round: u32,
    /// The items of the summary that this one replaces.
    pub earlier: Option<StructuredSummary>,
    /// Those of them that a model wrote.
    pub written: StructuredSummary,
    /// The texts that stand in the prompt beside it.
    pub beside: Vec<String>,
    /// The messages that stand in the prompt whole.
    pub whole: HashSet<usize>,
}

/// A summary to be written, with the thread it is about.
#[derive(Clone, Copy)]
pub struct SummaryContext<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// The policy.
    pub policy: &'a Policy,
    /// Counts tokens.
    pub meter: Meter<'a>,
    /// The order.
    pub order: &'a PendingSummary,
}

impl SummaryContext<'_> {
    /// Whether a message stands in the prompt whole.
    pub fn keeps(&self, place: usize) -> bool {
        self.order.whole.contains(&place)
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
