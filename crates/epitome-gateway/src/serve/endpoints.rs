//! The gateway's own endpoints, as one router, and who may use them.

use axum::Router;
use http::HeaderMap;
use http::header::{HOST, ORIGIN};

use super::route::Route;
use crate::api::{self, Api, ApiError};
use crate::caller::{Caller, Callers};
use crate::settings::Settings;

/// The router of all of them.
pub(super) fn router(api: Api, mcp: Option<Router>) -> Router {
    let router = api::router(api);
    match mcp {
        Some(mcp) => router.nest_service("/mcp", mcp),
        None => router,
    }
}

/// Authenticates a request for one of the gateway's own endpoints.
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
    if settings.serve.listen.ip().is_loopback() && !callers.have_keys() && !is_local(headers) {
        Err(ApiError::Foreign)
    } else {
        Ok(Some(caller))
    }
}

/// True if a request is for this machine, and from no other site's page.
pub(crate) fn is_local(headers: &HeaderMap) -> bool {
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
