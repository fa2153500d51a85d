//! The lax mock: reads a body and answers, and judges nothing, so that what is before it can be measured.

use bytes::Bytes;
use http::request::Parts;
use serde_json::{Value, json};

use super::asked::{Asked, Seed};
use super::cache::Served;
use super::endpoint::Endpoint;
use super::outlet::Outgoing;
use super::provider::plain_text;
use super::reply::{Reply, Usage};
use super::settings::MockSettings;
use super::speak::Speech;

/// About how many bytes a token has.
const BYTES_PER_TOKEN: u64 = 4;

/// Answers without a look at what was asked, but for the stream.
pub(crate) fn answer(settings: &MockSettings, head: &Parts, body: &Bytes) -> Outgoing {
    let body_bytes = body.len() as u64;
    let endpoint = Endpoint::at(head.method.as_str(), head.uri.path(), head.headers.contains_key("anthropic-version"));
    let body = json!({"model": "mock", "stream": wants_stream(body), "stream_options": {"include_usage": true}});
    let asked = Asked { endpoint, headers: head.headers.clone(), key: String::new(), body, seed: Seed::of("", b"lax") };
    let reply = Reply::text(plain_text(0, settings.timing.answer_tokens));
    // Roughly what it is: whoever counts shall not think that something was left out.
    let served = Served { input: (body_bytes / BYTES_PER_TOKEN).max(1), ..Served::default() };
    let output = settings.timing.answer_tokens.max(1) as u64;
    let speech = Speech { asked: &asked, reply: &reply, usage: Usage { served, output, reasoning: 0 } };
    let mut outgoing = match asked.endpoint {
        Endpoint::Generate(_) | Endpoint::Gemini { .. } if asked.wants_stream() => Outgoing::events(speech.frames()),
        Endpoint::Generate(_) | Endpoint::Gemini { .. } => Outgoing::json(200, &speech.whole()),
        Endpoint::Count(_) | Endpoint::GeminiCount { .. } => Outgoing::json(200, &json!({"input_tokens": 1})),
        _ => Outgoing::json(200, &Value::Object(Default::default())),
    };
    outgoing.timing = settings.timing;
    outgoing
}

/// Whether the body says so at its beginning or its end, where clients write it.
fn wants_stream(body: &[u8]) -> bool {
    const NEAR: usize = 4096;
    let start = &body[..body.len().min(NEAR)];
    let end = &body[body.len().saturating_sub(NEAR)..];
    [start, end].iter().any(|part| {
        let text = String::from_utf8_lossy(part);
        ["\"stream\":true", "\"stream\": true"].iter().any(|words| text.contains(words))
    })
}
