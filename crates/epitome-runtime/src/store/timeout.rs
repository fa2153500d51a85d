//! Timeouts for a store: a database that hangs counts as one that cannot be reached.
//!
//! A write that was not confirmed in time may have been made. The writer has to look before it writes again.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Result, Store, StoreError};
use crate::delegate_store;

tokio::task_local! {
    /// The budget that the current task waits on.
    static WAITING: Arc<StoreWait>;
}

/// The time that one request may still wait for the store, all of its calls together.
///
/// ```text
/// limit 2 s     call A 0.5 s ──► left 1.5 s     calls B and C at once, 1 s ──► left 0.5 s     call D hangs ──► fails after 0.5 s
/// ```
///
/// The request's task runs inside [`StoreWait::during`], and every call of a [`TimeoutStore`] in it draws on the budget. The
/// clock runs while at least one call waits, so that calls at the same time count once. Without this sum, a request that
/// makes ten calls to a hanging database would wait ten timeouts.
#[derive(Debug)]
pub struct StoreWait(Mutex<Waited>);

#[derive(Debug)]
struct Waited {
    left: Duration,
    /// The calls that wait now, and the moment since which any does.
    waiting: usize,
    since: Instant,
}

impl StoreWait {
    /// A budget of which nothing is used.
    pub fn new(limit: Duration) -> Arc<Self> {
        Arc::new(StoreWait(Mutex::new(Waited { left: limit, waiting: 0, since: Instant::now() })))
    }

    /// Runs work in which every call of a [`TimeoutStore`] draws on the budget.
    pub async fn during<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        WAITING.scope(self, work).await
    }

    /// Returns the time that is left.
    pub fn left(&self) -> Duration {
        self.waited().left()
    }

    /// Waits for a call as long as the budget allows; `None` when that was not long enough.
    pub async fn wait<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let left = {
            let mut waited = self.waited();
            if waited.waiting == 0 {
                waited.since = Instant::now();
            }
            waited.waiting += 1;
            waited.left()
        };
        let _counted = Counted(self);
        tokio::time::timeout(left, call).await.ok()
    }

    fn waited(&self) -> MutexGuard<'_, Waited> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waited {
    fn left(&self) -> Duration {
        match self.waiting {
            0 => self.left,
            _ => self.left.saturating_sub(self.since.elapsed()),
        }
    }
}

/// Stops the clock when a call ends or its future is dropped.
struct Counted<'a>(&'a StoreWait);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut waited = self.0.waited();
        waited.left = match waited.waiting {
            1 => waited.left(),
            _ => waited.left,
        };
        waited.waiting -= 1;
    }
}

/// A store whose calls fail with [`StoreError::Unavailable`] after a timeout, those of maintenance excepted. Where the task has
/// a [`StoreWait`], a call also ends when that budget is used up. The call itself is dropped, not undone: see the module.
#[derive(Clone, Debug)]
pub struct TimeoutStore {
    inner: Arc<dyn Store>,
    limit: Duration,
}

impl TimeoutStore {
    /// Waits this long for each answer.
    pub fn new(inner: Arc<dyn Store>, limit: Duration) -> Self {
        TimeoutStore { inner, limit }
    }

    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn wrap_call<T>(&self, name: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let call = tokio::time::timeout(self.limit, call);
        let answer = match WAITING.try_with(Arc::clone) {
            Ok(waiting) => waiting.wait(call).await,
            Err(_) => Some(call.await),
        };
        match answer {
            Some(Ok(answer)) => answer,
            Some(Err(_)) | None => {
                Err(StoreError::Unavailable(format!("no answer to `{name}` within {:?}", self.limit)))
            }
        }
    }
}

delegate_store!(TimeoutStore);
#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_one_after_the_other_are_counted_together_and_those_at_once_once() {
        let wait = StoreWait::new(Duration::from_secs(10));
        let begun = tokio::time::Instant::now();
        // Paused time does not move the clock that waits are counted by, so it is moved for real.
        let pause = || async { std::thread::sleep(Duration::from_millis(30)) };
        wait.wait(pause()).await;
        let after_one = wait.left();
        assert!(after_one <= Duration::from_millis(9_970), "{after_one:?}");
        tokio::join!(wait.wait(pause()), wait.wait(async {}));
        let after_both = wait.left();
        assert!(after_both < after_one && wait.waited().waiting == 0, "{after_both:?}");
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
