//! Artifacts: content that left the prompt, kept by its address, given out to who may read it.
//!
//! ```text
//! put    bytes, sealed ──> object store        metadata ──> a write of the compaction's own transaction
//! read   metadata ──> may they? ──> bytes ──> opened, checked against its id
//! ```
//!
//! Bytes are written before the metadata that names them, so a crash leaves an object without metadata at worst, and
//! [`Artifacts::sweep`] finds it. An id is a keyed hash of content, so it tells nothing about it. A refusal does not say
//! why. Nothing here knows a clock: moments come in.

mod access;
mod content;
mod denied;
mod objects;
mod pending;
mod place;
mod upkeep;

pub use access::{Access, Permission, Permissions};
pub use content::{Content, Excerpt, ExcerptLimit, Hits, Text, TextMatch};
pub use denied::{DenialReason, Denied};
pub use objects::{ObjectsError, Unreadable};
pub use place::{PlaceError, open_url, open_url_when_possible};
pub use upkeep::{Finding, ResealReport, SweepReport};

use std::sync::Arc;
use std::time::Duration;

use epitome::budget::Tokens;
use epitome::plan::ArtifactId;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::ids::{Moment, TenantId, ThreadId};
use crate::store::{ArtifactRow, Sensitivity, Store, StoreError, Write};
use crate::vault::{Sealing, Vault, key_id_of};
use denied::Refusal;
use objects::Objects;

const TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes that sealing adds to content.
const SEAL_BYTES_MAX: u64 = 512;
/// The name and content of the object that is written to see whether one can be. It is in no tenant's folder.
const PROBE: &str = "probe";
/// Metadata that lasts at least this much longer is good enough for the same content put again.
const KEPT_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// An error of the artifact store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The requester may not write threads.
    #[error("the permission {} is needed to store an artifact", Permission::WriteThread.name())]
    NotAllowed,
    /// The store of metadata failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store of bytes failed.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

impl ArtifactError {
    /// Tells whether trying again later may help.
    pub fn is_passing(&self) -> bool {
        match self {
            ArtifactError::NotAllowed => false,
            ArtifactError::Store(error) => error.is_passing(),
            ArtifactError::Objects(error) => !matches!(error, ObjectsError::Gone),
        }
    }
}

/// The metadata of content that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOptions {
    /// When it is put.
    pub at: Moment,
    /// Its sensitivity.
    pub sensitivity: Sensitivity,
    /// The time that it is kept; forever without one.
    pub ttl: Option<Duration>,
    /// The tokens of the content.
    pub tokens: Tokens,
}

/// Content that left the prompt. A clone is the same.
#[derive(Clone, Debug)]
pub struct Artifacts {
    objects: Objects,
    store: Arc<dyn Store>,
    vault: Vault,
}

impl Artifacts {
    /// Bytes go to `objects`, metadata to `store`, and the vault seals.
    pub fn new(objects: Arc<dyn ObjectStore>, store: Arc<dyn Store>, vault: Vault) -> Self {
        Artifacts { objects: Objects::new(objects, TIMEOUT), store, vault }
    }

