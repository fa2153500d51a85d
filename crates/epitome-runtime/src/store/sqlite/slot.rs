//! Rowids that say whose a row is: a thread's number and a place in one integer, so that a thread's rows are one range.
//!
//! A number that has no room is refused where it comes in; it never runs into the next thread's range.

use super::failure::Result;
use crate::store::rule::refused;

const PLACE_BITS: u32 = 32;
const PASSAGE_BITS: u32 = 18;
const INDEXED_PLACE_BITS: u32 = 23;
const LANE_BITS: u32 = 22;

/// A row of a thread: its message at a place, its plan of a version, its event of a number.
pub(super) fn of(thread: i64, place: u64) -> Result<i64> {
    let place = within(place, PLACE_BITS, "A thread has at most 2^32 messages, plans or events.")?;
    Ok((thread << PLACE_BITS) + place)
}

/// The place in a row of a thread.
pub(super) fn place(slot: i64) -> u64 {
    (slot & ((1 << PLACE_BITS) - 1)).cast_unsigned()
}

/// A place as a bound of a range: no later than the end of the thread's rows.
pub(super) fn bound(place: u64) -> i64 {
    place.min(1 << PLACE_BITS).cast_signed()
}

/// A passage's row.
pub(super) fn passage(lane: i64, place: u64, passage: u32) -> Result<i64> {
    let lane = within(lane.cast_unsigned(), LANE_BITS, "An index has at most 2^22 threads.")?;
    let place = within(place, INDEXED_PLACE_BITS, "An index has at most 2^23 messages of a thread.")?;
    let passage = within(passage.into(), PASSAGE_BITS, "An index has at most 2^18 passages of a message.")?;
    Ok((((lane << INDEXED_PLACE_BITS) + place) << PASSAGE_BITS) + passage)
}

/// The rows of a lane's passages before a place: the first, and the last.
pub(super) fn passages(lane: i64, until: u64) -> (i64, i64) {
    let first = lane << (INDEXED_PLACE_BITS + PASSAGE_BITS);
    let places = until.min(1 << INDEXED_PLACE_BITS).cast_signed();
    (first, first + (places << PASSAGE_BITS) - 1)
}

/// The rows of a lane's passages before one of them: the first, and the last.
pub(super) fn passages_before(lane: i64, (place, passage): (u64, u32)) -> (i64, i64) {
    let (first, last) = passages(lane, place);
    if place < 1 << INDEXED_PLACE_BITS {
        (first, last + i64::from(passage.min(1 << PASSAGE_BITS)))
    } else {
        (first, last)
    }
}

/// The place and the number in a passage's row.
pub(super) fn of_passage(slot: i64) -> (u64, u32) {
    let place = (slot >> PASSAGE_BITS) & ((1 << INDEXED_PLACE_BITS) - 1);
    let passage = slot & ((1 << PASSAGE_BITS) - 1);
    (place.cast_unsigned(), u32::try_from(passage).unwrap_or(u32::MAX))
}

fn within(number: u64, bits: u32, limit: &str) -> Result<i64> {
    if number < 1 << bits { Ok(number.cast_signed()) } else { Ok(refused(limit)?) }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_room_is_refused_and_never_reaches_the_next_thread() {
        assert_eq!(of(7, (1 << 32) - 1).map(|slot| slot + 1).ok(), of(8, 0).ok());
        assert!(of(7, 1 << 32).is_err());
        assert_eq!((7 << 32) + bound(u64::MAX), 8 << 32);
        assert!(passage(1, 1 << 23, 0).is_err() && passage(1, 0, 1 << 18).is_err() && passage(1 << 22, 0, 0).is_err());
        assert_eq!(passages(1, u64::MAX).1 + 1, passages(2, 0).0);
    }

    #[test]
    fn a_passage_is_read_back_from_its_row() {
        let last = passage((1 << 22) - 1, (1 << 23) - 1, (1 << 18) - 1).unwrap_or_default();
        assert_eq!(last, i64::MAX);
        assert_eq!(of_passage(last), ((1 << 23) - 1, (1 << 18) - 1));
        assert_eq!(passage(3, 9, 2).map(of_passage).ok(), Some((9, 2)));
    }
}
