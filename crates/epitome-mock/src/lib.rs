//! The strict mock provider: a test upstream with a real provider's rules, words, window, cache and ways to fail.
//!
//! ```text
//! request ──► rules ──► prompt ──► window ──► cache ──► reply ──► encode ──► client
//!               │                    │                    │
//!               └ 400, in the       └ any shape of       └ text, tool work,
//!                 provider's words     an overflow          thinking, compaction
//! ```
//!
//! The same request gets the same bytes. Between requests it keeps only what a provider keeps: the prefix cache, stored
//! responses, and usage by key. It has no model: its texts are fixed.
//!
//! ```
//! use epitome::budget::Tokens;
//! use epitome_mock::{MockServer, MockSettings};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mock = MockServer::start(MockSettings { window: Some(Tokens::new(8_000)), ..MockSettings::default() })?;
//! mock.fail_next("529".parse()?, 2);
//! // … point a client at mock.url() …
//! assert!(mock.violations().is_empty());
//! mock.stop().await;
//! # Ok(())
//! # }
//! ```

mod archive;
mod cache;
mod compaction;
mod embeddings;
mod encode;
mod endpoint;
mod faults;
mod incoming;
mod lax;
mod models;
mod outgoing;
mod prompt;
mod provider;
mod record;
mod rejection;
mod reply;
mod request;
mod rules;
mod seal;
mod settings;
mod tools;
mod window;
mod work;

pub use faults::{FaultKind, ProviderFault};
pub use record::{KeyAccount, RecordedRequest, RuleViolation};
pub use settings::{CacheRules, MockSettings, MockWork, Timing, TokenPrices};

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::ListenerExt;
use bytes::Bytes;
use epitome::budget::Tokens;
use http_body_util::{BodyExt, Limited};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use incoming::IncomingRequest;
use provider::MockProvider;

/// A mock provider that is running; dropping it stops it.
pub struct MockServer {
    address: SocketAddr,
    provider: Arc<MockProvider>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl MockServer {
    /// Starts a mock on the current Tokio runtime.
    pub fn start(settings: MockSettings) -> io::Result<MockServer> {
        let listener = std::net::TcpListener::bind(settings.listen)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        // Events are small: without this each would wait for the client to acknowledge the one before.
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let provider = Arc::new(MockProvider::new(settings));
        let (stop, stopped) = oneshot::channel();
        let app = Router::new().fallback(answer).with_state(provider.clone());
        let server = tokio::spawn(async move {
            tokio::select! {
                _ = axum::serve(listener, app) => {}
                _ = stopped => {}
            }
        });
        Ok(MockServer { address, provider, stop: Some(stop), server })
    }

    /// Returns its base URL, such as `http://127.0.0.1:4010`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests it received, oldest first.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.provider.records(|records| records.requests.iter().cloned().collect())
    }

    /// Returns the rules that requests broke, oldest first.
    pub fn violations(&self) -> Vec<RuleViolation> {
        self.provider.records(|records| records.broken.clone())
    }

    /// Returns usage and cost of an API key.
    pub fn account(&self, key: &str) -> KeyAccount {
        self.provider.records(|records| records.accounts.get(key).cloned().unwrap_or_default())
    }

    /// Returns the number of turns with tool calls that a key was given.
    pub fn work_turns(&self, key: &str) -> u64 {
        self.provider.work_turns(key)
    }

    /// Makes the next `times` requests fail with a fault, whatever they contain.
    pub fn fail_next(&self, fault: ProviderFault, times: usize) {
        self.provider.fail_next(fault, times);
    }

    /// Changes the window of models that name none themselves.
    pub fn set_window(&self, window: Option<Tokens>) {
        self.provider.set_window(window);
    }

    /// Forgets requests, accounts, work, cache and faults.
    pub fn reset(&self) {
        self.provider.reset();
    }

    /// Stops it; connections that are open are cut.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = (&mut self.server).await;
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers a request.
async fn answer(State(provider): State<Arc<MockProvider>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = body_of(body, provider.settings.body_bytes_max).await;
    if provider.settings.lax {
        return lax::answer(&provider.settings, &head, &body.unwrap_or_default()).send().await;
    }
    let work = move || provider.answer(IncomingRequest::of(head, body));
    match tokio::task::spawn_blocking(work).await {
        Ok(outgoing) => outgoing.send().await,
        Err(_) => {
            let mut response = Response::new(Body::from("the mock itself failed; this is a bug in it"));
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// The body; nothing if it is too large or breaks off.
async fn body_of(body: Body, bytes_max: usize) -> Option<Bytes> {
    Limited::new(body, bytes_max).collect().await.ok().map(http_body_util::Collected::to_bytes)
}
