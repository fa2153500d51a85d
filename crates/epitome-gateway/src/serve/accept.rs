//! The accept loop: connections come in, requests go to their doors, and nothing is left behind when it stops.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::response::IntoResponse as _;
use bytes::Bytes;
use epitome_runtime::ids::TenantId;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::answer::{Answer, BoxError, LogNote, RequestAccount, RequestSlot};
use super::endpoints::{admit, router};
use super::listen::Listening;
use super::metrics::Metrics;
use super::request_id::{PROXIED_REQUEST_ID, REQUEST_ID, RequestId};
use super::route::Route;
use super::stop::Stop;
use super::{Call, Gateway, Proxy};
use crate::api::Api;
use crate::body_memory::{BodyMemory, Reservation};
use crate::caller::Callers;
use crate::refusal::Refusal;
use crate::settings::{Provider, Settings};

/// The longest wait for learned windows before the first connection is accepted.
const LESSONS_WAIT: Duration = Duration::from_millis(500);
/// The pause after a connection could not be accepted, for example for lack of file descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// The largest body of a request for the gateway itself.
const OWN_BODY_BYTES_MAX: usize = 4 << 20;
/// The most that such bodies take together.
const OWN_BODIES_BYTES_MAX: usize = 64 << 20;

/// The body of a request for the gateway itself, within its limits.
struct OwnBody {
    body: Incoming,
    left: usize,
    room: Reservation,
}

impl http_body::Body for OwnBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other.map(|frame| frame.map_err(Into::into))),
        };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let is_within = bytes <= self.left && self.room.grow(bytes);
        self.left = self.left.saturating_sub(bytes);
        Poll::Ready(Some(if is_within { Ok(frame) } else { Err("the body is larger than the gateway takes".into()) }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// The result of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Requests that were cut off because they took longer than the grace.
    pub cut: usize,
}

/// The state that all connections share.
struct Shared<P> {
    settings: Arc<Settings>,
    callers: Callers,
    proxy: P,
    own: axum::Router,
    metrics: Arc<Metrics>,
    slots: Arc<AtomicUsize>,
    /// The memory for bodies of requests to the gateway's own endpoints.
    own_bodies: BodyMemory,
}

impl<P: Proxy> Gateway<P> {
    /// Serves until it is told to stop and everything under way is finished, or the grace is over.
    pub async fn serve(self, listening: Listening, mut stop: Stop) -> Ended {
        let Listening { listener, tls, .. } = listening;
        self.read_lessons().await;
        let shared = Arc::new(self.shared(stop.clone()));
        let (graceful, mut tasks) = (GracefulShutdown::new(), JoinSet::new());
        let http = Arc::new(http(&shared.settings));
        loop {
            let accepted = tokio::select! {
                () = stop.finishing() => break,
                accepted = listener.accept() => accepted,
            };
            while tasks.try_join_next().is_some() {}
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            };
            let (shared, http) = (Arc::clone(&shared), Arc::clone(&http));
            let (tls, watcher) = (tls.as_ref().map(|tls| tls.0.clone()), graceful.watcher());
            tasks.spawn(async move { shared.connection(stream, peer, tls, &http, watcher).await });
        }
        drop(listener);
        shared.finish(graceful, tasks, stop).await
    }

    /// Reads what was learned of models, so that the first prompts are right already. A store that takes longer is not waited
    /// for: then it is read with the first thread.
    async fn read_lessons(&self) {
        let named = self.settings.keys.iter().map(|key| &key.tenant).chain([&self.settings.tenant]);
        let tenants: BTreeSet<&TenantId> = named.collect();
        let read = async {
            for tenant in tenants {
                self.engine.refresh_lessons(tenant).await;
            }
        };
        if tokio::time::timeout(LESSONS_WAIT, read).await.is_err() {
            tracing::warn!("learned windows are not loaded yet: the store is slow");
        }
    }

    fn shared(self, stop: Stop) -> Shared<P> {
        let Gateway { settings, engine, proxy, metrics, compactions, mcp } = self;
        let api = Api {
            settings: Arc::clone(&settings),
            engine,
            metrics: Arc::clone(&metrics),
            compactions,
            stop,
            started: Instant::now(),
            probes: Arc::default(),
        };
        Shared {
            callers: Callers::of(&settings),
            settings,
            proxy,
            own: router(api, mcp),
            metrics,
            slots: Arc::new(AtomicUsize::new(0)),
            own_bodies: BodyMemory::new(OWN_BODIES_BYTES_MAX),
        }
    }
}

fn http(settings: &Settings) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(settings.serve.head_timeout_s.0)
        .max_header_size(settings.serve.head_kb_max.0)
        .preserve_header_case(true);
    http
}

