//! What a gateway is told once: values, made of a configuration. Nothing here connects.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use epitome::budget::Tokens;
use epitome_runtime::config::{
    Config, Environment, Persist, Provider, Route, RoutedSecret, SecretError, SecretSource, Serve,
};
use epitome_runtime::ids::TenantId;
use epitome_runtime::model::{Secret, ServedModel};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Uri};

/// Where providers are that nobody named.
const PROVIDERS: [(Family, &str); 3] = [
    (Family::OpenAi, "https://api.openai.com"),
    (Family::Anthropic, "https://api.anthropic.com"),
    (Family::Gemini, "https://generativelanguage.googleapis.com"),
];

const MB: u64 = 1 << 20;
const KB: u64 = 1 << 10;

/// What a gateway is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who answers which request; the first that fits does.
    pub upstreams: Vec<Upstream>,
    /// The most tokens of a prompt, where that is less than the model's window.
    pub budget: Option<Tokens>,
    /// Whose requests get the gateway's own tools.
    pub tools: ToolRules,
    /// Who may use the gateway's own endpoints, and whose data they see; empty: whoever reaches it, as the one tenant.
    pub keys: Vec<ApiKey>,
    /// Whether a request without one of these keys is turned away, the proxied ones included.
    pub keys_required: bool,
    /// Whose data it is where no key says otherwise.
    pub tenant: TenantId,
    /// How much of anything it takes.
    pub limits: Limits,
    /// When what came with a request has to be in the store.
    pub persist: Persist,
    /// The certificate it shows; plain HTTP without one.
    pub tls: Option<TlsFiles>,
}

/// Why a configuration makes no gateway. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A secret cannot be had.
    #[error("`{key}`: {reason}")]
    Secret {
        /// The setting.
        key: &'static str,
        /// Why.
        reason: SecretError,
    },
    /// A key is for an upstream that there is not.
    #[error("`serve.upstream_keys` has a key for `{route}`, and `serve.upstreams` has no such upstream")]
    NoUpstream {
        /// As it was written.
        route: String,
    },
    /// Two upstreams are for the same requests.
    #[error("`serve.upstreams` has `{route}` twice; keep one of them")]
    Twice {
        /// As it was written.
        route: String,
    },
    /// An address cannot be used.
    #[error("`serve.upstreams`: {url} cannot be used as an address")]
    Address {
        /// As it was written.
        url: String,
    },
    /// There is a certificate without a key, or a key without a certificate.
    #[error("`{present}` is set and `{missing}` is not; a certificate needs both")]
    HalfTls {
        /// What there is.
        present: &'static str,
        /// What there is not.
        missing: &'static str,
    },
    /// Keys are required and there are none.
    #[error("`serve.keys_required` is set and `serve.keys` is empty; nobody could use the gateway")]
    NoKeys,
}

impl Default for Settings {
    fn default() -> Self {
        let upstream = |(family, url)| Upstream { takes: Takes::Family(family), url: Uri::from_static(url), key: None };
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 8788)),
            upstreams: PROVIDERS.map(upstream).into(),
            budget: None,
            tools: ToolRules::default(),
            keys: Vec::new(),
            keys_required: false,
            tenant: TenantId::local(),
            limits: Limits::default(),
            persist: Persist::default(),
            tls: None,
        }
    }
}

impl Settings {
    /// The settings that a configuration makes; secrets are read now.
    pub fn of(config: &Config, environment: &Environment) -> Result<Settings, SettingsError> {
        let serve = &config.serve;
        if serve.keys_required && serve.keys.is_empty() {
            return Err(SettingsError::NoKeys);
        }
        let keys = serve.keys.iter().map(|key| {
            let secret = revealed("serve.keys", &key.secret, environment)?;
            Ok(ApiKey { tenant: key.tenant.clone(), secret })
        });
        Ok(Settings {
            listen: serve.listen,
            upstreams: upstreams(serve, environment)?,
            budget: serve.budget,
            tools: tools(serve),
            keys: keys.collect::<Result<_, _>>()?,
            keys_required: serve.keys_required,
            tenant: config.tenant.id.clone(),
            limits: limits(serve),
            persist: serve.persist,
            tls: tls(serve)?,
        })
    }
}

