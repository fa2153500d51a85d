//! Search by meaning: passages get vectors after they were indexed, and a search compares them with that of its words.
//!
//! ```text
//! compaction commits ──► passages in the index, no vector yet ──► embed_passages, in batches ──► vectors beside them
//!     found by words           found by words                        a crash loses one batch       found by both
//! ```
//!
//! Nothing here is needed for an answer. Where there is no endpoint, where it fails, and for passages that have no vector
//! yet, words alone decide, and the answer says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::hit::SearchByMeaning;
use super::passage::{PASSAGE_BYTES_MAX, passages};
use super::query::RecallQuery;
use super::terms;
use crate::ids::ThreadKey;
use crate::log::{Log, LogEntry, LogError, Result, searched};
use crate::model::{Embeddings, ModelError};
use crate::store::{Nearest, Neighbor, ThreadRow, VectorRow, Write};

/// The most vectors that are read and compared for one search, the newest; a store that compares by itself compares all.
const COMPARED_MAX: usize = 20_000;
/// Vectors are read so many at once.
const PAGE: usize = 512;
/// The most passages that are found by meaning; more where a filter leaves out most of them.
const NEAREST_MAX: usize = 24;
const NEAREST_FILTERED: usize = 512;
/// Something is nearest to every query. A passage counts as found from here on, between the thread's typical passage (0)
/// and its nearest one (1): models differ in how near unrelated texts are to each other.
const TELLING_SHARE: f64 = 0.5;
/// The same where a filter may leave out the nearest ones.
const TELLING_SHARE_FILTERED: f64 = 0.25;
/// No model that is in use has less similarity than this for what belongs together.
const SIMILARITY_MIN: f64 = 0.15;
/// A text that the model refuses as too long is halved, down to this.
const TEXT_BYTES_MIN: usize = 250;
const ANY_TEXT: &str = "text";
/// So many passages are looked at for whether any has no vector.
const UNEMBEDDED_SEEN: usize = 64;

/// The limits of one run of [`embed_passages`].
#[derive(Clone, Copy, Debug)]
pub struct EmbedLimits {
    /// The most passages.
    pub passages_max: usize,
    /// No request begins later than this after the first one did.
    pub time_max: Duration,
}

/// What became of the passages without a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbedReport {
    /// The passages that got a vector.
    pub embedded: usize,
    /// The passages that the model does not take; they are found by words alone.
    pub refused: usize,
    /// True if there are more than the limits allowed.
    pub is_more: bool,
}

impl EmbedReport {
    fn passages(&self) -> usize {
        self.embedded + self.refused
    }
}

/// The reasons for which passages get no vectors now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The endpoint gave none.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The passages cannot be read, or their vectors not be written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Makes vectors of the passages in a thread's own index that have none, the newest first, and stores each batch at once.
/// A passage has one afterwards, or is found again by the next run: so a run may end anywhere.
pub async fn embed_passages(
    log: &Log,
    row: &ThreadRow,
    embeddings: &Embeddings,
    limits: EmbedLimits,
) -> Result<EmbedReport, EmbedError> {
    let space = log.vector_space(&row.key.tenant, &embeddings.space());
    let (started, mut report) = (Instant::now(), EmbedReport::default());
    loop {
        let mut open = log.store().unembedded(&row.key, &space, embeddings.batch()).await.map_err(LogError::from)?;
        open.retain(|at| at.0 < row.length);
        if open.is_empty() {
            return Ok(report);
        }
        if report.passages() >= limits.passages_max || started.elapsed() >= limits.time_max {
            return Ok(EmbedReport { is_more: true, ..report });
        }
        open.truncate(limits.passages_max - report.passages());
        let texts = read_passages(log, row, &open).await?;
        let vectors = vectors_of(embeddings, &texts).await?;
        let taken = vectors.iter().flatten().count();
        // A vector without numbers is near to nothing, and keeps its passage from being sent again.
        let numbers = vectors.into_iter().map(Option::unwrap_or_default);
        let rows = open.into_iter().zip(numbers).map(|(at, numbers)| log.vector_row(&row.key, at, &space, numbers));
        let rows: Vec<VectorRow> = rows.collect();
        (report.embedded, report.refused) = (report.embedded + taken, report.refused + rows.len() - taken);
        log.apply(&[Write::PutVectors { key: row.key.clone(), rows }]).await.map_err(LogError::from)?;
    }
}

