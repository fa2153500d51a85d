//! The store in a Postgres schema: many processes on one database.
//!
//! A batch of one write is one statement; a longer one is a transaction whose statements are sent together. A connection
//! that breaks is told as [`StoreError::Unavailable`], and the next call gets another. Whether a batch was committed just
//! before its connection broke cannot be known here: read again before writing again.

mod failure;
mod open;
mod search;
mod step;
mod value;

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Object, Pool};
use epitome::thread::MessageId;
use futures_util::future::join_all;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

pub use self::open::PostgresSettings;

use self::failure::Fault;
use self::step::Step;
use self::value::bound;
use super::columns::{Columns as _, FromColumns};
use super::encode::limit as most;
use super::rule::LAPSED;
use super::{
    ArtifactRow, Candidate, DocumentKey, DocumentRow, EventRow, Found, JobKind, JobRow, Lease, MessageRow, Nearest,
    PlanRow, Result, SearchOrder, Segment, Store, StoreError, ThreadRow, VectorRow, Write,
};
use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};

/// The most tries of a batch that Postgres aborts because of another transaction.
const TRIES_MAX: usize = 5;

const PIPELINE_MAX: usize = 24;

/// A store in a Postgres schema.
#[derive(Clone)]
pub struct PostgresStore {
    pool: Pool,
    /// The query that compares vectors in the database, where pgvector was there when the store was opened.
    nearest: Option<Arc<str>>,
}

impl std::fmt::Debug for PostgresStore {
    /// Without the address: there may be a password in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Postgres({:?})", self.pool.status())
    }
}

type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl PostgresStore {
    /// Connects to a database and brings its schema `epitome` up to date.
    pub async fn connect(url: &str) -> Result<Self> {
        PostgresStore::connect_with(url, &PostgresSettings::default()).await
    }

    /// Connects to a database with settings, and brings the schema up to date.
    pub async fn connect_with(url: &str, settings: &PostgresSettings) -> Result<Self> {
        let pool = open::pool(url, settings).await?;
        let mut store = PostgresStore { pool, nearest: None };
        let schema = store.selected(open::VECTOR_SCHEMA, &[]).await?;
        store.nearest = schema.first().map(|row| search::nearest(row.get(0)).into());
        Ok(store)
    }

    /// Tells whether an address can be one, without asking anybody there.
    pub fn check_address(url: &str) -> Result<()> {
        open::config(url, &PostgresSettings::default()).map(drop)
    }

    /// The schema that this program makes of any older one.
    pub const SCHEMA: u64 = open::STEPS.len() as u64;

    /// The schema of a database as it is now; 0 when there is none.
    pub async fn schema_of(url: &str) -> Result<u64> {
        Ok(open::schema(url, &PostgresSettings::default()).await?)
    }

    async fn rows<T: FromColumns>(&self, sql: &str, values: Values<'_>) -> Result<Vec<T>> {
        Ok(self.selected(sql, values).await?.iter().map(T::read).collect::<Result<_, _>>()?)
    }

    async fn row<T: FromColumns>(&self, sql: &str, values: Values<'_>) -> Result<Option<T>> {
        Ok(self.rows(sql, values).await?.pop())
    }

    async fn selected(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        let client = self.pool.get().await?;
        let rows = async { Ok(client.query(&client.prepare_cached(sql).await?, values).await?) }.await;
        settled(client, rows)
    }

    async fn written(&self, writes: &[Write]) -> Result<(), Fault> {
        let steps = step::all(writes)?;
        let mut client = self.pool.get().await?;
        let outcome = write(&mut client, steps).await;
        settled(client, outcome)
    }

    async fn claimed(&self, kind: &JobKind, lease: &Lease, now: Moment) -> Result<Option<JobRow>, Fault> {
        let mut client = self.pool.get().await?;
        let job = claim(&mut client, kind, lease, now).await;
        settled(client, job)
    }

    async fn vacuumed(&self, before: Moment) -> Result<u64, Fault> {
        let client = self.pool.get().await?;
        let removed = vacuum(&client, before).await;
        settled(client, removed)
    }
}

/// Gives a connection back to the pool, unless it is broken.
fn settled<T>(client: Object, outcome: Result<T, Fault>) -> Result<T, Fault> {
    if let Err(Fault::Told(StoreError::Unavailable(_))) = outcome {
        drop(Object::take(client));
    }
    outcome
}

async fn write(client: &mut Object, steps: Vec<Step<'_>>) -> Result<(), Fault> {
    if steps.len() == 1 {
        return send(&*client, steps).await;
    }
    let transaction = client.transaction().await?;
    send(&transaction, steps).await?;
    Ok(transaction.commit().await?)
}

