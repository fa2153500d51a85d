//! Looking after what is stored: sweeping what is over, resealing under a new key, checking that all is there.
//!
//! Each takes the artifacts one by one and can be broken off and begun again. None of them reads for somebody, and none
//! touches folders of tenants that the store does not know: another store may share the bucket.

use std::fmt;
use std::time::Duration;

use epitome::plan::ArtifactId;
use object_store::path::Path;

use super::objects::Listed;
use super::{ArtifactError, Artifacts, Unreadable, outlasts};
use crate::ids::{Moment, TenantId};
use crate::store::{ArtifactRow, StoreError, Write};
use crate::vault::key_id_of;

const PAGE: usize = 500;
/// Objects without metadata are left alone this long: their compaction may not have committed yet.
const UNREFERENCED_MIN: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of an expired artifact are left alone this long after they were written: somebody may just be putting them again.
const UNDER_WAY: Duration = Duration::from_secs(10 * 60);

/// The counts of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Artifacts whose time was over.
    pub expired: u64,
    /// Objects that no metadata named.
    pub unreferenced: u64,
    /// The stored bytes that were freed.
    pub bytes: u64,
}

/// The result of resealing.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ResealReport {
    /// Artifacts that are under the current key now and were not before.
    pub resealed: u64,
    /// Artifacts that were under it already.
    pub current: u64,
    /// Artifacts that stay as they are because they cannot be read.
    pub left: Vec<Finding>,
}

/// Something that is not as it should be.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// Metadata whose content cannot be read.
    Unreadable(String, Unreadable),
    /// Metadata that names another key than the content is sealed with.
    OtherKey(String, Option<String>),
    /// An object that no metadata names.
    Unreferenced(String),
    /// An object that is not named as artifacts are.
    Stranger(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Unreadable(id, why) => write!(f, "artifact {id} cannot be read: {why}"),
            Finding::OtherKey(id, Some(key)) => {
                write!(f, "artifact {id} is sealed with the key {key}, and its metadata says otherwise; reseal it")
            }
            Finding::OtherKey(id, None) => {
                write!(f, "artifact {id} is not sealed, and its metadata says that it is; reseal it")
            }
            Finding::Unreferenced(path) => {
                write!(f, "object {path} belongs to no artifact; a sweep removes it a day after it was written")
            }
            Finding::Stranger(path) => write!(f, "object {path} is not named as an artifact is; nothing removes it"),
        }
    }
}

impl Artifacts {
    /// Removes what is over: expired artifacts with their bytes, and objects without metadata that are older than a day.
    ///
    /// Content that is put again in the instant in which its old bytes are removed can be lost from the object store: it
    /// has been expired or unreferenced for a while then, is still in the log, and `check` names it.
    pub async fn sweep(&self, now: Moment) -> Result<SweepReport, ArtifactError> {
        let mut swept = SweepReport::default();
        for tenant in self.store.tenants().await? {
            self.sweep_expired(&tenant, now, &mut swept).await?;
            self.sweep_unreferenced(&tenant, now, &mut swept).await?;
        }
        Ok(swept)
    }

    /// Brings the tenant's artifacts under the current key. What is done stays done when it is broken off.
    pub async fn reseal(&self, tenant: &TenantId) -> Result<ResealReport, ArtifactError> {
        let mut resealed = ResealReport::default();
        let mut rows = Rows::new(tenant);
        while let Some(row) = rows.next(self).await? {
            match self.reseal_one(&row).await? {
                Ok(true) => resealed.resealed += 1,
                Ok(false) => resealed.current += 1,
                Err(why) => resealed.left.push(Finding::Unreadable(row.id, why)),
            }
        }
        Ok(resealed)
    }

    /// Looks whether everything is there: each artifact's bytes, as they were written, and no others.
    pub async fn check(&self, tenant: &TenantId) -> Result<Vec<Finding>, ArtifactError> {
        let mut findings = Vec::new();
        let mut rows = Rows::new(tenant);
        while let Some(row) = rows.next(self).await? {
            findings.extend(self.check_row(row).await);
        }
        let mut objects = self.objects.list(&self.folder(tenant));
        while let Some(object) = objects.next().await? {
            findings.extend(self.check_object(tenant, &object).await?);
        }
        Ok(findings)
    }

    async fn sweep_expired(
        &self,
        tenant: &TenantId,
        now: Moment,
        swept: &mut SweepReport,
    ) -> Result<(), ArtifactError> {
        let mut rows = Rows::new(tenant);
        while let Some(row) = rows.next(self).await? {
            if outlasts(&row, now) {
                continue;
            }
            // The row may be a page old, and the same content may have been put again since.
            let there = self.store.artifact(&row.id).await?;
            if there.is_some_and(|there| there.tenant == row.tenant && !outlasts(&there, now)) {
                self.store.apply(&[Write::DeleteArtifact { tenant: tenant.clone(), id: row.id.clone() }]).await?;
                swept.expired += 1;
                swept.bytes += self.delete_bytes(&row, now).await?;
            }
        }
        Ok(())
    }

