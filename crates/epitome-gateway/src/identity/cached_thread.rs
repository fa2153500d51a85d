//! A cached thread: what the gateway knows of a thread in memory, and the messages that are not in the store yet.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use epitome::budget::Tokens;
use epitome_runtime::engine::OpenThread;
use epitome_runtime::ids::{ThreadId, ThreadKey};

/// A thread in memory.
///
/// Its messages are in one of three places: *pending* (received, on no disk), *taken* by a task that is storing them, or
/// *stored*. A request moves its new messages to pending ([`ThreadCache`](super::ThreadCache)); whoever stores takes all of them
/// at once ([`take_pending`](CachedThread::take_pending)), and puts them back in front of newer ones if that fails
/// ([`put_back`](CachedThread::put_back)). `length` counts all three, so the place of the first pending message is `length`
/// minus their number: were messages put back behind newer ones, the log would have them in the wrong order, and the next
/// request would be taken for a fork.
///
/// `state` is locked for moments and never across an `await`. `open` is held for as long as the engine works on the thread, so
/// there is one writer for each thread in this process; writers elsewhere are noticed by the store's compare-and-swap.
#[derive(Debug)]
pub struct CachedThread {
    state: Mutex<CachedState>,
    /// The thread as the engine has it; opened when it is first needed.
    pub open: tokio::sync::Mutex<Option<OpenThread>>,
}

/// The facts of a thread that are known without opening it.
#[derive(Clone, Debug)]
pub struct CachedState {
    pub key: ThreadKey,
    pub origin: Origin,
    pub forked_from: Option<ThreadId>,
    /// The number of its messages, pending ones included.
    pub length: usize,
    /// The newest messages, which are not in the store yet.
    pub pending: Vec<String>,
    /// The number of messages that the store is known to have.
    pub stored: usize,
    /// The fingerprint of its whole history.
    pub tip: blake3::Hash,
    /// The version of its plan.
    pub version: u64,
    /// The version of the plan that the last prompt was under.
    pub sent_under: Option<u64>,
    /// The system prompt and tools of the last request.
    pub frame: Option<RequestFrame>,
    /// The last count of its messages.
    pub counted: Option<Counted>,
    /// True while a task retries to store the pending messages.
    pub is_waiting: bool,
    /// Words that every later prompt must contain.
    pub pins: Vec<String>,
    /// When it was last used.
    pub used: Instant,
}

/// The system prompt and tools of a request, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFrame {
    /// The system prompt.
    pub system: blake3::Hash,
    pub tools: blake3::Hash,
}

impl RequestFrame {
    /// True for a request of a helper, not of the conversation itself: agents let helpers write titles and memories with the
    /// same messages, under another system prompt and with other tools.
    pub fn is_of_a_helper(&self, known: &RequestFrame) -> bool {
        self.system != known.system && self.tools != known.tools
    }
}

/// The origin of a cached thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The store has it.
    Stored,
    /// It begins here.
    New {
        scope: String,
        /// Labels to store with it.
        labels: serde_json::Value,
    },
    /// It is a fork of another one.
    Fork {
        /// The other thread.
        from: ThreadId,
        /// The number of messages that they share.
        at: u64,
        /// The other thread, if it is cached: its messages may not be in the store yet.
        parent: Option<Parent>,
    },
}

/// The cached thread that another one is a fork of.
#[derive(Clone)]
pub struct Parent(pub Arc<CachedThread>);

impl fmt::Debug for Parent {
    /// Parents have parents: none of them is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parent").finish_non_exhaustive()
    }
}

impl PartialEq for Parent {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Parent {}

/// A count of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The number of messages.
    pub messages: usize,
    /// Their tokens.
    pub tokens: Tokens,
    /// The tokens of system prompt and tools.
    pub fixed: Tokens,
    /// The system prompt and tools that were counted; a request with others has another size.
    pub frame: RequestFrame,
}

impl CachedState {
    /// The state of a thread that nothing was received for yet.
    pub(super) fn new(key: ThreadKey, origin: Origin, length: usize, version: u64, tip: blake3::Hash) -> Self {
        let forked_from = match &origin {
            Origin::Fork { from, .. } => Some(from.clone()),
            _ => None,
        };
        CachedState {
            key,
            origin,
            forked_from,
            length,
            pending: Vec::new(),
            stored: 0,
            tip,
            version,
            sent_under: None,
            frame: None,
            counted: None,
            is_waiting: false,
            pins: Vec::new(),
            used: Instant::now(),
        }
    }

    /// Adds words that every later prompt must contain.
    pub fn pin(&mut self, words: &[String]) {
        for word in words {
            if !self.pins.contains(word) {
                self.pins.push(word.clone());
            }
        }
    }
}

impl CachedThread {
    /// A thread with this state, not opened yet.
    pub fn new(state: CachedState) -> Self {
        CachedThread { state: Mutex::new(state), open: tokio::sync::Mutex::new(None) }
    }

    /// Locks its state; never held across an `await`.
    pub fn state(&self) -> MutexGuard<'_, CachedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the pending messages, and the place of the first one. The caller stores them or puts them back.
    pub fn take_pending(&self) -> (u64, Vec<String>) {
        let mut state = self.state();
        let pending = std::mem::take(&mut state.pending);
        ((state.length - pending.len()) as u64, pending)
    }

    /// Puts messages back that could not be stored, in front of those that came meanwhile.
    pub fn put_back(&self, pending: Vec<String>) {
        let mut state = self.state();
        state.pending = pending.into_iter().chain(std::mem::take(&mut state.pending)).collect();
    }

    pub fn key(&self) -> ThreadKey {
        self.state().key.clone()
    }

    /// Makes a fork that shares its first `length` messages.
    pub fn fork(self: &Arc<Self>, length: usize) -> CachedThread {
        let state = self.state();
        let (tenant, from) = (state.key.tenant.clone(), state.key.thread.clone());
        let parent = Some(Parent(Arc::clone(self)));
        let origin = Origin::Fork { from, at: length as u64, parent };
        let key = ThreadKey::new(tenant, ThreadId::new());
        CachedThread::new(CachedState {
            frame: state.frame,
            pins: state.pins.clone(),
            ..CachedState::new(key, origin, length, u64::from(state.version > 0), state.tip)
        })
    }
}
