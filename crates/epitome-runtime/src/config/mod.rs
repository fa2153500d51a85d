//! The configuration: one TOML file, environment variables over it, and where each value came from.
//!
//! Every setting is declared once, in a table of [`sections!`]: its name, type, default and meaning. Reading, explaining and
//! the documentation come from there. Other crates declare sections of their own, and [`Loaded::load`] reads all of them from
//! the same file and environment. The loader reads files and nothing else of the process: the environment and the working
//! folder are parameters. A setting that is misspelled or not allowed is an error that says where it stands.

mod address;
mod build;
mod error;
mod layer;
mod reader;
mod secret;
mod section;
mod sections;
mod setting;
mod trust;

pub use crate::sections;
pub use address::{ArtifactsUrl, HttpUrl, ModelUrl, StoreUrl};
pub use build::{BuildError, Environment};
pub use error::ConfigError;
pub use layer::{FOLDER_FILE, Origin, Sources};
pub use reader::{Explained, Reader};
pub use secret::{HIDDEN, SecretError, SecretSource};
pub use section::Sections;
pub use sections::{
    Artifacts, Background, Config, Embeddings, Events, Jobs, Keys, Model, Policy, Recall, Rehydrate, Store, Summarizer,
    Tenant,
};
pub use setting::{
    Guard, Key, Kilobytes, Megabytes, Milliseconds, PresetName, ReadContext, Seconds, Setting, SummarizerKind,
    ValueShape, WrittenValue, choice,
};
pub use trust::{TrustedFile, TrustedFiles};

use std::path::{Path, PathBuf};

use layer::Layers;

/// A configuration, and where its values came from.
#[derive(Clone, Debug)]
pub struct Loaded<S = Config> {
    /// The values.
    pub config: S,
    /// The file that was read, where there was one.
    pub file: Option<PathBuf>,
    /// The settings of that file that do not count: it is a working folder's, and the user has not trusted it.
    pub refused: Vec<&'static str>,
    /// Every setting, in the order of the documentation.
    pub explained: Vec<Explained>,
}

impl<S: Sections> Loaded<S> {
    /// Finds and reads the file, lays environment and flags over it, and checks every value.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        Loaded::read(sources, Layers::read(sources, S::keys())?)
    }

    /// Returns the defaults: no file is read, and no variable counts.
    pub fn defaults() -> Result<Self, ConfigError> {
        Loaded::read(&Sources::default(), Layers::empty(S::keys()))
    }

    fn read(sources: &Sources, layers: Layers) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(sources, &layers);
        let config = S::read(&mut reader)?;
        let explained = reader.into_explained();
        Ok(Loaded { config, file: layers.file, refused: layers.refused, explained })
    }
}

impl Config {
    /// Drops the policy file where a preset was named closer to the program; both in one place are a mistake.
    fn resolve_policy(mut self, reader: &Reader<'_>) -> Result<Self, ConfigError> {
        let (Some(name), Some(path)) = (reader.origin("policy.name"), reader.origin("policy.path")) else {
            return Ok(self);
        };
        if *name == Origin::Default || self.policy.path.is_none() || name.rank() < path.rank() {
            return Ok(self);
        }
        if name.is_same_place(path) {
            return Err(ConfigError::TwoPolicies { name: name.clone(), path: path.clone() });
        }
        self.policy.path = None;
        Ok(self)
    }

    /// Whom the summarizer asks: its own address and name, the model's where it has none.
    pub fn summarizer_model(&self) -> Option<SummarizerModel<'_>> {
        let (own, model) = (&self.summarizer, &self.model);
        let name = own.name.as_deref().or(model.name.as_deref());
        Some(match &own.url {
            // A key goes nowhere but to the address it was given for.
            Some(url) => {
                SummarizerModel { url, name, dialect: own.dialect.unwrap_or(model.dialect), key: own.key.as_ref() }
            }
            None => SummarizerModel {
                url: model.url.as_ref()?,
                name,
                dialect: own.dialect.unwrap_or(model.dialect),
                key: own.key.as_ref().or(model.key.as_ref()),
            },
        })
    }
}

/// Whom the summarizer asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummarizerModel<'a> {
    /// The provider's address.
    pub url: &'a ModelUrl,
    /// The model's name; a script has its own.
    pub name: Option<&'a str>,
    /// The dialect it is spoken to in.
    pub dialect: epitome::wire::Dialect,
    /// Where the key is.
    pub key: Option<&'a SecretSource>,
}

/// Where a policy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySource<'a> {
    /// One that ships with the library.
    Preset(&'a str),
    /// A file.
    File(&'a Path),
}

impl Policy {
    /// Where the policy comes from.
    pub fn source(&self) -> PolicySource<'_> {
        match &self.path {
            Some(path) => PolicySource::File(path),
            None => PolicySource::Preset(self.name.as_str()),
        }
    }
}

#[cfg(test)]
mod tests;
