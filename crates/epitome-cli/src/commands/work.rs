//! `epitome work`: carries out queued compactions until it is told to stop; those under way are finished.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use epitome_gateway::serve::signaled;
use epitome_runtime::engine::Parts;
use epitome_runtime::event::{Event, EventField, EventKind, JobStage, JsonLines, Listener};
use serde_json::json;

use crate::cli::Work;
use crate::failure::{Answer, Exit, Failure};
use crate::open_store::{OpenStore, wait};
use crate::progress::Progress;
use crate::receipt::plural;
use crate::settings::{Configured, Flags};
use crate::telemetry;

/// Works.
pub fn run(args: &Work, config: Option<&Path>, json: bool, progress: Progress) -> Result<Answer, Failure> {
    // It runs for days: there is no end to wait for.
    drop(progress);
    wait(async {
        let configured = Configured::load(config, Flags::default().with("store.url", args.store.as_ref()))?;
        let exporter = telemetry::start(&configured, json)?;
        let mut parts = configured.config().parts(&configured.environment).await?;
        let tally = Arc::new(Tally::default());
        parts.bus = parts.bus.with_listener(tally.clone());
        if json {
            parts = telling(parts)?;
        }
        let store = configured.config().store.url.to_string();
        let writer = configured.summary_writer().unwrap_or_default();
        let open_store = OpenStore::over(configured, parts).await?;
        say(json, &format!("Working on {store}; press Ctrl-C to stop.\n{writer}"));
        let worker = open_store.engine.work();
        signaled().await;
        say(json, "Finishing what is under way.\n");
        worker.stop().await;
        drop(exporter);
        Ok(tally.answer(&store))
    })
}

/// Every event, one JSON object a line, on standard error.
fn telling(parts: Parts) -> Result<Parts, Failure> {
    let cannot = |error: io::Error| Failure::new(Exit::CannotWrite, format!("Events cannot be written: {error}."));
    let lines = JsonLines::to(io::stderr()).map_err(cannot)?;
    Ok(Parts { bus: parts.bus.with_listener(Arc::new(lines)), ..parts })
}

fn say(json: bool, text: &str) {
    if !json {
        let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
    }
}

/// How many jobs were done.
#[derive(Default)]
struct Tally {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Listener for Tally {
    fn hear(&self, event: &Event) {
        if event.kind == EventKind::JobFinished {
            let is_done = event.detail(EventField::State).is_some_and(|state| state == JobStage::Done.name());
            if is_done { &self.done } else { &self.failed }.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tally {
    fn answer(&self, store: &str) -> Answer {
        let (done, failed) = (self.done.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        let text = format!("{done} job{} done, {failed} failed.\n", plural(done as usize));
        Answer::new(text, json!({"store": store, "done": done, "failed": failed}))
    }
}
