//! Rows as values.

use tokio_postgres::Row;
use uuid::Uuid;

use super::failure::Fault;
use super::value::{amount, id, json, maybe, moment, parsed, small, unreadable};
use crate::ids::ThreadKey;
use crate::store::{
    ArtifactRow, DocumentKey, DocumentRow, EventRow, Found, JobId, JobKind, JobRow, JobState, Lease, MessageRow,
    PlanRow, Sensitivity, StoredKind, ThreadRow,
};

pub(super) fn thread(row: &Row) -> Result<ThreadRow, Fault> {
    Ok(ThreadRow {
        key: thread_key(row)?,
        created: moment(row, "created")?,
        updated: moment(row, "updated")?,
        length: amount(row, "length")?,
        tip: id(row, "tip")?,
        turn: small(row, "turn")?,
        tokens: amount(row, "tokens")?,
        version: amount(row, "version")?,
        dialect: row.try_get("dialect")?,
        counter: row.try_get("counter")?,
        shared: json(row, "shared")?,
        scope: row.try_get("scope")?,
        labels: row.try_get("labels")?,
    })
}

fn thread_key(row: &Row) -> Result<ThreadKey, Fault> {
    Ok(ThreadKey::new(parsed(row, "tenant")?, parsed(row, "thread")?))
}

pub(super) fn message(row: &Row) -> Result<MessageRow, Fault> {
    Ok(MessageRow {
        place: amount(row, "place")?,
        id: id(row, "id")?,
        turn: small(row, "turn")?,
        part_tokens: json(row, "parts")?,
        at: moment(row, "at")?,
        body: row.try_get("body")?,
    })
}

pub(super) fn plan(row: &Row) -> Result<PlanRow, Fault> {
    Ok(PlanRow {
        version: amount(row, "version")?,
        at: moment(row, "at")?,
        covers: amount(row, "covers")?,
        live_from: amount(row, "live_from")?,
        policy: row.try_get("policy")?,
        before: amount(row, "before")?,
        after: amount(row, "after")?,
        compacted: json(row, "compacted")?,
        body: row.try_get("body")?,
    })
}

/// A message that was found.
pub(super) fn found(row: &Row) -> Result<Found, Fault> {
    Ok(Found { thread: parsed(row, "thread")?, place: amount(row, "place")? })
}

pub(super) fn event(row: &Row) -> Result<EventRow, Fault> {
    Ok(EventRow {
        number: amount(row, "number")?,
        at: moment(row, "at")?,
        kind: row.try_get("kind")?,
        body: row.try_get("body")?,
    })
}

pub(super) fn document(row: &Row) -> Result<DocumentRow, Fault> {
    Ok(DocumentRow {
        version: amount(row, "version")?,
        at: moment(row, "at")?,
        expires: maybe(row, "expires")?,
        body: row.try_get("body")?,
    })
}

pub(super) fn keyed_document(row: &Row) -> Result<(DocumentKey, DocumentRow), Fault> {
    let (kind, name) = (StoredKind::read(row.try_get("kind")?), row.try_get("name")?);
    Ok((DocumentKey { tenant: parsed(row, "tenant")?, kind, name }, document(row)?))
}

pub(super) fn artifact(row: &Row) -> Result<ArtifactRow, Fault> {
    let sensitivity = usize::try_from(row.try_get::<_, i16>("sensitivity")?).ok();
    let sensitivity = sensitivity.and_then(|rank| Sensitivity::ALL.get(rank));
    Ok(ArtifactRow {
        id: row.try_get("id")?,
        tenant: parsed(row, "tenant")?,
        thread: parsed(row, "thread")?,
        at: moment(row, "at")?,
        expires: maybe(row, "expires")?,
        key_id: row.try_get("key_id")?,
        sensitivity: *sensitivity.ok_or_else(|| unreadable("sensitivity"))?,
        bytes: amount(row, "bytes")?,
        tokens: amount(row, "tokens")?,
    })
}

pub(super) fn job(row: &Row) -> Result<JobRow, Fault> {
    Ok(JobRow {
        id: JobId(uuid(row.try_get("id")?, "id")?),
        key: thread_key(row)?,
        kind: JobKind::from_name(row.try_get("kind")?),
        state: JobState::from_name(row.try_get("state")?).ok_or_else(|| unreadable("state"))?,
        attempts: small(row, "attempts")?,
        attempts_max: small(row, "attempts_max")?,
        due: moment(row, "due")?,
        queued: moment(row, "queued")?,
        lease: lease(row)?,
        payload: row.try_get("payload")?,
        error: row.try_get("error")?,
    })
}

fn lease(row: &Row) -> Result<Option<Lease>, Fault> {
    let Some(token) = row.try_get::<_, Option<&[u8]>>("token")? else { return Ok(None) };
    let token = uuid(token, "token")?;
    Ok(Some(Lease { worker: row.try_get("worker")?, token, until: moment(row, "lease_until")? }))
}

fn uuid(bytes: &[u8], column: &str) -> Result<Uuid, Fault> {
    Uuid::from_slice(bytes).map_err(|_| unreadable(column))
}
