//! The I/O threads: they forward bytes and do nothing else, one for each core.
//!
//! A connection stays with its thread, and so do the connections to providers that are made for it, so a request wakes no other
//! thread on its way through. Everything that takes long or asks the store runs on the runtime that the gateway was started in.
//!
//! A client that has written to an I/O thread is about to wait for the answer. On Linux such a thread does not preempt the
//! client (`SCHED_BATCH`); it begins when the client waits and the core is free.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

thread_local! {
    /// The index of this thread among the I/O threads.
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the number of I/O threads, which never changes while the process runs.
pub(crate) fn io_thread_count() -> usize {
    static COUNT: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    *COUNT
}

/// Returns the index of this thread, if it is an I/O thread.
pub(crate) fn io_thread_index() -> Option<usize> {
    INDEX.get()
}

/// The I/O threads of one gateway; dropping them stops them.
#[derive(Debug)]
pub(super) struct IoThreads {
    threads: Vec<IoThread>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct IoThread {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl IoThreads {
    /// Starts one for each core. If none can be started, the current runtime does their work.
    pub(super) fn new() -> IoThreads {
        let threads = (0..io_thread_count()).filter_map(|index| {
            IoThread::new(index).inspect_err(|error| tracing::warn!(%error, "failed to start an I/O thread")).ok()
        });
        IoThreads { threads: threads.collect(), next: AtomicUsize::new(0) }
    }

    /// Returns the next thread, in turn.
    pub(super) fn next(&self) -> Handle {
        match self.threads.len() {
            0 => Handle::current(),
            count => self.threads[self.next.fetch_add(1, Ordering::Relaxed) % count].handle.clone(),
        }
    }
}

impl IoThread {
    fn new(index: usize) -> std::io::Result<IoThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("gateway-{index}")).spawn(move || {
            INDEX.set(Some(index));
            yield_to_writers();
            // An error means that the sender was dropped, which ends the thread too.
            let _ = runtime.block_on(ended);
        })?;
        Ok(IoThread { handle, end: Some(end), thread: Some(thread) })
    }
}

/// Stops this thread from preempting others when it wakes up. A gateway that runs with another priority keeps it.
#[cfg(target_os = "linux")]
fn yield_to_writers() {
    use thread_priority::unix::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
    };
    use thread_priority::{ThreadPriority, ThreadPriorityValue};

    /// The cross-platform priority that is a niceness of 0.
    const USUAL: u8 = 47;
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
    let is_usual = stat(NICENESS) == Some(0) && stat(POLICY) == Some(0);
    if let (true, Ok(usual)) = (is_usual, ThreadPriorityValue::try_from(USUAL)) {
        let set = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(usual), policy);
        if let Err(error) = set {
            tracing::debug!(?error, "failed to set the scheduling policy of an I/O thread");
        }
    }
}

/// The field of the niceness in `/proc/thread-self/stat`, counted after the name.
#[cfg(target_os = "linux")]
const NICENESS: usize = 16;
/// The field of the scheduling policy.
#[cfg(target_os = "linux")]
const POLICY: usize = 38;

/// Reads one field of this thread's `stat`.
#[cfg(target_os = "linux")]
fn stat(place: usize) -> Option<i32> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The name may contain anything, also spaces and parentheses.
    stat.rsplit(')').next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn yield_to_writers() {}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_io_thread_preempts_nobody_and_keeps_its_niceness() {
        const BATCH: i32 = 3;
        let own = || [NICENESS, POLICY].map(|place| stat(place).unwrap());
        let io_threads = IoThreads::new();
        let (tell, told) = std::sync::mpsc::channel();
        io_threads.next().spawn(async move { tell.send(own()) });
        let expected = if own() == [0, 0] { [0, BATCH] } else { own() };
        assert_eq!(told.recv().unwrap(), expected);
    }
}
