//! The pool of connections to providers.
//!
//! The reader of an answer drives its connection: there is no task for it, and so no wake-up between the two.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::UpBody;
use crate::serve::BoxError;
use crate::settings::Upstream;

/// How long an idle connection is kept.
const IDLE_MAX: Duration = Duration::from_secs(50);
/// How often idle connections are closed.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// The most that is read at once.
const BUFFER_BYTES_MAX: usize = 512 << 10;
/// Chunks of an answer that arrived together are joined up to this size.
const GATHER_BYTES: usize = 8 << 10;

/// The connections to providers of one thread. A clone is the same pool.
///
/// A connection is *lent* with an answer ([`PooledBody`]) and becomes *idle* when the answer was read to its end. Dropping the
/// answer earlier closes it, which tells the provider to stop. An idle connection is polled before it is used again, so that
/// one that the provider has closed is dropped; without that poll a request could be written to a dead connection. If the
/// provider closes it at that very moment, the request comes back unsent and takes another connection.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connector: HttpsConnector<HttpConnector>,
    /// The idle connections of each host; there are few.
    hosts: Mutex<Vec<HostPool>>,
    is_swept: AtomicBool,
}

#[derive(Debug)]
struct HostPool {
    upstream: Arc<Upstream>,
    idle: Vec<IdleConnection>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Box<Connection>,
    since: Instant,
}

/// An HTTP/1 connection that whoever uses it also drives.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<UpBody>,
    /// The connection's own future, until it ends.
    driver: Option<http1::Connection<MaybeHttpsStream<TokioIo<TcpStream>>, UpBody>>,
}

impl Connection {
    /// Reads and writes as far as possible.
    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    /// Polls it; true if the next request can be sent on it.
    fn is_ready(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        self.driver.is_some() && self.sender.is_ready()
    }

    async fn send(&mut self, request: Request<UpBody>) -> Result<Response<Incoming>, Unsent> {
        let Connection { sender, driver } = self;
        let mut answer = pin!(sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            drive(driver, cx);
            answer.as_mut().poll(cx)
        });
        answer.await.map_err(|mut error| Unsent { request: error.take_message(), error: error.into_error() })
    }
}

/// Reads and writes as far as possible. A connection that ended is dropped, which wakes whoever still waits for it.
fn drive<F: Future<Output = hyper::Result<()>> + Unpin>(driver: &mut Option<F>, cx: &mut Context<'_>) {
    let Some(Poll::Ready(ended)) = driver.as_mut().map(|driver| Pin::new(driver).poll(cx)) else { return };
    *driver = None;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to a provider ended early");
    }
}

/// A request that was not answered; it can be sent again if the provider received none of it.
struct Unsent {
    request: Option<Request<UpBody>>,
    error: hyper::Error,
}

impl Pool {
    pub(super) fn new(connector: HttpsConnector<HttpConnector>) -> Pool {
        Pool { inner: Arc::new(Inner { connector, hosts: Mutex::default(), is_swept: AtomicBool::new(false) }) }
    }

    /// Sends a request that is written as its upstream wants it: a path as its address, and a host.
    pub(super) async fn send(
        &self,
        upstream: &Arc<Upstream>,
        mut request: Request<UpBody>,
    ) -> Result<Response<PooledBody>, BoxError> {
        loop {
            let idle = poll_fn(|cx| Poll::Ready(self.inner.take_ready(upstream, cx))).await;
            let is_reused = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Box::pin(self.connect(&upstream.url)).await?,
            };
            match connection.send(request).await {
                Ok(response) => return Ok(self.lend(response, connection, upstream)),
                // The provider closed it before it received any of this.
                Err(Unsent { request: Some(unsent), .. }) if is_reused => request = unsent,
                Err(Unsent { error, .. }) => return Err(error.into()),
            }
        }
    }

    fn lend(
        &self,
        response: Response<Incoming>,
        connection: Box<Connection>,
        upstream: &Arc<Upstream>,
    ) -> Response<PooledBody> {
        let (upstream, pool) = (Arc::clone(upstream), Arc::clone(&self.inner));
        let mut response =
            response.map(|body| PooledBody { body, lease: Some(Lease { connection, upstream, pool }), behind: None });
        if response.body().is_end_stream() {
            response.body_mut().give_back();
        }
        response
    }

    /// Opens a connection.
    async fn connect(&self, uri: &Uri) -> Result<Box<Connection>, BoxError> {
        let stream = self.inner.connector.clone().oneshot(uri.clone()).await?;
        let mut http = http1::Builder::new();
        http.preserve_header_case(true).max_buf_size(BUFFER_BYTES_MAX);
        let (sender, driver) = http.handshake(stream).await?;
        if !self.inner.is_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep(Arc::downgrade(&self.inner)));
        }
        Ok(Box::new(Connection { sender, driver: Some(driver) }))
    }
}

