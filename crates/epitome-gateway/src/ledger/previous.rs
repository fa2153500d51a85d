//! The client's requests as it sent them: what the cache of the other world would hold.

use epitome::budget::Tokens;
use epitome::thread::MessageId;
use epitome_runtime::ids::Moment;
use serde::{Deserialize, Serialize};

/// A request as the client sent it: what stands before the messages, and the messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Original {
    /// A hash of what stands before the messages: system prompt, tools, whatever else the provider's cache begins with.
    pub head: u64,
    /// The tokens of that.
    pub head_tokens: Tokens,
    /// The messages, in order. An id stands for all that comes before it as well.
    pub messages: Vec<(MessageId, Tokens)>,
}

impl Original {
    /// All of it.
    pub fn tokens(&self) -> Tokens {
        self.tokens_before(self.messages.len())
    }

    /// The head and the first messages.
    fn tokens_before(&self, place: usize) -> Tokens {
        self.head_tokens + self.messages.iter().take(place).map(|(_, tokens)| *tokens).sum()
    }

    /// The id of the first `place` messages; `None` where it has fewer.
    fn id_before(&self, place: usize) -> Option<MessageId> {
        match place {
            0 => Some(MessageId::ROOT),
            _ => self.messages.get(place - 1).map(|(id, _)| *id),
        }
    }
}

/// The thread's previous request, as far as the cache's price depends on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Previous {
    /// When it was sent; `None` when there was none.
    at: Option<Moment>,
    /// True if it was sent changed.
    changed: bool,
    head: u64,
    /// Places in it, ascending, ever closer to its end, each with the id of what comes before.
    marks: Vec<(usize, MessageId)>,
}

impl Previous {
    /// Summarizes a request.
    pub fn of(original: &Original, at: Moment, changed: bool) -> Previous {
        let places = places(original.messages.len());
        let marks = places.into_iter().filter_map(|place| Some((place, original.id_before(place)?))).collect();
        Previous { at: Some(at), changed, head: original.head, marks }
    }

    /// True if the cache of a request that was sent then is still alive.
    pub(super) fn is_warm(&self, now: Moment, ttl_s: u64) -> bool {
        let age_ms = |at: Moment| now.0.saturating_sub(at.0).max(0);
        self.at.is_some_and(|at| age_ms(at) < i64::try_from(ttl_s).unwrap_or(i64::MAX).saturating_mul(1000))
    }

    pub(super) fn is_none(&self) -> bool {
        self.at.is_none()
    }

    /// True if it was sent changed.
    pub(super) fn changed(&self) -> bool {
        self.changed
    }

    /// Returns the tokens that a request shares with the beginning of the previous one; the most, if only a range is known.
    pub(super) fn shared_with(&self, original: &Original) -> Tokens {
        if self.head != original.head {
            return Tokens::ZERO;
        }
        let parts = |(place, id): &&(usize, MessageId)| original.id_before(*place) != Some(*id);
        let shared = match self.marks.iter().find(parts) {
            Some((place, _)) => place.saturating_sub(1),
            None => self.marks.last().map_or(0, |(place, _)| *place),
        };
        original.tokens_before(shared)
    }
}

/// Places in a request of so many messages: its end, and 1, 2, 4, 8, … before it.
fn places(length: usize) -> Vec<usize> {
    let steps = std::iter::successors(Some(1), |step| Some(step * 2)).take_while(|step| *step < length);
    let mut places: Vec<usize> = [length].into_iter().chain(steps.map(|step| length - step)).chain([0]).collect();
    places.reverse();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::{Original, Previous};
    use epitome::budget::Tokens;
    use epitome::thread::MessageId;
    use epitome_runtime::ids::Moment;

    /// A request of ten tokens before and a hundred in each message, from one letter for each.
    fn original(head: u64, letters: &str) -> Original {
        let id = |end: usize| MessageId::from_bytes(*blake3::hash(&letters.as_bytes()[..=end]).as_bytes());
        let messages = (0..letters.len()).map(|end| (id(end), Tokens::new(100))).collect();
        Original { head, head_tokens: Tokens::new(10), messages }
    }

    #[test]
    fn what_two_requests_begin_with_is_shared_and_in_doubt_the_most_it_can_be() {
        let cases = [
            ("it goes on", "abcdefghij", "abcdefghijklm", 1010),
            ("it is sent again", "abcdefghij", "abcdefghij", 1010),
            ("the newest is said otherwise", "abcdefghij", "abcdefghiX", 910),
            ("the two newest are", "abcdefghij", "abcdefghXY", 810),
            ("it is rewound to the fifth, which lies between the second and the sixth", "abcdefghij", "abcdeX", 510),
            ("it is cut short", "abcdefghij", "abc", 310),
            ("all is new", "abcdefghij", "Xbcdefghij", 110),
            ("it was empty", "", "abc", 10),
        ];
        for (claim, before, after, tokens) in cases {
            let previous = Previous::of(&original(7, before), Moment(0), false);
            assert_eq!(previous.shared_with(&original(7, after)), Tokens::new(tokens), "{claim}");
            assert_eq!(previous.shared_with(&original(8, after)), Tokens::ZERO, "{claim}, with other tools");
        }
    }

    #[test]
    fn a_long_request_is_remembered_in_few_words() {
        let long = "a".repeat(5000);
        let previous = Previous::of(&original(7, &long), Moment(0), false);
        assert!(serde_json::to_string(&previous).expect("JSON").len() < 2000);
    }
}
