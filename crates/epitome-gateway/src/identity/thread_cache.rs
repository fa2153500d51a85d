//! The cache of threads: finds the thread of a history by its fingerprint, without the store where it can, and is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use epitome::thread::{MessageId, Raw};
use epitome_runtime::engine::{Engine, EngineError};
use epitome_runtime::ids::{ThreadId, ThreadKey};
use epitome_runtime::named_enum;
use epitome_runtime::store::DocumentKind;

use super::cached_thread::{CachedState, CachedThread, Origin, Parent, RequestFrame};
use super::{Scope, message_ids};

/// The bytes of a thread of which nothing is loaded.
const THREAD_BYTES: usize = 1024;

named_enum! {
    /// The relation of a history to its thread.
    pub enum Relation {
        /// It begins the thread.
        New = "new",
        /// It continues from the thread's end.
        Continue = "continue",
        /// It was there already: the same request again, or another sample of its answer.
        Again = "again",
        /// It leaves another thread before its end.
        Fork = "fork",
    }
}

/// The thread of a history.
#[derive(Clone, Debug)]
pub struct ThreadMatch {
    pub thread: Arc<CachedThread>,
    /// The relation of the history to it.
    pub relation: Relation,
}

/// The threads in memory.
///
/// A thread is found by the fingerprint of its whole history (`by_tip`) and by its key (`by_key`); both maps hold the same
/// threads. A request whose history begins with a known one *advances* the thread: its new messages become pending, and its
/// tip moves. A request that leaves a thread before its end becomes a fork with an entry of its own.
///
/// Nothing here is the only copy of anything that was stored: an evicted thread is found again in the store, by the ids of its
/// messages. So a thread is evicted only when all its messages are stored and nobody holds it; evicting a thread with
/// pending messages would lose them. Above `bytes_max` the least recently used threads go until a quarter is free.
#[derive(Debug)]
pub struct ThreadCache {
    index: Mutex<CacheIndex>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct CacheIndex {
    by_tip: HashMap<blake3::Hash, Arc<CachedThread>>,
    by_key: HashMap<ThreadKey, Arc<CachedThread>>,
    bytes: usize,
}

/// A history whose thread is wanted.
#[derive(Debug)]
pub struct ThreadQuery<'a> {
    /// The scope; threads of others are never found.
    pub scope: &'a Scope,
    pub messages: &'a [Raw],
    /// Its fingerprints.
    pub prints: &'a [blake3::Hash],
    /// Labels to store with a new thread.
    pub labels: serde_json::Value,
    /// Its system prompt and tools.
    pub frame: RequestFrame,
}

