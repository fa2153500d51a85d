//! Rotation: everything is sealed under the current key, and the search index is built anew with it.
//!
//! ```text
//! for each tenant
//!   for each thread   labels ─► names ─► messages ─► plans ─► events ─► vectors ─► index, unless a row of the thread could not be opened
//!   documents         all kinds, known or not: each is written back expecting its version, so that a newer write wins
//!   artifacts         new bytes first, then the metadata that points to them, then the old bytes go
//! scrub               the back-end rewrites its files: the replaced bytes are gone from the disk too
//! ```
//!
//! A row under the current key is skipped, so that a rotation that was interrupted continues where it stopped, and running
//! it twice changes nothing. Afterwards no older key is needed, and a store that was not sealed before holds nothing
//! readable. A row that cannot be opened stays as it is and is reported.

use serde::Deserialize;

use super::names::blind_names;
use super::tally::{SealedRow, Tally};
use super::{PAGE, ProgressReporter, Result, TenantDocuments, ThreadVectors, UpkeepError, threads};
use crate::artifact::{Artifacts, Finding, Unreadable};
use crate::ids::{TenantId, ThreadKey};
use crate::log::{Log, LogError, NewDocument};
use crate::recall::index_rows;
use crate::sentence;
use crate::store::{DocumentKind, StoreError, ThreadRow, VectorRow, Write};
use crate::vault::OpenError;

/// The counts of a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RotationReport {
    /// Messages.
    pub messages: u64,
    /// Plans.
    pub plans: u64,
    /// Events.
    pub events: u64,
    /// Labels of threads.
    pub labels: u64,
    /// Documents.
    pub documents: u64,
    /// Artifacts.
    pub artifacts: u64,
    /// Vectors of passages.
    pub vectors: u64,
    /// Threads whose index was made anew.
    pub indexed: u64,
    /// Threads and documents that got names which tell nothing.
    pub renamed: u64,
    /// Sentences about rows that cannot be read and stay as they are; one sentence for each missing key.
    pub left: Vec<String>,
}

/// A rotation under way.
#[derive(Default)]
struct Rotation {
    rotated: RotationReport,
    /// The rows under keys that are missing, by the reason.
    closed: Vec<(OpenError, Tally)>,
}

/// Brings everything that a store holds under the current key.
pub async fn rotate(log: &Log, artifacts: &Artifacts, said: &mut ProgressReporter<'_>) -> Result<RotationReport> {
    if !log.vault().is_sealing() {
        return Err(UpkeepError::NoKey);
    }
    let mut rotation = Rotation::default();
    for tenant in log.store().tenants().await? {
        let rows = threads(log, &tenant).await?;
        for (at, row) in rows.iter().enumerate() {
            said(format!("Sealing thread {} of {} of {tenant}", at + 1, rows.len()));
            rotation.thread(log, row).await?;
        }
        said(format!("Sealing the documents of {tenant}"));
        rotation.documents(log, &tenant).await?;
        said(format!("Sealing the artifacts of {tenant}"));
        let resealed = artifacts.reseal(&tenant).await?;
        rotation.rotated.artifacts += resealed.resealed;
        for finding in &resealed.left {
            rotation.leave_artifact(finding);
        }
    }
    said("Writing the store anew".to_owned());
    log.store().scrub().await?;
    Ok(rotation.end())
}

impl Rotation {
    /// Ends the rotation with one sentence for each missing key.
    fn end(self) -> RotationReport {
        let Rotation { mut rotated, closed } = self;
        let of_keys = closed.iter().map(|(reason, tally)| match reason {
            OpenError::UnknownKey(id) => format!(
                "{} cannot be sealed anew: the key {id}, which they are sealed with, is not configured. Name it in \
                 `keys.older` and rotate again.",
                tally.words()
            ),
            _ => format!(
                "{} cannot be sealed anew: they are sealed with another key that has the name of a configured one. \
                 Configure the key that they are sealed with and rotate again.",
                tally.words()
            ),
        });
        rotated.left.splice(0..0, of_keys);
        rotated
    }

    /// Leaves something as it is. A missing key is told once, whatever is under it.
    fn leave(&mut self, what: SealedRow, error: &LogError) {
        match error {
            LogError::Sealed(_, reason @ (OpenError::UnknownKey(_) | OpenError::WrongKey)) => {
                self.leave_closed(what, reason);
            }
            _ => self.rotated.left.push(sentence(error)),
        }
    }