/// The configured upstreams and the providers that nobody named; a path before a model, a model before a provider.
fn upstreams(serve: &Serve, environment: &Environment) -> Result<Vec<Upstream>, SettingsError> {
    let mut upstreams: Vec<Upstream> = Vec::new();
    for routed in &serve.upstreams {
        let takes = Takes::from(&routed.route);
        if upstreams.iter().any(|known| known.takes == takes) {
            return Err(SettingsError::Twice { route: routed.route.to_string() });
        }
        let url = routed.url.as_str();
        let url = url.parse().map_err(|_| SettingsError::Address { url: url.to_owned() })?;
        upstreams.push(Upstream { takes, url, key: None });
    }
    for (family, url) in PROVIDERS {
        let takes = Takes::Family(family);
        if !upstreams.iter().any(|known| known.takes == takes) {
            upstreams.push(Upstream { takes, url: Uri::from_static(url), key: None });
        }
    }
    for key in &serve.upstream_keys {
        give_key(&mut upstreams, key, environment)?;
    }
    upstreams.sort_by_key(|upstream| upstream.takes.rank());
    Ok(upstreams)
}

fn give_key(upstreams: &mut [Upstream], key: &RoutedSecret, environment: &Environment) -> Result<(), SettingsError> {
    let takes = Takes::from(&key.route);
    let upstream = upstreams.iter_mut().find(|upstream| upstream.takes == takes);
    let upstream = upstream.ok_or_else(|| SettingsError::NoUpstream { route: key.route.to_string() })?;
    upstream.key = Some(revealed("serve.upstream_keys", &key.secret, environment)?);
    Ok(())
}

fn revealed(key: &'static str, source: &SecretSource, environment: &Environment) -> Result<Secret, SettingsError> {
    let secret = source.reveal(environment).map_err(|reason| SettingsError::Secret { key, reason })?;
    Ok(Secret::new(&secret))
}

fn tools(serve: &Serve) -> ToolRules {
    let clients = serve.tools_for.iter().map(|rule| (rule.client.clone(), rule.switch.is_on()));
    ToolRules { others: serve.tools.is_on(), clients: clients.collect() }
}

fn tls(serve: &Serve) -> Result<Option<TlsFiles>, SettingsError> {
    let half = |present, missing| Err(SettingsError::HalfTls { present, missing });
    match (&serve.tls_certificate, &serve.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })),
        (Some(_), None) => half("serve.tls_certificate", "serve.tls_key"),
        (None, Some(_)) => half("serve.tls_key", "serve.tls_certificate"),
        (None, None) => Ok(None),
    }
}

fn limits(serve: &Serve) -> Limits {
    let bytes = |number: u64, unit: u64| usize::try_from(number * unit).unwrap_or(usize::MAX);
    Limits {
        body_bytes_max: bytes(serve.body_mb_max, MB),
        body_memory_bytes_max: bytes(serve.body_memory_mb_max, MB),
        head_bytes_max: bytes(serve.head_kb_max, KB),
        requests_max: bytes(serve.requests_max, 1),
        memory_bytes_max: bytes(serve.memory_mb_max, MB),
        head_timeout: Duration::from_secs(serve.head_timeout_s),
        body_timeout: Duration::from_secs(serve.body_timeout_s),
        connect_timeout: Duration::from_secs(serve.connect_timeout_s),
        first_byte_timeout: Duration::from_secs(serve.first_byte_timeout_s),
        idle_timeout: Duration::from_secs(serve.idle_timeout_s),
        store_patience: Duration::from_millis(serve.store_patience_ms),
        shutdown_grace: Duration::from_secs(serve.shutdown_grace_s),
    }
}

/// A provider.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Which requests it gets.
    pub takes: Takes,
    /// Its address: scheme, host, and a path that the request's own path comes behind.
    pub url: http::Uri,
    /// The key it is sent in the place of the client's own.
    pub key: Option<Secret>,
}

