//! Health: whether the process lives, and whether it should be sent requests.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::TenantId;
use epitome_runtime::store::DocumentKey;
use http::StatusCode;
use serde::Serialize;

use super::endpoints::Own;

/// How long the store is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was looked at, and how it is.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
    ms: u64,
}

/// `/livez`: the process answers.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// `/health`: the process answers, and says what it is.
pub(super) async fn health(State(own): State<Own>) -> Response {
    let uptime_s = own.started.elapsed().as_secs();
    Json(serde_json::json!({"status": "ok", "version": env!("CARGO_PKG_VERSION"), "uptime_s": uptime_s}))
        .into_response()
}

/// `/readyz`: whether requests should be sent here, with each check.
pub(super) async fn ready(State(own): State<Own>) -> Response {
    let checks = [is_serving(&own), has_upstreams(&own), store_answers(&own.engine).await];
    let is_ready = checks.iter().all(|check| check.ok);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let told = if is_ready { "ready" } else { "not ready" };
    (status, Json(serde_json::json!({"status": told, "checks": checks}))).into_response()
}

fn is_serving(own: &Own) -> Check {
    let ok = !own.stop.is_finishing();
    let detail = if ok { "takes requests" } else { "is shutting down" };
    Check { name: "serving", ok, detail: detail.to_owned(), ms: 0 }
}

fn has_upstreams(own: &Own) -> Check {
    let count = own.settings.upstreams.len();
    Check { name: "upstreams", ok: count > 0, detail: format!("{count} configured"), ms: 0 }
}

async fn store_answers(engine: &Engine) -> Check {
    let began = Instant::now();
    let key = DocumentKey { tenant: TenantId::local(), kind: "ready".to_owned(), name: "none".to_owned() };
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
