//! Memory for bodies: how many bytes of request bodies the gateway holds at once, all of them together.
//!
//! Bytes are counted when they arrive, not when they are announced, and for as long as anything of them is held: the count
//! goes with the bytes ([`Reservation::keep`]), whoever has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// The memory of all request bodies together. A clone counts in the same place.
///
/// A [`Reservation`] grows as bytes arrive and shrinks when the last slice of them is dropped. A request whose reservation cannot grow is
/// refused (its body is still arriving) or sent unread (its body is complete and only the copies for reading do not fit). Bytes
/// that are kept without a reservation are not counted, and enough of them would exhaust the process.
#[derive(Clone, Debug)]
pub(crate) struct BodyMemory {
    taken: Arc<AtomicUsize>,
    max: usize,
}

impl BodyMemory {
    pub(crate) fn new(max: usize) -> BodyMemory {
        BodyMemory { taken: Arc::default(), max }
    }

    /// The most bytes at once.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Returns a reservation of nothing yet.
    pub(crate) fn reservation(&self) -> Reservation {
        Reservation { bytes: 0, memory: self.clone() }
    }
}

/// Bytes that are counted for as long as it lives.
#[derive(Debug)]
pub(crate) struct Reservation {
    bytes: usize,
    memory: BodyMemory,
}

impl Reservation {
    /// Reserves more bytes; returns false, and changes nothing, if they do not fit.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let taken = self.memory.taken.fetch_add(bytes, Ordering::AcqRel);
        let fits = taken.saturating_add(bytes) <= self.memory.max;
        if fits {
            self.bytes += bytes;
        } else {
            self.memory.taken.fetch_sub(bytes, Ordering::AcqRel);
        }
        fits
    }

    /// The same bytes, which stay reserved for as long as any part of them is held.
    pub(crate) fn keep(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Kept { bytes, _room: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

struct Kept {
    bytes: Bytes,
    _room: Reservation,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_for_as_long_as_any_part_of_the_bytes_is_held() {
        let memory = BodyMemory::new(100);
        let mut room = memory.reservation();
        assert!(room.grow(60) && !room.grow(50) && room.grow(40));
        let part = room.keep(Bytes::from(vec![0; 100])).slice(10..20);
        assert!(!memory.reservation().grow(1));
        drop(part);
        assert!(memory.reservation().grow(100));
        assert!(memory.reservation().grow(100), "room that was dropped is free");
    }
}
