//! Why a store did not do what it was asked.

/// Why a store did not do what it was asked. Nothing has changed when one is returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else was faster, or the state is not the one that was expected. Load again and retry.
    #[error("{what} has changed in the meantime")]
    Conflict {
        /// What was expected to be otherwise.
        what: String,
    },
    /// The store cannot be reached, is locked for too long, or broke off.
    #[error("the store cannot be reached: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// There is no room left.
    #[error("the store is full: {reason}")]
    Full {
        /// What the system says.
        reason: String,
    },
    /// What is stored cannot be what was written.
    #[error("the store is damaged: {reason}")]
    Damaged {
        /// What was found.
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

    /// Whether trying again later may help.
    pub fn is_passing(&self) -> bool {
        matches!(self, StoreError::Unavailable { .. } | StoreError::Full { .. })
    }

    /// Whether the state was not the one expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self, StoreError::Conflict { .. })
    }
}
