//! A store that is locked, deleted or not there yet is told as that, and comes back by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use epitome_runtime::store::{MemoryStore, RecoveringStore, SqliteStore, Store, StoreError};

use crate::place::Folder;
use crate::sample::{append, create, key};

#[tokio::test(flavor = "multi_thread")]
async fn while_another_process_writes_a_file_can_be_opened_and_read_and_a_write_is_told_as_locked() {
    let folder = Folder::new();
    folder.sqlite().apply(&[create(&key("one"))]).await.unwrap();
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let store = SqliteStore::open_with(folder.file(), Duration::from_millis(100)).unwrap();
    assert!(store.thread(&key("one")).await.unwrap().is_some());
    // Those that wait together are answered together, not one after the other.
    let writes: Vec<_> = (0..20).map(|at| [append(&key("one"), 0, at)]).collect();
    for outcome in futures_util::future::join_all(writes.iter().map(|write| store.apply(write))).await {
        let error = outcome.unwrap_err();
        assert!(matches!(error, StoreError::Locked(_)) && error.is_passing(), "{error:?}");
    }
    drop(other);
    store.apply(&[append(&key("one"), 0, 100)]).await.unwrap();
}

#[test]
fn a_file_that_another_process_has_for_itself_is_told_as_locked() {
    let folder = Folder::new();
    drop(folder.sqlite());
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE theirs (x);").unwrap();
    let error = SqliteStore::open(folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_to_a_file_that_was_deleted_or_replaced() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    drop(elsewhere.sqlite());
    for is_replaced in [false, true] {
        let store = folder.sqlite();
        store.apply(&[create(&key(if is_replaced { "two" } else { "one" }))]).await.unwrap();
        for name in ["epitome.db", "epitome.db-wal", "epitome.db-shm"] {
            let _ = std::fs::remove_file(folder.file().with_file_name(name));
        }
        if is_replaced {
            std::fs::copy(elsewhere.file(), folder.file()).unwrap();
        }
        let written = store.apply(&[create(&key("three"))]).await.unwrap_err();
        assert!(matches!(written, StoreError::Deleted(_)), "{written:?}");
        let read = store.thread(&key("one")).await.unwrap_err();
        assert!(matches!(read, StoreError::Deleted(_)), "{read:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_not_there_fails_at_once_with_why_and_is_used_when_it_comes() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let store = RecoveringStore::new(Box::new(move || {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match number {
                0..3 => Err(StoreError::Locked(format!("try {number}"))),
                _ => Ok(Arc::new(MemoryStore::new()) as Arc<dyn Store>),
            }
        })
    }));
    assert!(matches!(store.tenants().await, Err(StoreError::Unavailable(_))), "nobody has opened it");
    let opening = tokio::spawn({
        let store = store.clone();
        async move {
            // The first that opens cannot be used.
            let adopted = AtomicUsize::new(0);
            let adopt = |_| {
                let is_first = adopted.fetch_add(1, Ordering::Relaxed) == 0;
                async move { if is_first { Err(StoreError::Damaged("odd".into())) } else { Ok(()) } }
            };
            store.keep_open(adopt).await;
        }
    });
    assert!(!store.first_try(Duration::from_secs(5)).await);
    assert!(matches!(store.tenants().await, Err(StoreError::Locked(_))));
    while !store.is_open() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(store.tenants().await.unwrap().is_empty());
    assert_eq!(tries.load(Ordering::Relaxed), 5);
    opening.abort();
}