    /// The same, waiting no longer than this for one answer of the object store.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Artifacts { objects: self.objects.with_timeout(timeout), ..self }
    }

    /// Writes a small object that belongs to nobody, to see whether bytes can be written.
    pub async fn probe(&self) -> Result<(), ObjectsError> {
        self.objects.put(&Path::from(PROBE), Vec::from(PROBE)).await
    }

    /// The id of content of a tenant.
    pub fn id(&self, tenant: &TenantId, content: &[u8]) -> ArtifactId {
        ArtifactId::keyed(&self.vault.artifact_key(tenant), content)
    }

    /// Stores content, and returns the write of its metadata for the compaction's transaction.
    ///
    /// Content that the tenant has already is not stored again. Where there is no metadata that is sure to last, the bytes
    /// are written even over equal ones: that makes them young, and a sweep leaves what is young alone.
    pub async fn put(
        &self,
        access: &Access,
        thread: &ThreadId,
        content: &[u8],
        options: PutOptions,
    ) -> Result<Write, ArtifactError> {
        if !access.may(Permission::WriteThread) {
            return Err(ArtifactError::NotAllowed);
        }
        let id = self.id(&access.tenant, content);
        let key_id = match self.store.artifact(id.as_str()).await? {
            Some(row) if row.tenant != access.tenant => {
                return Err(StoreError::conflict(format!("artifact {id}")).into());
            }
            Some(row) if outlasts(&row, options.at.after(KEPT_MIN)) => row.key_id,
            _ => self.write(&access.tenant, &id, content).await?,
        };
        let row = ArtifactRow {
            id: id.as_str().to_owned(),
            tenant: access.tenant.clone(),
            thread: thread.clone(),
            at: options.at,
            expires: options.ttl.map(|ttl| options.at.after(ttl)),
            key_id,
            sensitivity: options.sensitivity,
            bytes: content.len() as u64,
            tokens: options.tokens.get(),
        };
        Ok(Write::PutArtifact(Box::new(row)))
    }

    /// Returns an artifact's metadata without reading its content.
    pub async fn metadata(&self, access: &Access, id: &str) -> Result<ArtifactRow, Denied> {
        self.owned(access, id).await.map_err(|refusal| Denied::logged(access, id, refusal))
    }

    /// An artifact with its content.
    pub async fn read(&self, access: &Access, id: &str, now: Moment) -> Result<Content, Denied> {
        self.admitted(access, id, now).await.map_err(|refusal| Denied::logged(access, id, refusal))
    }

    async fn admitted(&self, access: &Access, id: &str, now: Moment) -> Result<Content, Refusal> {
        let row = self.owned(access, id).await?;
        if let Some(permission) = Permission::to_read(row.sensitivity).filter(|permission| !access.may(*permission)) {
            return Err(Refusal::lacking(permission));
        }
        if !outlasts(&row, now) {
            return Err(DenialReason::Expired.into());
        }
        let content = self.content(&row).await?;
        Ok(Content::new(row, content))
    }

    /// The metadata, if it is the requester's. Whether there is none or it is another's takes the same one lookup.
    async fn owned(&self, access: &Access, id: &str) -> Result<ArtifactRow, Refusal> {
        if !access.may(Permission::ReadArtifact) {
            return Err(Refusal::lacking(Permission::ReadArtifact));
        }
        let id = ArtifactId::parse(id).ok_or(DenialReason::Unknown)?;
        match self.store.artifact(id.as_str()).await? {
            None => Err(DenialReason::Unknown.into()),
            Some(row) if row.tenant != access.tenant => Err(Refusal::of_another(&row.tenant)),
            Some(row) => Ok(row),
        }
    }

    /// Seals and writes content; returns the name of the key.
    async fn write(&self, tenant: &TenantId, id: &ArtifactId, content: &[u8]) -> Result<Option<String>, ObjectsError> {
        let sealed = self.vault.seal(tenant, Sealing::Artifact, id.as_str(), content);
        let key_id = key_id_of(&sealed).map(str::to_owned);
        self.objects.put(&self.path(tenant, id.as_str()), sealed).await?;
        Ok(key_id)
    }

    async fn content(&self, row: &ArtifactRow) -> Result<Vec<u8>, Unreadable> {
        self.opened(row, &self.sealed(row).await?)
    }

    /// The bytes of an artifact as they are stored. Far more of them than there should be are not even fetched.
    async fn sealed(&self, row: &ArtifactRow) -> Result<Vec<u8>, Unreadable> {
        let path = self.path(&row.tenant, &row.id);
        let fetched = self.objects.get(&path, row.bytes.saturating_add(SEAL_BYTES_MAX)).await?;
        fetched.ok_or(Unreadable::Altered)
    }

    fn opened(&self, row: &ArtifactRow, sealed: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let content = self.vault.open(&row.tenant, Sealing::Artifact, &row.id, sealed).map_err(Unreadable::Sealed)?;
        // A seal is bound to the id. Plain bytes have only their address to vouch for them.
        let keys = self.vault.artifact_keys(&row.tenant);
        let is_address = || keys.iter().any(|key| ArtifactId::keyed(key, &content).as_str() == row.id);
        let vouched = key_id_of(sealed).is_some() || is_address();
        if vouched { Ok(content) } else { Err(Unreadable::Altered) }
    }

    fn folder(&self, tenant: &TenantId) -> Path {
        Path::from(self.vault.pseudonym(tenant))
    }

    fn path(&self, tenant: &TenantId, id: &str) -> Path {
        let (first, rest) = id.split_at_checked(2).unwrap_or(("", id));
        self.folder(tenant).join(first).join(rest)
    }
}

/// Tells whether an artifact is still there at this moment.
fn outlasts(row: &ArtifactRow, moment: Moment) -> bool {
    row.expires.is_none_or(|expires| expires > moment)
}
