//! Recall: search over everything that was compacted in a thread, by words and, where there is an embedding model, by meaning;
//! ranked, with ranges, within a token limit.
//!
//! Passages are indexed when their message leaves the prompt. Where there is a key the index holds blinded terms: the
//! same word has the same blind name within a tenant, and nobody without the key can tell which word it is.
//!
//! ```text
//! "harbor code V-17" ──► terms: harbor, code, v, 17 ──► blinded under each key ──► the store finds passages
//!     the best fit           m2 passage 0    shown
//!     the newest mention     m412 passage 1  shown: a common name is loudest where it is least needed
//!     the newest failure     m388 passage 0  shown
//!     the rest, by fit       m8 passage 3    no room: told by its number and first line
//!                            m410            its lines stand in the prompt: told by its number
//!                            m6              its lines are shown above: told by its number
//! ```
//!
//! What is near to the query by meaning joins them: both rankings are merged by their ranks (`fusion.rs`), so that neither has
//! to be measured in the other's units. Everything behind that, filters and limits included, is the same for both.
//!
//! A rare term weighs more than a common one, and a passage's length is evened out, which is why long messages are cut into
//! passages of forty lines before they are indexed: the store can score a passage, and the answer can show it.

mod entries;
mod found;
mod fusion;
mod hit;
mod meaning;
mod outdated;
mod passage;
mod prompt_lines;
mod query;
mod readback;
mod selection;
mod terms;
#[cfg(test)]
mod tests;

pub use hit::{LeftOut, LeftOutReason, OutdatedLines, RecallHit, RecallResult, SearchByMeaning};
pub use meaning::{EmbedError, EmbedLimits, EmbedReport, embed_passages};
pub use passage::index_rows;
pub use prompt_lines::PromptLines;
pub use query::{RecallFilter, RecallQuery, RecallRequest, Who};
pub use readback::{FileQuestion, file_answer, read_messages};
pub use selection::{MessageSelection, message_number};
pub use terms::terms;

use std::collections::BTreeSet;

use epitome::budget::{TokenCounter, Tokens};

use self::entries::Entries;
use self::found::Found;
use self::fusion::{fuse, weigh};
use crate::ids::TenantId;
use crate::log::{Log, Result, searched};
use crate::store::{Candidate, SearchOrder, ThreadRow};
use crate::vault::Vault;

/// The most terms of a query.
const QUERY_TERMS_MAX: usize = 24;
/// So many passages that fit best are looked at, and so many of the newest messages.
const BEST: usize = 44;
const NEWEST: usize = 16;
/// The same where a filter leaves most of them out.
const FILTERED: usize = 512;
/// Messages are read so many at once.
const BATCH: usize = 64;
/// Passages that are told by their number and first line, at most.
const LISTED_MAX: usize = 24;
/// The share of the limit for that list, of one passage, and up to which the sum of counts is exact enough.
const LIST_SHARE: f64 = 0.15;
const PASSAGE_SHARE: f64 = 0.3;
const WELL_WITHIN: f64 = 0.9;
/// A newest passage holds this share of the terms that the best one holds: one that holds nothing but "the" is no answer.
const COVERAGE_SHARE: f64 = 0.75;
/// And its words weigh at least this beside what is near by meaning.
const WEIGHT_MIN: f64 = 0.5;
/// The tokens of the lines about passages that were left out.
const LAST_LINES: Tokens = Tokens::new(48);

/// Searches what left a thread's prompts.
pub async fn recall(
    log: &Log,
    row: &ThreadRow,
    query: &RecallQuery<'_>,
    counter: &dyn TokenCounter,
) -> Result<RecallResult> {
    if query.tokens_max == Tokens::ZERO {
        return Ok(RecallResult::default());
    }
    let wanted: BTreeSet<String> = terms(query.words).into_iter().collect();
    let mut entries = Entries::new(log, row);
    let mut found: Vec<Found> = Vec::new();
    let (by_words, (near, by_meaning)) =
        futures_util::future::join(candidates(log, row, query, &wanted), meaning::near_passages(log, row, query)).await;
    let mut candidates = fuse(&by_words?, &near);
    if query.filter.newest {
        candidates.sort_by_key(|one| std::cmp::Reverse((one.place, one.passage)));
    }
    for batch in candidates.chunks(BATCH) {
        entries.read_with_calls(batch.iter().map(|candidate| candidate.place)).await?;
        let fitting = batch.iter().filter_map(|candidate| Found::new(candidate, &entries, &wanted, query));
        found.extend(fitting);
        if !query.filter.is_empty() && found.len() >= query.hits_max + LISTED_MAX {
            break;
        }
    }
    if !near.is_empty() {
        weigh(&mut found, &wanted);
    }
    let found = ranked(found, query.filter.newest);
    let mut answer = RecallResult { by_meaning, ..choose(&found, query, &wanted, counter) };
    outdated::mark(&mut answer.hits, &found, &mut entries, query.tools).await?;
    settle(&mut answer, query.tokens_max, counter);
    Ok(answer)
}

