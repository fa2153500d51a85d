//! A request before its body is read: head, bytes, endpoint and key.
//!
//! Reading it undoes the body's encoding, and rejects what no endpoint accepts: no key, too large, not JSON.

use std::io::Read;

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use serde_json::Value;

use super::endpoint::{MockEndpoint, ProviderProtocol};
use super::record::RecordedRequest;
use super::rejection::ProviderRejection;
use super::request::{AnswerSeed, MockRequest};

/// A request whose body has not been parsed.
pub(crate) struct IncomingRequest {
    pub(crate) head: Parts,
    /// `None` if it was larger than the limit or broke off.
    body: Option<Bytes>,
    pub(crate) endpoint: MockEndpoint,
    pub(crate) key: Option<String>,
    pub(crate) seed: AnswerSeed,
}

impl IncomingRequest {
    /// Finds endpoint, key and seed of a request.
    pub(crate) fn of(head: Parts, body: Option<Bytes>) -> IncomingRequest {
        let speaks_anthropic = head.headers.contains_key("anthropic-version");
        let endpoint = MockEndpoint::at(head.method.as_str(), head.uri.path(), speaks_anthropic);
        let key = key_of(&head.headers, head.uri.query().unwrap_or_default());
        let seed = AnswerSeed::of(key.as_deref().unwrap_or_default(), body.as_deref().unwrap_or_default());
        IncomingRequest { head, body, endpoint, key, seed }
    }

    /// Returns its path, with the query.
    pub(crate) fn path(&self) -> &str {
        self.head.uri.path_and_query().map_or("/", |path| path.as_str())
    }

    /// Returns its body as it was sent.
    pub(crate) fn bytes(&self) -> Bytes {
        self.body.clone().unwrap_or_default()
    }

    /// Returns the header that carries the request id, named as the protocol names it.
    pub(crate) fn request_id(&self) -> (&'static str, String) {
        let name = if self.endpoint.protocol() == ProviderProtocol::Anthropic { "request-id" } else { "x-request-id" };
        (name, self.seed.id("req_", 0, 24))
    }

    /// Returns the record that tests read it from.
    pub(crate) fn recorded(&self, status: u16, prompt_tokens: Option<u64>) -> RecordedRequest {
        RecordedRequest {
            method: self.head.method.clone(),
            path: self.path().to_owned(),
            headers: self.head.headers.clone(),
            body: self.bytes(),
            status,
            prompt_tokens,
        }
    }

    /// Parses it, or returns the rejection a provider would send.
    pub(crate) fn open(&self, bytes_max: usize) -> Result<MockRequest, ProviderRejection> {
        let protocol = self.endpoint.protocol();
        if let MockEndpoint::Unknown(protocol) = self.endpoint {
            return Err(not_found(protocol, &self.head));
        }
        let key = self.key.clone().ok_or_else(|| no_key(protocol))?;
        let packed = self.body.as_ref().ok_or_else(too_large)?;
        if protocol == ProviderProtocol::Anthropic && !self.head.headers.contains_key("anthropic-version") {
            return Err(ProviderRejection::invalid("anthropic-version: header is required").breaking("header"));
        }
        let bytes = unpacked(&self.head.headers, packed, bytes_max)?;
        if bytes.len() > bytes_max {
            return Err(too_large());
        }
        let body = match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes).map_err(|error| not_json(protocol, &error))?,
        };
        let (endpoint, headers) = (self.endpoint.clone(), self.head.headers.clone());
        Ok(MockRequest { endpoint, headers, key, body, seed: self.seed })
    }
}

/// Finds the API key in the headers or in the query.
fn key_of(headers: &HeaderMap, query: &str) -> Option<String> {
    let named = ["x-api-key", "x-goog-api-key", "api-key"].iter().find_map(|name| headers.get(*name)?.to_str().ok());
    let bearer = || {
        let value = headers.get("authorization")?.to_str().ok()?;
        value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "))
    };
    let request = || query.split('&').find_map(|pair| pair.strip_prefix("key="));
    named.or_else(bearer).or_else(request).map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned)
}

/// Decompresses the body.
fn unpacked(headers: &HeaderMap, body: &Bytes, bytes_max: usize) -> Result<Bytes, ProviderRejection> {
    let encoding = headers.get("content-encoding").and_then(|value| value.to_str().ok()).unwrap_or("identity");
    let unpacked = match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => return Ok(body.clone()),
        "gzip" | "x-gzip" => read_all(flate2::read::GzDecoder::new(&body[..]), bytes_max),
        "deflate" => read_all(flate2::read::ZlibDecoder::new(&body[..]), bytes_max),
        "zstd" => match ruzstd::decoding::StreamingDecoder::new(&body[..]) {
            Ok(decoder) => read_all(decoder, bytes_max),
            Err(_) => None,
        },
        other => {
            return Err(ProviderRejection::invalid(format!("Unsupported content encoding: {other}")).with_status(415));
        }
    };
    unpacked.ok_or_else(|| ProviderRejection::invalid("We could not decompress the body of your request."))
}

/// Reads one byte more than the limit at most, so that the caller sees that it was exceeded.
fn read_all(reader: impl Read, bytes_max: usize) -> Option<Bytes> {
    let mut out = Vec::new();
    reader.take(bytes_max as u64 + 1).read_to_end(&mut out).ok()?;
    Some(Bytes::from(out))
}

fn not_found(protocol: ProviderProtocol, head: &Parts) -> ProviderRejection {
    let message = match protocol {
        ProviderProtocol::Anthropic | ProviderProtocol::Gemini => "Not Found".to_owned(),
        _ => format!("Invalid URL ({} {})", head.method, head.uri.path()),
    };
    ProviderRejection::invalid(message).with_status(404).breaking("not-found")
}

fn no_key(protocol: ProviderProtocol) -> ProviderRejection {
    match protocol {
        ProviderProtocol::Anthropic => ProviderRejection::invalid("x-api-key header is required").with_status(401),
        ProviderProtocol::Gemini => ProviderRejection::invalid(
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other \
             form of API consumer identity to call this API.",
        )
        .with_status(403),
        _ => ProviderRejection::invalid(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth \
             (i.e. Authorization: Bearer YOUR_KEY).",
        )
        .with_status(401),
    }
    .breaking("auth")
}

fn too_large() -> ProviderRejection {
    ProviderRejection::invalid("Request exceeds the maximum size").with_status(413).breaking("A14")
}

fn not_json(protocol: ProviderProtocol, error: &serde_json::Error) -> ProviderRejection {
    match protocol {
        ProviderProtocol::Anthropic => {
            ProviderRejection::invalid(format!("The request body is not valid JSON: {error}"))
        }
        _ => ProviderRejection::invalid(
            "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library \
             correctly. The API expects a JSON payload, but what was sent was not valid JSON.)",
        ),
    }
}
