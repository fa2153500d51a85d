//! Writes as statements with values: data, so that all of a batch can be sent before the first is answered.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::search;
use crate::ids::{Moment, ThreadKey};
use crate::store::encode::{id_bytes, json};
use crate::store::rule::{self, not_at};
use crate::store::{
    ArtifactRow, DocumentKey, EventRow, IndexRow, JobEnd, JobId, MessageRow, NewJob, PlanRow, Result, StoreError,
    StoredVector, ThreadRow, VectorRow, Write,
};

/// A value of a statement.
type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// One statement. Where something has to change, no rows changed means a conflict.
pub(super) struct Step<'a> {
    pub(super) sql: &'static str,
    values: Vec<Value<'a>>,
    conflict: Option<StoreError>,
}

impl Step<'_> {
    /// The values as the driver takes them.
    pub(super) fn borrowed(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }

    /// Judges the step by the number of rows that changed.
    pub(super) fn outcome(self, rows: u64) -> Result<()> {
        if rows == 0 { self.conflict.map_or(Ok(()), Err) } else { Ok(()) }
    }
}

macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as Value<'_>),*] };
}

fn must<'a>(sql: &'static str, values: Vec<Value<'a>>, conflict: StoreError) -> Step<'a> {
    Step { sql, values, conflict: Some(conflict) }
}

fn may<'a>(sql: &'static str, values: Vec<Value<'a>>) -> Step<'a> {
    Step { sql, values, conflict: None }
}

/// The statements of a batch, in order.
pub(super) fn all(writes: &[Write]) -> Result<Vec<Step<'_>>> {
    let mut steps = Vec::with_capacity(writes.len());
    for write in writes {
        if let Write::Index { key, .. } | Write::PutVectors { key, .. } = write {
            steps.push(is_there(key));
        }
        steps.push(one(write)?);
    }
    Ok(steps)
}

fn one(write: &Write) -> Result<Step<'_>> {
    Ok(match write {
        Write::CreateThread(row) => create(row),
        Write::Append { key, messages, tokens } => append(key, messages, *tokens)?,
        Write::CommitPlan { key, plan } => commit(key, plan),
        Write::Index { key, rows } => index(key, rows),
        Write::PutVectors { key, rows } => put_vectors(key, rows),
        Write::Label { key, labels } => label(key, labels),
        Write::NameThread { key, scope, counter } => name_thread(key, scope, counter),
        Write::PutDocument { key, expected, at, expires, body } => put_document(key, *expected, *at, *expires, body),
        Write::DeleteDocument(key) => delete_document(key),
        Write::PutArtifact(row) => put_artifact(row),
        Write::DeleteArtifact { tenant, id } => {
            may("DELETE FROM artifacts WHERE tenant = $1 AND id = $2", values![tenant.as_str(), id.as_str()])
        }
        Write::AddEvent { key, event } => add_event(key, event),
        Write::Enqueue(job) => enqueue(job),
        Write::ExtendLease { job, token, until } => extend(*job, *token, *until),
        Write::FinishJob { job, token, end } => finish(*job, *token, end),
        Write::Reseal { key, place, id, body } => must(
            RESEAL,
            values![
                key.tenant.as_str(),
                key.thread.as_str(),
                place.cast_signed(),
                body.as_slice(),
                id.as_bytes().as_slice()
            ],
            not_at(key, &format!("message {place}")),
        ),
        Write::ResealPlan { key, version, body } => reseal(RESEAL_PLAN, "plan", key, *version, body),
        Write::ResealEvent { key, number, body } => reseal(RESEAL_EVENT, "event", key, *number, body),
        Write::DropIndex(key) => may(
            "DELETE FROM passages p USING threads t WHERE p.thread = t.no AND t.tenant = $1 AND t.thread = $2",
            values![key.tenant.as_str(), key.thread.as_str()],
        ),
    })
}

