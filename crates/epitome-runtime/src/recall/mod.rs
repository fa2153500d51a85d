//! Recall: full-text search over everything that was compacted in a thread, ranked, with ranges, within a token limit.
//!
//! Passages are indexed when their message leaves the prompt. Where there is a key the index holds blinded terms: the
//! same word has the same blind name within a tenant, and nobody without the key can tell which word it is.
//!
//! ```text
//! "harbor code V-17" ──► terms: harbor, code, v, 17 ──► blinded under each key ──► the store ranks passages (BM25)
//!     m2 passage 0   9.1   "The harbor code is V-17."        shown whole
//!     m8 passage 3   4.0   a log of 4000 lines               the part around its first mention, 40 % of the limit at most
//!     m9 passage 0   1.2                                     no room: counted as left out
//! ```
//!
//! A rare term weighs more than a common one, and a passage's length is evened out, which is why long messages are cut into
//! passages of forty lines before they are indexed: the store can score a passage, and the answer can show it.

mod terms;

pub use terms::terms;

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use epitome::budget::{TokenCounter, Tokens, truncate};
use serde::Serialize;

use crate::ids::TenantId;
use crate::log::{Log, LogEntry, LogError, searched};
use crate::store::{Candidate, IndexRow, ThreadRow};
use crate::vault::Vault;

/// The most lines of a passage.
const PASSAGE_LINES_MAX: usize = 40;
/// The most bytes of a passage, but for a single line that is longer.
const PASSAGE_BYTES_MAX: usize = 4000;
/// The most terms of a query.
const QUERY_TERMS_MAX: usize = 24;
/// More candidates than are shown are looked at: several may be of one message.
const CANDIDATES: usize = 32;
/// The tokens of a passage's heading, and of the line about passages that were left out.
const HEADING: Tokens = Tokens::new(12);
const LAST_LINE: Tokens = Tokens::new(24);
/// Up to this share of the limit the sum is exact enough.
const WELL_WITHIN: f64 = 0.9;
/// The bytes that are shown before the first mention in a line that is too long to be shown whole.
const CONTEXT_BYTES: usize = 80;
/// The most tokens of one passage in an answer, as a share of the limit.
const PASSAGE_SHARE: f64 = 0.4;

/// A search of compacted content.
#[derive(Clone, Debug)]
pub struct RecallQuery<'a> {
    /// The words to look for.
    pub words: &'a str,
    /// The most tokens of the answer.
    pub tokens_max: Tokens,
    /// The most passages.
    pub hits_max: usize,
}

/// The result of a search.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecallResult {
    /// The passages, best first.
    pub hits: Vec<RecallHit>,
    /// The tokens of the answer as text.
    pub tokens: Tokens,
    /// The number of passages that were found and did not fit.
    pub left_out: usize,
}

/// A passage of a message that was compacted.
#[derive(Clone, Debug, Serialize)]
pub struct RecallHit {
    /// The message, as summaries call it: `m41`.
    pub reference: String,
    /// Its place in the log, from 0.
    pub place: u64,
    /// The role of its message.
    pub role: String,
    /// The lines of it that are shown, from 1.
    pub lines: RangeInclusive<u32>,
    /// The score; comparable within one answer.
    pub score: f64,
    /// The lines.
    pub text: String,
}

impl RecallResult {
    /// The answer as a model reads it.
    pub fn render(&self) -> String {
        if self.hits.is_empty() {
            return "Nothing that left the prompt matches.".to_owned();
        }
        let mut out: Vec<String> = self.hits.iter().map(RecallHit::render).collect();
        if self.left_out > 0 {
            out.push(format!("[{} more left out; ask for something narrower]", self.left_out));
        }
        out.join("\n\n")
    }
}

impl RecallHit {
    fn render(&self) -> String {
        let (first, last) = (self.lines.start(), self.lines.end());
        format!("[{} {}, lines {first}-{last}]\n{}", self.reference, self.role, self.text)
    }
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

struct Passage<'a> {
    first_line: u32,
    last_line: u32,
    text: &'a str,
}

/// A text in pieces of whole lines.
fn passages(text: &str) -> Vec<Passage<'_>> {
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

/// The terms that a query looks for in the index.
fn query_terms(vault: &Vault, tenant: &TenantId, words: &str) -> Vec<String> {
    let distinct: BTreeSet<String> = terms(words).into_iter().collect();
    // What was indexed before there was a key stands there as it is.
    let names =
        |term: &String| vault.blind_all(tenant, term).into_iter().chain([term.clone()]).collect::<BTreeSet<_>>();
    distinct.iter().take(QUERY_TERMS_MAX).flat_map(names).collect()
}

