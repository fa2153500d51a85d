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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
    const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi";

    /// A provider that says this to every request and, where it is told so, hangs up some time after it. How many
    /// connections it has had.
    async fn provider(words: &'static str, hangs_up: bool) -> (Uri, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/v1/models?a=b", listener.local_addr().unwrap()).parse().unwrap();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&heard);
        tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                connections += 1;
                let (all, number) = (Arc::clone(&all), connections);
                tokio::spawn(async move {
                    let mut piece = vec![0; 4096];
                    while let Some(count) = stream.read(&mut piece).await.ok().filter(|count| *count > 0) {
                        let head = String::from_utf8_lossy(&piece[..count]).into_owned();
                        all.lock().unwrap().push(format!("{number}: {head}"));
                        stream.write_all(words.as_bytes()).await.unwrap();
                        if hangs_up {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                            return;
                        }
                    }
                });
            }
        });
        (uri, heard)
    }

    fn pool() -> Pool {
        super::super::pool(&crate::settings::Limits::default())
    }

    async fn ask(pool: &Pool, uri: &Uri) -> Response<Lent> {
        let mut request = Request::new(super::super::whole(Bytes::new()));
        *request.uri_mut() = uri.clone();
        pool.send(request).await.unwrap()
    }

    /// On which connection each request came.
    fn connections(heard: &Mutex<Vec<String>>) -> Vec<char> {
        heard.lock().unwrap().iter().filter_map(|head| head.chars().next()).collect()
    }

    async fn a_moment() {
        tokio::time::sleep(Duration::from_millis(60)).await;
    }

    #[tokio::test]
    async fn a_connection_is_used_again_when_its_answer_was_read() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (pool, (uri, heard)) = (pool(), provider(WHOLE, false).await);
        for _ in 0..3 {
            assert_eq!(ask(&pool, &uri).await.collect().await.unwrap().to_bytes(), "hi");
            a_moment().await;
        }
        let two = [ask(&pool, &uri).await, ask(&pool, &uri).await];
        assert_eq!(connections(&heard), ['1', '1', '1', '1', '2'], "two at once need two");
        drop(two);
        let head = heard.lock().unwrap()[0].clone();
        let host = uri.authority().unwrap();
        assert!(head.starts_with("1: GET /v1/models?a=b HTTP/1.1\r\n") && head.contains(&format!("host: {host}\r\n")));
    }

    #[tokio::test]
    async fn one_that_was_closed_or_left_in_the_middle_is_not_used_again() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (pool, (uri, heard)) = (pool(), provider(WHOLE, true).await);
        for _ in 0..2 {
            ask(&pool, &uri).await.collect().await.unwrap();
            a_moment().await;
        }
        assert_eq!(connections(&heard), ['1', '2']);
        let (uri, heard) = provider(CUT, false).await;
        for _ in 0..2 {
            let mut answer = ask(&pool, &uri).await;
            answer.frame().await.unwrap().unwrap();
            drop(answer);
            a_moment().await;
        }
        assert_eq!(connections(&heard), ['1', '2']);
    }
}
