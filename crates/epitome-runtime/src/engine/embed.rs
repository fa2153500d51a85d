//! Search over what left a thread's prompts, and the background jobs that make vectors of it.
//!
//! ```text
//! one batch: plan, passages, job "embed" ──► a worker: some passages ──► vectors, the job's end, the next job while there are more
//!     a crash before it: none of it was         a crash in it: the lease runs out, and the passages
//!                                               without a vector are found again
//! ```
//!
//! A job is short, because no other job of its thread runs meanwhile, and a compaction may be waited for.

use std::time::Duration;

use uuid::Uuid;

use super::Engine;
use super::error::Result;
use crate::event::{Event, EventField, EventKind};
use crate::ids::{Moment, ThreadKey};
use crate::log::LogError;
use crate::recall::{
    EmbedError, EmbedLimits, EmbedReport, PromptLines, RecallRequest, RecallResult, SearchByMeaning, embed_passages,
    recall,
};
use crate::store::{JobEnd, JobId, JobKind, JobRow, NewJob, ThreadRow, Write};

/// The limits of one job.
const JOB: EmbedLimits = EmbedLimits { passages_max: 256, time_max: Duration::from_secs(10) };
/// With the usual back-off the last attempt is made after an hour.
const ATTEMPTS_MAX: u32 = 10;

impl Engine {
    /// Searches everything that left a thread's prompts: by words, and by meaning where there is an embedding model. Lines that
    /// the prompt holds are told by their number alone.
    pub async fn search(
        &self,
        row: &ThreadRow,
        request: &RecallRequest,
        prompt: Option<&PromptLines>,
    ) -> Result<RecallResult> {
        let query = request.query(self.settings().recall_tokens, &self.settings().policy.tools, prompt);
        let query = query.by_meaning(self.inner.embeddings.as_ref());
        let found = recall(&self.inner.log, row, &query, &**self.counter()).await?;
        match found.by_meaning {
            SearchByMeaning::Failed => {
                self.inner.bus.emit(&Event::new(Moment::now(), row.key.clone(), EventKind::EmbeddingFailed));
            }
            SearchByMeaning::Partly => self.queue_embedding(row).await,
            SearchByMeaning::Off | SearchByMeaning::Done => {}
        }
        Ok(found)
    }

    /// Makes vectors of passages of a thread that have none, now and within limits. Nothing without an embedding model.
    pub async fn embed_passages(&self, row: &ThreadRow, limits: EmbedLimits) -> Result<EmbedReport, EmbedError> {
        match &self.inner.embeddings {
            Some(embeddings) => embed_passages(&self.inner.log, row, embeddings, limits).await,
            None => Ok(EmbedReport::default()),
        }
    }

    /// The write that queues a job for a thread's new passages, unless one is pending; `None` without an embedding model.
    pub fn embedding_job(&self, key: &ThreadKey) -> Option<Write> {
        self.inner.embeddings.as_ref()?;
        let now = Moment::now();
        Some(Write::Enqueue(Box::new(NewJob {
            id: JobId::new(),
            key: key.clone(),
            kind: JobKind::Embed,
            attempts_max: ATTEMPTS_MAX,
            due: now,
            queued: now,
            payload: String::new(),
        })))
    }

    /// Queues a job for passages that were found without a vector: of the thread, and of those that it shares messages with.
    async fn queue_embedding(&self, row: &ThreadRow) {
        let shared = row.shared.iter().map(|segment| ThreadKey::new(row.key.tenant.clone(), segment.thread.clone()));
        let writes: Vec<Write> = shared.chain([row.key.clone()]).filter_map(|key| self.embedding_job(&key)).collect();
        match self.inner.log.apply(&writes).await {
            Ok(()) => self.inner.job_changed.notify_waiters(),
            Err(error) => tracing::warn!(%error, "failed to queue passages without a vector"),
        }
    }

    /// Queues a job for passages that were indexed while the last one ended: theirs was not queued, because that one was pending.
    async fn queue_what_came_meanwhile(&self, row: &ThreadRow) -> Result<(), LogError> {
        let (log, Some(embeddings)) = (&self.inner.log, &self.inner.embeddings) else { return Ok(()) };
        let space = log.vector_space(&row.key.tenant, &embeddings.space());
        if !log.store().unembedded(&row.key, &space, 1).await?.is_empty() {
            log.apply(&Vec::from_iter(self.embedding_job(&row.key))).await?;
        }
        Ok(())
    }

    /// Carries out a job; its end and the next job are one batch.
    pub(super) async fn embed_job(&self, job: &JobRow, token: Uuid) -> Result<(), EmbedError> {
        let log = &self.inner.log;
        let row = log.thread(&job.key).await?.ok_or_else(|| LogError::NoThread(job.key.thread.clone()))?;
        let report = match self.embed_passages(&row, JOB).await {
            Ok(report) => report,
            Err(error) => {
                self.inner.bus.emit(&Event::new(Moment::now(), job.key.clone(), EventKind::EmbeddingFailed));
                return Err(error);
            }
        };
        if report.refused > 0 {
            tracing::warn!(thread = %job.key, passages = report.refused, "the embedding model does not take some passages");
        }
        let mut writes = vec![Write::FinishJob { job: job.id, token, end: JobEnd::Done }];
        writes.extend(self.embedding_job(&job.key).filter(|_| report.is_more));
        log.apply(&writes).await.map_err(LogError::from)?;
        self.queue_what_came_meanwhile(&row).await?;
        if report.embedded > 0 {
            let event = Event::new(Moment::now(), job.key.clone(), EventKind::PassagesEmbedded);
            self.inner.bus.emit(&event.with(EventField::Passages, report.embedded));
        }
        Ok(())
    }
}
