//! The engine: one type that a program uses. Open a thread, append, prepare a step, append the answer.
//!
//! ```text
//! open ──► append ──► prepare_step ──► (the model) ──► append ──► prepare_step ──► …
//!                         │
//!                         ├─ below the soft mark: the prompt, at the cost of what is new
//!                         ├─ above it: the prompt now, a compaction in the background
//!                         └─ above the hard mark: waits, bounded, then compacts with what needs nobody
//! ```
//!
//! ```
//! use epitome::wire::Dialect;
//! use epitome_runtime::artifact::Access;
//! use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, StepRequest};
//! use epitome_runtime::ids::{TenantId, ThreadId};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(EngineParts::in_memory(EngineSettings::default())).await?;
//! let access = Access::owner(TenantId::local(), "my-service");
//! let mut thread = engine.open(&access, ThreadId::new(), Dialect::Chat).await?;
//! thread.append([r#"{"role":"user","content":"Where is my order?"}"#]).await?;
//! let step = thread.prepare_step(&StepRequest::default()).await?;
//! assert_eq!(step.messages.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A step never fails for want of a store, a model or a job: what could not be saved is kept and saved with the next
//! step, and what could not be summarized by a model is summarized by code.

mod ask;
mod compact;
mod embed;
mod error;
mod handoff;
mod job;
mod lessons;
mod memory;
mod notes;
mod quality;
mod read;
mod room;
mod secret;
mod settings;
mod snapshot;
mod step;
mod thread;
mod worker;

pub use error::EngineError;
use error::Result;
pub use handoff::Handoff;
pub use lessons::Clock;
pub use notes::{HiddenMessage, MemoryNotes, NoteChange, ThreadNotes};
pub use settings::{ArtifactRetention, AutoCompaction, Background, EngineSettings, Jobs, SensitivityRule};
pub use step::{Step, StepRequest};
pub use thread::{NewEntry, OpenThread, Saved};
pub use worker::Worker;

use std::sync::Arc;

use epitome::budget::{TokenCounter, counter_for, counter_named};
use epitome::wire::Dialect;
use tokio::sync::Notify;

use crate::artifact::{Access, Artifacts, Permission};
use crate::event::{Bus, Event};
use crate::ids::{Moment, ThreadId, ThreadKey};
use crate::log::{Log, NewDocument, NewThread};
use crate::model::Embeddings;
use crate::store::{DocumentKind, Store, TimeoutStore};
use crate::summarize::Summarizer;
use crate::vault::{Keys, Vault, random_secret};

/// The tenant of what belongs to the store itself.
pub const SYSTEM_TENANT: &str = "epitome.system";

/// Opens threads, prepares their prompts and compacts them, over one store. A clone is the same engine.
///
/// An engine is *connected* when its vault has the secret of its store. [`Engine::new`] returns a connected one.
/// [`Engine::before_its_store`] returns one whose calls must fail until [`Engine::adopt_store`] was called: a
/// [`RecoveringStore`](crate::store::RecoveringStore) sees to that. Otherwise rows would be written under names that nobody
/// finds again.
///
/// [`Engine::under`] makes an engine for another policy or model that shares everything else: log, artifacts, bus, lessons
/// and the notice of changed jobs. Several processes may have engines on one store; they meet in compare-and-swap writes
/// and in leases of jobs, never in memory.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    log: Log,
    artifacts: Artifacts,
    bus: Bus,
    summarizer: Summarizer,
    embeddings: Option<Embeddings>,
    settings: EngineSettings,
    policy: Arc<epitome::policy::Policy>,
    counter: LabeledCounter,
    lessons: Arc<lessons::Lessons>,
    annotated: notes::AnnotatedThreads,
    clock: Clock,
    /// Notified whenever this process queued or ended a job, or committed a plan.
    job_changed: Arc<Notify>,
}

#[derive(Clone)]
struct LabeledCounter {
    label: String,
    counter: Arc<dyn TokenCounter>,
}

impl std::fmt::Debug for LabeledCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.label)
    }
}

/// The scope and labels of a new thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadScope {
    /// Among whose threads it is looked for by its messages; empty where nobody looks.
    pub name: String,
    /// The caller's own labels.
    pub labels: serde_json::Value,
}

