//! A line: a thread at hand, with what has come for it and is not in the store yet.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use epitome::budget::Tokens;
use epitome_runtime::engine::OpenThread;
use epitome_runtime::ids::{ThreadId, ThreadKey};

/// A thread at hand.
#[derive(Debug)]
pub struct Line {
    facts: Mutex<Facts>,
    /// The thread as the engine has it; opened when it is first needed.
    pub open: tokio::sync::Mutex<Option<OpenThread>>,
}

/// What is known of a thread without opening it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Which one.
    pub key: ThreadKey,
    /// Where it comes from.
    pub origin: Origin,
    /// The thread that it leaves, where it does.
    pub forked_from: Option<ThreadId>,
    /// How many messages it has.
    pub length: usize,
    /// The newest of them, which are not in the store yet.
    pub pending: Vec<String>,
    /// How many of them the store is known to have.
    pub stored: usize,
    /// The fingerprint of its end.
    pub tip: blake3::Hash,
    /// The version of its plan.
    pub version: u64,
    /// The version of the plan that the last prompt was under.
    pub sent_under: Option<u64>,
    /// What stood beside the messages of the last request: its system prompt and its tools.
    pub frame: Option<Frame>,
    /// What its messages were last counted as.
    pub counted: Option<Counted>,
    /// Whether somebody waits for the store to take what is not in it yet.
    pub is_waiting: bool,
    /// Words that every later prompt must hold.
    pub pins: Vec<String>,
    /// When it was last used.
    pub used: Instant,
}

/// What stands beside the messages of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The system prompt.
    pub system: blake3::Hash,
    /// The tools.
    pub tools: blake3::Hash,
}

impl Frame {
    /// Whether this is somebody else's request: agents have others write titles and memories with the same messages,
    /// under another system prompt and with other tools.
    pub fn is_anothers(&self, known: &Frame) -> bool {
        self.system != known.system && self.tools != known.tools
    }
}

/// Where a thread comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The store has it.
    Stored,
    /// It begins here.
    New {
        /// Its scope.
        scope: String,
        /// What to remember of it.
        labels: serde_json::Value,
    },
    /// It leaves another one.
    Fork {
        /// Which.
        from: ThreadId,
        /// Behind how many messages.
        at: u64,
        /// The thread itself, where it is at hand: its messages may still be on their way into the store.
        parent: Option<Parent>,
    },
}

/// The thread at hand that another one leaves.
#[derive(Clone)]
pub struct Parent(pub Arc<Line>);

impl fmt::Debug for Parent {
    /// Its name alone: parents have parents.
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

/// What messages were counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How many.
    pub messages: usize,
    /// Their tokens.
    pub tokens: Tokens,
    /// The tokens of what stands beside them.
    pub fixed: Tokens,
    /// What that was. A request with other tools or another system prompt has another size.
    pub frame: Frame,
}

impl Facts {
    /// Keeps words for every later prompt.
    pub fn pin(&mut self, words: &[String]) {
        for word in words {
            if !self.pins.contains(word) {
                self.pins.push(word.clone());
            }
        }
    }
}

impl Line {
    /// A thread of which this is known.
    pub fn new(facts: Facts) -> Self {
        Line { facts: Mutex::new(facts), open: tokio::sync::Mutex::new(None) }
    }

    /// What is known of it. Never held while waiting.
    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is not in the store yet, and the place where it comes. Whoever takes it stores it, or puts it back.
    pub fn take_pending(&self) -> (u64, Vec<String>) {
        let mut facts = self.facts();
        let pending = std::mem::take(&mut facts.pending);
        ((facts.length - pending.len()) as u64, pending)
    }

    /// Puts back what could not be stored, before what came meanwhile.
    pub fn put_back(&self, pending: Vec<String>) {
        let mut facts = self.facts();
        facts.pending = pending.into_iter().chain(std::mem::take(&mut facts.pending)).collect();
    }

    /// Which thread it is.
    pub fn key(&self) -> ThreadKey {
        self.facts().key.clone()
    }

    /// A line that leaves this one behind so many messages.
    pub fn leave(self: &Arc<Self>, length: usize) -> Line {
        let facts = self.facts();
        let (tenant, from) = (facts.key.tenant.clone(), facts.key.thread.clone());
        let parent = Some(Parent(Arc::clone(self)));
        Line::new(Facts {
            key: ThreadKey::new(tenant, ThreadId::new()),
            origin: Origin::Fork { from: from.clone(), at: length as u64, parent },
            forked_from: Some(from),
            length,
            pending: Vec::new(),
            stored: 0,
            tip: facts.tip,
            version: u64::from(facts.version > 0),
            sent_under: None,
            frame: facts.frame,
            counted: None,
            is_waiting: false,
            pins: facts.pins.clone(),
            used: Instant::now(),
        })
    }
}
