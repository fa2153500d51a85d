//! A request as the mock has read it: whose it is, what it wants, and its body as JSON.
//!
//! It judges nothing that is in it.

use http::HeaderMap;
use serde_json::Value;

use super::endpoint::{MockEndpoint, ProviderProtocol};

/// A request, read.
#[derive(Clone, Debug)]
pub(crate) struct MockRequest {
    pub(crate) endpoint: MockEndpoint,
    pub(crate) headers: HeaderMap,
    /// Whose it is.
    pub(crate) key: String,
    pub(crate) body: Value,
    /// What its answer's ids are made of.
    pub(crate) seed: AnswerSeed,
}

/// The hash of a body, from which everything about its answer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnswerSeed([u8; 32]);

impl AnswerSeed {
    /// The seed of a body that a key sent.
    pub(crate) fn of(key: &str, body: &[u8]) -> AnswerSeed {
        let mut hasher = blake3::Hasher::new();
        hasher.update(key.as_bytes()).update(&[0]).update(body);
        AnswerSeed(*hasher.finalize().as_bytes())
    }

    /// An id that is the same for the same seed and place.
    pub(crate) fn id(&self, prefix: &str, place: usize, chars: usize) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(prefix.as_bytes()).update(&place.to_le_bytes());
        let hex = hasher.finalize().to_hex();
        format!("{prefix}{}", &hex[..chars.min(hex.len())])
    }
}

impl MockRequest {
    /// The protocol it is written in.
    pub(crate) fn protocol(&self) -> ProviderProtocol {
        self.endpoint.protocol()
    }

    /// The model it names.
    pub(crate) fn model(&self) -> &str {
        match &self.endpoint {
            MockEndpoint::Gemini { model, .. } | MockEndpoint::GeminiCount { model } => model,
            _ => self.text("model").unwrap_or_default(),
        }
    }

    /// Whether it wants events.
    pub(crate) fn wants_stream(&self) -> bool {
        match &self.endpoint {
            MockEndpoint::Gemini { stream, .. } => *stream,
            MockEndpoint::Generate(_) => self.field("stream").and_then(Value::as_bool).unwrap_or(false),
            _ => false,
        }
    }

    /// The output it reserves.
    pub(crate) fn max_output(&self) -> Option<u64> {
        let named = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
        let own = named.iter().find_map(|name| self.field(name)?.as_u64());
        own.or_else(|| self.body.pointer("/generationConfig/maxOutputTokens")?.as_u64())
    }

    /// A field of the body; nothing if it is null.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.body.get(name).filter(|value| !value.is_null())
    }

    /// A text of the body.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_str()
    }

    /// A list of the body, or an empty one.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.field(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// A header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether a beta is switched on.
    pub(crate) fn has_beta(&self, name: &str) -> bool {
        let all = self.headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
        all.flat_map(|value| value.split(',')).any(|beta| beta.trim() == name)
    }
}
