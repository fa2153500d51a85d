//! From a configuration to what an engine is made of: the store is opened, keys and policy are read, clients are made.
//!
//! Nothing is asked of a model here, and no secret is shown. What only keeps and finds needs no model's key.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use epitome::policy::preset;
use epitome::wire::Dialect;
use object_store::ObjectStore;
use zeroize::Zeroizing;

use super::address::{ModelUrl, StoreUrl};
use super::secret::{SecretError, SecretSource};
use super::setting::SummarizerKind;
use super::{Config, PolicySource};
use crate::artifact::{PlaceError, open_url, open_url_when_possible};
use crate::engine::{ArtifactRetention, Background, EngineParts, EngineSettings, Jobs};
use crate::event::{Bus, JsonLines};
use crate::model::{
    EmbeddingSettings, Embeddings, Endpoint, EndpointError, HttpModel, Model, Retry, ScriptError, Scripted, Secret,
    Timeouts,
};
use crate::store::{MemoryStore, RecoveringStore, SqliteStore, Store, StoreError};
use crate::summarize::{ModelSummarizer, Summarizer};
use crate::vault::{Keys, NotAKey};

const DAY_S: u64 = 86_400;

/// The environment, by names.
pub type Environment = BTreeMap<String, String>;

/// Why nothing can be made of a configuration. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A secret cannot be had.
    #[error("`{0}`: {1}")]
    Secret(&'static str, SecretError),
    /// What should be keys are none.
    #[error("`keys`: {0}")]
    Keys(NotAKey),
    /// There are older keys and none that seals.
    #[error("`keys.older` is set and `keys.current` is not; name the key that seals")]
    OnlyOlder,
    /// The store cannot be opened.
    #[error("{}", unopened(.0, .1))]
    Store(String, StoreError),
    /// The artifacts cannot be opened.
    #[error("`artifacts.url`: {0}")]
    Artifacts(PlaceError),
    /// The policy file cannot be used.
    #[error("the policy {0} cannot be used: {1}")]
    Policy(PathBuf, String),
    /// The model cannot be asked.
    #[error("`{0}.url`: {1}")]
    Endpoint(&'static str, EndpointError),
    /// The scripted model cannot be used.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A model is to be asked that has no address or no name.
    #[error("a model is to write summaries, and `{0}` is not set")]
    NoModel(&'static str),
    /// Passages are to get vectors, and no model is named.
    #[error("`embeddings.url` is set and `embeddings.name` is not; name the embedding model")]
    NoEmbeddingModel,
    /// Events cannot be written.
    #[error("events cannot be written to {0}: {1}")]
    Events(PathBuf, std::io::Error),
}

fn unopened(store: &str, reason: &StoreError) -> String {
    match reason {
        StoreError::Locked(_) => format!("the store {store} is locked by another process"),
        reason => format!("the store {store} cannot be opened: {reason}"),
    }
}

impl Config {
    /// What an engine is made of that keeps, finds and compacts by code alone.
    pub async fn storage(&self, environment: &Environment) -> Result<EngineParts, BuildError> {
        // Whatever else is wrong is found out first: a store may take its time.
        let objects = open_url(&self.artifacts.url.to_string()).map_err(BuildError::Artifacts)?;
        let parts = self.storage_over(Arc::new(MemoryStore::new()), objects, environment)?;
        Ok(EngineParts { store: self.open_store().await?, ..parts })
    }

    fn storage_over(
        &self,
        store: Arc<dyn Store>,
        objects: Arc<dyn ObjectStore>,
        environment: &Environment,
    ) -> Result<EngineParts, BuildError> {
        Ok(EngineParts {
            store,
            keys: self.master_keys(environment)?,
            settings: self.settings()?,
            objects,
            bus: Bus::new(),
            summarizer: Summarizer::Embedded,
            embeddings: None,
        })
    }

    /// What an engine is made of: also who writes summaries and who hears of events. Spans go where the program's own
    /// subscriber sends them.
    pub async fn parts(&self, environment: &Environment) -> Result<EngineParts, BuildError> {
        let (summarizer, embeddings, bus) = (self.summarizer(environment)?, self.embeddings(environment)?, self.bus()?);
        Ok(EngineParts { summarizer, embeddings, bus, ..self.storage(environment).await? })
    }

    /// The same over a store of one's own, which need not be open, and artifacts whose folder need not be there: it is
    /// made when it can be.
    pub fn parts_over(&self, store: Arc<dyn Store>, environment: &Environment) -> Result<EngineParts, BuildError> {
        let (summarizer, embeddings, bus) = (self.summarizer(environment)?, self.embeddings(environment)?, self.bus()?);
        let objects = open_url_when_possible(&self.artifacts.url.to_string()).map_err(BuildError::Artifacts)?;
        Ok(EngineParts { summarizer, embeddings, bus, ..self.storage_over(store, objects, environment)? })
    }

    /// Who writes summaries.
    pub fn summarizer(&self, environment: &Environment) -> Result<Summarizer, BuildError> {
        if self.summarizer.kind == SummarizerKind::Embedded {
            return Ok(Summarizer::Embedded);
        }
        let timeout = Duration::from_secs(self.summarizer.timeout_s);
        let mut model = ModelSummarizer::new(self.summary_model(environment)?, timeout);
        if let Some(window) = self.model.window.filter(|_| self.model.name.as_deref() == Some(model.id())) {
            model = model.with_window(window);
        }
        let model = Arc::new(model);
        Ok(match self.summarizer.kind {
            SummarizerKind::ModelWithFallback => Summarizer::WithFallback(model),
            _ => Summarizer::Model(model),
        })
    }

    /// The model that tells what passages mean; `None` where none is configured.
    pub fn embeddings(&self, environment: &Environment) -> Result<Option<Embeddings>, BuildError> {
        let told = &self.embeddings;
        let Some(url) = &told.url else { return Ok(None) };
        let name = told.name.as_deref().ok_or(BuildError::NoEmbeddingModel)?;
        let mut endpoint = Endpoint::new(url.as_str(), Dialect::Chat, name);
        let whole = Duration::from_secs(told.timeout_s);
        endpoint.timeouts = Timeouts { connect: whole.min(Timeouts::default().connect), whole, ..Timeouts::default() };
        // What fails for longer is tried again by the queue; meanwhile no other job of the thread runs.
        endpoint.retry = Retry { attempts: 2, total: whole, ..Retry::default() };
        let secret = told.key.as_ref().map(|key| revealed("embeddings.key", key, environment)).transpose()?;
        endpoint.key = secret.map(|secret| Secret::new(&secret));
        let settings = EmbeddingSettings {
            dimensions: told.dimensions,
            batch: usize::try_from(told.batch).unwrap_or(usize::MAX),
            search_timeout: Duration::from_secs(told.search_timeout_s),
        };
        let failed = |reason| BuildError::Endpoint("embeddings", reason);
        Embeddings::new(endpoint, settings).map(Some).map_err(failed)
    }

    fn summary_model(&self, environment: &Environment) -> Result<Arc<dyn Model>, BuildError> {
        let known = self.summarizer_model().ok_or(BuildError::NoModel("summarizer.url"))?;
        let missing = BuildError::NoModel("summarizer.name");
        let section = if self.summarizer.url.is_some() { "summarizer" } else { "model" };
        let key_name = if self.summarizer.key.is_some() { "summarizer.key" } else { "model.key" };
        let key = known.key.map(|key| (key_name, key));
        let asked = Asked { section, url: known.url, name: known.name, dialect: known.dialect, key };
        self.client(&asked, self.summary_timeouts(), environment, missing)
    }

    /// How long a summary may take is said for summaries; the limit of an agent's own calls does not end it sooner.
    fn summary_timeouts(&self) -> Timeouts {
        let timeouts = self.timeouts();
        Timeouts { whole: timeouts.whole.max(Duration::from_secs(self.summarizer.timeout_s)), ..timeouts }
    }

    fn client(
        &self,
        asked: &Asked<'_>,
        timeouts: Timeouts,
        environment: &Environment,
        missing: BuildError,
    ) -> Result<Arc<dyn Model>, BuildError> {
        let url = match asked.url {
            ModelUrl::Script(path) => return Ok(Arc::new(Scripted::from_file(path)?)),
            ModelUrl::Http(url) => url,
        };
        let mut endpoint = Endpoint::new(url.as_str(), asked.dialect, asked.name.ok_or(missing)?);
        endpoint.timeouts = timeouts;
        let secret = asked.key.map(|(name, key)| revealed(name, key, environment)).transpose()?;
        endpoint.key = secret.map(|secret| Secret::new(&secret));
        let model = HttpModel::new(endpoint);
        Ok(Arc::new(model.map_err(|reason| BuildError::Endpoint(asked.section, reason))?))
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(self.model.connect_timeout_s),
            first_byte: Duration::from_secs(self.model.first_byte_timeout_s),
            idle: Duration::from_secs(self.model.idle_timeout_s),
            whole: Duration::from_secs(self.model.timeout_s),
        }
    }

    /// The keys that content is sealed with.
    pub fn master_keys(&self, environment: &Environment) -> Result<Keys, BuildError> {
        let Some(current) = &self.keys.current else {
            return if self.keys.older.is_empty() { Ok(Keys::none()) } else { Err(BuildError::OnlyOlder) };
        };
        let mut text = Zeroizing::new(revealed("keys.current", current, environment)?.to_string());
        for older in &self.keys.older {
            text.push('\n');
            text.push_str(&revealed("keys.older", older, environment)?);
        }
        text.parse().map_err(BuildError::Keys)
    }

    /// Opens the store; its schema is brought up to date.
    pub async fn open_store(&self) -> Result<Arc<dyn Store>, BuildError> {
        let failed = |reason: StoreError| BuildError::Store(self.store.url.to_string(), reason);
        match &self.store.url {
            StoreUrl::Memory => Ok(Arc::new(MemoryStore::new())),
            StoreUrl::Sqlite(path) => sqlite(path.clone(), None).await.map_err(failed),
            StoreUrl::Postgres(url) => postgres(url).await.map_err(failed),
        }
    }

    /// The store, which is opened when it can be: see [`RecoveringStore::keep_open`]. An address that cannot be one is refused.
    /// SQLite waits for another process's lock at most `busy_timeout`.
    pub fn recovering_store(&self, busy_timeout: Duration) -> Result<RecoveringStore, BuildError> {
        let url = self.store.url.clone();
        if let StoreUrl::Postgres(address) = &url {
            let failed = |reason: StoreError| BuildError::Store(url.to_string(), reason);
            check_postgres_address(address).map_err(failed)?;
        }
        Ok(RecoveringStore::new(Box::new(move || {
            let url = url.clone();
            Box::pin(async move {
                match &url {
                    StoreUrl::Memory => Ok(Arc::new(MemoryStore::new()) as Arc<dyn Store>),
                    StoreUrl::Sqlite(path) => sqlite(path.clone(), Some(busy_timeout)).await,
                    StoreUrl::Postgres(url) => postgres(url).await,
                }
            })
        })))
    }

    /// The schema that the store has now and the one that opening it makes; `None` when it has none to have.
    pub async fn schema(&self) -> Result<Option<(u64, u64)>, BuildError> {
        let failed = |reason: StoreError| BuildError::Store(self.store.url.to_string(), reason);
        match &self.store.url {
            StoreUrl::Memory => Ok(None),
            StoreUrl::Sqlite(path) => Ok(Some((SqliteStore::schema_of(path).map_err(failed)?, SqliteStore::SCHEMA))),
            StoreUrl::Postgres(url) => postgres_schema(url).await.map(Some).map_err(failed),
        }
    }

    /// What an engine is told once.
    pub fn settings(&self) -> Result<EngineSettings, BuildError> {
        let background = if self.background.enabled {
            Background::On { wait: Duration::from_secs(self.background.wait_s) }
        } else {
            Background::Off
        };
        Ok(EngineSettings {
            model: self.model.name.clone(),
            auto: self.policy.auto,
            window: self.model.window,
            background,
            jobs: Jobs {
                concurrency: usize::try_from(self.jobs.concurrency).unwrap_or(usize::MAX),
                lease: Duration::from_secs(self.jobs.lease_s),
                attempts: u32::try_from(self.jobs.attempts).unwrap_or(u32::MAX),
                backoff: Duration::from_secs(self.jobs.backoff_s),
                ..Jobs::default()
            },
            retention: ArtifactRetention {
                ttl: self.artifacts.ttl_days.map(|days| Duration::from_secs(days * DAY_S)),
                sensitivity: self.artifacts.sensitivity,
            },
            sensitivity_rules: self.artifacts.sensitivity_of.clone(),
            auto_rehydrate: self.rehydrate.sensitivities.clone(),
            recall_tokens: self.recall.tokens_max,
            summary_cache: Duration::from_secs(self.summarizer.cache_days * DAY_S),
            ..EngineSettings::new(self.compaction_policy()?)
        })
    }

    /// The policy, with what the configuration says of bringing content back.
    pub fn compaction_policy(&self) -> Result<epitome::policy::Policy, BuildError> {
        let mut policy = match self.policy.source() {
            PolicySource::Preset(name) => preset(name)
                .ok_or_else(|| BuildError::Policy(PathBuf::from(name), "there is no preset of that name".to_owned()))?,
            PolicySource::File(path) => policy_file(path)?,
        };
        let (told, rehydrate) = (&self.rehydrate, &mut policy.rehydrate);
        rehydrate.enabled = told.enabled.unwrap_or(rehydrate.enabled);
        let artifacts = told.artifacts_max.and_then(|most| usize::try_from(most).ok());
        rehydrate.artifacts_max = artifacts.unwrap_or(rehydrate.artifacts_max);
        rehydrate.tokens_max = told.tokens_max.unwrap_or(rehydrate.tokens_max);
        rehydrate.total = told.total.unwrap_or(rehydrate.total);
        let turns = told.cooldown_turns.and_then(|turns| u32::try_from(turns).ok());
        rehydrate.cooldown_turns = turns.unwrap_or(rehydrate.cooldown_turns);
        Ok(policy)
    }

    fn bus(&self) -> Result<Bus, BuildError> {
        let Some(path) = &self.events.json_lines else { return Ok(Bus::new()) };
        let lines = JsonLines::file(path).map_err(|reason| BuildError::Events(path.clone(), reason))?;
        Ok(Bus::new().with_listener(Arc::new(lines)))
    }
}

/// Opens a file where waiting for whoever has it locked holds nobody up.
async fn sqlite(path: PathBuf, busy_timeout: Option<Duration>) -> Result<Arc<dyn Store>, StoreError> {
    let open = move || match busy_timeout {
        Some(busy_timeout) => SqliteStore::open_with(path, busy_timeout),
        None => SqliteStore::open(path),
    };
    let opened = tokio::task::spawn_blocking(open).await;
    let broke = |error: tokio::task::JoinError| Err(StoreError::Unavailable(error.to_string()));
    Ok(Arc::new(opened.unwrap_or_else(broke)?))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(crate::store::PostgresStore::connect(url).await?))
}

