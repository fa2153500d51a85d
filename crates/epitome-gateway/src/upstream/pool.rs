//! Connections to providers, kept for the next request.
//!
//! A connection is lent with an answer and comes back with its end. Whoever waits for an answer drives its connection: there
//! is no task of its own for it, and nobody to be woken up between the two. What is kept is looked at before it is used, so
//! that one that the provider has closed is never used again; one whose answer was left in the middle is closed.

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
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::UpBody;
use crate::serve::BoxError;
use crate::settings::Upstream;

/// For how long a connection is kept that nobody uses.
const IDLE_MAX: Duration = Duration::from_secs(50);
/// How often connections are looked for that nobody uses.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// The most that is read at once.
const BUFFER_BYTES_MAX: usize = 512 << 10;
/// From how many bytes on pieces of an answer that are there together are not gathered any more.
const GATHER_BYTES: usize = 8 << 10;

/// Connections to providers. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connector: HttpsConnector<HttpConnector>,
    /// Where connections go, and those that are kept; there are few providers.
    goals: Mutex<Vec<Goal>>,
    is_swept: AtomicBool,
}

#[derive(Debug)]
struct Goal {
    upstream: Arc<Upstream>,
    kept: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    link: Box<Link>,
    since: Instant,
}

/// A connection, and what is said on it.
#[derive(Debug)]
struct Link {
    sender: SendRequest<UpBody>,
    /// It, until it is over.
    connection: Option<Connection<MaybeHttpsStream<TokioIo<TcpStream>>, UpBody>>,
}

impl Link {
    /// Reads and writes what there is to be.
    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, cx);
    }

    /// Whether the next request can be sent on it, once it has been looked at.
    fn is_ready(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        self.connection.is_some() && self.sender.is_ready()
    }

    async fn send(&mut self, request: Request<UpBody>) -> Result<Response<Incoming>, Unsent> {
        let Link { sender, connection } = self;
        let mut answer = pin!(sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            drive(connection, cx);
            answer.as_mut().poll(cx)
        });
        answer.await.map_err(|mut error| Unsent { request: error.take_message(), error: error.into_error() })
    }
}

/// Reads and writes what there is to be. One that is over goes: whoever still waits for it is told by that.
fn drive<F: Future<Output = hyper::Result<()>> + Unpin>(connection: &mut Option<F>, cx: &mut Context<'_>) {
    let Some(Poll::Ready(ended)) = connection.as_mut().map(|connection| Pin::new(connection).poll(cx)) else { return };
    *connection = None;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to a provider ended early");
    }
}

/// A request that was not answered, and what there is to be sent again where the provider had none of it.
struct Unsent {
    request: Option<Request<UpBody>>,
    error: hyper::Error,
}

impl Pool {
    pub(super) fn new(connector: HttpsConnector<HttpConnector>) -> Pool {
        Pool { inner: Arc::new(Inner { connector, goals: Mutex::default(), is_swept: AtomicBool::new(false) }) }
    }

    /// Sends a request that is written as its upstream wants it: a path as its address, and a host.
    pub(super) async fn send(
        &self,
        upstream: &Arc<Upstream>,
        mut request: Request<UpBody>,
    ) -> Result<Response<Lent>, BoxError> {
        loop {
            let kept = poll_fn(|cx| Poll::Ready(self.inner.taken(upstream, cx))).await;
            let is_kept = kept.is_some();
            let mut link = match kept {
                Some(link) => link,
                None => Box::pin(self.connected(&upstream.url)).await?,
            };
            match link.send(request).await {
                Ok(response) => return Ok(self.lent(response, link, upstream)),
                // The provider closed it before it had any of this.
                Err(Unsent { request: Some(unsent), .. }) if is_kept => request = unsent,
                Err(Unsent { error, .. }) => return Err(error.into()),
            }
        }
    }

    fn lent(&self, response: Response<Incoming>, link: Box<Link>, upstream: &Arc<Upstream>) -> Response<Lent> {
        let (upstream, pool) = (Arc::clone(upstream), Arc::clone(&self.inner));
        let mut response =
            response.map(|body| Lent { body, lease: Some(Lease { link, upstream, pool }), behind: None });
        if response.body().is_end_stream() {
            response.body_mut().give_back();
        }
        response
    }

    /// A new connection.
    async fn connected(&self, uri: &Uri) -> Result<Box<Link>, BoxError> {
        let stream = self.inner.connector.clone().oneshot(uri.clone()).await?;
        let mut http = http1::Builder::new();
        http.preserve_header_case(true).max_buf_size(BUFFER_BYTES_MAX);
        let (sender, connection) = http.handshake(stream).await?;
        if !self.inner.is_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(swept(Arc::downgrade(&self.inner)));
        }
        Ok(Box::new(Link { sender, connection: Some(connection) }))
    }
}

/// Looks for connections that nobody uses, for as long as there is a pool.
async fn swept(pool: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        for goal in pool.goals().iter_mut() {
            goal.kept.retain(|kept| kept.since.elapsed() < IDLE_MAX);
        }
    }
}

impl Inner {
    fn goals(&self) -> MutexGuard<'_, Vec<Goal>> {
        self.goals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kept connection that is ready; the one that was used last.
    fn taken(&self, upstream: &Arc<Upstream>, cx: &mut Context<'_>) -> Option<Box<Link>> {
        let mut goals = self.goals();
        let goal = goals.iter_mut().find(|goal| Arc::ptr_eq(&goal.upstream, upstream))?;
        std::iter::from_fn(|| goal.kept.pop())
            .map(|kept| kept.link)
            .find_map(|mut link| link.is_ready(cx).then_some(link))
    }

    fn give_back(&self, upstream: &Arc<Upstream>, link: Box<Link>) {
        let kept = Kept { link, since: Instant::now() };
        let mut goals = self.goals();
        match goals.iter_mut().find(|goal| Arc::ptr_eq(&goal.upstream, upstream)) {
            Some(goal) => goal.kept.push(kept),
            None => goals.push(Goal { upstream: Arc::clone(upstream), kept: vec![kept] }),
        }
    }
}

/// An answer's body, and the connection that it comes on. Pieces that are there together are given out as one.
pub struct Lent {
    body: Incoming,
    /// The connection, until all of the answer was read. With one that nobody reads to its end it is closed, which tells the
    /// provider.
    lease: Option<Lease>,
    /// What was found behind pieces that were gathered, and is none.
    behind: Option<Next>,
}

struct Lease {
    link: Box<Link>,
    upstream: Arc<Upstream>,
    pool: Arc<Inner>,
}

/// What comes next in an answer; nothing at its end.
type Next = Option<Result<Frame<Bytes>, hyper::Error>>;

impl Lent {
    fn give_back(&mut self) {
        if let Some(Lease { link, upstream, pool }) = self.lease.take() {
            pool.give_back(&upstream, link);
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        // What is there already is taken first: then there is room for more.
        let mut next = Pin::new(&mut self.body).poll_frame(cx);
        if let (Poll::Pending, Some(lease)) = (&next, &mut self.lease) {
            lease.link.drive(cx);
            next = Pin::new(&mut self.body).poll_frame(cx);
        }
        if matches!(next, Poll::Ready(None)) || self.body.is_end_stream() {
            self.give_back();
        }
        next
    }

    /// A piece, with those behind it that are there already.
    fn gathered(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
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

impl Body for Lent {
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
            Ok(data) => Frame::data(self.gathered(data, cx)),
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
        super::super::pool(&crate::settings::Serve::default())
    }

    async fn ask(pool: &Pool, upstream: &Arc<Upstream>) -> Response<Lent> {
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