impl Upstream {
    /// A model of it, as a tenant reaches it.
    pub fn served(&self, tenant: &TenantId, model: &str) -> ServedModel {
        ServedModel::new(tenant.clone(), self.address(), model)
    }

    /// The address that it is known by: without a name or a password, and without a query.
    pub fn address(&self) -> String {
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{}://{host}{}", self.url.scheme_str().unwrap_or("http"), self.url.path().trim_end_matches('/'))
    }

    /// The path that this upstream knows a request by: its own path, and the request's behind it. A version that both
    /// have stands once: `/openai/v1` and `/v1/models` are `/openai/v1/models`.
    pub fn path_of(&self, request: &PathAndQuery) -> PathAndQuery {
        let base = self.url.path().trim_end_matches('/');
        let prefix = match &self.takes {
            Takes::Path(prefix) => prefix.as_str(),
            _ => "",
        };
        if base.is_empty() && prefix.is_empty() {
            return request.clone();
        }
        let rest = request.as_str();
        let rest = rest.strip_prefix(prefix).unwrap_or(rest);
        let rest = if has_version(base) { without_version(rest) } else { rest };
        let joined = format!("{base}{rest}");
        let joined = if joined.starts_with('/') { joined } else { format!("/{joined}") };
        PathAndQuery::try_from(joined).unwrap_or_else(|_| request.clone())
    }
}

fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a path names a version anywhere, as `/v1` and `/v1beta/openai` do.
fn has_version(path: &str) -> bool {
    path.split('/').any(is_version)
}

/// A path without the version that it begins with.
fn without_version(path: &str) -> &str {
    let first = path.strip_prefix('/').and_then(|rest| rest.split(['/', '?']).next());
    match first.filter(|first| is_version(first)) {
        Some(version) => &path[1 + version.len()..],
        None => path,
    }
}

/// Which requests an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Those under a path, which is taken off: `/groq`.
    Path(String),
    /// Those for models with such a name: `claude-*`.
    Model(String),
    /// Those that speak as this provider does.
    Family(Family),
}

impl Takes {
    /// Of several that fit, the lowest counts; of paths, the longest.
    fn rank(&self) -> (u8, std::cmp::Reverse<usize>) {
        match self {
            Takes::Path(path) => (0, std::cmp::Reverse(path.len())),
            // A name without a star is only that model's.
            Takes::Model(name) if !name.contains('*') => (1, std::cmp::Reverse(0)),
            Takes::Model(_) => (2, std::cmp::Reverse(0)),
            Takes::Family(_) => (3, std::cmp::Reverse(0)),
        }
    }

    /// Whether a request under this path is meant: `/groq` and `/groq/v1`, not `/groquet`.
    pub fn takes_path(&self, path: &str) -> bool {
        let Takes::Path(prefix) = self else { return false };
        path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether a request for this model is meant.
    pub fn takes_model(&self, model: &str) -> bool {
        matches!(self, Takes::Model(pattern) if fits(pattern, model))
    }
}

/// Whether a name is one that a pattern with stars stands for.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => {
            let Some(name) = name.strip_prefix(head) else { return false };
            (0..=name.len()).any(|at| name.is_char_boundary(at) && fits(rest, &name[at..]))
        }
    }
}

impl From<&Route> for Takes {
    fn from(route: &Route) -> Self {
        match route {
            Route::Path(path) => Takes::Path(path.clone()),
            Route::Model(model) => Takes::Model(model.clone()),
            Route::Provider(provider) => Takes::Family((*provider).into()),
        }
    }
}

/// Whose endpoints a path belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `/v1/chat/completions`, `/v1/responses`, and whatever is nobody else's.
    OpenAi,
    /// `/v1/messages`, and requests with an `anthropic-version`.
    Anthropic,
    /// `/v1beta/…`.
    Gemini,
}

impl Family {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Family::OpenAi => "openai",
            Family::Anthropic => "anthropic",
            Family::Gemini => "gemini",
        }
    }

    /// Whose endpoint a request is for.
    pub fn of(path: &str, headers: &HeaderMap) -> Self {
        const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
        const KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
        match () {
            () if path.contains("/v1/messages") || headers.contains_key(VERSION) => Family::Anthropic,
            () if path.contains("/v1beta/") || headers.contains_key(KEY) => Family::Gemini,
            () => Family::OpenAi,
        }
    }
}