/// The parts that an engine is built from.
#[derive(Debug)]
pub struct EngineParts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The object store for the bytes of artifacts.
    pub objects: Arc<dyn object_store::ObjectStore>,
    /// The keys that bodies are sealed with.
    pub keys: Keys,
    /// The event bus.
    pub bus: Bus,
    /// The summarizer.
    pub summarizer: Summarizer,
    /// The model that recall compares meanings with; without one it searches words alone.
    pub embeddings: Option<Embeddings>,
    /// Everything else.
    pub settings: EngineSettings,
}

impl EngineParts {
    /// Everything in memory, nothing sealed, the embedded summarizer.
    pub fn in_memory(settings: EngineSettings) -> Self {
        EngineParts {
            store: Arc::new(crate::store::MemoryStore::new()),
            objects: Arc::new(object_store::memory::InMemory::new()),
            keys: Keys::none(),
            bus: Bus::new(),
            summarizer: Summarizer::Embedded,
            embeddings: None,
            settings,
        }
    }
}

impl Engine {
    /// An engine of these parts. The store's own secret is made on first use.
    pub async fn new(parts: EngineParts) -> Result<Engine> {
        let engine = Engine::before_its_store(parts);
        let store = Arc::clone(engine.log().store());
        engine.adopt_store(store).await?;
        Ok(engine)
    }

    /// An engine whose store may not answer yet. Its calls have to fail until [`Engine::adopt_store`] has seen the store:
    /// only then is it known what names in it are made of.
    pub fn before_its_store(parts: EngineParts) -> Engine {
        let EngineParts { store, objects, keys, bus, summarizer, embeddings, mut settings } = parts;
        settings.adopt_policy(settings.policy.clone());
        let store: Arc<dyn Store> = Arc::new(TimeoutStore::new(store, settings.store_timeout));
        let vault = Vault::new(keys, random_secret());
        let log = Log::new(Arc::clone(&store), vault.clone());
        let artifacts = Artifacts::new(objects, store, vault).with_timeout(settings.object_timeout);
        let counter = counter(&settings);
        let inner = Inner {
            log,
            artifacts,
            bus,
            summarizer,
            embeddings,
            policy: Arc::new(settings.policy.clone()),
            settings,
            counter,
            lessons: Arc::default(),
            annotated: notes::AnnotatedThreads::default(),
            clock: Clock::default(),
            job_changed: Arc::new(Notify::new()),
        };
        Engine { inner: Arc::new(inner) }
    }

    /// Takes over what a store knows that was just opened: its secret, which is made where it has none, and what was
    /// learned of models.
    pub async fn adopt_store(&self, store: Arc<dyn Store>) -> Result<()> {
        let vault = self.inner.log.vault();
        vault.adopt(secret::store_secret(&store, vault.keys()).await?);
        self.inner.lessons.clear();
        Ok(())
    }

    /// The same engine for another policy and another model: what is kept, learned and told is shared.
    pub fn under(&self, policy: Option<&epitome::policy::Policy>, model: Option<&str>) -> Engine {
        let mut inner = (*self.inner).clone();
        if let Some(policy) = policy {
            inner.settings.adopt_policy(policy.clone());
            inner.policy = Arc::new(inner.settings.policy.clone());
        }
        if let Some(model) = model {
            inner.settings.model = Some(model.to_owned());
        }
        inner.counter = counter(&inner.settings);
        Engine { inner: Arc::new(inner) }
    }

    /// Opens a thread; one that is not there is made.
    pub async fn open(&self, access: &Access, thread: ThreadId, dialect: Dialect) -> Result<OpenThread> {
        self.open_in(access, thread, dialect, ThreadScope::default()).await
    }

