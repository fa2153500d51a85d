//! A test as two processes: the second is the test's own executable, told by its environment where the store is.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use epitome_runtime::store::{SqliteStore, Store};

use crate::place::{Folder, fresh_schema, postgres};

const ADDRESS: &str = "EPITOME_TEST_STORE";

/// Where a store is that two processes share.
pub enum Shared {
    Sqlite(Folder),
    Postgres(String),
}

impl Shared {
    pub fn sqlite() -> Self {
        Shared::Sqlite(Folder::new())
    }

    pub fn postgres() -> Self {
        Shared::Postgres(fresh_schema())
    }

    fn address(&self) -> String {
        match self {
            Shared::Sqlite(folder) => format!("sqlite {}", folder.file().display()),
            Shared::Postgres(schema) => format!("postgres {schema}"),
        }
    }

    pub async fn open(&self) -> Arc<dyn Store> {
        open(&self.address()).await
    }

    /// Runs the test of this name in another process, as the second of the two.
    pub fn second(&self, test: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("a test knows its executable"));
        command.args(["--exact", test, "--nocapture", "--quiet"]).env(ADDRESS, self.address());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command.spawn().expect("a test can start itself")
    }
}

/// The store of the two, if this process is the second.
pub async fn store_of_second() -> Option<Arc<dyn Store>> {
    let address = std::env::var(ADDRESS).ok()?;
    Some(open(&address).await)
}

async fn open(address: &str) -> Arc<dyn Store> {
    match address.split_once(' ') {
        Some(("sqlite", path)) => {
            Arc::new(SqliteStore::open(path).expect("a database that was closed anyhow can be opened"))
        }
        Some((_, schema)) => postgres(schema).await,
        None => panic!("{address:?} is no address of a store"),
    }
}
