//! Health: whether the process lives, and whether it should be sent requests.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use epitome_runtime::engine::{Engine, SYSTEM_TENANT};
use epitome_runtime::ids::{Moment, TenantId};
use epitome_runtime::log::Document;
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
    // Without its store a gateway goes on: to take it out of service would be the failure that it is to prevent.
    let store = api.probe.check(&api.engine).await;
    let (status, told) = match (needed.iter().all(|check| check.ok), store.ok) {
        (true, true) => (StatusCode::OK, "ready"),
        (true, false) => (StatusCode::OK, "degraded"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let checks = needed.into_iter().chain([store]).collect();
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

/// Looks how the store is: not by reading, which a store does that takes nothing any more, but by writing a small
/// document. What was seen is told again for a moment, so that whoever asks often costs nothing.
#[derive(Debug, Default)]
pub(crate) struct StoreProbe {
    last: Mutex<Option<(Instant, Check)>>,
}

impl StoreProbe {
    async fn check(&self, engine: &Engine) -> Check {
        let mut last = self.last.lock().await;
        if let Some((_, check)) = last.as_ref().filter(|(at, _)| at.elapsed() < PROBE_FRESH) {
            return check.clone();
        }
        let check = store_takes_writes(engine).await;
        *last = Some((Instant::now(), check.clone()));
        check
    }
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

async fn write_probe(engine: &Engine) -> Result<(), StoreError> {
    let log = engine.log();
    let tenant: TenantId = SYSTEM_TENANT.parse().unwrap_or_else(|_| TenantId::local());
    let document = Document {
        tenant: &tenant,
        kind: DocumentKind::Probe,
        name: "store",
        value: &Moment::now().0,
        expected: None,
        at: Moment::now(),
        expires: None,
    };
    log.apply(&[log.put_document(&document)]).await
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