    /// Opens a thread; one that is not there is made within a scope.
    pub async fn open_in(
        &self,
        access: &Access,
        thread: ThreadId,
        dialect: Dialect,
        scope: ThreadScope,
    ) -> Result<OpenThread> {
        let key = self.allowed(access, thread, Permission::WriteThread)?;
        self.refresh_lessons(&key.tenant).await;
        if self.inner.log.thread(&key).await?.is_none() {
            let new = NewThread {
                key: key.clone(),
                dialect: dialect.name().to_owned(),
                counter: self.inner.counter.label.clone(),
                at: Moment::now(),
                scope: scope.name,
                labels: scope.labels,
            };
            self.inner.log.create(new).await?;
        }
        let thread = OpenThread::load(self.clone(), access.clone(), key).await?;
        if thread.dialect == dialect {
            Ok(thread)
        } else {
            Err(EngineError::Dialect(thread.dialect.name().to_owned(), dialect.name()))
        }
    }

    /// Opens a thread that is there.
    pub async fn resume(&self, access: &Access, thread: ThreadId) -> Result<OpenThread> {
        let key = self.allowed(access, thread, Permission::ReadThread)?;
        self.refresh_lessons(&key.tenant).await;
        OpenThread::load(self.clone(), access.clone(), key).await
    }

    /// Makes a thread that shares the first `at` messages with another, and opens it.
    pub async fn fork(&self, access: &Access, from: ThreadId, at: u64, new: ThreadId) -> Result<OpenThread> {
        let key = self.allowed(access, from, Permission::WriteThread)?;
        let row = self.inner.log.fork(&key, at, new, Moment::now()).await?;
        let mut goes_along = vec![DocumentKind::Memory];
        // The state was merged from all that was compacted: what came behind the fork is in it and cannot be taken out.
        if self.inner.log.is_planned_within(&key, at).await? {
            goes_along.push(DocumentKind::State);
        }
        for kind in goes_along {
            self.inner.log.copy_document(&key.tenant, kind, key.thread.as_str(), row.key.thread.as_str()).await?;
        }
        let (notes, _) = self.inner.log.annotations(&key).await?;
        let notes = notes.until(at);
        if !notes.is_empty() {
            let name = row.key.thread.as_str();
            let copy = NewDocument::new(&key.tenant, DocumentKind::Annotations, name, &notes).expecting(0);
            match self.inner.log.apply(&[self.inner.log.put_document(copy)]).await {
                Err(error) if !error.is_conflict() => return Err(error.into()),
                _ => {}
            }
        }
        OpenThread::load(self.clone(), access.clone(), row.key).await
    }

    /// Tells listeners of an event and stores it with its thread.
    async fn record_event(&self, event: &Event) {
        self.inner.bus.emit(event);
        if let Err(error) = self.inner.log.apply(&[self.inner.log.add_event(event)]).await {
            tracing::warn!(%error, "failed to store an event");
        }
    }

    fn allowed(&self, access: &Access, thread: ThreadId, permission: Permission) -> Result<ThreadKey> {
        if !access.may(permission) {
            tracing::warn!(requester = access.requester, permission = permission.name(), "a permission is missing");
            return Err(EngineError::NotAllowed);
        }
        Ok(ThreadKey::new(access.tenant.clone(), thread))
    }

    /// The log beneath.
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// The artifacts beneath.
    pub fn artifacts(&self) -> &Artifacts {
        &self.inner.artifacts
    }

    /// The event bus.
    pub fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// Its settings.
    pub fn settings(&self) -> &EngineSettings {
        &self.inner.settings
    }

    fn policy(&self) -> Arc<epitome::policy::Policy> {
        Arc::clone(&self.inner.policy)
    }

    /// The counter that messages are counted with.
    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        &self.inner.counter.counter
    }

    /// The name of that counter, as threads remember it.
    pub fn counter_label(&self) -> &str {
        &self.inner.counter.label
    }
}

fn counter(settings: &EngineSettings) -> LabeledCounter {
    let named = &settings.policy.count.tokenizer;
    match counter_named(named) {
        Ok(counter) => LabeledCounter { label: format!("{named}{COUNTING}"), counter },
        Err(_) => {
            let model = settings.model.as_deref();
            LabeledCounter { label: format!("auto:{}{COUNTING}", model.unwrap_or("-")), counter: counter_for(model) }
        }
    }
}

/// Which way of counting a counter's label stands for. Messages that were counted another way are counted anew when their
/// thread is opened: before the second, the files in them were counted by their base64.
const COUNTING: &str = "#2";
