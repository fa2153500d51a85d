//! Upstreams: who answers a request, and how it is sent on.
//!
//! Headers go through as they came, but for those that belong to one connection, those that are for the gateway, and the
//! key where the upstream has its own.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::caller::{KEY_HEADER, PROVIDER_KEY_HEADERS};
use crate::proxy::wishes::is_ours;
use crate::settings::{Family, Limits, Takes, Upstream};

/// What goes up: whole, or as it comes.
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

/// Sends requests on.
#[derive(Clone, Debug)]
pub struct Upstreams {
    list: Vec<Upstream>,
    client: Client<HttpsConnector<HttpConnector>, UpBody>,
    first_byte: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody is configured for it.
    #[error("no upstream is configured for this request; name one with --upstream or serve.upstreams")]
    Nobody,
    /// It cannot be reached.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// It did not answer in time.
    #[error("{host} did not answer within {} s", .within.as_secs())]
    Silent {
        /// Who.
        host: String,
        /// How long it was waited for.
        within: Duration,
    },
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    upstream: &'a Upstream,
    /// The request's path with what the upstream's own takes off it.
    path: String,
}

impl Upstreams {
    /// The upstreams of the settings.
    pub fn new(list: Vec<Upstream>, limits: &Limits) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(limits.connect_timeout));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_platform_verifier()
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(50))
            .http1_preserve_header_case(true)
            .http1_title_case_headers(false)
            .http1_max_buf_size(512 << 10)
            .build(https);
        Upstreams { list, client, first_byte: limits.first_byte_timeout }
    }

    /// Whether there is anybody.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Who answers: whoever takes the path, then the model, then the family.
    pub fn route(&self, path: &str, model: Option<&str>, family: Family) -> Option<Route<'_>> {
        let under = |upstream: &'_ Upstream| match &upstream.takes {
            Takes::Path(prefix) => {
                let rest = path.strip_prefix(prefix.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
            }
            _ => None,
        };
        let by_path = self.list.iter().find_map(|upstream| Some(Route { path: under(upstream)?, upstream }));
        let whole = |upstream| Route { upstream, path: path.to_owned() };
        let takes_model = |upstream: &&Upstream| matches!((&upstream.takes, model), (Takes::Model(pattern), Some(model)) if matches(pattern, model));
        let by_model = || self.list.iter().find(takes_model).map(whole);
        let takes_family = |upstream: &&Upstream| upstream.takes == Takes::Family(family);
        by_path.or_else(by_model).or_else(|| self.list.iter().find(takes_family).map(whole))
    }

    /// Sends a request.
    pub async fn send(&self, route: &Route<'_>, request: Request<UpBody>) -> Result<Response<Incoming>, NoAnswer> {
        let host = route.host();
        let sent = self.client.request(request);
        match tokio::time::timeout(self.first_byte, sent).await {
            Err(_) => Err(NoAnswer::Silent { host, within: self.first_byte }),
            Ok(Err(error)) => Err(NoAnswer::Unreachable { host, reason: reason(&error) }),
            Ok(Ok(response)) => Ok(response),
        }
    }
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

/// Whether a name is what a pattern says; `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut ends_open = !pattern.contains('*');
    let mut exact = ends_open;
    for piece in pieces {
        exact = false;
        ends_open = piece.is_empty();
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    if exact { rest.is_empty() } else { ends_open || rest.is_empty() || name.ends_with(pattern.rsplit('*').next().unwrap_or_default()) }
}

impl Route<'_> {
    fn host(&self) -> String {
        self.upstream.url.authority().map_or_else(String::new, Authority::to_string)
    }

    /// The address of the request there.
    pub fn uri(&self, query: Option<&str>) -> Option<Uri> {
        let url = &self.upstream.url;
        let base = url.path().trim_end_matches('/');
        // Many write an address with the version that the path has as well.
        let version = base.rsplit_once('/').map(|(_, last)| format!("/{last}"));
        let twice = version.as_deref().filter(|version| matches!(*version, "/v1" | "/v1beta"));
        let path = match twice {
            Some(version) if self.path == version || self.path.starts_with(&format!("{version}/")) => &self.path[version.len()..],
            _ => &self.path,
        };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Uri::builder()
            .scheme(url.scheme().cloned().unwrap_or(Scheme::HTTPS))
            .authority(url.authority()?.clone())
            .path_and_query(format!("{base}{path}{query}"))
            .build()
            .ok()
    }

    /// The headers that go up: the client's, less what is not the provider's.
    pub fn headers(&self, client: &HeaderMap, replaces_key: bool) -> HeaderMap {
        let mut headers = client.clone();
        without_connection(&mut headers);
        let ours: Vec<HeaderName> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
        ours.iter().for_each(|name| drop(headers.remove(name)));
        headers.remove(HOST);
        headers.remove(&KEY_HEADER);
        match &self.upstream.key {
            Some(key) => put_key(&mut headers, key.reveal()),
            None if replaces_key => PROVIDER_KEY_HEADERS.iter().for_each(|name| drop(headers.remove(name))),
            None => {}
        }
        headers
    }
}

