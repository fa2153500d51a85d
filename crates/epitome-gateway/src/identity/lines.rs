//! The lines at hand: found by the fingerprint of their end without asking anybody, and bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use epitome::thread::Raw;
use epitome_runtime::engine::{Engine, EngineError};
use epitome_runtime::ids::{ThreadId, ThreadKey};
use epitome_runtime::store::DocumentKind;

use super::line::{Facts, Frame, Line, Origin, Parent};
use super::{Ids, Scope};

/// What a line costs besides what is loaded of it.
const LINE_BYTES: usize = 1024;

/// How a history relates to the thread it was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is the thread's beginning.
    New,
    /// It goes on from its end.
    Continue,
    /// It was there already: the same request again, or another sample of its answer.
    Again,
    /// It leaves another thread before its end.
    Fork,
}

impl Relation {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Relation::New => "new",
            Relation::Continue => "continue",
            Relation::Again => "again",
            Relation::Fork => "fork",
        }
    }
}

/// A history, found.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its thread.
    pub line: Arc<Line>,
    /// How it relates to it.
    pub relation: Relation,
}

/// The threads at hand.
#[derive(Debug)]
pub struct Lines {
    state: Mutex<State>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    by_tip: HashMap<blake3::Hash, Arc<Line>>,
    by_key: HashMap<ThreadKey, Arc<Line>>,
    bytes: usize,
}

/// What a history is looked for with.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Where to look.
    pub scope: &'a Scope,
    /// Its messages.
    pub messages: &'a [Raw],
    /// Its fingerprints.
    pub prints: &'a [blake3::Hash],
    /// What to remember of a new thread.
    pub labels: serde_json::Value,
    /// What stands beside its messages.
    pub frame: Frame,
}

impl Lines {
    /// Nobody yet; loaded threads may take this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Lines { state: Mutex::default(), bytes_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many threads are at hand.
    pub fn len(&self) -> usize {
        self.state().by_key.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The thread that a history goes on from, if it is at hand.
    pub fn at_hand(&self, wanted: &Wanted<'_>) -> Option<Placed> {
        let mut state = self.state();
        let (at, line) = wanted
            .prints
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, print)| Some((at, state.by_tip.get(print)?.clone())))?;
        if at + 1 < wanted.messages.len() && line.facts().frame.is_some_and(|known| wanted.frame.is_anothers(&known)) {
            let (key, version) = {
                let facts = line.facts();
                (facts.key.clone(), facts.version)
            };
            let facts = wanted.leaves(key.thread, at + 1, version, Some(Parent(line)));
            return Some(Placed { line: state.begin(facts, wanted), relation: Relation::Fork });
        }
        let relation = state.advance(&line, at + 1, wanted)?;
        Some(Placed { line, relation })
    }

    /// The thread that a history is, if it is at hand and has nothing that is new.
    pub fn known(&self, prints: &[blake3::Hash]) -> Option<Arc<Line>> {
        self.state().by_tip.get(prints.last()?).cloned()
    }

    /// Finds a history in the store; what is not there begins a thread.
    pub async fn seek(&self, engine: &Engine, wanted: &Wanted<'_>, ids: &Ids) -> Result<Placed, EngineError> {
        let found = find(engine, wanted, ids).await?;
        let mut state = self.state();
        let found = match found {
            Some(found) => match state.by_key.get(&found.key).cloned() {
                Some(line) => {
                    // What is on its way into the store counts as well.
                    let length = line.facts().length;
                    if let Some(relation) = state.advance(&line, found.shared, wanted) {
                        return Ok(Placed { line, relation });
                    }
                    Some(Shared { length, ..found })
                }
                None => Some(found),
            },
            None => None,
        };
        let facts = wanted.begins(found);
        let relation = match (&facts.origin, facts.length == wanted.messages.len()) {
            (Origin::New { .. }, _) => Relation::New,
            (Origin::Fork { .. }, _) => Relation::Fork,
            (Origin::Stored, true) => Relation::Again,
            (Origin::Stored, false) => Relation::Continue,
        };
        let line = state.begin(facts, wanted);
        drop(state);
        self.make_room();
        Ok(Placed { line, relation })
    }

    /// Others were faster with a line's next message: it becomes the thread that its history is by now.
    pub async fn part(&self, engine: &Engine, line: &Arc<Line>, wanted: &Wanted<'_>) -> Result<(), EngineError> {
        let ids = Ids::of(wanted.scope.dialect, wanted.messages);
        let found = find(engine, wanted, &ids).await?;
        let was = line.key();
        {
            let mut facts = line.facts();
            let begins = wanted.begins(found);
            let shared = begins.length;
            (facts.key, facts.origin, facts.version) = (begins.key, begins.origin, begins.version);
            facts.forked_from = begins.forked_from;
            facts.pending = wanted.messages[shared..].iter().map(ToString::to_string).collect();
            (facts.length, facts.stored) = (wanted.messages.len(), begins.stored);
            facts.counted = None;
        }
        let mut state = self.state();
        state.by_key.remove(&was);
        state.by_key.insert(line.key(), Arc::clone(line));
        Ok(())
    }

    /// Lets go of threads that have not been used for longest, while there are too many.
    fn make_room(&self) {
        let mut state = self.state();
        if state.bytes <= self.bytes_max {
            return;
        }
        let mut idle: Vec<(Instant, ThreadKey)> =
            state.by_key.iter().map(|(key, line)| (line.facts().used, key.clone())).collect();
        idle.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in idle {
            if state.bytes <= self.bytes_max / 4 * 3 {
                return;
            }
            state.let_go(&key);
        }
    }

    /// What a loaded thread takes by now.
    pub fn weighed(&self, before: usize, now: usize) {
        let over = {
            let mut state = self.state();
            state.bytes = (state.bytes + now).saturating_sub(before);
            state.bytes > self.bytes_max
        };
        if over {
            self.make_room();
        }
    }
}

