//! The configuration: one TOML file, environment variables over it, and where each value came from.
//!
//! Every setting stands once, in `sections`: its name, type, default and meaning. Reading, explaining and the
//! documentation come from there. The loader reads files and nothing else of the process: the environment and the working
//! folder come in as values. A setting that is misspelled or means nothing is an error that says where it stands.

mod address;
mod build;
mod error;
mod layer;
mod reader;
mod secret;
mod sections;
mod serve;
mod setting;
mod trust;

pub use address::{ArtifactsUrl, HttpUrl, ModelUrl, StoreUrl};
pub use build::{BuildError, Environment};
pub use error::ConfigError;
pub use layer::{FOLDER_FILE, Origin, Sources};
pub use secret::{SecretError, SecretSource};
pub use sections::{
    Artifacts, Background, Config, Events, Jobs, KEYS, Keys, Model, Policy, Recall, Rehydrate, Serve, Store,
    Summarizer, Tenant,
};
pub use serve::{
    ClientSwitch, LogFormat, OWN_PATHS, Persist, Provider, Route, RoutedSecret, RoutedUrl, Switch, TenantSecret,
};
pub use setting::{Guard, Key, PresetName, SummarizerKind};
pub use trust::{TrustedFile, TrustedFiles};

use std::path::{Path, PathBuf};

use layer::Layers;
use reader::Reader;

/// A configuration, and where its values came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The file that was read, where there was one.
    pub file: Option<PathBuf>,
    /// The settings of that file that do not count: it is a working folder's, and the user has not trusted it.
    pub refused: Vec<&'static str>,
    explained: Vec<(&'static str, String, Origin)>,
}

impl Config {
    /// Finds and reads the file, lays environment and flags over it, and checks every value.
    pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
        let layers = Layers::read(sources)?;
        let mut reader = Reader::new(sources, &layers);
        let mut config = Config::read(&mut reader)?;
        let explained = reader.into_explained();
        config.policy.settle(&explained)?;
        Ok(Loaded { config, file: layers.file, refused: layers.refused, explained })
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

impl Loaded {
    /// Every setting, its value as it can be shown, and where it came from.
    pub fn explain(&self) -> &[(&'static str, String, Origin)] {
        &self.explained
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

    /// A name that was given closer to the program than the path takes its place; both in one place are a mistake.
    fn settle(&mut self, explained: &[(&'static str, String, Origin)]) -> Result<(), ConfigError> {
        let origin = |key: &str| explained.iter().find(|(name, ..)| *name == key).map(|(.., origin)| origin);
        let (Some(name), Some(path)) = (origin("policy.name"), origin("policy.path")) else { return Ok(()) };
        if *name == Origin::Default || self.path.is_none() {
            return Ok(());
        }
        match name.rank().cmp(&path.rank()) {
            std::cmp::Ordering::Less => Ok(()),
            std::cmp::Ordering::Greater => {
                self.path = None;
                Ok(())
            }
            // A name in a folder's file, over a path in the user's own.
            std::cmp::Ordering::Equal if !name.is_same_place(path) => {
                self.path = None;
                Ok(())
            }
            std::cmp::Ordering::Equal => Err(ConfigError::TwoPolicies { name: name.clone(), path: path.clone() }),
        }
    }
}

#[cfg(test)]
mod tests;