impl ThreadCache {
    /// An empty cache; loaded threads may take this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        ThreadCache { index: Mutex::default(), bytes_max }
    }

    fn index(&self) -> MutexGuard<'_, CacheIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the thread that a history continues, if it is cached.
    pub fn lookup(&self, query: &ThreadQuery<'_>) -> Option<ThreadMatch> {
        let mut index = self.index();
        let (at, thread) = query
            .prints
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, print)| Some((at, index.by_tip.get(print)?.clone())))?;
        if at + 1 < query.messages.len() && thread.state().frame.is_some_and(|known| query.frame.is_of_a_helper(&known))
        {
            let (key, version) = {
                let state = thread.state();
                (state.key.clone(), state.version)
            };
            let state = query.fork_state(key.thread, at + 1, version, Some(Parent(thread)));
            return Some(ThreadMatch { thread: index.begin(state, query), relation: Relation::Fork });
        }
        let relation = index.advance(&thread, at + 1, query)?;
        Some(ThreadMatch { thread, relation })
    }

    /// Returns the cached thread whose history is exactly this one.
    pub fn get(&self, prints: &[blake3::Hash]) -> Option<Arc<CachedThread>> {
        self.index().by_tip.get(prints.last()?).cloned()
    }

    /// Finds the thread of a history in the store, or begins a new one.
    pub async fn find_or_begin(
        &self,
        engine: &Engine,
        query: &ThreadQuery<'_>,
        ids: &[MessageId],
    ) -> Result<ThreadMatch, EngineError> {
        let found = find_in_store(engine, query, ids).await?;
        let mut index = self.index();
        let found = match found {
            Some(found) => match index.by_key.get(&found.key).cloned() {
                Some(thread) => {
                    // What is on its way into the store counts as well.
                    let length = thread.state().length;
                    if let Some(relation) = index.advance(&thread, found.shared, query) {
                        return Ok(ThreadMatch { thread, relation });
                    }
                    Some(Shared { length, ..found })
                }
                None => Some(found),
            },
            None => None,
        };
        let state = query.begin_state(found);
        let relation = match (&state.origin, state.length == query.messages.len()) {
            (Origin::New { .. }, _) => Relation::New,
            (Origin::Fork { .. }, _) => Relation::Fork,
            (Origin::Stored, true) => Relation::Again,
            (Origin::Stored, false) => Relation::Continue,
        };
        let thread = index.begin(state, query);
        drop(index);
        self.evict_idle();
        Ok(ThreadMatch { thread, relation })
    }

    /// Moves a cached thread to the stored thread that its history belongs to by now, or to a fork, because another process
    /// appended first.
    pub async fn reassign(
        &self,
        engine: &Engine,
        thread: &Arc<CachedThread>,
        query: &ThreadQuery<'_>,
    ) -> Result<(), EngineError> {
        let ids = message_ids(query.scope.dialect, query.messages);
        let found = find_in_store(engine, query, &ids).await?;
        let was = thread.key();
        {
            let mut state = thread.state();
            let begins = query.begin_state(found);
            let shared = begins.length;
            (state.key, state.origin, state.version) = (begins.key, begins.origin, begins.version);
            state.forked_from = begins.forked_from;
            state.pending = query.messages[shared..].iter().map(ToString::to_string).collect();
            (state.length, state.stored) = (query.messages.len(), begins.stored);
            state.counted = None;
        }
        let mut index = self.index();
        index.by_key.remove(&was);
        index.by_key.insert(thread.key(), Arc::clone(thread));
        Ok(())
    }

    /// Evicts the least recently used threads if the cache is too large.
    fn evict_idle(&self) {
        let mut index = self.index();
        if index.bytes <= self.bytes_max {
            return;
        }
        let mut idle: Vec<(Instant, ThreadKey)> =
            index.by_key.iter().map(|(key, thread)| (thread.state().used, key.clone())).collect();
        idle.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in idle {
            if index.bytes <= self.bytes_max / 4 * 3 {
                return;
            }
            index.evict(&key);
        }
    }

    /// Notes that a loaded thread's size changed.
    pub fn update_size(&self, before: usize, now: usize) {
        let over = {
            let mut index = self.index();
            index.bytes = (index.bytes + now).saturating_sub(before);
            index.bytes > self.bytes_max
        };
        if over {
            self.evict_idle();
        }
    }
}

impl CacheIndex {
    /// Adds a thread, with the new messages of its history.
    fn begin(&mut self, state: CachedState, query: &ThreadQuery<'_>) -> Arc<CachedThread> {
        let length = state.length;
        let thread = Arc::new(CachedThread::new(state));
        self.by_key.insert(thread.key(), Arc::clone(&thread));
        self.bytes += THREAD_BYTES;
        self.advance(&thread, length, query);
        thread
    }

    /// Adds a history's new messages to the thread whose `shared` messages it begins with; `None` if that is not all of
    /// the thread.
    fn advance(&mut self, thread: &Arc<CachedThread>, shared: usize, query: &ThreadQuery<'_>) -> Option<Relation> {
        let mut state = thread.state();
        if state.length != shared {
            return None;
        }
        state.used = Instant::now();
        if state.frame.is_none() || query.messages.len() > shared {
            state.frame = Some(query.frame);
        }
        let new = &query.messages[shared..];
        let Some(tip) = query.prints.last() else { return Some(Relation::Again) };
        if state.tip != *tip {
            self.by_tip.remove(&state.tip);
            self.by_tip.insert(*tip, Arc::clone(thread));
            state.tip = *tip;
        }
        state.pending.extend(new.iter().map(ToString::to_string));
        state.length += new.len();
        Some(if new.is_empty() { Relation::Again } else { Relation::Continue })
    }

