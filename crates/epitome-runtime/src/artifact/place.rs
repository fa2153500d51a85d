//! Where the bytes of artifacts go: memory, a folder, or S3-compatible storage, by an address.
//!
//! An address names a place and never a secret: credentials come from the environment (`AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`, …), and an address that holds any is refused.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use reqwest::Url;

use super::pending::PendingFolder;

/// An address that leads to no object store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It is no address.
    #[error(
        "{0:?} is not a place for artifacts: write memory:, a folder, file:///folder, or \
         s3://bucket/prefix?endpoint=…&region=…&allow_http=true"
    )]
    Address(String),
    /// It holds something that does not belong there.
    #[error("the address of an S3 bucket may not hold {0}: {1}")]
    Extra(String, &'static str),
    /// The folder cannot be made or opened.
    #[error("the folder {folder} cannot be used for artifacts: {reason}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why.
        reason: String,
    },
    /// The storage refuses these settings.
    #[error("the S3 bucket cannot be used for artifacts: {0}")]
    Bucket(String),
}

/// The object store at an address: `memory:`, a folder, `file:///folder` or `s3://bucket/prefix?endpoint=…`.
pub fn open_url(address: &str) -> Result<Arc<dyn ObjectStore>, PlaceError> {
    match place(address)? {
        Place::Folder(path) => {
            let failed = |error: io::Error| PlaceError::Folder {
                folder: path.display().to_string(),
                reason: error.kind().to_string(),
            };
            open_folder(&path).map_err(failed)
        }
        Place::Open(objects) => Ok(objects),
    }
}

/// The same for a program that goes on without its artifacts: a folder that cannot be made now is made by the first call
/// that can, and until then every call fails. A warning says so. What is wrong with the address is still an error.
pub fn open_url_when_possible(address: &str) -> Result<Arc<dyn ObjectStore>, PlaceError> {
    match place(address)? {
        Place::Folder(path) => Ok(open_folder(&path).unwrap_or_else(|error| {
            let (folder, reason) = (path.display(), error.kind());
            tracing::warn!(%folder, %reason, "the folder for artifacts cannot be made; it is tried again with each use");
            Arc::new(PendingFolder::new(path))
        })),
        Place::Open(objects) => Ok(objects),
    }
}

/// The kinds of object stores.
enum Place {
    /// A folder, which need not be there.
    Folder(PathBuf),
    /// Something that is open by being named.
    Open(Arc<dyn ObjectStore>),
}

fn place(address: &str) -> Result<Place, PlaceError> {
    let wrong = || PlaceError::Address(without_secrets(address));
    match address.split_once(':') {
        Some(("memory", "" | "//")) => Ok(Place::Open(Arc::new(InMemory::new()))),
        Some(("file", _)) => {
            let path = Url::parse(address).ok().and_then(|url| url.to_file_path().ok());
            path.map(Place::Folder).ok_or_else(wrong)
        }
        Some(("s3", _)) => bucket(&Url::parse(address).map_err(|_| wrong())?).map(Place::Open),
        Some(("memory", _)) => Err(wrong()),
        Some((_, rest)) if rest.starts_with("//") => Err(wrong()),
        _ if address.is_empty() => Err(wrong()),
        _ => Ok(Place::Folder(PathBuf::from(address))),
    }
}

/// As much of an address as can be shown: nothing before an `@`, nothing after a `?`.
fn without_secrets(address: &str) -> String {
    let address = address.split('?').next().unwrap_or_default();
    address.rsplit('@').next().unwrap_or_default().to_owned()
}

/// Makes a folder unless it is there, and opens it.
pub(super) fn open_folder(path: &Path) -> io::Result<Arc<dyn ObjectStore>> {
    make_private(path)?;
    let files = LocalFileSystem::new_with_prefix(path).map_err(io::Error::other)?;
    // A plan that names an artifact may be committed right after: its bytes must survive a loss of power.
    Ok(Arc::new(files.with_fsync(true)))
}

/// Makes a folder that only its owner can look into.
fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(not(feature = "s3"))]
fn bucket(_: &Url) -> Result<Arc<dyn ObjectStore>, PlaceError> {
    Err(PlaceError::Bucket("this program was built without the feature s3".to_owned()))
}

#[cfg(feature = "s3")]
fn bucket(url: &Url) -> Result<Arc<dyn ObjectStore>, PlaceError> {
    use object_store::aws::AmazonS3Builder;
    use object_store::prefix::PrefixStore;

    let name = url.host_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| PlaceError::Address(without_secrets(url.as_str())))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(PlaceError::Extra("a name and a password".to_owned(), FROM_THE_ENVIRONMENT));
    }
    crate::tls::install_provider();
    let builder = AmazonS3Builder::from_env().with_bucket_name(name).with_retry(retry_config());
    let builder = builder.with_client_options(timeouts());
    let failed = |error: object_store::Error| PlaceError::Bucket(error.to_string());
    let bucket = configured(builder, url)?.build().map_err(failed)?;
    match url.path().trim_matches('/') {
        "" => Ok(Arc::new(bucket)),
        prefix => Ok(Arc::new(PrefixStore::new(bucket, prefix))),
    }
}

#[cfg(feature = "s3")]
const FROM_THE_ENVIRONMENT: &str =
    "credentials come from the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

