//! Addresses: where the store, the artifacts and a provider are.
//!
//! An address is not opened here. One with a password in it never shows it.

use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::secret::HIDDEN;
use super::setting::{ReadContext, Setting, WrittenValue};

/// Where threads, plans, events and jobs are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file.
    Sqlite(PathBuf),
    /// A server: the address as it is, with its password.
    Postgres(String),
    /// Nowhere: they go with the process.
    Memory,
}

impl StoreUrl {
    /// The folder that the store is in, where it is in one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            StoreUrl::Sqlite(path) => path.parent(),
            StoreUrl::Postgres(_) | StoreUrl::Memory => None,
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreUrl::Postgres(url) => f.write_str(&without_password(url)),
            StoreUrl::Memory => f.write_str("memory:"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Setting for StoreUrl {
    const REACHES_OUT: bool = true;
    const ALLOWED: &str = "sqlite:PATH, postgres://… or memory:";

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let text = written.text()?;
        match text.split_once(':')? {
            ("sqlite", path) if !path.is_empty() => {
                Some(StoreUrl::Sqlite(context.resolve(path.trim_start_matches("//"))))
            }
            ("postgres" | "postgresql", _) => Url::parse(text).ok().map(|_| StoreUrl::Postgres(text.to_owned())),
            ("memory", "") => Some(StoreUrl::Memory),
            _ => None,
        }
    }

    fn quoted(written: &WrittenValue) -> String {
        written_without_credentials(written)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// An address that is refused may be refused because of the credentials in it.
fn written_without_credentials(written: &WrittenValue) -> String {
    let written = written.quoted();
    if written.contains('@') || written.contains("password") { HIDDEN.to_owned() } else { written }
}

fn without_password(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return HIDDEN.to_owned() };
    if url.password().is_some() && url.set_password(Some(HIDDEN)).is_err() {
        return HIDDEN.to_owned();
    }
    // A password may also come as a parameter.
    if url.query().is_some_and(|query| query.contains("password")) {
        url.set_query(Some(HIDDEN));
    }
    url.to_string()
}

/// Where the bytes of artifacts are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactsUrl {
    /// A folder.
    Folder(PathBuf),
    /// S3-compatible storage: the address as it is. Credentials come from the environment.
    Bucket(String),
    /// Nowhere: they go with the process.
    Memory,
}

impl fmt::Display for ArtifactsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArtifactsUrl::Folder(path) => write!(f, "{}", path.display()),
            ArtifactsUrl::Bucket(url) => f.write_str(url),
            ArtifactsUrl::Memory => f.write_str("memory:"),
        }
    }
}

impl Setting for ArtifactsUrl {
    const REACHES_OUT: bool = true;
    const ALLOWED: &str = "a folder, s3://BUCKET/PREFIX without credentials, or memory:";

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let text = written.text()?;
        match text.split_once(':') {
            Some(("memory", "")) => Some(ArtifactsUrl::Memory),
            Some(("s3", _)) => bucket(text),
            Some(("file", path)) if !path.is_empty() => {
                Some(ArtifactsUrl::Folder(context.resolve(path.strip_prefix("//").unwrap_or(path))))
            }
            Some((_, rest)) if rest.starts_with("//") => None,
            _ if text.is_empty() => None,
            _ => Some(ArtifactsUrl::Folder(context.resolve(text))),
        }
    }

    fn quoted(written: &WrittenValue) -> String {
        written_without_credentials(written)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

fn bucket(text: &str) -> Option<ArtifactsUrl> {
    let url = Url::parse(text).ok()?;
    let named = url.host_str().is_some_and(|name| !name.is_empty());
    (named && !has_credentials(&url)).then(|| ArtifactsUrl::Bucket(text.to_owned()))
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// An address that begins with `http://` or `https://` and has no credentials in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl(String);

impl HttpUrl {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for HttpUrl {
    const REACHES_OUT: bool = true;
    const ALLOWED: &str = "an address that begins with http:// or https:// and has no name or password in it";

    fn read(written: &WrittenValue, _: &ReadContext<'_>) -> Option<Self> {
        let text = written.text()?;
        let url = Url::parse(text).ok()?;
        let fine = matches!(url.scheme(), "http" | "https") && url.has_host() && !has_credentials(&url);
        fine.then(|| HttpUrl(text.to_owned()))
    }

    fn quoted(written: &WrittenValue) -> String {
        written_without_credentials(written)
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// Where a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelUrl {
    /// A provider.
    Http(HttpUrl),
    /// A script that answers in the place of one.
    Script(PathBuf),
}

impl ModelUrl {
    /// Who is called, in short: the host and its port, or the script.
    pub fn host(&self) -> String {
        let host = |url: &HttpUrl| {
            let url = Url::parse(url.as_str()).ok()?;
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            Some(format!("{}{port}", url.host_str()?))
        };
        match self {
            ModelUrl::Http(url) => host(url).unwrap_or_else(|| url.as_str().to_owned()),
            ModelUrl::Script(_) => self.to_string(),
        }
    }
}

impl fmt::Display for ModelUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelUrl::Http(url) => f.write_str(url.as_str()),
            ModelUrl::Script(path) => write!(f, "script:{}", path.display()),
        }
    }
}

impl Setting for ModelUrl {
    const REACHES_OUT: bool = true;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let text = written.text()?;
        match text.split_once(':') {
            Some(("script", path)) => (!path.is_empty()).then(|| ModelUrl::Script(context.resolve(path))),
            _ => HttpUrl::read(written, context).map(ModelUrl::Http),
        }
    }

    fn quoted(written: &WrittenValue) -> String {
        HttpUrl::quoted(written)
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        format!("{}, or script:PATH", HttpUrl::allowed(context))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}
