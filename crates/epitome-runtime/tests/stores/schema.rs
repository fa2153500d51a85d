//! Schemas: forward from every earlier version with what is in it; a newer one is left alone.

use std::path::Path;
use std::sync::Arc;

use epitome_runtime::ids::TenantId;
use epitome_runtime::store::{IndexRow, PostgresStore, SearchOrder, Segment, SqliteStore, Store, StoreError, Write};

use crate::place::{Folder, fresh_schema, postgres, postgres_url, settings};
use crate::sample::{append, create, key, message};

/// The numbered steps of a back-end, oldest first.
fn steps(back_end: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store").join(back_end).join("migrations");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// A thread as the first schema holds it, in words that both back-ends understand but for the way bytes are written.
fn old_rows(back_end: &str) -> String {
    let (tip, bytes) = match back_end {
        "sqlite" => (format!("x'{:064x}'", 1), "x'00ff'"),
        _ => (format!("'\\x{:064x}'", 1), "'\\x00ff'"),
    };
    let (names, values) = match back_end {
        "sqlite" => ("slot", "4294967296"),
        _ => ("thread, place", "1, 0"),
    };
    format!(
        "INSERT INTO threads (tenant, thread, created, updated, base, length, tip, turn, tokens, version, dialect, \
         counter, shared, labels) VALUES ('local', 'old', 0, 0, 0, 1, {tip}, 0, 1, 0, 'chat', 'o200k', '[]', {bytes}); \
         INSERT INTO messages ({names}, id, turn, parts, at, body) VALUES ({values}, {tip}, 0, '[0]', 0, {bytes});"
    )
}

/// The old thread is as it was, and everything that is newer works on it.
async fn is_up_to_date(store: Arc<dyn Store>) {
    let key = key("old");
    let old = store.messages(&key, 0..9).await.unwrap();
    assert_eq!(old.iter().map(|message| message.body.clone()).collect::<Vec<_>>(), [vec![0, 255]]);
    let rows = vec![IndexRow { place: 0, passage: 0, first_line: 1, last_line: 1, terms: vec!["found".into()] }];
    store.apply(&[append(&key, 1, 10), Write::Index { key: key.clone(), rows }]).await.unwrap();
    assert_eq!(store.messages(&key, 1..9).await.unwrap(), [message(1, 10)]);
    assert_eq!(store.unembedded(&key, "a model", 9).await.unwrap(), [(0, 0)]);
    let segments = [Segment { thread: key.thread, until: 2 }];
    let found = store.search(&TenantId::local(), &segments, &["found".into()], SearchOrder::Best, 5).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn sqlite_goes_forward_from_every_earlier_schema() {
    let steps = steps("sqlite");
    for version in 1..=steps.len() {
        let folder = Folder::new();
        let conn = rusqlite::Connection::open(folder.file()).unwrap();
        conn.execute_batch(&steps[..version].concat()).unwrap();
        conn.execute_batch(&old_rows("sqlite")).unwrap();
        conn.pragma_update(None, "user_version", u32::try_from(version).unwrap()).unwrap();
        drop(conn);
        is_up_to_date(folder.sqlite()).await;
        is_up_to_date_again(&folder.sqlite()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_goes_forward_from_every_earlier_schema() {
    let steps = steps("postgres");
    for version in 1..=steps.len() {
        let schema = fresh_schema();
        let ledger = "CREATE TABLE migrations (number bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());";
        let numbers = (1..=version).map(|number| format!("INSERT INTO migrations (number) VALUES ({number});"));
        let made = [ledger.to_owned(), steps[..version].concat(), old_rows("postgres"), numbers.collect()].concat();
        in_schema(&schema, &made).await;
        is_up_to_date(postgres(&schema).await).await;
        is_up_to_date_again(&postgres(&schema).await).await;
    }
}

async fn is_up_to_date_again(store: &Arc<dyn Store>) {
    assert_eq!(store.thread(&key("old")).await.unwrap().map(|row| row.length), Some(2));
}

async fn in_schema(schema: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(&postgres_url(), tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    client
        .batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path = {schema}; {sql}"))
        .await
        .unwrap();
    driving.abort();
}

fn is_newer(error: &StoreError, found: u64, known: usize) -> bool {
    matches!(error, StoreError::Newer { found: is, known: at_most } if *is == found && *at_most == known as u64)
}

#[tokio::test]
async fn a_newer_sqlite_schema_is_left_alone() {
    let folder = Folder::new();
    drop(folder.sqlite());
    let conn = rusqlite::Connection::open(folder.file()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteStore::open(folder.file()).unwrap_err();
    assert!(is_newer(&error, 99, steps("sqlite").len()), "{error:?}");
    assert_eq!(conn.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap(), 99);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_postgres_schema_is_left_alone() {
    let schema = fresh_schema();
    drop(postgres(&schema).await);
    in_schema(&schema, "INSERT INTO migrations (number) VALUES (99);").await;
    let error = PostgresStore::connect_with(&postgres_url(), &settings(&schema)).await.unwrap_err();
    assert!(is_newer(&error, 99, steps("postgres").len()), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_open_a_new_store_at_once_make_it_once() {
    let folder = Folder::new();
    let file = folder.file();
    let schema = fresh_schema();
    let openers: Vec<_> = (0..8)
        .map(|_| {
            let (file, schema) = (file.clone(), schema.clone());
            tokio::spawn(async move {
                tokio::task::spawn_blocking(move || SqliteStore::open(file)).await.unwrap().unwrap();
                postgres(&schema).await;
            })
        })
        .collect();
    for opener in openers {
        opener.await.unwrap();
    }
    for store in [folder.sqlite(), postgres(&schema).await] {
        store.apply(&[create(&key("one")), append(&key("one"), 0, 10)]).await.unwrap();
    }
}
