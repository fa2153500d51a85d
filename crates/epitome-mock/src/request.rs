//! A parsed request: endpoint, headers, key and JSON body.
//!
//! It checks nothing; the rules do.

use http::HeaderMap;
use serde_json::Value;

use super::endpoint::{MockEndpoint, ProviderProtocol};

/// A request whose body was parsed.
#[derive(Clone, Debug)]
pub(crate) struct MockRequest {
    pub(crate) endpoint: MockEndpoint,
    pub(crate) headers: HeaderMap,
    /// The API key.
    pub(crate) key: String,
    pub(crate) body: Value,
    /// The source of the ids in its answer.
    pub(crate) seed: AnswerSeed,
}

/// The hash of key and body, from which all ids of its answer follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnswerSeed([u8; 32]);

impl AnswerSeed {
    /// Hashes key and body.
    pub(crate) fn of(key: &str, body: &[u8]) -> AnswerSeed {
        let mut hasher = blake3::Hasher::new();
        hasher.update(key.as_bytes()).update(&[0]).update(body);
        AnswerSeed(*hasher.finalize().as_bytes())
    }

    /// Returns an id that is the same for the same seed, prefix and place.
    pub(crate) fn id(&self, prefix: &str, place: usize, chars: usize) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(prefix.as_bytes()).update(&place.to_le_bytes());
        let hex = hasher.finalize().to_hex();
        format!("{prefix}{}", &hex[..chars.min(hex.len())])
    }
}

impl MockRequest {
    /// Returns the protocol it is written in.
    pub(crate) fn protocol(&self) -> ProviderProtocol {
        self.endpoint.protocol()
    }

    /// Returns the model it names, from the body or from Gemini's path.
    pub(crate) fn model(&self) -> &str {
        match &self.endpoint {
            MockEndpoint::Gemini { model, .. } | MockEndpoint::GeminiCount { model } => model,
            _ => self.text("model").unwrap_or_default(),
        }
    }

    /// Returns true if it asks for a stream.
    pub(crate) fn wants_stream(&self) -> bool {
        match &self.endpoint {
            MockEndpoint::Gemini { stream, .. } => *stream,
            MockEndpoint::Generate(_) => self.field("stream").and_then(Value::as_bool).unwrap_or(false),
            _ => false,
        }
    }

    /// Returns the output tokens it reserves.
    pub(crate) fn max_output(&self) -> Option<u64> {
        let named = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
        let own = named.iter().find_map(|name| self.field(name)?.as_u64());
        own.or_else(|| self.body.pointer("/generationConfig/maxOutputTokens")?.as_u64())
    }

    /// Returns a field of the body; `None` if it is null.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.body.get(name).filter(|value| !value.is_null())
    }

    /// Returns a string field of the body.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_str()
    }

    /// Returns a list field of the body, or an empty list.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.field(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns a header's text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns true if an `anthropic-beta` header names this beta.
    pub(crate) fn has_beta(&self, name: &str) -> bool {
        let all = self.headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
        all.flat_map(|value| value.split(',')).any(|beta| beta.trim() == name)
    }
}
