//! Places to keep stores in while a test runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use epitome_runtime::store::{Sqlite, Store};

/// A folder that goes away with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("epitome-stores-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("epitome.db")
    }

    pub fn sqlite(&self) -> Arc<dyn Store> {
        Arc::new(Sqlite::open(self.file()).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
