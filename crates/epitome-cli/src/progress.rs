//! A line on standard error that says what is being done, once that has taken more than a second.

use std::io::{IsTerminal, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::screen::cut_to;

/// Time until the line appears, and between its updates.
const INTERVAL: Duration = Duration::from_secs(1);

/// The columns that the line takes, and that are blank again after it.
const LINE_COLUMNS: usize = 72;

/// A progress line, from the start of a verb to the drop of this value.
///
/// A thread of its own sleeps in steps of [`INTERVAL`] and rewrites the line with the seconds so far, so that the verb only
/// says what it does ([`Progress::now`]) and never how long it took. Dropping the value wakes the thread, which blanks the line,
/// and waits for it: nothing that the verb prints afterwards can end up in the middle of a progress line. So a verb that
/// runs until it is stopped must drop it before it prints. Where standard error is not a terminal there is no thread.
pub struct Progress {
    activity: Arc<Mutex<String>>,
    /// Dropped to wake the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts a line for a first activity.
    pub fn start(activity: String) -> Self {
        let activity = Arc::new(Mutex::new(activity));
        if !std::io::stderr().is_terminal() {
            return Progress { activity, stop: None, thread: None };
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let shown = Arc::clone(&activity);
        let thread = std::thread::spawn(move || {
            let mut seconds = 0;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                let activity = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let line = cut_to(&format!("{activity} … {seconds} s"), LINE_COLUMNS);
                let _ = write!(std::io::stderr(), "\r{line:<LINE_COLUMNS$}");
            }
            if seconds > 0 {
                let _ = write!(std::io::stderr(), "\r{:LINE_COLUMNS$}\r", "");
            }
        });
        Progress { activity, stop: Some(stop), thread: Some(thread) }
    }

    /// Replaces the activity.
    pub fn now(&self, activity: impl Into<String>) {
        *self.activity.lock().unwrap_or_else(PoisonError::into_inner) = activity.into();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