async fn claim(client: &mut Object, kind: &JobKind, lease: &Lease, now: Moment) -> Result<Option<JobRow>, Fault> {
    let transaction = client.transaction().await?;
    transaction.execute(ONE_CLAIM_AT_A_TIME, &[]).await?;
    transaction.execute(&transaction.prepare_cached(BURY).await?, &[&kind.name(), &now.0, &LAPSED]).await?;
    let token = lease.token.as_bytes().as_slice();
    let statement = transaction.prepare_cached(CLAIM).await?;
    let row = transaction.query_opt(&statement, &[&kind.name(), &now.0, &lease.worker, &token, &lease.until.0]).await?;
    transaction.commit().await?;
    row.as_ref().map(JobRow::read).transpose()
}

async fn vacuum(client: &Object, before: Moment) -> Result<u64, Fault> {
    let documents = client.execute(EXPIRED, &[&before.0]).await?;
    let jobs = client.execute(FINISHED, &[&before.0]).await?;
    client.batch_execute("VACUUM (SKIP_LOCKED) documents, jobs").await?;
    Ok(documents + jobs)
}

/// Sends all steps before the first is answered, and says what became of the first that went wrong.
async fn send(client: &impl GenericClient, steps: Vec<Step<'_>>) -> Result<(), Fault> {
    let mut steps = steps.into_iter();
    loop {
        let sent: Vec<Step<'_>> = steps.by_ref().take(PIPELINE_MAX).collect();
        if sent.is_empty() {
            return Ok(());
        }
        let mut statements = Vec::with_capacity(sent.len());
        for step in &sent {
            statements.push(client.prepare_cached(step.sql).await?);
        }
        let values: Vec<Vec<&(dyn ToSql + Sync)>> = sent.iter().map(Step::borrowed).collect();
        let answers = statements.iter().zip(&values).map(|(statement, values)| client.execute(statement, values));
        let answers = join_all(answers).await;
        drop(values);
        for (step, answer) in sent.into_iter().zip(answers) {
            step.outcome(answer?)?;
        }
    }
}

/// Two claims at once could each take another job of one thread.
const ONE_CLAIM_AT_A_TIME: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('epitome claim ' || current_schema(), 0))";

const IS_ANY_DUE: &str = "SELECT 1 FROM jobs WHERE kind = $1 AND state IN ('ready', 'running') \
     AND CASE state WHEN 'ready' THEN due <= $2 ELSE lease_until <= $2 END LIMIT 1";

const BURY: &str = "UPDATE jobs SET state = 'dead', worker = NULL, token = NULL, lease_until = NULL, error = $3 \
     WHERE id IN (SELECT id FROM jobs WHERE kind = $1 AND state IN ('ready', 'running') AND attempts >= attempts_max \
     AND CASE state WHEN 'ready' THEN due <= $2 ELSE lease_until <= $2 END FOR UPDATE SKIP LOCKED)";

const CLAIM: &str = "UPDATE jobs SET state = 'running', attempts = attempts + 1, worker = $3, token = $4, \
     lease_until = $5 WHERE id = (SELECT id FROM jobs j WHERE kind = $1 AND state IN ('ready', 'running') \
     AND CASE state WHEN 'ready' THEN due <= $2 ELSE lease_until <= $2 END \
     AND attempts < attempts_max AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.tenant = j.tenant \
     AND o.thread = j.thread AND o.state IN ('ready', 'running') AND o.state = 'running' AND o.lease_until > $2) \
     ORDER BY queued, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *";

/// Threads that do not hold all of their messages, plans or events.
const GAPS: &str = "SELECT tenant || '/' || thread AS thread, rows FROM threads t CROSS JOIN LATERAL ( \
     SELECT 'messages' AS rows, t.base AS first, t.length - t.base AS wanted, count(*), min(place), max(place) \
     FROM messages WHERE messages.thread = t.no UNION ALL \
     SELECT 'plans', 1, t.version, count(*), min(plans.version), max(plans.version) FROM plans WHERE plans.thread = t.no UNION ALL \
     SELECT 'events', 1, t.events, count(*), min(number), max(number) FROM events WHERE events.thread = t.no) held \
     WHERE count <> wanted OR (count > 0 AND (min <> first OR max <> first + wanted - 1))";

const REWRITE: &str = "VACUUM (FULL) threads, messages, plans, events, documents, passages, vectors";

const EXPIRED: &str = "DELETE FROM documents WHERE expires < $1";

const FINISHED: &str = "DELETE FROM jobs WHERE state IN ('done', 'dead') AND queued < $1";

