//! The conformance suite on the stores of this crate. The one in memory runs it beside the suite itself.

use std::sync::Arc;

use epitome_runtime::store::{SqliteStore, Store};
use epitome_testkit::conformance;

use crate::place::{Folder, fresh_schema, postgres};

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
