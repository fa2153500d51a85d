//! Upstreams: which one answers a request, and how it is forwarded.
//!
//! Headers are forwarded unchanged, except those that belong to one connection, those for the gateway, and the key if the
//! upstream has its own.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::caller::PROVIDER_KEY_HEADERS;
use crate::proxy::wishes::is_ours;
use crate::refusal::Refusal;
use crate::settings::{Provider, Serve, Upstream, UpstreamRoute};

/// The body of a forwarded request: whole, or a stream.
pub type UpBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// How long an idle connection is kept.
const IDLE_MAX: Duration = Duration::from_secs(50);
/// The most that is read at once.
const BUFFER_BYTES_MAX: usize = 512 << 10;

/// Headers that belong to one connection.
const OF_A_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authorization"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];

/// Forwards requests.
///
/// A connection becomes idle when its answer was read to the end, and is used again. Dropping an answer earlier closes its
/// connection, which tells the provider to stop. A request that the provider received nothing of, because it closed an idle
/// connection at that very moment, takes another connection.
#[derive(Clone, Debug)]
pub struct Upstreams {
    list: Vec<Arc<Upstream>>,
    client: Client<HttpsConnector<HttpConnector>, UpBody>,
    first_byte: Duration,
}

impl Upstreams {
    /// The upstreams of the settings.
    pub fn new(list: Vec<Upstream>, serve: &Serve) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .http1_preserve_header_case(true)
            .http1_max_buf_size(BUFFER_BYTES_MAX)
            .set_host(false)
            .build(connector(serve));
        let list = list.into_iter().map(Arc::new).collect();
        Upstreams { list, client, first_byte: serve.first_byte_timeout_s.0 }
    }

    /// Returns the upstream for a request: by path, then by model, then by provider.
    pub fn of(&self, path: &str, model: Option<&str>, family: Provider) -> Option<Arc<Upstream>> {
        let takes = |upstream: &&Arc<Upstream>| {
            upstream.route.matches_path(path)
                || model.is_some_and(|model| upstream.route.matches_model(model))
                || upstream.route == UpstreamRoute::Provider(family)
        };
        // They are in the order of precedence.
        self.list.iter().find(takes).cloned()
    }

    /// True if the model decides which upstream answers.
    pub fn are_by_model(&self) -> bool {
        self.list.iter().any(|upstream| matches!(upstream.route, UpstreamRoute::Model(_)))
    }

    /// Sends a request that is written as its upstream wants it: a path as its address, and a host.
    pub async fn send(&self, upstream: &Upstream, mut request: Request<UpBody>) -> Result<Response<Incoming>, Refusal> {
        let host = || upstream.url.authority().map(ToString::to_string).unwrap_or_default();
        let mut target = upstream.url.clone().into_parts();
        target.path_and_query = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from_parts(target)
            .map_err(|error| Refusal::Unreachable { host: host(), reason: error.to_string() })?;
        match tokio::time::timeout(self.first_byte, self.client.request(request)).await {
            Err(_) => Err(Refusal::Timeout { host: host(), seconds: self.first_byte.as_secs() }),
            Ok(Err(error)) => Err(Refusal::Unreachable { host: host(), reason: reason(&error) }),
            Ok(Ok(response)) => Ok(response),
        }
    }
}

fn connector(serve: &Serve) -> HttpsConnector<HttpConnector> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(serve.connect_timeout_s.0));
    hyper_rustls::HttpsConnectorBuilder::new()
        .with_platform_verifier()
        .https_or_http()
        .enable_http1()
        .wrap_connector(http)
}

/// Says what happened; the client's own error only says at which stage.
fn reason(error: &hyper_util::client::legacy::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}

/// The headers that go up: the client's, less what is not the provider's. Keys of the gateway's own have left them already.
pub fn headers(upstream: &Upstream, client: &HeaderMap, family: Provider) -> HeaderMap {
    let mut headers = less(client, |name| *name == HOST || is_of_a_connection(name) || is_ours(name));
    if let Some(key) = &upstream.key {
        put_key(&mut headers, key.reveal(), family);
    }
    if let Some(host) = host(&upstream.url) {
        headers.insert(HOST, host);
    }
    headers
}

/// How a provider wants to be addressed: the usual port is not said, and what stands before an @ is not the host.
fn host(url: &Uri) -> Option<HeaderValue> {
    let authority = url.authority()?;
    let usual = if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = match authority.port_u16() {
        Some(port) if port != usual => authority.as_str(),
        _ => authority.host(),
    };
    HeaderValue::from_str(host.rsplit('@').next()?).ok()
}

/// Removes what belongs to one connection, and what the connection names besides.
pub fn without_connection(headers: &mut HeaderMap) {
    if headers.keys().any(is_of_a_connection) {
        *headers = less(headers, is_of_a_connection);
    }
}

fn is_of_a_connection(name: &HeaderName) -> bool {
    OF_A_CONNECTION.contains(name)
}

/// Headers in their order, less those that go and those that their connection names.
fn less(headers: &HeaderMap, goes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let named = headers.get(CONNECTION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let named: Vec<HeaderName> = named.split(',').filter_map(|name| name.trim().parse().ok()).collect();
    let mut left = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| !goes(name) && !named.contains(name)) {
        left.append(name, value.clone());
    }
    left
}

