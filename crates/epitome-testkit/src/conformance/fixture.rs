//! Small values for the cases: a tenant of its own, messages, plans and jobs that differ by a number.

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::thread::MessageId;
use uuid::Uuid;

use super::Reason;
use epitome_runtime::ids::{Moment, TenantId, ThreadId, ThreadKey};
use epitome_runtime::store::{
    ArtifactRow, DocumentKey, DocumentKind, EventRow, IndexRow, JobEnd, JobId, JobKind, JobRow, Lease, MessageRow,
    NewJob, PlanRow, SearchOrder, Segment, Sensitivity, Store, StoreError, ThreadRow, Write,
};

/// Later than every moment that a case vacuums before.
pub(super) const NOON: Moment = Moment(1_000_000);

/// This many milliseconds after [`NOON`].
pub(super) fn noon(later: i64) -> Moment {
    Moment(NOON.0 + later)
}

/// A name that nobody else has, and that begins with this text.
pub(super) fn unique(text: &str) -> String {
    format!("{text}-{}", Uuid::now_v7())
}

/// A kind of job that nobody else has, and that this version does not know.
pub(super) fn unknown_kind() -> JobKind {
    JobKind::from_name(&unique("kind"))
}

/// A tenant that nobody else has.
pub(super) fn tenant() -> Result<TenantId, Reason> {
    unique("tenant").parse().map_err(|error| Reason(format!("{error}")))
}

/// A thread of a tenant.
pub(super) fn key(tenant: &TenantId, thread: &str) -> Result<ThreadKey, Reason> {
    let thread: ThreadId = thread.parse().map_err(|error| Reason(format!("{error}")))?;
    Ok(ThreadKey::new(tenant.clone(), thread))
}

/// A thread without messages, of a tenant of its own, in the store.
pub(super) async fn empty_thread(store: &Arc<dyn Store>) -> Result<ThreadKey, Reason> {
    let key = key(&tenant()?, "thread")?;
    store.apply(&[create(&key)]).await?;
    Ok(key)
}

/// A thread with this many messages, of a tenant of its own, in the store.
pub(super) async fn thread_of(store: &Arc<dyn Store>, length: u64) -> Result<ThreadKey, Reason> {
    let key = empty_thread(store).await?;
    store.apply(&[append(&key, 0, length)]).await?;
    Ok(key)
}

pub(super) fn thread_row(key: &ThreadKey) -> ThreadRow {
    ThreadRow {
        key: key.clone(),
        created: NOON,
        updated: NOON,
        length: 0,
        tip: MessageId::ROOT,
        turn: 0,
        tokens: 0,
        version: 0,
        dialect: "chat".into(),
        counter: "o200k".into(),
        shared: Vec::new(),
        scope: "scope/one".into(),
        labels: b"labels".to_vec(),
    }
}

pub(super) fn create(key: &ThreadKey) -> Write {
    Write::CreateThread(Box::new(thread_row(key)))
}

/// An id that differs by a number.
pub(super) fn id(number: u64) -> MessageId {
    MessageId::parse(&format!("{number:064x}")).unwrap_or(MessageId::ROOT)
}

pub(super) fn message(place: u64) -> MessageRow {
    MessageRow {
        place,
        id: id(place + 1),
        turn: place as u32 / 2,
        part_tokens: vec![Tokens::new(place), Tokens::new(7)],
        at: noon(place as i64),
        body: format!("message {place}").into_bytes(),
    }
}

/// Messages from a place on, each of ten tokens.
pub(super) fn append(key: &ThreadKey, first: u64, count: u64) -> Write {
    let messages = (first..first + count).map(message).collect();
    Write::Append { key: key.clone(), messages, tokens: 10 * count }
}

pub(super) fn plan_row(version: u64) -> PlanRow {
    PlanRow {
        version,
        at: noon(100 + version as i64),
        covers: 9,
        live_from: 4,
        policy: "ladder 1".into(),
        before: 900,
        after: 300,
        compacted: vec![(0, 3), (5, 6)],
        body: format!("plan {version}").into_bytes(),
    }
}

pub(super) fn commit(key: &ThreadKey, version: u64) -> Write {
    Write::CommitPlan { key: key.clone(), plan: Box::new(plan_row(version)) }
}

pub(super) fn event_row(text: &str) -> EventRow {
    EventRow { number: 0, at: NOON, kind: "planned".into(), body: text.as_bytes().to_vec() }
}

pub(super) fn event(key: &ThreadKey, text: &str) -> Write {
    Write::AddEvent { key: key.clone(), event: event_row(text) }
}

pub(super) fn document_key(tenant: &TenantId, name: &str) -> DocumentKey {
    DocumentKey::new(tenant.clone(), DocumentKind::Memory, name)
}

pub(super) fn put(key: &DocumentKey, expected: Option<u64>, body: &str) -> Write {
    Write::PutDocument { key: key.clone(), expected, at: NOON, expires: None, body: body.into() }
}

pub(super) fn artifact_row(key: &ThreadKey, id: &str) -> ArtifactRow {
    ArtifactRow {
        id: id.into(),
        tenant: key.tenant.clone(),
        thread: key.thread.clone(),
        at: NOON,
        expires: Some(noon(500)),
        key_id: Some("key-1".into()),
        sensitivity: Sensitivity::Internal,
        bytes: 4_000,
        tokens: 1_000,
    }
}

/// A passage of a place, of these words.
pub(super) fn passage(place: u64, passage: u32, words: &str) -> IndexRow {
    let terms = words.split(' ').map(str::to_owned).collect();
    IndexRow { place, passage, first_line: passage * 10 + 1, last_line: passage * 10 + 10, terms }
}

pub(super) fn index(key: &ThreadKey, rows: Vec<IndexRow>) -> Write {
    Write::Index { key: key.clone(), rows }
}

pub(super) fn segment(key: &ThreadKey, until: u64) -> Segment {
    Segment { thread: key.thread.clone(), until }
}

/// The places and passages that a search finds, best first.
pub(super) async fn found(
    store: &Arc<dyn Store>,
    tenant: &TenantId,
    segments: &[Segment],
    words: &str,
) -> Result<Vec<(u64, u32)>, StoreError> {
    let terms: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let candidates = store.search(tenant, segments, &terms, SearchOrder::Best, 100).await?;
    Ok(candidates.iter().map(|candidate| (candidate.place, candidate.passage)).collect())
}

pub(super) fn job(key: &ThreadKey, kind: &JobKind, queued: Moment) -> NewJob {
    NewJob {
        id: JobId::new(),
        key: key.clone(),
        kind: kind.clone(),
        attempts_max: 2,
        due: queued,
        queued,
        payload: "{\"goal\":1}".into(),
    }
}

pub(super) fn lease(until: Moment) -> Lease {
    Lease { worker: "worker-1".into(), token: Uuid::now_v7(), until }
}

pub(super) fn finish(job: &JobRow, end: JobEnd) -> Write {
    let token = job.lease.as_ref().map_or(Uuid::nil(), |lease| lease.token);
    Write::FinishJob { job: job.id, token, end }
}
