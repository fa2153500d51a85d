//! The gateway's own endpoints, as one router, and who may use them.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use epitome_runtime::engine::Engine;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};

use super::health::{health, live, ready};
use super::metrics::Metrics;
use super::route::Route;
use super::stop::Stop;
use crate::api::{self, ApiError};
use crate::caller::{Caller, Callers};
use crate::settings::Settings;

/// What the gateway's own endpoints are made of.
#[derive(Clone)]
pub(super) struct Own {
    pub settings: Arc<Settings>,
    pub engine: Engine,
    pub metrics: Arc<Metrics>,
    pub compactions: Arc<epitome_runtime::event::Metrics>,
    pub stop: Stop,
    pub started: Instant,
}

/// The router of all of them.
pub(super) fn router(own: Own, mcp: Option<Router>) -> Router {
    let api = api::router(own.engine.clone(), own.stop.clone());
    let router = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(own)
        .merge(api)
        .method_not_allowed_fallback(|| async { ApiError::Method })
        .fallback(|| async { ApiError::NoRoute });
    match mcp {
        Some(mcp) => router.nest_service("/mcp", mcp),
        None => router,
    }
}

async fn metrics(State(own): State<Own>) -> Response {
    let text = own.metrics.render() + &own.compactions.render();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// Who asks, where that has to be known.
pub(super) fn admit(
    route: Route,
    headers: &HeaderMap,
    callers: &Callers,
    settings: &Settings,
) -> Result<Option<Caller>, ApiError> {
    if route == Route::Health {
        return Ok(None);
    }
    let caller = callers.of_own(headers).map_err(ApiError::Unknown)?;
    // Without keys the only lock is the loopback address, and a page in a browser must not pick it.
    match settings.listen.ip().is_loopback() && !callers.have_keys() && !is_local(headers) {
        true => Err(ApiError::Foreign),
        false => Ok(Some(caller)),
    }
}

/// Whether a request was meant for this machine, and comes from no page of another site.
fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let origin = origin.map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    host.is_none_or(is_local_name) && origin.is_none_or(is_local_name)
}

fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_local_name;

    #[test]
    fn only_this_machines_own_names_are_local() {
        for local in ["localhost", "localhost:8788", "127.0.0.1:8788", "127.1.2.3", "[::1]:8788", "[::1]"] {
            assert!(is_local_name(local), "{local}");
        }
        for foreign in ["", "evil.test", "localhost.evil.test", "127.0.0.1.evil.test:80", "10.0.0.1", "[::2]:1"] {
            assert!(!is_local_name(foreign), "{foreign}");
        }
    }
}
