//! OpenAI Chat Completions: one object, or chunks and `[DONE]`.

use serde_json::{Map, Value, json};

use super::{CREATED, Frame, Speech};
use crate::reply::{Call, Part, Stop, Usage, tokens_of};

pub(super) fn whole(speech: &Speech<'_>) -> Value {
    let text = text_of(speech);
    let calls: Vec<Value> = speech.reply.calls().map(call_json).collect();
    let mut message = json!({"role": "assistant", "content": text, "refusal": null, "annotations": []});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": id(speech), "object": "chat.completion", "created": CREATED, "model": speech.asked.model(),
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(speech.reply.stop)}],
        "usage": usage(&speech.usage), "service_tier": "default", "system_fingerprint": "fp_mock",
    })
}

pub(super) fn frames(speech: &Speech<'_>) -> Vec<Frame> {
    let chunks = Chunks { speech, with_usage: wants_usage(speech) };
    let mut frames = vec![chunks.delta(json!({"role": "assistant", "content": "", "refusal": null}), None)];
    let mut call_at = 0;
    for part in &speech.reply.parts {
        match part {
            Part::Text(text) | Part::Compaction { summary: text, .. } => {
                frames.extend(tokens_of(text).map(|token| chunks.delta(json!({"content": token}), None).token()));
            }
            Part::Thought { .. } => {}
            Part::Call(call) => {
                chunks.call(call, call_at, &mut frames);
                call_at += 1;
            }
        }
    }
    frames.push(chunks.delta(json!({}), Some(finish(speech.reply.stop))));
    if chunks.with_usage {
        frames.push(chunks.chunk(json!([]), usage(&speech.usage)));
    }
    frames.push(Frame::raw("data: [DONE]\n\n"));
    frames
}

fn wants_usage(speech: &Speech<'_>) -> bool {
    speech.asked.body.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false)
}

struct Chunks<'a> {
    speech: &'a Speech<'a>,
    with_usage: bool,
}

impl Chunks<'_> {
    fn delta(&self, delta: Value, finish: Option<&str>) -> Frame {
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        self.chunk(choices, Value::Null)
    }

    fn chunk(&self, choices: Value, usage: Value) -> Frame {
        let mut chunk = json!({
            "id": id(self.speech), "object": "chat.completion.chunk", "created": CREATED,
            "model": self.speech.asked.model(), "service_tier": "default", "system_fingerprint": "fp_mock",
            "choices": choices,
        });
        if self.with_usage {
            chunk["usage"] = usage;
        }
        Frame::data(&chunk)
    }

    /// A call: its name first, then its arguments in pieces.
    fn call(&self, call: &Call, at: usize, frames: &mut Vec<Frame>) {
        let opening = json!({"tool_calls": [{"index": at, "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": ""}}]});
        frames.push(self.delta(opening, None));
        for piece in tokens_of(&call.input.to_string()) {
            let delta = json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]});
            frames.push(self.delta(delta, None).token());
        }
    }
}

fn id(speech: &Speech<'_>) -> String {
    speech.asked.seed.id("chatcmpl-", 0, 24)
}

fn text_of(speech: &Speech<'_>) -> Value {
    let texts: Vec<&str> = speech
        .reply
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) | Part::Compaction { summary: text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if texts.is_empty() { Value::Null } else { texts.concat().into() }
}

fn call_json(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.input.to_string()}})
}

fn finish(stop: Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Compaction => "stop",
        Stop::Tools => "tool_calls",
        Stop::Length => "length",
        Stop::WindowFull => "model_context_window_exceeded",
    }
}

fn usage(usage: &Usage) -> Value {
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
