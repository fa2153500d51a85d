//! Serving: a port, an accept loop of its own, and two kinds of requests.
//!
//! ```text
//! accept ──► head (limit, timeout) ──► /livez /readyz /health /metrics /api /mcp ──► axum
//!                                 └──► everything else ──► the proxy, as it came
//! ```
//!
//! The proxied way has no layers: no boxed futures, no header maps of its own, the spelling of headers kept. Told to stop,
//! it takes nothing new and finishes what is under way, up to a grace. It knows nothing of providers or prompts.

mod accept;
mod answer;
mod endpoints;
pub(crate) mod health;
mod listen;
pub(crate) mod metrics;
mod request_id;
mod route;
mod stop;

pub use accept::Ended;
pub use answer::{Answer, BoxError, LogNote};
pub(crate) use endpoints::is_local;
pub use listen::{ListenError, Listening, Openness};
pub use metrics::Metrics;
pub use request_id::{PROXIED_REQUEST_ID, REQUEST_ID, RequestId};
pub use stop::{Stop, Stopper, signaled};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use epitome_runtime::engine::Engine;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;

use crate::settings::Settings;

/// Whoever answers what is not the gateway's own.
pub trait Proxy: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;

    /// Returns additional fields for the request's log line.
    fn note(_body: &mut Self::Body) -> LogNote {
        LogNote::default()
    }

    /// Answers a request. It cannot fail: what goes wrong is an answer too.
    fn answer(&self, request: Request<Incoming>, call: Call) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// The circumstances of a request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its id; the answer gets it as a header.
    pub id: RequestId,
    /// The client's address.
    pub peer: SocketAddr,
    /// When its head was read.
    pub started: Instant,
}

/// A gateway: the proxy, and its own endpoints beside it.
#[derive(Debug)]
pub struct Gateway<P> {
    /// Its settings.
    pub settings: Arc<Settings>,
    /// Keeps the threads.
    pub engine: Engine,
    /// Answers what is not its own.
    pub proxy: P,
    /// Metrics of requests.
    pub metrics: Arc<Metrics>,
    /// Metrics of compactions, collected by a listener on the engine's bus.
    pub compactions: Arc<epitome_runtime::event::CompactionMetrics>,
    /// Answers requests under `/mcp`; each has its caller among its extensions.
    pub mcp: Option<axum::Router>,
}
