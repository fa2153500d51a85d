//! Health: sign of life and readiness.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use epitome_runtime::artifact::ObjectsError;
use epitome_runtime::engine::{Engine, SYSTEM_TENANT};
use epitome_runtime::ids::{Moment, TenantId};
use epitome_runtime::log::NewDocument;
use epitome_runtime::store::{DocumentKind, StoreError};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;

use crate::api::Api;

/// The longest wait for a probe: a little longer than the engine waits, which has the better error message.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// The time for which a result of the store's probe is reported again.
const PROBE_FRESH: Duration = Duration::from_secs(1);
/// The same for artifacts that were well: a write to an object store may cost money.
const ARTIFACTS_FRESH: Duration = Duration::from_secs(10);

/// A sign of life, with version and uptime.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`.
    status: &'static str,
    /// The version of the program.
    version: &'static str,
    /// For how many seconds it has been serving.
    uptime_s: u64,
}

/// The readiness of the gateway for requests.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Readiness {
    /// `ready`, `degraded` or `not ready`.
    #[schemars(with = "String")]
    status: ReadinessStatus,
    /// The checks.
    checks: Vec<Check>,
}

/// The state of a gateway.
///
/// It is derived from the checks of each request for `/readyz`, and nothing moves it but they. Only stopping and a lack of
/// upstreams make it `NotReady`: were a failing store to do so, a load balancer would take every gateway out of service at
/// once, although each of them still forwards requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum ReadinessStatus {
    #[serde(rename = "ready")]
    Ready,
    /// Requests are forwarded, but the store or the artifacts reject writes.
    #[serde(rename = "degraded")]
    Degraded,
    #[serde(rename = "not ready")]
    NotReady,
}

/// One check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Check {
    /// What.
    name: &'static str,
    /// True if it is well.
    ok: bool,
    /// Its state in words.
    detail: String,
    /// The time that the check took, in milliseconds.
    ms: u64,
}

/// Answers `/livez`.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// Answers `/health`.
pub(crate) async fn health(State(api): State<Api>) -> Json<Health> {
    let uptime_s = api.started.elapsed().as_secs();
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION"), uptime_s })
}

/// Answers `/readyz`, with each check.
pub(crate) async fn ready(State(api): State<Api>) -> Response {
    let count = api.settings.upstreams.len();
    let upstreams = Check { name: "upstreams", ok: count > 0, detail: format!("{count} configured"), ms: 0 };
    let needed = [check_serving(&api), upstreams];
    let kept = api.probes.check(&api.engine).await;
    let (code, status) = match (needed.iter().all(|check| check.ok), kept.iter().all(|check| check.ok)) {
        (true, true) => (StatusCode::OK, ReadinessStatus::Ready),
        (true, false) => (StatusCode::OK, ReadinessStatus::Degraded),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, ReadinessStatus::NotReady),
    };
    let checks = needed.into_iter().chain(kept).collect();
    (code, Json(Readiness { status, checks })).into_response()
}

fn check_serving(api: &Api) -> Check {
    let ok = !api.stop.is_finishing();
    let detail = if ok { "takes requests" } else { "is shutting down" };
    Check { name: "serving", ok, detail: detail.to_owned(), ms: 0 }
}

/// Probes of the store and the artifacts. They write something small, because a full disk still allows reading. A result is
/// reported again for a moment, so that frequent requests cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    store: Mutex<Option<ProbeResult>>,
    artifacts: Mutex<Option<ProbeResult>>,
}

/// The last result of a probe.
#[derive(Debug)]
struct ProbeResult {
    at: Instant,
    check: Check,
}

const ARTIFACTS: &str = "artifacts";

impl Probes {
    async fn check(&self, engine: &Engine) -> [Check; 2] {
        let (store, artifacts) = tokio::join!(
            probe_once(&self.store, check_store(engine)),
            probe_once(&self.artifacts, check_artifacts(engine))
        );
        [store, artifacts]
    }
}

/// Runs a probe, unless its last result is fresh.
async fn probe_once(last: &Mutex<Option<ProbeResult>>, probe: impl Future<Output = Check>) -> Check {
    let mut last = last.lock().await;
    if let Some(seen) = last.as_ref().filter(|seen| {
        let is_costly = seen.check.ok && seen.check.name == ARTIFACTS;
        seen.at.elapsed() < if is_costly { ARTIFACTS_FRESH } else { PROBE_FRESH }
    }) {
        return seen.check.clone();
    }
    let check = probe.await;
    *last = Some(ProbeResult { at: Instant::now(), check: check.clone() });
    check
}

async fn check_store(engine: &Engine) -> Check {
    let began = Instant::now();
    let (ok, detail) = match tokio::time::timeout(PROBE_TIMEOUT, write_probe(engine)).await {
        Ok(Ok(())) => (true, "answers".to_owned()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store rejects writes");
            (false, store_problem(&error).to_owned())
        }
        Err(_) => (false, format!("did not answer within {} s", PROBE_TIMEOUT.as_secs())),
    };
    Check { name: "store", ok, detail, ms: began.elapsed().as_millis() as u64 }
}

async fn check_artifacts(engine: &Engine) -> Check {
    let began = Instant::now();
    let (ok, detail) = match tokio::time::timeout(PROBE_TIMEOUT, engine.artifacts().probe()).await {
        Ok(Ok(())) => (true, "are kept".to_owned()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "artifacts cannot be written; removed content is read from the log");
            (false, artifacts_problem(&error).to_owned())
        }
        Err(_) => (false, format!("were not written within {} s", PROBE_TIMEOUT.as_secs())),
    };
    Check { name: ARTIFACTS, ok, detail, ms: began.elapsed().as_millis() as u64 }
}

async fn write_probe(engine: &Engine) -> Result<(), StoreError> {
    let log = engine.log();
    let tenant: TenantId = SYSTEM_TENANT.parse().unwrap_or_else(|_| TenantId::local());
    let now = Moment::now().0;
    let document = NewDocument::new(&tenant, DocumentKind::Probe, "store", &now);
    log.apply(&[log.put_document(document)]).await
}

/// Says what is wrong with a store, without the paths and hosts that an error may name.
fn store_problem(error: &StoreError) -> &'static str {
    match error {
        StoreError::Locked(_) => "is locked by another process",
        StoreError::Deleted(_) => "its file was deleted or replaced",
        StoreError::ReadOnly(_) => "is read-only",
        StoreError::Full(_) => "its disk is full",
        StoreError::Damaged(_) => "is damaged",
        StoreError::Newer { .. } => "was written by a newer version of this program",
        StoreError::Unavailable(_) => "cannot be reached",
        _ => "takes no writes",
    }
}

/// Says what is wrong with the place of artifacts, without its path.
fn artifacts_problem(error: &ObjectsError) -> &'static str {
    match error {
        ObjectsError::Full(_) => "their disk is full",
        ObjectsError::ReadOnly(_) => "their place is read-only",
        _ => "cannot be written",
    }
}
