//! Writes as statements. Each statement says what it expects; no rows changed means that it is not so.

use epitome::thread::MessageId;
use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Result;
use super::{queue, search, slot};
use crate::ids::{Moment, ThreadKey};
use crate::store::columns::FromColumns as _;
use crate::store::encode::{id_bytes, json};
use crate::store::rule::{self, not_at};
use crate::store::{ArtifactRow, DocumentKey, EventRow, MessageRow, PlanRow, StoreError, ThreadRow, Write};

/// Applies writes in their order, within the transaction that is open.
pub(super) fn all(conn: &Connection, writes: &[Write]) -> Result<()> {
    writes.iter().try_for_each(|write| one(conn, write))
}

fn one(conn: &Connection, write: &Write) -> Result<()> {
    match write {
        Write::CreateThread(row) => create(conn, row),
        Write::Append { key, messages, tokens } => append(conn, key, messages, *tokens),
        Write::CommitPlan { key, plan } => commit(conn, key, plan),
        Write::Index { key, rows } => search::index(conn, key, rows),
        Write::PutVectors { key, rows } => search::put_vectors(conn, key, rows),
        Write::Label { key, labels } => label(conn, key, labels),
        Write::NameThread { key, scope, counter } => name_thread(conn, key, scope, counter),
        Write::PutDocument { key, expected, at, expires, body } => {
            put_document(conn, key, *expected, *at, *expires, body)
        }
        Write::DeleteDocument(key) => {
            let sql = "DELETE FROM documents WHERE tenant = ? AND kind = ? AND name = ?";
            conn.prepare_cached(sql)?.execute(params![key.tenant.as_str(), key.kind.name(), key.name])?;
            Ok(())
        }
        Write::PutArtifact(row) => put_artifact(conn, row),
        Write::DeleteArtifact { tenant, id } => {
            let sql = "DELETE FROM artifacts WHERE id = ? AND tenant = ?";
            conn.prepare_cached(sql)?.execute(params![id, tenant.as_str()])?;
            Ok(())
        }
        Write::AddEvent { key, event } => add_event(conn, key, event),
        Write::Enqueue(job) => queue::enqueue(conn, job),
        Write::ExtendLease { job, token, until } => queue::extend(conn, *job, *token, *until),
        Write::FinishJob { job, token, end } => queue::finish(conn, *job, *token, end),
        Write::Reseal { key, place, id, body } => {
            reseal(conn, Sealed::Message, key, *place, body)?;
            name_message(conn, key, *place, *id)
        }
        Write::ResealPlan { key, version, body } => reseal(conn, Sealed::Plan, key, *version, body),
        Write::ResealEvent { key, number, body } => reseal(conn, Sealed::Event, key, *number, body),
        Write::DropIndex(key) => search::drop_index(conn, key),
    }
}

fn create(conn: &Connection, row: &ThreadRow) -> Result<()> {
    let base = row.shared.last().map_or(0, |segment| segment.until);
    let made = conn
        .prepare_cached(
            "INSERT INTO threads (tenant, thread, created, updated, base, length, tip, turn, tokens, version, dialect, \
             counter, shared, scope, labels) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            row.key.tenant.as_str(),
            row.key.thread.as_str(),
            row.created.0,
            row.updated.0,
            base.cast_signed(),
            row.length.cast_signed(),
            id_bytes(&row.tip),
            row.turn,
            row.tokens.cast_signed(),
            row.version.cast_signed(),
            row.dialect,
            row.counter,
            json(&row.shared),
            row.scope,
            row.labels,
        ])?;
    changed(made, || not_at(&row.key, "the absence"))
}

