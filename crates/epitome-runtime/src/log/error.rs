//! Why something cannot be read from a log.

use crate::ids::{ThreadId, ThreadKey};
use crate::store::StoreError;
use crate::vault::OpenError;

/// The result of a call to the log.
pub(crate) type Result<T, E = LogError> = std::result::Result<T, E>;

/// An error of the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is sealed with a key that is not here, or it was tampered with.
    #[error("{0} cannot be opened: {1}")]
    Sealed(String, OpenError),
    /// It is there and makes no sense.
    #[error("{0} is not what was written")]
    Unreadable(String),
    /// There is no such thread.
    #[error("there is no thread {0}")]
    NoThread(ThreadId),
    /// There is a thread of that name.
    #[error("there is a thread {0} already")]
    Taken(ThreadId),
    /// The thread is shorter.
    #[error("thread {thread} has {length} messages; there is no place {place}")]
    Beyond {
        /// Which thread.
        thread: ThreadId,
        /// The place that was asked for.
        place: u64,
        /// The thread's length.
        length: u64,
    },
    /// Messages are missing.
    #[error("thread {thread} has {found} messages where places {from} to {to} should be")]
    Gap {
        /// Which thread.
        thread: ThreadId,
        /// The first place.
        from: u64,
        /// The place after the last.
        to: u64,
        /// The number of messages found.
        found: usize,
    },
}

impl LogError {
    pub(super) fn no_thread(key: &ThreadKey) -> Self {
        LogError::NoThread(key.thread.clone())
    }

    pub(super) fn sealed(what: impl Into<String>, reason: OpenError) -> Self {
        LogError::Sealed(what.into(), reason)
    }

    /// Tells whether trying again later may help.
    pub fn is_passing(&self) -> bool {
        matches!(self, LogError::Store(error) if error.is_passing())
    }

    /// Tells whether the state was not the one expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self, LogError::Store(error) if error.is_conflict())
    }
}
