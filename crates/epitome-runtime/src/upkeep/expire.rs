//! Expiry, and what belongs to a thread: both ask each document's kind, so that no kind is forgotten.

use serde_json::Value;

use super::{Result, TenantDocuments};
use crate::ids::{Moment, ThreadKey};
use crate::log::Log;
use crate::store::{DocumentKey, DocumentRow, Owner, StoredKind, Write};

/// Removes documents whose retention is over, and finished jobs; how many there were. A document that was written without an
/// expiry is judged by the retention of its kind.
pub async fn expire(log: &Log, now: Moment) -> Result<u64> {
    let mut removed = 0;
    for tenant in log.store().tenants().await? {
        let mut documents = TenantDocuments::of(log, &tenant);
        while let Some((key, row)) = documents.next().await? {
            // The page may be old, and the document may have been written again since.
            if is_over(&key, &row, now) && log.store().document(&key).await?.is_some_and(|row| is_over(&key, &row, now))
            {
                log.apply(&[Write::DeleteDocument(key)]).await?;
                removed += 1;
            }
        }
    }
    Ok(removed + log.store().vacuum(now).await?)
}

fn is_over(key: &DocumentKey, row: &DocumentRow, now: Moment) -> bool {
    let of_kind = || key.kind.known().and_then(|kind| kind.retention().expiry(row.at));
    row.expires.or_else(of_kind).is_some_and(|expiry| expiry < now)
}

/// Everything that is kept beside a thread's messages, plans and events, opened: what is to go with the thread when it is
/// erased, and along with it when it is exported.
pub async fn documents_of(log: &Log, thread: &ThreadKey) -> Result<Vec<(DocumentKey, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut documents = TenantDocuments::of(log, &thread.tenant);
    while let Some((key, row)) = documents.next().await? {
        let StoredKind::Known(kind) = key.kind else { continue };
        let is_its = match kind.owner() {
            Owner::Tenant => false,
            Owner::Thread | Owner::ThreadRecord => kind.thread_in(&key.name).as_ref() == Some(&thread.thread),
            Owner::ThreadInContent => thread_in_content(&log.open_document(&key, &row)?, thread),
        };
        if is_its {
            let content = log.open_document(&key, &row)?;
            found.push((key, content));
        }
    }
    Ok(found)
}

/// Tells whether a document's content names a thread: it is the thread's name, or has it as its `thread`.
fn thread_in_content(content: &[u8], thread: &ThreadKey) -> bool {
    let content: Value = serde_json::from_slice(content).unwrap_or_default();
    let named = content.as_str().or_else(|| content.get("thread")?.as_str());
    named == Some(thread.thread.as_str())
}
