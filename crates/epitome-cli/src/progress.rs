//! What is being done, on standard error, when it takes more than a second and a terminal is looking.

use std::io::{IsTerminal, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::screen::cut_to;

/// What takes less than this is not worth a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// The columns that the line takes, and that are blank again after it.
const LINE_COLUMNS: usize = 72;

/// A line that shows after a while and goes when it is dropped.
pub struct Progress {
    what: Arc<Mutex<String>>,
    done: Option<Sender<()>>,
    shower: Option<JoinHandle<()>>,
}

impl Progress {
    /// Says what is being done, once it has taken a while.
    pub fn of(what: String) -> Self {
        let what = Arc::new(Mutex::new(what));
        if !std::io::stderr().is_terminal() {
            return Progress { what, done: None, shower: None };
        }
        let (done, waits) = mpsc::channel::<()>();
        let shown = Arc::clone(&what);
        let shower = std::thread::spawn(move || {
            let mut seconds = 0;
            while waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                let what = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let line = cut_to(&format!("{what} … {seconds} s"), LINE_COLUMNS);
                let _ = write!(std::io::stderr(), "\r{line:<LINE_COLUMNS$}");
            }
            if seconds > 0 {
                let _ = write!(std::io::stderr(), "\r{:LINE_COLUMNS$}\r", "");
            }
        });
        Progress { what, done: Some(done), shower: Some(shower) }
    }

    /// Something else is being done now.
    pub fn now(&self, what: impl Into<String>) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
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