/// Closes idle connections, as long as the pool exists.
async fn sweep(pool: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        for host in pool.hosts().iter_mut() {
            host.idle.retain(|idle| idle.since.elapsed() < IDLE_MAX);
        }
    }
}

impl Inner {
    fn hosts(&self) -> MutexGuard<'_, Vec<HostPool>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the idle connection that was used last and is still open.
    fn take_ready(&self, upstream: &Arc<Upstream>, cx: &mut Context<'_>) -> Option<Box<Connection>> {
        let mut hosts = self.hosts();
        let host = hosts.iter_mut().find(|host| Arc::ptr_eq(&host.upstream, upstream))?;
        std::iter::from_fn(|| host.idle.pop())
            .map(|idle| idle.connection)
            .find_map(|mut connection| connection.is_ready(cx).then_some(connection))
    }

    fn give_back(&self, upstream: &Arc<Upstream>, connection: Box<Connection>) {
        let idle = IdleConnection { connection, since: Instant::now() };
        let mut hosts = self.hosts();
        match hosts.iter_mut().find(|host| Arc::ptr_eq(&host.upstream, upstream)) {
            Some(host) => host.idle.push(idle),
            None => hosts.push(HostPool { upstream: Arc::clone(upstream), idle: vec![idle] }),
        }
    }
}

/// An answer's body, with the connection that it comes on. Chunks that arrived together are joined.
pub struct PooledBody {
    body: Incoming,
    /// The connection, until all of the answer was read.
    lease: Option<Lease>,
    /// A frame that was found behind joined chunks and is no data.
    behind: Option<Next>,
}

struct Lease {
    connection: Box<Connection>,
    upstream: Arc<Upstream>,
    pool: Arc<Inner>,
}

/// The next frame of an answer; nothing at its end.
type Next = Option<Result<Frame<Bytes>, hyper::Error>>;

