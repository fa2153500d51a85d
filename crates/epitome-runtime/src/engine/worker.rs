//! Workers: carry out queued compactions, a few at a time, each on a lease that it renews while it works.
//!
//! A worker that dies leaves its lease to run out; another one takes the job then. One that comes back late commits
//! nothing, because the commit asks for the lease.

use std::sync::Arc;
use std::time::Duration;

use epitome::budget::Meter;
use epitome::planner::PlanOptions;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::compact::{How, NotCompacted};
use super::snapshot::Snapshot;
use super::step::{Asked, Errand};
use super::Engine;
use crate::artifact::Access;
use crate::event::{Event, EventKind};
use crate::ids::Moment;
use crate::log::{LogError, wire_dialect};
use crate::store::{DocumentKind, JobEnd, JobKind, JobRow, Lease, StoreError, Write};

/// How often a lost race is run again within one attempt.
const RACES_MAX: usize = 8;

/// A set of workers in this process; they stop when it is dropped or told to.
#[derive(Debug)]
pub struct Worker {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Worker {
    /// Stops taking jobs and waits for those under way.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

impl Engine {
    /// Starts working on queued compactions.
    pub fn work(&self) -> Worker {
        let (stop, stopped) = watch::channel(false);
        let engine = self.clone();
        Worker { stop, task: tokio::spawn(async move { engine.work_until(stopped).await }) }
    }

    async fn work_until(&self, mut stopped: watch::Receiver<bool>) {
        let jobs = self.settings().jobs;
        let slots = Arc::new(Semaphore::new(jobs.concurrency.max(1)));
        let mut running = JoinSet::new();
        let mut told: Option<String> = None;
        // Whoever drops the other end wants no more work done.
        let is_over = |stopped: &watch::Receiver<bool>| *stopped.borrow() || stopped.has_changed().is_err();
        while !is_over(&stopped) {
            while running.try_join_next().is_some() {}
            let slot = tokio::select! {
                slot = Arc::clone(&slots).acquire_owned() => slot,
                _ = stopped.changed() => continue,
            };
            let Ok(slot) = slot else { break };
            if is_over(&stopped) {
                break;
            }
            let claimed = self.claim().await;
            // It looks twice a second: the same failure is told once.
            let failure = claimed.as_ref().err().map(ToString::to_string);
            if let Some(error) = failure.as_ref().filter(|failure| told.as_ref() != Some(failure)) {
                tracing::warn!(error, "no job could be claimed");
            }
            told = failure;
            let Ok(Some((job, token))) = claimed else {
                drop(slot);
                tokio::select! {
                    () = self.inner.bell.notified() => {}
                    () = tokio::time::sleep(jobs.poll) => {}
                    changed = stopped.changed() => if changed.is_err() { break },
                }
                continue;
            };
            let engine = self.clone();
            running.spawn(async move {
                engine.carry_out(job, token).await;
                drop(slot);
            });
        }
        while running.join_next().await.is_some() {}
    }

    /// Takes one job and carries it out. Answers whether there was one.
    pub async fn work_once(&self) -> bool {
        match self.claim().await {
            Ok(Some((job, token))) => {
                self.carry_out(job, token).await;
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%error, "no job could be claimed");
                false
            }
        }
    }

    async fn claim(&self) -> Result<Option<(JobRow, Uuid)>, StoreError> {
        let now = Moment::now();
        let token = Uuid::now_v7();
        let until = now.after(self.settings().jobs.lease);
        let lease = Lease { worker: format!("process {}", std::process::id()), token, until };
        let job = self.inner.log.store().claim(&JobKind::Compact, &lease, now).await?;
        Ok(job.map(|job| (job, token)))
    }

    async fn carry_out(&self, job: JobRow, token: Uuid) {
        let started = Event::new(Moment::now(), job.key.clone(), EventKind::JobStarted);
        self.inner.bus.emit(&started.with("attempt", job.attempts));
        let outcome = tokio::select! {
            outcome = self.compact_job(&job, token) => outcome,
            () = self.beat(&job, token) => Err("another worker has the job".to_owned()),
        };
        let mut finished = Event::new(Moment::now(), job.key.clone(), EventKind::JobFinished);
        finished =
            finished.with("attempt", job.attempts).with("state", if outcome.is_ok() { "done" } else { "failed" });
        if let Err(error) = &outcome {
            self.give_back(&job, token, error.clone()).await;
            finished = finished.with("error", error.clone());
        }
        self.inner.bus.emit(&finished);
        self.inner.bell.notify_waiters();
    }

