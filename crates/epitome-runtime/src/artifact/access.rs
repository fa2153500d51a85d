//! The security context: who asks, for which tenant, and what they may do.
//!
//! It is made where a request was authenticated, and only compared here. No permission reaches across tenants.

use serde::{Deserialize, Serialize};

use crate::ids::TenantId;
use crate::store::Sensitivity;

crate::named_enum! {
    /// One thing that somebody may do within their tenant.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Permission {
        /// See threads, their plans and their events.
        ReadThread = "read_thread",
        /// Append to threads and compact them.
        WriteThread = "write_thread",
        /// Read what left a prompt.
        ReadArtifact = "read_artifact",
        /// Read confidential content.
        ReadConfidential = "read_confidential",
        /// Read restricted content.
        ReadRestricted = "read_restricted",
        /// Look after the store: keys, sweeps, checks.
        Administer = "administer",
    }
}

impl Permission {
    /// Returns the permission that content of this sensitivity needs in addition to [`Permission::ReadArtifact`].
    pub fn to_read(sensitivity: Sensitivity) -> Option<Self> {
        match sensitivity {
            Sensitivity::Public | Sensitivity::Internal => None,
            Sensitivity::Confidential => Some(Permission::ReadConfidential),
            Sensitivity::Restricted => Some(Permission::ReadRestricted),
        }
    }

    fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Permission>", into = "Vec<Permission>")]
pub struct Permissions(u8);

impl Permissions {
    /// None at all.
    pub fn none() -> Self {
        Permissions::default()
    }

    /// Every one of them.
    pub fn all() -> Self {
        Permission::ALL.into_iter().collect()
    }

    /// These and one more.
    #[must_use]
    pub fn with(self, permission: Permission) -> Self {
        Permissions(self.0 | permission.bit())
    }

    /// These but for one.
    #[must_use]
    pub fn without(self, permission: Permission) -> Self {
        Permissions(self.0 & !permission.bit())
    }

    /// Tells whether this one is among them.
    pub fn has(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        permissions.into_iter().fold(Permissions::none(), Permissions::with)
    }
}

impl From<Vec<Permission>> for Permissions {
    fn from(permissions: Vec<Permission>) -> Self {
        permissions.into_iter().collect()
    }
}

impl From<Permissions> for Vec<Permission> {
    fn from(permissions: Permissions) -> Self {
        Permission::ALL.into_iter().filter(|permission| permissions.has(*permission)).collect()
    }
}

/// A requester with a tenant and permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The requester's name, for the log.
    pub requester: String,
    /// The tenant they belong to.
    pub tenant: TenantId,
    /// The permissions within the tenant.
    pub permissions: Permissions,
}

impl Access {
    /// Somebody with these permissions.
    pub fn new(tenant: TenantId, requester: impl Into<String>, permissions: Permissions) -> Self {
        Access { requester: requester.into(), tenant, permissions }
    }

    /// The owner of a tenant's data: everything but administering the store.
    pub fn owner(tenant: TenantId, requester: impl Into<String>) -> Self {
        Access::new(tenant, requester, Permissions::all().without(Permission::Administer))
    }

    /// Tells whether they may do this.
    pub fn may(&self, permission: Permission) -> bool {
        self.permissions.has(permission)
    }

    /// Tells whether they may read content of this sensitivity.
    pub fn may_read(&self, sensitivity: Sensitivity) -> bool {
        Permission::to_read(sensitivity).is_none_or(|permission| self.may(permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_told_apart_and_named_as_in_json() {
        for one in Permission::ALL {
            let only = Permissions::none().with(one);
            let held: Vec<Permission> = only.into();
            assert_eq!(held, [one]);
            assert!(!Permissions::all().without(one).has(one));
            assert_eq!(Permission::from_name(one.name()), Some(one));
            assert_eq!(serde_json::to_value(only).unwrap(), serde_json::json!([one.name()]));
        }
    }

    #[test]
    fn each_sensitivity_asks_for_its_own_permission() {
        let readable = |permissions: Permissions| {
            let access = Access::new(TenantId::local(), "somebody", permissions);
            Sensitivity::ALL.map(|sensitivity| access.may_read(sensitivity))
        };
        assert_eq!(readable(Permissions::none()), [true, true, false, false]);
        assert_eq!(readable(Permissions::none().with(Permission::ReadConfidential)), [true, true, true, false]);
        assert_eq!(readable(Permissions::none().with(Permission::ReadRestricted)), [true, true, false, true]);
        assert_eq!(readable(Permissions::none().with(Permission::Administer)), [true, true, false, false]);
    }
}
