//! Passages: a message in pieces of whole lines, as the index holds them and an answer shows them.

use std::collections::{BTreeSet, HashMap};

use epitome::budget::{TokenCounter, Tokens, truncate};

use super::terms::{mentions, terms};
use crate::ids::TenantId;
use crate::store::IndexRow;
use crate::vault::Vault;

/// The most lines of a passage.
const PASSAGE_LINES_MAX: usize = 40;
/// The most bytes of a passage, but for a single line that is longer.
pub(super) const PASSAGE_BYTES_MAX: usize = 4000;
/// The bytes that are shown before the first mention in a line that is too long to be shown whole.
const CONTEXT_BYTES: usize = 80;

/// Some lines of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage<'a> {
    /// The first one's number, from 1.
    pub(super) first_line: u32,
    pub(super) last_line: u32,
    pub(super) text: &'a str,
}

/// The passages of a message, for the index.
pub fn index_rows(vault: &Vault, tenant: &TenantId, place: u64, words: &str) -> Vec<IndexRow> {
    let mut blinded: HashMap<String, String> = HashMap::new();
    let mut rows = Vec::new();
    for (number, passage) in passages(words).into_iter().enumerate() {
        let named = |term: String| blinded.entry(term).or_insert_with_key(|term| vault.blind(tenant, term)).clone();
        let terms: Vec<String> = terms(passage.text).into_iter().map(named).collect();
        if terms.is_empty() {
            continue;
        }
        rows.push(IndexRow {
            place,
            passage: u32::try_from(number).unwrap_or(u32::MAX),
            first_line: passage.first_line,
            last_line: passage.last_line,
            terms,
        });
    }
    rows
}

/// A text in pieces of whole lines.
pub(super) fn passages(text: &str) -> Vec<Passage<'_>> {
    let mut found = Vec::new();
    let (mut start, mut at, mut lines, mut first) = (0, 0, 0u32, 1u32);
    for line in text.split_inclusive('\n') {
        let is_full = lines as usize >= PASSAGE_LINES_MAX || at - start + line.len() > PASSAGE_BYTES_MAX;
        if is_full && lines > 0 {
            found.push(Passage { first_line: first, last_line: first + lines - 1, text: &text[start..at] });
            (start, first, lines) = (at, first + lines, 0);
        }
        at += line.len();
        lines += 1;
    }
    if lines > 0 {
        found.push(Passage { first_line: first, last_line: first + lines - 1, text: &text[start..at] });
    }
    found
}

/// As much of a passage as may be shown, and where it begins: a passage that has to be cut is not cut before the words
/// that it was found by.
pub(super) fn shown<'a>(
    whole: &'a str,
    wanted: &BTreeSet<String>,
    most: Tokens,
    counter: &dyn TokenCounter,
) -> (usize, &'a str) {
    // A token has a byte at least: what has no more bytes than tokens are allowed need not be counted.
    if whole.len() as u64 <= most.get() {
        return (0, whole);
    }
    let head = truncate(counter, whole, most);
    if head.len() == whole.len() {
        return (0, whole);
    }
    let mention = mentions(whole, wanted).next().map_or(0, |(at, _)| at);
    let mention = whole.floor_char_boundary(mention.saturating_sub(CONTEXT_BYTES));
    let line = whole[..mention].rfind('\n').map_or(0, |end| end + 1);
    let start = match whole.contains('\n') {
        true if mention + 2 * CONTEXT_BYTES < head.len() => 0,
        true if mention - line <= CONTEXT_BYTES => line,
        // A line that is too long is shown from a little before the first word that fits.
        _ => mention,
    };
    (start, truncate(counter, &whole[start..], most))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use epitome::budget::{Characters, Tokens};

    use super::{PASSAGE_BYTES_MAX, passages, shown};
    use crate::recall::terms;

    #[test]
    fn a_passage_that_is_cut_still_shows_what_it_was_found_by() {
        let lines: String = (0..40).map(|n| format!("{n}: a reading of the moisture of one bed\n")).collect();
        let one_line = "word ".repeat(400);
        for (text, found) in [
            (format!("zephyr\n{lines}"), "zephyr"),
            (format!("{lines}the zephyr turns"), "zephyr"),
            (format!("{lines}the zephyr turns\n{lines}"), "zephyr"),
            (format!("{one_line}zephyr {one_line}"), "zephyr"),
            (format!("{lines}{one_line}zephyr"), "zephyr"),
            ("short".to_owned(), "short"),
        ] {
            let wanted: BTreeSet<String> = terms(found).into_iter().collect();
            let (start, part) = shown(&text, &wanted, Tokens::new(60), &Characters::Four);
            assert!(part.contains(found), "{part}");
            assert!(text[start..].starts_with(part) && part.len() <= 240);
        }
    }

    #[test]
    fn passages_are_whole_lines_and_together_the_text() {
        let long: String = (0..300).map(|n| format!("line {n} {}\n", "x".repeat(n % 90))).collect();
        for text in ["", "one", "one\ntwo", "one\n\n\ntwo\n", long.as_str(), &"y".repeat(9000)] {
            let found = passages(text);
            assert_eq!(found.iter().map(|p| p.text).collect::<String>(), text);
            let mut next = 1;
            for passage in &found {
                assert_eq!(passage.first_line, next);
                assert_eq!(passage.text.lines().count() as u32, passage.last_line - passage.first_line + 1);
                assert!(passage.text.len() <= PASSAGE_BYTES_MAX || passage.text.lines().count() == 1);
                next = passage.last_line + 1;
            }
        }
    }
}
