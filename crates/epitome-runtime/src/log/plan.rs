//! A plan as it is kept: the compaction for what is loaded, and what must be loaded for it.

use epitome::plan::Compaction;
use epitome::thread::{Evicted, Thread};
use serde::{Deserialize, Serialize};

use crate::ids::ThreadKey;

/// A committed compaction, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPlan {
    /// The compaction; places in it are those of the loaded thread.
    pub compaction: Compaction,
    /// What stands for the messages that need not be loaded.
    pub evicted: Option<Evicted>,
    /// Runs of places before `live_from` that must be loaded: first, and the one after the last.
    pub loaded: Vec<(u64, u64)>,
    /// From this place on every message must be loaded.
    pub live_from: u64,
    /// The counter that it was made with.
    #[serde(default)]
    pub counter: String,
    /// Every artifact that the thread's plans made, newest last, and what it may be asked for by.
    #[serde(default)]
    pub hints: Vec<Hint>,
}

/// What an artifact may be asked for by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    /// The artifact.
    pub id: String,
    /// The message it came from.
    pub place: u64,
    /// When to read it again, in words.
    pub hint: String,
    /// The names that a question may use for it: paths, commands, addresses.
    pub names: Vec<String>,
}

impl StoredPlan {
    /// A compaction of a loaded thread, as it is kept: without the messages that its summary stands for.
    pub fn of(
        compaction: &Compaction,
        thread: &Thread,
        length: u64,
        counter: &str,
        hints: Vec<Hint>,
    ) -> (StoredPlan, Thread) {
        let (thread, compaction) = match compaction.evict(thread) {
            Some((small, moved)) => (small, moved),
            None => (thread.clone(), compaction.clone()),
        };
        let (loaded, live_from) = runs(&thread, length);
        let evicted = thread.evicted().cloned();
        (StoredPlan { compaction, evicted, loaded, live_from, counter: counter.to_owned(), hints }, thread)
    }
}

/// The runs of log places that a thread holds, and where the last one that reaches its end begins.
fn runs(thread: &Thread, length: u64) -> (Vec<(u64, u64)>, u64) {
    let evicted = thread.evicted().map(|evicted| evicted.at);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (at, message) in thread.messages().iter().enumerate() {
        if Some(at) == evicted {
            continue;
        }
        let place = message.log_place() as u64;
        match runs.last_mut() {
            Some((_, end)) if *end == place => *end = place + 1,
            _ => runs.push((place, place + 1)),
        }
    }
    match runs.last() {
        Some(&(start, end)) if end == length => {
            runs.pop();
            (runs, start)
        }
        _ => (runs, length),
    }
}

/// The name under which a plan is sealed.
pub(super) fn name(key: &ThreadKey, version: u64) -> String {
    format!("{}@{version}", key.thread)
}
