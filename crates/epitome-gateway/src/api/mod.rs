//! The API: what the gateway keeps and did, as JSON, for whoever may see it.
//!
//! ```text
//! ENDPOINTS ──► the router
//!           ├─► openapi.json
//!           └─► the table in docs/api.md
//! ```
//!
//! One table says every endpoint once. The API reads, writes handoffs, and changes nothing but notes on a thread. A thing of another tenant is answered as one that there is
//! not.

mod artifact;
mod error;
mod event;
mod extract;
mod handoff;
mod ledger;
mod message;
mod notes;
mod openapi;
mod plan;
mod prompt;
mod reading_back;
mod table;
mod thread;
mod version;

pub use error::ApiError;
pub use openapi::openapi;
pub use table::{ENDPOINTS, Endpoint, Parameter};

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use epitome_runtime::engine::Engine;

use crate::serve::health::Probes;
use crate::serve::{Metrics, Stop};
use crate::settings::Settings;

/// The state behind the gateway's own endpoints.
#[derive(Clone, Debug)]
pub struct Api {
    pub(crate) settings: Arc<Settings>,
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) compactions: Arc<epitome_runtime::event::CompactionMetrics>,
    /// Streams end when the gateway stops.
    pub(crate) stop: Stop,
    pub(crate) started: Instant,
    /// Probes of the store and the artifacts.
    pub(crate) probes: Arc<Probes>,
}

/// The router of every endpoint in the table.
pub(crate) fn router(api: Api) -> Router {
    let add = |router: Router<Api>, endpoint: &Endpoint| router.route(endpoint.path, (endpoint.handler)());
    let router = ENDPOINTS.iter().fold(Router::new(), add);
    let router = router.method_not_allowed_fallback(|| async { ApiError::Method });
    router.fallback(|| async { ApiError::NoRoute }).with_state(api)
}
