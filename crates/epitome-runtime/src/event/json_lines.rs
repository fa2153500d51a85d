//! Events as JSON lines: one object a line, to a file or any other writer.
//!
//! Whoever emits never waits for the disk: events go through a bounded queue to a thread of their own. When the queue is
//! full or the writer fails, events are dropped and counted. What was written before stays whole lines.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Event, Listener};

const QUEUE_MAX: usize = 4096;

const BATCH_MAX: usize = 256;

/// The time for the writer to finish when the listener is dropped.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// A listener that writes one JSON object a line. What is queued is written before it goes.
#[derive(Debug)]
pub struct JsonLines {
    queue: Option<SyncSender<Event>>,
    done: Mutex<Receiver<()>>,
    dropped: Arc<AtomicU64>,
}

impl JsonLines {
    /// Appends to a file, which only its owner can read when it is made here.
    pub fn file(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        JsonLines::to(options.open(path)?)
    }

    /// Writes to a writer, from a thread of its own.
    pub fn to(writer: impl Write + Send + 'static) -> io::Result<Self> {
        JsonLines::queued(writer, QUEUE_MAX)
    }

    /// Returns the number of events that were dropped: the queue was full, or the writer failed.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn queued(writer: impl Write + Send + 'static, queue_max: usize) -> io::Result<Self> {
        let (queue, events) = sync_channel(queue_max);
        let (tell_done, done) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut pen = Pen { writer, torn: false, failing: false, dropped: dropped.clone() };
        thread::Builder::new().name("epitome-events".to_owned()).spawn(move || {
            pen.write_all_of(&events);
            // Nobody waits any more when the listener gave up.
            let _ = tell_done.send(());
        })?;
        Ok(JsonLines { queue: Some(queue), done: Mutex::new(done), dropped })
    }
}

impl Listener for JsonLines {
    fn hear(&self, event: &Event) {
        let sent = self.queue.as_ref().is_some_and(|queue| queue.try_send(event.clone()).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for JsonLines {
    fn drop(&mut self) {
        drop(self.queue.take());
        let done = self.done.get_mut().is_ok_and(|done| done.recv_timeout(FLUSH_LIMIT).is_ok());
        if !done {
            tracing::warn!("the last events were not written within {FLUSH_LIMIT:?}");
        }
    }
}

/// The writer and what is known of it.
struct Pen<W> {
    writer: W,
    /// The last line was written in part.
    torn: bool,
    failing: bool,
    dropped: Arc<AtomicU64>,
}

impl<W: Write> Pen<W> {
    fn write_all_of(&mut self, events: &Receiver<Event>) {
        while let Ok(first) = events.recv() {
            let batch = [first].into_iter().chain(events.try_iter().take(BATCH_MAX - 1));
            let lines: Vec<u8> = batch.flat_map(|event| line(&event)).collect();
            self.put(&lines);
        }
    }

    /// Writes what it can, and counts the lines that were not written whole.
    fn put(&mut self, lines: &[u8]) {
        // A line that was written in part is ended, so that the next one stands alone.
        let mend: &[u8] = if self.torn { b"\n" } else { b"" };
        let bytes = [mend, lines].concat();
        let (written, outcome) = write_some(&mut self.writer, &bytes);
        if written > 0 {
            self.torn = bytes[written - 1] != b'\n';
        }
        let left = &lines[written.saturating_sub(mend.len())..];
        let lost = left.iter().filter(|byte| **byte == b'\n').count();
        self.dropped.fetch_add(lost as u64, Ordering::Relaxed);
        match outcome {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!("events cannot be written and are dropped: {error}");
                }
            }
        }
    }
}

/// Writes and flushes: how many bytes are known to be written, and what went wrong with the rest.
fn write_some(writer: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match writer.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    match writer.flush() {
        Ok(()) => (written, Ok(())),
        Err(error) => (0, Err(error)),
    }
}

fn line(event: &Event) -> Vec<u8> {
    // An event is names and numbers; there is nothing in it that JSON cannot say.
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventField, EventKind};
    use crate::ids::{Moment, TenantId, ThreadKey};

    fn event(number: u64) -> Event {
        let key = ThreadKey::new(TenantId::local(), "t1".parse().expect("a name"));
        Event { tokens_freed: number, ..Event::new(Moment(1), key, EventKind::CompactionCleared) }
            .with(EventField::Details, "a\nb")
    }

    /// Is full once it holds each of these many bytes; at the next attempt there is room again.
    #[derive(Clone, Default)]
    struct Disk {
        written: Arc<Mutex<Vec<u8>>>,
        full_at: Arc<Mutex<Vec<usize>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.written.lock().expect("held");
            let mut full_at = self.full_at.lock().expect("held");
            let room = full_at.first().map_or(bytes.len(), |from| from.saturating_sub(written.len()).min(bytes.len()));
            if room == 0 {
                full_at.remove(0);
                return Err(io::ErrorKind::StorageFull.into());
            }
            written.extend(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn read(bytes: &[u8]) -> Vec<Option<u64>> {
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        text.lines().map(|line| serde_json::from_str::<Event>(line).ok().map(|event| event.tokens_freed)).collect()
    }

    #[test]
    fn what_was_heard_is_in_the_file_when_the_listener_is_gone() {
        let path = std::env::temp_dir().join(format!("epitome-events-{}.jsonl", uuid::Uuid::now_v7()));
        for half in 0..2 {
            let lines = JsonLines::file(&path).expect("a file");
            (half * 50..half * 50 + 50).for_each(|number| lines.hear(&event(number)));
            assert_eq!(lines.dropped(), 0);
        }
        let bytes = std::fs::read(&path).expect("a file");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::remove_file(&path).expect("a file");
        assert_eq!(read(&bytes), (0..100).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_writer_that_fails_loses_only_the_lines_it_refused() {
        let size = line(&event(0)).len();
        let disk = Disk::default();
        *disk.full_at.lock().expect("held") = vec![size, 2 * size + 5];
        let mut pen = Pen { writer: disk.clone(), torn: false, failing: false, dropped: Arc::default() };
        (0..6).for_each(|number| pen.put(&line(&event(number))));
        // 1 is refused whole; of 3 there are five bytes, ended as a line of their own.
        let read = read(&disk.written.lock().expect("held"));
        assert_eq!(read, [Some(0), Some(2), None, Some(4), Some(5)]);
        assert_eq!(pen.dropped.load(Ordering::Relaxed), 2);
    }

    /// Writes nothing until it may.
    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_queue_drops_and_counts_instead_of_waiting() {
        let (let_go, held) = sync_channel::<()>(0);
        let lines = JsonLines::queued(Stuck(held), 10).expect("a thread");
        (0..1000).for_each(|number| lines.hear(&event(number)));
        // Ten wait, and one batch may be with the writer.
        assert!((990 - BATCH_MAX as u64..=990).contains(&lines.dropped()), "{}", lines.dropped());
        drop(let_go);
    }
}
