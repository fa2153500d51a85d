//! A request as the mock has read it: whose it is, what it wants, and its body as JSON.
//!
//! It undoes the encoding of the body and judges nothing that is in it.

use std::io::Read;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::endpoint::{Endpoint, Protocol};
use super::refusal::Complaint;

/// A request, read.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) endpoint: Endpoint,
    pub(super) headers: HeaderMap,
    /// Whose it is.
    pub(super) key: String,
    pub(super) body: Value,
    /// What its answer's ids are made of.
    pub(super) seed: Seed,
}

/// The hash of a body, from which everything about its answer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seed([u8; 32]);

impl Seed {
    /// The seed of a body that a key sent.
    pub(super) fn of(key: &str, body: &[u8]) -> Seed {
        let mut hasher = blake3::Hasher::new();
        hasher.update(key.as_bytes()).update(&[0]).update(body);
        Seed(*hasher.finalize().as_bytes())
    }

    /// An id that is the same for the same seed and place.
    pub(super) fn id(&self, prefix: &str, place: usize, chars: usize) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(prefix.as_bytes()).update(&place.to_le_bytes());
        let hex = hasher.finalize().to_hex();
        format!("{prefix}{}", &hex[..chars.min(hex.len())])
    }
}

impl Asked {
    /// The protocol it is written in.
    pub(super) fn protocol(&self) -> Protocol {
        self.endpoint.protocol()
    }

    /// The model it names.
    pub(super) fn model(&self) -> &str {
        match &self.endpoint {
            Endpoint::Gemini { model, .. } | Endpoint::GeminiCount { model } => model,
            _ => self.text("model").unwrap_or_default(),
        }
    }

    /// Whether it wants events.
    pub(super) fn wants_stream(&self) -> bool {
        match &self.endpoint {
            Endpoint::Gemini { stream, .. } => *stream,
            Endpoint::Generate(_) => self.field("stream").and_then(Value::as_bool).unwrap_or(false),
            _ => false,
        }
    }

    /// The output it reserves.
    pub(super) fn max_output(&self) -> Option<u64> {
        let named = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
        let own = named.iter().find_map(|name| self.field(name)?.as_u64());
        own.or_else(|| self.body.pointer("/generationConfig/maxOutputTokens")?.as_u64())
    }

    /// A field of the body; nothing if it is null.
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.body.get(name).filter(|value| !value.is_null())
    }

    /// A text of the body.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_str()
    }

    /// A list of the body, or an empty one.
    pub(super) fn list(&self, name: &str) -> &[Value] {
        self.field(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// A header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether a beta is switched on.
    pub(super) fn has_beta(&self, name: &str) -> bool {
        let all = self.headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
        all.flat_map(|value| value.split(',')).any(|beta| beta.trim() == name)
    }
}

/// The key of a request; nothing where there is none.
pub(super) fn key_of(headers: &HeaderMap, query: &str) -> Option<String> {
    let named = ["x-api-key", "x-goog-api-key", "api-key"].iter().find_map(|name| headers.get(*name)?.to_str().ok());
    let bearer = || {
        let value = headers.get("authorization")?.to_str().ok()?;
        value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "))
    };
    let asked = || query.split('&').find_map(|pair| pair.strip_prefix("key="));
    named.or_else(bearer).or_else(asked).map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned)
}

/// The body without its encodings.
pub(super) fn unpacked(headers: &HeaderMap, body: &Bytes, bytes_max: usize) -> Result<Bytes, Complaint> {
    let encoding = headers.get("content-encoding").and_then(|value| value.to_str().ok()).unwrap_or("identity");
    let unpacked = match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => return Ok(body.clone()),
        "gzip" | "x-gzip" => read_all(flate2::read::GzDecoder::new(&body[..]), bytes_max),
        "deflate" => read_all(flate2::read::ZlibDecoder::new(&body[..]), bytes_max),
        "zstd" => match ruzstd::decoding::StreamingDecoder::new(&body[..]) {
            Ok(decoder) => read_all(decoder, bytes_max),
            Err(_) => None,
        },
        other => return Err(Complaint::invalid(format!("Unsupported content encoding: {other}")).with_status(415)),
    };
    unpacked.ok_or_else(|| Complaint::invalid("We could not decompress the body of your request."))
}

/// What a reader gives, if it is whole and not too much.
fn read_all(reader: impl Read, bytes_max: usize) -> Option<Bytes> {
    let mut out = Vec::new();
    reader.take(bytes_max as u64 + 1).read_to_end(&mut out).ok()?;
    Some(Bytes::from(out))
}