#[cfg(feature = "s3")]
fn configured(
    mut builder: object_store::aws::AmazonS3Builder,
    url: &Url,
) -> Result<object_store::aws::AmazonS3Builder, PlaceError> {
    for (key, value) in url.query_pairs() {
        builder = match (key.as_ref(), value.as_ref()) {
            ("endpoint", endpoint) => builder.with_endpoint(endpoint),
            ("region", region) => builder.with_region(region),
            ("allow_http", allow) => builder.with_allow_http(allow == "true"),
            _ => return Err(PlaceError::Extra(format!("{key:?}"), ONLY_THESE)),
        };
    }
    Ok(builder)
}

#[cfg(feature = "s3")]
const ONLY_THESE: &str = "endpoint, region and allow_http are known, and everything else comes from the environment";

/// A compaction waits for this, so it gives up sooner than a copying program would.
#[cfg(feature = "s3")]
fn retry_config() -> object_store::RetryConfig {
    object_store::RetryConfig {
        max_retries: 3,
        retry_timeout: std::time::Duration::from_secs(20),
        ..object_store::RetryConfig::default()
    }
}

#[cfg(feature = "s3")]
fn timeouts() -> object_store::ClientOptions {
    use std::time::Duration;

    object_store::ClientOptions::new()
        .with_timeout(Duration::from_secs(30))
        .with_connect_timeout(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_names_no_place_is_refused_in_words() {
        let cases = [
            ("", "is not a place for artifacts"),
            ("https://example.test/x", "is not a place for artifacts"),
            ("memory:elsewhere", "is not a place for artifacts"),
            ("/dev/null/folder", "cannot be used"),
            ("file:///dev/null/folder", "cannot be used"),
        ];
        for (address, expected) in cases {
            refuses(address, expected);
        }
    }

    fn refuses(address: &str, expected: &str) {
        let error = open_url(address).unwrap_err().to_string();
        assert!(error.contains(expected), "{address}: {error}");
    }

    #[cfg(feature = "s3")]
    #[test]
    fn the_address_of_a_bucket_holds_no_secrets_and_nothing_unknown() {
        let cases = [
            ("s3://", "is not a place for artifacts"),
            ("s3://bucket?color=red", "may not hold \"color\""),
            ("s3://bucket?access_key_id=AKIA", "may not hold \"access_key_id\""),
            ("s3://AKIA:hidden@bucket/prefix", "a name and a password"),
        ];
        for (address, expected) in cases {
            refuses(address, expected);
        }
    }

    #[cfg(feature = "s3")]
    #[test]
    fn a_bucket_is_opened_with_its_prefix() {
        let cases = [
            ("s3://bucket", "AmazonS3(bucket)"),
            ("s3://bucket/some/prefix?region=eu-central-1", "PrefixObjectStore(some/prefix)"),
        ];
        for (address, expected) in cases {
            assert_eq!(open_url(address).unwrap().to_string(), expected);
        }
    }

    #[cfg(not(feature = "s3"))]
    #[test]
    fn a_bucket_is_refused_where_it_was_not_built_in() {
        refuses("s3://bucket", "without the feature s3");
    }

    #[test]
    fn a_refusal_does_not_repeat_a_secret() {
        for address in
            ["ftp://me:hidden@host/x?key=hidden", "s3://AKIA:hidden@bucket", "s3://b?secret_access_key=hidden"]
        {
            let error = open_url(address).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
        }
    }

    #[test]
    fn places_are_told_apart_by_their_address() {
        let folder = std::env::temp_dir().join(format!("epitome place {}", uuid::Uuid::now_v7()));
        let url = Url::from_file_path(&folder).unwrap();
        let cases =
            [("memory:", "InMemory"), (folder.to_str().unwrap(), "LocalFileSystem"), (url.as_str(), "LocalFileSystem")];
        for (address, expected) in cases {
            let shown = open_url(address).unwrap().to_string();
            assert!(shown.contains(expected), "{address}: {shown}");
        }
        std::fs::remove_dir(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_made_yet_is_used_once_it_can_be() {
        use object_store::ObjectStoreExt as _;

        let parent = std::env::temp_dir().join(format!("epitome-place-{}", uuid::Uuid::now_v7()));
        std::fs::write(&parent, "a file where a folder should be").unwrap();
        let folder = parent.join("artifacts");
        assert!(open_url(folder.to_str().unwrap()).is_err());
        let objects = open_url_when_possible(folder.to_str().unwrap()).unwrap();
        let (path, bytes) = (object_store::path::Path::from("one"), b"content".to_vec());
        assert!(objects.put(&path, bytes.clone().into()).await.is_err());
        assert!(objects.get(&path).await.is_err());
        std::fs::remove_file(&parent).unwrap();
        objects.put(&path, bytes.clone().into()).await.unwrap();
        assert_eq!(objects.get(&path).await.unwrap().bytes().await.unwrap(), bytes);
        std::fs::remove_dir_all(&parent).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_new_folder_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = std::env::temp_dir().join(format!("epitome-place-{}", uuid::Uuid::now_v7()));
        open_url(folder.to_str().unwrap()).unwrap();
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(mode & 0o777, 0o700);
    }
}
