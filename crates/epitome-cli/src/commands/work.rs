//! `epitome work`: runs queued compactions until a signal stops it, and finishes those that are running.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use epitome_gateway::serve::signaled;
use epitome_runtime::event::{Event, EventField, EventKind, JobStage, JsonLines, Listener};
use serde_json::json;

use crate::cli::WorkArgs;
use crate::cli_config::{CliConfig, Flags};
use crate::failure::{Answer, Exit, Failure, Result};
use crate::open_store::{OpenStore, wait};
use crate::progress::Progress;
use crate::receipt::count;
use crate::telemetry;

pub fn run(args: &WorkArgs, config: Option<&Path>, json: bool, progress: Progress) -> Result<Answer> {
    drop(progress);
    wait(async {
        let config = CliConfig::load(config, Flags::default().with("store.url", args.store.as_ref()))?;
        let exporter = telemetry::start(&config, json)?;
        let mut parts = config.values().parts(&config.environment).await?;
        let tally = Arc::new(Tally::default());
        parts.bus = parts.bus.with_listener(tally.clone());
        if json {
            let cannot_write = |error| Failure::new(Exit::CannotWrite, format!("Events cannot be written: {error}."));
            let lines = JsonLines::to(io::stderr()).map_err(cannot_write)?;
            parts.bus = parts.bus.with_listener(Arc::new(lines));
        }
        let say = |text: &str| {
            if !json {
                telemetry::say(text);
            }
        };
        let summarizer = config.summarizer_line().unwrap_or_default();
        let store = OpenStore::from_parts(config, parts).await?;
        say(&format!("Working on {}; press Ctrl-C to stop.\n{summarizer}", store.url()));
        let worker = store.engine.work();
        signaled().await;
        say("Finishing the jobs that are running.\n");
        worker.stop().await;
        drop(exporter);
        Ok(tally.answer(&store.url()))
    })
}

/// Counts finished jobs.
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
        let text = format!("{} done, {failed} failed.\n", count(done as usize, "job"));
        Answer::new(text, json!({"store": store, "done": done, "failed": failed}))
    }
}
