//! What goes on beside the requests: everything that came gets into the log, whatever becomes of the answer, and whoever
//! stops the gateway can wait for it.
//!
//! A thread whose messages the store does not take is tried again until it does, by one task and not more.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use epitome_runtime::engine::Saved;
use futures_util::FutureExt as _;
use tokio::sync::watch;

use super::Inner;
use super::turn::Turn;

/// How long to wait before the store is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// The work beside the requests.
#[derive(Debug)]
pub(super) struct Beside {
    under_way: watch::Sender<usize>,
    is_ending: watch::Sender<bool>,
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
    pub(super) async fn ended(&self, patience: Duration) -> bool {
        self.beside.is_ending.send_replace(true);
        self.flush(patience).await
    }

    /// Waits for everything beside the requests, up to `timeout`.
    pub(super) async fn flush(&self, timeout: Duration) -> bool {
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
