//! The longest start of a text that fits a number of tokens.
//!
//! Token counts are neither additive nor monotonic, so a cut is never trusted: what is returned was counted, on its own,
//! by the counter given. Cuts fall between characters. Nothing here adds a mark of what was left out.

use super::tokens::{TokenCounter, Tokens};

/// The bytes first tried for each token allowed; a wrong guess costs a count or two, never the answer.
const BYTES_FOR_TOKEN: usize = 4;

/// The start of `text` that fits `max` tokens, as long as the search can make it.
pub fn truncate<'a>(counter: &(impl TokenCounter + ?Sized), text: &'a str, max: Tokens) -> &'a str {
    let prefix = |bytes: usize| &text[..text.floor_char_boundary(bytes)];
    // A start that all longer ones share, once one is known to fit: it need not be counted again.
    let mut shared = Tried { bytes: 0, cost: 0 };
    let cost = |bytes: usize, fits: Tried| {
        let fitting = prefix(fits.bytes);
        let seam = counter.seam(fitting);
        if seam > shared.bytes {
            shared = Tried { bytes: seam, cost: fits.cost - counter.count(&fitting[seam..]).get() };
        }
        Tokens::new(shared.cost) + counter.count(&prefix(bytes)[shared.bytes..])
    };
    prefix(longest(text.len(), max, cost))
}

/// A length that was tried, and what it cost.
#[derive(Clone, Copy)]
pub(crate) struct Tried {
    bytes: usize,
    cost: u64,
}

/// The most bytes found to fit: a doubling guess until one fails, then guesses between what fits and what does not.
/// `cost` is told what fits so far; every guess is longer.
pub(crate) fn longest(len: usize, max: Tokens, mut cost: impl FnMut(usize, Tried) -> Tokens) -> usize {
    let max = max.get();
    let mut fits = Tried { bytes: 0, cost: 0 };
    let mut fails = None;
    let mut guess = (max as usize).saturating_mul(BYTES_FOR_TOKEN).max(1).min(len);
    for step in 0.. {
        let tried = Tried { bytes: guess, cost: cost(guess, fits).get() };
        if tried.cost > max {
            fails = Some(tried);
        } else if tried.bytes == len {
            return tried.bytes;
        } else {
            fits = tried;
        }
        guess = match fails {
            None => guess.saturating_mul(2).min(len),
            Some(fails) if fails.bytes - fits.bytes < 2 => break,
            Some(fails) => between(fits, fails, max, step),
        };
    }
    fits.bytes
}

/// Where a line through both costs meets the most allowed; the middle every third time, against a crooked text.
fn between(fits: Tried, fails: Tried, max: u64, step: usize) -> usize {
    let room = fails.bytes - fits.bytes;
    let share = (max - fits.cost) as f64 / (fails.cost - fits.cost) as f64;
    let part = if step % 3 == 2 || fits.cost == max { room / 2 } else { (room as f64 * share) as usize };
    fits.bytes + part.clamp(1, room - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Bpe;

    const TEXTS: [&str; 4] = [
        "",
        "The quick brown fox jumps over the lazy dog, twice, and then rests for a while.",
        "東京は日本の首都です。🙂🙂 naïve café — 한국어 문장도 있습니다.",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ];

    fn each_cut(check: impl Fn(&str, Tokens, &str)) {
        for text in TEXTS {
            for max in (0..40).map(Tokens::new) {
                check(text, max, truncate(&Bpe::O200k, text, max));
            }
        }
    }

    #[test]
    fn a_cut_is_a_start_of_the_text_that_never_costs_more_than_it_may() {
        each_cut(|text, max, start| assert!(Bpe::O200k.count(start) <= max && text.starts_with(start)));
    }

    #[test]
    fn a_text_that_fits_is_not_cut() {
        each_cut(|text, max, start| assert!(start == text || Bpe::O200k.count(text) > max));
    }

    #[test]
    fn a_cut_uses_what_it_may() {
        let text = "word ".repeat(10_000);
        let max = Tokens::new(1_000);
        assert_eq!(Bpe::O200k.count(truncate(&Bpe::O200k, &text, max)), max);
    }
}
