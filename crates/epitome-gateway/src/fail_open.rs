//! Failing open: the reasons for which a request is sent as it came although something should have been done to it.
//!
//! The names are the values of the header `x-epitome-failed-open` and of the label `reason` in the metrics.

use epitome_runtime::named_enum;

named_enum! {
    /// The reason for which a request was sent unchanged.
    pub enum FailOpenReason {
        /// The store failed, or did not answer in time.
        Store = "store",
        /// Preparing the prompt took too long.
        Slow = "slow",
        /// A task of the gateway panicked.
        Broken = "broken",
        /// The provider rejected the compacted prompt.
        Refused = "refused",
        /// Nothing more could leave the prompt.
        Floor = "floor",
        /// The provider holds a history that the gateway has not seen.
        Hidden = "hidden",
        /// The bodies of all requests use as much memory as they may.
        Memory = "memory",
    }
}

/// The reason for which a request has no thread and is passed on as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassReason {
    /// Nothing is to be done to it: its body cannot be understood, or the client asked for a bypass.
    NothingToDo,
    /// Something failed.
    FailedOpen(FailOpenReason),
}

impl From<FailOpenReason> for PassReason {
    fn from(reason: FailOpenReason) -> Self {
        PassReason::FailedOpen(reason)
    }
}
