//! The crew: threads that pass bytes on and do nothing else, one for each core.
//!
//! A connection stays with its thread, and so do the connections that are made for it to providers: a request wakes nobody
//! up on its way through. What takes long, and everything that asks the store, is done by the threads of the runtime that
//! the gateway was started in.
//!
//! Whoever has written to one of them is about to wait for it. A thread of the crew does not take the core from them (on
//! Linux: `SCHED_BATCH`), but begins when they wait: then the core is free, and no other has to be woken up.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

thread_local! {
    /// Which of the crew this thread is.
    static SEAT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// How many threads there are; the same for as long as the process lives, whatever becomes of the cores.
pub(crate) fn seats() -> usize {
    static SEATS: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    *SEATS
}

/// Which of the crew this thread is, if it is one.
pub(crate) fn seat() -> Option<usize> {
    SEAT.get()
}

/// Threads that pass bytes on.
#[derive(Debug)]
pub(super) struct Crew {
    members: Vec<Member>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Member {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Crew {
    /// As many as there are cores. Where no threads can be started, there is nobody, and the work is done here.
    pub(super) fn new() -> Crew {
        let members = (0..seats()).filter_map(|seat| {
            Member::new(seat).inspect_err(|error| tracing::warn!(%error, "a thread could not be started")).ok()
        });
        Crew { members: members.collect(), next: AtomicUsize::new(0) }
    }

    /// Whose turn it is.
    pub(super) fn next(&self) -> Handle {
        match self.members.len() {
            0 => Handle::current(),
            count => self.members[self.next.fetch_add(1, Ordering::Relaxed) % count].handle.clone(),
        }
    }
}

impl Member {
    fn new(seat: usize) -> std::io::Result<Member> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("gateway-{seat}")).spawn(move || {
            SEAT.set(Some(seat));
            wait_for_writers();
            // An error is that nobody is left to say when to end.
            let _ = runtime.block_on(ended);
        })?;
        Ok(Member { handle, end: Some(end), thread: Some(thread) })
    }
}

/// This thread takes the core from nobody when it is woken up. A gateway that was given another priority than the usual one
/// is left as it is.
#[cfg(target_os = "linux")]
fn wait_for_writers() {
    use thread_priority::unix::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
    };
    use thread_priority::{ThreadPriority, ThreadPriorityValue};

    /// What a niceness of 0 is called among all priorities that there are.
    const USUAL: u8 = 47;
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
    let is_usual = stat(NICENESS) == Some(0) && stat(POLICY) == Some(0);
    if let (true, Ok(usual)) = (is_usual, ThreadPriorityValue::try_from(USUAL)) {
        let set = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(usual), policy);
        if let Err(error) = set {
            tracing::debug!(?error, "a thread is scheduled like any other");
        }
    }
}

/// Where the kernel tells the niceness of a thread, behind its name.
#[cfg(target_os = "linux")]
const NICENESS: usize = 16;
/// Where it tells how it is scheduled.
#[cfg(target_os = "linux")]
const POLICY: usize = 38;

/// What the kernel tells of this thread at one of these places.
#[cfg(target_os = "linux")]
fn stat(place: usize) -> Option<i32> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The name may have anything in it.
    stat.rsplit(')').next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn wait_for_writers() {}

impl Drop for Member {
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
    fn a_thread_of_the_crew_takes_the_core_from_nobody_and_is_as_nice_as_before() {
        const BATCH: i32 = 3;
        let own = || [NICENESS, POLICY].map(|place| stat(place).unwrap());
        let crew = Crew::new();
        let (tell, told) = std::sync::mpsc::channel();
        crew.next().spawn(async move { tell.send(own()) });
        let expected = if own() == [0, 0] { [0, BATCH] } else { own() };
        assert_eq!(told.recv().unwrap(), expected);
    }
}