#[cfg(feature = "postgres")]
fn check_postgres_address(url: &str) -> Result<(), StoreError> {
    crate::store::PostgresStore::check_address(url)
}

#[cfg(not(feature = "postgres"))]
fn check_postgres_address(_: &str) -> Result<(), StoreError> {
    Err(StoreError::Refused("this program was built without the feature postgres".to_owned()))
}

#[cfg(feature = "postgres")]
async fn postgres_schema(url: &str) -> Result<(u64, u64), StoreError> {
    Ok((crate::store::PostgresStore::schema_of(url).await?, crate::store::PostgresStore::SCHEMA))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Refused("this program was built without the feature postgres".to_owned()))
}

#[cfg(not(feature = "postgres"))]
async fn postgres_schema(url: &str) -> Result<(u64, u64), StoreError> {
    postgres(url).await.map(|_| (0, 0))
}

struct Asked<'a> {
    section: &'static str,
    url: &'a ModelUrl,
    name: Option<&'a str>,
    dialect: epitome::wire::Dialect,
    /// The setting that says where the key is, and where that is.
    key: Option<(&'static str, &'a SecretSource)>,
}

fn revealed(
    key: &'static str,
    source: &SecretSource,
    environment: &Environment,
) -> Result<Zeroizing<String>, BuildError> {
    let secret = source.reveal(environment).map_err(|reason| BuildError::Secret(key, reason))?;
    Ok(Zeroizing::new(secret))
}

