//! A snapshot: a thread as it was at one moment, with everything that is needed to plan it. Messages may be appended
//! meanwhile; a plan that is made for it stays valid.

use std::collections::BTreeMap;
use std::sync::Arc;

use epitome::budget::{Meter, TokenCounter, Tokens};
use epitome::plan::{Ask, Cache, Compaction, Room, Verdict, decide};
use epitome::policy::Policy;
use epitome::render::{Rehydrated, render};
use epitome::thread::{Determinism, Raw, Thread};
use epitome::wire::Dialect;

use crate::ids::ThreadKey;
use crate::log::Hint;

/// A thread at one moment.
#[derive(Clone)]
pub struct Snapshot {
    pub key: ThreadKey,
    pub thread: Arc<Thread>,
    pub compaction: Option<Arc<Compaction>>,
    pub hints: Vec<Hint>,
    /// How many messages its log has.
    pub length: u64,
    /// The version of the plan it is under.
    pub version: u64,
    pub policy: Arc<Policy>,
    pub counter: Arc<dyn TokenCounter>,
    pub dialect: Dialect,
    pub room: Room,
    pub wants: Wants,
}

/// What is asked for besides.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    pub force: bool,
    pub pins: Vec<String>,
    pub instructions: Option<String>,
    pub rehydrated: bool,
    pub cache: Cache,
    pub artifact_key: Option<[u8; 32]>,
    pub current: BTreeMap<String, Determinism>,
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

    /// The tokens of its prompt.
    pub fn tokens(&self) -> Tokens {
        self.compaction.as_ref().map_or_else(|| self.thread.total(), |known| known.prompt_tokens(&self.thread))
    }

    /// Whether there can be anything to decide.
    pub fn is_below_the_soft_mark(&self) -> bool {
        !self.wants.force && !self.policy.clear.eager && self.tokens() <= self.room.trigger
    }

    pub fn decide(&self) -> Verdict<'_> {
        let ask = Ask {
            previous: self.compaction.as_deref(),
            force: self.wants.force,
            pins: self.wants.pins.clone(),
            instructions: self.wants.instructions.clone(),
            cache: self.wants.cache,
            current: self.wants.current.clone(),
            rehydrated: self.wants.rehydrated,
            artifact_key: self.wants.artifact_key,
            ..Ask::default()
        };
        decide(&self.thread, self.room, &self.policy, self.meter(), &ask)
    }

    /// The prompt's messages as they are under its plan.
    pub fn messages(&self, rehydrated: &[Rehydrated]) -> Vec<Raw> {
        let is_plain = self.compaction.is_none() && rehydrated.is_empty() && self.thread.all_hidden().next().is_none();
        if is_plain && !self.policy.render.checkpoints {
            return self.thread.messages().iter().map(|message| message.raw().clone()).collect();
        }
        let prompt =
            render(&self.thread, self.compaction.as_deref(), &self.policy, self.dialect, self.meter(), rehydrated);
        prompt.to_raw(&self.thread)
    }
}