/// The texts of passages, in their order; empty where the message has no such passage any more.
async fn read_passages(log: &Log, row: &ThreadRow, wanted: &[(u64, u32)]) -> Result<Vec<String>> {
    let places: BTreeSet<u64> = wanted.iter().map(|(place, _)| *place).collect();
    let entries = log.read_at(row, &Vec::from_iter(places)).await?;
    let words: BTreeMap<u64, String> = entries.iter().map(|(place, entry)| (*place, LogEntry::words(entry))).collect();
    let text = |(place, passage): &(u64, u32)| {
        let all = words.get(place).map(|words| passages(words)).unwrap_or_default();
        let text = usize::try_from(*passage).ok().and_then(|at| all.get(at)).map_or("", |passage| passage.text);
        text[..text.floor_char_boundary(PASSAGE_BYTES_MAX)].to_owned()
    };
    Ok(wanted.iter().map(text).collect())
}

/// The vectors of texts, asked for at once; where that is refused, one by one, so that one text does not hold up the others.
async fn vectors_of(embeddings: &Embeddings, texts: &[String]) -> Result<Vec<Option<Vec<f32>>>, ModelError> {
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    match embeddings.embed(&all).await {
        Ok(vectors) => return Ok(vectors.into_iter().map(Some).collect()),
        Err(error) if !is_of_a_text(&error) => return Err(error),
        Err(_) => {}
    }
    let mut vectors = Vec::with_capacity(texts.len());
    for text in texts {
        vectors.push(vector_of_some(embeddings, text).await?);
    }
    // An endpoint that takes no text at all, because something else of the request is wrong, says nothing of these.
    if vectors.iter().all(Option::is_none) {
        embeddings.embed(&[ANY_TEXT]).await?;
    }
    Ok(vectors)
}

/// The vector of as much of a text as the model takes; `None` where it takes nothing of it.
async fn vector_of_some(embeddings: &Embeddings, text: &str) -> Result<Option<Vec<f32>>, ModelError> {
    let mut text = text;
    loop {
        match embeddings.embed(&[text]).await {
            Ok(vectors) => return Ok(vectors.into_iter().next()),
            Err(error) if !is_of_a_text(&error) => return Err(error),
            Err(_) if text.len() <= TEXT_BYTES_MIN => return Ok(None),
            Err(_) => text = &text[..text.floor_char_boundary(text.len() / 2)],
        }
    }
}

/// Tells whether an error may be about one text and not about all: too long, or not taken. A missing model or key is not.
fn is_of_a_text(error: &ModelError) -> bool {
    matches!(error, ModelError::Overflow { .. } | ModelError::Refused(400 | 413 | 422, _))
}

/// Finds the passages that are near to a query's words, the nearest first, and tells whether all were compared. Whatever
/// fails, words can still be searched alone.
pub(super) async fn near_passages(
    log: &Log,
    row: &ThreadRow,
    query: &RecallQuery<'_>,
) -> (Vec<Neighbor>, SearchByMeaning) {
    let Some(embeddings) = query.embeddings.filter(|_| !terms(query.words).is_empty()) else {
        return (Vec::new(), SearchByMeaning::Off);
    };
    let failed = |error: EmbedError| {
        tracing::warn!(%error, "recall searches words alone");
        (Vec::new(), SearchByMeaning::Failed)
    };
    compare_with_words(log, row, query, embeddings).await.unwrap_or_else(failed)
}

