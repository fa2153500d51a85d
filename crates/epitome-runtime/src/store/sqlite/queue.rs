//! Jobs as statements. Who holds a job is proved by its token, in the statement that changes it.

use rusqlite::{Connection, OptionalExtension, named_params, params};
use uuid::Uuid;

use super::apply::changed;
use super::failure::Result;
use crate::ids::Moment;
use crate::store::columns::FromColumns as _;
use crate::store::rule::LAPSED;
use crate::store::{JobEnd, JobId, JobKind, JobRow, Lease, NewJob, StoreError};

/// Queues a job unless one of its kind is pending for its thread.
pub(super) fn enqueue(conn: &Connection, job: &NewJob) -> Result<()> {
    let pending = "SELECT 1 FROM jobs WHERE tenant = ? AND thread = ? AND kind = ? AND state IN ('ready', 'running')";
    let key = params![job.key.tenant.as_str(), job.key.thread.as_str(), job.kind.name()];
    if conn.prepare_cached(pending)?.exists(key)? {
        return Ok(());
    }
    let made = conn
        .prepare_cached(
            "INSERT INTO jobs (id, tenant, thread, kind, state, attempts, attempts_max, due, queued, payload) \
             VALUES (?, ?, ?, ?, 'ready', 0, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            job.id.0.as_bytes(),
            job.key.tenant.as_str(),
            job.key.thread.as_str(),
            job.kind.name(),
            job.attempts_max,
            job.due.0,
            job.queued.0,
            job.payload,
        ])?;
    changed(made, || StoreError::conflict(format!("job {}", job.id.0)))
}

/// Moves the end of a hold.
pub(super) fn extend(conn: &Connection, job: JobId, token: Uuid, until: Moment) -> Result<()> {
    let made = conn
        .prepare_cached("UPDATE jobs SET lease_until = ?3 WHERE id = ?1 AND token = ?2")?
        .execute(params![job.0.as_bytes(), token.as_bytes(), until.0])?;
    changed(made, || lost(job))
}

/// Ends a hold.
pub(super) fn finish(conn: &Connection, job: JobId, token: Uuid, end: &JobEnd) -> Result<()> {
    let held = params![job.0.as_bytes(), token.as_bytes()];
    let made = match end {
        JobEnd::Done => conn
            .prepare_cached(
                "UPDATE jobs SET state = 'done', error = NULL, worker = NULL, token = NULL, lease_until = NULL \
                 WHERE id = ? AND token = ?",
            )?
            .execute(held)?,
        JobEnd::Failed { again, error } => conn
            .prepare_cached(
                "UPDATE jobs SET state = CASE WHEN attempts < attempts_max THEN 'ready' ELSE 'dead' END, due = ?3, \
                 error = ?4, worker = NULL, token = NULL, lease_until = NULL WHERE id = ?1 AND token = ?2",
            )?
            .execute(params![job.0.as_bytes(), token.as_bytes(), again.0, error])?,
    };
    changed(made, || lost(job))
}

fn lost(job: JobId) -> StoreError {
    StoreError::conflict(format!("the lease of job {}", job.0))
}

/// Tells whether a job of a kind is due, so that the writer need not be asked for nothing.
pub(super) fn is_any_due(conn: &Connection, kind: &JobKind, now: Moment) -> Result<bool> {
    let due = "SELECT 1 FROM jobs WHERE kind = ?1 AND state IN ('ready', 'running') \
               AND iif(state = 'ready', due <= ?2, lease_until <= ?2)";
    Ok(conn.prepare_cached(due)?.exists(params![kind.name(), now.0])?)
}

/// Takes the oldest job that is due.
pub(super) fn claim(conn: &mut Connection, kind: &JobKind, lease: &Lease, now: Moment) -> Result<Option<JobRow>> {
    let transaction = conn.transaction()?;
    transaction
        .prepare_cached(
            "UPDATE jobs SET state = 'dead', worker = NULL, token = NULL, lease_until = NULL, error = ?3 \
             WHERE kind = ?1 AND state IN ('ready', 'running') AND attempts >= attempts_max \
             AND iif(state = 'ready', due <= ?2, lease_until <= ?2)",
        )?
        .execute(params![kind.name(), now.0, LAPSED])?;
    let job = transaction
        .prepare_cached(
            "UPDATE jobs SET state = 'running', attempts = attempts + 1, worker = :worker, token = :token, \
             lease_until = :until WHERE id = (SELECT id FROM jobs j WHERE kind = :kind \
             AND state IN ('ready', 'running') AND iif(state = 'ready', due <= :now, lease_until <= :now) \
             AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.tenant = j.tenant AND o.thread = j.thread \
             AND o.state IN ('ready', 'running') AND o.state = 'running' AND o.lease_until > :now) \
             ORDER BY queued, id LIMIT 1) RETURNING *",
        )?
        .query_row(
            named_params! {
                ":worker": lease.worker,
                ":token": lease.token.as_bytes(),
                ":until": lease.until.0,
                ":kind": kind.name(),
                ":now": now.0,
            },
            |row| JobRow::read(row),
        )
        .optional()?;
    transaction.commit()?;
    Ok(job)
}
