//! Background compactions as jobs: queued by an open thread, described in a sealed document, loaded by a worker.

use std::collections::BTreeMap;

use epitome::budget::{Meter, Tokens};
use epitome::plan::Room;
use epitome::planner::{CacheState, PlanOptions};
use epitome::thread::Determinism;
use serde::{Deserialize, Serialize};

use super::Engine;
use super::snapshot::Snapshot;
use super::step::StepRequest;
use super::thread::OpenThread;
use crate::event::{Event, EventKind};
use crate::ids::Moment;
use crate::log::{LogError, NewDocument, wire_dialect};
use crate::store::{DocumentKind, JobId, JobKind, JobRow, NewJob, Write};
use crate::summarize::RequestFrame;

/// A job that came to nothing is queued again once the prompt has grown by this share of its target.
const GROWTH: f64 = 0.05;

/// The numbers that a job was queued for. They are the job's payload, which is not sealed and holds no content.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct CompactionTrigger {
    room: Room,
    tokens: Tokens,
    version: u64,
}

impl CompactionTrigger {
    /// Tells whether something has changed since an earlier job that came to nothing.
    fn is_news_since(&self, payload: &str) -> bool {
        let Ok(earlier) = serde_json::from_str::<CompactionTrigger>(payload) else { return true };
        let grown = self.tokens - earlier.tokens;
        self.version != earlier.version || self.room != earlier.room || grown >= self.room.target.share(GROWTH)
    }
}

/// Everything but the thread that a background compaction needs to know. It is a document of the thread and sealed, because
/// the frame holds the agent's own system prompt.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CompactionJob {
    pub frame: RequestFrame,
    /// The caller's policy; the worker may run under another one.
    policy: Option<Box<epitome::policy::Policy>>,
    pins: Vec<String>,
    instructions: Option<String>,
    current: BTreeMap<String, Determinism>,
    /// The turn in which content came back.
    rehydrated_in: Option<u32>,
    /// When the model was last asked.
    called: Option<Moment>,
}

impl CompactionJob {
    /// Returns the age of the provider's cache by now.
    fn cache(&self, now: Moment) -> CacheState {
        let age = self.called.map(|then| u64::try_from((now.0 - then.0) / 1000).unwrap_or(0));
        age.map_or(CacheState::Cold, |age_s| CacheState::Warm { age_s })
    }
}

impl OpenThread {
    /// Queues a compaction of the thread, unless one is pending. Returns whether one is now.
    pub(super) async fn queue_compaction(&self, request: &StepRequest, room: Room) -> Result<bool, LogError> {
        let log = &self.engine.inner.log;
        let trigger = CompactionTrigger { room, tokens: self.prompt_tokens(), version: self.state.row.version };
        match log.store().job(&self.key, &JobKind::Compact).await? {
            Some(job) if job.state.is_pending() => return Ok(true),
            Some(job) if !trigger.is_news_since(&job.payload) => return Ok(false),
            _ => {}
        }
        let now = Moment::now();
        let is_rehydrated = self.turn.should_skip_aggressive_compaction();
        let age_ms = |then: std::time::Instant| i64::try_from(then.elapsed().as_secs()).unwrap_or(0) * 1000;
        let job = CompactionJob {
            frame: self.engine.frame(request),
            policy: Some(Box::new(self.engine.settings().policy.clone())),
            pins: request.pins.clone(),
            instructions: request.instructions.clone(),
            current: request.current.clone(),
            rehydrated_in: is_rehydrated.then(|| self.state.thread.turn()),
            called: self.last_call.map(|then| Moment(now.0 - age_ms(then))),
        };
        let name = self.key.thread.as_str();
        let document = NewDocument::new(&self.key.tenant, DocumentKind::CompactionJob, name, &job).at(now);
        let row = NewJob {
            id: JobId::new(),
            key: self.key.clone(),
            kind: JobKind::Compact,
            attempts_max: self.engine.settings().jobs.attempts,
            due: now,
            queued: now,
            payload: serde_json::to_string(&trigger).unwrap_or_default(),
        };
        let event = Event::of_prompt(&self.key, EventKind::JobQueued, trigger.tokens, room.limit);
        log.apply(&[log.put_document(document), Write::Enqueue(Box::new(row)), log.add_event(&event)]).await?;
        self.engine.inner.bus.emit(&event);
        self.engine.inner.job_changed.notify_waiters();
        Ok(true)
    }
}

impl Engine {
    /// Loads the thread of a job as it is now, and returns the engine of the caller who queued it.
    pub(super) async fn load_job(&self, job: &JobRow) -> Result<(Engine, Snapshot, CompactionJob), LogError> {
        let unreadable = |what: &str| LogError::Unreadable(what.to_owned());
        let log = &self.inner.log;
        let trigger: CompactionTrigger =
            serde_json::from_str(&job.payload).map_err(|_| unreadable("a job's payload"))?;
        let (tenant, name) = (&job.key.tenant, job.key.thread.as_str());
        let described = log.document::<CompactionJob>(tenant, DocumentKind::CompactionJob, name).await?;
        let described = described.0.unwrap_or_default();
        let row = log.thread(&job.key).await?.ok_or_else(|| LogError::NoThread(job.key.thread.clone()))?;
        let dialect = wire_dialect(&row).ok_or_else(|| unreadable("the thread's dialect"))?;
        let model = Some(described.frame.model.as_str()).filter(|model| !model.is_empty());
        let engine = self.under(described.policy.as_deref(), model);
        let meter = Meter::new(&**engine.counter(), dialect);
        let loaded =
            log.load(&job.key, &meter, engine.counter_label()).await?.ok_or_else(|| unreadable("the thread"))?;
        let options = PlanOptions {
            pins: described.pins.clone(),
            instructions: described.instructions.clone(),
            rehydrated: described.rehydrated_in == Some(loaded.thread.turn()),
            cache: described.cache(Moment::now()),
            current: described.current.clone(),
            ..PlanOptions::default()
        };
        let tools = described.frame.tools.as_deref();
        let snapshot = Snapshot::new(&engine, &loaded, (dialect, tools), trigger.room, options);
        Ok((engine, snapshot, described))
    }
}
