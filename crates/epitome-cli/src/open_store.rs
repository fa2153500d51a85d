//! The store of threads, opened as the flags and the configuration say, for the verbs that work on it.
//!
//! A verb that only reads does not create a store that is missing.

use std::path::Path;

use epitome_runtime::artifact::{Access, ArtifactError, Denied, Permissions};
use epitome_runtime::config::StoreUrl;
use epitome_runtime::engine::{Engine, EngineError, EngineParts};
use epitome_runtime::ids::{ThreadId, ThreadKey};
use epitome_runtime::log::{Log, LogError};
use epitome_runtime::sentence;
use epitome_runtime::store::{StoreError, ThreadRow};
use epitome_runtime::upkeep::UpkeepError;
use tokio::runtime::Runtime;

use crate::cli::StoreOptions;
use crate::cli_config::{CliConfig, Flags};
use crate::failure::{Exit, Failure, Result};

/// Threads read in one query.
const PAGE: usize = 500;

/// The fewest characters of a thread's id that are taken for the whole of it.
const PREFIX_CHARS_MIN: usize = 4;

/// The configured store, opened.
pub struct OpenStore {
    pub engine: Engine,
    /// The tenant, with all permissions.
    pub access: Access,
    pub config: CliConfig,
}

/// The behavior for a store that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    Create,
    Fail,
}

/// Runs async work to its end.
pub fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    runtime()?.block_on(work)
}

/// Starts a runtime for a verb that waits for one thing at a time. A gateway has its own.
pub fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(no_threads)
}

/// Returns the failure for a machine that starts no more threads.
pub fn no_threads(error: std::io::Error) -> Failure {
    Failure::new(Exit::CannotFit, format!("No threads can be started: {error}."))
}

impl OpenStore {
    /// Opens the store that the flags and the configuration name.
    pub async fn open(config: Option<&Path>, options: &StoreOptions, if_missing: IfMissing) -> Result<OpenStore> {
        let (config, parts) = OpenStore::storage(config, options, if_missing).await?;
        OpenStore::from_parts(config, parts).await
    }

    /// Opens the store together with the embedding model, where one is configured.
    pub async fn open_to_search(
        config: Option<&Path>,
        options: &StoreOptions,
        if_missing: IfMissing,
    ) -> Result<OpenStore> {
        let (config, parts) = OpenStore::storage(config, options, if_missing).await?;
        let embeddings = config.values().embeddings(&config.environment)?;
        OpenStore::from_parts(config, EngineParts { embeddings, ..parts }).await
    }

    async fn storage(
        config: Option<&Path>,
        options: &StoreOptions,
        if_missing: IfMissing,
    ) -> Result<(CliConfig, EngineParts)> {
        let config = CliConfig::load(config, Flags::of_store(options))?;
        match &config.values().store.url {
            StoreUrl::Sqlite(path) if if_missing == IfMissing::Fail && !path.exists() => {
                return Err(Failure::new(Exit::Unreadable, format!("There is no store at {}.", path.display()))
                    .hint("`epitome import FILE` creates one; `--store` names another one."));
            }
            _ => {}
        }
        let parts = config.values().storage(&config.environment).await?;
        Ok((config, parts))
    }

    /// Starts an engine on a store that is open already.
    pub async fn from_parts(config: CliConfig, parts: EngineParts) -> Result<OpenStore> {
        let engine = Engine::new(parts).await?;
        let access = Access::new(config.values().tenant.id.clone(), "command line", Permissions::all());
        Ok(OpenStore { engine, access, config })
    }

    pub fn log(&self) -> &Log {
        self.engine.log()
    }

    /// Returns the store's address, as messages name it.
    pub fn url(&self) -> String {
        self.config.values().store.url.to_string()
    }

