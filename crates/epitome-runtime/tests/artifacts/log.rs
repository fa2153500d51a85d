//! The log of a piece of code, as lines.
//!
//! One subscriber for the whole process takes every event and hands it to the thread it happened on. A subscriber of each test's own
//! would come and go while other tests log: `tracing` remembers for each place in the code whether anybody listens, and a test
//! that starts in that moment hears nothing.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LISTENING: Once = Once::new();

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Everything that is logged on this thread.
pub struct Log;

impl Log {
    pub fn start() -> Self {
        LISTENING.call_once(|| tracing::subscriber::set_global_default(Writer).unwrap());
        Log
    }

    /// What was logged since the last time.
    pub fn take(&self) -> Vec<String> {
        LINES.take()
    }
}

struct Writer;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Writer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("epitome")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| lines.push(line.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