impl<P: Proxy> Shared<P> {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        tls: Option<TlsAcceptor>,
        http: &http1::Builder,
        watcher: Watcher,
    ) {
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return self.requests(stream, peer, http, watcher).await };
        let handshake = tokio::time::timeout(self.settings.serve.head_timeout_s.0, tls.accept(stream));
        match handshake.await {
            Ok(Ok(stream)) => self.requests(stream, peer, http, watcher).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
        }
    }

    /// Answers the requests of one connection, one after the other.
    async fn requests<S>(self: Arc<Self>, stream: S, peer: SocketAddr, http: &http1::Builder, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let metrics = Arc::clone(&self.metrics);
        metrics.connected();
        let service = service_fn(move |request| {
            let shared = Arc::clone(&self);
            async move { Ok::<_, Infallible>(shared.answer(request, peer).await) }
        });
        let connection = http.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
        metrics.disconnected();
    }

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Answer<P::Body>> {
        let route = Route::of(request.uri().path());
        let id = RequestId::of(request.headers());
        let account = self.account(route, id.clone(), &request);
        match route {
            Route::Proxy => self.proxied(request, peer, id, account).await,
            route => self.own(route, request, &id, account).await,
        }
    }

    fn account(&self, route: Route, id: RequestId, request: &Request<Incoming>) -> RequestAccount {
        self.metrics.begun();
        RequestAccount {
            metrics: Arc::clone(&self.metrics),
            route,
            id,
            method: request.method().clone(),
            uri: request.uri().clone(),
            started: Instant::now(),
            status: None,
            note: LogNote::default(),
            bytes: 0,
            is_complete: false,
            slot: None,
        }
    }

    async fn proxied(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        id: RequestId,
        mut account: RequestAccount,
    ) -> Response<Answer<P::Body>> {
        let max = usize::try_from(self.settings.serve.requests_max).unwrap_or(usize::MAX);
        account.slot = RequestSlot::take(&self.slots, max);
        if account.slot.is_none() {
            return self.refused(&Refusal::Busy { max }, &request, &id, account);
        }
        let call = Call { id: id.clone(), peer, started: account.started };
        let mut response = self.proxy.answer(request, call).await;
        response.headers_mut().insert(PROXIED_REQUEST_ID, id.header());
        account.status = Some(response.status());
        account.note = P::note(response.body_mut());
        response.map(|body| Answer::proxied(body, account))
    }

    fn refused(
        &self,
        refusal: &Refusal,
        request: &Request<Incoming>,
        id: &RequestId,
        mut account: RequestAccount,
    ) -> Response<Answer<P::Body>> {
        self.metrics.refused(refusal.kind());
        let mut response = refusal.response(Provider::of(request.uri().path(), request.headers()));
        response.headers_mut().insert(PROXIED_REQUEST_ID, id.header());
        account.status = Some(response.status());
        response.map(|body| Answer::own(axum::body::Body::new(body), account))
    }

    async fn own(
        &self,
        route: Route,
        request: Request<Incoming>,
        id: &RequestId,
        mut account: RequestAccount,
    ) -> Response<Answer<P::Body>> {
        let mut response = self.own_answer(route, request, id).await;
        response.headers_mut().insert(REQUEST_ID, id.header());
        account.status = Some(response.status());
        response.map(|body| Answer::own(body, account))
    }

    async fn own_answer(&self, route: Route, request: Request<Incoming>, id: &RequestId) -> axum::response::Response {
        let caller = match admit(route, request.headers(), &self.callers, &self.settings) {
            Ok(caller) => caller,
            Err(error) => return error.into_response(),
        };
        if request.body().size_hint().lower() > OWN_BODY_BYTES_MAX as u64 {
            let max = OWN_BODY_BYTES_MAX;
            let words = format!("the body is larger than the gateway's own endpoints take, which is {max} bytes");
            return (http::StatusCode::PAYLOAD_TOO_LARGE, words).into_response();
        }
        let room = self.own_bodies.reservation();
        let mut request = request.map(|body| axum::body::Body::new(OwnBody { body, left: OWN_BODY_BYTES_MAX, room }));
        caller.map(|caller| request.extensions_mut().insert(caller));
        request.extensions_mut().insert(id.clone());
        // In a task of its own it is finished even if the client leaves, and a panic is an answer too.
        match tokio::spawn(self.own.clone().oneshot(request)).await {
            Ok(answered) => answered.unwrap_or_else(|never| match never {}),
            Err(error) => {
                tracing::error!(%error, "an endpoint panicked");
                http::StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    /// Waits for what is under way, up to the grace; then cuts it off.
    async fn finish(&self, graceful: GracefulShutdown, mut tasks: JoinSet<()>, mut stop: Stop) -> Ended {
        let grace = self.settings.serve.shutdown_grace_s.0;
        tokio::select! {
            () = graceful.shutdown() => {}
            () = tokio::time::sleep(grace) => {}
            () = stop.at_once() => {}
        }
        let cut = self.slots.load(Ordering::Acquire);
        if cut > 0 {
            tracing::warn!(requests = cut, grace_s = grace.as_secs(), "requests were cut off");
        }
        tasks.shutdown().await;
        Ended { cut }
    }
}
