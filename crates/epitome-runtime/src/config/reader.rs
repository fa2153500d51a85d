//! The reader: takes one setting after the other out of the layers, and remembers where each came from.

use std::path::{Path, PathBuf};

use super::address::{ArtifactsUrl, StoreUrl};
use super::error::ConfigError;
use super::layer::{Layers, Origin, Sources};
use super::sections::KEYS;
use super::setting::{Frame, Given, Key, Setting};

/// The folder within the platform's data folder.
const FOLDER: &str = "epitome";

/// Stands in defaults for the data folder, and for a folder beside the store.
const DATA: &str = "$DATA";
const BESIDE: &str = "$BESIDE";

pub(super) struct Reader<'a> {
    sources: &'a Sources,
    layers: &'a Layers,
    home: Option<PathBuf>,
    explained: Vec<(&'static str, String, Origin)>,
}

impl<'a> Reader<'a> {
    pub fn new(sources: &'a Sources, layers: &'a Layers) -> Self {
        let home = sources.environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        Reader { sources, layers, home, explained: Vec::new() }
    }

    /// Takes the value of a setting.
    pub fn take<T: Setting>(&mut self, name: &'static str) -> Result<T, ConfigError> {
        let key = KEYS.iter().find(|key| key.name == name).expect("both come from one list");
        let (value, origin) = self.value::<T>(key)?;
        self.explained.push((key.name, value.shown(), origin));
        Ok(value)
    }

    /// What was taken: names, values as they can be shown, and where they came from.
    pub fn into_explained(self) -> Vec<(&'static str, String, Origin)> {
        self.explained
    }

    fn value<T: Setting>(&self, key: &'static Key) -> Result<(T, Origin), ConfigError> {
        let (given, origin) = match self.layers.of(key) {
            Some((given, origin)) => (given.clone(), origin.clone()),
            None => match (key.default, T::absent()) {
                ("", Some(absent)) => return Ok((absent, Origin::Default)),
                _ => (Given::from_text(key.shape, &self.default(key)?), Origin::Default),
            },
        };
        let frame = self.frame(key, &origin);
        let wrong = || ConfigError::Wrong {
            key: key.name.to_owned(),
            written: T::written(&given),
            at: origin.clone(),
            allowed: T::allowed(&frame),
        };
        let value = T::read(&given, &frame).ok_or_else(wrong)?;
        Ok((value, origin))
    }

    /// Relative paths begin where they are written: in the file's folder, or in the working folder.
    fn frame<'b>(&'b self, key: &Key, origin: &'b Origin) -> Frame<'b> {
        let folder = match origin {
            Origin::File { path, .. } => path.parent().unwrap_or(Path::new(".")),
            _ => &self.sources.folder,
        };
        Frame { range: key.range, folder, home: self.home.as_deref() }
    }

    fn default(&self, key: &'static Key) -> Result<String, ConfigError> {
        match key.default {
            BESIDE => self.beside_store(key),
            text if text.contains(DATA) => Ok(text.replace(DATA, &self.data(key)?)),
            text => Ok(text.to_owned()),
        }
    }

    /// Artifacts go where the store is: into its folder, into the data folder, or nowhere.
    fn beside_store(&self, key: &'static Key) -> Result<String, ConfigError> {
        let store = KEYS.iter().find(|key| key.name == "store.url").expect("it is in the list");
        let (store, _) = self.value::<StoreUrl>(store)?;
        let artifacts = match (&store, store.folder()) {
            (StoreUrl::Memory, _) => ArtifactsUrl::Memory,
            (_, Some(folder)) => ArtifactsUrl::Folder(folder.join("artifacts")),
            (_, None) => ArtifactsUrl::Folder(Path::new(&self.data(key)?).join("artifacts")),
        };
        Ok(artifacts.to_string())
    }

    fn data(&self, key: &'static Key) -> Result<String, ConfigError> {
        let named = self.sources.environment.get("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = named.or_else(|| self.home.as_ref().map(|home| home.join(".local/share")));
        let folder = folder.ok_or(ConfigError::Homeless { key: key.name })?;
        Ok(folder.join(FOLDER).display().to_string())
    }
}