    fn leave_artifact(&mut self, finding: &Finding) {
        match finding {
            Finding::Unreadable(_, Unreadable::Sealed(reason @ (OpenError::UnknownKey(_) | OpenError::WrongKey))) => {
                self.leave_closed(SealedRow::Artifact, reason);
            }
            _ => self.rotated.left.push(sentence(finding)),
        }
    }

    fn leave_closed(&mut self, what: SealedRow, reason: &OpenError) {
        let known = self.closed.iter().position(|(known, _)| known == reason);
        let at = known.unwrap_or_else(|| {
            self.closed.push((reason.clone(), Tally::default()));
            self.closed.len() - 1
        });
        self.closed[at].1.add(what, 1);
    }

    /// Returns a mark that changes with every row that is left.
    fn left(&self) -> (usize, Vec<Tally>) {
        (self.rotated.left.len(), self.closed.iter().map(|(_, tally)| *tally).collect())
    }

    async fn thread(&mut self, log: &Log, row: &ThreadRow) -> Result<()> {
        if let Some(labels) = self.taken(SealedRow::Label, log.reseal_labels(row)) {
            self.rotated.labels += 1;
            log.apply(&[Write::Label { key: row.key.clone(), labels }]).await?;
        }
        if let Some(write) = log.rename_thread(row) {
            self.rotated.renamed += 1;
            log.apply(&[write]).await?;
        }
        let left = self.left();
        self.messages(log, row).await?;
        self.plans(log, row).await?;
        self.events(log, &row.key).await?;
        self.vectors(log, &row.key).await?;
        // The index of what cannot be read could not be made anew.
        if self.left() == left { self.index(log, row).await } else { Ok(()) }
    }

    /// A body to be written; what cannot be opened is left.
    fn taken<T>(&mut self, what: SealedRow, again: Result<Option<T>, LogError>) -> Option<T> {
        again.unwrap_or_else(|error| {
            self.leave(what, &error);
            None
        })
    }

    async fn messages(&mut self, log: &Log, row: &ThreadRow) -> Result<()> {
        let mut start = row.shared.last().map_or(0, |shared| shared.until);
        while start < row.length {
            let end = (start + PAGE as u64).min(row.length);
            let mut writes = Vec::new();
            for message in log.store().messages(&row.key, start..end).await? {
                if let Some((id, body)) = self.taken(SealedRow::Message, log.reseal_message(row, &message)) {
                    writes.push(Write::Reseal { key: row.key.clone(), place: message.place, id, body });
                }
            }
            self.rotated.messages += applied(log, &writes).await?;
            start = end;
        }
        Ok(())
    }

    async fn plans(&mut self, log: &Log, row: &ThreadRow) -> Result<()> {
        for version in 1..=row.version {
            let Some(plan) = log.store().plan(&row.key, Some(version)).await? else { continue };
            if let Some(body) = self.taken(SealedRow::Plan, log.reseal_plan(&row.key, &plan)) {
                self.rotated.plans +=
                    applied(log, &[Write::ResealPlan { key: row.key.clone(), version, body }]).await?;
            }
        }
        Ok(())
    }

