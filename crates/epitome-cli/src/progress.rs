//! What is being done, on standard error, when it takes more than a second and a terminal is looking.

use std::io::{IsTerminal, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// What takes less than this is not worth a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line that shows after a while and goes when it is dropped.
pub struct Progress {
    done: Option<Sender<()>>,
    shower: Option<JoinHandle<()>>,
}

impl Progress {
    /// Says what is being done to which file, once it has taken a while.
    pub fn of(what: String) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress { done: None, shower: None };
        }
        let (done, waits) = mpsc::channel::<()>();
        let shower = std::thread::spawn(move || {
            let mut seconds = 0;
            while waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                let _ = write!(std::io::stderr(), "\r{what} … {seconds} s");
            }
            if seconds > 0 {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        });
        Progress { done: Some(done), shower: Some(shower) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(shower) = self.shower.take() {
            let _ = shower.join();
        }
    }
}
