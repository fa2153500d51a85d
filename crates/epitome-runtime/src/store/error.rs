//! Why a store did not do what it was asked.

/// An error of a store. Nothing has changed when one is returned.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else was faster, or the state is not the one that was expected. Load again and retry.
    #[error("{what} has changed in the meantime")]
    Conflict {
        /// The state that was expected to be another.
        what: String,
    },
    /// Another process has it locked, and did not let go in time.
    #[error("the store is locked by another process: {reason}")]
    Locked {
        /// The back-end's message.
        reason: String,
    },
    /// Its file was deleted or replaced while it was open: what is written to it would be gone with the process.
    #[error("the store's file {path} was deleted or replaced")]
    Deleted {
        /// The file.
        path: String,
    },
    /// It can be read and not be written.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// The back-end's message.
        reason: String,
    },
    /// The store cannot be reached, or broke off.
    #[error("the store cannot be reached: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// There is no room left.
    #[error("the store is full: {reason}")]
    Full {
        /// The system's message.
        reason: String,
    },
    /// The stored bytes cannot be those that were written.
    #[error("the store is damaged: {reason}")]
    Damaged {
        /// The finding.
        reason: String,
    },
    /// It was written by a newer version of this program.
    #[error("the store has schema {found}, and this program knows {known} at most; use a newer one")]
    Newer {
        /// The schema it has.
        found: u64,
        /// The newest that is known here.
        known: u64,
    },
    /// The back-end refused.
    #[error("the store refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
}

impl StoreError {
    /// A conflict over something.
    pub fn conflict(what: impl Into<String>) -> Self {
        StoreError::Conflict { what: what.into() }
    }

    /// Tells whether trying again later may help.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            StoreError::Unavailable { .. }
                | StoreError::Full { .. }
                | StoreError::Locked { .. }
                | StoreError::Deleted { .. }
                | StoreError::ReadOnly { .. }
        )
    }

    /// Tells whether the state was not the one expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self, StoreError::Conflict { .. })
    }
}
