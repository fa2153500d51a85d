//! What a gateway is told: which provider answers which requests, whose key opens what, and who gets its tools.
//!
//! Each is written as `NAME=VALUE` in a list. A name that could be a misspelled provider is refused, not taken for a model.

use std::fmt;
use std::net::SocketAddr;

use super::address::HttpUrl;
use super::secret::{HIDDEN, SecretSource};
use super::setting::{Frame, Given, Setting, Shape, either};
use crate::ids::TenantId;

/// The first parts of paths that a gateway answers itself.
pub const OWN_PATHS: [&str; 6] = ["api", "health", "livez", "mcp", "metrics", "readyz"];

/// Whose endpoints a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI, and whoever speaks as it does.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Gemini.
    Gemini,
}

impl Provider {
    /// All of them.
    pub const ALL: [Provider; 3] = [Provider::OpenAi, Provider::Anthropic, Provider::Gemini];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Provider::OpenAi => "openai",
            Provider::Anthropic => "anthropic",
            Provider::Gemini => "gemini",
        }
    }
}

/// Which requests are meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Those for a provider's endpoints.
    Provider(Provider),
    /// Those under a path: `/groq`.
    Path(String),
    /// Those for models of such a name: `claude-*`.
    Model(String),
}

impl Route {
    /// What is allowed in its place.
    const ALLOWED: &str = "openai, anthropic, gemini, a path such as /groq, or a model such as gpt-5 or claude-*";

    fn parse(text: &str) -> Option<Self> {
        let provider = Provider::ALL.into_iter().find(|provider| provider.name() == text);
        match (provider, text.strip_prefix('/')) {
            (Some(provider), _) => Some(Route::Provider(provider)),
            (None, Some(_)) => path(text).map(Route::Path),
            (None, None) => is_model(text).then(|| Route::Model(text.to_owned())),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Provider(provider) => f.write_str(provider.name()),
            Route::Path(text) | Route::Model(text) => f.write_str(text),
        }
    }
}

/// A path without a slash at its end that is not the gateway's own.
fn path(text: &str) -> Option<String> {
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

/// A provider's address, and which requests go there: `/groq=https://api.groq.com/openai/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedUrl {
    /// Which requests.
    pub route: Route,
    /// Where they go.
    pub url: HttpUrl,
}

impl Setting for RoutedUrl {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = true;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        let (route, url) = named(given)?;
        Some(RoutedUrl { route: Route::parse(route)?, url: HttpUrl::read(&Given::Text(url.to_owned()), frame)? })
    }

    fn written(given: &Given) -> String {
        HttpUrl::written(given)
    }

    fn allowed(frame: &Frame<'_>) -> String {
        format!("WHAT=URL, where WHAT is {}, and URL {}", Route::ALLOWED, HttpUrl::allowed(frame))
    }

    fn shown(&self) -> String {
        format!("{}={}", self.route, self.url.as_str())
    }
}

/// The key of the provider that requests go to: `/groq=env:GROQ_API_KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedSecret {
    /// Which requests.
    pub route: Route,
    /// Where the key is.
    pub secret: SecretSource,
}

impl Setting for RoutedSecret {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = true;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        let (route, secret) = named(given)?;
        Some(RoutedSecret { route: Route::parse(route)?, secret: secret_in(secret, frame)? })
    }

    fn written(_: &Given) -> String {
        HIDDEN.to_owned()
    }

    fn allowed(frame: &Frame<'_>) -> String {
        format!("WHAT=SECRET, where WHAT is {}, and SECRET {}", Route::ALLOWED, SecretSource::allowed(frame))
    }

    fn shown(&self) -> String {
        format!("{}={}", self.route, self.secret)
    }
}

/// A key of the gateway's own, and whose data it opens: `acme=env:ACME_KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSecret {
    /// Whose data.
    pub tenant: TenantId,
    /// Where the key is.
    pub secret: SecretSource,
}

