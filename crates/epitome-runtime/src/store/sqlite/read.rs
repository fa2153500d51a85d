//! Reads as statements.

use std::collections::BTreeSet;
use std::ops::Range;

use epitome::thread::MessageId;
use rusqlite::{Connection, Error, OptionalExtension, Row, params};

use super::apply::number;
use super::failure::Fault;
use super::slot;
use super::value::{amount, id, json, limit, moment, parsed, unreadable};
use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};
use crate::store::encode::id_bytes;
use crate::store::{
    ArtifactRow, DocumentKey, DocumentRow, EventRow, Found, MessageRow, PlanRow, Sensitivity, StoredKind, ThreadRow,
};

/// A thread.
pub(super) fn thread(conn: &Connection, key: &ThreadKey) -> Result<Option<ThreadRow>, Fault> {
    let mut select = conn.prepare_cached("SELECT * FROM threads WHERE tenant = ? AND thread = ?")?;
    Ok(select.query_row(params![key.tenant.as_str(), key.thread.as_str()], thread_row).optional()?)
}

/// A tenant's threads after one of them.
pub(super) fn threads(
    conn: &Connection,
    tenant: &TenantId,
    after: Option<&ThreadId>,
    most: usize,
) -> Result<Vec<ThreadRow>, Fault> {
    let mut select =
        conn.prepare_cached("SELECT * FROM threads WHERE tenant = ? AND thread > ? ORDER BY thread LIMIT ?")?;
    let after = after.map_or("", ThreadId::as_str);
    Ok(select.query_map(params![tenant.as_str(), after, limit(most)], thread_row)?.collect::<Result<_, _>>()?)
}

fn thread_row(row: &Row<'_>) -> Result<ThreadRow, Error> {
    Ok(ThreadRow {
        key: thread_key(row)?,
        created: moment(row, "created")?,
        updated: moment(row, "updated")?,
        length: amount(row, "length")?,
        tip: id(row, "tip")?,
        turn: row.get("turn")?,
        tokens: amount(row, "tokens")?,
        version: amount(row, "version")?,
        dialect: row.get("dialect")?,
        counter: row.get("counter")?,
        shared: json(row, "shared")?,
        scope: row.get("scope")?,
        labels: row.get("labels")?,
    })
}

/// The thread that a row names.
pub(super) fn thread_key(row: &Row<'_>) -> Result<ThreadKey, Error> {
    Ok(ThreadKey::new(parsed(row, "tenant")?, parsed(row, "thread")?))
}

