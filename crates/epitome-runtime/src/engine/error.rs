//! Why the engine did not do what it was asked.

use crate::artifact::Denied;
use crate::log::LogError;
use crate::model::ModelError;
use crate::store::StoreError;

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The requester may not do this.
    #[error("there is no such thing, or it is not available to you")]
    NotAllowed,
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The message is not JSON.
    #[error("message {number} of those to append is not JSON: {reason}")]
    NotJson {
        /// Which one, from 1.
        number: usize,
        /// Why.
        reason: String,
    },
    /// The thread's messages are in a session's own format.
    #[error("the thread was imported from a {format} session: it can be read, searched and exported, not continued")]
    Foreign {
        /// The format.
        format: String,
    },
    /// The thread is written in another dialect.
    #[error("the thread is written in {found}, not in {wanted}")]
    Dialect {
        /// What it is written in.
        found: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Others appended meanwhile.
    #[error("the thread has {length} messages by now, not {place}")]
    Moved {
        /// How many it has.
        length: u64,
        /// How many were expected.
        place: u64,
    },
    /// An artifact is not available.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is no message of that name.
    #[error("there is no message {reference} in the thread")]
    NoMessage {
        /// What was asked for.
        reference: String,
    },
    /// The number is one of a compaction that was made before the thread came here.
    #[error("{reference} is named by a summary that the thread came with; what it stands for is not kept here")]
    ForeignNumber {
        /// What was asked for.
        reference: String,
    },
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        EngineError::Log(error.into())
    }
}
