//! The full-text index. Vectors and queries are written out here, so that no parser or dictionary of the database has a
//! say in what a term is.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Row;

use super::failure::Fault;
use crate::store::columns::Columns as _;
use crate::store::{Candidate, Neighbor, SearchOrder, Segment, StoreError, StoredVector, VectorRow};

/// The most bytes of a lexeme.
const TERM_BYTES_MAX: usize = 2_000;

/// The most bytes of lexemes in a vector; Postgres has room for a mebibyte with their positions.
const VECTOR_BYTES_MAX: usize = 500_000;

/// The last position that a vector can tell from others.
const POSITION_MAX: usize = 16_383;

/// The most positions of a lexeme.
const POSITIONS_MAX: usize = 255;

/// Finds passages of a thread: those that hold its lexeme and any of the terms, ranked by how often they do.
const FIND_BEST: &str = "SELECT t.thread, p.place, p.passage, p.first_line, p.last_line, \
     ts_rank(p.terms, $4::text::tsquery, 1)::float8 AS fit FROM unnest($2::text[], $3::bigint[]) s (thread, until) \
     JOIN threads t ON t.tenant = $1 AND t.thread = s.thread \
     JOIN passages p ON p.terms @@ (quote_literal(' ' || t.no)::tsquery && $4::text::tsquery) \
     AND p.thread = t.no AND p.place < s.until ORDER BY fit DESC, p.place, p.passage LIMIT $5";

/// The same, those of the newest messages first, without a rank.
const FIND_NEWEST: &str = "SELECT t.thread, p.place, p.passage, p.first_line, p.last_line, 0::float8 AS fit \
     FROM unnest($2::text[], $3::bigint[]) s (thread, until) JOIN threads t ON t.tenant = $1 AND t.thread = s.thread \
     JOIN passages p ON p.terms @@ (quote_literal(' ' || t.no)::tsquery && $4::text::tsquery) \
     AND p.thread = t.no AND p.place < s.until ORDER BY p.place DESC, p.passage DESC LIMIT $5";

/// Returns the query for an order.
pub(super) fn find(order: SearchOrder) -> &'static str {
    match order {
        SearchOrder::Best => FIND_BEST,
        SearchOrder::Newest => FIND_NEWEST,
    }
}

/// The terms as a vector: each with its positions.
pub(super) fn vector(terms: &[String]) -> String {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut bytes = 0;
    for (at, term) in terms.iter().enumerate() {
        let term = clipped(term);
        if !places.contains_key(term) {
            bytes += term.len();
        }
        if !term.is_empty() && bytes <= VECTOR_BYTES_MAX {
            places.entry(term).or_default().push(POSITION_MAX.min(at + 1));
        }
    }
    places.into_iter().map(|(term, places)| lexeme(term, &places)).collect::<Vec<_>>().join(" ")
}

fn lexeme(term: &str, places: &[usize]) -> String {
    let places: Vec<String> = places.iter().take(POSITIONS_MAX).map(ToString::to_string).collect();
    format!("{}:{}", quoted(term), places.join(","))
}

/// Any of the terms, as a query; `None` when there is none.
pub(super) fn any_of(terms: &[String]) -> Option<String> {
    let words: BTreeSet<&str> = terms.iter().map(|term| clipped(term)).filter(|term| !term.is_empty()).collect();
    let quoted: Vec<String> = words.into_iter().map(quoted).collect();
    if quoted.is_empty() { None } else { Some(quoted.join(" | ")) }
}

fn quoted(term: &str) -> String {
    format!("'{}'", term.replace('\\', "\\\\").replace('\'', "''"))
}

fn clipped(term: &str) -> &str {
    let term = &term[..term.floor_char_boundary(TERM_BYTES_MAX)];
    term.split('\0').next().unwrap_or_default()
}

/// The thread's vectors before a passage, the newest first.
pub(super) const VECTORS: &str = "SELECT v.place, v.passage, v.space, v.plain, v.sealed FROM threads t \
     JOIN vectors v ON v.thread = t.no AND (v.place, v.passage) < ($3, $4) WHERE t.tenant = $1 AND t.thread = $2 \
     ORDER BY v.place DESC, v.passage DESC LIMIT $5";

/// The thread's passages that have no vector of a space, the newest first.
pub(super) const UNEMBEDDED: &str = "SELECT p.place, p.passage FROM threads t JOIN passages p ON p.thread = t.no \
     WHERE t.tenant = $1 AND t.thread = $2 AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.thread = p.thread \
     AND v.place = p.place AND v.passage = p.passage AND v.space = $3) ORDER BY p.place DESC, p.passage DESC LIMIT $4";

