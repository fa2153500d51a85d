//! The store: what lasts. One small trait; every change is a value, and a list of them is applied whole or not at all.
//!
//! ```text
//! apply([Append, AddEvent])                       one step of an agent
//! apply([CommitPlan, Index, PutArtifact, FinishJob])   one compaction
//! ```
//!
//! A store keeps bytes and compares numbers. It knows no clock, no key and no policy: bodies come sealed, moments come in
//! with the writes, and what a body means is the caller's affair. The memory store is the reference;
//! `epitome-testkit` has the suite that every store passes.

mod columns;
mod delegate;
mod encode;
mod error;
mod kind;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod recovering;
mod row;
mod rule;
mod sqlite;
mod timeout;
mod write;

pub(crate) use encode::{number_bytes, numbers_from};
pub(crate) use error::Result;
pub use error::StoreError;
pub use kind::{DocumentKind, Naming, Owner, Retention, StoredKind, UnknownKind};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresSettings, PostgresStore};
pub use recovering::{Opener, RecoveringStore};
pub use row::{
    ArtifactRow, Candidate, DocumentKey, DocumentRow, EventRow, Found, IndexRow, JobId, JobKind, JobRow, JobState,
    Lease, MessageRow, Nearest, Neighbor, PlanRow, SearchOrder, Segment, Sensitivity, StoredVector, ThreadRow,
    VectorRow,
};
pub use sqlite::SqliteStore;
pub use timeout::{StoreWait, TimeoutStore};
pub use write::{JobEnd, NewJob, Write};

use std::ops::Range;

use async_trait::async_trait;
use epitome::thread::MessageId;

use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};

/// Keeps threads, plans, documents, artifact metadata, events and jobs.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Tells whether other processes are likely to work with it at the same time, so that they have to find what this one has just
    /// written.
    fn is_shared(&self) -> bool {
        false
    }

    /// Applies writes in their order, all of them or none. [`StoreError::Conflict`] when one of them expected another
    /// state than there is; nothing has changed then.
    async fn apply(&self, writes: &[Write]) -> Result<()>;

    /// A thread, if there is one.
    async fn thread(&self, key: &ThreadKey) -> Result<Option<ThreadRow>>;

    /// The tenant's threads in the order of their ids, from the one after `after` on, `limit` at most.
    async fn threads(&self, tenant: &TenantId, after: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>>;

    /// The messages that the thread itself holds at these places, in order; a fork's shared ones are its parent's.
    async fn messages(&self, key: &ThreadKey, places: Range<u64>) -> Result<Vec<MessageRow>>;

    /// The messages that the thread itself holds at single places, in the order of their places, each once.
    async fn messages_at(&self, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>>;

    /// The first of these messages, in their order, that a thread of the tenant holds whose scope is this; of
    /// several such threads the one that was last changed.
    async fn find(&self, tenant: &TenantId, scope: &str, ids: &[MessageId]) -> Result<Option<Found>>;

    /// The plan of this version; the newest without one.
    async fn plan(&self, key: &ThreadKey, version: Option<u64>) -> Result<Option<PlanRow>>;

    /// A document.
    async fn document(&self, key: &DocumentKey) -> Result<Option<DocumentRow>>;

    /// The documents of a kind, in the order of their names, from the one after `after` on, `limit` at most.
    async fn documents(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(DocumentKey, DocumentRow)>> {
        let from = DocumentKey::new(tenant.clone(), kind, after.unwrap_or_default());
        let mut page = self.all_documents(tenant, Some(&from), limit).await?;
        page.retain(|(key, _)| key.kind == from.kind);
        // A name may be empty, and no cursor comes before that.
        if after.is_none()
            && let Some(row) = self.document(&from).await?
        {
            page.insert(0, (from, row));
            page.truncate(limit);
        }
        Ok(page)
    }

    /// The tenant's documents of all kinds, known or not, in the order of the kinds' names and then of their own, from the
    /// one after `after` on, `limit` at most. What looks after a store goes through these, so that it forgets no kind.
    async fn all_documents(
        &self,
        tenant: &TenantId,
        after: Option<&DocumentKey>,
        limit: usize,
    ) -> Result<Vec<(DocumentKey, DocumentRow)>>;

    /// An artifact's metadata by its id alone: whose it is stands in the row.
    async fn artifact(&self, id: &str) -> Result<Option<ArtifactRow>>;

    /// The tenant's artifacts in the order of their ids, from the one after `after` on, `limit` at most.
    async fn artifacts(&self, tenant: &TenantId, after: Option<&str>, limit: usize) -> Result<Vec<ArtifactRow>>;

    /// The thread's events, oldest first, from the one after number `after` on (0: from the first), `limit` at most.
    async fn events(&self, key: &ThreadKey, after: u64, limit: usize) -> Result<Vec<EventRow>>;

    /// The indexed passages that hold any of these terms, in an order: of each segment those before its end.
    async fn search(
        &self,
        tenant: &TenantId,
        segments: &[Segment],
        terms: &[String],
        order: SearchOrder,
        limit: usize,
    ) -> Result<Vec<Candidate>>;

    /// The vectors that the thread itself holds, those of the newest passages first, from the one before the passage
    /// `before` on (a place and its passage), `limit` at most.
    async fn vectors(&self, key: &ThreadKey, before: (u64, u32), limit: usize) -> Result<Vec<VectorRow>>;

    /// The passages in the thread's own index that have no vector of this space, the newest first, `limit` at most.
    async fn unembedded(&self, key: &ThreadKey, space: &str, limit: usize) -> Result<Vec<(u64, u32)>>;

    /// The passages whose vectors of this space are nearest to a vector: of each segment those before its end. `None` where
    /// the back-end cannot compare vectors, or not all of these: then the caller reads and compares them.
    async fn nearest(
        &self,
        _tenant: &TenantId,
        _segments: &[Segment],
        _space: &str,
        _vector: &[f32],
        _limit: usize,
    ) -> Result<Option<Nearest>> {
        Ok(None)
    }

    /// Takes the oldest job that is due: ready, or running with a lease that has run out. Not one of a thread that has
    /// another job running. A job whose attempts are used up is marked dead and passed over.
    async fn claim(&self, kind: &JobKind, lease: &Lease, now: Moment) -> Result<Option<JobRow>>;

    /// The thread's newest job of a kind.
    async fn job(&self, key: &ThreadKey, kind: &JobKind) -> Result<Option<JobRow>>;

    /// The tenants that have anything in the store.
    async fn tenants(&self) -> Result<Vec<TenantId>>;

    /// Looks for damage that the back-end itself can see, and says it in sentences; empty when all is well.
    async fn check(&self) -> Result<Vec<String>>;

    /// Removes documents and finished jobs that are past `before`, and gives space back. Messages, plans and events stay.
    async fn vacuum(&self, before: Moment) -> Result<u64>;

    /// Writes everything anew, so that nothing is left on its medium of what was replaced or removed, as far as the
    /// back-end can see to that.
    async fn scrub(&self) -> Result<()>;
}
