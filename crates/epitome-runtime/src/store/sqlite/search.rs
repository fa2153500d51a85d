//! The full-text index. A thread's passages up to a place are one range of rowids, which the index can keep to by
//! itself: what other threads hold is never ranked.

use std::collections::BTreeSet;

use rusqlite::{Connection, Error, OptionalExtension, Row, params};

use super::apply::number;
use super::failure::Result;
use super::slot;
use crate::ids::{TenantId, ThreadId, ThreadKey};
use crate::store::columns::Columns as _;
use crate::store::encode::{limit, number_bytes, numbers_from};
use crate::store::rule::not_at;
use crate::store::{Candidate, IndexRow, SearchOrder, Segment, StoredVector, VectorRow};

/// Adds the passages that are not there.
pub(super) fn index(conn: &Connection, key: &ThreadKey, rows: &[IndexRow]) -> Result<()> {
    let lane = made_lane(conn, key)?;
    let mut place = conn
        .prepare_cached("INSERT INTO passages (slot, first_line, last_line) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")?;
    let mut fill = conn.prepare_cached("INSERT INTO search (rowid, terms) VALUES (?, ?)")?;
    for row in rows {
        let slot = slot::passage(lane, row.place, row.passage)?;
        if place.execute(params![slot, row.first_line, row.last_line])? == 1 {
            fill.execute(params![slot, row.terms.join(" ")])?;
        }
    }
    Ok(())
}

/// Puts vectors of passages, in the place of those that are there.
pub(super) fn put_vectors(conn: &Connection, key: &ThreadKey, rows: &[VectorRow]) -> Result<()> {
    let lane = made_lane(conn, key)?;
    let mut put =
        conn.prepare_cached("INSERT OR REPLACE INTO vectors (slot, space, sealed, body) VALUES (?, ?, ?, ?)")?;
    for row in rows {
        let slot = slot::passage(lane, row.place, row.passage)?;
        match &row.vector {
            StoredVector::Plain(numbers) => put.execute(params![slot, row.space, false, number_bytes(numbers)])?,
            StoredVector::Sealed(body) => put.execute(params![slot, row.space, true, body])?,
        };
    }
    Ok(())
}

