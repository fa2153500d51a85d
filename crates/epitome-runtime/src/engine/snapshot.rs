//! A snapshot: a thread as it was at one moment, with everything that is needed to plan it. Messages may be appended
//! meanwhile; a plan that is made for it stays valid.

use std::sync::Arc;

use epitome::budget::{Meter, TokenCounter, Tokens};
use epitome::plan::{Compaction, Room};
use epitome::planner::{PlanOptions, Planner};
use epitome::policy::Policy;
use epitome::render::Rehydrated;
use epitome::thread::{Raw, Thread};
use epitome::wire::Dialect;

use crate::ids::ThreadKey;
use crate::log::Hint;

/// A thread at one moment.
#[derive(Clone)]
pub struct Snapshot {
    pub key: ThreadKey,
    pub thread: Arc<Thread>,
    pub hints: Vec<Hint>,
    /// How many messages its log has.
    pub length: u64,
    /// The version of the plan it is under.
    pub version: u64,
    pub policy: Arc<Policy>,
    pub counter: Arc<dyn TokenCounter>,
    pub dialect: Dialect,
    pub room: Room,
    /// The caller's options, with the compaction that the thread is under.
    pub options: PlanOptions,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("key", &self.key)
            .field("length", &self.length)
            .field("version", &self.version)
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    pub fn meter(&self) -> Meter<'_> {
        Meter::new(&*self.counter, self.dialect)
    }

    /// Returns the planner of this moment.
    pub fn planner(&self) -> Planner<'_> {
        let Snapshot { thread, policy, room, options, .. } = self;
        Planner { thread, policy, meter: self.meter(), room: *room, options }
    }

    /// Returns the compaction that the thread is under.
    pub fn compaction(&self) -> Option<&Arc<Compaction>> {
        self.options.previous.as_ref()
    }

    /// Returns the tokens of its prompt.
    pub fn tokens(&self) -> Tokens {
        self.planner().tokens()
    }

    /// Tells whether there can be anything to decide.
    pub fn is_below_the_soft_mark(&self) -> bool {
        !self.options.force && !self.policy.clear.eager && self.tokens() <= self.room.trigger
    }

    /// The prompt's messages as they are under its plan.
    pub fn messages(&self, rehydrated: &[Rehydrated]) -> Vec<Raw> {
        let is_plain =
            self.compaction().is_none() && rehydrated.is_empty() && self.thread.all_hidden().next().is_none();
        if is_plain && !self.policy.render.checkpoints {
            return self.thread.messages().iter().map(|message| message.raw().clone()).collect();
        }
        let prompt = self.planner().render(self.options.previous.as_deref(), rehydrated);
        prompt.to_raw(&self.thread)
    }
}
