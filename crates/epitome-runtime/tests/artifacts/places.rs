//! The same promises in every place: memory, a folder, S3.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use epitome_runtime::artifact::open_url;
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::store::{Sensitivity, Store as _};
use epitome_testkit::ObjectCall;
use object_store::ObjectStore;

use crate::house::{DAY, House, options, owner, row_of, tenant};

/// A folder that is removed in the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Folder(std::env::temp_dir().join(format!("epitome-artifacts-{}", ThreadId::new())))
    }

    pub fn address(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

async fn keeps_what_is_put(place: Arc<dyn ObjectStore>) {
    let house = House::at(place, &[("k1", 1)]);
    let (acme, now) = (owner("acme"), Moment::now());
    let big = "a long line of a big result\n".repeat(40_000);
    for content in ["", "short", "größer\nand more\n", big.as_str()] {
        let id = house.keep(&acme, content, options()).await;
        let read = house.artifacts.read(&acme, &id, now).await.unwrap();
        assert_eq!(read.text(), content);
        assert_eq!(read.metadata().bytes, content.len() as u64);
    }
    assert_eq!(house.findings("acme").await, Vec::<String>::new());

    let unfinished = house.artifacts.put(&acme, &ThreadId::new(), b"never committed", options()).await.unwrap();
    assert_eq!(house.findings("acme").await.len(), 1);
    assert_eq!(house.artifacts.sweep(now).await.unwrap().unreferenced, 0);
    assert_eq!(house.artifacts.sweep(now.after(2 * DAY)).await.unwrap().unreferenced, 1);
    assert!(house.artifacts.read(&acme, &row_of(&unfinished).id, now).await.is_err());

    let rotated = house.rekeyed(&[("k2", 2), ("k1", 1)]);
    assert_eq!(rotated.artifacts.reseal(&tenant("acme")).await.unwrap().resealed, 4);
    assert_eq!(house.rekeyed(&[("k2", 2)]).findings("acme").await, Vec::<String>::new());
}

#[tokio::test]
async fn memory_keeps_what_is_put() {
    keeps_what_is_put(open_url("memory:").unwrap()).await;
}

#[tokio::test]
async fn a_folder_keeps_what_is_put() {
    let folder = Folder::new();
    keeps_what_is_put(open_url(folder.address()).unwrap()).await;
}

#[tokio::test]
async fn a_folder_that_was_never_written_to_is_swept_and_checked_without_complaint() {
    let folder = Folder::new();
    let house = House::at(open_url(folder.address()).unwrap(), &[]);
    let write = House::new(&[]).artifacts.put(&owner("acme"), &ThreadId::new(), b"elsewhere", options()).await.unwrap();
    house.store.apply(&[write]).await.unwrap();
    assert_eq!(house.artifacts.sweep(Moment::now()).await.unwrap(), Default::default());
    let findings = house.findings("acme").await;
    assert!(findings.len() == 1 && findings[0].contains("its content is gone"), "{findings:?}");
}

/// Runs this test again in a process that has credentials in its environment, as a program has.
#[cfg(feature = "s3")]
fn with_credentials(test: &str) {
    let program = std::env::current_exe().unwrap();
    let mut run = std::process::Command::new(program);
    run.args(["--exact", test, "--nocapture"]).env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[cfg(feature = "s3")]
#[test]
fn an_s3_bucket_keeps_what_is_put() {
    let server = std::env::var("EPITOME_TEST_S3").unwrap_or_default();
    assert!(!server.is_empty(), "EPITOME_TEST_S3 is not set: run scripts/test, which starts an S3 server and sets it");
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_none() {
        return with_credentials("places::an_s3_bucket_keeps_what_is_put");
    }
    let bucket = format!("epitome-{}", ThreadId::new());
    let address = format!("s3://{bucket}/some/prefix?endpoint={server}&region=us-east-1&allow_http=true");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let place = open_url(&address).unwrap();
        let made = reqwest::Client::new().put(format!("{server}/{bucket}")).send().await.unwrap();
        assert!(made.status().is_success(), "{made:?}");
        keeps_what_is_put(place).await;
    });
}

#[tokio::test]
async fn no_file_of_a_folder_holds_eight_bytes_of_what_was_put() {
    let folder = Folder::new();
    let house = House::at(open_url(folder.address()).unwrap(), &[("k1", 1)]);
    let content = "password = hunter2; the quarterly numbers are not public yet. ".repeat(100);
    for sensitivity in Sensitivity::ALL {
        let content = format!("{content}{}", sensitivity.name());
        house.keep(&owner("acme"), &content, options()).await;
    }
    let files = files(&folder.0);
    assert_eq!(files.len(), 4);
    for file in files {
        assert!(!file.to_str().unwrap().contains("acme"), "{}", file.display());
        let bytes = std::fs::read(&file).unwrap();
        let windows: std::collections::HashSet<&[u8]> = bytes.windows(8).collect();
        assert!(content.as_bytes().windows(8).all(|window| !windows.contains(window)), "{}", file.display());
    }
}

#[tokio::test]
async fn the_same_content_is_written_once() {
    let house = House::new(&[("k1", 1)]);
    let first = house.keep(&owner("acme"), "content", options()).await;
    house.objects.mend();
    let second = house.keep(&owner("acme"), "content", options()).await;
    assert_eq!(first, second);
    assert_eq!(house.objects.calls(), [], "bytes were touched again");
    let read = house.artifacts.read(&owner("acme"), &first, Moment::now()).await.unwrap();
    assert_eq!((read.text(), house.objects.calls()), ("content", vec![ObjectCall::Get]));
}
