//! Looking after a store: whether everything in it is what was written, and everything under the current key.
//!
//! Both go through all tenants, a page at a time, and can be broken off and begun again. Neither shows anything of what
//! was said.

mod check;
mod rotate;

pub use check::{Checked, check};
pub use rotate::{Rotated, rotate};

use crate::artifact::ArtifactError;
use crate::ids::TenantId;
use crate::log::{Log, LogError};
use crate::store::{DocumentKey, DocumentRow, StoreError, ThreadRow};

/// Rows are asked for so many at once.
const PAGE: usize = 256;

/// Documents that a thread has, each under the thread's name.
const OF_THREADS: [&str; 7] = ["errand", "memory", "quality", "rotated", "source", "state", "turn"];
/// Documents of a tenant or of the store, the gateway's ledger included. The store's own secret is not among them: it lies
/// open in any case.
const OF_TENANTS: [&str; 5] = ["learnt", "ledger", "ledger-day", "ledger-previous", "summary"];

/// Told what is being done.
pub type Said<'a> = dyn FnMut(String) + Send + 'a;

/// Why a store cannot be looked after.
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

/// A page of a tenant's documents of a kind, after one of them.
async fn documents(
    log: &Log,
    tenant: &TenantId,
    kind: &str,
    after: Option<&str>,
) -> Result<Vec<(DocumentKey, DocumentRow)>, StoreError> {
    log.store().documents(tenant, kind, after, PAGE).await
}

/// An error as a sentence.
fn sentence(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{OF_TENANTS, OF_THREADS};

    /// The names that follow `kind: "` in the sources of a folder.
    fn kinds(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("the sources").flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("store") {
                kinds(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                let pieces = text.split("kind: \"").skip(1);
                found.extend(pieces.filter_map(|piece| piece.split('"').next()).map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_kind_of_document_that_is_written_is_looked_after() {
        let mut found = Vec::new();
        kinds(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine"), &mut found);
        assert!(found.len() >= 5, "the engine writes documents: {found:?}");
        let known = |kind: &str| OF_THREADS.contains(&kind) || OF_TENANTS.contains(&kind) || kind == "secret";
        let unknown: Vec<&String> = found.iter().filter(|kind| !known(kind)).collect();
        assert!(unknown.is_empty(), "neither checked nor sealed again: {unknown:?}");
    }
}
