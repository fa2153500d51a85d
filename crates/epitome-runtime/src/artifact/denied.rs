//! Refusals: the requester hears one sentence, the operator hears why.
//!
//! Whether an artifact exists for somebody else is not told: not by words, not by what is printed of a refusal, not by an
//! event in the requester's own thread.

use std::fmt;

use crate::event::{Event, EventField, EventKind};
use crate::ids::{Moment, TenantId, ThreadKey};
use crate::store::StoreError;
use crate::vault::OpenError;

use super::access::{Access, Permission};
use super::objects::Unreadable;

crate::named_enum! {
    /// The reasons for which an artifact is denied.
    #[non_exhaustive]
    pub enum DenialReason {
        /// There is none of this id.
        Unknown = "unknown",
        /// It is another tenant's.
        WrongTenant = "wrong_tenant",
        /// The requester lacks a permission.
        MissingPermission = "missing_permission",
        /// Its time is over.
        Expired = "expired",
        /// It is sealed with a key that is not configured.
        WrongKey = "wrong_key",
        /// Its content is gone, or is not what was written.
        Damaged = "damaged",
        /// The store or the object store did not answer.
        Unreachable = "unreachable",
    }
}

/// A reason with what the log is told beside it.
pub(super) struct Refusal {
    reason: DenialReason,
    detail: Option<String>,
}

impl Refusal {
    /// It is this tenant's.
    pub(super) fn of_another(owner: &TenantId) -> Self {
        Refusal { reason: DenialReason::WrongTenant, detail: Some(format!("it is owned by {owner}")) }
    }

    /// This permission is missing.
    pub(super) fn lacking(permission: Permission) -> Self {
        Refusal { reason: DenialReason::MissingPermission, detail: Some(format!("{} is needed", permission.name())) }
    }
}

impl From<DenialReason> for Refusal {
    fn from(reason: DenialReason) -> Self {
        Refusal { reason, detail: None }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = match error {
            StoreError::Damaged(_) => DenialReason::Damaged,
            _ => DenialReason::Unreachable,
        };
        Refusal { reason, detail: Some(error.to_string()) }
    }
}

impl From<Unreadable> for Refusal {
    fn from(why: Unreadable) -> Self {
        let reason = match &why {
            Unreadable::Sealed(OpenError::WrongKey | OpenError::UnknownKey(_)) => DenialReason::WrongKey,
            Unreadable::Sealed(OpenError::Damaged) | Unreadable::Gone | Unreadable::Altered => DenialReason::Damaged,
            Unreadable::Unreachable(_) => DenialReason::Unreachable,
        };
        Refusal { reason, detail: Some(why.to_string()) }
    }
}

/// An artifact was not given out. What is printed of it does not tell why; [`Denied::reason`] does, for the operator.
#[derive(Clone, PartialEq, Eq)]
pub struct Denied {
    id: String,
    requester: String,
    reason: DenialReason,
}

impl Denied {
    /// Refuses, and writes the reason to the log.
    pub(super) fn logged(access: &Access, id: &str, refusal: Refusal) -> Self {
        let Refusal { reason, detail } = refusal;
        let denied = Denied { id: shown(id), requester: access.requester.clone(), reason };
        tracing::warn!(
            artifact = %denied.id,
            requester = %access.requester,
            tenant = %access.tenant,
            reason = reason.name(),
            detail,
            "an artifact was denied"
        );
        denied
    }

    /// Why; for logs and tests, never for the requester.
    pub fn reason(&self) -> DenialReason {
        self.reason
    }

    /// Tells whether trying again later may help. This much the requester may know.
    pub fn is_passing(&self) -> bool {
        self.reason == DenialReason::Unreachable
    }

    /// The refusal as an event of the requester's own thread. That it is another tenant's is not in it.
    pub fn event(&self, at: Moment, key: ThreadKey) -> Event {
        let told = if self.reason == DenialReason::WrongTenant { DenialReason::Unknown } else { self.reason };
        Event::new(at, key, EventKind::ArtifactDenied)
            .with(EventField::Artifact, self.id.as_str())
            .with(EventField::Requester, self.requester.as_str())
            .with(EventField::Reason, told.name())
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_passing() {
            "artifacts cannot be reached at the moment; try again later"
        } else {
            "there is no such artifact, or it is not available to you"
        })
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denied").field("id", &self.id).finish_non_exhaustive()
    }
}

impl std::error::Error for Denied {}

/// An id as it may be logged: whatever somebody sent in its place is cut short.
fn shown(id: &str) -> String {
    id.chars().filter(|c| !c.is_control()).take(64).collect()
}
