//! A store that may not be there: it is opened in the background, as often as it takes, and again when it was lost.
//!
//! ```text
//! absent ──► opened, adopted ──► open ──► its file was deleted ──► absent ──► …
//! ```
//!
//! While it is absent every call fails at once, with why. It decides nothing about what to do without a store.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Memory, Store, StoreError};
use crate::delegate_store;

/// How long to wait before opening is tried again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Opens a store.
pub type Opener =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>> + Send + Sync>;

/// A store that is opened when it can be. A clone is the same one.
#[derive(Clone)]
pub struct RecoveringStore {
    shared: Arc<Shared>,
}

struct Shared {
    opener: Opener,
    state: RwLock<State>,
    /// Rung when it was lost.
    lost: Notify,
    /// How often opening was tried.
    tries: watch::Sender<u64>,
}

enum State {
    Open(Arc<dyn Store>),
    Absent(Arc<dyn Store>),
}

impl std::fmt::Debug for RecoveringStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecoveringStore").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}

impl RecoveringStore {
    /// A store that was not opened yet.
    pub fn new(opener: Opener) -> Self {
        let not_yet = StoreError::Unavailable { reason: "it is not open yet".to_owned() };
        let state = RwLock::new(State::Absent(Absent::because(not_yet)));
        RecoveringStore {
            shared: Arc::new(Shared { opener, state, lost: Notify::new(), tries: watch::Sender::new(0) }),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(&*self.shared.state.read().unwrap_or_else(PoisonError::into_inner), State::Open(_))
    }

    /// Waits until opening was tried once, so long at most; whether it is open then.
    pub async fn first_try(&self, limit: Duration) -> bool {
        let mut tries = self.shared.tries.subscribe();
        let _ = tokio::time::timeout(limit, tries.wait_for(|tries| *tries > 0)).await;
        self.is_open()
    }

    /// Opens it, and again whenever it is lost, for as long as it is polled. What `adopt` is given is not used by anybody
    /// before it is done with it; where it fails, the store counts as not opened.
    pub async fn keep_open<F>(&self, adopt: impl Fn(Arc<dyn Store>) -> F)
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        let mut was_open = false;
        let mut told = String::new();
        let mut pause = PAUSE_MIN;
        loop {
            let opened = match (self.shared.opener)().await {
                Ok(store) => adopt(Arc::clone(&store)).await.map(|()| store),
                Err(error) => Err(error),
            };
            match opened {
                Ok(store) => {
                    self.become_open(store);
                    if was_open || !told.is_empty() {
                        tracing::warn!("the store is open again; threads are kept from now on");
                    }
                    (was_open, pause) = (true, PAUSE_MIN);
                    told.clear();
                    self.shared.tries.send_modify(|tries| *tries += 1);
                    self.shared.lost.notified().await;
                }
                Err(error) => {
                    let reason = error.to_string();
                    self.become_absent(Absent::because(error));
                    self.shared.tries.send_modify(|tries| *tries += 1);
                    tokio::time::sleep(pause).await;
                    // Only now: whoever does not go on without the store has given up meanwhile, and says why.
                    if told != reason {
                        tracing::warn!(
                            reason,
                            "the store cannot be opened; requests go out as they came, and it is tried again"
                        );
                        told = reason;
                    }
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    fn become_open(&self, store: Arc<dyn Store>) {
        *self.shared.state.write().unwrap_or_else(PoisonError::into_inner) = State::Open(store);
    }

    fn become_absent(&self, absent: Arc<dyn Store>) {
        *self.shared.state.write().unwrap_or_else(PoisonError::into_inner) = State::Absent(absent);
    }

    fn inner(&self) -> Arc<dyn Store> {
        match &*self.shared.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open(store) | State::Absent(store) => Arc::clone(store),
        }
    }

    async fn wrap_call<T>(
        &self,
        _: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answer = call.await;
        if let Err(StoreError::Deleted { path }) = &answer
            && self.is_open()
        {
            tracing::warn!(path, "the store's file was deleted or replaced; it is opened anew");
            self.become_absent(Absent::because(StoreError::Deleted { path: path.clone() }));
            self.shared.lost.notify_one();
        }
        answer
    }
}

delegate_store!(RecoveringStore);

/// A store that is not there: every call fails with why.
#[derive(Debug)]
struct Absent {
    why: StoreError,
    /// Never asked.
    nobody: Arc<dyn Store>,
}

impl Absent {
    fn because(why: StoreError) -> Arc<dyn Store> {
        Arc::new(Absent { why, nobody: Arc::new(Memory::new()) })
    }

    fn inner(&self) -> &Arc<dyn Store> {
        &self.nobody
    }

    async fn wrap_call<T>(
        &self,
        _: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        drop(call);
        Err(self.why.clone())
    }
}

delegate_store!(Absent);
