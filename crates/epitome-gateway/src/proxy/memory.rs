//! What is remembered of a connection: the last request that came on it.
//!
//! Agents send their whole history with every request. What was read of it with the last one is not read again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::asked::Asked;
use super::turn::Turn;
use crate::identity::Scope;

/// The most that all connections remember together.
const BYTES_MAX: usize = 64 << 20;

/// What is remembered of a connection.
#[derive(Debug, Default)]
pub struct Memory {
    last: Mutex<Option<Arc<Before>>>,
}

/// The last request of a connection, as it was read.
#[derive(Debug)]
pub(super) struct Before {
    /// It, read.
    pub asked: Arc<Asked>,
    /// Where its thread is looked for.
    pub scope: Arc<Scope>,
    /// Its fingerprints, up to each message.
    pub prints: Arc<[blake3::Hash]>,
    /// Whether nothing in it needed to be read before it went.
    pub is_plain: bool,
    _room: Room,
}

impl Before {
    /// What it asks of the model.
    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }
}

impl Memory {
    /// The last request, if it is remembered.
    pub(super) fn last(&self) -> Option<Arc<Before>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers a request, if there is room for it.
    pub(super) fn keep(&self, turn: &Turn, is_plain: bool, taken: &Arc<AtomicUsize>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = None;
        *last = Room::take(taken, turn.asked.document.source().len()).map(|room| {
            let (asked, scope, prints) = (Arc::clone(&turn.asked), Arc::clone(&turn.scope), Arc::clone(&turn.prints));
            Arc::new(Before { asked, scope, prints, is_plain, _room: room })
        });
    }
}

/// Bytes that are remembered, for as long as it lives.
#[derive(Debug)]
struct Room {
    bytes: usize,
    taken: Arc<AtomicUsize>,
}

impl Room {
    fn take(taken: &Arc<AtomicUsize>, bytes: usize) -> Option<Room> {
        let room = Room { bytes, taken: Arc::clone(taken) };
        (taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= BYTES_MAX).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