    /// Evicts a thread, unless it is in use or has messages to store.
    fn evict(&mut self, key: &ThreadKey) {
        let Some(thread) = self.by_key.get(key) else { return };
        let Ok(open) = thread.open.try_lock() else { return };
        let waits = open.as_ref().is_some_and(|open| open.saved() != epitome_runtime::engine::Saved::Yes);
        let (tip, is_settled) = {
            let state = thread.state();
            (state.tip, state.pending.is_empty())
        };
        // A request that is about to use it holds it too, besides the two maps.
        if waits || !is_settled || Arc::strong_count(thread) > 2 {
            return;
        }
        self.bytes = self.bytes.saturating_sub(THREAD_BYTES + loaded_bytes(open.as_ref()));
        drop(open);
        self.by_key.remove(key);
        self.by_tip.remove(&tip);
    }
}

/// Estimates the bytes of a loaded thread.
pub fn loaded_bytes(open: Option<&epitome_runtime::engine::OpenThread>) -> usize {
    const PER_TOKEN: u64 = 12;
    open.map_or(0, |open| usize::try_from(open.thread().total().get() * PER_TOKEN).unwrap_or(usize::MAX))
}

impl ThreadQuery<'_> {
    /// Makes the state for a history: of a new thread, of the found one, or of a fork.
    fn begin_state(&self, found: Option<Shared>) -> CachedState {
        match found {
            None => {
                let origin = Origin::New { scope: self.scope.name.clone(), labels: self.labels.clone() };
                self.new_state(self.new_key(), origin, 0, 0)
            }
            Some(found) if found.length == found.shared => {
                self.new_state(found.key, Origin::Stored, found.shared, found.version)
            }
            // Found in the store, so there is nothing to wait for.
            Some(found) => self.fork_state(found.key.thread, found.shared, found.version, None),
        }
    }

    fn new_key(&self) -> ThreadKey {
        ThreadKey::new(self.scope.tenant.clone(), ThreadId::new())
    }

    fn fork_state(&self, from: ThreadId, shared: usize, version: u64, parent: Option<Parent>) -> CachedState {
        // The fork is made later; until then it counts as having a plan if its parent has one.
        self.new_state(self.new_key(), Origin::Fork { from, at: shared as u64, parent }, shared, u64::from(version > 0))
    }

    fn new_state(&self, key: ThreadKey, origin: Origin, length: usize, version: u64) -> CachedState {
        CachedState::new(key, origin, length, version, blake3::hash(self.scope.name.as_bytes()))
    }
}

/// A thread in the store that shares a beginning with a history.
pub(super) struct Shared {
    pub key: ThreadKey,
    pub shared: usize,
    pub length: usize,
    pub version: u64,
}

/// Finds the stored thread of the scope that shares the longest beginning with a history.
pub(super) async fn find_in_store(
    engine: &Engine,
    query: &ThreadQuery<'_>,
    ids: &[MessageId],
) -> Result<Option<Shared>, EngineError> {
    let log = engine.log();
    let found = log.find(&query.scope.tenant, &query.scope.name, ids).await?;
    let Some(found) = found else { return Ok(None) };
    let key = ThreadKey::new(query.scope.tenant.clone(), found.thread);
    // Earlier versions kept pins for threads of nobody in particular: their plans hold words that may be another's.
    if !query.scope.keeps_pins() {
        let (pins, _) = log.document::<Vec<String>>(&key.tenant, DocumentKind::Pins, key.thread.as_str()).await?;
        if pins.is_some_and(|pins| !pins.is_empty()) {
            return Ok(None);
        }
    }
    engine.look_for_annotations(&key).await?;
    let row = log.thread(&key).await?;
    Ok(row.map(|row| Shared {
        key,
        shared: usize::try_from(found.place + 1).unwrap_or(usize::MAX),
        length: usize::try_from(row.length).unwrap_or(usize::MAX),
        version: row.version,
    }))
}