    async fn events(&mut self, log: &Log, key: &ThreadKey) -> Result<()> {
        let mut after = 0;
        loop {
            let page = log.store().events(key, after, PAGE).await?;
            let mut writes = Vec::new();
            for event in &page {
                if let Some(body) = self.taken(SealedRow::Event, log.reseal_event(key, event)) {
                    writes.push(Write::ResealEvent { key: key.clone(), number: event.number, body });
                }
            }
            self.rotated.events += applied(log, &writes).await?;
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.number,
                _ => return Ok(()),
            }
        }
    }

    async fn vectors(&mut self, log: &Log, key: &ThreadKey) -> Result<()> {
        let mut pages = ThreadVectors::of(log, key);
        while let Some(page) = pages.next().await? {
            let rows = page.iter().filter_map(|row| self.taken(SealedRow::Vector, log.reseal_vector(key, row)));
            let rows: Vec<VectorRow> = rows.collect();
            self.rotated.vectors += rows.len() as u64;
            log.apply(&[Write::PutVectors { key: key.clone(), rows }]).await?;
        }
        Ok(())
    }

    async fn documents(&mut self, log: &Log, tenant: &TenantId) -> Result<()> {
        self.rotated.renamed += blind_names(log, tenant).await?;
        let mut documents = TenantDocuments::of(log, tenant);
        while let Some((key, row)) = documents.next().await? {
            let Some(body) = self.taken(SealedRow::Document, log.reseal_document(&key, &row)) else { continue };
            let of_kind = || key.kind.known().and_then(|kind| kind.retention().expiry(row.at));
            let (expected, at, expires) = (Some(row.version), row.at, row.expires.or_else(of_kind));
            let write = Write::PutDocument { key, expected, at, expires, body };
            // Whoever wrote it meanwhile sealed it with the key of now.
            match log.apply(&[write]).await {
                Err(error) if !error.is_conflict() => return Err(error.into()),
                _ => self.rotated.documents += 1,
            }
        }
        Ok(())
    }

    /// Makes a thread's index anew, unless it is under the current key.
    async fn index(&mut self, log: &Log, row: &ThreadRow) -> Result<()> {
        let (tenant, name) = (&row.key.tenant, row.key.thread.as_str());
        let current = log.vault().current_key_id().unwrap_or_default().to_owned();
        let known = log.document::<String>(tenant, DocumentKind::Rotated, name).await.ok().and_then(|(known, _)| known);
        if known.as_deref() == Some(&*current) {
            return Ok(());
        }
        let mut writes = vec![Write::DropIndex(row.key.clone())];
        for (first, end) in indexed(log, row).await? {
            for start in (first..end).step_by(PAGE) {
                writes.extend(self.passages(log, row, start, (start + PAGE as u64).min(end)).await?);
                log.apply(&writes).await?;
                writes.clear();
            }
        }
        writes.push(log.put_document(NewDocument::new(tenant, DocumentKind::Rotated, name, &current)));
        log.apply(&writes).await?;
        self.rotated.indexed += 1;
        Ok(())
    }

    async fn passages(&mut self, log: &Log, row: &ThreadRow, start: u64, end: u64) -> Result<Option<Write>> {
        let mut rows = Vec::new();
        for place in start..end {
            match log.read(row, place..place + 1).await {
                Ok(entries) => rows.extend(
                    entries.iter().flat_map(|entry| index_rows(log.vault(), &row.key.tenant, place, &entry.words())),
                ),
                Err(LogError::Store(error)) => return Err(error.into()),
                Err(error) => self.leave(SealedRow::Message, &error),
            }
        }
        Ok((!rows.is_empty()).then(|| Write::Index { key: row.key.clone(), rows }))
    }
}

async fn applied(log: &Log, writes: &[Write]) -> Result<u64, StoreError> {
    if !writes.is_empty() {
        log.apply(writes).await?;
    }
    Ok(writes.len() as u64)
}

/// The part of an imported thread's source that tells what is indexed.
#[derive(Default, Deserialize)]
struct Imported {
    #[serde(default)]
    indexed: Vec<(u64, u64)>,
}

/// The runs of messages that are in a thread's index: what its plans took out, and what was imported.
async fn indexed(log: &Log, row: &ThreadRow) -> Result<Vec<(u64, u64)>> {
    let imported = match log.document::<Imported>(&row.key.tenant, DocumentKind::Source, row.key.thread.as_str()).await
    {
        Ok((imported, _)) => imported.unwrap_or_default(),
        Err(LogError::Store(error)) => return Err(error.into()),
        // It is named as left when documents are sealed.
        Err(_) => Imported::default(),
    };
    let mut runs = imported.indexed;
    for version in 1..=row.version {
        runs.extend(log.store().plan(&row.key, Some(version)).await?.into_iter().flat_map(|plan| plan.compacted));
    }
    Ok(merged(runs, row.length))
}

/// The runs in order, each place once.
fn merged(mut runs: Vec<(u64, u64)>, length: u64) -> Vec<(u64, u64)> {
    runs.sort_unstable();
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (first, end) in runs {
        let end = end.min(length);
        match found.last_mut() {
            Some(last) if first <= last.1 => last.1 = last.1.max(end),
            _ if first < end => found.push((first, end)),
            _ => {}
        }
    }
    found
}
#[cfg(test)]
mod tests {
    use super::merged;

    #[test]
    fn runs_are_merged_into_their_order_with_each_place_once() {
        let cases = [
            (vec![], vec![]),
            (vec![(5, 9), (0, 3)], vec![(0, 3), (5, 9)]),
            (vec![(0, 3), (3, 4), (2, 6)], vec![(0, 6)]),
            (vec![(0, 9), (1, 2)], vec![(0, 9)]),
            (vec![(8, 20), (12, 13)], vec![(8, 10)]),
        ];
        for (runs, expected) in cases {
            assert_eq!(merged(runs, 10), expected);
        }
    }
}
