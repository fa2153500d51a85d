//! What goes wrong outside is told in the store's words, and what is somebody else's is left alone.

use std::sync::Arc;
use std::time::Duration;

use epitome_runtime::ids::{Moment, TenantId};
use epitome_runtime::store::{
    DocumentKey, DocumentKind, MemoryStore, PostgresSettings, PostgresStore, SqliteStore, Store, StoreError, StoreWait,
    TimeoutStore, Write,
};
use epitome_testkit::{FaultyStore, StoreFault};

use crate::place::{Folder, fresh_schema, postgres, postgres_url, settings};
use crate::sample::{append, create, key};

#[test]
fn a_file_that_is_no_database_is_damaged_and_stays_as_it_is() {
    let folder = Folder::new();
    let prose = "This is not a database. ".repeat(100);
    std::fs::write(folder.file(), &prose).unwrap();
    let error = SqliteStore::open(folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error:?}");
    assert_eq!(std::fs::read_to_string(folder.file()).unwrap(), prose);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let folder = Folder::new();
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = SqliteStore::open(folder.file()).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_made_is_unavailable() {
    let folder = Folder::new();
    std::fs::write(folder.file(), "a file, not a folder").unwrap();
    let error = SqliteStore::open(folder.file().join("below").join("epitome.db")).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_database_and_its_log_are_readable_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    let file = folder.file().with_file_name("new").join("epitome.db");
    let store = SqliteStore::open(&file).unwrap();
    store.apply(&[create(&key("one"))]).await.unwrap();
    for name in ["epitome.db", "epitome.db-wal", "epitome.db-shm"] {
        let mode = std::fs::metadata(file.with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_vacuum_gives_the_space_of_what_expired_back() {
    let folder = Folder::new();
    let store = folder.sqlite();
    let document = |name: u8| Write::PutDocument {
        key: DocumentKey::new(TenantId::local(), DocumentKind::Summary, name.to_string()),
        expected: None,
        at: Moment(0),
        expires: Some(Moment(i64::from(name))),
        body: vec![name; 100_000],
    };
    store.apply(&(0..50).map(document).collect::<Vec<_>>()).await.unwrap();
    let bytes = || std::fs::metadata(folder.file()).unwrap().len();
    assert_eq!(store.vacuum(Moment(0)).await.unwrap(), 0);
    let full = bytes();
    assert_eq!(store.vacuum(Moment(40)).await.unwrap(), 40);
    assert!(full > 5_000_000 && bytes() < full / 3, "{full} bytes have become {}", bytes());
}

#[tokio::test]
async fn damage_inside_a_database_is_found_by_a_check() {
    let folder = Folder::new();
    let store = folder.sqlite();
    let writes: Vec<_> = (0..5).map(|place| append(&key("one"), place, 100)).collect();
    store.apply(&[create(&key("one"))]).await.unwrap();
    store.apply(&writes).await.unwrap();
    drop(store);
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("DELETE FROM messages WHERE slot & 4294967295 = 2").unwrap();
    drop(other);
    let told = folder.sqlite().check().await.unwrap();
    assert_eq!(told, ["Thread local/one does not hold all of its messages."]);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    let error = PostgresStore::connect("postgres://nobody@127.0.0.1:1/nothing").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.is_passing());
}

#[tokio::test]
async fn an_address_that_asks_for_tls_is_not_served_without() {
    let error = PostgresStore::connect(&format!("{}?sslmode=require", postgres_url())).await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_is_unavailable_and_the_next_call_has_another() {
    let schema = fresh_schema();
    let settings = PostgresSettings { connections_max: 1, ..settings(&schema) };
    let url = format!("{}?application_name={schema}", postgres_url());
    let store: Arc<dyn Store> = Arc::new(PostgresStore::connect_with(&url, &settings).await.unwrap());
    store.apply(&[create(&key("one"))]).await.unwrap();
    let server = Server::connect(&schema).await;
    server.run(&format!("BEGIN; SELECT 1 FROM {schema}.threads FOR UPDATE")).await;
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.apply(&[append(&key("one"), 0, 100)]).await }
    });
    while server.end_those_that_wait().await == 0 {
        tokio::task::yield_now().await;
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    server.run("ROLLBACK").await;
    store.apply(&[append(&key("one"), 0, 100)]).await.unwrap();
    assert_eq!(store.thread(&key("one")).await.unwrap().map(|row| row.length), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_lock_each_other_out_are_tried_again_until_both_are_done() {
    let store = postgres(&fresh_schema()).await;
    store.apply(&[create(&key("one")), create(&key("two"))]).await.unwrap();
    let label = |name: &str| Write::Label { key: key(name), labels: vec![0; 10_000] };
    let there: Vec<Write> = (0..40).map(|at| label(["one", "two"][at / 20])).collect();
    let back: Vec<Write> = there.iter().rev().cloned().collect();
    for _ in 0..5 {
        let (one, other) = tokio::join!(store.apply(&there), store.apply(&back));
        one.and(other).unwrap();
    }
}

/// The server as its operator sees it.
struct Server {
    client: tokio_postgres::Client,
    application: String,
}

impl Server {
    async fn connect(application: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(&postgres_url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        Server { client, application: application.into() }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    /// Ends the application's connections that wait for a lock. How many there were.
    async fn end_those_that_wait(&self) -> usize {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = $1 AND wait_event_type = 'Lock'";
        self.client.query(sql, &[&self.application]).await.unwrap().len()
    }
}

#[tokio::test]
async fn work_that_has_used_up_its_wait_is_not_waited_for_again() {
    let hung = FaultyStore::new(Arc::new(MemoryStore::new()));
    hung.fail(0, usize::MAX, StoreFault::Hung);
    let patient = TimeoutStore::new(Arc::new(hung), Duration::from_secs(3600));
    let wait = StoreWait::new(Duration::from_millis(50));
    let calls = async {
        for _ in 0..20 {
            assert!(patient.tenants().await.is_err());
        }
    };
    Arc::clone(&wait).during(calls).await;
    assert_eq!(wait.left(), Duration::ZERO);
}
