//! Anthropic Messages: one message, or the events from `message_start` to `message_stop`.
//!
//! The model is named as it was asked for: clients drop their thinking when it is not.

use serde_json::{Value, json};

use super::{Frame, Speech};
use crate::reply::{Part, Stop, Usage, tokens_of};

pub(super) fn whole(speech: &Speech<'_>) -> Value {
    let mut message = message(speech);
    message["content"] = speech.reply.parts.iter().map(block).collect();
    message["stop_reason"] = stop(speech.reply.stop).into();
    message["usage"] = usage(&speech.usage, speech.usage.output);
    if let Some(edits) = edits(speech) {
        message["context_management"] = edits;
    }
    message
}

pub(super) fn frames(speech: &Speech<'_>) -> Vec<Frame> {
    let mut message = message(speech);
    message["usage"] = usage(&speech.usage, 1);
    let mut frames = vec![event(json!({"type": "message_start", "message": message}))];
    for (at, part) in speech.reply.parts.iter().enumerate() {
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
        "delta": {"stop_reason": stop(speech.reply.stop), "stop_sequence": null},
        "usage": usage(&speech.usage, speech.usage.output),
    });
    if let Some(edits) = edits(speech) {
        end["context_management"] = edits;
    }
    frames.push(event(end));
    frames.push(event(json!({"type": "message_stop"})));
    frames
}

fn event(value: Value) -> Frame {
    Frame::event(&value)
}

fn message(speech: &Speech<'_>) -> Value {
    json!({
        "id": speech.asked.seed.id("msg_01", 0, 22), "type": "message", "role": "assistant",
        "model": speech.asked.model(), "content": [], "stop_reason": null, "stop_sequence": null, "usage": null,
    })
}

fn block(part: &Part) -> Value {
    match part {
        Part::Thought { text, seal } => json!({"type": "thinking", "thinking": text, "signature": seal}),
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}),
        Part::Compaction { summary, seal } => {
            json!({"type": "compaction", "content": summary, "encrypted_content": seal})
        }
    }
}

fn opening(part: &Part) -> Value {
    match part {
        Part::Thought { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
        Part::Text(_) => json!({"type": "text", "text": ""}),
        Part::Call(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
        Part::Compaction { .. } => json!({"type": "compaction", "content": null, "encrypted_content": null}),
    }
}

fn deltas(part: &Part) -> Vec<Value> {
    match part {
        Part::Thought { text, seal } => {
            let mut deltas: Vec<Value> =
                tokens_of(text).map(|token| json!({"type": "thinking_delta", "thinking": token})).collect();
            deltas.push(json!({"type": "signature_delta", "signature": seal}));
            deltas
        }
        Part::Text(text) => tokens_of(text).map(|token| json!({"type": "text_delta", "text": token})).collect(),
        Part::Call(call) => {
            let json = call.input.to_string();
            let pieces = std::iter::once("").chain(tokens_of(&json));
            pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect()
        }
        Part::Compaction { summary, seal } => {
            vec![json!({"type": "compaction_delta", "content": summary, "encrypted_content": seal})]
        }
    }
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "end_turn",
        Stop::Tools => "tool_use",
        Stop::Length => "max_tokens",
        Stop::WindowFull => "model_context_window_exceeded",
        Stop::Compaction => "compaction",
    }
}

/// What the server edited: nothing, said where editing was asked for.
fn edits(speech: &Speech<'_>) -> Option<Value> {
    speech.asked.field("context_management").map(|_| json!({"applied_edits": []}))
}

fn usage(usage: &Usage, output: u64) -> Value {
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
