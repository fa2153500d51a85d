//! The bus: events are emitted in one place and delivered to many.
//!
//! ```text
//! emit(event) ──┬─ listener, listener, …     called in place, a panic is caught
//!               └─ subscribers               a bounded queue each; who lags loses the oldest and is told
//! before / after ── hook, hook, …            a task each, waited for up to a limit
//! ```
//!
//! Nothing that listens can stop a request.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::{CompactionStats, Event, Hook, Listener};
use crate::ids::ThreadKey;

const LAG_MAX: usize = 1024;

const HOOK_LIMIT: Duration = Duration::from_secs(2);

/// Delivers events to listeners and subscribers, and calls hooks around compactions. A clone delivers to the same ones.
///
/// A listener is called in place, on the request's own thread; a panic in it is caught and logged. A subscriber has a queue of 1024 events; one that lags loses
/// the oldest and learns how many. A hook runs in a task of its own, which is aborted at the limit. The code that emits
/// never learns of any of this: an event that could fail a request would make observing it a risk.
#[derive(Clone)]
pub struct Bus {
    listeners: Arc<[Arc<dyn Listener>]>,
    hooks: Arc<[Arc<dyn Hook>]>,
    hook_limit: Duration,
    subscribers: broadcast::Sender<Arc<Event>>,
}

impl Default for Bus {
    fn default() -> Self {
        Bus {
            listeners: Arc::default(),
            hooks: Arc::default(),
            hook_limit: HOOK_LIMIT,
            subscribers: broadcast::Sender::new(LAG_MAX),
        }
    }
}

impl Bus {
    /// A bus that nobody listens to yet.
    pub fn new() -> Self {
        Bus::default()
    }

    /// The bus with one more listener. Clones made before do not tell it.
    #[must_use]
    pub fn with_listener(mut self, listener: Arc<dyn Listener>) -> Self {
        self.listeners = self.listeners.iter().cloned().chain([listener]).collect();
        self
    }

    /// The bus with one more hook. Clones made before do not call it.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks = self.hooks.iter().cloned().chain([hook]).collect();
        self
    }

    /// The bus with another limit on how long a hook is waited for.
    #[must_use]
    pub fn with_hook_limit(mut self, limit: Duration) -> Self {
        self.hook_limit = limit;
        self
    }

    /// Tells everybody who listens. Never panics, never waits.
    pub fn emit(&self, event: &Event) {
        for listener in self.listeners.iter() {
            if catch_unwind(AssertUnwindSafe(|| listener.hear(event))).is_err() {
                tracing::warn!("an event listener panicked");
            }
        }
        if self.subscribers.receiver_count() > 0 {
            // The only error is that the last subscriber has just left.
            let _ = self.subscribers.send(Arc::new(event.clone()));
        }
    }

    /// The events from now on. A receiver that lags loses the oldest and is told how many.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.subscribers.subscribe()
    }

    /// Calls the hooks before a compaction, all at once, and waits for them up to the limit.
    pub async fn before(&self, key: &ThreadKey, stats: &CompactionStats) {
        self.call(Around::Before, key, stats).await;
    }

    /// Calls the hooks after a compaction, all at once, and waits for them up to the limit.
    pub async fn after(&self, key: &ThreadKey, stats: &CompactionStats) {
        self.call(Around::After, key, stats).await;
    }

    async fn call(&self, around: Around, key: &ThreadKey, stats: &CompactionStats) {
        let Ok(runtime) = Handle::try_current() else {
            tracing::warn!("hooks were not called {around} a compaction: there is no runtime");
            return;
        };
        let limit = self.hook_limit;
        join_all(self.hooks.iter().enumerate().map(|(place, hook)| {
            let (hook, key, stats) = (Arc::clone(hook), key.clone(), *stats);
            let call = async move {
                match around {
                    Around::Before => hook.on_before_compaction(&key, &stats).await,
                    Around::After => hook.on_after_compaction(&key, &stats).await,
                }
            };
            // In a task of its own, which ends with the wait for it.
            let mut task = JoinSet::new();
            task.spawn_on(call, &runtime);
            async move {
                match tokio::time::timeout(limit, task.join_next()).await {
                    Ok(Some(Err(error))) if error.is_panic() => {
                        tracing::warn!("hook {place} panicked {around} a compaction; the compaction continues");
                    }
                    Ok(_) => {}
                    Err(_) => {
                        tracing::warn!("hook {place} took longer than {limit:?} {around} a compaction and was aborted");
                    }
                }
            }
        }))
        .await;
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").field("listeners", &self.listeners.len()).field("hooks", &self.hooks.len()).finish()
    }
}

