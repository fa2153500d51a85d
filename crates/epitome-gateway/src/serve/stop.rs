//! Stopping, in two stages: first no new requests are accepted and open ones finish; then everything ends at once.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    Finishing,
    AtOnce,
}

/// Tells a gateway to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<Stage>);

/// The receiving end of a [`Stopper`]. A clone receives the same.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Stage>);

impl Stop {
    /// Makes the two ends. If the stopper is dropped, nothing will stop the gateway.
    pub fn pair() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(Stage::Serving);
        (Stopper(sender), Stop(receiver))
    }

    /// True if no new requests are accepted.
    pub fn is_finishing(&self) -> bool {
        *self.0.borrow() >= Stage::Finishing
    }

    /// Waits for the first stage.
    pub async fn finishing(&mut self) {
        self.reached(Stage::Finishing).await;
    }

    /// Waits for the second stage.
    pub async fn at_once(&mut self) {
        self.reached(Stage::AtOnce).await;
    }

    async fn reached(&mut self, stage: Stage) {
        if self.0.wait_for(|now| *now >= stage).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Stopper {
    /// Begins the first stage.
    pub fn finish(&self) {
        self.0.send_replace(Stage::Finishing);
    }

    /// Begins the second stage.
    pub fn at_once(&self) {
        self.0.send_replace(Stage::AtOnce);
    }
}

/// Waits for SIGINT or SIGTERM.
pub async fn signaled() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = interrupt.await;
}
