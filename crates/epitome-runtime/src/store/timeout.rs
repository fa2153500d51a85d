//! A store that is not waited for longer than so long: a database that hangs is one that cannot be reached.
//!
//! A write that was not confirmed in time may have been made; whoever writes looks before writing again.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Store, StoreError};
use crate::delegate_store;

tokio::task_local! {
    /// Whose waiting is counted.
    static WAITING: Arc<StoreWait>;
}

/// How long one piece of work may still wait for the store, all of its waits together. Waits at the same time count once.
#[derive(Debug)]
pub struct StoreWait(Mutex<Waited>);

#[derive(Debug)]
struct Waited {
    left: Duration,
    /// How many wait now, and since when anybody has.
    waiting: usize,
    since: Instant,
}

impl StoreWait {
    /// Work that has not waited yet, and may this long.
    pub fn new(limit: Duration) -> Arc<Self> {
        Arc::new(StoreWait(Mutex::new(Waited { left: limit, waiting: 0, since: Instant::now() })))
    }

    /// Does work in which every call of a [`TimeoutStore`] store counts.
    pub async fn during<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        WAITING.scope(self, work).await
    }

    /// How long is left.
    pub fn left(&self) -> Duration {
        self.waited().left()
    }

    /// Waits for one thing as long as may be; `None` when that was not long enough.
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

/// A wait that is counted until it is over or given up.
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

/// A store with a limit on every answer but those of maintenance.
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

    async fn wrap_call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let call = tokio::time::timeout(self.limit, call);
        let answer = match WAITING.try_with(Arc::clone) {
            Ok(waiting) => waiting.wait(call).await,
            Err(_) => Some(call.await),
        };
        match answer {
            Some(Ok(answer)) => answer,
            Some(Err(_)) | None => {
                Err(StoreError::Unavailable { reason: format!("no answer to `{name}` within {:?}", self.limit) })
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
