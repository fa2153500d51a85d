//! The calls of one exchange, and which of them were answered.
//!
//! It pairs ids and nothing else: which rule a missing or a second answer breaks is the dialect's to say.

use std::collections::HashMap;

use super::Place;

/// The calls of the exchange being read, in the order they were made.
#[derive(Default)]
pub(super) struct Calls<'a> {
    made: Vec<Call<'a>>,
    by_id: HashMap<&'a str, usize>,
}

struct Call<'a> {
    id: &'a str,
    place: Place,
    answered: bool,
}

/// What an answer turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The answer a call was waiting for.
    First,
    /// Another answer to a call that already had one.
    Again,
    /// An answer to no call of this exchange.
    Stray,
}

impl<'a> Calls<'a> {
    /// Adds a call; false if its id is already taken in this exchange.
    pub(super) fn make(&mut self, id: &'a str, place: Place) -> bool {
        if self.by_id.contains_key(id) {
            return false;
        }
        self.by_id.insert(id, self.made.len());
        self.made.push(Call { id, place, answered: false });
        true
    }
    pub(super) fn answer(&mut self, id: &str) -> Answer {
        let Some(call) = self.by_id.get(id).and_then(|&at| self.made.get_mut(at)) else {
            return Answer::Stray;
        };
        match std::mem::replace(&mut call.answered, true) {
            true => Answer::Again,
            false => Answer::First,
        }
    }

    /// Ends the exchange: hands over the calls nobody answered and forgets the rest.
    pub(super) fn close(&mut self) -> impl Iterator<Item = (&'a str, Place)> + use<'a> {
        let ended = std::mem::take(self);
        ended.made.into_iter().filter(|call| !call.answered).map(|call| (call.id, call.place))
    }
}
