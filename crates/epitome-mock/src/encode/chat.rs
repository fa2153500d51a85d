//! OpenAI Chat Completions: one object, or chunks and `[DONE]`.

use serde_json::{Map, Value, json};

use super::{AnswerEncoder, CREATED, SseFrame};
use crate::reply::{ReplyCall, ReplyPart, ReplyUsage, StopReason, tokens_of};

pub(super) fn whole(encoder: &AnswerEncoder<'_>) -> Value {
    let text = text_of(encoder);
    let calls: Vec<Value> = encoder.reply.calls().map(call_json).collect();
    let mut message = json!({"role": "assistant", "content": text, "refusal": null, "annotations": []});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": id(encoder), "object": "chat.completion", "created": CREATED, "model": encoder.request.model(),
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(encoder.reply.stop)}],
        "usage": usage(&encoder.usage), "service_tier": "default", "system_fingerprint": "fp_mock",
    })
}

pub(super) fn frames(encoder: &AnswerEncoder<'_>) -> Vec<SseFrame> {
    let chunks = ChatChunks { encoder, with_usage: wants_usage(encoder) };
    let mut frames = vec![chunks.delta(json!({"role": "assistant", "content": "", "refusal": null}), None)];
    let mut call_at = 0;
    for part in &encoder.reply.parts {
        match part {
            ReplyPart::Text(text) | ReplyPart::Compaction { summary: text, .. } => {
                frames.extend(tokens_of(text).map(|token| chunks.delta(json!({"content": token}), None).token()));
            }
            ReplyPart::Thought { .. } => {}
            ReplyPart::Call(call) => {
                chunks.call(call, call_at, &mut frames);
                call_at += 1;
            }
        }
    }
    frames.push(chunks.delta(json!({}), Some(finish(encoder.reply.stop))));
    if chunks.with_usage {
        frames.push(chunks.chunk(json!([]), usage(&encoder.usage)));
    }
    frames.push(SseFrame::raw("data: [DONE]\n\n"));
    frames
}

fn wants_usage(encoder: &AnswerEncoder<'_>) -> bool {
    encoder.request.body.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false)
}

struct ChatChunks<'a> {
    encoder: &'a AnswerEncoder<'a>,
    with_usage: bool,
}

impl ChatChunks<'_> {
    fn delta(&self, delta: Value, finish: Option<&str>) -> SseFrame {
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        self.chunk(choices, Value::Null)
    }

    fn chunk(&self, choices: Value, usage: Value) -> SseFrame {
        let mut chunk = json!({
            "id": id(self.encoder), "object": "chat.completion.chunk", "created": CREATED,
            "model": self.encoder.request.model(), "service_tier": "default", "system_fingerprint": "fp_mock",
            "choices": choices,
        });
        if self.with_usage {
            chunk["usage"] = usage;
        }
        SseFrame::data(&chunk)
    }

    /// A call: its name first, then its arguments in pieces.
    fn call(&self, call: &ReplyCall, at: usize, frames: &mut Vec<SseFrame>) {
        let opening = json!({"tool_calls": [{"index": at, "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": ""}}]});
        frames.push(self.delta(opening, None));
        for piece in tokens_of(&call.input.to_string()) {
            let delta = json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]});
            frames.push(self.delta(delta, None).token());
        }
    }
}

fn id(encoder: &AnswerEncoder<'_>) -> String {
    encoder.request.seed.id("chatcmpl-", 0, 24)
}

fn text_of(encoder: &AnswerEncoder<'_>) -> Value {
    let texts: Vec<&str> = encoder
        .reply
        .parts
        .iter()
        .filter_map(|part| match part {
            ReplyPart::Text(text) | ReplyPart::Compaction { summary: text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if texts.is_empty() { Value::Null } else { texts.concat().into() }
}

fn call_json(call: &ReplyCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.input.to_string()}})
}

fn finish(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End | StopReason::Compaction => "stop",
        StopReason::Tools => "tool_calls",
        StopReason::Length => "length",
        StopReason::WindowFull => "model_context_window_exceeded",
    }
}

fn usage(usage: &ReplyUsage) -> Value {
    let served = usage.served;
    let mut out = Map::new();
    out.insert("prompt_tokens".into(), served.input.into());
    out.insert("completion_tokens".into(), usage.output.into());
    out.insert("total_tokens".into(), (served.input + usage.output).into());
    out.insert(
        "prompt_tokens_details".into(),
        json!({"cached_tokens": served.read, "cache_write_tokens": served.written, "audio_tokens": 0}),
    );
    out.insert(
        "completion_tokens_details".into(),
        json!({"reasoning_tokens": usage.reasoning, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}),
    );
    out.into()
}
