//! A snapshot: a thread as it was at one moment, with everything that is needed to plan it.

use std::sync::Arc;

use epitome::budget::{Meter, TokenCounter, Tokens};
use epitome::plan::{Compaction, Room};
use epitome::planner::{PlanOptions, Planner};
use epitome::policy::Policy;
use epitome::render::Rehydrated;
use epitome::thread::{Raw, Thread};
use epitome::wire::Dialect;

use super::Engine;
use crate::event::{Event, EventKind};
use crate::ids::ThreadKey;
use crate::log::{ArtifactHint, LoadedThread};

/// A thread at one moment.
///
/// It never changes, so that planning can run on another thread of the process, or wait minutes for a model, while
/// messages are appended to the open thread. `version` and `length` say which state it is: a commit expects that version,
/// and a plan for the first `length` messages stays valid under every longer log, because a log is only appended to. One is
/// taken for each compaction that is tried, and one for the prompt that is rendered.
#[derive(Clone)]
pub struct Snapshot {
    pub key: ThreadKey,
    pub thread: Arc<Thread>,
    pub hints: Vec<ArtifactHint>,
    /// The number of messages in the log.
    pub length: u64,
    /// The version of the plan that the thread is under; 0 without one.
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
    /// Takes a snapshot of what is loaded, under an engine's policy and what the request's tools declare. The compaction and the
    /// tenant's artifact key are filled into the options here.
    pub fn new(
        engine: &Engine,
        loaded: &LoadedThread,
        (dialect, tools): (Dialect, Option<&str>),
        room: Room,
        options: PlanOptions,
    ) -> Self {
        let artifact_key = engine.inner.log.vault().artifact_key(&loaded.row.key.tenant);
        let notes = &loaded.annotations;
        let mut pins = options.pins;
        pins.extend(notes.pins.iter().filter(|pin| !pins.contains(pin)).cloned().collect::<Vec<_>>());
        pins.retain(|pin| !notes.unpinned.contains(pin));
        let mut previous = loaded.compaction.clone();
        if let Some(compaction) = previous.as_mut().filter(|_| !notes.unpinned.is_empty()) {
            for summary in &mut Arc::make_mut(compaction).summaries {
                summary.items.pins.retain(|pin| !notes.unpinned.contains(pin));
            }
        }
        let mut policy = engine.policy();
        if let Some(tools) = tools.and_then(|tools| policy.tools.with_declared(tools)) {
            Arc::make_mut(&mut policy).tools = tools;
        }
        Snapshot {
            key: loaded.row.key.clone(),
            thread: Arc::clone(&loaded.thread),
            hints: loaded.hints.clone(),
            length: loaded.row.length,
            version: loaded.row.version,
            policy,
            counter: Arc::clone(engine.counter()),
            dialect,
            room,
            options: PlanOptions { previous, pins, artifact_key: Some(artifact_key), ..options },
        }
    }

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

    /// Returns an event of this thread that changes no token.
    pub fn event(&self, kind: EventKind) -> Event {
        Event::of_prompt(&self.key, kind, self.tokens(), self.room.limit)
    }

    /// Renders the prompt's messages under its compaction.
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
