//! The caller's options for a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::price::CacheState;
use crate::plan::Compaction;
use crate::summary::WorkstreamState;
use crate::thread::{Determinism, Thread};

/// The caller's options for a plan. The default asks for nothing special.
#[derive(Clone, Default)]
pub struct PlanOptions {
    /// The compaction that the thread is under.
    pub previous: Option<Arc<Compaction>>,
    /// The number of compactions the thread went through before, where `previous` does not tell.
    pub rounds_before: u32,
    /// Act even below the trigger.
    pub force: bool,
    /// Clear what an eager policy clears below the trigger, whether a turn opens or not.
    pub prune: bool,
    /// The prompts that the thread's format can express.
    pub shape: PromptShape,
    /// Words that every later prompt must hold, besides the policy's.
    pub pins: Vec<String>,
    /// The user's instructions for the summary.
    pub instructions: Option<String>,
    /// The summary begins another thread, whose goal are the instructions: nothing else of this one goes along. Only under a policy
    /// that writes handoffs.
    pub hands_over: bool,
    /// The workstream state that is kept beside the thread; without it, the one in the earlier summary.
    pub workstream: Option<WorkstreamState>,
    /// The state of the provider's cache.
    pub cache: CacheState,
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
pub enum PromptShape {
    /// Any.
    #[default]
    Free,
    /// One summary, then a verbatim tail.
    SummaryThenTail,
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