fn create(row: &ThreadRow) -> Step<'_> {
    let base = row.shared.last().map_or(0, |segment| segment.until);
    must(
        "INSERT INTO threads (tenant, thread, created, updated, base, length, tip, turn, tokens, version, dialect, \
         counter, shared, scope, labels) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) \
         ON CONFLICT DO NOTHING",
        values![
            row.key.tenant.as_str(),
            row.key.thread.as_str(),
            row.created.0,
            row.updated.0,
            base.cast_signed(),
            row.length.cast_signed(),
            id_bytes(&row.tip).to_vec(),
            i64::from(row.turn),
            row.tokens.cast_signed(),
            row.version.cast_signed(),
            row.dialect.as_str(),
            row.counter.as_str(),
            json(&row.shared),
            row.scope.as_str(),
            row.labels.as_slice(),
        ],
        not_at(&row.key, "the absence"),
    )
}

fn append<'a>(key: &'a ThreadKey, messages: &'a [MessageRow], tokens: u64) -> Result<Step<'a>> {
    let (first, last) = rule::ends(messages)?;
    let bodies: Vec<&[u8]> = messages.iter().map(|message| message.body.as_slice()).collect();
    Ok(must(
        "WITH t AS (UPDATE threads SET length = $4, tip = $5, turn = $6, updated = $7, tokens = tokens + $8 \
         WHERE tenant = $1 AND thread = $2 AND length = $3 RETURNING no) \
         INSERT INTO messages (thread, place, id, turn, parts, at, body) SELECT t.no, m.* FROM t, \
         unnest($9::bigint[], $10::bytea[], $11::bigint[], $12::text[], $13::bigint[], $14::bytea[]) m",
        values![
            key.tenant.as_str(),
            key.thread.as_str(),
            first.place.cast_signed(),
            last.place.cast_signed() + 1,
            id_bytes(&last.id).to_vec(),
            i64::from(last.turn),
            last.at.0,
            tokens.cast_signed(),
            column(messages, |message| message.place.cast_signed()),
            column(messages, |message| id_bytes(&message.id).to_vec()),
            column(messages, |message| i64::from(message.turn)),
            column(messages, |message| json(&message.part_tokens)),
            column(messages, |message| message.at.0),
            bodies,
        ],
        not_at(key, "the length"),
    ))
}

fn commit<'a>(key: &'a ThreadKey, plan: &'a PlanRow) -> Step<'a> {
    must(
        "WITH t AS (UPDATE threads SET version = $3::bigint, updated = $4 \
         WHERE tenant = $1 AND thread = $2 AND version = $3::bigint - 1 RETURNING no) \
         INSERT INTO plans (thread, version, at, covers, live_from, policy, before, after, compacted, body) \
         SELECT no, $3, $4, $5, $6, $7, $8, $9, $10, $11 FROM t",
        values![
            key.tenant.as_str(),
            key.thread.as_str(),
            plan.version.cast_signed(),
            plan.at.0,
            plan.covers.cast_signed(),
            plan.live_from.cast_signed(),
            plan.policy.as_str(),
            plan.before.cast_signed(),
            plan.after.cast_signed(),
            json(&plan.compacted),
            plan.body.as_slice(),
        ],
        not_at(key, "the newest plan"),
    )
}

fn is_there(key: &ThreadKey) -> Step<'_> {
    must(
        "SELECT no FROM threads WHERE tenant = $1 AND thread = $2 FOR KEY SHARE",
        values![key.tenant.as_str(), key.thread.as_str()],
        not_at(key, "the existence"),
    )
}

fn index<'a>(key: &'a ThreadKey, rows: &'a [IndexRow]) -> Step<'a> {
    may(
        "INSERT INTO passages (thread, place, passage, first_line, last_line, terms) \
         SELECT t.no, p.place, p.passage, p.first_line, p.last_line, \
         p.terms::tsvector || array_to_tsvector(ARRAY[' ' || t.no]) FROM threads t, \
         unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[]) \
         p (place, passage, first_line, last_line, terms) WHERE t.tenant = $1 AND t.thread = $2 ON CONFLICT DO NOTHING",
        values![
            key.tenant.as_str(),
            key.thread.as_str(),
            column(rows, |row| row.place.cast_signed()),
            column(rows, |row| i64::from(row.passage)),
            column(rows, |row| i64::from(row.first_line)),
            column(rows, |row| i64::from(row.last_line)),
            column(rows, |row| search::vector(&row.terms)),
        ],
    )
}

