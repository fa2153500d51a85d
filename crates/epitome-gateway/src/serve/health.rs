//! Health: whether the process lives, and whether it should be sent requests.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::TenantId;
use epitome_runtime::store::{DocumentKey, DocumentKind};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Api;

/// How long the store is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

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
#[derive(Debug, Serialize, JsonSchema)]
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
    let store = store_answers(&api.engine).await;
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

async fn store_answers(engine: &Engine) -> Check {
    let began = Instant::now();
    let key = DocumentKey::new(TenantId::local(), DocumentKind::Secret, "none");
    let asked = tokio::time::timeout(PATIENCE, engine.log().store().document(&key)).await;
    let (ok, detail) = match asked {
        Ok(Ok(_)) => (true, "answers".to_owned()),
        // An error may name paths and hosts, which are nobody's affair here.
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store does not answer");
            (false, "does not answer".to_owned())
        }
        Err(_) => (false, format!("did not answer within {} s", PATIENCE.as_secs())),
    };
    Check { name: "store", ok, detail, ms: began.elapsed().as_millis() as u64 }
}
