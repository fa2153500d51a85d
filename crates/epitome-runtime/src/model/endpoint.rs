//! An endpoint: where a model is, who asks, and how long one waits for it. Plain data; nothing here connects.

use std::fmt;
use std::time::Duration;

use epitome::wire::Dialect;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::breaker::BreakerSettings;
use super::protocol::{ANTHROPIC_VERSION, Protocol, address_of};
use super::retry::Retry;
use super::secret::Secret;

/// The address of a model and the way to call it.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's address, with or without `/v1`.
    pub base_url: String,
    /// The dialect it is spoken to in.
    pub dialect: Dialect,
    /// The model's id, as its provider spells it.
    pub model: String,
    /// The key, where one is needed.
    pub key: Option<Secret>,
    /// Headers to send besides. One of the same name takes the place of ours.
    pub headers: Vec<(String, Secret)>,
    /// The timeouts of a call.
    pub timeouts: Timeouts,
    /// The retries of a call.
    pub retry: Retry,
    /// When it is left alone.
    pub trip: BreakerSettings,
}

/// The timeouts of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection.
    pub connect: Duration,
    /// For the first byte of a stream. An answer that comes whole has only the last bound.
    pub first_byte: Duration,
    /// Between two pieces of a stream.
    pub idle: Duration,
    /// For the whole answer, from the request on.
    pub whole: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(120),
            whole: Duration::from_secs(600),
        }
    }
}

/// An endpoint that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Its address is none.
    #[error("the base URL of the model is not an address: {0}; write it like https://api.example.com/v1")]
    Address(String),
    /// Its address has a name or a password in it.
    #[error("the base URL of the model has a name or a password in it; give a key or a header instead")]
    Credentials,
    /// Nobody speaks its dialect.
    #[error("no provider speaks {0}; use chat, responses or anthropic")]
    Dialect(Dialect),
    /// A header cannot be sent.
    #[error("the header {0:?} cannot be sent: its name or its value has a character that headers cannot have")]
    Header(String),
    /// There is no client for it.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

impl Endpoint {
    /// An endpoint without a key, with ordinary patience.
    pub fn new(base_url: &str, dialect: Dialect, model: &str) -> Self {
        Endpoint {
            base_url: base_url.to_owned(),
            dialect,
            model: model.to_owned(),
            key: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            trip: BreakerSettings::default(),
        }
    }

    pub(super) fn protocol(&self) -> Result<Protocol, EndpointError> {
        Protocol::of(self.dialect).ok_or(EndpointError::Dialect(self.dialect))
    }

    pub(super) fn address(&self) -> Result<Url, EndpointError> {
        Ok(self.protocol()?.address(&self.base()?))
    }

    /// The address of embeddings.
    pub(super) fn embeddings_address(&self) -> Result<Url, EndpointError> {
        Ok(address_of(&self.base()?, "/embeddings"))
    }

    /// The provider's address without a query: what the provider is known by.
    pub(super) fn upstream(&self) -> Result<String, EndpointError> {
        let base = self.base()?;
        Ok(format!("{}{}", base.origin().ascii_serialization(), base.path().trim_end_matches('/')))
    }

    fn base(&self) -> Result<Url, EndpointError> {
        let address = EndpointError::Address;
        let base: Url = self.base_url.trim().parse().map_err(|error| address(format!("{error}")))?;
        match () {
            () if !matches!(base.scheme(), "http" | "https") => Err(address("it is neither http nor https".into())),
            () if !base.username().is_empty() || base.password().is_some() => Err(EndpointError::Credentials),
            () => Ok(base),
        }
    }

    /// All headers of a request.
    pub(super) fn header_map(&self) -> Result<HeaderMap, EndpointError> {
        let protocol = self.protocol()?;
        let mut map = HeaderMap::new();
        add(&mut map, "content-type", "application/json")?;
        if protocol == Protocol::Anthropic {
            add(&mut map, "anthropic-version", ANTHROPIC_VERSION)?;
        }
        if let Some((name, value)) = self.key.as_ref().map(|key| protocol.key_header(key)) {
            add(&mut map, name, &value)?;
        }
        for (name, value) in &self.headers {
            add(&mut map, name, value.reveal())?;
        }
        Ok(map)
    }

    /// Everything that must not be seen.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.key
            .iter()
            .chain(self.headers.iter().map(|(_, value)| value).filter(|value| value.reveal().len() >= SECRET_MIN))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { base_url, dialect, model, key, headers, timeouts, retry, trip } = self;
        f.debug_struct("Endpoint")
            .field("base_url", &host_and_path(base_url))
            .field("dialect", dialect)
            .field("model", model)
            .field("key", key)
            .field("headers", headers)
            .field("timeouts", timeouts)
            .field("retry", retry)
            .field("trip", trip)
            .finish()
    }
}

/// Returns the part of an address that may be shown: some carry a key in their query or before their host.
fn host_and_path(url: &str) -> &str {
    let address = url.split(['?', '#']).next().unwrap_or_default();
    address.rsplit('@').next().unwrap_or_default()
}

/// Header values shorter than this are flags, and striking them would spoil ordinary words.
const SECRET_MIN: usize = 8;

fn add(map: &mut HeaderMap, name: &str, value: &str) -> Result<(), EndpointError> {
    let wrong = || EndpointError::Header(name.to_owned());
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
    value.set_sensitive(true);
    map.insert(key, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_endpoint_is_told_before_anything_is_sent_and_without_its_secrets() {
        let with = |change: fn(&mut Endpoint)| {
            let mut endpoint = Endpoint::new("http://127.0.0.1:1", Dialect::Chat, "m");
            change(&mut endpoint);
            endpoint.address().map(drop).and_then(|()| endpoint.header_map().map(drop)).unwrap_err().to_string()
        };
        let errors = [
            (with(|own| own.base_url = "sk-hidden".into()), "not an address"),
            (with(|own| own.base_url = "ftp://h".into()), "neither http nor https"),
            (with(|own| own.base_url = "http://me:sk-hidden@h".into()), "a name or a password"),
            (with(|own| own.dialect = Dialect::AiSdk), "no provider speaks ai-sdk"),
            (with(|own| own.key = Some(Secret::new("sk-hidden\nx"))), "\"authorization\" cannot be sent"),
            (with(|own| own.headers.push(("a b".into(), "sk-hidden".into()))), "\"a b\" cannot be sent"),
        ];
        for (error, words) in errors {
            assert!(error.contains(words) && !error.contains("sk-hidden"), "{error}");
        }
    }

    #[test]
    fn a_header_of_the_caller_takes_the_place_of_ours() {
        let mut endpoint = Endpoint::new("http://h", Dialect::Anthropic, "m");
        endpoint.key = Some("sk-hidden".into());
        endpoint.headers.push(("anthropic-version".into(), "2030-01-01".into()));
        let map = endpoint.header_map().unwrap();
        assert_eq!(map["anthropic-version"], "2030-01-01");
        assert_eq!(map["x-api-key"], "sk-hidden");
        endpoint.base_url = "https://me:sk-hidden@host/v1?key=sk-hidden".into();
        let seen = format!("{map:?} {endpoint:?}");
        assert!(!seen.contains("sk-hidden") && seen.contains("host/v1"), "{seen}");
    }
}