/// Removes what belongs to one connection, and what the connection names besides.
pub fn without_connection(headers: &mut HeaderMap) {
    if let Some(named) = headers.get(CONNECTION).and_then(|value| value.to_str().ok()).map(str::to_owned) {
        for name in named.split(',').filter_map(|name| name.trim().parse::<HeaderName>().ok()) {
            headers.remove(name);
        }
    }
    for name in &OF_A_CONNECTION {
        headers.remove(name);
    }
}

/// Puts the upstream's own key where the client's was; as a bearer where there was none.
fn put_key(headers: &mut HeaderMap, key: &str) {
    let had: Vec<&HeaderName> = PROVIDER_KEY_HEADERS.iter().filter(|name| headers.contains_key(*name)).collect();
    for name in &had {
        headers.remove(*name);
    }
    let name = had.first().copied().unwrap_or(&AUTHORIZATION);
    let value = if *name == AUTHORIZATION { format!("Bearer {key}") } else { key.to_owned() };
    if let Ok(mut value) = HeaderValue::from_str(&value) {
        value.set_sensitive(true);
        headers.insert(name.clone(), value);
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
    use super::*;

    fn upstream(takes: Takes, url: &str) -> Upstream {
        Upstream { takes, url: url.parse().unwrap(), key: None }
    }

    #[test]
    fn a_request_goes_by_path_then_by_model_then_by_family() {
        let list = vec![
            upstream(Takes::Family(Family::OpenAi), "https://api.openai.com"),
            upstream(Takes::Family(Family::Anthropic), "https://api.anthropic.com"),
            upstream(Takes::Model("llama-*".into()), "http://127.0.0.1:1/v1"),
            upstream(Takes::Path("/groq".into()), "https://api.groq.com/openai/v1"),
        ];
        let upstreams = Upstreams::new(list, &Limits::default());
        for (path, model, family, wanted) in [
            ("/v1/chat/completions", Some("gpt-5"), Family::OpenAi, "https://api.openai.com/v1/chat/completions"),
            ("/v1/messages", Some("claude"), Family::Anthropic, "https://api.anthropic.com/v1/messages"),
            ("/v1/messages", Some("llama-3"), Family::Anthropic, "http://127.0.0.1:1/v1/messages"),
            ("/groq/v1/models", None, Family::OpenAi, "https://api.groq.com/openai/v1/models"),
            ("/groqs/v1/models", None, Family::OpenAi, "https://api.openai.com/groqs/v1/models"),
        ] {
            let route = upstreams.route(path, model, family).unwrap();
            assert_eq!(route.uri(None).unwrap().to_string(), wanted, "{path}");
        }
        assert!(upstreams.route("/v1beta/models", None, Family::Gemini).is_none());
    }

    #[test]
    fn patterns_match_names() {
        for (pattern, name, is) in [
            ("claude-*", "claude-opus", true),
            ("claude-*", "my-claude-opus", false),
            ("*claude*", "my-claude-opus", true),
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("*-mini", "gpt-5-mini", true),
            ("*-mini", "gpt-5-mini-x", false),
            ("*", "anything", true),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn what_belongs_to_a_connection_or_to_us_stays_here() {
        let upstreams = Upstreams::new(vec![upstream(Takes::Family(Family::OpenAi), "http://127.0.0.1:1")], &Limits::default());
        let client = HeaderMap::from_iter(
            [("connection", "close, x-own"), ("x-own", "1"), ("x-epitome-pin", "p"), ("authorization", "Bearer k"), ("x-a", "b")]
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
        );
        let route = upstreams.route("/v1/models", None, Family::OpenAi).unwrap();
        let names = |headers: HeaderMap| headers.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(route.headers(&client, false)), ["authorization", "x-a"]);
        assert_eq!(names(route.headers(&client, true)), ["x-a"]);
    }
}
