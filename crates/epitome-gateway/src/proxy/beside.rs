//! What goes on beside the requests: everything that came gets into the log, whatever becomes of the answer, and whoever
//! stops the gateway can wait for it.
//!
//! What there is to be written down is gathered for a moment: the store is asked once for all of it, and whoever passes bytes
//! on is woken up once. A thread whose messages the store does not take is tried again until it does, by one task and not more.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use epitome_runtime::engine::Saved;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::Inner;
use super::record::Gone;
use super::turn::Turn;

/// For how long is gathered what is to be written down.
const GATHER: Duration = Duration::from_millis(10);
/// After how long whoever was to write it down will not come any more.
const OVERDUE: Duration = Duration::from_secs(1);

/// How long to wait before the store is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// The work beside the requests.
#[derive(Debug)]
pub(super) struct Beside {
    under_way: watch::Sender<usize>,
    is_ending: watch::Sender<bool>,
}

/// What is to be written down.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Requests that came.
    pub came: Vec<Arc<Turn>>,
    /// Requests that are over.
    pub over: Vec<(Arc<Turn>, Gone)>,
    /// Since when somebody is to write it down.
    since: Option<Instant>,
}

/// A piece of work that was counted; not any more when it is dropped.
struct Counted<'a>(&'a watch::Sender<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Default for Beside {
    fn default() -> Self {
        Beside { under_way: watch::Sender::new(0), is_ending: watch::Sender::new(false) }
    }
}

impl Inner {
    /// Does something beside the requests; the end waits for it.
    pub(super) fn aside<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Inner>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let relay = Arc::clone(self);
        // Counted from now on, not from when it is first run.
        relay.beside.under_way.send_modify(|count| *count += 1);
        let handle = relay.work.clone();
        handle.spawn(async move {
            let _counted = Counted(&relay.beside.under_way);
            work(Arc::clone(&relay)).await;
        });
    }

    /// Adds to what is to be written down soon.
    pub(super) fn gather(self: &Arc<Self>, add: impl FnOnce(&mut Gathered)) {
        let is_first = {
            let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            add(&mut gathered);
            let is_first = gathered.since.is_none_or(|since| since.elapsed() > OVERDUE);
            if is_first {
                gathered.since = Some(Instant::now());
            }
            is_first
        };
        if *self.beside.is_ending.borrow() {
            return self.aside(Inner::write_down);
        }
        // Where nobody is left to see to it, it is done at the end.
        let Some(here) = Handle::try_current().ok().filter(|_| is_first) else { return };
        // Another gateway may be asked for it next.
        let gather = if self.engine.log().store().is_shared() { Duration::ZERO } else { GATHER };
        let relay = Arc::clone(self);
        // Whoever passed it on waits: nobody is woken up for it before there is something to do.
        here.spawn(async move {
            tokio::time::sleep(gather).await;
            relay.aside(Inner::write_down);
        });
    }

    /// Writes down what is gathered. With what is over goes what came with it.
    async fn write_down(self: Arc<Self>) {
        let Gathered { came, over, since: _ } =
            std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner));
        let is_under_way = |turn: &Arc<Turn>| !over.iter().any(|(gone, _)| Arc::ptr_eq(gone, turn));
        let came: Vec<Arc<Turn>> = came.into_iter().filter(is_under_way).collect();
        let settled = came.into_iter().map(|turn| {
            let settled = Arc::clone(&self).settled_at_last(Arc::clone(&turn));
            self.whatever_breaks(turn, settled)
        });
        tokio::join!(self.record(over), join_all(settled));
    }

    /// Does something for a turn; where that breaks off, what came still gets into the log, and nobody else is held up.
    pub(super) async fn whatever_breaks<T>(
        self: &Arc<Self>,
        turn: Arc<Turn>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let done = AssertUnwindSafe(work).catch_unwind().await.ok();
        if done.is_none() {
            tracing::error!("recording a request panicked");
            self.settle_later(turn);
        }
        done
    }

    /// Tries until the store has everything that came for a thread.
    pub(super) fn settle_later(self: &Arc<Self>, turn: Arc<Turn>) {
        if std::mem::replace(&mut turn.placed.thread.state().is_waiting, true) {
            return;
        }
        // It may take as long as the store is gone: the body, which is counted among those under way, is not kept for it.
        let turn = Turn { original: Bytes::new(), ..(*turn).clone() };
        self.aside(|relay| async move {
            let mut ending = relay.beside.is_ending.subscribe();
            let mut is_last = false;
            while !relay.is_kept(&turn).await && !is_last {
                tokio::select! {
                    () = tokio::time::sleep(AGAIN) => {}
                    _ = ending.wait_for(|ending| *ending) => is_last = true,
                }
            }
            turn.placed.thread.state().is_waiting = false;
        });
    }

    /// Gives the store what came for a thread; whether it has all of it.
    async fn is_kept(&self, turn: &Turn) -> bool {
        let Ok(mut open) = self.settled(turn, &turn.placed.thread).await else { return false };
        let Some(thread) = open.as_mut() else { return true };
        if thread.saved() != Saved::Yes {
            thread.flush().await;
        }
        thread.saved() == Saved::Yes
    }

    /// Waits for everything beside the requests, as long as somebody has patience.
    pub(super) async fn ended(self: &Arc<Self>, patience: Duration) -> bool {
        self.beside.is_ending.send_replace(true);
        self.flush(patience).await
    }

    /// Writes down what was gathered and waits for everything beside the requests, up to `timeout`.
    pub(super) async fn flush(self: &Arc<Self>, timeout: Duration) -> bool {
        self.aside(Inner::write_down);
        let mut under_way = self.beside.under_way.subscribe();
        tokio::time::timeout(timeout, under_way.wait_for(|count| *count == 0)).await.is_ok()
    }
}

/// Sees to it that what came with a turn is logged even if nobody waits for its answer, or there is none.
pub(super) struct Pledge {
    relay: Arc<Inner>,
    turn: Option<Arc<Turn>>,
}

impl Pledge {
    pub(super) fn of(relay: &Arc<Inner>, turn: &Arc<Turn>) -> Pledge {
        Pledge { relay: Arc::clone(relay), turn: Some(Arc::clone(turn)) }
    }

    /// Somebody else sees to it.
    pub(super) fn redeem(mut self) {
        self.turn = None;
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.relay.settle_later(turn);
        }
    }
}
