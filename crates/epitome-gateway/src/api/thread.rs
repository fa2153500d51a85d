//! Threads: what is kept of each, and how they hang together.

use axum::Json;
use axum::extract::State;
use epitome_runtime::ids::ThreadId;
use epitome_runtime::log::Log;
use epitome_runtime::store::{JobKind, ThreadRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::extract::{ApiCaller, NoParams, PageQuery, PathParams, QueryParams};
use super::{Api, ApiError};

/// Forks are looked for among so many threads at most, so many at once.
const SEARCHED_MAX: usize = 10_000;
const SEARCHED_AT_ONCE: usize = 500;

/// A thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Thread {
    /// Its id.
    id: String,
    /// When it was made.
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// When something was last appended or committed.
    #[schemars(extend("format" = "date-time"))]
    updated: String,
    /// The number of its messages.
    messages: u64,
    /// The turn of its newest message.
    turn: u32,
    /// The tokens of all its messages.
    tokens: u64,
    /// The version of its newest plan; 0 before the first.
    version: u64,
    /// The dialect of its messages.
    dialect: String,
    /// Its labels; for a thread of the gateway, client and model.
    labels: Value,
    /// Two sentences about a thread that was compacted: what it is about, and how things stand; null before.
    summary: Option<String>,
    /// True while a compaction is under way in the background.
    compacting: bool,
}

impl Thread {
    async fn of(row: &ThreadRow, log: &Log) -> Result<Thread, ApiError> {
        let job = log.store().job(&row.key, &JobKind::Compact).await?;
        Ok(Thread {
            id: row.key.thread.to_string(),
            created: row.created.to_string(),
            updated: row.updated.to_string(),
            messages: row.length,
            turn: row.turn,
            tokens: row.tokens,
            version: row.version,
            dialect: row.dialect.clone(),
            labels: log.labels(row)?,
            summary: log.display_summary(row).await,
            compacting: job.is_some_and(|job| job.state.is_pending()),
        })
    }
}

/// Threads, and where the next ones are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Threads {
    /// The threads, in the order of their ids, which is that of their making.
    threads: Vec<Thread>,
    /// The value of `after` for the next page; absent at the end.
    next: Option<String>,
}

/// Messages that another thread holds.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Shared {
    /// The thread that holds them.
    thread: String,
    /// The number of the last one.
    until: u64,
}

/// The relatives of a thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Family {
    /// The threads that its first messages are stored in, oldest first; empty unless it is a fork.
    shared: Vec<Shared>,
    /// Threads that share messages of this one.
    forks: Vec<String>,
    /// True if not all threads were searched for forks.
    forks_truncated: bool,
    /// The thread that a client's own compaction made this one of.
    derived_from: Option<String>,
}

/// A thread with its family.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ThreadDetail {
    /// The thread.
    #[serde(flatten)]
    thread: Thread,
    /// Its relatives.
    family: Family,
}

pub(super) async fn list(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    QueryParams(asked): QueryParams<PageQuery>,
) -> Result<Json<Threads>, ApiError> {
    let wrong = |error: epitome_runtime::ids::NotAName| ApiError::Query(format!("`after`: {error}"));
    let after: Option<ThreadId> = asked.after.as_deref().map(str::parse).transpose().map_err(wrong)?;
    let limit = asked.limit();
    let mut rows = api.log().store().threads(&access.tenant, after.as_ref(), limit + 1).await?;
    let is_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| is_more).map(|row| row.key.thread.to_string());
    let mut threads = Vec::new();
    for row in &rows {
        threads.push(Thread::of(row, api.log()).await?);
    }
    Ok(Json(Threads { threads, next }))
}

pub(super) async fn show(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Json<ThreadDetail>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let thread = Thread::of(&row, api.log()).await?;
    let (forks, forks_truncated) = forks(&api, &row).await?;
    let shared = row.shared.iter();
    let shared = shared.map(|segment| Shared { thread: segment.thread.to_string(), until: segment.until });
    let derived_from = thread.labels.get("derived_from").and_then(Value::as_str).map(str::to_owned);
    let family = Family { shared: shared.collect(), forks, forks_truncated, derived_from };
    Ok(Json(ThreadDetail { thread, family }))
}

/// The threads that share messages of this one, and whether there are more threads than were looked at.
async fn forks(api: &Api, row: &ThreadRow) -> Result<(Vec<String>, bool), ApiError> {
    let (mut forks, mut after) = (Vec::new(), None);
    for _ in 0..SEARCHED_MAX / SEARCHED_AT_ONCE {
        let rows = api.log().store().threads(&row.key.tenant, after.as_ref(), SEARCHED_AT_ONCE).await?;
        let is_fork = |other: &&ThreadRow| other.shared.iter().any(|segment| segment.thread == row.key.thread);
        forks.extend(rows.iter().filter(is_fork).map(|fork| fork.key.thread.to_string()));
        match rows.last() {
            Some(last) if rows.len() == SEARCHED_AT_ONCE => after = Some(last.key.thread.clone()),
            _ => return Ok((forks, false)),
        }
    }
    Ok((forks, true))
}