/// Finds the passages that are looked at: the best and the newest; without a word, those of the last messages.
async fn candidates(
    log: &Log,
    row: &ThreadRow,
    query: &RecallQuery<'_>,
    wanted: &BTreeSet<String>,
) -> Result<Vec<Candidate>> {
    let after = query.filter.after.unwrap_or(0);
    if wanted.is_empty() {
        return Ok(if query.filter.is_empty() { Vec::new() } else { last_places(row, after) });
    }
    let (tenant, segments) = (&row.key.tenant, searched(row));
    let terms = blinded(log.vault(), tenant, wanted);
    let (best, newest) = if query.filter.is_empty() { (BEST, NEWEST) } else { (FILTERED, FILTERED) };
    let mut all = log.store().search(tenant, &segments, &terms, SearchOrder::Best, best).await?;
    if all.len() == best {
        all.extend(log.store().search(tenant, &segments, &terms, SearchOrder::Newest, newest).await?);
    }
    // A fork finds what its parent indexed, and what it indexed itself.
    let mut seen = BTreeSet::new();
    all.retain(|candidate| candidate.place + 1 > after && seen.insert((candidate.place, candidate.passage)));
    Ok(all)
}

/// The terms that a query looks for in the index.
fn blinded(vault: &Vault, tenant: &TenantId, wanted: &BTreeSet<String>) -> Vec<String> {
    // What was indexed before there was a key stands there as it is.
    let names =
        |term: &String| vault.blind_all(tenant, term).into_iter().chain([term.clone()]).collect::<BTreeSet<_>>();
    wanted.iter().take(QUERY_TERMS_MAX).flat_map(names).collect()
}

/// The first passages of the last messages behind a place, the newest first.
fn last_places(row: &ThreadRow, after: u64) -> Vec<Candidate> {
    let first = after.max(row.length.saturating_sub(FILTERED as u64));
    let candidate = |place| Candidate {
        thread: row.key.thread.clone(),
        place,
        passage: 0,
        first_line: 1,
        last_line: 1,
        score: 0.0,
    };
    (first..row.length).rev().map(candidate).collect()
}

/// Orders what was found: the best, the newest, the newest failure, then by fit; or the newest first altogether. Whatever holds
/// nothing but common words is no answer for being new.
fn ranked(mut found: Vec<Found>, newest_first: bool) -> Vec<Found> {
    let most = found.iter().map(Found::coverage).max().unwrap_or(0);
    let enough = (most as f64 * COVERAGE_SHARE).ceil() as usize;
    if newest_first {
        found.retain(|one| one.coverage() >= enough || one.ranks.by_meaning.is_some());
        found.sort_by_key(|one| std::cmp::Reverse((one.place, one.passage)));
        return found;
    }
    found.sort_by(|one, other| {
        let by_fit = other.score.total_cmp(&one.score).then(other.coverage().cmp(&one.coverage()));
        by_fit.then(other.place.cmp(&one.place))
    });
    let newest_of = |found: &[Found], failed: bool| {
        let is_named = |one: &Found| one.coverage() >= enough && one.words_weight >= WEIGHT_MIN;
        let fits = |one: &&Found| is_named(one) && (one.failed || !failed);
        found.iter().filter(fits).max_by_key(|one| (one.place, one.passage)).map(|one| (one.place, one.passage))
    };
    let firsts = [newest_of(&found, false), newest_of(&found, true)];
    for (to, first) in firsts.into_iter().flatten().enumerate() {
        let at = found.iter().position(|one| (one.place, one.passage) == first).unwrap_or(0);
        // The best stays first, and what comes first already stays where it is.
        if at > to + 1 {
            let one = found.remove(at);
            found.insert(to + 1, one);
        }
    }
    found
}

/// Chooses what is shown: what says something that neither the prompt nor a passage before it says, within the limit.
fn choose(
    found: &[Found],
    query: &RecallQuery<'_>,
    wanted: &BTreeSet<String>,
    counter: &dyn TokenCounter,
) -> RecallResult {
    let mut answer = RecallResult::default();
    let room =
        query.tokens_max - query.tokens_max.share(LIST_SHARE) - LAST_LINES.min(query.tokens_max.share(LIST_SHARE));
    let most = query.tokens_max.share(PASSAGE_SHARE);
    for one in found {
        let reason = if query.prompt.is_some_and(|prompt| prompt.holds(one.passage_text())) {
            LeftOutReason::InPrompt
        } else if let Some(shown) = answer.hits.iter().find(|hit| one.repeats(hit)) {
            LeftOutReason::Repeats(shown.reference.clone())
        } else if answer.hits.len() >= query.hits_max {
            LeftOutReason::NoRoom
        } else {
            let (hit, tokens) = one.hit(wanted, most, counter);
            if answer.tokens + tokens <= room {
                answer.tokens += tokens;
                answer.hits.push(hit);
                continue;
            }
            LeftOutReason::NoRoom
        };
        answer.left_out += 1;
        if answer.others.len() < LISTED_MAX {
            answer.others.push(one.left_out(reason));
        }
    }
    answer
}

/// Counts the answer as a whole; what is too much leaves from the end. Well within the limit the sum will do: texts
/// together take about what they take one by one.
fn settle(answer: &mut RecallResult, most: Tokens, counter: &dyn TokenCounter) {
    let list: usize = answer.others.iter().map(LeftOut::cost).sum();
    let sum = answer.tokens + Tokens::new(list as u64) + LAST_LINES;
    if sum <= most.share(WELL_WITHIN) && !answer.hits.is_empty() {
        answer.tokens = sum;
        return;
    }
    loop {
        answer.tokens = counter.count(&answer.render());
        if answer.tokens <= most || answer.hits.is_empty() && answer.others.is_empty() {
            return;
        }
        if answer.others.pop().is_none() && answer.hits.pop().is_some() {
            answer.left_out += 1;
        }
    }
}
