//! Logs and traces of the verbs that keep running: warnings to standard error, spans to a collector.

use std::collections::HashMap;
use std::io;

use epitome_runtime::event::otel::Exporter;
use epitome_runtime::sentence;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli_config::CliConfig;
use crate::failure::{Exit, Failure, Result};

/// The target of the gateway's line about each request.
const REQUESTS: &str = "epitome_gateway::request";

/// Prints to standard error, for people who watch. Nothing depends on it, so it may fail.
pub fn say(text: &str) {
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
}

/// Starts logging. As JSON the log has a line for each request, as text it has warnings only. Spans are sent where a
/// collector is configured, until the exporter is dropped.
pub fn start(config: &CliConfig, json: bool) -> Result<Option<Exporter>> {
    let otlp = config.values().events.otlp.as_ref();
    let started = otlp.map(|url| Exporter::start(url.as_str(), HashMap::new(), "epitome")).transpose();
    let started = started.map_err(|error| Failure::new(Exit::Usage, sentence(&error)))?;
    let (layer, exporter) = started.map_or((None, None), |(layer, exporter)| (Some(layer), Some(exporter)));
    let warnings = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // A full disk must not turn every log line into a second error.
    let warnings = warnings.log_internal_errors(false);
    let warnings = if json {
        let levels = Targets::new().with_default(LevelFilter::WARN).with_target(REQUESTS, LevelFilter::INFO);
        warnings.json().flatten_event(true).with_filter(levels).boxed()
    } else {
        warnings.without_time().with_target(false).with_filter(LevelFilter::WARN).boxed()
    };
    // Only tests have another subscriber.
    let _ = tracing_subscriber::registry().with(layer).with(warnings).try_init();
    Ok(exporter)
}