impl State {
    /// Takes a line in, with all that is new of its history.
    fn begin(&mut self, facts: Facts, wanted: &Wanted<'_>) -> Arc<Line> {
        let length = facts.length;
        let line = Arc::new(Line::new(facts));
        self.by_key.insert(line.key(), Arc::clone(&line));
        self.bytes += LINE_BYTES;
        self.advance(&line, length, wanted);
        line
    }

    /// Takes a history over into the line whose first `shared` messages are its own.
    fn advance(&mut self, line: &Arc<Line>, shared: usize, wanted: &Wanted<'_>) -> Option<Relation> {
        let mut facts = line.facts();
        if facts.length != shared {
            return None;
        }
        facts.used = Instant::now();
        if facts.frame.is_none() || wanted.messages.len() > shared {
            facts.frame = Some(wanted.frame);
        }
        let new = &wanted.messages[shared..];
        let Some(tip) = wanted.prints.last() else { return Some(Relation::Again) };
        if facts.tip != *tip {
            self.by_tip.remove(&facts.tip);
            self.by_tip.insert(*tip, Arc::clone(line));
            facts.tip = *tip;
        }
        facts.pending.extend(new.iter().map(ToString::to_string));
        facts.length += new.len();
        Some(if new.is_empty() { Relation::Again } else { Relation::Continue })
    }

    /// Lets go of a line that nobody uses and that has nothing to save.
    fn let_go(&mut self, key: &ThreadKey) {
        let Some(line) = self.by_key.get(key) else { return };
        let Ok(open) = line.open.try_lock() else { return };
        let waits = open.as_ref().is_some_and(|open| open.saved() != epitome_runtime::engine::Saved::Yes);
        let (tip, is_settled) = {
            let facts = line.facts();
            (facts.tip, facts.pending.is_empty())
        };
        // Whoever is about to use it has a hold on it besides the two here.
        if waits || !is_settled || Arc::strong_count(line) > 2 {
            return;
        }
        self.bytes = self.bytes.saturating_sub(LINE_BYTES + weight(open.as_ref()));
        drop(open);
        self.by_key.remove(key);
        self.by_tip.remove(&tip);
    }
}

/// The bytes that a loaded thread takes, roughly.
pub fn weight(open: Option<&epitome_runtime::engine::OpenThread>) -> usize {
    const PER_TOKEN: u64 = 12;
    open.map_or(0, |open| usize::try_from(open.thread().total().get() * PER_TOKEN).unwrap_or(usize::MAX))
}

impl Wanted<'_> {
    /// What a line begins with: a thread of its own, one that it goes on from, or one that it leaves.
    fn begins(&self, found: Option<Shared>) -> Facts {
        match found {
            None => {
                let origin = Origin::New { scope: self.scope.name.clone(), labels: self.labels.clone() };
                self.facts(self.own(), origin, 0, 0)
            }
            Some(found) if found.length == found.shared => {
                self.facts(found.key, Origin::Stored, found.shared, found.version)
            }
            // Found in the store, so there is nothing to wait for.
            Some(found) => self.leaves(found.key.thread, found.shared, found.version, None),
        }
    }

    fn own(&self) -> ThreadKey {
        ThreadKey::new(self.scope.tenant.clone(), ThreadId::new())
    }

    /// What a line begins with that leaves a thread behind so many messages.
    fn leaves(&self, from: ThreadId, shared: usize, version: u64, parent: Option<Parent>) -> Facts {
        // Whether a plan goes along is known when the fork is made.
        self.facts(self.own(), Origin::Fork { from, at: shared as u64, parent }, shared, u64::from(version > 0))
    }

    fn facts(&self, key: ThreadKey, origin: Origin, length: usize, version: u64) -> Facts {
        let forked_from = match &origin {
            Origin::Fork { from, .. } => Some(from.clone()),
            _ => None,
        };
        Facts {
            key,
            origin,
            forked_from,
            length,
            version,
            sent_under: None,
            frame: None,
            pending: Vec::new(),
            stored: 0,
            tip: blake3::hash(self.scope.name.as_bytes()),
            counted: None,
            is_waiting: false,
            pins: Vec::new(),
            used: Instant::now(),
        }
    }
}

/// A thread in the store that shares a beginning with a history.
pub(super) struct Shared {
    pub key: ThreadKey,
    pub shared: usize,
    pub length: usize,
    pub version: u64,
}

/// Looks for the longest beginning of a history that some thread of its scope has.
pub(super) async fn find(engine: &Engine, wanted: &Wanted<'_>, ids: &Ids) -> Result<Option<Shared>, EngineError> {
    let log = engine.log();
    let found = log.find(&wanted.scope.tenant, &wanted.scope.name, &ids.all).await?;
    let Some(found) = found else { return Ok(None) };
    let key = ThreadKey::new(wanted.scope.tenant.clone(), found.thread);
    // Earlier versions kept pins for threads of nobody in particular: their plans hold words that may be another's.
    if !wanted.scope.keeps_pins() {
        let (pins, _) = log.document::<Vec<String>>(&key.tenant, DocumentKind::Pins, key.thread.as_str()).await?;
        if pins.is_some_and(|pins| !pins.is_empty()) {
            return Ok(None);
        }
    }
    let row = log.thread(&key).await?;
    Ok(row.map(|row| Shared {
        key,
        shared: usize::try_from(found.place + 1).unwrap_or(usize::MAX),
        length: usize::try_from(row.length).unwrap_or(usize::MAX),
        version: row.version,
    }))
}
