//! Names: what was written before names were blinded is kept under blinded ones.

use super::{TenantDocuments, threads};
use crate::ids::TenantId;
use crate::log::{Log, LogError};
use crate::store::StoreError;

/// Gives a tenant's threads and documents names that tell nothing of what they are about; how many got one. What has such a
/// name already is passed over, so that it can be broken off and begun again. A document that does not open stays as it is:
/// rotation and checking tell of it.
pub(crate) async fn blind_names(log: &Log, tenant: &TenantId) -> Result<u64, StoreError> {
    let mut renamed = 0;
    for row in threads(log, tenant).await? {
        if let Some(write) = log.rename_thread(&row) {
            log.apply(&[write]).await?;
            renamed += 1;
        }
    }
    let mut documents = TenantDocuments::of(log, tenant);
    while let Some((key, row)) = documents.next().await? {
        match log.rename_document(&key, &row) {
            Ok(Some((put, delete))) => {
                match log.apply(&[put, delete.clone()]).await {
                    // What is kept under the new name is newer.
                    Err(error) if error.is_conflict() => log.apply(&[delete]).await?,
                    other => other?,
                }
                renamed += 1;
            }
            Ok(None) => {}
            Err(LogError::Store(error)) => return Err(error),
            Err(error) => tracing::warn!(%error, "a document keeps its name"),
        }
    }
    Ok(renamed)
}
