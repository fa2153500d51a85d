//! Where everything is kept: a new folder with an engine in it, and bare connections beside its store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::Dialect;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, OpenThread};
use epitome_runtime::ids::TenantId;
use epitome_runtime::store::SqliteStore;
use epitome_runtime::vault::{Keys, MasterKey};
use object_store::local::LocalFileSystem;
use rusqlite::Connection;

use crate::Outcome;

/// A folder of one measurement.
#[derive(Debug)]
pub struct House {
    folder: PathBuf,
}

impl House {
    /// An empty folder.
    pub fn new(folder: &Path, name: &str) -> Outcome<House> {
        let house = House::at(folder, name);
        if house.folder.exists() {
            std::fs::remove_dir_all(&house.folder)?;
        }
        std::fs::create_dir_all(house.folder.join("objects"))?;
        Ok(house)
    }

    /// One that was made before.
    pub fn at(folder: &Path, name: &str) -> House {
        House { folder: folder.join(name) }
    }

    /// Removes it.
    pub fn leave(self) -> Outcome<()> {
        Ok(std::fs::remove_dir_all(&self.folder)?)
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.folder.join("store.db")
    }

    /// An engine for a window, on this folder's store.
    pub async fn engine(&self, window: u64, keys: Keys) -> Outcome<Engine> {
        self.engine_of(&self.store(), window, keys).await
    }

    /// An engine that seals, on a store of its own.
    pub async fn sealed(&self, window: u64) -> Outcome<Engine> {
        let key = MasterKey::generate("bench".parse()?);
        self.engine_of(&self.folder.join("sealed.db"), window, Keys::new(key, Vec::new())).await
    }

    async fn engine_of(&self, store: &Path, window: u64, keys: Keys) -> Outcome<Engine> {
        let ladder = preset("ladder").ok_or("there is a preset called ladder")?;
        // What is made here in one piece may take longer than a program would wait for.
        let store_timeout = Duration::from_secs(120);
        let settings =
            EngineSettings { window: Some(Tokens::new(window)), store_timeout, ..EngineSettings::new(ladder) };
        let mut parts = EngineParts::in_memory(settings);
        parts.store = Arc::new(SqliteStore::open(store)?);
        parts.objects = Arc::new(LocalFileSystem::new_with_prefix(self.folder.join("objects"))?);
        parts.keys = keys;
        Ok(Engine::new(parts).await?)
    }

    /// A bare database beside the store: one table, the store's own settings of a connection.
    pub fn bare(&self) -> Outcome<Connection> {
        let conn = Connection::open(self.folder.join("bare.db"))?;
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")?;
        conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -16000;")?;
        conn.execute_batch("CREATE TABLE blobs (no INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
        Ok(conn)
    }

    /// A bare connection that reads the store's own file.
    pub fn bare_reader(&self) -> Outcome<Connection> {
        let conn = Connection::open(self.store())?;
        conn.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -16000;")?;
        Ok(conn)
    }
}

/// The one who works here.
pub fn owner() -> Access {
    Access::owner(TenantId::local(), "bench")
}

/// Opens a thread of a name.
pub async fn open(engine: &Engine, name: &str) -> Outcome<OpenThread> {
    Ok(engine.open(&owner(), name.parse()?, Dialect::Chat).await?)
}
