//! The values of the `serve` section that are the gateway's own: routes, keys for routes and tenants, switches.
//!
//! Most are written as `NAME=VALUE` in a list. A name that could be a misspelled provider is refused, not taken for a model.

use std::cmp::Reverse;
use std::fmt;

use epitome_runtime::config::{HIDDEN, HttpUrl, ReadContext, SecretSource, Setting, WrittenValue};
use epitome_runtime::ids::TenantId;
use epitome_runtime::{named_enum, setting_by_name};
use http::{HeaderMap, HeaderName, Uri};

/// The first parts of paths that a gateway answers itself.
pub(crate) const OWN_PATHS: [&str; 6] = ["api", "health", "livez", "mcp", "metrics", "readyz"];

named_enum! {
    /// A provider whose endpoints and errors the gateway knows.
    pub enum Provider {
        /// `/v1/chat/completions`, `/v1/responses`, and every path that is no other provider's.
        OpenAi = "openai",
        /// `/v1/messages`, and requests with an `anthropic-version`.
        Anthropic = "anthropic",
        /// `/v1beta/…`.
        Gemini = "gemini",
    }
}

impl Provider {
    /// Returns the provider whose endpoint a request is for.
    pub fn of(path: &str, headers: &HeaderMap) -> Self {
        const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
        const KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
        if path.contains("/v1/messages") || headers.contains_key(VERSION) {
            Provider::Anthropic
        } else if path.contains("/v1beta/") || headers.contains_key(KEY) {
            Provider::Gemini
        } else {
            Provider::OpenAi
        }
    }

    /// Its address, where no other one is configured.
    pub(crate) fn address(self) -> Uri {
        Uri::from_static(match self {
            Provider::OpenAi => "https://api.openai.com",
            Provider::Anthropic => "https://api.anthropic.com",
            Provider::Gemini => "https://generativelanguage.googleapis.com",
        })
    }
}

/// The requests that an upstream answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamRoute {
    /// Those under a path, which is taken off: `/groq`.
    Path(String),
    /// Those for models whose name fits: `claude-*`.
    Model(String),
    /// Those for a provider's endpoints.
    Provider(Provider),
}

impl UpstreamRoute {
    const ALLOWED: &str = "openai, anthropic, gemini, a path such as /groq, or a model such as gpt-5 or claude-*";

    fn parse(text: &str) -> Option<Self> {
        if let Some(provider) = Provider::from_name(text) {
            return Some(UpstreamRoute::Provider(provider));
        }
        if text.starts_with('/') {
            foreign_path(text).map(UpstreamRoute::Path)
        } else {
            is_model(text).then(|| UpstreamRoute::Model(text.to_owned()))
        }
    }

    /// Sorts the routes that fit one request: a path before a model before a provider, and the longest path first.
    pub(super) fn rank(&self) -> (u8, Reverse<usize>) {
        match self {
            UpstreamRoute::Path(path) => (0, Reverse(path.len())),
            UpstreamRoute::Model(name) if !name.contains('*') => (1, Reverse(0)),
            UpstreamRoute::Model(_) => (2, Reverse(0)),
            UpstreamRoute::Provider(_) => (3, Reverse(0)),
        }
    }

    /// True for a request under its path: of `/groq`, `/groq` and `/groq/v1` are, `/groquet` is not.
    pub fn matches_path(&self, path: &str) -> bool {
        let UpstreamRoute::Path(prefix) = self else { return false };
        path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// True for a request for one of its models.
    pub fn matches_model(&self, model: &str) -> bool {
        matches!(self, UpstreamRoute::Model(pattern) if matches_pattern(pattern, model))
    }
}

impl fmt::Display for UpstreamRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            UpstreamRoute::Provider(provider) => provider.name(),
            UpstreamRoute::Path(text) | UpstreamRoute::Model(text) => text,
        })
    }
}

/// A star stands for any text, also for none.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(head) else { return false };
    (0..=name.len()).any(|at| name.is_char_boundary(at) && matches_pattern(rest, &name[at..]))
}

