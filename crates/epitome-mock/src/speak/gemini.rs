//! Gemini: one response, or a stream of responses with no end mark.

use serde_json::{Value, json};

use super::{Frame, Speech};
use crate::reply::{Part, Stop, tokens_of};
use crate::seal;

pub(super) fn whole(speech: &Speech<'_>) -> Value {
    let parts = speech.reply.parts.iter().filter_map(part).collect();
    response(speech, parts, Some(finish(speech.reply.stop)))
}

pub(super) fn frames(speech: &Speech<'_>) -> Vec<Frame> {
    let mut frames = Vec::new();
    for said in &speech.reply.parts {
        match said {
            Part::Text(text) => frames.extend(
                tokens_of(text).map(|token| Frame::data(&response(speech, vec![json!({"text": token})], None)).token()),
            ),
            other => frames.extend(part(other).map(|part| Frame::data(&response(speech, vec![part], None)).token())),
        }
    }
    let last = response(speech, vec![json!({"text": ""})], Some(finish(speech.reply.stop)));
    frames.push(Frame::data(&last));
    frames
}

fn response(speech: &Speech<'_>, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let usage = &speech.usage;
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
        "modelVersion": speech.asked.model(),
        "responseId": speech.asked.seed.id("", 0, 22),
    })
}

fn part(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) | Part::Compaction { summary: text, .. } => Some(json!({"text": text})),
        Part::Call(call) => Some(json!({
            "functionCall": {"id": call.id, "name": call.name, "args": call.input},
            "thoughtSignature": seal::encrypt("gemini", &call.id),
        })),
        Part::Thought { .. } => None,
    }
}

fn finish(stop: Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Tools | Stop::Compaction => "STOP",
        Stop::Length | Stop::WindowFull => "MAX_TOKENS",
    }
}
