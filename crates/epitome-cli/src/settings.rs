//! What is configured: the file, the environment and the flags, laid over each other by the runtime.
//!
//! A folder's file that nobody trusted is told of, once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

use epitome_gateway::settings::{GatewayConfig, Serve};
use epitome_runtime::artifact::PlaceError;
use epitome_runtime::config::{
    BuildError, Config, ConfigError, Environment, Explained, Loaded, Origin, Sources, SummarizerKind,
};
use epitome_runtime::store::StoreError;

use crate::failure::{Exit, Failure, sentence};
use crate::open_store::{LOCKED, ROOM, WRITABLE};

/// Whether it was told that a file is not trusted.
static TOLD: Once = Once::new();

/// The settings of the runtime and of the gateway, from one file.
pub type AllSettings = Loaded<(Config, GatewayConfig)>;

/// A configuration, and the environment that its secrets are read from.
pub struct Configured {
    /// The configuration and where its values came from.
    pub loaded: AllSettings,
    /// The environment.
    pub environment: Environment,
}

/// Settings given with the command.
#[derive(Default)]
pub struct Flags(Vec<(String, String)>);

impl Flags {
    /// The flags with one more, if it was given.
    #[must_use]
    pub fn with<T: ToString>(mut self, key: &str, value: Option<T>) -> Self {
        self.0.extend(value.map(|value| (key.to_owned(), value.to_string())));
        self
    }
}

impl Configured {
    /// Loads the configuration.
    pub fn load(file: Option<&Path>, flags: Flags) -> Result<Configured, Failure> {
        let environment = environment();
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let sources =
            Sources { file: file.map(Path::to_owned), environment: environment.clone(), folder, flags: flags.0 };
        let loaded = AllSettings::load(&sources)?;
        if let Some(sentence) = refusal(&loaded) {
            // A verb may load it twice. Nobody is left to be told when writing fails.
            TOLD.call_once(|| drop(writeln!(std::io::stderr(), "{sentence}")));
        }
        Ok(Configured { loaded, environment })
    }

    /// Loads the configuration for a verb that works on one file: it needs no store, so none has to have a place.
    pub fn for_file(file: Option<&Path>) -> Result<Configured, Failure> {
        Configured::load(file, Flags::default().with("store.url", Some("memory:")))
    }

    /// The runtime's settings.
    pub fn config(&self) -> &Config {
        &self.loaded.config.0
    }

    /// The gateway's settings.
    pub fn serve(&self) -> &Serve {
        &self.loaded.config.1.serve
    }

    /// A line that names the model that will be asked for summaries, and where; none where none is asked.
    pub fn summary_writer(&self) -> Option<String> {
        let config = self.config();
        let known = config.summarizer_model().filter(|_| config.summarizer.kind != SummarizerKind::Embedded)?;
        let model = known.name.map(|name| format!("{name} at ")).unwrap_or_default();
        Some(format!("Summaries are asked of {model}{}.\n", known.url.host()))
    }

    /// Whether nobody said which policy is wanted.
    pub fn names_no_policy(&self) -> bool {
        let is_default = |setting: &Explained| setting.key.name == "policy.name" && setting.origin == Origin::Default;
        self.loaded.explained.iter().any(is_default) && self.config().policy.path.is_none()
    }
}

/// What of a folder's file does not count, and how to change that.
fn refusal(loaded: &AllSettings) -> Option<String> {
    let file = loaded.file.as_ref().filter(|_| !loaded.refused.is_empty())?;
    let names: Vec<String> = loaded.refused.iter().map(|name| format!("`{name}`")).collect();
    Some(format!(
        "{} is not trusted, so it cannot set {}; read it, then run `epitome config trust` to accept it.",
        file.display(),
        names.join(", ")
    ))
}

/// The environment as far as it is text.
pub fn environment() -> Environment {
    std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?))).collect()
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = match error {
            ConfigError::Unreadable { .. } => Exit::Unreadable,
            ConfigError::Unwritable { .. } => Exit::CannotWrite,
            _ => Exit::Usage,
        };
        Failure::new(exit, sentence(&error)).hint("`docs/configuration.md` lists every setting.")
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let (exit, hint) = match &error {
            BuildError::Store { reason: StoreError::Locked { .. }, .. } => (Exit::Unreadable, LOCKED),
            BuildError::Store { reason: StoreError::Full { .. }, .. } => (Exit::CannotWrite, ROOM),
            BuildError::Store { reason: StoreError::ReadOnly { .. }, .. } => (Exit::CannotWrite, WRITABLE),
            BuildError::Store { .. } => (Exit::Unreadable, "Name another store with `--store` or `store.url`."),
            BuildError::Artifacts(PlaceError::Folder { .. }) => {
                (Exit::CannotWrite, "Name another place with `artifacts.url`.")
            }
            BuildError::Artifacts(_) => (Exit::Unreadable, "Name another place with `artifacts.url`."),
            BuildError::NoModel { .. } => {
                (Exit::Usage, "Name it with `--model-url` and `--summarizer-model`, or configure it.")
            }
            _ => (Exit::Usage, "`epitome config show` tells every setting and where it comes from."),
        };
        Failure::new(exit, sentence(&error)).hint(hint)
    }
}
