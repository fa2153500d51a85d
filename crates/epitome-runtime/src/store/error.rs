//! Why a store did not do what it was asked.

/// The result of a call to a store.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of a store. Nothing has changed when one is returned.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else was faster, or the state is not the one that was expected. Load again and retry.
    #[error("{0} has changed in the meantime")]
    Conflict(String),
    /// Another process has it locked, and did not let go in time.
    #[error("the store is locked by another process: {0}")]
    Locked(String),
    /// Its file was deleted or replaced while it was open: what is written to it would be gone with the process.
    #[error("the store's file {0} was deleted or replaced")]
    Deleted(String),
    /// It can be read and not be written.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The store cannot be reached, or broke off.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// There is no room left.
    #[error("the store is full: {0}")]
    Full(String),
    /// The stored bytes cannot be those that were written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// It was written by a newer version of this program.
    #[error("the store has schema {found}, and this program knows {known} at most; use a newer one")]
    Newer {
        /// The schema it has.
        found: u64,
        /// The newest that is known here.
        known: u64,
    },
    /// The back-end refused.
    #[error("the store refused: {0}")]
    Refused(String),
}

impl StoreError {
    /// A conflict over something.
    pub fn conflict(what: impl Into<String>) -> Self {
        StoreError::Conflict(what.into())
    }

    /// Tells whether trying again later may help.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            StoreError::Unavailable(_)
                | StoreError::Full(_)
                | StoreError::Locked(_)
                | StoreError::Deleted(_)
                | StoreError::ReadOnly(_)
        )
    }

    /// Tells whether the state was not the one expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self, StoreError::Conflict(_))
    }
}