/// Searches what left a thread's prompts.
pub async fn recall(
    log: &Log,
    row: &ThreadRow,
    query: &RecallQuery<'_>,
    counter: &dyn TokenCounter,
) -> Result<RecallResult, LogError> {
    let terms = query_terms(log.vault(), &row.key.tenant, query.words);
    if terms.is_empty() || query.tokens_max == Tokens::ZERO {
        return Ok(RecallResult::default());
    }
    let each = query.tokens_max.share(PASSAGE_SHARE);
    let limit = query.hits_max.max(1).saturating_add(CANDIDATES);
    let found = log.store().search(&row.key.tenant, &searched(row), &terms, limit).await?;
    let found = distinct(found);
    let words: BTreeSet<String> = self::terms(query.words).into_iter().collect();
    let mut answer = RecallResult::default();
    let mut rest = found.as_slice();
    while answer.hits.len() < query.hits_max && !rest.is_empty() {
        let (some, later) = rest.split_at(rest.len().min(query.hits_max - answer.hits.len()));
        let places: Vec<u64> = some.iter().map(|candidate| candidate.place).collect();
        let entries = log.read_at(row, &places).await?;
        for candidate in some {
            let hit = entries.get(&candidate.place).and_then(|entry| hit(candidate, entry, &words, each, counter));
            hit.into_iter().for_each(|hit| add(&mut answer, hit, query.tokens_max));
        }
        rest = later;
    }
    answer.left_out = found.len().saturating_sub(answer.hits.len());
    settle(&mut answer, query.tokens_max, counter);
    Ok(answer)
}

/// Adds a passage if it fits beside the others.
fn add(answer: &mut RecallResult, (hit, tokens): (RecallHit, Tokens), most: Tokens) {
    let cost = tokens + HEADING;
    if answer.tokens + cost <= most {
        answer.tokens += cost;
        answer.hits.push(hit);
    }
}

/// Counts the answer as a whole; what is too much leaves from the end. Well within the limit the sum will do: texts
/// together take about what they take one by one.
fn settle(answer: &mut RecallResult, most: Tokens, counter: &dyn TokenCounter) {
    if answer.tokens + LAST_LINE <= most.share(WELL_WITHIN) && !answer.hits.is_empty() {
        answer.tokens += LAST_LINE;
        return;
    }
    loop {
        answer.tokens = counter.count(&answer.render());
        if answer.tokens <= most || answer.hits.is_empty() {
            return;
        }
        answer.hits.pop();
        answer.left_out += 1;
    }
}

/// Each passage once: a fork finds what its parent indexed, and what it indexed itself.
fn distinct(found: Vec<Candidate>) -> Vec<Candidate> {
    let mut seen = BTreeSet::new();
    found.into_iter().filter(|candidate| seen.insert((candidate.place, candidate.passage))).collect()
}

fn hit(
    candidate: &Candidate,
    entry: &LogEntry,
    wanted: &BTreeSet<String>,
    most: Tokens,
    counter: &dyn TokenCounter,
) -> Option<(RecallHit, Tokens)> {
    let words = entry.words();
    let mut all = passages(&words);
    let is_whole = all.len() == 1 && entry.counter.is_none();
    let passage = (candidate.passage as usize) < all.len();
    let passage = passage.then(|| all.swap_remove(candidate.passage as usize))?;
    let whole = passage.text.trim_end_matches('\n');
    let (start, text) = shown(whole, wanted, most, counter);
    let first_line = passage.first_line + whole[..start].matches('\n').count() as u32;
    // A message that is shown whole was counted when it was appended.
    let tokens = if is_whole && text.len() == whole.len() {
        entry.part_tokens.iter().copied().sum()
    } else {
        counter.count(text)
    };
    let lines = u32::try_from(text.lines().count()).unwrap_or(1).max(1);
    let hit = RecallHit {
        reference: format!("m{}", candidate.place + 1),
        place: candidate.place,
        role: entry.message.role.name().to_owned(),
        lines: first_line..=(first_line + lines - 1).min(passage.last_line),
        score: candidate.score,
        text: text.to_owned(),
    };
    Some((hit, tokens))
}

/// As much of a passage as may be shown, and where it begins: a passage that has to be cut is not cut before the words
/// that it was found by.
fn shown<'a>(whole: &'a str, wanted: &BTreeSet<String>, most: Tokens, counter: &dyn TokenCounter) -> (usize, &'a str) {
    // A token has a byte at least: what has no more bytes than tokens are allowed need not be counted.
    if whole.len() as u64 <= most.get() {
        return (0, whole);
    }
    let head = truncate(counter, whole, most);
    if head.len() == whole.len() {
        return (0, whole);
    }
    let mention = first_mention(whole, wanted);
    let line = whole[..mention].rfind('\n').map_or(0, |end| end + 1);
    let start = match whole.contains('\n') {
        true if mention + 2 * CONTEXT_BYTES < head.len() => 0,
        true if mention - line <= CONTEXT_BYTES => line,
        // A line that is too long is shown from a little before the first word that fits.
        _ => mention,
    };
    (start, truncate(counter, &whole[start..], most))
}

/// Finds the start of the part of a long text that holds a wanted word.
fn first_mention(line: &str, wanted: &BTreeSet<String>) -> usize {
    let mut at: usize = 0;
    for word in line.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_')) {
        if terms(word).iter().any(|term| wanted.contains(term)) {
            return line.floor_char_boundary(at.saturating_sub(CONTEXT_BYTES));
        }
        at += word.len();
    }
    0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use epitome::budget::{Characters, Tokens};

    use super::{PASSAGE_BYTES_MAX, passages, shown, terms};

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
