//! Gemini: one response, or a stream of responses with no end mark.

use serde_json::{Value, json};

use super::{AnswerEncoder, SseFrame};
use crate::reply::{ReplyPart, StopReason, tokens_of};
use crate::seal;

pub(super) fn whole(encoder: &AnswerEncoder<'_>) -> Value {
    let parts = encoder.reply.parts.iter().filter_map(part).collect();
    response(encoder, parts, Some(finish(encoder.reply.stop)))
}

pub(super) fn frames(encoder: &AnswerEncoder<'_>) -> Vec<SseFrame> {
    let mut frames = Vec::new();
    for said in &encoder.reply.parts {
        match said {
            ReplyPart::Text(text) => frames.extend(
                tokens_of(text)
                    .map(|token| SseFrame::data(&response(encoder, vec![json!({"text": token})], None)).token()),
            ),
            other => {
                frames.extend(part(other).map(|part| SseFrame::data(&response(encoder, vec![part], None)).token()));
            }
        }
    }
    let last = response(encoder, vec![json!({"text": ""})], Some(finish(encoder.reply.stop)));
    frames.push(SseFrame::data(&last));
    frames
}

fn response(encoder: &AnswerEncoder<'_>, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let usage = &encoder.usage;
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.served.input,
            "cachedContentTokenCount": usage.served.read,
            "candidatesTokenCount": usage.output - usage.reasoning,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": usage.served.input + usage.output,
        },
        "modelVersion": encoder.request.model(),
        "responseId": encoder.request.seed.id("", 0, 22),
    })
}

fn part(part: &ReplyPart) -> Option<Value> {
    match part {
        ReplyPart::Text(text) | ReplyPart::Compaction { summary: text, .. } => Some(json!({"text": text})),
        ReplyPart::Call(call) => Some(json!({
            "functionCall": {"id": call.id, "name": call.name, "args": call.input},
            "thoughtSignature": seal::encrypt("gemini", &call.id),
        })),
        ReplyPart::Thought { .. } => None,
    }
}

fn finish(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End | StopReason::Tools | StopReason::Compaction => "STOP",
        StopReason::Length | StopReason::WindowFull => "MAX_TOKENS",
    }
}
