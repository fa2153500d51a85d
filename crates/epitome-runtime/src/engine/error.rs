//! Why the engine did not do what it was asked.

use crate::artifact::Denied;
use crate::log::LogError;
use crate::model::ModelError;
use crate::store::StoreError;

/// An error of the engine.
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
        /// The thread's dialect.
        found: String,
        /// The requested value.
        wanted: &'static str,
    },
    /// Others appended meanwhile.
    #[error("the thread has {length} messages by now, not {place}")]
    Moved {
        /// Its length.
        length: u64,
        /// The expected length.
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
        /// The requested value.
        reference: String,
    },
    /// The number is one of a compaction that was made before the thread came here.
    #[error("{reference} is named by a summary that the thread came with; what it stands for is not kept here")]
    ForeignNumber {
        /// The requested value.
        reference: String,
    },
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        EngineError::Log(error.into())
    }
}