impl Setting for TenantSecret {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = true;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        let (tenant, secret) = named(given)?;
        Some(TenantSecret { tenant: tenant.parse().ok()?, secret: secret_in(secret, frame)? })
    }

    fn written(_: &Given) -> String {
        HIDDEN.to_owned()
    }

    fn allowed(frame: &Frame<'_>) -> String {
        format!("TENANT=SECRET, where SECRET is {}", SecretSource::allowed(frame))
    }

    fn shown(&self) -> String {
        format!("{}={}", self.tenant, self.secret)
    }
}

/// Whether something is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// It is not.
    Off,
    /// It is.
    On,
}

impl Switch {
    const ALL: [Switch; 2] = [Switch::Off, Switch::On];

    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }

    fn name(self) -> &'static str {
        match self {
            Switch::Off => "off",
            Switch::On => "on",
        }
    }
}

impl Setting for Switch {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = false;

    fn read(given: &Given, _: &Frame<'_>) -> Option<Self> {
        let Given::Text(text) = given else { return None };
        Switch::ALL.into_iter().find(|switch| switch.name() == text)
    }

    fn allowed(_: &Frame<'_>) -> String {
        either(Switch::ALL.map(Switch::name))
    }

    fn shown(&self) -> String {
        self.name().to_owned()
    }
}

/// Whether one client's requests get the gateway's tools: `claude-code=on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSwitch {
    /// The client's name.
    pub client: String,
    /// Whether they do.
    pub switch: Switch,
}

impl Setting for ClientSwitch {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = false;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        let (client, switch) = named(given)?;
        Some(ClientSwitch { client: client.to_owned(), switch: Switch::read(&Given::Text(switch.to_owned()), frame)? })
    }

    fn allowed(_: &Frame<'_>) -> String {
        "CLIENT=on or CLIENT=off".to_owned()
    }

    fn shown(&self) -> String {
        format!("{}={}", self.client, self.switch.name())
    }
}

/// How a program that runs for long tells what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// In lines for people.
    Text,
    /// As one JSON object a line.
    Json,
}

impl LogFormat {
    const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

impl Setting for LogFormat {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = false;

    fn read(given: &Given, _: &Frame<'_>) -> Option<Self> {
        let Given::Text(text) = given else { return None };
        LogFormat::ALL.into_iter().find(|format| format.name() == text)
    }

    fn allowed(_: &Frame<'_>) -> String {
        either(LogFormat::ALL.map(LogFormat::name))
    }

    fn shown(&self) -> String {
        self.name().to_owned()
    }
}

/// When what came with a request has to be in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persist {
    /// Before the last byte of its answer goes to the client: what a client has an answer to survives the process.
    #[default]
    BeforeAnswer,
    /// Soon after: the answer waits for nothing, and what came within the last moments is lost with the process.
    AfterAnswer,
}

impl Persist {
    const ALL: [Persist; 2] = [Persist::BeforeAnswer, Persist::AfterAnswer];

    fn name(self) -> &'static str {
        match self {
            Persist::BeforeAnswer => "before-answer",
            Persist::AfterAnswer => "after-answer",
        }
    }
}

impl Setting for Persist {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = false;

    fn read(given: &Given, _: &Frame<'_>) -> Option<Self> {
        let Given::Text(text) = given else { return None };
        Persist::ALL.into_iter().find(|persist| persist.name() == text)
    }

    fn allowed(_: &Frame<'_>) -> String {
        either(Persist::ALL.map(Persist::name))
    }

    fn shown(&self) -> String {
        self.name().to_owned()
    }
}

impl Setting for SocketAddr {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = true;

    fn read(given: &Given, _: &Frame<'_>) -> Option<Self> {
        let Given::Text(text) = given else { return None };
        text.replace("localhost:", "127.0.0.1:").parse().ok()
    }

    fn allowed(_: &Frame<'_>) -> String {
        "an IP address and a port, such as 127.0.0.1:8788 or [::1]:8788".to_owned()
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// A name and what is behind its equals sign.
fn named(given: &Given) -> Option<(&str, &str)> {
    let Given::Text(text) = given else { return None };
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

fn secret_in(text: &str, frame: &Frame<'_>) -> Option<SecretSource> {
    SecretSource::read(&Given::Text(text.to_owned()), frame)
}
