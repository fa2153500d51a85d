//! The store in an SQLite file: the default, for one machine.
//!
//! Several processes may have the same file open. An answered write is on disk. Nothing here waits on a thread that runs
//! other tasks, and reads do not wait for writes.

mod apply;
mod care;
mod failure;
mod file;
mod open;
mod queue;
mod read;
mod search;
mod slot;
mod value;
mod worker;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use epitome::thread::MessageId;
use rusqlite::{Connection, OptionalExtension as _, Params};

use self::failure::Fault;
use self::file::OpenFile;
use self::worker::{Readers, Writer};
use super::columns::FromColumns;
use super::encode::limit as most;
use super::{
    ArtifactRow, Candidate, DocumentKey, DocumentRow, EventRow, Found, JobKind, JobRow, Lease, MessageRow, PlanRow,
    Result, SearchOrder, Segment, Store, ThreadRow, VectorRow, Write,
};
use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};

/// A store in an SQLite file, or in SQLite's memory.
#[derive(Debug)]
pub struct SqliteStore {
    writer: Writer,
    /// `None` when there is but one connection.
    readers: Option<Arc<Readers>>,
}

impl SqliteStore {
    /// Opens a file, or makes it and its folder; brings its schema up to date.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        SqliteStore::open_with(path, open::BUSY_TIMEOUT)
    }

    /// The same, with how long a write waits for another process that has the file locked.
    pub fn open_with(path: impl AsRef<Path>, busy_timeout: Duration) -> Result<Self> {
        let conn = open::writer(path.as_ref(), busy_timeout)?;
        let file = OpenFile::at(path.as_ref());
        Ok(SqliteStore { writer: Writer::new(conn, Some(file.clone()))?, readers: Some(Arc::new(Readers::new(file))) })
    }

    /// The schema that this program makes of any older one.
    pub const SCHEMA: u64 = open::STEPS.len() as u64;

    /// The schema of a file as it is now; 0 when there is none.
    pub fn schema_of(path: impl AsRef<Path>) -> Result<u64> {
        Ok(open::schema(path.as_ref())?)
    }

    /// An empty store that lasts as long as the value.
    pub fn in_memory() -> Result<Self> {
        Ok(SqliteStore { writer: Writer::new(open::in_memory()?, None)?, readers: None })
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        match &self.readers {
            Some(readers) => readers.read(work).await,
            None => self.writer.run(work).await,
        }
    }

    async fn rows<T: FromColumns>(&self, sql: &'static str, values: impl Params + Send + 'static) -> Result<Vec<T>> {
        self.read(move |conn| {
            let mut select = conn.prepare_cached(sql)?;
            Ok(select.query_map(values, |row| T::read(row))?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn row<T: FromColumns>(&self, sql: &'static str, values: impl Params + Send + 'static) -> Result<Option<T>> {
        self.read(move |conn| Ok(conn.prepare_cached(sql)?.query_row(values, |row| T::read(row)).optional()?)).await
    }
}

/// The columns that name a thread.
fn names(key: &ThreadKey) -> (String, String) {
    (key.tenant.as_str().to_owned(), key.thread.as_str().to_owned())
}

#[async_trait]
impl Store for SqliteStore {
    async fn apply(&self, writes: &[Write]) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        self.writer.apply(writes.to_vec()).await
    }

    async fn thread(&self, key: &ThreadKey) -> Result<Option<ThreadRow>> {
        self.row("SELECT * FROM threads WHERE tenant = ? AND thread = ?", names(key)).await
    }

    async fn threads(&self, tenant: &TenantId, after: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
        let sql = "SELECT * FROM threads WHERE tenant = ? AND thread > ? ORDER BY thread LIMIT ?";
        let after = after.map_or("", ThreadId::as_str).to_owned();
        self.rows(sql, (tenant.as_str().to_owned(), after, most(limit))).await
    }

    async fn messages(&self, key: &ThreadKey, places: Range<u64>) -> Result<Vec<MessageRow>> {
        let sql = "SELECT m.* FROM threads t CROSS JOIN messages m ON m.slot >= (t.no << 32) + ?3 \
                   AND m.slot < (t.no << 32) + ?4 WHERE t.tenant = ?1 AND t.thread = ?2 ORDER BY m.slot";
        let (tenant, thread) = names(key);
        self.rows(sql, (tenant, thread, slot::bound(places.start), slot::bound(places.end))).await
    }

    async fn messages_at(&self, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>> {
        let (key, places) = (key.clone(), places.to_vec());
        self.read(move |conn| read::messages_at(conn, &key, &places)).await
    }

    async fn find(&self, tenant: &TenantId, scope: &str, ids: &[MessageId]) -> Result<Option<Found>> {
        let (tenant, scope, ids) = (tenant.clone(), scope.to_owned(), ids.to_vec());
        self.read(move |conn| read::find(conn, &tenant, &scope, &ids)).await
    }

    async fn plan(&self, key: &ThreadKey, version: Option<u64>) -> Result<Option<PlanRow>> {
        let Ok(version) = version.map(|version| slot::of(0, version)).transpose() else { return Ok(None) };
        let sql = "SELECT p.* FROM threads t CROSS JOIN plans p ON p.slot = (t.no << 32) + coalesce(?3, t.version) \
                   WHERE t.tenant = ?1 AND t.thread = ?2";
        let (tenant, thread) = names(key);
        self.row(sql, (tenant, thread, version)).await
    }

    async fn document(&self, key: &DocumentKey) -> Result<Option<DocumentRow>> {
        let sql = "SELECT * FROM documents WHERE tenant = ? AND kind = ? AND name = ?";
        let (tenant, kind) = (key.tenant.as_str().to_owned(), key.kind.name().to_owned());
        self.row(sql, (tenant, kind, key.name.clone())).await
    }

    async fn all_documents(
        &self,
        tenant: &TenantId,
        after: Option<&DocumentKey>,
        limit: usize,
    ) -> Result<Vec<(DocumentKey, DocumentRow)>> {
        let tenant = tenant.as_str().to_owned();
        // One condition for both would keep the index from being used.
        let Some(after) = after else {
            let sql = "SELECT * FROM documents WHERE tenant = ? ORDER BY kind, name LIMIT ?";
            return self.rows(sql, (tenant, most(limit))).await;
        };
        let sql = "SELECT * FROM documents WHERE tenant = ? AND (kind, name) > (?, ?) ORDER BY kind, name LIMIT ?";
        self.rows(sql, (tenant, after.kind.name().to_owned(), after.name.clone(), most(limit))).await
    }

    async fn artifact(&self, id: &str) -> Result<Option<ArtifactRow>> {
        self.row("SELECT * FROM artifacts WHERE id = ?", (id.to_owned(),)).await
    }

    async fn artifacts(&self, tenant: &TenantId, after: Option<&str>, limit: usize) -> Result<Vec<ArtifactRow>> {
        let sql = "SELECT * FROM artifacts WHERE tenant = ?1 AND id >= coalesce(?2, '') AND id IS NOT ?2 \
                   ORDER BY id LIMIT ?3";
        self.rows(sql, (tenant.as_str().to_owned(), after.map(str::to_owned), most(limit))).await
    }

    async fn events(&self, key: &ThreadKey, after: u64, limit: usize) -> Result<Vec<EventRow>> {
        let sql = "SELECT e.* FROM threads t CROSS JOIN events e ON e.slot > (t.no << 32) + ?3 \
                   AND e.slot < (t.no + 1) << 32 WHERE t.tenant = ?1 AND t.thread = ?2 ORDER BY e.slot LIMIT ?4";
        let (tenant, thread) = names(key);
        self.rows(sql, (tenant, thread, slot::bound(after), most(limit))).await
    }

    async fn search(
        &self,
        tenant: &TenantId,
        segments: &[Segment],
        terms: &[String],
        order: SearchOrder,
        limit: usize,
    ) -> Result<Vec<Candidate>> {
        let (tenant, segments, terms) = (tenant.clone(), segments.to_vec(), terms.to_vec());
        self.read(move |conn| search::search(conn, &tenant, &segments, &terms, order, limit)).await
    }

    async fn vectors(&self, key: &ThreadKey, before: (u64, u32), limit: usize) -> Result<Vec<VectorRow>> {
        let key = key.clone();
        self.read(move |conn| search::vectors(conn, &key, before, limit)).await
    }

    async fn unembedded(&self, key: &ThreadKey, space: &str, limit: usize) -> Result<Vec<(u64, u32)>> {
        let (key, space) = (key.clone(), space.to_owned());
        self.read(move |conn| search::unembedded(conn, &key, &space, limit)).await
    }

    async fn claim(&self, kind: &JobKind, lease: &Lease, now: Moment) -> Result<Option<JobRow>> {
        let looked_for = kind.clone();
        if !self.read(move |conn| queue::is_any_due(conn, &looked_for, now)).await? {
            return Ok(None);
        }
        let (kind, lease) = (kind.clone(), lease.clone());
        self.writer.run(move |conn| queue::claim(conn, &kind, &lease, now)).await
    }

    async fn job(&self, key: &ThreadKey, kind: &JobKind) -> Result<Option<JobRow>> {
        let sql = "SELECT * FROM jobs WHERE tenant = ? AND thread = ? AND kind = ? \
                   ORDER BY queued DESC, id DESC LIMIT 1";
        let (tenant, thread) = names(key);
        self.row(sql, (tenant, thread, kind.name().to_owned())).await
    }

    async fn tenants(&self) -> Result<Vec<TenantId>> {
        self.rows(super::encode::TENANTS, ()).await
    }

    async fn check(&self) -> Result<Vec<String>> {
        self.read(|conn| care::check(conn)).await
    }

    async fn vacuum(&self, before: Moment) -> Result<u64> {
        self.writer.run(move |conn| care::vacuum(conn, before)).await
    }

    async fn scrub(&self) -> Result<()> {
        self.writer.run(care::scrub).await
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DocumentKind;
    use crate::store::StoreError;

    /// A disk that is full is stood in for by a database that may not grow.
    #[tokio::test]
    async fn a_full_disk_is_told_as_full_and_nothing_has_changed() {
        let store = SqliteStore::in_memory().unwrap();
        store.writer.run(|conn| Ok(conn.pragma_update(None, "max_page_count", 60)?)).await.unwrap();
        let document = |name: &str, body| Write::PutDocument {
            key: DocumentKey::new(TenantId::local(), DocumentKind::Memory, name),
            expected: None,
            at: Moment(0),
            expires: None,
            body,
        };
        store.apply(&[document("small", vec![1])]).await.unwrap();
        let writes = [document("small", vec![2]), document("large", vec![0; 1_000_000])];
        let error = store.apply(&writes).await.unwrap_err();
        assert!(matches!(error, StoreError::Full(_)), "{error:?}");
        let held = store.documents(&TenantId::local(), DocumentKind::Memory, None, 9).await.unwrap();
        assert_eq!(held.iter().map(|(_, row)| row.body.clone()).collect::<Vec<_>>(), [vec![1]]);
        store.apply(&[document("small", vec![3])]).await.unwrap();
    }

    /// Many batches that wait together are committed together; one that cannot be applied does not take others along,
    /// and leaves nothing of itself.
    #[tokio::test]
    async fn batches_that_are_committed_together_fail_alone() {
        let store = SqliteStore::in_memory().unwrap();
        let put = |name: String, expected| {
            let key = DocumentKey::new(TenantId::local(), DocumentKind::Memory, name);
            Write::PutDocument { key, expected, at: Moment(0), expires: None, body: Vec::new() }
        };
        let batch = |number: usize| {
            let expected = if number.is_multiple_of(3) { 7 } else { 0 };
            [put(format!("{number} first"), None), put(format!("{number} second"), Some(expected))]
        };
        let (release, hold) = std::sync::mpsc::channel::<()>();
        let held = store.writer.run(move |_| Ok(hold.recv().is_err()));
        let batches: Vec<_> = (0..100).map(batch).collect();
        let waiting = futures_util::future::join_all(batches.iter().map(|batch| store.apply(batch)));
        let (_, outcomes, ()) = tokio::join!(held, waiting, async { drop(release) });
        let failed: Vec<usize> = (0..100).filter(|number| outcomes[*number].is_err()).collect();
        assert_eq!(failed, (0..100).step_by(3).collect::<Vec<_>>());
        let written = store.documents(&TenantId::local(), DocumentKind::Memory, None, 300).await.unwrap();
        assert_eq!(written.len(), 2 * (100 - failed.len()));
    }
}