/// Arrays of arrays have to be of one length, so that vectors are sent as their text.
fn put_vectors<'a>(key: &'a ThreadKey, rows: &'a [VectorRow]) -> Step<'a> {
    let plain = |row: &VectorRow| match &row.vector {
        StoredVector::Plain(numbers) => Some(search::array(numbers)),
        StoredVector::Sealed(_) => None,
    };
    let sealed = |row: &VectorRow| match &row.vector {
        StoredVector::Plain(_) => None,
        StoredVector::Sealed(body) => Some(body.clone()),
    };
    may(
        "INSERT INTO vectors (thread, place, passage, space, plain, sealed) \
         SELECT t.no, v.place, v.passage, v.space, v.plain::real[], v.sealed FROM threads t, \
         unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bytea[]) \
         v (place, passage, space, plain, sealed) WHERE t.tenant = $1 AND t.thread = $2 \
         ON CONFLICT (thread, place, passage) DO UPDATE \
         SET space = excluded.space, plain = excluded.plain, sealed = excluded.sealed",
        values![
            key.tenant.as_str(),
            key.thread.as_str(),
            column(rows, |row| row.place.cast_signed()),
            column(rows, |row| i64::from(row.passage)),
            column(rows, |row| row.space.clone()),
            column(rows, plain),
            column(rows, sealed),
        ],
    )
}

fn label<'a>(key: &'a ThreadKey, labels: &'a [u8]) -> Step<'a> {
    must(
        "UPDATE threads SET labels = $3 WHERE tenant = $1 AND thread = $2",
        values![key.tenant.as_str(), key.thread.as_str(), labels],
        not_at(key, "the existence"),
    )
}

fn name_thread<'a>(key: &'a ThreadKey, scope: &'a str, counter: &'a str) -> Step<'a> {
    must(
        "UPDATE threads SET scope = $3, counter = $4 WHERE tenant = $1 AND thread = $2",
        values![key.tenant.as_str(), key.thread.as_str(), scope, counter],
        not_at(key, "the existence"),
    )
}

fn put_document<'a>(
    key: &'a DocumentKey,
    expected: Option<u64>,
    at: Moment,
    expires: Option<Moment>,
    body: &'a [u8],
) -> Step<'a> {
    let sql = match expected {
        None => {
            "INSERT INTO documents AS d (tenant, kind, name, at, expires, body, version) \
             VALUES ($1, $2, $3, $4, $5, $6, 1) ON CONFLICT (tenant, kind, name) \
             DO UPDATE SET version = d.version + 1, at = $4, expires = $5, body = $6 WHERE $7::bigint IS NULL"
        }
        Some(0) => {
            "INSERT INTO documents (tenant, kind, name, at, expires, body, version) \
             VALUES ($1, $2, $3, $4, $5, $6, $7::bigint + 1) ON CONFLICT DO NOTHING"
        }
        Some(_) => {
            "UPDATE documents SET version = version + 1, at = $4, expires = $5, body = $6 \
             WHERE tenant = $1 AND kind = $2 AND name = $3 AND version = $7"
        }
    };
    let expires = expires.map(|moment| moment.0);
    let expected = expected.map(u64::cast_signed);
    must(
        sql,
        values![key.tenant.as_str(), key.kind.name(), key.name.as_str(), at.0, expires, body, expected],
        StoreError::conflict(format!("the {} document {}", key.kind, key.name)),
    )
}

fn delete_document(key: &DocumentKey) -> Step<'_> {
    may(
        "DELETE FROM documents WHERE tenant = $1 AND kind = $2 AND name = $3",
        values![key.tenant.as_str(), key.kind.name(), key.name.as_str()],
    )
}

fn put_artifact(row: &ArtifactRow) -> Step<'_> {
    must(
        "INSERT INTO artifacts AS a (id, tenant, thread, at, expires, key_id, sensitivity, bytes, tokens) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO UPDATE SET \
         expires = CASE WHEN $5::bigint IS NOT NULL THEN \
         CASE WHEN a.expires IS NOT NULL THEN greatest(a.expires, $5) END END, \
         key_id = $6, sensitivity = greatest(a.sensitivity, $7), bytes = $8, tokens = $9 WHERE a.tenant = $2",
        values![
            row.id.as_str(),
            row.tenant.as_str(),
            row.thread.as_str(),
            row.at.0,
            row.expires.map(|moment| moment.0),
            row.key_id.as_deref(),
            row.sensitivity as i16,
            row.bytes.cast_signed(),
            row.tokens.cast_signed(),
        ],
        StoreError::conflict(format!("artifact {}", row.id)),
    )
}