/// A thread's own messages.
pub(super) fn messages(conn: &Connection, key: &ThreadKey, places: Range<u64>) -> Result<Vec<MessageRow>, Fault> {
    let mut select = conn.prepare_cached(
        "SELECT m.* FROM threads t CROSS JOIN messages m ON m.slot >= (t.no << 32) + ?3 AND m.slot < (t.no << 32) + ?4 \
         WHERE t.tenant = ?1 AND t.thread = ?2 ORDER BY m.slot",
    )?;
    let (first, end) = (slot::bound(places.start), slot::bound(places.end));
    let rows = select.query_map(params![key.tenant.as_str(), key.thread.as_str(), first, end], message_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A thread's own messages at single places.
pub(super) fn messages_at(conn: &Connection, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>, Fault> {
    let Some(thread) = number(conn, key)? else { return Ok(Vec::new()) };
    let mut select = conn.prepare_cached("SELECT * FROM messages WHERE slot = ?")?;
    let places: BTreeSet<u64> = places.iter().copied().collect();
    let mut found = Vec::with_capacity(places.len());
    for place in places {
        // A place that no thread can have holds nothing.
        let Ok(slot) = slot::of(thread, place) else { break };
        found.extend(select.query_row([slot], message_row).optional()?);
    }
    Ok(found)
}

/// The first of these messages that a thread of a scope holds.
pub(super) fn find(
    conn: &Connection,
    tenant: &TenantId,
    scope: &str,
    ids: &[MessageId],
) -> Result<Option<Found>, Fault> {
    let mut select = conn.prepare_cached(
        "SELECT t.thread, m.slot FROM messages m CROSS JOIN threads t ON t.no = m.slot >> 32 \
         WHERE m.id = ?1 AND t.tenant = ?2 AND t.scope = ?3 \
         ORDER BY t.updated DESC, t.no DESC LIMIT 1",
    )?;
    for id in ids {
        let found = select.query_row(params![id_bytes(id), tenant.as_str(), scope], |row| {
            Ok(Found { thread: parsed(row, "thread")?, place: slot::place(row.get("slot")?) })
        });
        if let Some(found) = found.optional()? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn message_row(row: &Row<'_>) -> Result<MessageRow, Error> {
    Ok(MessageRow {
        place: slot::place(row.get("slot")?),
        id: id(row, "id")?,
        turn: row.get("turn")?,
        part_tokens: json(row, "parts")?,
        at: moment(row, "at")?,
        body: row.get("body")?,
    })
}

/// A thread's plan of a version, or the newest.
pub(super) fn plan(conn: &Connection, key: &ThreadKey, version: Option<u64>) -> Result<Option<PlanRow>, Fault> {
    let version = version.map(|version| slot::of(0, version)).transpose();
    let Ok(version) = version else { return Ok(None) };
    let mut select = conn.prepare_cached(
        "SELECT p.* FROM threads t CROSS JOIN plans p ON p.slot = (t.no << 32) + coalesce(?3, t.version) \
         WHERE t.tenant = ?1 AND t.thread = ?2",
    )?;
    let plan = select.query_row(params![key.tenant.as_str(), key.thread.as_str(), version], |row| {
        Ok(PlanRow {
            version: slot::place(row.get("slot")?),
            at: moment(row, "at")?,
            covers: amount(row, "covers")?,
            live_from: amount(row, "live_from")?,
            policy: row.get("policy")?,
            before: amount(row, "before")?,
            after: amount(row, "after")?,
            compacted: json(row, "compacted")?,
            body: row.get("body")?,
        })
    });
    Ok(plan.optional()?)
}

/// A thread's events after one of them.
pub(super) fn events(conn: &Connection, key: &ThreadKey, after: u64, most: usize) -> Result<Vec<EventRow>, Fault> {
    let mut select = conn.prepare_cached(
        "SELECT e.* FROM threads t CROSS JOIN events e ON e.slot > (t.no << 32) + ?3 AND e.slot < (t.no + 1) << 32 \
         WHERE t.tenant = ?1 AND t.thread = ?2 ORDER BY e.slot LIMIT ?4",
    )?;
    let values = params![key.tenant.as_str(), key.thread.as_str(), slot::bound(after), limit(most)];
    let rows = select.query_map(values, |row| {
        Ok(EventRow {
            number: slot::place(row.get("slot")?),
            at: moment(row, "at")?,
            kind: row.get("kind")?,
            body: row.get("body")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A document.
pub(super) fn document(conn: &Connection, key: &DocumentKey) -> Result<Option<DocumentRow>, Fault> {
    let mut select = conn.prepare_cached("SELECT * FROM documents WHERE tenant = ? AND kind = ? AND name = ?")?;
    Ok(select.query_row(params![key.tenant.as_str(), key.kind.name(), key.name], document_row).optional()?)
}

/// A tenant's documents of all kinds after one of them.
pub(super) fn all_documents(
    conn: &Connection,
    tenant: &TenantId,
    after: Option<&DocumentKey>,
    most: usize,
) -> Result<Vec<(DocumentKey, DocumentRow)>, Fault> {
    // One condition for both would keep the index from being used.
    let mut select = conn.prepare_cached(match after {
        None => "SELECT * FROM documents WHERE tenant = ?1 AND ?2 IS ?3 ORDER BY kind, name LIMIT ?4",
        Some(_) => "SELECT * FROM documents WHERE tenant = ?1 AND (kind, name) > (?2, ?3) ORDER BY kind, name LIMIT ?4",
    })?;
    let (kind, name) = (after.map(|key| key.kind.name()), after.map(|key| &key.name));
    let rows = select.query_map(params![tenant.as_str(), kind, name, limit(most)], |row| {
        let kind: String = row.get("kind")?;
        let key = DocumentKey { tenant: tenant.clone(), kind: StoredKind::read(&kind), name: row.get("name")? };
        Ok((key, document_row(row)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn document_row(row: &Row<'_>) -> Result<DocumentRow, Error> {
    Ok(DocumentRow {
        version: amount(row, "version")?,
        at: moment(row, "at")?,
        expires: row.get::<_, Option<i64>>("expires")?.map(Moment),
        body: row.get("body")?,
    })
}

/// An artifact.
pub(super) fn artifact(conn: &Connection, id: &str) -> Result<Option<ArtifactRow>, Fault> {
    let mut select = conn.prepare_cached("SELECT * FROM artifacts WHERE id = ?")?;
    Ok(select.query_row([id], artifact_row).optional()?)
}

/// A tenant's artifacts after one of them.
pub(super) fn artifacts(
    conn: &Connection,
    tenant: &TenantId,
    after: Option<&str>,
    most: usize,
) -> Result<Vec<ArtifactRow>, Fault> {
    let mut select = conn.prepare_cached(
        "SELECT * FROM artifacts WHERE tenant = ?1 AND id >= coalesce(?2, '') AND id IS NOT ?2 ORDER BY id LIMIT ?3",
    )?;
    let rows = select.query_map(params![tenant.as_str(), after, limit(most)], artifact_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn artifact_row(row: &Row<'_>) -> Result<ArtifactRow, Error> {
    let sensitivity: String = row.get("sensitivity")?;
    Ok(ArtifactRow {
        id: row.get("id")?,
        tenant: parsed(row, "tenant")?,
        thread: parsed(row, "thread")?,
        at: moment(row, "at")?,
        expires: row.get::<_, Option<i64>>("expires")?.map(Moment),
        key_id: row.get("key_id")?,
        sensitivity: Sensitivity::from_name(&sensitivity).ok_or_else(|| unreadable("sensitivity"))?,
        bytes: amount(row, "bytes")?,
        tokens: amount(row, "tokens")?,
    })
}

/// The tenants that have anything.
pub(super) fn tenants(conn: &Connection) -> Result<Vec<TenantId>, Fault> {
    let mut select = conn.prepare_cached(
        "SELECT tenant FROM threads UNION SELECT tenant FROM documents UNION SELECT tenant FROM artifacts \
         UNION SELECT tenant FROM jobs ORDER BY tenant",
    )?;
    Ok(select.query_map([], |row| parsed(row, "tenant"))?.collect::<Result<_, _>>()?)
}