async fn compare_with_words(
    log: &Log,
    row: &ThreadRow,
    query: &RecallQuery<'_>,
    embeddings: &Embeddings,
) -> Result<(Vec<Neighbor>, SearchByMeaning), EmbedError> {
    let words = &query.words[..query.words.floor_char_boundary(PASSAGE_BYTES_MAX)];
    let vector = embeddings.embed_words(words).await?;
    let space = log.vector_space(&row.key.tenant, &embeddings.space());
    let (limit, share) = match query.filter.is_empty() {
        true => (NEAREST_MAX, TELLING_SHARE),
        false => (NEAREST_FILTERED, TELLING_SHARE_FILTERED),
    };
    let nearest = log.store().nearest(&row.key.tenant, &searched(row), &space, &vector, limit).await;
    let (nearest, is_all) = match nearest.map_err(LogError::from)? {
        Some(nearest) => (nearest, true),
        None => compare(log, row, &space, &vector, limit).await?,
    };
    let is_whole = is_all && !is_any_unembedded(log, row, &space).await?;
    let outcome = if is_whole { SearchByMeaning::Done } else { SearchByMeaning::Partly };
    let after = query.filter.after.unwrap_or(0);
    let mut near = telling(nearest, share);
    near.retain(|near| near.place + 1 > after);
    Ok((near, outcome))
}

/// Leaves out what is no nearer than most.
fn telling(nearest: Nearest, share: f64) -> Vec<Neighbor> {
    let Nearest { mut neighbors, typical } = nearest;
    let best = neighbors.first().map_or(0.0, |near| near.similarity);
    let least = (typical + (best - typical) * share).max(SIMILARITY_MIN);
    neighbors.retain(|near| near.similarity >= least);
    neighbors
}

/// Reads the vectors of a thread, opens and compares them, the newest first. Returns whether that were all.
async fn compare(log: &Log, row: &ThreadRow, space: &str, vector: &[f32], limit: usize) -> Result<(Nearest, bool)> {
    let (mut seen, mut is_all) = (BTreeMap::new(), true);
    // A fork's own messages are the newest, and the last segment.
    for segment in searched(row).into_iter().rev() {
        let key = ThreadKey::new(row.key.tenant.clone(), segment.thread);
        let mut before = (segment.until, 0);
        loop {
            if seen.len() >= COMPARED_MAX {
                is_all = false;
                break;
            }
            let page = log.store().vectors(&key, before, PAGE).await?;
            for one in page.iter().filter(|one| one.space == space) {
                let Some(numbers) = log.open_vector(&key, one).ok().filter(|held| held.len() == vector.len()) else {
                    is_all &= log.open_vector(&key, one).is_ok_and(|held| held.is_empty());
                    continue;
                };
                let similarity = numbers.iter().zip(vector).map(|(one, other)| f64::from(one * other)).sum();
                let near = Neighbor { place: one.place, passage: one.passage, similarity };
                seen.insert((one.place, one.passage), near);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => before = (last.place, last.passage),
                _ => break,
            }
        }
    }
    let mut neighbors: Vec<Neighbor> = seen.into_values().rev().collect();
    neighbors.sort_by(|one, other| other.similarity.total_cmp(&one.similarity));
    let typical = median(&neighbors);
    neighbors.truncate(limit);
    Ok((Nearest { neighbors, typical }, is_all))
}

/// The median similarity of neighbors in their order.
fn median(neighbors: &[Neighbor]) -> f64 {
    let (low, high) = (neighbors.len().saturating_sub(1) / 2, neighbors.len() / 2);
    match (neighbors.get(low), neighbors.get(high)) {
        (Some(one), Some(other)) => (one.similarity + other.similarity) / 2.0,
        _ => 0.0,
    }
}

async fn is_any_unembedded(log: &Log, row: &ThreadRow, space: &str) -> Result<bool> {
    for segment in searched(row) {
        let key = ThreadKey::new(row.key.tenant.clone(), segment.thread);
        let open = log.store().unembedded(&key, space, UNEMBEDDED_SEEN).await?;
        if open.iter().any(|(place, _)| *place < segment.until) {
            return Ok(true);
        }
    }
    Ok(false)
}
