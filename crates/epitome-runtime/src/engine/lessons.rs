//! The lessons of an engine about models, cached for each tenant and kept in the store.
//!
//! A tenant's lessons are one document. They are read when the tenant's first thread is opened and again every few seconds
//! while prompts are made, so that what another process learns or resets is heard of. A write expects the version that was
//! read: a reset is never undone by a process that did not know of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use epitome::budget::Window;

use super::Engine;
use crate::ids::{Moment, TenantId};
use crate::log::{LogError, NewDocument};
use crate::model::{LessonBook, ModelLesson, ServedModel};
use crate::store::DocumentKind;

/// The name of the document.
const NAME: &str = "lessons";
/// After how long the store is asked again.
const FRESH: Duration = Duration::from_secs(5);
const WRITES_MAX: usize = 4;
/// The most tenants whose lessons are cached.
const TENANTS_MAX: usize = 1024;

/// A source of the current time that tests can replace.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// A clock that shows what a function says.
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Moment {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new(Moment::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The cached lessons of each tenant.
///
/// `book` is what this process believes; `stored` and `version` are what it last read or wrote. A lesson changes `book` at
/// once and is written when it differs enough from `stored`. A write expects `version`: on a conflict the stored book
/// replaces the cached one and the lesson is applied again, so that a reset by another process is never undone. Every five
/// seconds the store is asked again. A failed read leaves the cache as it is for another five seconds, so that a store that
/// is away costs one timeout and not one for each request.
#[derive(Debug, Default)]
pub(super) struct Lessons {
    tenants: Mutex<HashMap<TenantId, CachedBook>>,
}

#[derive(Clone, Debug)]
struct CachedBook {
    book: LessonBook,
    stored: LessonBook,
    version: u64,
    read_at: Instant,
}

impl Lessons {
    fn look<T>(&self, tenant: &TenantId, look: impl FnOnce(&CachedBook) -> T) -> Option<T> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).map(look)
    }

    /// Empties the cache: another store has other lessons.
    pub(super) fn clear(&self) {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn put(&self, tenant: &TenantId, cached: CachedBook) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= TENANTS_MAX && !tenants.contains_key(tenant) {
            tenants.clear();
        }
        tenants.insert(tenant.clone(), cached);
    }

    fn change<T>(&self, tenant: &TenantId, change: impl FnOnce(&mut CachedBook) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        change(tenants.entry(tenant.clone()).or_insert_with(|| CachedBook::new(LessonBook::default(), 0)))
    }
}

impl CachedBook {
    fn new(book: LessonBook, version: u64) -> Self {
        CachedBook { stored: book.clone(), book, version, read_at: Instant::now() }
    }
}

impl Engine {
    /// The same engine by another clock. It dates what is learned of models, and nothing else.
    #[must_use]
    pub fn with_clock(&self, clock: Clock) -> Engine {
        let mut inner = (*self.inner).clone();
        inner.clock = clock;
        Engine { inner: Arc::new(inner) }
    }

    /// The window of a model, as it is known by now.
    pub fn window_of(&self, served: &ServedModel) -> Window {
        let now = self.inner.clock.now();
        let learned = self.lesson_on(served).and_then(|lesson| lesson.window_at(now));
        Window::of(&served.model, learned.map(|window| window.tokens))
    }

    /// Returns the provider's count for one token of ours, once anything was learned.
    pub fn factor_of(&self, served: &ServedModel) -> Option<f64> {
        self.lesson_on(served).and_then(|lesson| lesson.factor).map(epitome::budget::CountFactor::get)
    }

    fn lesson_on(&self, served: &ServedModel) -> Option<ModelLesson> {
        self.inner.lessons.look(&served.tenant, |cached| cached.book.of(served).cloned()).flatten()
    }

    /// Reads a tenant's lessons unless the cache is fresh. Until it was read once, windows are the listed ones. A failure is
    /// logged and no more.
    pub async fn refresh_lessons(&self, tenant: &TenantId) {
        if self.inner.lessons.look(tenant, |cached| cached.read_at.elapsed() < FRESH) == Some(true) {
            return;
        }
        if let Err(error) = self.read_lessons(tenant).await {
            tracing::warn!(%error, "failed to read the lessons about models");
            // The next request does not wait for the same failure.
            self.inner.lessons.change(tenant, |cached| cached.read_at = Instant::now());
        }
    }

    async fn read_lessons(&self, tenant: &TenantId) -> Result<(), LogError> {
        let (book, version) = self.inner.log.document::<LessonBook>(tenant, DocumentKind::Learned, NAME).await?;
        let known = self.inner.lessons.look(tenant, |cached| cached.version);
        match known == Some(version) {
            // What was not worth a write is not lost by looking.
            true => self.inner.lessons.change(tenant, |cached| cached.read_at = Instant::now()),
            false => self.inner.lessons.put(tenant, CachedBook::new(book.unwrap_or_default(), version)),
        }
        Ok(())
    }

    /// Everything that a tenant's requests taught, as the store has it.
    pub async fn lessons(&self, tenant: &TenantId) -> Result<LessonBook, LogError> {
        self.read_lessons(tenant).await?;
        Ok(self.inner.lessons.look(tenant, |cached| cached.book.clone()).unwrap_or_default())
    }

    /// Forgets what was learned of the models with this name, of this upstream; of all where none is given. What was
    /// forgotten.
    pub async fn forget_lessons(
        &self,
        tenant: &TenantId,
        model: Option<&str>,
        upstream: Option<&str>,
    ) -> Result<Vec<ModelLesson>, LogError> {
        let mut last = None;
        for _ in 0..WRITES_MAX {
            self.read_lessons(tenant).await?;
            let forgotten = self.inner.lessons.change(tenant, |cached| cached.book.forget(model, upstream));
            match self.write_lessons(tenant).await {
                Err(error) if error.is_conflict() => last = Some(error),
                written => return written.map(|()| forgotten),
            }
        }
        last.map_or_else(|| Ok(Vec::new()), Err)
    }

    /// Applies a lesson about a model and stores it. A store that does not take it is logged and no more.
    pub async fn learn(&self, served: &ServedModel, lesson: impl Fn(&mut ModelLesson)) {
        self.refresh_lessons(&served.tenant).await;
        for _ in 0..WRITES_MAX {
            let now = self.inner.clock.now();
            self.inner.lessons.change(&served.tenant, |cached| cached.book.change(served, now, &lesson));
            match self.write_lessons(&served.tenant).await {
                Ok(()) => return,
                Err(error) if error.is_conflict() => {
                    if self.read_lessons(&served.tenant).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to store a lesson about a model");
                    return;
                }
            }
        }
    }

    /// Stores the cached lessons if they differ enough, expecting the version that was read.
    async fn write_lessons(&self, tenant: &TenantId) -> Result<(), LogError> {
        let Some(cached) = self.inner.lessons.look(tenant, CachedBook::clone) else { return Ok(()) };
        if !cached.book.is_worth_a_write(&cached.stored) {
            return Ok(());
        }
        let log = &self.inner.log;
        let document = NewDocument::new(tenant, DocumentKind::Learned, NAME, &cached.book).expecting(cached.version);
        log.apply(&[log.put_document(document)]).await?;
        self.inner.lessons.change(tenant, |now| {
            if now.version == cached.version {
                (now.version, now.stored) = (cached.version + 1, cached.book);
            }
        });
        Ok(())
    }
}
