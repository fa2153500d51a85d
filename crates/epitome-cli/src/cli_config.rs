//! The configuration of a command: file, environment and flags, merged by the runtime.
//!
//! A file in the working folder that is not trusted gets a notice, once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

use epitome_gateway::settings::{GatewayConfig, Serve};
use epitome_runtime::artifact::PlaceError;
use epitome_runtime::config::{BuildError, Config, ConfigError, Environment, Loaded, Origin, Sources, SummarizerKind};
use epitome_runtime::sentence;
use epitome_runtime::store::StoreError;

use crate::cli::StoreOptions;
use crate::failure::{Exit, Failure, Result};
use crate::open_store::{FULL_HINT, LOCKED_HINT, READ_ONLY_HINT};

/// Guards the notice about an untrusted file: a verb may load the configuration twice.
static UNTRUSTED_NOTICE: Once = Once::new();

/// The settings of the runtime and of the gateway, from one file.
pub type AllSettings = Loaded<(Config, GatewayConfig)>;

/// A configuration, and the environment that its secrets are read from.
pub struct CliConfig {
    /// The values, and where each came from.
    pub loaded: AllSettings,
    pub environment: Environment,
}

/// Settings given on the command line.
#[derive(Default)]
pub struct Flags(Vec<(String, String)>);

impl Flags {
    /// Returns the flags of a verb that works on a file. It needs no store, so none has to be configured.
    pub fn without_store() -> Self {
        Flags::default().with("store.url", Some("memory:"))
    }

    /// Returns the flags that name a store and a tenant.
    pub fn of_store(options: &StoreOptions) -> Self {
        Flags::default().with("store.url", options.store.as_ref()).with("tenant.id", options.tenant.as_ref())
    }

    /// Adds a flag, if it was given.
    #[must_use]
    pub fn with<T: ToString>(mut self, key: &str, value: Option<T>) -> Self {
        self.0.extend(value.map(|value| (key.to_owned(), value.to_string())));
        self
    }
}

impl CliConfig {
    /// Loads the configuration.
    pub fn load(file: Option<&Path>, flags: Flags) -> Result<CliConfig> {
        let environment = environment();
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let sources =
            Sources { file: file.map(Path::to_owned), environment: environment.clone(), folder, flags: flags.0 };
        let loaded = AllSettings::load(&sources)?;
        if let Some(sentence) = untrusted_notice(&loaded) {
            UNTRUSTED_NOTICE.call_once(|| drop(writeln!(std::io::stderr(), "{sentence}")));
        }
        Ok(CliConfig { loaded, environment })
    }

    /// Loads the configuration for a verb that works on a file.
    pub fn for_file(file: Option<&Path>) -> Result<CliConfig> {
        CliConfig::load(file, Flags::without_store())
    }

    /// Returns the runtime's settings.
    pub fn values(&self) -> &Config {
        &self.loaded.config.0
    }

    /// Returns the gateway's settings.
    pub fn serve(&self) -> &Serve {
        &self.loaded.config.1.serve
    }

    /// Returns a line that names the model that summaries come from; `None` where epitome writes them itself.
    pub fn summarizer_line(&self) -> Option<String> {
        let config = self.values();
        let known = config.summarizer_model().filter(|_| config.summarizer.kind != SummarizerKind::Embedded)?;
        let model = known.name.map(|name| format!("{name} at ")).unwrap_or_default();
        Some(format!("Summaries are written by {model}{}.\n", known.url.host()))
    }

    /// Returns whether the policy is the default one, because neither a name nor a path is set.
    pub fn has_default_policy(&self) -> bool {
        let mut settings = self.loaded.explained.iter();
        let is_default = settings.any(|setting| setting.key.name == "policy.name" && setting.origin == Origin::Default);
        is_default && self.values().policy.path.is_none()
    }
}

/// Returns the notice about settings of a folder's file that are ignored, and how to accept them.
fn untrusted_notice(loaded: &AllSettings) -> Option<String> {
    let file = loaded.file.as_ref().filter(|_| !loaded.refused.is_empty())?;
    let names: Vec<String> = loaded.refused.iter().map(|name| format!("`{name}`")).collect();
    Some(format!(
        "{} is not trusted, so it cannot set {}; read it, then run `epitome config trust` to accept it.",
        file.display(),
        names.join(", ")
    ))
}

/// Returns the environment variables that are text.
pub fn environment() -> Environment {
    std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?))).collect()
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = match error {
            ConfigError::Unreadable(..) => Exit::Unreadable,
            ConfigError::Unwritable(..) => Exit::CannotWrite,
            _ => Exit::Usage,
        };
        Failure::new(exit, sentence(&error)).hint("`docs/configuration.md` lists every setting.")
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let (exit, hint) = match &error {
            BuildError::Store(_, StoreError::Locked(_)) => (Exit::Unreadable, LOCKED_HINT),
            BuildError::Store(_, StoreError::Full(_)) => (Exit::CannotWrite, FULL_HINT),
            BuildError::Store(_, StoreError::ReadOnly(_)) => (Exit::CannotWrite, READ_ONLY_HINT),
            BuildError::Store(..) => (Exit::Unreadable, "Name another store with `--store` or `store.url`."),
            BuildError::Artifacts(PlaceError::Folder { .. }) => {
                (Exit::CannotWrite, "Name another place with `artifacts.url`.")
            }
            BuildError::Artifacts(_) => (Exit::Unreadable, "Name another place with `artifacts.url`."),
            BuildError::NoModel(_) => {
                (Exit::Usage, "Name it with `--model-url` and `--summarizer-model`, or configure it.")
            }
            _ => (Exit::Usage, "`epitome config show` lists every setting and where it comes from."),
        };
        Failure::new(exit, sentence(&error)).hint(hint)
    }
}
