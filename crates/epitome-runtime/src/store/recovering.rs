//! A store that is opened in the background, as often as it takes, and again after it was lost.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{MemoryStore, Result, Store, StoreError};
use crate::delegate_store;

/// The first and the longest wait before the store is opened again.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Opens a store.
pub type Opener = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Arc<dyn Store>>> + Send>> + Send + Sync>;

/// A store that is opened as soon as that is possible. A clone is the same store.
///
/// ```text
/// absent ──(opened)──► adopted ──► open ──(a call reports that its file was deleted)──► absent ──► …
///    ▲                    │
///    └──(adopting failed)─┘
/// ```
///
/// [`RecoveringStore::keep_open`] moves it from one state to the next and has to be polled for that, in a task of its own.
/// While it is absent every call fails at once with the reason; what to do without a store is the caller's decision. No call
/// reaches a store that is not adopted yet: names in it are made with its own secret, and rows written under another one
/// would never be found again.
#[derive(Clone)]
pub struct RecoveringStore {
    shared: Arc<Shared>,
}

struct Shared {
    opener: Opener,
    state: RwLock<State>,
    /// Notified when a call found the store's file deleted.
    lost: Notify,
    /// The number of tries to open the store.
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
        let not_yet = StoreError::Unavailable("it is not open yet".to_owned());
        let state = RwLock::new(State::Absent(Absent::because(not_yet)));
        RecoveringStore {
            shared: Arc::new(Shared { opener, state, lost: Notify::new(), tries: watch::Sender::new(0) }),
        }
    }

    /// Tells whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(&*self.shared.state.read().unwrap_or_else(PoisonError::into_inner), State::Open(_))
    }

    /// Waits for the first try to open it, at most this long. Returns whether it is open then.
    pub async fn first_try(&self, limit: Duration) -> bool {
        let mut tries = self.shared.tries.subscribe();
        let _ = tokio::time::timeout(limit, tries.wait_for(|tries| *tries > 0)).await;
        self.is_open()
    }

    /// Opens it, and again whenever it is lost, for as long as the future is polled. An opened store serves no call before
    /// `adopt` is done with it; where that fails, the store counts as not opened.
    pub async fn keep_open<F>(&self, adopt: impl Fn(Arc<dyn Store>) -> F)
    where
        F: Future<Output = Result<()>>,
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
                    *self.shared.state.write().unwrap_or_else(PoisonError::into_inner) = State::Open(store);
                    if was_open || !told.is_empty() {
                        tracing::warn!("the store is open again; threads are saved from now on");
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
                    // After the pause, because a caller who cannot work without the store has given up by now and says why.
                    if told != reason {
                        tracing::warn!(
                            reason,
                            "failed to open the store; requests are passed on unchanged, and opening is tried again"
                        );
                        told = reason;
                    }
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    fn become_absent(&self, absent: Arc<dyn Store>) {
        *self.shared.state.write().unwrap_or_else(PoisonError::into_inner) = State::Absent(absent);
    }

    fn inner(&self) -> Arc<dyn Store> {
        match &*self.shared.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open(store) | State::Absent(store) => Arc::clone(store),
        }
    }

    async fn wrap_call<T>(&self, _: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let answer = call.await;
        if let Err(StoreError::Deleted(path)) = &answer
            && self.is_open()
        {
            tracing::warn!(path, "the store's file was deleted or replaced; opening it anew");
            self.become_absent(Absent::because(StoreError::Deleted(path.clone())));
            self.shared.lost.notify_one();
        }
        answer
    }
}

delegate_store!(RecoveringStore);

/// A store that fails every call with one error.
#[derive(Debug)]
struct Absent {
    why: StoreError,
    /// Never asked.
    nobody: Arc<dyn Store>,
}

impl Absent {
    fn because(why: StoreError) -> Arc<dyn Store> {
        Arc::new(Absent { why, nobody: Arc::new(MemoryStore::new()) })
    }

    fn inner(&self) -> &Arc<dyn Store> {
        &self.nobody
    }

    async fn wrap_call<T>(&self, _: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        drop(call);
        Err(self.why.clone())
    }
}

delegate_store!(Absent);
