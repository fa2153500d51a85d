//! Trust: which configuration files of working folders the user has accepted.
//!
//! A file in a working folder may come from anybody, with a cloned repository for one. Its guarded settings count once the
//! user has trusted it, as it is: the list holds the file's place and the hash of its content, so a file that changes has to
//! be trusted again. The list is the user's own, in the platform's state folder; a folder cannot bring one along.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// The list's name within the platform's state folder.
const LIST: &str = "epitome/trusted.json";

/// The configuration files that the user has trusted.
#[derive(Clone, Debug)]
pub struct TrustedFiles {
    list: PathBuf,
    files: Vec<TrustedFile>,
}

/// A configuration file that the user has trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedFile {
    /// Where it is: its folder without links, and its name.
    pub path: String,
    /// The hash of what it said when it was trusted.
    pub hash: String,
}

impl TrustedFiles {
    /// Reads the user's list; one that is not there yet is empty. Without a home folder there is no list.
    pub fn load(environment: &BTreeMap<String, String>) -> Result<Option<Self>, ConfigError> {
        let Some(list) = list_path(environment) else { return Ok(None) };
        let failed = |reason: String| ConfigError::Unreadable(list.clone(), reason);
        let files = match fs::read_to_string(&list) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error.to_string())),
        };
        Ok(Some(TrustedFiles { list, files }))
    }

    /// The files on it.
    pub fn files(&self) -> &[TrustedFile] {
        &self.files
    }

    /// Where the list is.
    pub fn list(&self) -> &Path {
        &self.list
    }

    /// Whether a file was trusted with this very content.
    pub fn holds(&self, file: &Path, content: &str) -> bool {
        let entry = canonical(file).map(|path| TrustedFile { path, hash: hash(content) });
        entry.is_some_and(|entry| self.files.contains(&entry))
    }

    /// Adds a file as it is now, and saves the list.
    pub fn add(&mut self, file: &Path, content: &str) -> Result<(), ConfigError> {
        let path = canonical(file).ok_or_else(|| {
            ConfigError::Unreadable(file.to_owned(), "its folder has no name that can be written down".to_owned())
        })?;
        self.files.retain(|known| known.path != path);
        self.files.push(TrustedFile { path, hash: hash(content) });
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        self.save()
    }

    /// Removes a file, and saves the list. Answers whether it was on it. A file that is gone is named by its path.
    pub fn remove(&mut self, file: &Path) -> Result<bool, ConfigError> {
        let path = canonical(file).or_else(|| file.to_str().map(str::to_owned));
        let before = self.files.len();
        self.files.retain(|known| Some(&known.path) != path.as_ref());
        let removed = self.files.len() < before;
        if removed {
            self.save()?;
        }
        Ok(removed)
    }

    fn save(&self) -> Result<(), ConfigError> {
        let failed = |error: std::io::Error| ConfigError::Unwritable(self.list.clone(), error.to_string());
        let folder = self.list.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let mut text = serde_json::to_string_pretty(&self.files).unwrap_or_default();
        text.push('\n');
        let new = self.list.with_extension(format!("{}.new", std::process::id()));
        let written = create_private(&new).and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(&new, &self.list)).map_err(failed)
    }
}

fn create_private(path: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The folder is followed to where it really is. The file itself is not: a link in a strange folder to a trusted file
/// would take relative paths from the strange folder.
fn canonical(file: &Path) -> Option<String> {
    let folder =
        fs::canonicalize(file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")));
    let path = folder.ok()?.join(file.file_name()?);
    path.to_str().map(str::to_owned)
}

fn hash(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex().to_string()
}

fn list_path(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let folder = |name: &str| environment.get(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let named = folder("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = named.or_else(|| folder("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join(LIST))
}
