//! Health: whether the process lives, and whether it should be sent requests.

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

/// How long the store is waited for: a little longer than the engine does, which knows better what is wrong.
const PATIENCE: Duration = Duration::from_secs(3);
/// For how long what was seen of the store is told again.
const PROBE_FRESH: Duration = Duration::from_secs(1);
/// For how long artifacts that were well are told to be so: a write to an object store may cost money.
const ARTIFACTS_FRESH: Duration = Duration::from_secs(10);

/// That the process lives, and what it is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`.
    status: &'static str,
    /// The version of the program.
    version: &'static str,
    /// For how many seconds it has been serving.
    uptime_s: u64,
}

/// Whether requests should be sent here.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Readiness {
    /// `ready`, `degraded` or `not ready`.
    status: &'static str,
    /// What was looked at.
    checks: Vec<Check>,
}

/// What was looked at, and how it is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Check {
    /// What.
    name: &'static str,
    /// Whether it is well.
    ok: bool,
    /// How it is, in words.
    detail: String,
    /// How long looking took, in milliseconds.
    ms: u64,
}

/// `/livez`: the process answers.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `/health`: the process answers, and says what it is.
pub(crate) async fn health(State(api): State<Api>) -> Json<Health> {
    let uptime_s = api.started.elapsed().as_secs();
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION"), uptime_s })
}

/// `/readyz`: whether requests should be sent here, with each check.
pub(crate) async fn ready(State(api): State<Api>) -> Response {
    let needed = [is_serving(&api), has_upstreams(&api)];
    // Without its store or its artifacts a gateway goes on: to take it out of service would be the failure that it is to
    // prevent.
    let kept = api.probes.check(&api.engine).await;
    let (status, told) = match (needed.iter().all(|check| check.ok), kept.iter().all(|check| check.ok)) {
        (true, true) => (StatusCode::OK, "ready"),
        (true, false) => (StatusCode::OK, "degraded"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let checks = needed.into_iter().chain(kept).collect();
    (status, Json(Readiness { status: told, checks })).into_response()
}

fn is_serving(api: &Api) -> Check {
    let ok = !api.stop.is_finishing();
    let detail = if ok { "takes requests" } else { "is shutting down" };
    Check { name: "serving", ok, detail: detail.to_owned(), ms: 0 }
}

fn has_upstreams(api: &Api) -> Check {
    let count = api.settings.upstreams.len();
    Check { name: "upstreams", ok: count > 0, detail: format!("{count} configured"), ms: 0 }
}

/// Looks how the store and the artifacts are: not by reading, which a full disk does not prevent, but by writing something
/// small. What was seen is told again for a moment, so that whoever asks often costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    store: Mutex<Option<Seen>>,
    artifacts: Mutex<Option<Seen>>,
}

/// What a probe saw, and when.
#[derive(Debug)]
struct Seen {
    at: Instant,
    check: Check,
}

impl Seen {
    fn is_fresh(&self) -> bool {
        let fresh = if self.check.ok && self.check.name == ARTIFACTS { ARTIFACTS_FRESH } else { PROBE_FRESH };
        self.at.elapsed() < fresh
    }
}

const ARTIFACTS: &str = "artifacts";

impl Probes {
    async fn check(&self, engine: &Engine) -> [Check; 2] {
        let (store, artifacts) = tokio::join!(
            look(&self.store, store_takes_writes(engine)),
            look(&self.artifacts, artifacts_take_writes(engine))
        );
        [store, artifacts]
    }
}

/// Looks, unless somebody just did.
async fn look(last: &Mutex<Option<Seen>>, probe: impl Future<Output = Check>) -> Check {
    let mut last = last.lock().await;
    if let Some(seen) = last.as_ref().filter(|seen| seen.is_fresh()) {
        return seen.check.clone();
    }
    let check = probe.await;
    *last = Some(Seen { at: Instant::now(), check: check.clone() });
    check
}

async fn store_takes_writes(engine: &Engine) -> Check {
    let began = Instant::now();
    let (ok, detail) = match tokio::time::timeout(PATIENCE, write_probe(engine)).await {
        Ok(Ok(())) => (true, "answers".to_owned()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store takes no writes");
            (false, what_is_wrong(&error).to_owned())
        }
        Err(_) => (false, format!("did not answer within {} s", PATIENCE.as_secs())),
    };
    Check { name: "store", ok, detail, ms: began.elapsed().as_millis() as u64 }
}

async fn artifacts_take_writes(engine: &Engine) -> Check {
    let began = Instant::now();
    let (ok, detail) = match tokio::time::timeout(PATIENCE, engine.artifacts().probe()).await {
        Ok(Ok(())) => (true, "are kept".to_owned()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "artifacts cannot be written; what leaves a prompt is read from the log");
            (false, what_is_wrong_with_artifacts(&error).to_owned())
        }
        Err(_) => (false, format!("were not written within {} s", PATIENCE.as_secs())),
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

/// What is wrong with a store. An error may name paths and hosts, which are nobody's affair here.
fn what_is_wrong(error: &StoreError) -> &'static str {
    match error {
        StoreError::Locked { .. } => "is locked by another process",
        StoreError::Deleted { .. } => "its file was deleted or replaced",
        StoreError::ReadOnly { .. } => "is read-only",
        StoreError::Full { .. } => "its disk is full",
        StoreError::Damaged { .. } => "is damaged",
        StoreError::Newer { .. } => "was written by a newer version of this program",
        StoreError::Unavailable { .. } => "cannot be reached",
        _ => "takes no writes",
    }
}

/// What is wrong with the place of artifacts, with no path in it.
fn what_is_wrong_with_artifacts(error: &ObjectsError) -> &'static str {
    match error {
        ObjectsError::Full { .. } => "their disk is full",
        ObjectsError::ReadOnly { .. } => "their place is read-only",
        _ => "cannot be written",
    }
}