impl From<Provider> for Family {
    fn from(provider: Provider) -> Self {
        match provider {
            Provider::OpenAi => Family::OpenAi,
            Provider::Anthropic => Family::Anthropic,
            Provider::Gemini => Family::Gemini,
        }
    }
}

/// Whose requests get the gateway's own tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Those of clients that are not named below.
    pub others: bool,
    /// Clients by name, such as `claude-code` or `codex`, and whether theirs do.
    pub clients: Vec<(String, bool)>,
}

impl ToolRules {
    /// Whether anybody gets them without asking.
    pub fn are_given(&self) -> bool {
        self.others || self.clients.iter().any(|(_, is_on)| *is_on)
    }
}

/// A key of the gateway's own.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Whose data it opens.
    pub tenant: TenantId,
    /// The key.
    pub secret: Secret,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, as PEM.
    pub certificate: PathBuf,
    /// The key, as PEM.
    pub key: PathBuf,
}

/// How much of anything a gateway takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body, as it comes and unpacked.
    pub body_bytes_max: usize,
    /// The most bytes of request bodies that are held at once, of all requests together.
    pub body_memory_bytes_max: usize,
    /// The most bytes of a request's head.
    pub head_bytes_max: usize,
    /// The most requests at once.
    pub requests_max: usize,
    /// The most bytes of threads that are kept at hand.
    pub memory_bytes_max: usize,
    /// How long a client may take for its head.
    pub head_timeout: Duration,
    /// How long a client may take between two pieces of its body.
    pub body_timeout: Duration,
    /// How long an upstream may take to connect.
    pub connect_timeout: Duration,
    /// How long an upstream may take for the head of its answer.
    pub first_byte_timeout: Duration,
    /// How long an upstream may take between two pieces of its answer.
    pub idle_timeout: Duration,
    /// How long the store may keep a request from going out.
    pub store_patience: Duration,
    /// How long streams may go on after the gateway was told to stop.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes_max: 64 << 20,
            body_memory_bytes_max: 1024 << 20,
            head_bytes_max: 64 << 10,
            requests_max: 4096,
            memory_bytes_max: 256 << 20,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(600),
            store_patience: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use epitome_runtime::config::Sources;

    use super::*;

    fn settings(flags: &[(&str, &str)]) -> Result<Settings, String> {
        let flags = [("store.url", "memory:")].iter().chain(flags);
        let flags = flags.map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        let sources = Sources { flags, folder: PathBuf::from("/no/such/folder"), ..Sources::default() };
        let config = Config::load(&sources).expect("a configuration").config;
        let environment = [("KEY".to_owned(), "sk-hidden".to_owned())].into();
        Settings::of(&config, &environment).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_word_it_listens_here_and_knows_three_providers() {
        let settings = settings(&[]).expect("settings");
        assert!(settings.listen.ip().is_loopback());
        let urls: Vec<String> = settings.upstreams.iter().map(|upstream| upstream.url.to_string()).collect();
        assert_eq!(urls, PROVIDERS.map(|(_, url)| format!("{url}/")));
        assert_eq!(settings.limits, Limits::default(), "the defaults stand in two places");
    }

    #[test]
    fn a_path_counts_before_a_model_and_a_model_before_a_provider() {
        let upstreams =
            "openai=http://o.test,claude-*=http://m.test,/a=http://a.test,gpt-5=http://e.test,/a/b=http://b.test";
        let settings = settings(&[("serve.upstreams", upstreams)]).expect("settings");
        let hosts: Vec<&str> = settings.upstreams.iter().filter_map(|upstream| upstream.url.host()).collect();
        let expected = ["b.test", "a.test", "e.test", "m.test", "o.test"];
        assert_eq!(hosts[..5], expected);
        assert_eq!(hosts[5..], ["api.anthropic.com", "generativelanguage.googleapis.com"]);
    }

    #[test]
    fn a_mistake_is_told_and_no_secret_is() {
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&[("serve.upstream_keys", "/grok=env:KEY")], "a key for `/grok`, and `serve.upstreams` has no such"),
            (&[("serve.upstreams", "/a=http://a.test,/a/=http://b.test")], "has `/a` twice"),
            (&[("serve.keys", "acme=env:NONE")], "`serve.keys`: the environment variable NONE"),
            (&[("serve.keys_required", "true")], "`serve.keys` is empty"),
            (&[("serve.tls_key", "k.pem")], "`serve.tls_certificate` is not"),
            (&[("serve.upstream_keys", "openai=env:NO")], "`serve.upstream_keys`: the environment variable NO"),
        ];
        for (flags, expected) in cases {
            let error = settings(flags).expect_err(expected);
            assert!(error.contains(expected) && !error.contains("sk-hidden"), "{error}");
        }
        let shown = format!("{:?}", settings(&[("serve.keys", "acme=env:KEY")]));
        assert!(!shown.contains("sk-hidden"), "{shown}");
    }

    #[test]
    fn a_version_stands_once_in_an_address_whoever_wrote_it() {
        let cases = [
            ("openai", "https://h", "/v1/models?a=b", "/v1/models?a=b"),
            ("openai", "https://h/v1/", "/v1/models", "/v1/models"),
            ("openai", "https://h/api", "/v1/models", "/api/v1/models"),
            ("/groq", "https://h/openai/v1", "/groq/v1/chat/completions", "/openai/v1/chat/completions"),
            ("/groq", "https://h/openai/v1", "/groq/chat/completions", "/openai/v1/chat/completions"),
            ("/groq", "https://h", "/groq/v1/models", "/v1/models"),
            ("/groq", "https://h", "/groq", "/"),
            ("/groq", "https://h", "/groq?a=b", "/?a=b"),
            ("/z", "https://h/api/paas/v4", "/z/v1/chat/completions", "/api/paas/v4/chat/completions"),
            ("/g", "https://h/v1beta/openai/", "/g/v1/models", "/v1beta/openai/models"),
            ("gemini", "https://h/v1beta", "/v1beta/models/m:countTokens", "/v1beta/models/m:countTokens"),
            ("anthropic", "https://h/v1", "/v1/messages?beta=true", "/v1/messages?beta=true"),
        ];
        for (route, url, request, expected) in cases {
            let settings = settings(&[("serve.upstreams", &format!("{route}={url}"))]).expect("settings");
            let upstream = settings.upstreams.iter().find(|upstream| upstream.url.host() == Some("h")).expect("one");
            let path = upstream.path_of(&request.parse().expect("a path"));
            assert_eq!(path.as_str(), expected, "{route}={url}");
        }
    }

    #[test]
    fn a_pattern_takes_the_models_it_stands_for() {
        let takes = |pattern: &str, name: &str| Takes::Model(pattern.to_owned()).takes_model(name);
        assert!(takes("claude-*", "claude-sonnet-4-5") && takes("*-mini", "gpt-5-mini") && takes("a*c*e", "abcde"));
        assert!(takes("gpt-5", "gpt-5") && !takes("gpt-5", "gpt-5-mini") && !takes("claude-*", "anthropic/claude-x"));
        let path = Takes::Path("/groq".to_owned());
        assert!(path.takes_path("/groq") && path.takes_path("/groq/v1") && !path.takes_path("/groquet"));
    }

    #[test]
    fn whose_endpoint_it_is_is_seen_from_its_path_or_its_headers() {
        let none = HeaderMap::new();
        let mut versioned = HeaderMap::new();
        versioned.insert("anthropic-version", http::HeaderValue::from_static("2023-06-01"));
        assert_eq!(Family::of("/v1/chat/completions", &none), Family::OpenAi);
        assert_eq!(Family::of("/v1/messages/count_tokens", &none), Family::Anthropic);
        assert_eq!(Family::of("/v1/models", &versioned), Family::Anthropic);
        assert_eq!(Family::of("/v1beta/models/g:generateContent", &none), Family::Gemini);
    }
}
