//! Stopping: first no more is begun and what is under way is finished, then, asked again, everything ends at once.

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

/// Hears that the gateway shall stop. A clone hears the same.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Stage>);

impl Stop {
    /// Who tells and who hears. When the one who tells is gone, nobody will stop it.
    pub fn pair() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(Stage::Serving);
        (Stopper(sender), Stop(receiver))
    }

    /// Whether nothing new is begun any more.
    pub fn is_finishing(&self) -> bool {
        *self.0.borrow() >= Stage::Finishing
    }

    /// Waits until nothing new shall be begun.
    pub async fn finishing(&mut self) {
        self.reached(Stage::Finishing).await;
    }

    /// Waits until everything shall end.
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
    /// Nothing new is begun; what is under way is finished.
    pub fn finish(&self) {
        self.0.send_replace(Stage::Finishing);
    }

    /// Everything ends.
    pub fn at_once(&self) {
        self.0.send_replace(Stage::AtOnce);
    }
}

/// Waits for a signal that says to stop.
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
