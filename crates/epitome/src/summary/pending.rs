//! A summary that is still to be written: its span, its limit, and the rest of the prompt it is for.

use std::collections::HashSet;

use super::state::WorkstreamState;
use super::structured::StructuredSummary;
use crate::budget::{Meter, Tokens};
use crate::policy::Policy;
use crate::thread::{Span, Thread};

/// An order for a summary.
///
/// The summarize rung makes it while the plan is decided, when it is known what else stays in the prompt. It then waits in
/// the draft, possibly for minutes, while a model is asked and the thread grows; it borrows nothing for that reason.
/// Finishing the draft fills in the pins, and writes from it, once or more often: where the finished prompt is larger than
/// planned, the limit is lowered and the summary is written again.
///
/// Places are those of the thread as it was decided on. A thread only grows, so they stay valid; on a thread that was loaded
/// anew from another compaction they would name other messages.
#[derive(Clone, Debug)]
pub struct PendingSummary {
    /// The messages it stands for.
    pub span: Span,
    /// The most tokens its message may take.
    pub limit: Tokens,
    /// The span ends inside a turn.
    pub splits_turn: bool,
    /// Words that must be in every later prompt.
    pub pins: Vec<String>,
    /// The user's instructions for it; may be empty.
    pub focus: String,
    /// It begins a new thread with a goal, which is the focus.
    pub hands_over: bool,
    /// The number of this round, from 1.
    pub round: u32,
    /// The items of the summary that this one replaces.
    pub earlier: Option<StructuredSummary>,
    /// Those of them that a model wrote.
    pub written: StructuredSummary,
    /// The workstream state that is kept beside the thread, where the caller keeps one.
    pub workstream: Option<WorkstreamState>,
    /// The texts of everything else in the prompt: what they say is not said again.
    pub kept_texts: Vec<String>,
    /// The places of the messages that stay in the prompt unchanged.
    pub kept_whole: HashSet<usize>,
}

/// An order, with the thread it is about.
#[derive(Clone, Copy)]
pub(crate) struct SummaryContext<'a> {
    pub(crate) thread: &'a Thread,
    pub(crate) policy: &'a Policy,
    pub(crate) meter: Meter<'a>,
    pub(crate) order: &'a PendingSummary,
}
