//! Looking after a store: whether everything in it is what was written, and everything under the current key.
//!
//! Both go through all tenants, a page at a time, and can be broken off and begun again. Neither shows anything of what
//! was said.

mod check;
mod expire;
mod names;
mod rotate;
mod tally;

pub use check::{CheckReport, check};
pub use expire::{documents_of, expire};
pub(crate) use names::blind_names;
pub use rotate::{RotationReport, rotate};

use crate::artifact::ArtifactError;
use crate::ids::{TenantId, ThreadKey};
use crate::log::{Log, LogError};
use crate::store::{DocumentKey, DocumentRow, StoreError, ThreadRow, VectorRow};

/// Rows are asked for so many at once.
const PAGE: usize = 256;

/// Told what is being done.
pub type ProgressReporter<'a> = dyn FnMut(String) + Send + 'a;

/// The result of upkeep.
type Result<T, E = UpkeepError> = std::result::Result<T, E>;

/// An error of upkeep.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpkeepError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something cannot be read that has to be.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The artifacts cannot be reached.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    /// There is no key to seal with.
    #[error("no key is configured to seal with")]
    NoKey,
}

/// A tenant's threads, all of them.
async fn threads(log: &Log, tenant: &TenantId) -> Result<Vec<ThreadRow>, StoreError> {
    let mut rows: Vec<ThreadRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.key.thread.clone());
        let page = log.store().threads(tenant, after.as_ref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        rows.extend(page);
        if is_last {
            return Ok(rows);
        }
    }
}

/// A thread's own vectors, a page at a time.
struct ThreadVectors<'a> {
    log: &'a Log,
    key: &'a ThreadKey,
    before: Option<(u64, u32)>,
}

impl<'a> ThreadVectors<'a> {
    fn of(log: &'a Log, key: &'a ThreadKey) -> Self {
        ThreadVectors { log, key, before: Some((u64::MAX, u32::MAX)) }
    }

    /// The next page; never empty.
    async fn next(&mut self) -> Result<Option<Vec<VectorRow>>, StoreError> {
        let Some(before) = self.before else { return Ok(None) };
        let page = self.log.store().vectors(self.key, before, PAGE).await?;
        self.before = page.last().filter(|_| page.len() == PAGE).map(|last| (last.place, last.passage));
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}

/// A tenant's documents: all kinds, those included that this version does not know. Everything that looks after documents
/// goes through here.
struct TenantDocuments<'a> {
    log: &'a Log,
    tenant: &'a TenantId,
    page: std::vec::IntoIter<(DocumentKey, DocumentRow)>,
    after: Option<DocumentKey>,
    is_last_page: bool,
}

impl<'a> TenantDocuments<'a> {
    fn of(log: &'a Log, tenant: &'a TenantId) -> Self {
        TenantDocuments { log, tenant, page: Vec::new().into_iter(), after: None, is_last_page: false }
    }

    /// The next document. They are read a page at a time; what is written or removed meanwhile does not move it.
    async fn next(&mut self) -> Result<Option<(DocumentKey, DocumentRow)>, StoreError> {
        if self.page.as_slice().is_empty() && !self.is_last_page {
            let page = self.log.store().all_documents(self.tenant, self.after.as_ref(), PAGE).await?;
            self.is_last_page = page.len() < PAGE;
            self.after = page.last().map(|(key, _)| key.clone());
            self.page = page.into_iter();
        }
        Ok(self.page.next())
    }
}
