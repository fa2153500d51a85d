//! The open_store: the configured store, opened, for the verbs that work on it.
//!
//! A store that is only looked at is not made when it is not there.

use std::path::Path;

use epitome_runtime::artifact::{Access, ArtifactError, Denied, Permissions};
use epitome_runtime::config::StoreUrl;
use epitome_runtime::engine::{Engine, EngineError, Parts};
use epitome_runtime::ids::{ThreadId, ThreadKey};
use epitome_runtime::log::{Log, LogError};
use epitome_runtime::store::{StoreError, ThreadRow};
use epitome_runtime::upkeep::UpkeepError;
use tokio::runtime::Runtime;

use crate::cli::StoreArgs;
use crate::failure::{Exit, Failure, sentence};
use crate::settings::{Configured, Flags};

/// Threads are asked for so many at once.
const PAGE: usize = 500;

/// The fewest characters of an id that stand for the whole of it.
const PREFIX_CHARS_MIN: usize = 4;

/// The configured store, opened.
pub struct OpenStore {
    /// The engine over it.
    pub engine: Engine,
    /// Who works at it.
    pub access: Access,
    /// What is configured.
    pub configured: Configured,
}

/// What to do with a store that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// It is created.
    Create,
    /// It is an error.
    Fail,
}

/// Does work that waits for others.
pub fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(work)
}

/// Where work waits for others.
pub fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::CannotFit, format!("No threads can be started: {error}.")))
}

impl OpenStore {
    /// Opens the store that the flags and the configuration name.
    pub async fn open(config: Option<&Path>, store_args: &StoreArgs, absent: IfMissing) -> Result<OpenStore, Failure> {
        let flags =
            Flags::default().with("store.url", store_args.store.as_ref()).with("tenant.id", store_args.tenant.as_ref());
        let configured = Configured::load(config, flags)?;
        is_there(&configured, absent)?;
        let parts = configured.config().storage(&configured.environment).await?;
        OpenStore::over(configured, parts).await
    }

    /// A open_store over what an engine is made of.
    pub async fn over(configured: Configured, parts: Parts) -> Result<OpenStore, Failure> {
        let engine = Engine::new(parts).await?;
        let access = Access::new(configured.config().tenant.id.clone(), "command line", Permissions::all());
        Ok(OpenStore { engine, access, configured })
    }

    /// The log.
    pub fn log(&self) -> &Log {
        self.engine.log()
    }

    /// A thread of the tenant, by the name that was typed.
    pub fn key(&self, thread: &str) -> Result<ThreadKey, Failure> {
        Ok(ThreadKey::new(self.access.tenant.clone(), thread_id(thread)?))
    }

    /// Every thread of the tenant, by id.
    pub async fn threads(&self) -> Result<Vec<ThreadRow>, Failure> {
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

    /// A thread that has to be there, by its id or the beginning of it.
    pub async fn thread(&self, thread: &str) -> Result<ThreadRow, Failure> {
        let key = self.key(thread)?;
        if let Some(row) = self.log().thread(&key).await? {
            return Ok(row);
        }
        let mut rows = self.threads().await?;
        rows.retain(|row| thread.len() >= PREFIX_CHARS_MIN && row.key.thread.as_str().starts_with(thread));
        match rows.len() {
            0 => Err(LogError::NoThread { thread: key.thread }.into()),
            1 => Ok(rows.remove(0)),
            count => {
                let sentence = format!("`{thread}` is the beginning of {count} threads.");
                Err(Failure::new(Exit::Usage, sentence).hint("Give more of it; `epitome threads` lists them."))
            }
        }
    }
}

/// A thread's id, as it was typed.
pub fn thread_id(text: &str) -> Result<ThreadId, Failure> {
    text.parse().map_err(|error| Failure::new(Exit::Usage, sentence(&error)))
}

/// Refuses a file that is not there, where it would be made only to find it empty.
fn is_there(configured: &Configured, absent: IfMissing) -> Result<(), Failure> {
    match &configured.config().store.url {
        StoreUrl::Sqlite(path) if absent == IfMissing::Fail && !path.exists() => {
            Err(Failure::new(Exit::Unreadable, format!("There is no store at {}.", path.display()))
                .hint("`epitome import FILE` makes one; `--store` names another one."))
        }
        _ => Ok(()),
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match &error {
            LogError::NoThread { .. } => {
                Failure::new(Exit::Usage, sentence(&error)).hint("`epitome threads` lists them.")
            }
            LogError::Sealed { .. } => Failure::new(Exit::Unreadable, sentence(&error))
                .hint("Name the key it was sealed with in `keys.current` or `keys.older`."),
            LogError::Store(store) => of_store(store),
            _ => Failure::new(Exit::Unreadable, sentence(&error)).hint("`epitome store check` looks for more."),
        }
    }
}

/// What to do about a store that another process has locked.
pub const LOCKED: &str = "Wait until that process is done, or end it, and try again; `--store` names another store.";

/// What to do about a store without room.
pub const ROOM: &str = "Make room, and try again; `--store` names another store.";

/// What to do about a store that takes no writes.
pub const WRITABLE: &str = "Make it writable, or name another store with `--store`.";

fn of_store(error: &StoreError) -> Failure {
    let (exit, hint) = match error {
        StoreError::Conflict { .. } => (Exit::CannotWrite, "Somebody else writes to it; try again."),
        StoreError::Locked { .. } => (Exit::CannotWrite, LOCKED),
        StoreError::ReadOnly { .. } => (Exit::CannotWrite, WRITABLE),
        StoreError::Full { .. } => (Exit::CannotWrite, ROOM),
        StoreError::Newer { .. } => (Exit::Unreadable, "Use the version of this program that wrote it."),
        _ => (Exit::Unreadable, "`epitome store check` looks for damage; `--store` names another store."),
    };
    Failure::new(exit, sentence(error)).hint(hint)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        of_store(&error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Log(error) => error.into(),
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
                .hint("Name one in `keys.current`, and those that were used before in `keys.older`."),
            error => Failure::new(Exit::Unreadable, sentence(&error)),
        }
    }
}

impl From<Denied> for Failure {
    fn from(error: Denied) -> Self {
        Failure::new(Exit::Unreadable, sentence(&error)).hint("`epitome store check` looks for more.")
    }
}