fn append(conn: &Connection, key: &ThreadKey, messages: &[MessageRow], tokens: u64) -> Result<()> {
    let (first, last) = rule::ends(messages)?;
    let thread: Option<i64> = conn
        .prepare_cached(
            "UPDATE threads SET length = ?4, tip = ?5, turn = ?6, updated = ?7, tokens = tokens + ?8 \
             WHERE tenant = ?1 AND thread = ?2 AND length = ?3 RETURNING no",
        )?
        .query_row(
            params![
                key.tenant.as_str(),
                key.thread.as_str(),
                first.place.cast_signed(),
                last.place.cast_signed() + 1,
                id_bytes(&last.id),
                last.turn,
                last.at.0,
                tokens.cast_signed(),
            ],
            |row| row.get(0),
        )
        .optional()?;
    let thread = thread.ok_or_else(|| not_at(key, "the length"))?;
    let mut insert =
        conn.prepare_cached("INSERT INTO messages (slot, id, turn, parts, at, body) VALUES (?, ?, ?, ?, ?, ?)")?;
    for message in messages {
        let (slot, parts) = (slot::of(thread, message.place)?, json(&message.part_tokens));
        insert.execute(params![slot, id_bytes(&message.id), message.turn, parts, message.at.0, message.body])?;
    }
    Ok(())
}

fn commit(conn: &Connection, key: &ThreadKey, plan: &PlanRow) -> Result<()> {
    let version = plan.version.cast_signed();
    let thread: Option<i64> = conn
        .prepare_cached(
            "UPDATE threads SET version = ?3, updated = ?4 \
             WHERE tenant = ?1 AND thread = ?2 AND version = ?3 - 1 RETURNING no",
        )?
        .query_row(params![key.tenant.as_str(), key.thread.as_str(), version, plan.at.0], |row| row.get(0))
        .optional()?;
    let thread = thread.ok_or_else(|| not_at(key, "the newest plan"))?;
    conn.prepare_cached(
        "INSERT INTO plans (slot, at, covers, live_from, policy, before, after, compacted, body) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        slot::of(thread, plan.version)?,
        plan.at.0,
        plan.covers.cast_signed(),
        plan.live_from.cast_signed(),
        plan.policy,
        plan.before.cast_signed(),
        plan.after.cast_signed(),
        json(&plan.compacted),
        plan.body,
    ])?;
    Ok(())
}

fn label(conn: &Connection, key: &ThreadKey, labels: &[u8]) -> Result<()> {
    let made = conn
        .prepare_cached("UPDATE threads SET labels = ?3 WHERE tenant = ?1 AND thread = ?2")?
        .execute(params![key.tenant.as_str(), key.thread.as_str(), labels])?;
    changed(made, || not_at(key, "the existence"))
}

fn name_thread(conn: &Connection, key: &ThreadKey, scope: &str, counter: &str) -> Result<()> {
    let made = conn
        .prepare_cached("UPDATE threads SET scope = ?3, counter = ?4 WHERE tenant = ?1 AND thread = ?2")?
        .execute(params![key.tenant.as_str(), key.thread.as_str(), scope, counter])?;
    changed(made, || not_at(key, "the existence"))
}

fn put_document(
    conn: &Connection,
    key: &DocumentKey,
    expected: Option<u64>,
    at: Moment,
    expires: Option<Moment>,
    body: &[u8],
) -> Result<()> {
    let sql = match expected {
        None => {
            "INSERT INTO documents (tenant, kind, name, at, expires, body, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1) \
             ON CONFLICT DO UPDATE SET version = version + 1, at = ?4, expires = ?5, body = ?6 WHERE ?7 IS NULL"
        }
        Some(0) => {
            "INSERT INTO documents (tenant, kind, name, at, expires, body, version) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7 + 1) ON CONFLICT DO NOTHING"
        }
        Some(_) => {
            "UPDATE documents SET version = version + 1, at = ?4, expires = ?5, body = ?6 \
             WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND version = ?7"
        }
    };
    let expires = expires.map(|moment| moment.0);
    let expected = expected.map(u64::cast_signed);
    let values = params![key.tenant.as_str(), key.kind.name(), key.name, at.0, expires, body, expected];
    let made = conn.prepare_cached(sql)?.execute(values)?;
    changed(made, || StoreError::conflict(format!("the {} document {}", key.kind, key.name)))
}

