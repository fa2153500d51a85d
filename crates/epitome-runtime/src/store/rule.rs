//! Rules that every store here follows in the same words. No storage: values in, values out.

use super::error::{Result, StoreError};
use super::row::{ArtifactRow, JobRow, JobState, MessageRow};
use super::write::JobEnd;
use crate::ids::{Moment, ThreadKey};

/// The error of a job whose last lease ran out.
pub(super) const LAPSED: &str = "its last worker did not come back";

/// The first and the last of messages that have consecutive places.
pub(super) fn ends(messages: &[MessageRow]) -> Result<(&MessageRow, &MessageRow)> {
    let consecutive = messages.windows(2).all(|pair| pair[0].place.checked_add(1) == Some(pair[1].place));
    match (messages.first(), messages.last()) {
        (Some(first), Some(last)) if consecutive => Ok((first, last)),
        (Some(_), _) => refused("the places of appended messages have to be consecutive"),
        (None, _) => refused("an append has to have at least one message"),
    }
}

/// A refusal in a sentence.
pub(super) fn refused<T>(reason: impl Into<String>) -> Result<T> {
    Err(StoreError::Refused(reason.into()))
}

/// The conflict with a thread that is not in the expected state.
pub(super) fn not_at(key: &ThreadKey, what: &str) -> StoreError {
    StoreError::conflict(format!("{what} of thread {key}"))
}

/// Merges the metadata of an artifact that is put again.
pub(super) fn merged(old: ArtifactRow, new: ArtifactRow) -> Result<ArtifactRow> {
    if old.tenant != new.tenant {
        return Err(StoreError::conflict(format!("artifact {}", new.id)));
    }
    Ok(ArtifactRow {
        thread: old.thread,
        at: old.at,
        expires: old.expires.zip(new.expires).map(|(one, other)| one.max(other)),
        sensitivity: old.sensitivity.max(new.sensitivity),
        ..new
    })
}

/// Moves a job to the state in which its worker left it.
pub(super) fn ended(job: &mut JobRow, end: &JobEnd) {
    job.lease = None;
    match end {
        JobEnd::Done => {
            job.state = JobState::Done;
            job.error = None;
        }
        JobEnd::Failed { again, error } => {
            job.state = if job.attempts < job.attempts_max { JobState::Ready } else { JobState::Dead };
            job.due = *again;
            job.error = Some(error.clone());
        }
    }
}

/// Tells whether a job may be claimed: it is ready and its time has come, or its lease has run out.
pub(super) fn is_due(job: &JobRow, now: Moment) -> bool {
    match job.state {
        JobState::Ready => job.due <= now,
        JobState::Running => !is_held(job, now),
        JobState::Done | JobState::Dead => false,
    }
}

/// Tells whether a worker holds the job now.
pub(super) fn is_held(job: &JobRow, now: Moment) -> bool {
    job.lease.as_ref().is_some_and(|lease| lease.until > now)
}
