//! Reads that take more than one statement.

use std::collections::BTreeSet;

use epitome::thread::MessageId;
use rusqlite::{Connection, OptionalExtension, params};

use super::apply::number;
use super::failure::Result;
use super::slot;
use crate::ids::{TenantId, ThreadKey};
use crate::store::columns::FromColumns as _;
use crate::store::encode::id_bytes;
use crate::store::{Found, MessageRow};

/// A thread's own messages at single places.
pub(super) fn messages_at(conn: &Connection, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>> {
    let Some(thread) = number(conn, key)? else { return Ok(Vec::new()) };
    let mut select = conn.prepare_cached("SELECT * FROM messages WHERE slot = ?")?;
    let places: BTreeSet<u64> = places.iter().copied().collect();
    let mut found = Vec::with_capacity(places.len());
    for place in places {
        // A place that no thread can have holds nothing.
        let Ok(slot) = slot::of(thread, place) else { break };
        found.extend(select.query_row([slot], |row| MessageRow::read(row)).optional()?);
    }
    Ok(found)
}

/// The first of these messages that a thread of a scope holds.
pub(super) fn find(conn: &Connection, tenant: &TenantId, scope: &str, ids: &[MessageId]) -> Result<Option<Found>> {
    let mut select = conn.prepare_cached(
        "SELECT t.thread, m.slot FROM messages m CROSS JOIN threads t ON t.no = m.slot >> 32 \
         WHERE m.id = ?1 AND t.tenant = ?2 AND t.scope = ?3 \
         ORDER BY t.updated DESC, t.no DESC LIMIT 1",
    )?;
    for id in ids {
        let found = select.query_row(params![id_bytes(id), tenant.as_str(), scope], |row| Found::read(row));
        if let Some(found) = found.optional()? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
