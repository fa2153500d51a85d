//! Stores around stores: every method passed on through one function.

/// Implements [`Store`](super::Store) for a wrapper: each call goes to `self.inner()` through `self.around(name, call)`.
macro_rules! store_around {
    ($name:ty) => {
        #[async_trait::async_trait]
        impl Store for $name {
            fn is_shared(&self) -> bool {
                self.inner().is_shared()
            }

            async fn apply(&self, writes: &[Write]) -> Result<(), StoreError> {
                self.around("apply", self.inner().apply(writes)).await
            }

            async fn thread(&self, key: &ThreadKey) -> Result<Option<ThreadRow>, StoreError> {
                self.around("thread", self.inner().thread(key)).await
            }

            async fn threads(
                &self,
                tenant: &TenantId,
                after: Option<&ThreadId>,
                limit: usize,
            ) -> Result<Vec<ThreadRow>, StoreError> {
                self.around("threads", self.inner().threads(tenant, after, limit)).await
            }

            async fn messages(&self, key: &ThreadKey, places: Range<u64>) -> Result<Vec<MessageRow>, StoreError> {
                self.around("messages", self.inner().messages(key, places)).await
            }

            async fn messages_at(&self, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>, StoreError> {
                self.around("messages_at", self.inner().messages_at(key, places)).await
            }

            async fn find(
                &self,
                tenant: &TenantId,
                scope: &str,
                ids: &[epitome::thread::MessageId],
            ) -> Result<Option<$crate::store::Found>, StoreError> {
                self.around("find", self.inner().find(tenant, scope, ids)).await
            }

            async fn plan(&self, key: &ThreadKey, version: Option<u64>) -> Result<Option<PlanRow>, StoreError> {
                self.around("plan", self.inner().plan(key, version)).await
            }

            async fn document(&self, key: &DocumentKey) -> Result<Option<DocumentRow>, StoreError> {
                self.around("document", self.inner().document(key)).await
            }

            async fn documents(
                &self,
                tenant: &TenantId,
                kind: $crate::store::DocumentKind,
                after: Option<&str>,
                limit: usize,
            ) -> Result<Vec<(DocumentKey, DocumentRow)>, StoreError> {
                self.around("documents", self.inner().documents(tenant, kind, after, limit)).await
            }

            async fn all_documents(
                &self,
                tenant: &TenantId,
                after: Option<&DocumentKey>,
                limit: usize,
            ) -> Result<Vec<(DocumentKey, DocumentRow)>, StoreError> {
                self.around("all_documents", self.inner().all_documents(tenant, after, limit)).await
            }

            async fn artifact(&self, id: &str) -> Result<Option<ArtifactRow>, StoreError> {
                self.around("artifact", self.inner().artifact(id)).await
            }

            async fn artifacts(
                &self,
                tenant: &TenantId,
                after: Option<&str>,
                limit: usize,
            ) -> Result<Vec<ArtifactRow>, StoreError> {
                self.around("artifacts", self.inner().artifacts(tenant, after, limit)).await
            }

            async fn events(&self, key: &ThreadKey, after: u64, limit: usize) -> Result<Vec<EventRow>, StoreError> {
                self.around("events", self.inner().events(key, after, limit)).await
            }

            async fn search(
                &self,
                tenant: &TenantId,
                segments: &[Segment],
                terms: &[String],
                limit: usize,
            ) -> Result<Vec<Candidate>, StoreError> {
                self.around("search", self.inner().search(tenant, segments, terms, limit)).await
            }

            async fn claim(&self, kind: &str, lease: &Lease, now: Moment) -> Result<Option<JobRow>, StoreError> {
                self.around("claim", self.inner().claim(kind, lease, now)).await
            }

            async fn job(&self, key: &ThreadKey, kind: &str) -> Result<Option<JobRow>, StoreError> {
                self.around("job", self.inner().job(key, kind)).await
            }

            async fn tenants(&self) -> Result<Vec<TenantId>, StoreError> {
                self.around("tenants", self.inner().tenants()).await
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
}

pub(super) use store_around;
