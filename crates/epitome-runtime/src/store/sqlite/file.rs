//! The file of a database, as it was when it was opened: SQLite goes on writing to one that has no name any more.

use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// A file that is open, and what it was known by then.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl OpenFile {
    /// The file at a path, as it is now.
    pub(super) fn at(path: &Path) -> Self {
        OpenFile { path: path.into(), identity: identity(path) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether it is still at its path.
    pub(super) fn is_there(&self) -> bool {
        self.identity.is_some() && identity(&self.path) == self.identity
    }

    pub(super) fn deleted(&self) -> StoreError {
        StoreError::Deleted(self.path.display().to_string())
    }
}

/// The device and the number of a file; `None` when there is none.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let about = std::fs::metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.exists().then_some((0, 0))
}