/// Puts the upstream's own key in the place of the client's, where its provider looks for it.
fn put_key(headers: &mut HeaderMap, key: &str, family: Provider) {
    for name in &PROVIDER_KEY_HEADERS {
        headers.remove(name);
    }
    let (name, value) = match family {
        Provider::OpenAi => (AUTHORIZATION, format!("Bearer {key}")),
        Provider::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
        Provider::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
    };
    if let Ok(mut value) = HeaderValue::from_str(&value) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
}

/// A body that is at hand.
pub fn whole(body: Bytes) -> UpBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// The headers of a body that was written anew.
pub fn rewritten(headers: &mut HeaderMap) {
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    headers.remove("content-md5");
    headers.remove("digest");
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use epitome_runtime::model::Secret;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn what_belongs_to_a_connection_or_to_us_stays_here() {
        let upstream = Upstream {
            route: UpstreamRoute::Provider(Provider::OpenAi),
            url: "http://127.0.0.1:1".parse().unwrap(),
            key: None,
        };
        let client = HeaderMap::from_iter(
            [
                ("host", "h"),
                ("connection", "close, x-own"),
                ("x-z", "1"),
                ("x-own", "1"),
                ("x-epitome-pin", "p"),
                ("authorization", "Bearer k"),
                ("x-a", "b"),
            ]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
        );
        let names = |headers: HeaderMap| headers.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(headers(&upstream, &client, Provider::OpenAi)), ["x-z", "authorization", "x-a", "host"]);
    }

    #[test]
    fn an_upstreams_own_key_stands_where_its_provider_looks_for_it() {
        for (family, name, value) in [
            (Provider::OpenAi, "authorization", "Bearer own"),
            (Provider::Anthropic, "x-api-key", "own"),
            (Provider::Gemini, "x-goog-api-key", "own"),
        ] {
            let url = "http://127.0.0.1:1".parse().unwrap();
            let upstream = Upstream { route: UpstreamRoute::Provider(family), url, key: Some(Secret::new("own")) };
            let client = PROVIDER_KEY_HEADERS.map(|name| (name, HeaderValue::from_static("theirs")));
            let sent = headers(&upstream, &client.into_iter().collect(), family);
            let all: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            assert_eq!(all, [(name, value), ("host", "127.0.0.1:1")]);
        }
    }

    #[test]
    fn a_provider_is_addressed_without_its_usual_port() {
        for (url, expected) in [
            ("https://h.example/v1", "h.example"),
            ("https://h.example:443", "h.example"),
            ("https://h.example:80", "h.example:80"),
            ("http://h.example:80", "h.example"),
            ("http://u:p@h.example:8080", "h.example:8080"),
            ("http://u:p@h.example", "h.example"),
        ] {
            assert_eq!(host(&url.parse().unwrap()).unwrap(), expected, "{url}");
        }
    }

    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
    const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi";

    /// A provider that says this to every request and, where it is told so, hangs up after it. What it has heard, and
    /// `- N` for the end of a connection.
    async fn provider(words: &'static str, hangs_up: bool) -> (Upstream, Arc<Mutex<Vec<String>>>) {
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
        (upstream, heard)
    }

    async fn ask(upstreams: &Upstreams, upstream: &Upstream) -> Response<Incoming> {
        let mut request = Request::new(whole(Bytes::new()));
        *request.uri_mut() = "/v1/models".parse().unwrap();
        upstreams.send(upstream, request).await.unwrap()
    }

    /// Reads an answer to its end, and waits until its connection is back in the pool.
    async fn ask_and_read(upstreams: &Upstreams, upstream: &Upstream) -> Bytes {
        let answer = ask(upstreams, upstream).await.collect().await.unwrap().to_bytes();
        tokio::time::sleep(Duration::from_millis(50)).await;
        answer
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
        let (upstreams, (upstream, heard)) =
            (Upstreams::new(Vec::new(), &Serve::default()), provider(WHOLE, false).await);
        for _ in 0..3 {
            assert_eq!(ask_and_read(&upstreams, &upstream).await, "hi");
        }
        assert_eq!(connections(&heard), ['1', '1', '1']);
        let (upstream, heard) = provider(CUT, false).await;
        let two = [ask(&upstreams, &upstream).await, ask(&upstreams, &upstream).await];
        assert_eq!(connections(&heard), ['1', '2'], "two at once need two");
        drop(two);
    }

    #[tokio::test]
    async fn one_that_was_closed_or_left_in_the_middle_is_not_used_again() {
        let (upstreams, (upstream, heard)) =
            (Upstreams::new(Vec::new(), &Serve::default()), provider(WHOLE, true).await);
        for count in 1..=2 {
            ask(&upstreams, &upstream).await.collect().await.unwrap();
            closed(&heard, count).await;
        }
        assert_eq!(connections(&heard), ['1', '2']);
        let (upstream, heard) = provider(CUT, false).await;
        for count in 1..=2 {
            let mut answer = ask(&upstreams, &upstream).await;
            answer.frame().await.unwrap().unwrap();
            drop(answer);
            closed(&heard, count).await;
        }
        assert_eq!(connections(&heard), ['1', '2']);
    }
}