#[async_trait]
impl Store for PostgresStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn apply(&self, writes: &[Write]) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        for _ in 1..TRIES_MAX {
            match self.written(writes).await {
                Err(Fault::Raced) => {}
                other => return Ok(other?),
            }
        }
        Ok(self.written(writes).await?)
    }

    async fn thread(&self, key: &ThreadKey) -> Result<Option<ThreadRow>> {
        let sql = "SELECT * FROM threads WHERE tenant = $1 AND thread = $2";
        self.row(sql, &[&key.tenant.as_str(), &key.thread.as_str()]).await
    }

    async fn threads(&self, tenant: &TenantId, after: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
        let sql = "SELECT * FROM threads WHERE tenant = $1 AND thread > $2 ORDER BY thread LIMIT $3";
        let after = after.map_or("", ThreadId::as_str);
        self.rows(sql, &[&tenant.as_str(), &after, &most(limit)]).await
    }

    async fn messages(&self, key: &ThreadKey, places: Range<u64>) -> Result<Vec<MessageRow>> {
        let sql = "SELECT m.* FROM threads t JOIN messages m ON m.thread = t.no AND m.place >= $3 AND m.place < $4 \
                   WHERE t.tenant = $1 AND t.thread = $2 ORDER BY m.place";
        let (first, end) = (bound(places.start), bound(places.end));
        self.rows(sql, &[&key.tenant.as_str(), &key.thread.as_str(), &first, &end]).await
    }

    async fn messages_at(&self, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>> {
        let sql = "SELECT m.* FROM threads t JOIN messages m ON m.thread = t.no AND m.place = ANY($3) \
                   WHERE t.tenant = $1 AND t.thread = $2 ORDER BY m.place";
        let places: Vec<i64> = places.iter().copied().map(bound).collect();
        self.rows(sql, &[&key.tenant.as_str(), &key.thread.as_str(), &places]).await
    }

    async fn find(&self, tenant: &TenantId, scope: &str, ids: &[MessageId]) -> Result<Option<Found>> {
        let sql = "SELECT t.thread, m.place FROM unnest($1::bytea[]) WITH ORDINALITY AS w (id, n) \
                   JOIN messages m ON m.id = w.id JOIN threads t ON t.no = m.thread \
                   WHERE t.tenant = $2 AND t.scope = $3 ORDER BY w.n, t.updated DESC, t.no DESC LIMIT 1";
        let ids: Vec<&[u8]> = ids.iter().map(|id| &id.as_bytes()[..]).collect();
        self.row(sql, &[&ids, &tenant.as_str(), &scope]).await
    }

    async fn plan(&self, key: &ThreadKey, version: Option<u64>) -> Result<Option<PlanRow>> {
        let sql = "SELECT p.* FROM threads t JOIN plans p ON p.thread = t.no AND p.version = coalesce($3, t.version) \
                   WHERE t.tenant = $1 AND t.thread = $2";
        let version = version.map(bound);
        self.row(sql, &[&key.tenant.as_str(), &key.thread.as_str(), &version]).await
    }

    async fn document(&self, key: &DocumentKey) -> Result<Option<DocumentRow>> {
        let sql = "SELECT * FROM documents WHERE tenant = $1 AND kind = $2 AND name = $3";
        self.row(sql, &[&key.tenant.as_str(), &key.kind.name(), &key.name]).await
    }

    async fn all_documents(
        &self,
        tenant: &TenantId,
        after: Option<&DocumentKey>,
        limit: usize,
    ) -> Result<Vec<(DocumentKey, DocumentRow)>> {
        // One condition for both would keep the index from being used.
        let Some(after) = after else {
            let sql = "SELECT * FROM documents WHERE tenant = $1 ORDER BY kind, name LIMIT $2";
            return self.rows(sql, &[&tenant.as_str(), &most(limit)]).await;
        };
        let sql = "SELECT * FROM documents WHERE tenant = $1 AND (kind, name) > ($2, $3) ORDER BY kind, name LIMIT $4";
        let values: Values<'_> = &[&tenant.as_str(), &after.kind.name(), &after.name, &most(limit)];
        self.rows(sql, values).await
    }

    async fn artifact(&self, id: &str) -> Result<Option<ArtifactRow>> {
        self.row("SELECT * FROM artifacts WHERE id = $1", &[&id]).await
    }

    async fn artifacts(&self, tenant: &TenantId, after: Option<&str>, limit: usize) -> Result<Vec<ArtifactRow>> {
        let sql = "SELECT * FROM artifacts WHERE tenant = $1 AND id >= coalesce($2, '') \
                   AND id IS DISTINCT FROM $2 ORDER BY id LIMIT $3";
        self.rows(sql, &[&tenant.as_str(), &after, &most(limit)]).await
    }

    async fn events(&self, key: &ThreadKey, after: u64, limit: usize) -> Result<Vec<EventRow>> {
        let sql = "SELECT e.* FROM threads t JOIN events e ON e.thread = t.no AND e.number > $3 \
                   WHERE t.tenant = $1 AND t.thread = $2 ORDER BY e.number LIMIT $4";
        let values: Values<'_> = &[&key.tenant.as_str(), &key.thread.as_str(), &bound(after), &most(limit)];
        self.rows(sql, values).await
    }

    async fn search(
        &self,
        tenant: &TenantId,
        segments: &[Segment],
        terms: &[String],
        order: SearchOrder,
        limit: usize,
    ) -> Result<Vec<Candidate>> {
        let Some(query) = search::any_of(terms) else { return Ok(Vec::new()) };
        let (threads, ends) = search::columns(segments);
        let values: Values<'_> = &[&tenant.as_str(), &threads, &ends, &query, &most(limit)];
        let rows = self.selected(search::find(order), values).await?;
        Ok(rows.iter().map(search::candidate).collect::<Result<_, _>>()?)
    }

    async fn vectors(&self, key: &ThreadKey, before: (u64, u32), limit: usize) -> Result<Vec<VectorRow>> {
        let (place, passage) = (bound(before.0), i64::from(before.1));
        let values: Values<'_> = &[&key.tenant.as_str(), &key.thread.as_str(), &place, &passage, &most(limit)];
        let rows = self.selected(search::VECTORS, values).await?;
        Ok(rows.iter().map(search::vector_row).collect::<Result<_, _>>()?)
    }

    async fn unembedded(&self, key: &ThreadKey, space: &str, limit: usize) -> Result<Vec<(u64, u32)>> {
        let values: Values<'_> = &[&key.tenant.as_str(), &key.thread.as_str(), &space, &most(limit)];
        let rows = self.selected(search::UNEMBEDDED, values).await?;
        let passage = |row: &Row| Ok((row.amount("place")?, row.small("passage")?));
        Ok(rows.iter().map(passage).collect::<Result<_, Fault>>()?)
    }

    async fn nearest(
        &self,
        tenant: &TenantId,
        segments: &[Segment],
        space: &str,
        vector: &[f32],
        limit: usize,
    ) -> Result<Option<Nearest>> {
        let Some(nearest) = &self.nearest else { return Ok(None) };
        let (threads, ends) = search::columns(segments);
        let sealed = self.selected(search::ANY_SEALED, &[&tenant.as_str(), &threads, &ends, &space]).await?;
        if !sealed.is_empty() {
            return Ok(None);
        }
        let (text, size) = (search::vector_text(vector), i32::try_from(vector.len()).unwrap_or(i32::MAX));
        let values: Values<'_> = &[&tenant.as_str(), &threads, &ends, &space, &text, &most(limit), &size];
        let rows = self.selected(nearest, values).await?;
        let typical = rows.first().map_or(Ok(0.0), |row| row.try_get("typical")).map_err(Fault::from)?;
        let neighbors = rows.iter().map(search::neighbor).collect::<Result<_, _>>()?;
        Ok(Some(Nearest { neighbors, typical }))
    }

    async fn claim(&self, kind: &JobKind, lease: &Lease, now: Moment) -> Result<Option<JobRow>> {
        if self.selected(IS_ANY_DUE, &[&kind.name(), &now.0]).await?.is_empty() {
            return Ok(None);
        }
        Ok(self.claimed(kind, lease, now).await?)
    }

    async fn job(&self, key: &ThreadKey, kind: &JobKind) -> Result<Option<JobRow>> {
        let sql = "SELECT * FROM jobs WHERE tenant = $1 AND thread = $2 AND kind = $3 \
                   ORDER BY queued DESC, id DESC LIMIT 1";
        self.row(sql, &[&key.tenant.as_str(), &key.thread.as_str(), &kind.name()]).await
    }

    async fn tenants(&self) -> Result<Vec<TenantId>> {
        self.rows(super::encode::TENANTS, &[]).await
    }

    async fn check(&self) -> Result<Vec<String>> {
        let told = |row: &Row| {
            let (thread, rows): (&str, &str) = (row.try_get("thread")?, row.try_get("rows")?);
            Ok(format!("Thread {thread} does not hold all of its {rows}."))
        };
        Ok(self.selected(GAPS, &[]).await?.iter().map(told).collect::<Result<_, Fault>>()?)
    }

    async fn vacuum(&self, before: Moment) -> Result<u64> {
        Ok(self.vacuumed(before).await?)
    }

    /// Rewrites the tables; each is locked meanwhile. What the server keeps in its log for a while is its own affair.
    async fn scrub(&self) -> Result<()> {
        let scrubbed = async {
            let client = self.pool.get().await?;
            client.batch_execute("SET statement_timeout = 0").await?;
            let done = client.batch_execute(REWRITE).await;
            client.batch_execute("RESET statement_timeout").await?;
            Ok::<(), Fault>(done?)
        };
        Ok(scrubbed.await?)
    }
}
