//! Why the engine did not do what it was asked.

use crate::artifact::Denied;
use crate::log::LogError;
use crate::model::ModelError;
use crate::store::StoreError;

/// The result of a call to the engine.
pub(super) type Result<T, E = EngineError> = std::result::Result<T, E>;

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
    #[error("message {0} of those to append is not JSON: {1}")]
    NotJson(usize, String),
    /// The thread's messages are in a session's own format.
    #[error("the thread was imported from a {0} session: it can be read, searched and exported, not continued")]
    Foreign(String),
    /// The thread is written in another dialect.
    #[error("the thread is written in {0}, not in {1}")]
    Dialect(String, &'static str),
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
    #[error("there is no message {0} in the thread")]
    NoMessage(String),
    /// The message cannot be hidden any more.
    #[error("{0} has left the prompt already; what the summary says of it stays")]
    LeftPrompt(String),
    /// The message is not hidden.
    #[error("{0} is not hidden")]
    NotHidden(String),
    /// There is no such pin.
    #[error("the thread has no such pin: {0}")]
    NotPinned(String),
    /// The note cannot be kept.
    #[error("the note cannot be kept: {0}")]
    Note(String),
    /// There is no handoff.
    #[error("there is nothing to hand over: {0}")]
    Handoff(String),
    /// The number is one of a compaction that was made before the thread came here.
    #[error("{0} is named by a summary that the thread came with; what it stands for is not kept here")]
    ForeignNumber(String),
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        EngineError::Log(error.into())
    }
}