fn add_event<'a>(key: &'a ThreadKey, event: &'a EventRow) -> Step<'a> {
    must(
        "WITH t AS (UPDATE threads SET events = events + 1 WHERE tenant = $1 AND thread = $2 RETURNING no, events) \
         INSERT INTO events (thread, number, at, kind, body) SELECT no, events, $3, $4, $5 FROM t",
        values![key.tenant.as_str(), key.thread.as_str(), event.at.0, event.kind.as_str(), event.body.as_slice()],
        not_at(key, "the existence"),
    )
}

fn enqueue(job: &NewJob) -> Step<'_> {
    may(
        "INSERT INTO jobs (id, tenant, thread, kind, state, attempts, attempts_max, due, queued, payload) \
         VALUES ($1, $2, $3, $4, 'ready', 0, $5, $6, $7, $8) \
         ON CONFLICT (tenant, thread, kind) WHERE state IN ('ready', 'running') DO NOTHING",
        values![
            job.id.0.as_bytes().as_slice(),
            job.key.tenant.as_str(),
            job.key.thread.as_str(),
            job.kind.name(),
            i64::from(job.attempts_max),
            job.due.0,
            job.queued.0,
            job.payload.as_str(),
        ],
    )
}

fn extend<'a>(job: JobId, token: Uuid, until: Moment) -> Step<'a> {
    must(
        "UPDATE jobs SET lease_until = $3 WHERE id = $1 AND token = $2",
        values![bytes(job.0), bytes(token), until.0],
        lost(job),
    )
}

fn finish<'a>(job: JobId, token: Uuid, end: &'a JobEnd) -> Step<'a> {
    match end {
        JobEnd::Done => must(
            "UPDATE jobs SET state = 'done', error = NULL, worker = NULL, token = NULL, lease_until = NULL \
             WHERE id = $1 AND token = $2",
            values![bytes(job.0), bytes(token)],
            lost(job),
        ),
        JobEnd::Failed { again, error } => must(
            "UPDATE jobs SET state = CASE WHEN attempts < attempts_max THEN 'ready' ELSE 'dead' END, due = $3, \
             error = $4, worker = NULL, token = NULL, lease_until = NULL WHERE id = $1 AND token = $2",
            values![bytes(job.0), bytes(token), again.0, error.replace('\0', "\u{fffd}")],
            lost(job),
        ),
    }
}

fn lost(job: JobId) -> StoreError {
    StoreError::conflict(format!("the lease of job {}", job.0))
}

const RESEAL: &str = "WITH t AS (UPDATE threads SET tip = CASE WHEN length = $3::bigint + 1 THEN $5::bytea ELSE tip END \
                      WHERE tenant = $1 AND thread = $2 RETURNING no) \
                      UPDATE messages m SET body = $4, id = $5 FROM t WHERE m.thread = t.no AND m.place = $3";
const RESEAL_PLAN: &str = "UPDATE plans p SET body = $4 FROM threads t \
                           WHERE p.thread = t.no AND t.tenant = $1 AND t.thread = $2 AND p.version = $3";
const RESEAL_EVENT: &str = "UPDATE events e SET body = $4 FROM threads t \
                            WHERE e.thread = t.no AND t.tenant = $1 AND t.thread = $2 AND e.number = $3";

fn reseal<'a>(sql: &'static str, name: &str, key: &'a ThreadKey, place: u64, body: &'a [u8]) -> Step<'a> {
    must(
        sql,
        values![key.tenant.as_str(), key.thread.as_str(), place.cast_signed(), body],
        not_at(key, &format!("{name} {place}")),
    )
}

fn column<R, T>(rows: &[R], value: impl Fn(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn bytes(id: Uuid) -> Vec<u8> {
    id.as_bytes().to_vec()
}
