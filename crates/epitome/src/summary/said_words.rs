//! The words that the user typed, as a summary writes them, and which of them leave first where they do not fit.

use std::collections::HashSet;

use super::parse::RequestLabel;
use super::structured::RequestState;
use crate::budget::Tokens;

/// Words of the user as they will be written.
pub(super) struct SaidWords {
    pub(super) label: RequestLabel,
    pub(super) text: String,
    /// The tokens of the label and the text.
    pub(super) tokens: Tokens,
    pub(super) is_whole: bool,
    /// They bind or correct something.
    pub(super) is_marked: bool,
}

impl SaidWords {
    /// Tells whether they bind, take something back, or were taken back as far as other words differ.
    fn is_order(&self) -> bool {
        self.label.binds || self.label.supersedes.is_some() || self.label.state == RequestState::Superseded
    }

    /// Words that neither bind nor correct anything.
    pub(super) fn routine(place: usize, text: String) -> SaidWords {
        let label = RequestLabel::at(place);
        SaidWords { label, text, tokens: Tokens::ZERO, is_whole: false, is_marked: false }
    }
}

/// Leaves words out that do not fit. Those that bind or correct something stay as long as `room` allows. Of the others, as many as
/// `crowded` holds stay: half of that for the newest, half for older ones at even distances, so that every part of a long thread
/// is still told.
pub(super) fn thin_out(said: &mut Vec<SaidWords>, room: Tokens, crowded: Tokens) {
    let cost =
        |said: &[SaidWords]| said.iter().filter(|words| words.is_marked).map(|words| words.tokens).sum::<Tokens>();
    while cost(said) > room {
        // A remark that may correct something leaves before what binds, and before what an order took back or gave in its place.
        let mild = said.iter().position(|words| words.is_marked && !words.is_order());
        let Some(oldest) = mild.or_else(|| said.iter().position(|words| words.is_marked)) else { break };
        said.remove(oldest);
    }
    let mut left = crowded - cost(said);
    let others: Vec<usize> = (0..said.len()).filter(|at| !said[*at].is_marked).collect();
    let mut kept = HashSet::new();
    let mut newest = left.share(0.5);
    let mut older = others.len();
    while older > 0 && said[others[older - 1]].tokens <= newest {
        older -= 1;
        newest -= said[others[older]].tokens;
        left -= said[others[older]].tokens;
        kept.insert(others[older]);
    }
    let total: Tokens = others[..older].iter().map(|at| said[*at].tokens).sum();
    let fitting = (older as f64 * left.get() as f64 / total.get().max(1) as f64) as usize;
    for step in 0..fitting.min(older) {
        let at = others[step * older / fitting];
        if said[at].tokens <= left {
            left -= said[at].tokens;
            kept.insert(at);
        }
    }
    let mut at = 0;
    said.retain(|words| {
        at += 1;
        words.is_marked || kept.contains(&(at - 1))
    });
}

#[cfg(test)]
mod tests {
    use super::{SaidWords, thin_out};
    use crate::budget::Tokens;
    use crate::summary::RequestState;

    #[test]
    fn a_remark_leaves_before_an_order_and_what_it_took_back() {
        let words = |place: usize, text: &str| SaidWords {
            tokens: Tokens::new(10),
            is_marked: true,
            ..SaidWords::routine(place, text.to_owned())
        };
        let mut goal = words(0, "Rebuild the shed with Mila. Heat with tires.");
        goal.label.state = RequestState::Superseded;
        let mut order = words(2, "Heat with pellets instead.");
        order.label.supersedes = Some(0);
        let mut said = vec![goal, words(1, "My tea went cold again."), order, words(3, "Rain again.")];
        thin_out(&mut said, Tokens::new(25), Tokens::new(25));
        let places: Vec<usize> = said.iter().map(|words| words.label.place).collect();
        assert_eq!(places, [0, 2]);
    }
}
