//! Workers: carry out queued jobs, a few at a time, each under a lease.
//!
//! ```text
//!            claim (lease 5 min)                commit + FinishJob (expects the lease)
//! ready ─────────────────────────► running ──────────────────────────────────────────► done
//!   ▲                                │ │ the lease is renewed every third of it
//!   │   failed, attempts left:       │ └──(the worker died, the lease ran out)──► another worker claims it
//!   └── due again after 3 s, 6 s ────┘
//!        no attempts left ─────────────► dead
//! ```
//!
//! A lease has a token. A worker that was paused and comes back after another one took the job commits nothing, because
//! the batch that commits its plan expects its own token: two workers may compute the same compaction, one of them lands it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Engine;
use super::compact::{CompactOptions, NotCompacted};
use crate::artifact::Access;
use crate::event::{Event, EventField, EventKind, JobStage};
use crate::ids::Moment;
use crate::log::LogError;
use crate::recall::EmbedError;
use crate::store::{JobEnd, JobKind, JobRow, Lease, StoreError, Write};

const RACES_MAX: usize = 8;

/// The reasons for which an attempt at a job failed. They are stored with the job, which is not sealed, so that none holds a
/// provider's words: those may name a model or quote the request. The thread's events tell more.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("another worker has the job")]
    LeaseLost,
    #[error("others were faster each time")]
    LostRaces,
    #[error("the store did not take it")]
    NotSaved,
    #[error("there is no summary")]
    NoSummary,
    #[error("the planner panicked")]
    PlannerPanicked,
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the embedding endpoint gave no vectors")]
    NoVectors,
}

impl From<EmbedError> for JobError {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::Log(LogError::Store(error)) if error.is_conflict() => JobError::LeaseLost,
            EmbedError::Log(error) => JobError::Log(error),
            EmbedError::Model(error) => {
                tracing::warn!(%error, "no vectors were made; the job is tried again");
                JobError::NoVectors
            }
        }
    }
}