    async fn delete_bytes(&self, row: &ArtifactRow, now: Moment) -> Result<u64, ArtifactError> {
        let path = self.path(&row.tenant, &row.id);
        match self.objects.head(&path).await {
            Ok(object) if object.modified.after(UNDER_WAY) <= now => {
                self.objects.delete(&path).await?;
                Ok(object.bytes)
            }
            Ok(_) | Err(super::ObjectsError::Gone) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    async fn sweep_unreferenced(
        &self,
        tenant: &TenantId,
        now: Moment,
        swept: &mut SweepReport,
    ) -> Result<(), ArtifactError> {
        let mut objects = self.objects.list(&self.folder(tenant));
        while let Some(object) = objects.next().await? {
            let is_old = object.modified.after(UNREFERENCED_MIN) <= now;
            let Some(id) = id_in(&object.path).filter(|_| is_old) else { continue };
            if !self.is_referenced(tenant, &id).await? {
                self.objects.delete(&object.path).await?;
                swept.unreferenced += 1;
                swept.bytes += object.bytes;
            }
        }
        Ok(())
    }

    async fn is_referenced(&self, tenant: &TenantId, id: &ArtifactId) -> Result<bool, StoreError> {
        Ok(self.store.artifact(id.as_str()).await?.is_some_and(|row| row.tenant == *tenant))
    }

    /// Tells whether it was resealed; the inner error leaves it as it is, the outer one ends the whole.
    async fn reseal_one(&self, row: &ArtifactRow) -> Result<Result<bool, Unreadable>, ArtifactError> {
        let content = match self.to_reseal(row).await {
            Err(Unreadable::Unreachable(reason)) => return Err(super::ObjectsError::Unreachable(reason).into()),
            Err(why) => return Ok(Err(why)),
            Ok(content) => content,
        };
        if let (Some(content), Some(id)) = (&content, ArtifactId::parse(&row.id)) {
            self.write(&row.tenant, &id, content).await?;
        }
        self.name_current_key(row).await?;
        Ok(Ok(content.is_some()))
    }

    /// The content of an artifact that is not under the current key. The bytes are looked at: metadata may lag behind.
    async fn to_reseal(&self, row: &ArtifactRow) -> Result<Option<Vec<u8>>, Unreadable> {
        let sealed = self.sealed(row).await?;
        if !self.vault.needs_reseal(&sealed) {
            return Ok(None);
        }
        self.opened(row, &sealed).map(Some)
    }

    async fn name_current_key(&self, row: &ArtifactRow) -> Result<(), StoreError> {
        let current = self.vault.current_key_id();
        if current.is_none() || row.key_id.as_deref() == current {
            return Ok(());
        }
        let row = ArtifactRow { key_id: current.map(str::to_owned), ..row.clone() };
        self.store.apply(&[Write::PutArtifact(Box::new(row))]).await
    }

    async fn check_row(&self, row: ArtifactRow) -> Option<Finding> {
        let sealed = match self.sealed(&row).await {
            Ok(sealed) => sealed,
            Err(why) => return Some(Finding::Unreadable(row.id, why)),
        };
        match self.opened(&row, &sealed) {
            Err(why) => Some(Finding::Unreadable(row.id, why)),
            Ok(_) => {
                let sealed_with = key_id_of(&sealed).map(str::to_owned);
                (sealed_with != row.key_id).then_some(Finding::OtherKey(row.id, sealed_with))
            }
        }
    }

    async fn check_object(&self, tenant: &TenantId, object: &Listed) -> Result<Option<Finding>, StoreError> {
        let path = object.path.to_string();
        match id_in(&object.path) {
            None => Ok(Some(Finding::Stranger(path))),
            Some(id) if self.is_referenced(tenant, &id).await? => Ok(None),
            Some(_) => Ok(Some(Finding::Unreferenced(path))),
        }
    }
}

/// The artifact that an object's name stands for.
fn id_in(path: &Path) -> Option<ArtifactId> {
    let parts: Vec<_> = path.parts().collect();
    match parts.as_slice() {
        [_, first, rest] if first.as_ref().len() == 2 => {
            ArtifactId::parse(&format!("{}{}", first.as_ref(), rest.as_ref()))
        }
        _ => None,
    }
}

/// A tenant's rows, a page at a time.
struct Rows<'a> {
    tenant: &'a TenantId,
    page: std::vec::IntoIter<ArtifactRow>,
    last: Option<String>,
    is_over: bool,
}

impl<'a> Rows<'a> {
    fn new(tenant: &'a TenantId) -> Self {
        Rows { tenant, page: Vec::new().into_iter(), last: None, is_over: false }
    }

    async fn next(&mut self, artifacts: &Artifacts) -> Result<Option<ArtifactRow>, StoreError> {
        if self.page.len() == 0 && !self.is_over {
            let page = artifacts.store.artifacts(self.tenant, self.last.as_deref(), PAGE).await?;
            self.is_over = page.len() < PAGE;
            self.last = page.last().map(|row| row.id.clone());
            self.page = page.into_iter();
        }
        Ok(self.page.next())
    }
}
