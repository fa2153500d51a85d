//! Metrics of requests, in Prometheus' text format.
//!
//! Handles are made once, so that counting costs an addition. Labels are closed sets: no path, model, tenant or thread.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    with_local_recorder,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::route::Route;
use crate::api::Api;
use crate::fail_open::FailOpenReason;
use crate::refusal::RefusalKind;

const REQUESTS: &str = "epitome_gateway_requests_total";
const IN_FLIGHT: &str = "epitome_gateway_requests_in_flight";
const CONNECTIONS: &str = "epitome_gateway_connections";
const SECONDS: &str = "epitome_gateway_request_seconds";
const REQUEST_BYTES: &str = "epitome_gateway_request_bytes_total";
const ANSWER_BYTES: &str = "epitome_gateway_answer_bytes_total";
const FIRST_BYTE: &str = "epitome_gateway_upstream_first_byte_seconds";
const RETRIES: &str = "epitome_gateway_overflow_retries_total";
const FAILED_OPEN: &str = "epitome_gateway_failed_open_total";
const REFUSED: &str = "epitome_gateway_refused_total";
const COMPACTED: &str = "epitome_gateway_compacted_requests_total";
const SAVED: &str = "epitome_gateway_tokens_saved_total";

const SECONDS_BUCKETS: [f64; 14] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The statuses that are counted; any other counts as the first.
const STATUSES: std::ops::Range<u16> = 100..600;

/// Histograms keep samples until they are rendered; after this many requests they are folded in any case.
const FOLD_EVERY: u64 = 1024;

/// The metrics of one gateway.
pub struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    finished: AtomicU64,
    requests: Vec<OnceLock<Counter>>,
    seconds: [Histogram; Route::ALL.len()],
    answer_bytes: [Counter; Route::ALL.len()],
    request_bytes: Counter,
    in_flight: Gauge,
    connections: Gauge,
    first_byte: Histogram,
    retries: Counter,
    failed_open: [Counter; FailOpenReason::ALL.len()],
    refused: [Counter; RefusalKind::ALL.len()],
    compacted: Counter,
    saved: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let recorder = Arc::new(recorder());
        // Every series of a closed set exists from the start: an alert on a series that does not exist never fires.
        with_local_recorder(&*recorder, || Metrics {
            recorder: Arc::clone(&recorder),
            handle: recorder.handle(),
            finished: AtomicU64::new(0),
            requests: (0..Route::ALL.len() * STATUSES.len()).map(|_| OnceLock::new()).collect(),
            seconds: Route::ALL.map(|route| histogram!(SECONDS, "route" => route.name())),
            answer_bytes: Route::ALL.map(|route| counter!(ANSWER_BYTES, "route" => route.name())),
            request_bytes: counter!(REQUEST_BYTES),
            in_flight: gauge!(IN_FLIGHT),
            connections: gauge!(CONNECTIONS),
            first_byte: histogram!(FIRST_BYTE),
            retries: counter!(RETRIES),
            failed_open: FailOpenReason::ALL.map(|reason| counter!(FAILED_OPEN, "reason" => reason.name())),
            refused: RefusalKind::ALL.map(|kind| counter!(REFUSED, "reason" => kind.name())),
            compacted: counter!(COMPACTED),
            saved: counter!(SAVED),
        })
    }
}

impl Metrics {
    /// Metrics with every count at 0.
    pub fn new() -> Self {
        Metrics::default()
    }

    /// Renders everything in Prometheus' text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Records the time until the head of an answer.
    pub fn first_byte(&self, after: Duration) {
        self.first_byte.record(after.as_secs_f64());
    }

    /// Counts bytes of request bodies.
    pub fn request_bytes(&self, bytes: u64) {
        self.request_bytes.increment(bytes);
    }

    /// Counts a request that was compacted harder and sent again.
    pub fn retried(&self) {
        self.retries.increment(1);
    }

    /// Counts a request that was sent unchanged because something failed.
    pub fn failed_open(&self, reason: FailOpenReason) {
        self.failed_open[reason as usize].increment(1);
    }

    /// Counts a request that the gateway refused.
    pub fn refused(&self, kind: RefusalKind) {
        self.refused[kind as usize].increment(1);
    }

    /// Counts a request that was sent under a plan, and the tokens that it saved.
    pub fn compacted(&self, tokens_saved: u64) {
        self.compacted.increment(1);
        self.saved.increment(tokens_saved);
    }

    pub(super) fn connected(&self) {
        self.connections.increment(1.0);
    }

    pub(super) fn disconnected(&self) {
        self.connections.decrement(1.0);
    }

    pub(super) fn begun(&self) {
        self.in_flight.increment(1.0);
    }

    /// Counts a finished request; without a status, the client disconnected before there was one.
    pub(super) fn finished(&self, route: Route, status: Option<StatusCode>, took: Duration, bytes: u64) {
        self.in_flight.decrement(1.0);
        self.requests(route, status).increment(1);
        self.seconds[route as usize].record(took.as_secs_f64());
        self.answer_bytes[route as usize].increment(bytes);
        if self.finished.fetch_add(1, Ordering::Relaxed) % FOLD_EVERY == FOLD_EVERY - 1 {
            self.handle.run_upkeep();
        }
    }

    fn requests(&self, route: Route, status: Option<StatusCode>) -> &Counter {
        // 499 is nginx's status for a client that closed the connection.
        let status = status.map_or(499, |status| status.as_u16());
        let status = if STATUSES.contains(&status) { status } else { STATUSES.start };
        let place = route as usize * STATUSES.len() + usize::from(status - STATUSES.start);
        self.requests[place].get_or_init(|| {
            with_local_recorder(
                &*self.recorder,
                || counter!(REQUESTS, "route" => route.name(), "status" => status.to_string()),
            )
        })
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("finished", &self.finished).finish_non_exhaustive()
    }
}

/// Answers `/metrics`: requests, then compactions.
pub(crate) async fn show(State(api): State<Api>) -> Response {
    let text = api.metrics.render() + &api.compactions.render();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

fn recorder() -> PrometheusRecorder {
    let builder = [SECONDS, FIRST_BYTE].into_iter().fold(PrometheusBuilder::new(), |builder, name| {
        builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &SECONDS_BUCKETS).expect("there are buckets")
    });
    let recorder = builder.build_recorder();
    with_local_recorder(&recorder, describe);
    recorder
}

fn describe() {
    describe_counter!(
        REQUESTS,
        "Answered requests, by route and status; 499: the client disconnected before an answer."
    );
    describe_gauge!(IN_FLIGHT, "Requests in progress, streams included.");
    describe_gauge!(CONNECTIONS, "Open client connections.");
    describe_histogram!(SECONDS, Unit::Seconds, "Time from a request's head to the end of its answer, by route.");
    describe_counter!(REQUEST_BYTES, Unit::Bytes, "Bytes of request bodies sent to providers.");
    describe_counter!(ANSWER_BYTES, Unit::Bytes, "Bytes of answer bodies sent to clients, by route.");
    describe_histogram!(FIRST_BYTE, Unit::Seconds, "Time until the head of a provider's answer arrived.");
    describe_counter!(
        RETRIES,
        "Requests that a provider rejected as too long and that were compacted harder and sent again."
    );
    describe_counter!(FAILED_OPEN, "Requests sent unchanged because something in the gateway failed, by reason.");
    describe_counter!(REFUSED, "Requests that the gateway itself refused, by reason.");
    describe_counter!(COMPACTED, "Requests sent under a plan.");
    describe_counter!(SAVED, "Tokens saved: the difference between requests as received and as sent.");
}
