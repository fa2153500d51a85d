//! What is remembered of a connection: the last request that came on it, and its head.
//!
//! Agents send their whole history with every request, and the same head. What was read of it with the last one is not
//! read again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;

use super::asked::Asked;
use super::turn::Turn;
use super::way::Head;
use crate::identity::Scope;

/// The most that all connections remember together.
const BYTES_MAX: usize = 64 << 20;

/// What is remembered of a connection.
#[derive(Debug, Default)]
pub struct Memory {
    head: Mutex<Option<(Arc<Head>, Room)>>,
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
    pub(super) fn asked(&self) -> &Arc<Asked> {
        &self.asked
    }
}

impl Memory {
    /// The last head, if it is remembered and that of this request too.
    pub(super) fn head(&self, parts: &Parts) -> Option<Arc<Head>> {
        let last = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(head, _)| head.is_of(parts)).map(|(head, _)| Arc::clone(head))
    }

    /// Remembers a head, if there is room for it.
    pub(super) fn keep_head(&self, head: Head, taken: &Arc<AtomicUsize>) -> Arc<Head> {
        let room = Room::take(taken, head.bytes());
        let head = Arc::new(head);
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = room.map(|room| (Arc::clone(&head), room));
        head
    }

    /// The last request, if it is remembered.
    pub(super) fn last(&self) -> Option<Arc<Before>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers a request, if there is room for it.
    pub(super) fn keep(&self, turn: &Turn, is_plain: bool, taken: &Arc<AtomicUsize>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |last: &Arc<Before>| Arc::ptr_eq(&last.prints, &turn.prints) && last.is_plain == is_plain;
        if last.as_ref().is_some_and(is_it) {
            return;
        }
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
