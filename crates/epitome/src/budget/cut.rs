//! The longest start or end of a text that fits a number of tokens.
//!
//! Token counts are neither additive nor monotonic, so a cut is never trusted: what is returned was counted, on its own,
//! by the counter given. Cuts fall between characters. Nothing here adds a mark of what was left out.

use super::tokens::{TokenCounter, Tokens};

/// The bytes first tried for each token allowed; a wrong guess costs a count or two, never the answer.
const BYTES_FOR_TOKEN: usize = 4;

/// The start of `text` that fits `max` tokens, as long as the search can make it.
pub fn truncate<'a>(counter: &(impl TokenCounter + ?Sized), text: &'a str, max: Tokens) -> &'a str {
    let prefix = |bytes: usize| &text[..text.floor_char_boundary(bytes)];
    prefix(longest(text.len(), max, |bytes| counter.count(prefix(bytes))))
}

/// The end of `text` that fits `max` tokens, as long as the search can make it.
pub fn tail<'a>(counter: &(impl TokenCounter + ?Sized), text: &'a str, max: Tokens) -> &'a str {
    let suffix = |bytes: usize| &text[text.ceil_char_boundary(text.len() - bytes)..];
    suffix(longest(text.len(), max, |bytes| counter.count(suffix(bytes))))
}

/// The most bytes found to fit: a doubling guess, then halves between what fits and what does not.
fn longest(len: usize, max: Tokens, cost: impl Fn(usize) -> Tokens) -> usize {
    let mut fits = 0;
    let mut fails = len + 1;
    let mut guess = (max.get() as usize).saturating_mul(BYTES_FOR_TOKEN).clamp(1, len.max(1)).min(len);
    while fails - fits > 1 {
        if cost(guess) <= max {
            fits = guess;
        } else {
            fails = guess;
        }
        guess =
            if fails > len { fits.saturating_mul(2).clamp(fits + 1, len.max(fits + 1)) } else { fits.midpoint(fails) };
        if guess > len {
            break;
        }
    }
    fits
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

    fn each_cut(check: impl Fn(&str, Tokens, &str, &str)) {
        for text in TEXTS {
            for max in (0..40).map(Tokens::new) {
                check(text, max, truncate(&Bpe::O200k, text, max), tail(&Bpe::O200k, text, max));
            }
        }
    }

    #[test]
    fn a_cut_never_costs_more_than_it_may() {
        each_cut(|_, max, start, end| {
            assert!(Bpe::O200k.count(start) <= max && Bpe::O200k.count(end) <= max);
        });
    }

    #[test]
    fn a_cut_is_a_start_or_an_end_of_the_text() {
        each_cut(|text, _, start, end| assert!(text.starts_with(start) && text.ends_with(end)));
    }

    #[test]
    fn a_text_that_fits_is_not_cut() {
        each_cut(|text, max, start, end| {
            if Bpe::O200k.count(text) <= max {
                assert_eq!((start, end), (text, text));
            }
        });
    }

    #[test]
    fn a_cut_uses_what_it_may() {
        let text = "word ".repeat(10_000);
        let max = Tokens::new(1_000);
        assert_eq!(Bpe::O200k.count(truncate(&Bpe::O200k, &text, max)), max);
        assert_eq!(Bpe::O200k.count(tail(&Bpe::O200k, &text, max)), max);
    }
}