    /// Reads every thread of the tenant, by id.
    pub async fn threads(&self) -> Result<Vec<ThreadRow>> {
        let mut rows: Vec<ThreadRow> = Vec::new();
        loop {
            let after = rows.last().map(|row| row.key.thread.clone());
            let page = self.log().store().threads(&self.access.tenant, after.as_ref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            rows.extend(page);
            if is_last {
                return Ok(rows);
            }
        }
    }

    /// Finds a thread by its id or the beginning of it.
    pub async fn require_thread(&self, thread: &str) -> Result<ThreadRow> {
        let key = ThreadKey::new(self.access.tenant.clone(), thread_id(thread)?);
        if let Some(row) = self.log().thread(&key).await? {
            return Ok(row);
        }
        let mut rows = self.threads().await?;
        rows.retain(|row| thread.len() >= PREFIX_CHARS_MIN && row.key.thread.as_str().starts_with(thread));
        match rows.len() {
            0 => Err(LogError::NoThread(key.thread).into()),
            1 => Ok(rows.remove(0)),
            count => {
                let sentence = format!("The ids of {count} threads begin with `{thread}`.");
                Err(Failure::new(Exit::Usage, sentence).hint("Type more of it; `epitome threads` lists them."))
            }
        }
    }
}

/// Parses a thread's id.
pub fn thread_id(text: &str) -> Result<ThreadId> {
    text.parse().map_err(|error| Failure::new(Exit::Usage, sentence(&error)))
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match &error {
            LogError::NoThread(_) => Failure::new(Exit::Usage, sentence(&error)).hint("`epitome threads` lists them."),
            LogError::Sealed(..) => Failure::new(Exit::Unreadable, sentence(&error))
                .hint("Name the key it was sealed with in `keys.current` or `keys.older`."),
            LogError::Store(store) => store_failure(store),
            _ => Failure::new(Exit::Unreadable, sentence(&error)).hint("`epitome store check` looks for damage."),
        }
    }
}

pub const LOCKED_HINT: &str = "Wait for that process to end, or stop it; `--store` names another store.";

/// The hint for a store on a full disk.
pub const FULL_HINT: &str = "Free some space and try again; `--store` names another store.";

/// The hint for a store that cannot be written to.
pub const READ_ONLY_HINT: &str = "Make it writable, or name another store with `--store`.";

fn store_failure(error: &StoreError) -> Failure {
    let (exit, hint) = match error {
        StoreError::Conflict(_) => (Exit::CannotWrite, "Another process wrote to it meanwhile; try again."),
        StoreError::Locked(_) => (Exit::CannotWrite, LOCKED_HINT),
        StoreError::ReadOnly(_) => (Exit::CannotWrite, READ_ONLY_HINT),
        StoreError::Full(_) => (Exit::CannotWrite, FULL_HINT),
        StoreError::Newer { .. } => {
            (Exit::Unreadable, "Use a version of epitome that is at least as new as the one that wrote it.")
        }
        _ => (Exit::Unreadable, "`epitome store check` looks for damage; `--store` names another store."),
    };
    Failure::new(exit, sentence(error)).hint(hint)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        store_failure(&error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Log(error) => error.into(),
            EngineError::NoMessage(_)
            | EngineError::LeftPrompt(_)
            | EngineError::NotHidden(_)
            | EngineError::NotPinned(_)
            | EngineError::Note(_) => Failure::new(Exit::Usage, sentence(&error)),
            EngineError::Foreign(_) => Failure::new(Exit::Unreadable, sentence(&error)),
            error => Failure::new(Exit::CannotFit, sentence(&error)),
        }
    }
}

impl From<ArtifactError> for Failure {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Store(error) => error.into(),
            error => Failure::new(Exit::CannotWrite, sentence(&error)).hint("`artifacts.url` says where they go."),
        }
    }
}

impl From<UpkeepError> for Failure {
    fn from(error: UpkeepError) -> Self {
        match error {
            UpkeepError::Store(error) => error.into(),
            UpkeepError::Log(error) => error.into(),
            UpkeepError::Artifacts(error) => error.into(),
            UpkeepError::NoKey => Failure::new(Exit::Usage, sentence(&error))
                .hint("Name it in `keys.current`, and the keys used before in `keys.older`."),
            error => Failure::new(Exit::Unreadable, sentence(&error)),
        }
    }
}

impl From<Denied> for Failure {
    fn from(error: Denied) -> Self {
        Failure::new(Exit::Unreadable, sentence(&error)).hint("`epitome store check` looks for damage.")
    }
}
