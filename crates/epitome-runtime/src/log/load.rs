//! Loading: a thread as far as its newest plan needs it.

use std::sync::Arc;

use epitome::budget::Meter;
use epitome::plan::Compaction;
use epitome::thread::{RestoredMessage, Thread};

use super::annotations::Annotations;
use super::body::LogEntry;
use super::{Log, LogError, Result};
use crate::ids::ThreadKey;
use crate::log::ArtifactHint;
use crate::store::ThreadRow;

/// A thread, loaded from its last compaction onward.
#[derive(Clone, Debug)]
pub struct LoadedThread {
    /// Its row.
    pub row: ThreadRow,
    /// Its messages, as far as they are needed.
    pub thread: Arc<Thread>,
    /// The compaction it is under.
    pub compaction: Option<Arc<Compaction>>,
    /// The names of its artifacts.
    pub hints: Vec<ArtifactHint>,
    /// What people noted about it. Its hidden messages are hidden in `thread`.
    pub annotations: Annotations,
    /// The version of these notes.
    pub annotated: u64,
}

impl Log {
    /// Loads a thread from its last compaction onward. A plan and messages that were committed while reading are taken
    /// as far as they fit together.
    pub async fn load(&self, key: &ThreadKey, meter: &Meter<'_>, counter: &str) -> Result<Option<LoadedThread>> {
        let Some(row) = self.thread(key).await? else { return Ok(None) };
        let plan = match row.version {
            0 => None,
            version => {
                let plan = self.plan(key, Some(version)).await?;
                Some(plan.ok_or_else(|| LogError::Unreadable(format!("plan {version} of {key}")))?)
            }
        };
        let (annotations, annotated) = self.annotations(key).await?;
        let Some((_, stored)) = plan else {
            let mut thread = self.load_whole(&row, meter, counter).await?;
            annotations.apply(&mut thread);
            let (thread, hints) = (Arc::new(thread), Vec::new());
            return Ok(Some(LoadedThread { row, thread, compaction: None, hints, annotations, annotated }));
        };
        let mut thread = Thread::new();
        let is_threads = self.is_counted_with(&row, counter);
        let mut evicted = stored.evicted;
        for (start, end) in stored.loaded.iter().copied().chain([(stored.live_from, row.length)]) {
            for entry in self.read(&row, start..end).await? {
                if evicted.as_ref().is_some_and(|gone| gone.at == thread.len())
                    && let Some(gone) = evicted.take()
                {
                    thread.stand_for(gone);
                }
                restore(&mut thread, entry, meter, (is_threads, counter));
            }
        }
        if let Some(gone) = evicted {
            thread.stand_for(gone);
        }
        let mut compaction = stored.compaction;
        if stored.counter != counter {
            // What is new is told from what the plan knew by the counts of now.
            compaction.plan.thread_tokens = thread.tokens(0..compaction.plan.covers.min(thread.len()));
        }
        annotations.apply(&mut thread);
        let (thread, compaction) = (Arc::new(thread), Some(Arc::new(compaction)));
        Ok(Some(LoadedThread { row, thread, compaction, hints: stored.hints, annotations, annotated }))
    }

    /// Loads every message of a thread, whatever its plans took out of the prompt.
    pub(crate) async fn load_whole(&self, row: &ThreadRow, meter: &Meter<'_>, counter: &str) -> Result<Thread> {
        let mut thread = Thread::new();
        let is_threads = self.is_counted_with(row, counter);
        for entry in self.read(row, 0..row.length).await? {
            restore(&mut thread, entry, meter, (is_threads, counter));
        }
        Ok(thread)
    }
}

/// Puts a message back; one that another counter counted is counted again. `is_threads` says whether the counter is the one
/// that the thread's messages are counted with unless they say otherwise.
fn restore(thread: &mut Thread, entry: LogEntry, meter: &Meter<'_>, (is_threads, counter): (bool, &str)) {
    let LogEntry { id, turn, part_tokens, message, counter: own, .. } = entry;
    let known = own.map_or(is_threads, |own| own == counter);
    let part_tokens = if known { part_tokens } else { meter.parts(&message) };
    thread.restore(RestoredMessage { body: message, id, turn, part_tokens }, meter);
}