impl PooledBody {
    fn give_back(&mut self) {
        if let Some(Lease { connection, upstream, pool }) = self.lease.take() {
            pool.give_back(&upstream, connection);
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        // Buffered frames are taken first, which makes room for more.
        let mut next = Pin::new(&mut self.body).poll_frame(cx);
        if let (Poll::Pending, Some(lease)) = (&next, &mut self.lease) {
            lease.connection.drive(cx);
            next = Pin::new(&mut self.body).poll_frame(cx);
        }
        if matches!(next, Poll::Ready(None)) || self.body.is_end_stream() {
            self.give_back();
        }
        next
    }

    /// Joins a chunk with those behind it that have arrived.
    fn gather(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
        let mut all = BytesMut::new();
        while first.len().max(all.len()) < GATHER_BYTES && !self.body.is_end_stream() {
            let Poll::Ready(next) = self.poll_next(cx) else { break };
            let data = match next {
                Some(Ok(frame)) => frame.into_data().map_err(|frame| Some(Ok(frame))),
                other => Err(other),
            };
            match data {
                Ok(data) => {
                    if all.is_empty() {
                        all.extend_from_slice(&first);
                    }
                    all.extend_from_slice(&data);
                }
                Err(behind) => {
                    self.behind = Some(behind);
                    break;
                }
            }
        }
        if all.is_empty() { first } else { all.freeze() }
    }
}

impl Body for PooledBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        if let Some(behind) = self.behind.take() {
            return Poll::Ready(behind);
        }
        let frame = match ready!(self.poll_next(cx)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) => Frame::data(self.gather(data, cx)),
            Err(frame) => frame,
        })))
    }

    fn is_end_stream(&self) -> bool {
        match &self.behind {
            Some(behind) => behind.is_none(),
            None => self.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::settings::{Provider, UpstreamRoute};

    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
    const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi";

    const PIECES: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n5\r\n, you\r\n0\r\n\r\n";
    const BROKEN: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n5\r\n, you\r\nno\r\n";

    /// A provider that says this to every request and, where it is told so, hangs up after it. What it has heard, and
    /// `- N` for the end of a connection.
    async fn provider(words: &'static str, hangs_up: bool) -> (Arc<Upstream>, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
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
                            break;
                        }
                    }
                    drop(stream);
                    all.lock().unwrap().push(format!("- {number}"));
                });
            }
        });
        let upstream = Upstream { route: UpstreamRoute::Provider(Provider::OpenAi), url, key: None };
        (Arc::new(upstream), heard)
    }

    fn pool() -> Pool {
        Pool::new(crate::upstream::connector(&crate::settings::Serve::default()))
    }

    async fn ask(pool: &Pool, upstream: &Arc<Upstream>) -> Response<PooledBody> {
        let mut request = Request::new(super::super::whole(Bytes::new()));
        *request.uri_mut() = "/v1/models".parse().unwrap();
        pool.send(upstream, request).await.unwrap()
    }

    /// On which connection each request came.
    fn connections(heard: &Mutex<Vec<String>>) -> Vec<char> {
        let heard = heard.lock().unwrap();
        heard.iter().filter_map(|head| head.chars().next()).filter(|first| *first != '-').collect()
    }

    /// Waits until so many connections are over, and what is kept may know of it.
    async fn closed(heard: &Mutex<Vec<String>>, count: usize) {
        while heard.lock().unwrap().iter().filter(|head| head.starts_with('-')).count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    #[tokio::test]
    async fn a_connection_is_used_again_when_its_answer_was_read() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (pool, (upstream, heard)) = (pool(), provider(WHOLE, false).await);
        for _ in 0..3 {
            assert_eq!(ask(&pool, &upstream).await.collect().await.unwrap().to_bytes(), "hi");
        }
        let two = [ask(&pool, &upstream).await, ask(&pool, &upstream).await];
        assert_eq!(connections(&heard), ['1', '1', '1', '1', '2'], "two at once need two");
        drop(two);
    }

    #[tokio::test]
    async fn pieces_that_are_there_together_are_one_and_what_is_behind_them_is_told() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for (words, ends_well) in [(PIECES, true), (BROKEN, false)] {
            let (pool, (upstream, _)) = (pool(), provider(words, true).await);
            let mut answer = ask(&pool, &upstream).await;
            let first = answer.frame().await.unwrap().unwrap();
            assert_eq!(first.into_data().unwrap(), "hi, you", "{words}");
            assert_eq!(answer.is_end_stream(), ends_well);
            assert_eq!(answer.frame().await.is_none(), ends_well);
        }
    }

    #[tokio::test]
    async fn one_that_was_closed_or_left_in_the_middle_is_not_used_again() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (pool, (upstream, heard)) = (pool(), provider(WHOLE, true).await);
        for count in 1..=2 {
            ask(&pool, &upstream).await.collect().await.unwrap();
            closed(&heard, count).await;
        }
        assert_eq!(connections(&heard), ['1', '2']);
        let (upstream, heard) = provider(CUT, false).await;
        for count in 1..=2 {
            let mut answer = ask(&pool, &upstream).await;
            answer.frame().await.unwrap().unwrap();
            drop(answer);
            closed(&heard, count).await;
        }
        assert_eq!(connections(&heard), ['1', '2']);
    }
}
