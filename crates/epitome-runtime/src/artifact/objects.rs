//! Bytes by name, with an end to waiting. What they mean and who may see them is decided elsewhere.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload};

use crate::ids::Moment;
use crate::vault::OpenError;

/// An error of the object store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// There is nothing under that name.
    #[error("there is no object of that name")]
    Gone,
    /// There is no room left.
    #[error("the object store is full: {0}")]
    Full(String),
    /// It can be read and not be written.
    #[error("the object store is read-only: {0}")]
    ReadOnly(String),
    /// It cannot be reached, refused, or broke off.
    #[error("the object store cannot be reached: {0}")]
    Unreachable(String),
}

impl From<object_store::Error> for ObjectsError {
    fn from(error: object_store::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};

        if matches!(error, object_store::Error::NotFound { .. }) {
            return ObjectsError::Gone;
        }
        let reason = error.to_string();
        match io_kind(&error) {
            Some(StorageFull | QuotaExceeded) => ObjectsError::Full(reason),
            Some(ReadOnlyFilesystem) => ObjectsError::ReadOnly(reason),
            _ => ObjectsError::Unreachable(reason),
        }
    }
}

/// The kind of the system's error at the bottom of an object store's.
fn io_kind(error: &object_store::Error) -> Option<std::io::ErrorKind> {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.find_map(|error| error.downcast_ref::<std::io::Error>()).map(std::io::Error::kind)
}

/// The reasons for which an artifact's content cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// There are no bytes.
    #[error("its content is gone")]
    Gone,
    /// The bytes do not open.
    #[error("its content does not open: {0}")]
    Sealed(OpenError),
    /// The bytes are not those that its id stands for.
    #[error("its content is not what its id stands for")]
    Altered,
    /// The object store did not answer.
    #[error("its content cannot be reached: {0}")]
    Unreachable(String),
}

impl From<ObjectsError> for Unreadable {
    fn from(error: ObjectsError) -> Self {
        match error {
            ObjectsError::Gone => Unreadable::Gone,
            ObjectsError::Full(reason) | ObjectsError::ReadOnly(reason) | ObjectsError::Unreachable(reason) => {
                Unreadable::Unreachable(reason)
            }
        }
    }
}

/// An object as it is listed.
pub(super) struct Listed {
    pub(super) path: Path,
    pub(super) bytes: u64,
    pub(super) modified: Moment,
}

impl From<ObjectMeta> for Listed {
    fn from(meta: ObjectMeta) -> Self {
        Listed { path: meta.location, bytes: meta.size, modified: Moment(meta.last_modified.timestamp_millis()) }
    }
}

/// An object store that is not waited for longer than this for any one answer.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    timeout: Duration,
}

impl Objects {
    pub(super) fn new(store: Arc<dyn ObjectStore>, timeout: Duration) -> Self {
        Objects { store, timeout }
    }

    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Objects { timeout, ..self }
    }

    pub(super) async fn put(&self, path: &Path, bytes: Vec<u8>) -> Result<(), ObjectsError> {
        self.within(self.store.put(path, PutPayload::from(bytes))).await?;
        Ok(())
    }

    /// The bytes of an object, unless there are more than `bytes_max`: those are not fetched.
    pub(super) async fn get(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, ObjectsError> {
        let fetch = async {
            let found = self.store.get(path).await?;
            if found.meta.size > bytes_max { Ok(None) } else { found.bytes().await.map(|bytes| Some(bytes.to_vec())) }
        };
        self.within(fetch).await
    }

    pub(super) async fn head(&self, path: &Path) -> Result<Listed, ObjectsError> {
        self.within(self.store.head(path)).await.map(Listed::from)
    }

    pub(super) async fn delete(&self, path: &Path) -> Result<(), ObjectsError> {
        match self.within(self.store.delete(path)).await {
            Err(ObjectsError::Gone) => Ok(()),
            done => done,
        }
    }

    pub(super) fn list(&self, folder: &Path) -> Listing<'_> {
        Listing { objects: self, listed: self.store.list(Some(folder)) }
    }

    async fn within<T>(&self, call: impl Future<Output = object_store::Result<T>>) -> Result<T, ObjectsError> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer.map_err(ObjectsError::from),
            Err(_) => Err(ObjectsError::Unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }
}

/// The objects of a folder, one after the other.
pub(super) struct Listing<'a> {
    objects: &'a Objects,
    listed: BoxStream<'static, object_store::Result<ObjectMeta>>,
}

impl Listing<'_> {
    pub(super) async fn next(&mut self) -> Result<Option<Listed>, ObjectsError> {
        let next = async { self.listed.next().await.transpose() };
        Ok(self.objects.within(next).await?.map(Listed::from))
    }
}