fn policy_file(path: &std::path::Path) -> Result<epitome::policy::Policy, BuildError> {
    let failed = |reason: String| BuildError::Policy(path.to_owned(), reason);
    let toml = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    epitome::policy::Policy::parse(&toml).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::{Loaded, Sources};

    fn config(flags: &[(&str, &str)]) -> Config {
        let defaults = [("store.url", "memory:"), ("artifacts.url", "memory:")];
        let flags = defaults.iter().chain(flags).map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        let sources =
            Sources { flags: flags.collect(), folder: PathBuf::from("/no/such/folder"), ..Sources::default() };
        Loaded::<Config>::load(&sources).expect("a configuration").config
    }

    fn environment() -> Environment {
        [("MINE", "sk-hidden"), ("ONE", &format!("one:{}", "1".repeat(64)))]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into()
    }

    const MODEL: [(&str, &str); 2] = [("model.url", "http://127.0.0.1:9"), ("model.name", "big")];

    #[test]
    fn who_writes_summaries_is_who_is_configured() {
        let asked = |flags: &[(&str, &str)]| {
            let summarizer = config(flags).summarizer(&environment()).expect("a summarizer");
            (summarizer.model().map(|model| model.id().to_owned()), summarizer.may_fall_back())
        };
        let kind = |kind: &'static str| ("summarizer.kind", kind);
        assert_eq!(asked(&[]), (None, true));
        assert_eq!(asked(&MODEL), (None, true));
        assert_eq!(asked(&[&MODEL[..], &[kind("model")]].concat()), (Some("big".to_owned()), false));
        let small = [&MODEL[..], &[kind("model-with-fallback"), ("summarizer.name", "small")]].concat();
        assert_eq!(asked(&small), (Some("small".to_owned()), true));
    }

    #[test]
    fn a_summary_may_take_as_long_as_was_said() {
        for (said, whole_s) in [("30", 600), ("1800", 1800)] {
            let flags = [&MODEL[..], &[("summarizer.kind", "model"), ("summarizer.timeout_s", said)]].concat();
            let timeouts = config(&flags).summary_timeouts();
            assert_eq!(timeouts.whole, Duration::from_secs(whole_s), "{said}");
        }
    }

    #[test]
    fn what_is_missing_is_named_and_no_secret_is() {
        let keyed = [&MODEL[..], &[("summarizer.kind", "model"), ("model.key", "env:NONE")]].concat();
        let cases: [(&[(&str, &str)], &str); 5] = [
            (&[("summarizer.kind", "model")], "`summarizer.url` is not set"),
            (&[("summarizer.kind", "model"), MODEL[0]], "`summarizer.name` is not set"),
            (&[("summarizer.kind", "model"), ("summarizer.url", "script:/no/script")], "the script /no/script"),
            (&keyed, "`model.key`: the environment variable NONE"),
            (&[("summarizer.kind", "model"), MODEL[0], MODEL[1], ("model.key", "sk-hid\nden")], "cannot be sent"),
        ];
        for (flags, expected) in cases {
            let error = config(flags).summarizer(&environment()).expect_err(expected).to_string();
            assert!(error.contains(expected) && !error.contains("sk-hid"), "{error}");
        }
    }

    #[test]
    fn embeddings_are_off_until_an_address_and_a_model_are_named() {
        let made = |flags: &[(&str, &str)]| {
            let made = config(flags).embeddings(&environment());
            made.map(|embeddings| embeddings.map(|embeddings| format!("{embeddings:?}"))).map_err(|e| e.to_string())
        };
        let address = ("embeddings.url", "http://127.0.0.1:9/v1");
        let named = [address, ("embeddings.name", "small"), ("embeddings.key", "env:MINE"), ("model.key", "env:NONE")];
        assert_eq!(made(&MODEL), Ok(None), "a model that answers is no embedding model");
        let shown = made(&[&named[..], &[("embeddings.dimensions", "64")]].concat()).unwrap().unwrap();
        assert!(shown.contains("small") && shown.contains("Some(64)") && !shown.contains("sk-hid"), "{shown}");
        let keyless = made(&[&named[..2], &[("embeddings.key", "env:NONE")]].concat()).unwrap_err();
        assert!(keyless.contains("`embeddings.key`: the environment variable NONE"), "{keyless}");
        assert!(made(&[address]).unwrap_err().contains("`embeddings.name` is not; name the embedding model"));
    }

    #[test]
    fn keys_are_read_from_where_they_are() {
        let keys =
            |flags: &[(&str, &str)]| config(flags).master_keys(&environment()).map_err(|error| error.to_string());
        assert!(keys(&[]).is_ok());
        assert!(keys(&[("keys.current", "env:ONE")]).is_ok());
        let wrong: [(&[(&str, &str)], &str); 4] = [
            (&[("keys.older", "env:ONE")], "`keys.current` is not"),
            (&[("keys.current", "env:NONE")], "`keys.current`: the environment variable NONE"),
            (&[("keys.current", "env:MINE")], "a key is written as its name"),
            (&[("keys.current", "env:ONE"), ("keys.older", "env:ONE")], "two keys with the name one"),
        ];
        for (flags, expected) in wrong {
            let error = keys(flags).expect_err(expected);
            assert!(error.contains(expected) && !error.contains("sk-hid"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_engine_is_made_of_the_configuration() {
        let flags =
            [("jobs.concurrency", "7"), ("rehydrate.enabled", "false"), ("policy.name", "pi"), ("jobs.lease_s", "9")];
        let parts = config(&flags).parts(&environment()).await.expect("parts");
        assert_eq!((parts.settings.jobs.concurrency, parts.settings.jobs.lease), (7, Duration::from_secs(9)));
        assert_eq!((parts.settings.policy.name.as_str(), parts.settings.policy.rehydrate.enabled), ("pi", false));
        crate::engine::Engine::new(parts).await.expect("an engine");
    }
}
