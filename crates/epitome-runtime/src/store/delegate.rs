//! Stores around stores: one macro passes every method on.

/// Implements [`Store`](crate::store::Store) for a type that wraps another store.
///
/// The type has two methods of its own: `inner()` returns the wrapped store, and `wrap_call(name, call)` awaits the call,
/// or decides not to. `check`, `vacuum` and `scrub` are for operators and go to the wrapped store directly. The calling
/// crate depends on `async-trait` and `epitome`, as every implementor of `Store` does.
#[macro_export]
macro_rules! delegate_store {
    ($name:ty) => {
        const _: () = {
            use ::epitome::thread::MessageId;
            use ::std::ops::Range;
            use $crate::ids::{Moment, TenantId, ThreadId, ThreadKey};
            use $crate::store::{
                ArtifactRow, Candidate, DocumentKey, DocumentRow, EventRow, Found, JobKind, JobRow, Lease, MessageRow,
                Nearest, PlanRow, SearchOrder, Segment, Store, StoreError, ThreadRow, VectorRow, Write,
            };

            #[async_trait::async_trait]
            impl Store for $name {
                fn is_shared(&self) -> bool {
                    self.inner().is_shared()
                }

                async fn apply(&self, writes: &[Write]) -> Result<(), StoreError> {
                    self.wrap_call("apply", self.inner().apply(writes)).await
                }

                async fn thread(&self, key: &ThreadKey) -> Result<Option<ThreadRow>, StoreError> {
                    self.wrap_call("thread", self.inner().thread(key)).await
                }

                async fn threads(
                    &self,
                    tenant: &TenantId,
                    after: Option<&ThreadId>,
                    limit: usize,
                ) -> Result<Vec<ThreadRow>, StoreError> {
                    self.wrap_call("threads", self.inner().threads(tenant, after, limit)).await
                }

                async fn messages(&self, key: &ThreadKey, places: Range<u64>) -> Result<Vec<MessageRow>, StoreError> {
                    self.wrap_call("messages", self.inner().messages(key, places)).await
                }

                async fn messages_at(&self, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>, StoreError> {
                    self.wrap_call("messages_at", self.inner().messages_at(key, places)).await
                }

                async fn find(
                    &self,
                    tenant: &TenantId,
                    scope: &str,
                    ids: &[MessageId],
                ) -> Result<Option<Found>, StoreError> {
                    self.wrap_call("find", self.inner().find(tenant, scope, ids)).await
                }

                async fn plan(&self, key: &ThreadKey, version: Option<u64>) -> Result<Option<PlanRow>, StoreError> {
                    self.wrap_call("plan", self.inner().plan(key, version)).await
                }

                async fn document(&self, key: &DocumentKey) -> Result<Option<DocumentRow>, StoreError> {
                    self.wrap_call("document", self.inner().document(key)).await
                }

                async fn all_documents(
                    &self,
                    tenant: &TenantId,
                    after: Option<&DocumentKey>,
                    limit: usize,
                ) -> Result<Vec<(DocumentKey, DocumentRow)>, StoreError> {
                    self.wrap_call("all_documents", self.inner().all_documents(tenant, after, limit)).await
                }

                async fn artifact(&self, id: &str) -> Result<Option<ArtifactRow>, StoreError> {
                    self.wrap_call("artifact", self.inner().artifact(id)).await
                }

                async fn artifacts(
                    &self,
                    tenant: &TenantId,
                    after: Option<&str>,
                    limit: usize,
                ) -> Result<Vec<ArtifactRow>, StoreError> {
                    self.wrap_call("artifacts", self.inner().artifacts(tenant, after, limit)).await
                }

                async fn events(&self, key: &ThreadKey, after: u64, limit: usize) -> Result<Vec<EventRow>, StoreError> {
                    self.wrap_call("events", self.inner().events(key, after, limit)).await
                }

                async fn search(
                    &self,
                    tenant: &TenantId,
                    segments: &[Segment],
                    terms: &[String],
                    order: SearchOrder,
                    limit: usize,
                ) -> Result<Vec<Candidate>, StoreError> {
                    self.wrap_call("search", self.inner().search(tenant, segments, terms, order, limit)).await
                }

                async fn vectors(
                    &self,
                    key: &ThreadKey,
                    before: (u64, u32),
                    limit: usize,
                ) -> Result<Vec<VectorRow>, StoreError> {
                    self.wrap_call("vectors", self.inner().vectors(key, before, limit)).await
                }

                async fn unembedded(
                    &self,
                    key: &ThreadKey,
                    space: &str,
                    limit: usize,
                ) -> Result<Vec<(u64, u32)>, StoreError> {
                    self.wrap_call("unembedded", self.inner().unembedded(key, space, limit)).await
                }

                async fn nearest(
                    &self,
                    tenant: &TenantId,
                    segments: &[Segment],
                    space: &str,
                    vector: &[f32],
                    limit: usize,
                ) -> Result<Option<Nearest>, StoreError> {
                    self.wrap_call("nearest", self.inner().nearest(tenant, segments, space, vector, limit)).await
                }

                async fn claim(
                    &self,
                    kind: &JobKind,
                    lease: &Lease,
                    now: Moment,
                ) -> Result<Option<JobRow>, StoreError> {
                    self.wrap_call("claim", self.inner().claim(kind, lease, now)).await
                }

                async fn job(&self, key: &ThreadKey, kind: &JobKind) -> Result<Option<JobRow>, StoreError> {
                    self.wrap_call("job", self.inner().job(key, kind)).await
                }

                async fn tenants(&self) -> Result<Vec<TenantId>, StoreError> {
                    self.wrap_call("tenants", self.inner().tenants()).await
                }

                async fn check(&self) -> Result<Vec<String>, StoreError> {
                    self.inner().check().await
                }

                async fn vacuum(&self, before: Moment) -> Result<u64, StoreError> {
                    self.inner().vacuum(before).await
                }

                async fn scrub(&self) -> Result<(), StoreError> {
                    self.inner().scrub().await
                }
            }
        };
    };
}