    /// Renews the lease for as long as it is polled; ends when the lease is lost.
    async fn beat(&self, job: &JobRow, token: Uuid) {
        let lease = self.settings().jobs.lease;
        loop {
            tokio::time::sleep((lease / 3).max(Duration::from_millis(10))).await;
            let until = Moment::now().after(lease);
            let write = Write::ExtendLease { job: job.id, token, until };
            match self.inner.log.apply(&[write]).await {
                Err(error) if error.is_conflict() => return,
                Err(error) => tracing::warn!(%error, "a lease could not be renewed"),
                Ok(()) => {}
            }
        }
    }

    async fn give_back(&self, job: &JobRow, token: Uuid, error: String) {
        let jobs = self.settings().jobs;
        let wait = jobs.backoff.saturating_mul(1 << job.attempts.saturating_sub(1).min(16));
        let end = JobEnd::Failed { again: Moment::now().after(wait), error };
        if let Err(error) = self.inner.log.apply(&[Write::FinishJob { job: job.id, token, end }]).await {
            tracing::warn!(%error, "a job could not be given back; its lease will run out");
        }
    }

    async fn compact_job(&self, job: &JobRow, token: Uuid) -> Result<(), String> {
        let access = Access::owner(job.key.tenant.clone(), "background");
        for _ in 0..RACES_MAX {
            let (engine, snapshot, errand) = self.job_snapshot(job).await.map_err(|error| error.to_string())?;
            let how =
                How { embedded_only: false, frame: Some(errand.frame), job: Some((job.id, token)), unsaved: false };
            match engine.compact(&access, snapshot, how).await {
                Ok(committed) => return committed.saved.map_err(|_| "the store did not take it".to_owned()),
                Err(NotCompacted::NothingToDo { .. }) => return self.done(job, token).await,
                Err(NotCompacted::Lost) => {}
                // A job is not sealed, and what a provider said may name a model or quote the request. The thread's events
                // say why.
                Err(NotCompacted::NoSummary { .. }) => return Err("there is no summary".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("others were faster each time".to_owned())
    }

    async fn done(&self, job: &JobRow, token: Uuid) -> Result<(), String> {
        let write = Write::FinishJob { job: job.id, token, end: JobEnd::Done };
        self.inner.log.apply(&[write]).await.map_err(|error| error.to_string())
    }

    /// The job's thread as it is now, and the engine of whoever asked for it.
    async fn job_snapshot(&self, job: &JobRow) -> Result<(Engine, Snapshot, Errand), LogError> {
        let unreadable = |what: &str| LogError::Unreadable { what: what.to_owned() };
        let log = &self.inner.log;
        let asked: Asked = serde_json::from_str(&job.payload).map_err(|_| unreadable("a job's payload"))?;
        let (tenant, name) = (&job.key.tenant, job.key.thread.as_str());
        let errand: Errand = log.document(tenant, DocumentKind::Errand, name).await?.0.unwrap_or_default();
        let row = log.thread(&job.key).await?.ok_or_else(|| LogError::NoThread { thread: job.key.thread.clone() })?;
        let dialect = wire_dialect(&row).ok_or_else(|| unreadable("the thread's dialect"))?;
        let model = Some(errand.frame.model.as_str()).filter(|model| !model.is_empty());
        let engine = self.under(errand.policy.as_deref(), model);
        let meter = Meter::new(&**engine.counter(), dialect);
        let loaded =
            log.load(&job.key, &meter, engine.counter_label()).await?.ok_or_else(|| unreadable("the thread"))?;
        let options = PlanOptions {
            previous: loaded.compaction,
            pins: errand.pins.clone(),
            instructions: errand.instructions.clone(),
            rehydrated: errand.rehydrated_in == Some(loaded.thread.turn()),
            cache: errand.cache(Moment::now()),
            current: errand.current.clone(),
            artifact_key: Some(log.vault().artifact_key(tenant)),
            ..PlanOptions::default()
        };
        let snapshot = Snapshot {
            key: job.key.clone(),
            thread: loaded.thread,
            hints: loaded.hints,
            length: loaded.row.length,
            version: loaded.row.version,
            policy: engine.policy(),
            counter: engine.counter().clone(),
            dialect,
            room: asked.room,
            options,
        };
        Ok((engine, snapshot, errand))
    }
}
