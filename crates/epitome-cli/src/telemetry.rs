//! What a verb that runs for long says beside its answer: warnings to standard error, spans to a collector.

use std::collections::HashMap;
use std::io;

use epitome_runtime::event::otel::Exporter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::{Exit, Failure, sentence};
use crate::settings::Configured;

/// Where a gateway tells of each request.
const REQUESTS: &str = "epitome_gateway::request";

/// Warnings go to standard error, as JSON with a line for each request, spans to the collector where one is configured.
pub fn start(configured: &Configured, json: bool) -> Result<Option<Exporter>, Failure> {
    let otlp = configured.config().events.otlp.as_ref();
    let started = otlp.map(|url| Exporter::start(url.as_str(), HashMap::new(), "epitome")).transpose();
    let started = started.map_err(|error| Failure::new(Exit::Usage, sentence(&error)))?;
    let (layer, exporter) = started.map_or((None, None), |(layer, exporter)| (Some(layer), Some(exporter)));
    let warnings = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // Where nothing can be written, as on a full disk, there is nothing to tell that by either.
    let warnings = warnings.log_internal_errors(false);
    let warnings = match json {
        true => {
            let told = Targets::new().with_default(LevelFilter::WARN).with_target(REQUESTS, LevelFilter::INFO);
            warnings.json().flatten_event(true).with_filter(told).boxed()
        }
        false => warnings.without_time().with_target(false).with_filter(LevelFilter::WARN).boxed(),
    };
    // Only tests have another subscriber.
    let _ = tracing_subscriber::registry().with(layer).with(warnings).try_init();
    Ok(exporter)
}