/// A path without a slash at its end that is not the gateway's own.
fn foreign_path(text: &str) -> Option<String> {
    let path = text.trim_end_matches('/');
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    let parts = || path.split('/').skip(1);
    let is_path = parts().count() > 0 && parts().all(|part| !part.is_empty() && part.chars().all(fine));
    let is_own = parts().next().is_some_and(|part| OWN_PATHS.contains(&part));
    (is_path && !is_own && parts().all(|part| part != "." && part != "..")).then(|| path.to_owned())
}

/// A model's name has something that no provider's has: a digit, a star or a mark. So a misspelled provider is none.
fn is_model(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._:/@*".contains(c);
    !text.is_empty() && text.chars().all(fine) && text.contains(|c: char| !c.is_ascii_alphabetic())
}

/// An upstream's address, and the requests that go there: `/groq=https://api.groq.com/openai/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedUrl {
    /// The requests.
    pub route: UpstreamRoute,
    /// Where they go.
    pub url: Uri,
}

impl Setting for RoutedUrl {
    const REACHES_OUT: bool = true;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let (route, url) = written.name_and_value()?;
        let url = HttpUrl::read(&url, context)?.as_str().parse().ok()?;
        Some(RoutedUrl { route: UpstreamRoute::parse(route)?, url })
    }

    fn quoted(written: &WrittenValue) -> String {
        HttpUrl::quoted(written)
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        format!("WHAT=URL, where WHAT is {}, and URL {}", UpstreamRoute::ALLOWED, HttpUrl::allowed(context))
    }

    fn show(&self) -> String {
        format!("{}={}", self.route, self.url.to_string().trim_end_matches('/'))
    }
}

/// The key that an upstream is sent: `/groq=env:GROQ_API_KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedSecret {
    /// The upstream, by its requests.
    pub route: UpstreamRoute,
    /// Where the key is.
    pub secret: SecretSource,
}

impl Setting for RoutedSecret {
    const REACHES_OUT: bool = true;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let (route, secret) = written.name_and_value()?;
        Some(RoutedSecret { route: UpstreamRoute::parse(route)?, secret: SecretSource::read(&secret, context)? })
    }

    fn quoted(_: &WrittenValue) -> String {
        HIDDEN.to_owned()
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        format!("WHAT=SECRET, where WHAT is {}, and SECRET {}", UpstreamRoute::ALLOWED, SecretSource::allowed(context))
    }

    fn show(&self) -> String {
        format!("{}={}", self.route, self.secret)
    }
}

/// A key of the gateway's own, and whose data it opens: `acme=env:ACME_KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSecret {
    /// The tenant.
    pub tenant: TenantId,
    /// Where the key is.
    pub secret: SecretSource,
}

impl Setting for TenantSecret {
    const REACHES_OUT: bool = true;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let (tenant, secret) = written.name_and_value()?;
        Some(TenantSecret { tenant: tenant.parse().ok()?, secret: SecretSource::read(&secret, context)? })
    }

    fn quoted(_: &WrittenValue) -> String {
        HIDDEN.to_owned()
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        format!("TENANT=SECRET, where SECRET is {}", SecretSource::allowed(context))
    }

    fn show(&self) -> String {
        format!("{}={}", self.tenant, self.secret)
    }
}

named_enum! {
    /// On or off.
    pub enum Switch {
        /// Off.
        Off = "off",
        /// On.
        On = "on",
    }
}

named_enum! {
    /// The format of the gateway's log.
    pub enum LogFormat {
        /// Lines for people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

named_enum! {
    /// When the messages of a request have to be in the store.
    pub enum Persist {
        /// Before the last byte of its answer goes to the client: what a client has an answer to survives the process.
        BeforeAnswer = "before-answer",
        /// Soon after: the answer waits for nothing, and messages of the last moments are lost with the process.
        AfterAnswer = "after-answer",
    }
}

setting_by_name!(Switch, LogFormat, Persist);

/// A switch for the gateway's tools for one client: `claude-code=on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSwitch {
    /// The client's name.
    pub client: String,
    /// On or off.
    pub switch: Switch,
}

impl Setting for ClientSwitch {
    const REACHES_OUT: bool = false;
    const ALLOWED: &str = "CLIENT=on or CLIENT=off";

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let (client, switch) = written.name_and_value()?;
        Some(ClientSwitch { client: client.to_owned(), switch: Switch::read(&switch, context)? })
    }

    fn show(&self) -> String {
        format!("{}={}", self.client, self.switch.name())
    }
}
