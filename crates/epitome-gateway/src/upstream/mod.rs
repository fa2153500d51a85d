//! Upstreams: which one answers a request, and how it is forwarded.
//!
//! Headers are forwarded unchanged, except those that belong to one connection, those for the gateway, and the key if the
//! upstream has its own.

mod pool;

pub use pool::PooledBody;

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
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use pool::Pool;

use crate::caller::PROVIDER_KEY_HEADERS;
use crate::proxy::wishes::is_ours;
use crate::refusal::Refusal;
use crate::serve::io_threads::{io_thread_count, io_thread_index};
use crate::settings::{Provider, Serve, Upstream, UpstreamRoute};

/// The body of a forwarded request: whole, or a stream.
pub type UpBody = UnsyncBoxBody<Bytes, hyper::Error>;

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
#[derive(Clone, Debug)]
pub struct Upstreams {
    list: Vec<Arc<Upstream>>,
    /// One for each I/O thread, and the first for all other threads: a connection is driven by the runtime that it was made on.
    pools: Vec<Pool>,
    first_byte: Duration,
}

impl Upstreams {
    /// The upstreams of the settings.
    pub fn new(list: Vec<Upstream>, serve: &Serve) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // One connector for all pools: each new one reads all root certificates of the system again.
        let connector = connector(serve);
        let pools = (0..=io_thread_count()).map(|_| Pool::new(connector.clone())).collect();
        let list = list.into_iter().map(Arc::new).collect();
        Upstreams { list, pools, first_byte: serve.first_byte_timeout_s.0 }
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
    pub async fn send(
        &self,
        upstream: &Arc<Upstream>,
        request: Request<UpBody>,
    ) -> Result<Response<PooledBody>, Refusal> {
        let host = || upstream.url.authority().map(ToString::to_string).unwrap_or_default();
        let sent = self.pools[io_thread_index().map_or(0, |index| index + 1)].send(upstream, request);
        match tokio::time::timeout(self.first_byte, sent).await {
            Err(_) => Err(Refusal::Timeout { host: host(), seconds: self.first_byte.as_secs() }),
            Ok(Err(error)) => Err(Refusal::Unreachable { host: host(), reason: reason(&*error) }),
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

fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        reason = format!("{reason}: {inner}");
        source = inner.source();
    }
    reason
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
    use epitome_runtime::model::Secret;

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
}