/// The worker loop of this process: claims jobs and runs each in a task, up to the configured number. Dropping it or calling
/// [`Worker::stop`] ends the claiming; jobs under way are finished, and `stop` waits for them.
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
    /// Starts working on queued jobs. Vectors are made beside compactions, one thread's at a time: an endpoint that hangs takes no
    /// compaction's place.
    pub fn work(&self) -> Worker {
        let (stop, stopped) = watch::channel(false);
        let engine = self.clone();
        let task = async move {
            let compactions = engine.work_until(&JobKind::Compact, engine.settings().jobs.concurrency, stopped.clone());
            tokio::join!(compactions, engine.embed_until(stopped));
        };
        Worker { stop, task: tokio::spawn(task) }
    }

    /// Starts making vectors of passages alone, for a program that leaves compactions to others.
    pub fn embed_in_background(&self) -> Worker {
        let (stop, stopped) = watch::channel(false);
        let engine = self.clone();
        Worker { stop, task: tokio::spawn(async move { engine.embed_until(stopped).await }) }
    }

    async fn embed_until(&self, stopped: watch::Receiver<bool>) {
        if self.inner.embeddings.is_some() {
            self.work_until(&JobKind::Embed, 1, stopped).await;
        }
    }

    async fn work_until(&self, kind: &JobKind, concurrency: usize, mut stopped: watch::Receiver<bool>) {
        let jobs = self.settings().jobs;
        let slots = Arc::new(Semaphore::new(concurrency.max(1)));
        let mut running = JoinSet::new();
        let mut told: Option<String> = None;
        // A dropped handle means stop, too.
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
            let claimed = self.claim(kind).await;
            // It looks twice a second: the same failure is logged once.
            let failure = claimed.as_ref().err().map(ToString::to_string);
            if let Some(error) = failure.as_ref().filter(|failure| told.as_ref() != Some(failure)) {
                tracing::warn!(error, "failed to claim a job");
            }
            told = failure;
            let Ok(Some((job, token))) = claimed else {
                drop(slot);
                tokio::select! {
                    () = self.inner.job_changed.notified() => {}
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

    /// Takes one job and carries it out. Returns whether there was one.
    pub async fn work_once(&self) -> bool {
        for kind in [JobKind::Compact, JobKind::Embed] {
            if kind == JobKind::Embed && self.inner.embeddings.is_none() {
                continue;
            }
            match self.claim(&kind).await {
                Ok(Some((job, token))) => {
                    self.carry_out(job, token).await;
                    return true;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "failed to claim a job"),
            }
        }
        false
    }

    async fn claim(&self, kind: &JobKind) -> Result<Option<(JobRow, Uuid)>, StoreError> {
        let now = Moment::now();
        let token = Uuid::now_v7();
        let until = now.after(self.settings().jobs.lease);
        let lease = Lease { worker: format!("process {}", std::process::id()), token, until };
        let job = self.inner.log.store().claim(kind, &lease, now).await?;
        Ok(job.map(|job| (job, token)))
    }

    async fn carry_out(&self, job: JobRow, token: Uuid) {
        let started = Event::new(Moment::now(), job.key.clone(), EventKind::JobStarted);
        self.inner.bus.emit(&started.with(EventField::Attempt, job.attempts));
        let outcome = tokio::select! {
            outcome = self.perform(&job, token) => outcome,
            () = self.renew_lease(&job, token) => Err(JobError::LeaseLost),
        };
        let ended = if outcome.is_ok() { JobStage::Done } else { JobStage::Failed };
        let mut finished = Event::new(Moment::now(), job.key.clone(), EventKind::JobFinished)
            .with(EventField::Attempt, job.attempts)
            .with(EventField::State, ended.name());
        if let Err(error) = outcome {
            self.give_back(&job, token, error.to_string()).await;
            finished = finished.with(EventField::Error, error.to_string());
        }
        self.inner.bus.emit(&finished);
        self.inner.job_changed.notify_waiters();
    }

    async fn perform(&self, job: &JobRow, token: Uuid) -> Result<(), JobError> {
        match job.kind {
            JobKind::Embed => Ok(self.embed_job(job, token).await?),
            _ => self.compact_job(job, token).await,
        }
    }

    /// Renews the lease for as long as it is polled; ends when the lease is lost.
    async fn renew_lease(&self, job: &JobRow, token: Uuid) {
        let lease = self.settings().jobs.lease;
        loop {
            tokio::time::sleep((lease / 3).max(Duration::from_millis(10))).await;
            let until = Moment::now().after(lease);
            let write = Write::ExtendLease { job: job.id, token, until };
            match self.inner.log.apply(&[write]).await {
                Err(error) if error.is_conflict() => return,
                Err(error) => tracing::warn!(%error, "failed to renew a lease"),
                Ok(()) => {}
            }
        }
    }

    async fn give_back(&self, job: &JobRow, token: Uuid, error: String) {
        let jobs = self.settings().jobs;
        let wait = jobs.backoff.saturating_mul(1 << job.attempts.saturating_sub(1).min(16));
        let end = JobEnd::Failed { again: Moment::now().after(wait), error };
        if let Err(error) = self.inner.log.apply(&[Write::FinishJob { job: job.id, token, end }]).await {
            tracing::warn!(%error, "failed to give a job back; its lease will run out");
        }
    }

    async fn compact_job(&self, job: &JobRow, token: Uuid) -> Result<(), JobError> {
        let access = Access::owner(job.key.tenant.clone(), "background");
        for _ in 0..RACES_MAX {
            let (engine, snapshot, described) = self.load_job(job).await?;
            let options = CompactOptions {
                frame: Some(described.frame),
                job: Some((job.id, token)),
                ..CompactOptions::default()
            };
            match engine.compact(&access, snapshot, options).await {
                Ok(compacted) => return compacted.saved.map_err(|_| JobError::NotSaved),
                Err(NotCompacted::NothingToDo { .. }) => {
                    let done = Write::FinishJob { job: job.id, token, end: JobEnd::Done };
                    return Ok(self.inner.log.apply(&[done]).await.map_err(LogError::from)?);
                }
                Err(NotCompacted::Lost) => {}
                Err(NotCompacted::NoSummary(_)) => return Err(JobError::NoSummary),
                Err(NotCompacted::PlannerPanicked) => return Err(JobError::PlannerPanicked),
            }
        }
        Err(JobError::LostRaces)
    }
}
