//! Single flight: one call for callers that ask for the same at the same time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// Calls that are under way, by key.
///
/// The first caller of a key makes the value; callers that come while it is being made wait for it and get a clone. The
/// entry goes with the value, so that a later call makes it anew: this shares calls and caches nothing. If the first
/// caller's future is dropped, one of those that wait makes the value; if all are dropped, the next call removes the entry.
/// A failure is shared like a success, because asking a model ten times for the same failure helps nobody.
#[derive(Debug)]
pub struct SingleFlight<T> {
    cells: Mutex<HashMap<String, Arc<OnceCell<T>>>>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        SingleFlight { cells: Mutex::default() }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Returns the value of a key, made once for all callers that ask while it is being made.
    pub async fn run_or_join<F: Future<Output = T>>(&self, key: &str, make: impl FnOnce() -> F) -> T {
        let cell = {
            let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
            // Entries without a waiting caller were dropped on the way.
            cells.retain(|_, cell| Arc::strong_count(cell) > 1);
            Arc::clone(cells.entry(key.to_owned()).or_default())
        };
        let value = cell.get_or_init(make).await.clone();
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if cells.get(key).is_some_and(|known| Arc::ptr_eq(known, &cell)) {
            cells.remove(key);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::SingleFlight;

    #[tokio::test]
    async fn what_is_asked_for_twice_at_once_is_made_once_and_again_later() {
        let (flights, made) = (SingleFlight::default(), AtomicU32::new(0));
        let ask = |key: &'static str| {
            flights.run_or_join(key, || async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                made.fetch_add(1, Ordering::SeqCst) + 1
            })
        };
        let (one, two, other) = tokio::join!(ask("a"), ask("a"), ask("b"));
        assert_eq!(one, two);
        assert_ne!(one, other);
        assert_eq!(made.load(Ordering::SeqCst), 2);
        ask("a").await;
        assert_eq!(made.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn when_the_maker_is_dropped_the_one_who_waits_makes_it() {
        let flights = SingleFlight::default();
        let never = flights.run_or_join("a", std::future::pending::<u32>);
        tokio::select! {
            _ = never => unreachable!("it never ends"),
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
        assert_eq!(flights.run_or_join("a", || async { 7 }).await, 7);
    }
}
