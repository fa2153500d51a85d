//! The planner: the one type through which every door plans.
//!
//! A [`Planner`] is a thread with everything a plan of it depends on. It is made where it is needed, holds references, and
//! costs nothing to make:
//!
//! ```text
//! Planner::decide ──► Verdict::Fits | Verdict::Wait      the prompt stays as it is
//!                └──► Verdict::Act(Draft)                a plan; it may still lack its summary
//! Planner::dialogue(&draft)  ──► the request for a model's summary, if one is wanted
//! Planner::finish(draft, …)  ──► Compaction              the plan, its summaries, its receipt
//! Planner::render(compaction) ──► Prompt                 what the model gets
//! ```
//!
//! A [`Draft`] borrows nothing: it can wait for a model while the thread grows, and any planner of the same thread, policy
//! and options finishes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::budget::Room;
use super::compaction::Compaction;
use super::draft::Draft;
use super::price::Cache;
use crate::budget::{Meter, Tokens};
use crate::policy::Policy;
use crate::render::{Prompt, Rehydrated, render};
use crate::thread::{Determinism, Thread};

/// A thread with everything that decides its plan.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// The policy.
    pub policy: &'a Policy,
    /// Counts tokens as the thread's provider does.
    pub meter: Meter<'a>,
    /// The room for the messages.
    pub room: Room,
    /// The caller's options.
    pub options: &'a PlanOptions,
}

/// The caller's options for a plan. The default asks for nothing special.
#[derive(Clone, Default)]
pub struct PlanOptions {
    /// The compaction that the thread is under.
    pub previous: Option<Arc<Compaction>>,
    /// The number of compactions the thread went through before, where `previous` does not tell.
    pub rounds_before: u32,
    /// Act even below the trigger.
    pub force: bool,
    /// The prompts that the thread's format can express.
    pub shape: Shape,
    /// Words that every later prompt must hold, besides the policy's.
    pub pins: Vec<String>,
    /// The user's instructions for the summary.
    pub instructions: Option<String>,
    /// The state of the provider's cache.
    pub cache: Cache,
    /// The state of tool results' sources now, by call id. A replayable result is cleared only while they match.
    pub current: BTreeMap<String, Determinism>,
    /// Content was brought back in this turn: nothing is moved out or dropped.
    pub rehydrated: bool,
    /// The key that artifacts are addressed under, so that nobody can guess an id from its content; plain hashes without it.
    pub artifact_key: Option<[u8; 32]>,
    /// The places where the tail may begin, where the format has rules of its own for that.
    pub cuts: Option<BTreeSet<usize>>,
    /// The caller's own rung, climbed after the free ones.
    pub own: Option<OwnRung>,
}

/// A caller's own rung: given the thread and the places it may touch, names parts and what should stand there.
pub type OwnRung = Arc<dyn Fn(&Thread, Range<usize>) -> Vec<OwnProposal> + Send + Sync>;

/// One part that a caller's own rung wants cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProposal {
    /// The message's place.
    pub place: usize,
    /// The part's place in it.
    pub part: usize,
    /// The words that should stand there.
    pub placeholder: String,
}

/// The prompts that a format can express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Any.
    #[default]
    Free,
    /// One summary, then a verbatim tail.
    SummaryThenTail,
}

/// The planner's decision.
#[derive(Debug)]
pub enum Verdict {
    /// The prompt is below the trigger.
    Fits {
        /// Its tokens.
        tokens: Tokens,
    },
    /// The prompt is above the trigger, and acting would not help.
    Wait {
        /// Its tokens.
        tokens: Tokens,
        /// Why not, in words.
        reason: String,
    },
    /// A plan, which may still need its summary.
    Act(Box<Draft>),
}

impl<'a> Planner<'a> {
    /// Returns a planner of a thread.
    pub fn new(thread: &'a Thread, policy: &'a Policy, meter: Meter<'a>, room: Room, options: &'a PlanOptions) -> Self {
        Planner { thread, policy, meter, room, options }
    }

    /// Plans and carries the plan out with the embedded summarizer; `None` where there is nothing to do or to gain.
    pub fn compact(&self) -> Option<Compaction> {
        match self.decide() {
            Verdict::Act(draft) => Some(self.finish(*draft, None)),
            Verdict::Fits { .. } | Verdict::Wait { .. } => None,
        }
    }

    /// Returns the tokens of the prompt as the model would get it now.
    pub fn tokens(&self) -> Tokens {
        match &self.options.previous {
            Some(previous) => previous.prompt_tokens(self.thread),
            None => self.thread.total(),
        }
    }

    /// Renders the thread under a compaction, with content that was brought back for this one request.
    pub fn render(&self, compaction: Option<&Compaction>, rehydrated: &[Rehydrated]) -> Prompt {
        render(self.thread, compaction, self.policy, self.meter, rehydrated)
    }
}

impl PlanOptions {
    /// Returns the number that a compaction made now would have in its thread, from 1.
    pub(super) fn round(&self) -> u32 {
        self.previous.as_ref().map_or(self.rounds_before, |previous| previous.plan.round) + 1
    }
}

impl std::fmt::Debug for PlanOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanOptions")
            .field("force", &self.force)
            .field("shape", &self.shape)
            .field("pins", &self.pins.len())
            .field("round", &self.round())
            .finish_non_exhaustive()
    }
}
