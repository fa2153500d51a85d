//! A folder that is made when it can be, for a program that goes on without its artifacts.
//!
//! It has two states. *Absent*: its folder could not be made, and every call tries again before it fails. *Open*: the
//! first call that could make it left it open, and all later ones go straight through. It never becomes absent again: a
//! folder that is deleted later is made anew by whoever writes to it.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::place::open_folder;

/// An object store in a folder that may not be there yet.
#[derive(Debug)]
pub(super) struct PendingFolder {
    path: PathBuf,
    open: OnceLock<Arc<dyn ObjectStore>>,
}

impl PendingFolder {
    pub(super) fn new(path: PathBuf) -> Self {
        PendingFolder { path, open: OnceLock::new() }
    }

    fn opened(&self) -> Result<&Arc<dyn ObjectStore>> {
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let failed = |error| Error::Generic { store: "folder", source: Box::new(error) };
        let folder = open_folder(&self.path).map_err(failed)?;
        tracing::warn!(folder = %self.path.display(), "the folder for artifacts is there now; they are kept in it");
        Ok(self.open.get_or_init(|| folder))
    }
}

impl fmt::Display for PendingFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingFolder({})", self.path.display())
    }
}

#[async_trait]
impl ObjectStore for PendingFolder {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.opened()?.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.opened()?.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.opened()?.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.opened() {
            Ok(open) => open.delete_stream(locations),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.opened() {
            Ok(open) => open.list(prefix),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.opened()?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.opened()?.copy_opts(from, to, options).await
    }
}