fn put_artifact(conn: &Connection, row: &ArtifactRow) -> Result<()> {
    let mut select = conn.prepare_cached("SELECT * FROM artifacts WHERE id = ?")?;
    let row = match select.query_row([&row.id], |row| ArtifactRow::read(row)).optional()? {
        Some(old) => rule::merged(old, row.clone())?,
        None => row.clone(),
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO artifacts (id, tenant, thread, at, expires, key_id, sensitivity, bytes, tokens) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        row.id,
        row.tenant.as_str(),
        row.thread.as_str(),
        row.at.0,
        row.expires.map(|moment| moment.0),
        row.key_id,
        row.sensitivity.name(),
        row.bytes.cast_signed(),
        row.tokens.cast_signed(),
    ])?;
    Ok(())
}

fn add_event(conn: &Connection, key: &ThreadKey, event: &EventRow) -> Result<()> {
    let thread = number(conn, key)?.ok_or_else(|| not_at(key, "the existence"))?;
    conn.prepare_cached(
        "INSERT INTO events (slot, at, kind, body) \
         SELECT coalesce(max(slot), ?1) + 1, ?3, ?4, ?5 FROM events WHERE slot BETWEEN ?1 AND ?2",
    )?
    .execute(params![slot::of(thread, 0)?, slot::of(thread + 1, 0)? - 2, event.at.0, event.kind, event.body])?;
    Ok(())
}

pub(super) fn number(conn: &Connection, key: &ThreadKey) -> Result<Option<i64>> {
    let mut select = conn.prepare_cached("SELECT no FROM threads WHERE tenant = ? AND thread = ?")?;
    Ok(select.query_row(params![key.tenant.as_str(), key.thread.as_str()], |row| row.get(0)).optional()?)
}

#[derive(Clone, Copy)]
enum Sealed {
    Message,
    Plan,
    Event,
}

fn reseal(conn: &Connection, what: Sealed, key: &ThreadKey, place: u64, body: &[u8]) -> Result<()> {
    let (sql, name) = match what {
        Sealed::Message => ("UPDATE messages SET body = ? WHERE slot = ?", "message"),
        Sealed::Plan => ("UPDATE plans SET body = ? WHERE slot = ?", "plan"),
        Sealed::Event => ("UPDATE events SET body = ? WHERE slot = ?", "event"),
    };
    let absent = || not_at(key, &format!("{name} {place}"));
    let thread = number(conn, key)?.ok_or_else(absent)?;
    let made = conn.prepare_cached(sql)?.execute(params![body, slot::of(thread, place)?])?;
    changed(made, absent)
}

/// Gives a message another id, and its thread the same tip if it is the newest.
fn name_message(conn: &Connection, key: &ThreadKey, place: u64, id: MessageId) -> Result<()> {
    let absent = || not_at(key, &format!("message {place}"));
    let thread = number(conn, key)?.ok_or_else(absent)?;
    let sql = "UPDATE messages SET id = ? WHERE slot = ?";
    conn.prepare_cached(sql)?.execute(params![id.as_bytes(), slot::of(thread, place)?])?;
    let sql = "UPDATE threads SET tip = ? WHERE tenant = ? AND thread = ? AND length = ?";
    let place = i64::try_from(place).map_err(|_| absent())?;
    conn.prepare_cached(sql)?.execute(params![id.as_bytes(), key.tenant.as_str(), key.thread.as_str(), place + 1])?;
    Ok(())
}

/// Something has to have changed.
pub(super) fn changed(rows: usize, conflict: impl FnOnce() -> StoreError) -> Result<()> {
    if rows == 0 { Err(conflict().into()) } else { Ok(()) }
}
