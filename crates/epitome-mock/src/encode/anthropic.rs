//! Anthropic Messages: one message, or the events from `message_start` to `message_stop`.
//!
//! The model is named as it was asked for: clients drop their thinking when it is not.

use serde_json::{Value, json};

use super::{AnswerEncoder, SseFrame};
use crate::reply::{ReplyPart, ReplyUsage, StopReason, tokens_of};

pub(super) fn whole(encoder: &AnswerEncoder<'_>) -> Value {
    let mut message = message(encoder);
    message["content"] = encoder.reply.parts.iter().map(block).collect();
    message["stop_reason"] = stop(encoder.reply.stop).into();
    message["usage"] = usage(&encoder.usage, encoder.usage.output);
    if let Some(edits) = edits(encoder) {
        message["context_management"] = edits;
    }
    message
}

pub(super) fn frames(encoder: &AnswerEncoder<'_>) -> Vec<SseFrame> {
    let mut message = message(encoder);
    message["usage"] = usage(&encoder.usage, 1);
    let mut frames = vec![event(json!({"type": "message_start", "message": message}))];
    for (at, part) in encoder.reply.parts.iter().enumerate() {
        frames.push(event(json!({"type": "content_block_start", "index": at, "content_block": opening(part)})));
        if at == 0 {
            frames.push(event(json!({"type": "ping"})));
        }
        let delta = |delta: Value| event(json!({"type": "content_block_delta", "index": at, "delta": delta}));
        frames.extend(deltas(part).into_iter().map(|value| delta(value).token()));
        frames.push(event(json!({"type": "content_block_stop", "index": at})));
    }
    let mut end = json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop(encoder.reply.stop), "stop_sequence": null},
        "usage": usage(&encoder.usage, encoder.usage.output),
    });
    if let Some(edits) = edits(encoder) {
        end["context_management"] = edits;
    }
    frames.push(event(end));
    frames.push(event(json!({"type": "message_stop"})));
    frames
}

fn event(value: Value) -> SseFrame {
    SseFrame::event(&value)
}

fn message(encoder: &AnswerEncoder<'_>) -> Value {
    json!({
        "id": encoder.request.seed.id("msg_01", 0, 22), "type": "message", "role": "assistant",
        "model": encoder.request.model(), "content": [], "stop_reason": null, "stop_sequence": null, "usage": null,
    })
}

fn block(part: &ReplyPart) -> Value {
    match part {
        ReplyPart::Thought { text, seal } => json!({"type": "thinking", "thinking": text, "signature": seal}),
        ReplyPart::Text(text) => json!({"type": "text", "text": text}),
        ReplyPart::Call(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}),
        ReplyPart::Compaction { summary, seal } => {
            json!({"type": "compaction", "content": summary, "encrypted_content": seal})
        }
    }
}

fn opening(part: &ReplyPart) -> Value {
    match part {
        ReplyPart::Thought { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
        ReplyPart::Text(_) => json!({"type": "text", "text": ""}),
        ReplyPart::Call(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
        ReplyPart::Compaction { .. } => json!({"type": "compaction", "content": null, "encrypted_content": null}),
    }
}

fn deltas(part: &ReplyPart) -> Vec<Value> {
    match part {
        ReplyPart::Thought { text, seal } => {
            let mut deltas: Vec<Value> =
                tokens_of(text).map(|token| json!({"type": "thinking_delta", "thinking": token})).collect();
            deltas.push(json!({"type": "signature_delta", "signature": seal}));
            deltas
        }
        ReplyPart::Text(text) => tokens_of(text).map(|token| json!({"type": "text_delta", "text": token})).collect(),
        ReplyPart::Call(call) => {
            let json = call.input.to_string();
            let pieces = std::iter::once("").chain(tokens_of(&json));
            pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect()
        }
        ReplyPart::Compaction { summary, seal } => {
            vec![json!({"type": "compaction_delta", "content": summary, "encrypted_content": seal})]
        }
    }
}

fn stop(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End => "end_turn",
        StopReason::Tools => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::WindowFull => "model_context_window_exceeded",
        StopReason::Compaction => "compaction",
    }
}

/// Returns an empty list of applied edits where the request asked for editing.
fn edits(encoder: &AnswerEncoder<'_>) -> Option<Value> {
    encoder.request.field("context_management").map(|_| json!({"applied_edits": []}))
}

fn usage(usage: &ReplyUsage, output: u64) -> Value {
    let served = usage.served;
    json!({
        "input_tokens": served.plain(),
        "cache_creation_input_tokens": served.written + served.written_long,
        "cache_read_input_tokens": served.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": served.written,
            "ephemeral_1h_input_tokens": served.written_long,
        },
        "output_tokens": output,
        "service_tier": "standard",
    })
}
