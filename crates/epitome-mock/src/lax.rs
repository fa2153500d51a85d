//! The lax mock: reads the body and answers without any check, so that a proxy in front of it can be measured.

use bytes::Bytes;
use http::request::Parts;
use serde_json::{Value, json};

use super::cache::InputUsage;
use super::encode::AnswerEncoder;
use super::endpoint::MockEndpoint;
use super::outgoing::OutgoingResponse;
use super::provider::plain_text;
use super::reply::{ModelReply, ReplyUsage};
use super::request::{AnswerSeed, MockRequest};
use super::settings::MockSettings;

/// The average size of a token.
const BYTES_PER_TOKEN: u64 = 4;

/// Answers without parsing the body; only `stream` is looked for.
pub(crate) fn answer(settings: &MockSettings, head: &Parts, body: &Bytes) -> OutgoingResponse {
    let body_bytes = body.len() as u64;
    let endpoint =
        MockEndpoint::at(head.method.as_str(), head.uri.path(), head.headers.contains_key("anthropic-version"));
    let body = json!({"model": "mock", "stream": wants_stream(body), "stream_options": {"include_usage": true}});
    let request = MockRequest {
        endpoint,
        headers: head.headers.clone(),
        key: String::new(),
        body,
        seed: AnswerSeed::of("", b"lax"),
    };
    let reply = ModelReply::text(plain_text(0, settings.timing.answer_tokens));
    // A plausible count, so that a client does not think that the provider truncated its prompt.
    let served = InputUsage { input: (body_bytes / BYTES_PER_TOKEN).max(1), ..InputUsage::default() };
    let output = settings.timing.answer_tokens.max(1) as u64;
    let encoder =
        AnswerEncoder { request: &request, reply: &reply, usage: ReplyUsage { served, output, reasoning: 0 } };
    let mut outgoing = match request.endpoint {
        MockEndpoint::Generate(_) | MockEndpoint::Gemini { .. } if request.wants_stream() => {
            OutgoingResponse::events(encoder.frames())
        }
        MockEndpoint::Generate(_) | MockEndpoint::Gemini { .. } => OutgoingResponse::json(200, &encoder.whole()),
        MockEndpoint::Count(_) | MockEndpoint::GeminiCount { .. } => {
            OutgoingResponse::json(200, &json!({"input_tokens": 1}))
        }
        _ => OutgoingResponse::json(200, &Value::Object(Default::default())),
    };
    outgoing.timing = settings.timing;
    outgoing
}

/// Looks for `"stream": true` near the beginning and the end of the body, where clients write it.
fn wants_stream(body: &[u8]) -> bool {
    const NEAR: usize = 4096;
    let start = &body[..body.len().min(NEAR)];
    let end = &body[body.len().saturating_sub(NEAR)..];
    [start, end].iter().any(|part| {
        let text = String::from_utf8_lossy(part);
        ["\"stream\":true", "\"stream\": true"].iter().any(|words| text.contains(words))
    })
}
