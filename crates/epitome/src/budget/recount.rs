//! Recounting: texts that share most of their lines, each stretch counted once.
//!
//! Exact: a text is parted only where its counter says that the parts add up.

use std::collections::HashMap;

use super::tokens::{TokenCounter, Tokens};

/// A counter that remembers the stretches it has counted.
pub(crate) struct Recount<'a> {
    counter: &'a dyn TokenCounter,
    known: HashMap<Box<str>, Tokens>,
}

impl<'a> Recount<'a> {
    pub(crate) fn new(counter: &'a dyn TokenCounter) -> Self {
        Recount { counter, known: HashMap::new() }
    }
    pub(crate) fn count(&mut self, text: &str) -> Tokens {
        let mut total = Tokens::ZERO;
        let mut start = 0;
        for (line_end, _) in text.match_indices('\n') {
            let seam = self.counter.seam(&text[start..=line_end]);
            if seam > 0 {
                total += self.stretch(&text[start..start + seam]);
                start += seam;
            }
        }
        total + self.counter.count(&text[start..])
    }

    fn stretch(&mut self, text: &str) -> Tokens {
        match self.known.get(text) {
            Some(known) => *known,
            None => {
                let tokens = self.counter.count(text);
                self.known.insert(text.into(), tokens);
                tokens
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Recount;
    use crate::budget::{Bpe, TokenCounter};

    proptest! {
        #[test]
        fn a_recount_is_the_count(texts in prop::collection::vec("([a-z0-9]{0,5}[ \t.,:'\"(){}世🙂-]{0,3}\n{0,2}){0,30}", 1..4)) {
            let mut recount = Recount::new(&Bpe::O200k);
            for text in &texts {
                prop_assert_eq!(recount.count(text), Bpe::O200k.count(text), "{:?}", text);
            }
        }
    }
}
