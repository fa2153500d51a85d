//! Where a secret is: in a variable, in a file, or in the configuration itself.
//!
//! A secret is read when it is needed, by whoever needs it, and is never shown.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::setting::{ReadContext, Setting, WrittenValue};

/// The text that is shown instead of a secret.
pub const HIDDEN: &str = "***";

/// Where a secret is.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In an environment variable of this name.
    Environment(String),
    /// In a file.
    File(PathBuf),
    /// The secret itself.
    Literal(String),
}

/// Why a secret cannot be had. It does not hold the secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The variable is not set, or empty.
    #[error("the environment variable {0} holds no secret; set it, or name another one")]
    Unset(String),
    /// The file cannot be read, or is empty.
    #[error("no secret can be read from {0}: {1}")]
    Unreadable(PathBuf, String),
}

impl SecretSource {
    /// The secret itself, without space around it.
    pub fn reveal(&self, environment: &BTreeMap<String, String>) -> Result<String, SecretError> {
        match self {
            SecretSource::Environment(name) => {
                let secret = environment.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
                secret.map(str::to_owned).ok_or_else(|| SecretError::Unset(name.to_owned()))
            }
            SecretSource::File(path) => revealed_file(path),
            SecretSource::Literal(secret) => Ok(secret.clone()),
        }
    }
}

fn revealed_file(path: &std::path::Path) -> Result<String, SecretError> {
    let failed = |reason: String| SecretError::Unreadable(path.to_owned(), reason);
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    match text.trim() {
        "" => Err(failed("it is empty".to_owned())),
        secret => Ok(secret.to_owned()),
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Environment(name) => write!(f, "env:{name}"),
            SecretSource::File(path) => write!(f, "file:{}", path.display()),
            SecretSource::Literal(_) => f.write_str(HIDDEN),
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Setting for SecretSource {
    const REACHES_OUT: bool = true;
    const ALLOWED: &str = "env:NAME, file:PATH, or the secret itself";

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let text = written.text()?;
        match text.trim().split_once(':') {
            Some(("env", name)) => (!name.is_empty()).then(|| SecretSource::Environment(name.to_owned())),
            Some(("file", path)) => (!path.is_empty()).then(|| SecretSource::File(context.resolve(path))),
            _ => (!text.trim().is_empty()).then(|| SecretSource::Literal(text.trim().to_owned())),
        }
    }

    fn quoted(_: &WrittenValue) -> String {
        HIDDEN.to_owned()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}
