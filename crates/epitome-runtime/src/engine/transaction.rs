//! The commit: a compaction swapped in by compare-and-swap on the version it was made for.

use uuid::Uuid;

use crate::ids::ThreadKey;
use crate::log::Log;
use crate::store::{JobEnd, JobId, PlanRow, StoreError, Write};

/// A compaction on its way into the store.
#[derive(Debug)]
pub struct CompactionTransaction {
    /// The thread.
    pub key: ThreadKey,
    /// The version that the plan was made for.
    pub expected_version: u64,
    /// The plan.
    pub plan: PlanRow,
    /// What goes along: index, artifacts, events, documents.
    pub along: Vec<Write>,
    /// The job that it was made by, and the hold on it: a job that another worker has by now commits nothing.
    pub job: Option<(JobId, Uuid)>,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is in.
    Done,
    /// Somebody else was faster.
    Lost,
}

impl CompactionTransaction {
    /// Commits it whole, or not at all.
    pub async fn commit(self, log: &Log) -> Result<Commit, StoreError> {
        let plan = PlanRow { version: self.expected_version + 1, ..self.plan };
        let mut writes = vec![Write::CommitPlan { key: self.key, plan: Box::new(plan) }];
        writes.extend(self.along);
        writes.extend(self.job.map(|(job, token)| Write::FinishJob { job, token, end: JobEnd::Done }));
        match log.apply(&writes).await {
            Ok(()) => Ok(Commit::Done),
            Err(error) if error.is_conflict() => Ok(Commit::Lost),
            Err(error) => Err(error),
        }
    }
}