crate::named_enum! {
    enum Around {
        Before = "before",
        After = "after",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::event::EventKind;
    use crate::ids::{Moment, TenantId, ThreadId};

    fn key() -> ThreadKey {
        ThreadKey::new(TenantId::local(), "t1".parse::<ThreadId>().expect("a name"))
    }

    fn event(number: u64) -> Event {
        Event { tokens_before: number, ..Event::new(Moment(1), key(), EventKind::CompactionCompleted) }
    }

    #[derive(Default)]
    struct Keeps(Mutex<Vec<u64>>);

    impl Listener for Keeps {
        fn hear(&self, event: &Event) {
            self.0.lock().expect("no panic holds it").push(event.tokens_before);
        }
    }

    struct Panics;

    impl Listener for Panics {
        fn hear(&self, _: &Event) {
            panic!("this listener panics");
        }
    }

    #[test]
    fn a_listener_that_panics_is_not_noticed_by_anybody_else() {
        let good = Arc::new(Keeps::default());
        let bus = Bus::new().with_listener(Arc::new(Panics)).with_listener(good.clone());
        (0..10).for_each(|number| bus.emit(&event(number)));
        assert_eq!(*good.0.lock().expect("held"), (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_subscriber_that_lags_loses_the_oldest_and_is_told_how_many() {
        let bus = Bus::new();
        bus.emit(&event(99));
        let mut receiver = bus.clone().subscribe();
        let sent = LAG_MAX as u64 + 10;
        (0..sent).for_each(|number| bus.emit(&event(number)));
        let lost = receiver.recv().await.expect_err("it lags");
        assert_eq!(lost, broadcast::error::RecvError::Lagged(10));
        assert_eq!(receiver.recv().await.expect("the oldest left").tokens_before, 10);
    }

    enum Does {
        Works,
        Panics,
        Hangs,
    }

    struct Acts(Does, Arc<AtomicU64>);

    impl Acts {
        async fn act(&self) {
            match self.0 {
                Does::Works => drop(self.1.fetch_add(1, Ordering::Relaxed)),
                Does::Panics => panic!("this hook panics"),
                Does::Hangs => std::future::pending().await,
            }
        }
    }

    #[async_trait::async_trait]
    impl Hook for Acts {
        async fn on_before_compaction(&self, _: &ThreadKey, _: &CompactionStats) {
            self.act().await;
        }

        async fn on_after_compaction(&self, _: &ThreadKey, _: &CompactionStats) {
            self.act().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hooks_that_panic_or_hang_are_left_behind_after_the_limit_and_the_others_are_called() {
        let calls = Arc::new(AtomicU64::new(0));
        let acts = |does| Arc::new(Acts(does, calls.clone()));
        let bus = Bus::new()
            .with_hook_limit(Duration::from_secs(5))
            .with_hook(acts(Does::Hangs))
            .with_hook(acts(Does::Panics))
            .with_hook(acts(Does::Hangs))
            .with_hook(acts(Does::Works));
        let begun = tokio::time::Instant::now();
        bus.before(&key(), &CompactionStats::default()).await;
        assert_eq!((calls.load(Ordering::Relaxed), begun.elapsed().as_secs()), (1, 5), "once, and one limit for all");
        bus.after(&key(), &CompactionStats::default()).await;
        assert_eq!((calls.load(Ordering::Relaxed), begun.elapsed().as_secs()), (2, 10));
    }

    #[tokio::test]
    async fn a_hook_left_behind_is_not_kept_alive() {
        let hook = Arc::new(Acts(Does::Hangs, Arc::default()));
        let bus = Bus::new().with_hook_limit(Duration::from_millis(1)).with_hook(hook.clone());
        bus.before(&key(), &CompactionStats::default()).await;
        drop(bus);
        let gone = async {
            while Arc::strong_count(&hook) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("its task is ended");
    }

    #[test]
    fn without_a_runtime_hooks_are_passed_over() {
        let calls = Arc::new(AtomicU64::new(0));
        let bus = Bus::new().with_hook(Arc::new(Acts(Does::Works, calls.clone())));
        let (key, stats) = (key(), CompactionStats::default());
        let waiting = std::pin::pin!(bus.before(&key, &stats));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.poll(&mut context).is_ready());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }
}
