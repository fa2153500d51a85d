//! The reader: takes one setting after another out of the layers, and remembers where each came from.

use std::path::{Path, PathBuf};

use super::address::{ArtifactsUrl, StoreUrl};
use super::error::ConfigError;
use super::layer::{Layers, Origin, Sources};
use super::setting::{Key, ReadContext, Setting, WrittenValue};

/// The folder within the platform's data folder.
const FOLDER: &str = "epitome";

/// Stands in defaults for the data folder, and for a folder beside the store.
const DATA: &str = "$DATA";
const BESIDE: &str = "$BESIDE";

/// One setting as it was read.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The setting.
    pub key: &'static Key,
    /// Its value without secrets; empty when there is none.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
}

/// Reads typed values of settings and records what it read.
#[derive(Debug)]
pub struct Reader<'a> {
    sources: &'a Sources,
    layers: &'a Layers,
    home: Option<PathBuf>,
    explained: Vec<Explained>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sources: &'a Sources, layers: &'a Layers) -> Self {
        let home = sources.environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        Reader { sources, layers, home, explained: Vec::new() }
    }

    /// Reads the value of a setting.
    ///
    /// # Panics
    ///
    /// If no section that is being loaded declares the setting.
    pub fn take<T: Setting>(&mut self, name: &'static str) -> Result<T, ConfigError> {
        let key = self.layers.key(name).expect("the sections that are read are those whose keys are known");
        let (value, origin) = self.value::<T>(key)?;
        self.explained.push(Explained { key, value: value.show(), origin });
        Ok(value)
    }

    /// Returns where the value of a setting that was read came from.
    pub(super) fn origin(&self, name: &str) -> Option<&Origin> {
        self.explained.iter().find(|setting| setting.key.name == name).map(|setting| &setting.origin)
    }

    pub(super) fn into_explained(self) -> Vec<Explained> {
        self.explained
    }

    fn value<T: Setting>(&self, key: &'static Key) -> Result<(T, Origin), ConfigError> {
        let (written, origin) = match self.layers.value_of(key) {
            Some((written, origin)) => (written.clone(), origin.clone()),
            None => match (key.default, T::absent()) {
                ("", Some(absent)) => return Ok((absent, Origin::Default)),
                _ => (WrittenValue::from_text(key.shape, &self.default(key)?), Origin::Default),
            },
        };
        let context = self.context(key, &origin);
        let wrong = || ConfigError::Wrong {
            key: key.name.to_owned(),
            written: T::quoted(&written),
            at: origin.clone(),
            allowed: T::allowed(&context),
        };
        let value = T::read(&written, &context).ok_or_else(wrong)?;
        Ok((value, origin))
    }

    /// Relative paths begin where they are written: in the file's folder, or in the working folder.
    fn context<'b>(&'b self, key: &Key, origin: &'b Origin) -> ReadContext<'b> {
        let folder = match origin {
            Origin::File(path, _) => path.parent().unwrap_or(Path::new(".")),
            _ => &self.sources.folder,
        };
        ReadContext { range: key.range, folder, home: self.home.as_deref() }
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
        let store = self.layers.key("store.url").expect("it is declared in the same table as the artifacts");
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
        let folder = folder.ok_or(ConfigError::Homeless(key.name))?;
        Ok(folder.join(FOLDER).display().to_string())
    }
}
