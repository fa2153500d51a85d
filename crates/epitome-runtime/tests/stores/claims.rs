//! The conformance suite on the stores of this crate. The one in memory runs it beside the suite itself.

use std::sync::Arc;

use epitome_runtime::store::{SqliteStore, Store};
use epitome_testkit::conformance;

use crate::place::{Folder, fresh_schema, postgres, postgres_with_pgvector};

/// Twice, because a suite that only passes on an empty store says little.
async fn holds_every_claim_twice(store: Arc<dyn Store>) {
    for _ in 0..2 {
        if let Err(failure) = conformance::run(Arc::clone(&store)).await {
            panic!("{failure}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_a_file_holds_every_claim() {
    let folder = Folder::new();
    holds_every_claim_twice(folder.sqlite()).await;
}

#[tokio::test]
async fn sqlite_in_memory_holds_every_claim() {
    holds_every_claim_twice(Arc::new(SqliteStore::in_memory().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_holds_every_claim() {
    holds_every_claim_twice(postgres(&fresh_schema()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_with_pgvector_holds_every_claim() {
    let store = postgres_with_pgvector(&fresh_schema()).await;
    let near = store.nearest(&"acme".parse().unwrap(), &[], "a model", &[1.0], 1).await.unwrap();
    assert!(near.is_some(), "the extension is there, so the claims about vectors are put to the test on it");
    holds_every_claim_twice(store).await;
}
