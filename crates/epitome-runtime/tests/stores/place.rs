//! Places to keep stores in while a test runs.

use std::path::PathBuf;
use std::sync::Arc;

use epitome_runtime::store::{PostgresSettings, PostgresStore, SqliteStore, Store};

/// A folder that goes away with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("epitome-stores-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written to");
        Folder(path)
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("epitome.db")
    }

    pub fn sqlite(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.file()).expect("a new database can be opened"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The address of the database that tests may use.
pub fn postgres_url() -> String {
    variable("EPITOME_TEST_POSTGRES")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run scripts/test, or scripts/services start and then `set -a; . target/services/env`"
        )
    })
}

/// The name of a schema that nobody else has.
pub fn fresh_schema() -> String {
    format!("test_{}", uuid::Uuid::now_v7().simple())
}

pub fn settings(schema: &str) -> PostgresSettings {
    PostgresSettings { schema: schema.into(), ..PostgresSettings::default() }
}

pub async fn postgres(schema: &str) -> Arc<dyn Store> {
    connect(&postgres_url(), schema).await
}

/// A database that compares vectors by itself.
pub async fn postgres_with_pgvector(schema: &str) -> Arc<dyn Store> {
    connect(&variable("EPITOME_TEST_PGVECTOR"), schema).await
}

async fn connect(url: &str, schema: &str) -> Arc<dyn Store> {
    let store = PostgresStore::connect_with(url, &settings(schema)).await;
    Arc::new(store.expect("the database of the tests can be reached"))
}