/// A vector of a space that the database cannot compare, because it is sealed.
pub(super) const ANY_SEALED: &str = "SELECT 1 FROM unnest($2::text[], $3::bigint[]) s (thread, until) \
     JOIN threads t ON t.tenant = $1 AND t.thread = s.thread \
     JOIN vectors v ON v.thread = t.no AND v.place < s.until WHERE v.space = $4 AND v.plain IS NULL LIMIT 1";

/// Compares all vectors of some segments with one, by pgvector, which is in the schema of this name. A search is within one
/// thread, whose vectors the primary key finds: an index over those of all threads would find other threads' first.
pub(super) fn nearest(schema: &str) -> String {
    let schema = schema.replace('"', "\"\"");
    let of_vector = format!("\"{schema}\".vector");
    let distance = format!("OPERATOR(\"{schema}\".<=>)");
    format!(
        "WITH near AS (SELECT DISTINCT v.place, v.passage, \
         1 - (v.plain::{of_vector} {distance} ($5::text::{of_vector})) AS similarity \
         FROM unnest($2::text[], $3::bigint[]) s (thread, until) \
         JOIN threads t ON t.tenant = $1 AND t.thread = s.thread \
         JOIN vectors v ON v.thread = t.no AND v.place < s.until \
         WHERE v.space = $4 AND cardinality(v.plain) = $7) \
         SELECT place, passage, similarity, (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY similarity) FROM near) \
         AS typical FROM near ORDER BY similarity DESC, place DESC, passage DESC LIMIT $6"
    )
}

/// Numbers as the text of an array.
pub(super) fn array(numbers: &[f32]) -> String {
    format!("{{{}}}", joined(numbers))
}

/// Numbers as the text of a pgvector.
pub(super) fn vector_text(numbers: &[f32]) -> String {
    format!("[{}]", joined(numbers))
}

fn joined(numbers: &[f32]) -> String {
    numbers.iter().map(f32::to_string).collect::<Vec<_>>().join(",")
}

/// A vector's row.
pub(super) fn vector_row(row: &Row) -> Result<VectorRow, Fault> {
    let unreadable = || StoreError::Damaged("a vector has neither numbers nor a body".to_owned());
    let vector = match row.try_get::<_, Option<Vec<f32>>>("plain")? {
        Some(numbers) => StoredVector::Plain(numbers),
        None => StoredVector::Sealed(row.maybe_bytes("sealed")?.ok_or_else(unreadable)?),
    };
    Ok(VectorRow { place: row.amount("place")?, passage: row.small("passage")?, space: row.text("space")?, vector })
}

/// A passage that is near.
pub(super) fn neighbor(row: &Row) -> Result<Neighbor, Fault> {
    let similarity = row.try_get("similarity")?;
    Ok(Neighbor { place: row.amount("place")?, passage: row.small("passage")?, similarity })
}

/// The segments as two columns.
pub(super) fn columns(segments: &[Segment]) -> (Vec<&str>, Vec<i64>) {
    segments.iter().map(|segment| (segment.thread.as_str(), super::value::bound(segment.until))).unzip()
}

/// A passage that was found.
pub(super) fn candidate(row: &Row) -> Result<Candidate, Fault> {
    Ok(Candidate {
        thread: row.parsed("thread")?,
        place: row.amount("place")?,
        passage: row.small("passage")?,
        first_line: row.small("first_line")?,
        last_line: row.small("last_line")?,
        score: row.try_get("fit")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_vector_has_each_term_once_with_its_positions() {
        assert_eq!(vector(&terms(&["b", "a", "b"])), "'a':2 'b':1,3");
        assert_eq!(vector(&terms(&["it's", "", "c\\d"])), "'c\\\\d':3 'it''s':1");
        assert_eq!(any_of(&terms(&["a", "", "a", "|"])).as_deref(), Some("'a' | '|'"));
        assert_eq!(any_of(&terms(&[""])), None);
    }

    #[test]
    fn a_vector_stays_within_what_postgres_takes() {
        let many: Vec<String> = (0..200_000).map(|at| format!("term{at}")).collect();
        assert!(vector(&many).len() < 1_048_576);
        let often = vec!["x".to_owned(); 1_000];
        assert_eq!(vector(&often).split(',').count(), POSITIONS_MAX);
    }
}
