//! Why a model did not answer.

use std::time::Duration;

use epitome::budget::Overflow;

/// An error of a model call. No variant holds a key or a prompt.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The prompt is too long.
    #[error("the prompt is too long for the model ({status}): {message}")]
    Overflow {
        /// The status of the response.
        status: u16,
        /// The sizes that the provider named.
        overflow: Overflow,
        /// Its words.
        message: String,
        /// True if it says so in quotes only: the words may be those of a request.
        quoted: bool,
    },
    /// Too many requests, or the provider is overloaded.
    #[error("the provider asks to wait ({status}): {message}")]
    Throttled {
        /// The status of the response.
        status: u16,
        /// The time to wait, where the provider names one.
        after: Option<Duration>,
        /// Its words.
        message: String,
    },
    /// The provider refuses: the request or the key is wrong.
    #[error("the provider refuses ({0}): {1}")]
    Refused(u16, String),
    /// The provider failed.
    #[error("the provider failed ({0}): {1}")]
    Failed(u16, String),
    /// Nobody is there, or the connection broke.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("the provider did not {0} within {1:?}")]
    TimedOut(&'static str, Duration),
    /// The response is not an answer, or only half of one.
    #[error("the answer cannot be read: {0}")]
    Garbled(String),
    /// It failed so often that it is left alone for a while.
    #[error("the provider failed {0} times in a row and is left alone for {1:?} more")]
    Open(u32, Duration),
}

impl ModelError {
    /// Tells whether asking again may help.
    pub fn is_passing(&self) -> bool {
        match self {
            ModelError::Throttled { .. }
            | ModelError::Failed(..)
            | ModelError::Unreachable(_)
            | ModelError::TimedOut(..)
            | ModelError::Garbled(_) => true,
            ModelError::Overflow { .. } | ModelError::Refused(..) | ModelError::Open(..) => false,
        }
    }
}