/// The thread's vectors before a passage, the newest first.
pub(super) fn vectors(conn: &Connection, key: &ThreadKey, before: (u64, u32), most: usize) -> Result<Vec<VectorRow>> {
    let Some(lane) = lane(conn, key)? else { return Ok(Vec::new()) };
    let (first, last) = slot::passages_before(lane, before);
    let sql = "SELECT * FROM vectors WHERE slot BETWEEN ? AND ? ORDER BY slot DESC LIMIT ?";
    let mut select = conn.prepare_cached(sql)?;
    let rows = select.query_map(params![first, last, limit(most)], vector)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn vector(row: &Row<'_>) -> Result<VectorRow, Error> {
    let (place, passage) = slot::of_passage(row.get("slot")?);
    let body: Vec<u8> = row.get("body")?;
    let vector = match row.get("sealed")? {
        true => StoredVector::Sealed(body),
        false => StoredVector::Plain(numbers_from(&body).ok_or_else(|| Row::unreadable("body"))?),
    };
    Ok(VectorRow { place, passage, space: row.get("space")?, vector })
}

/// The thread's passages that have no vector of a space, the newest first.
pub(super) fn unembedded(conn: &Connection, key: &ThreadKey, space: &str, most: usize) -> Result<Vec<(u64, u32)>> {
    let Some(lane) = lane(conn, key)? else { return Ok(Vec::new()) };
    let (first, last) = slot::passages(lane, u64::MAX);
    let mut select = conn.prepare_cached(
        "SELECT p.slot FROM passages p LEFT JOIN vectors v ON v.slot = p.slot AND v.space = ? \
         WHERE p.slot BETWEEN ? AND ? AND v.slot IS NULL ORDER BY p.slot DESC LIMIT ?",
    )?;
    let slots = select.query_map(params![space, first, last, limit(most)], |row| row.get(0).map(slot::of_passage))?;
    Ok(slots.collect::<Result<_, _>>()?)
}

/// Forgets a thread's passages.
pub(super) fn drop_index(conn: &Connection, key: &ThreadKey) -> Result<()> {
    let Some(lane) = lane(conn, key)? else { return Ok(()) };
    let (first, last) = slot::passages(lane, u64::MAX);
    conn.prepare_cached("DELETE FROM search WHERE rowid BETWEEN ? AND ?")?.execute([first, last])?;
    conn.prepare_cached("DELETE FROM passages WHERE slot BETWEEN ? AND ?")?.execute([first, last])?;
    Ok(())
}

fn lane(conn: &Connection, key: &ThreadKey) -> Result<Option<i64>> {
    let mut select = conn.prepare_cached(
        "SELECT lane FROM threads JOIN lanes ON lanes.thread = threads.no WHERE tenant = ? AND threads.thread = ?",
    )?;
    Ok(select.query_row(params![key.tenant.as_str(), key.thread.as_str()], |row| row.get(0)).optional()?)
}

fn made_lane(conn: &Connection, key: &ThreadKey) -> Result<i64> {
    if let Some(lane) = lane(conn, key)? {
        return Ok(lane);
    }
    let thread = number(conn, key)?.ok_or_else(|| not_at(key, "the existence"))?;
    conn.prepare_cached("INSERT INTO lanes (thread) VALUES (?)")?.execute([thread])?;
    Ok(conn.last_insert_rowid())
}

/// Finds passages that hold any of the terms, in an order.
pub(super) fn search(
    conn: &Connection,
    tenant: &TenantId,
    segments: &[Segment],
    terms: &[String],
    order: SearchOrder,
    most: usize,
) -> Result<Vec<Candidate>> {
    let Some(query) = any_of(terms) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for segment in segments {
        let key = ThreadKey::new(tenant.clone(), segment.thread.clone());
        let Some(lane) = lane(conn, &key)? else { continue };
        found.extend(found_in(conn, segment, slot::passages(lane, segment.until), &query, order, most)?);
    }
    found.sort_by(|one, other| match order {
        SearchOrder::Best => other.score.total_cmp(&one.score),
        SearchOrder::Newest => (other.place, other.passage).cmp(&(one.place, one.passage)),
    });
    found.truncate(most);
    Ok(found)
}

fn found_in(
    conn: &Connection,
    segment: &Segment,
    (first, last): (i64, i64),
    query: &str,
    order: SearchOrder,
    most: usize,
) -> Result<Vec<Candidate>> {
    // Ordered before joined: the lines of those alone that are answered. The newest are found without scoring any.
    let mut select = conn.prepare_cached(match order {
        SearchOrder::Best => {
            "SELECT slot, fit, first_line, last_line FROM (SELECT rowid AS place, bm25(search) AS fit FROM search \
             WHERE search MATCH ? AND rowid BETWEEN ? AND ? ORDER BY fit LIMIT ?) CROSS JOIN passages ON slot = place"
        }
        SearchOrder::Newest => {
            "SELECT slot, fit, first_line, last_line FROM (SELECT rowid AS place, 0.0 AS fit FROM search \
             WHERE search MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?) \
             CROSS JOIN passages ON slot = place"
        }
    })?;
    let hits = select.query_map(params![query, first, last, limit(most)], |row| candidate(row, &segment.thread))?;
    Ok(hits.collect::<Result<_, _>>()?)
}

fn candidate(row: &Row<'_>, thread: &ThreadId) -> Result<Candidate, Error> {
    let (place, passage) = slot::of_passage(row.get("slot")?);
    let (first_line, last_line) = (row.get("first_line")?, row.get("last_line")?);
    let rank: f64 = row.get("fit")?;
    Ok(Candidate { thread: thread.clone(), place, passage, first_line, last_line, score: -rank })
}

/// The terms as a query: each quoted, so that none is an operator.
fn any_of(terms: &[String]) -> Option<String> {
    let words: BTreeSet<&str> = terms.iter().map(String::as_str).filter(|term| !term.is_empty()).collect();
    let quoted: Vec<String> = words.iter().map(|term| format!("\"{}\"", term.replace('"', "\"\""))).collect();
    if quoted.is_empty() { None } else { Some(quoted.join(" OR ")) }
}
