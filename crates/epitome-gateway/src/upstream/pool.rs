//! Connections to providers, kept for the next request.
//!
//! A connection is lent with an answer and comes back with its end. What is kept is asked whether it is ready before it is
//! used, so that one whose answer was left in the middle, or that the provider has closed, is never used again.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use tower::ServiceExt as _;

use super::UpBody;
use crate::serve::BoxError;

/// For how long a connection is kept that nobody uses.
const IDLE_MAX: Duration = Duration::from_secs(50);
/// How often connections are looked for that nobody uses.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// The most that is read at once.
const BUFFER_BYTES_MAX: usize = 512 << 10;

/// Connections to providers. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connector: HttpsConnector<HttpConnector>,
    /// Those that are kept, by where they go; there are few providers.
    kept: Mutex<Vec<(Place, Vec<Kept>)>>,
    is_swept: AtomicBool,
}

#[derive(Debug)]
struct Kept {
    sender: SendRequest<UpBody>,
    since: Instant,
}

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    scheme: Scheme,
    authority: Authority,
}

impl Place {
    fn of(uri: &Uri) -> Result<Place, BoxError> {
        match (uri.scheme(), uri.authority()) {
            (Some(scheme), Some(authority)) => Ok(Place { scheme: scheme.clone(), authority: authority.clone() }),
            _ => Err(format!("{uri} is not a whole address").into()),
        }
    }

    /// As providers want to be addressed: the usual port is not said.
    fn host(&self) -> Result<HeaderValue, BoxError> {
        let usual = if self.scheme == Scheme::HTTPS { 443 } else { 80 };
        let host = match self.authority.port_u16() {
            Some(port) if port != usual => self.authority.as_str(),
            _ => self.authority.host(),
        };
        // What stands before an @ is not the host.
        Ok(HeaderValue::from_str(host.rsplit('@').next().unwrap_or_default())?)
    }
}

impl Pool {
    pub(super) fn new(connector: HttpsConnector<HttpConnector>) -> Pool {
        Pool { inner: Arc::new(Inner { connector, kept: Mutex::default(), is_swept: AtomicBool::new(false) }) }
    }

    /// Sends a request to the place that its address says.
    pub(super) async fn send(&self, mut request: Request<UpBody>) -> Result<Response<Lent>, BoxError> {
        let uri = std::mem::take(request.uri_mut());
        let place = Place::of(&uri)?;
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = path.into();
        request.headers_mut().insert(HOST, place.host()?);
        while let Some(mut sender) = self.inner.taken(&place) {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.lent(response, sender, place)),
                // The provider closed it before it had any of this.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
            }
        }
        let mut sender = Box::pin(self.connected(&uri)).await?;
        let response = sender.send_request(request).await?;
        Ok(self.lent(response, sender, place))
    }

    fn lent(&self, response: Response<Incoming>, sender: SendRequest<UpBody>, place: Place) -> Response<Lent> {
        response.map(|body| Lent { body, lease: Some(Lease { sender, place, pool: Arc::clone(&self.inner) }) })
    }

    /// A new connection.
    async fn connected(&self, uri: &Uri) -> Result<SendRequest<UpBody>, BoxError> {
        let stream = self.inner.connector.clone().oneshot(uri.clone()).await?;
        let mut http = http1::Builder::new();
        http.preserve_header_case(true).max_buf_size(BUFFER_BYTES_MAX);
        let (sender, connection) = http.handshake(stream).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a provider ended early");
            }
        });
        if !self.inner.is_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(swept(Arc::downgrade(&self.inner)));
        }
        Ok(sender)
    }
}

/// Looks for connections that nobody uses, for as long as there is a pool.
async fn swept(pool: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        for (_, kept) in pool.kept().iter_mut() {
            kept.retain(|kept| !kept.sender.is_closed() && kept.since.elapsed() < IDLE_MAX);
        }
    }
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, Vec<(Place, Vec<Kept>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kept connection that is ready; the one that was used last.
    fn taken(&self, place: &Place) -> Option<SendRequest<UpBody>> {
        let mut kept = self.kept();
        let (_, kept) = kept.iter_mut().find(|(other, _)| other == place)?;
        while kept.last().is_some_and(|last| last.sender.is_closed()) {
            kept.pop();
        }
        let at = kept.iter().rposition(|kept| kept.sender.is_ready())?;
        Some(kept.remove(at).sender)
    }

    fn give_back(&self, place: Place, sender: SendRequest<UpBody>) {
        if sender.is_closed() {
            return;
        }
        let one = Kept { sender, since: Instant::now() };
        let mut kept = self.kept();
        match kept.iter_mut().find(|(other, _)| *other == place) {
            Some((_, kept)) => kept.push(one),
            None => kept.push((place, vec![one])),
        }
    }
}

/// An answer's body, and the connection that it comes on.
pub struct Lent {
    body: Incoming,
    lease: Option<Lease>,
}

struct Lease {
    sender: SendRequest<UpBody>,
    place: Place,
    pool: Arc<Inner>,
}

impl Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(Lease { sender, place, pool }) = self.lease.take() {
            pool.give_back(place, sender);
        }
    }
}
