//! OpenAI Responses: one response, or the events from `response.created` to `response.completed`.

use serde_json::{Value, json};

use super::{AnswerEncoder, CREATED, SseFrame};
use crate::reply::{CallKind, ReplyCall, ReplyPart, ReplyUsage, StopReason, tokens_of};

pub(super) fn whole(encoder: &AnswerEncoder<'_>) -> Value {
    response(encoder, ended(encoder.reply.stop), output_items(encoder), usage(&encoder.usage))
}

/// The answer of `/v1/responses/compact`: the user's messages and one compaction.
pub(crate) fn compacted(encoder: &AnswerEncoder<'_>, kept: Vec<Value>) -> Value {
    let mut output = kept;
    output.extend(output_items(encoder));
    json!({
        "id": encoder.request.seed.id("resp_", 0, 32), "object": "response.compaction", "created_at": CREATED,
        "output": output, "usage": usage(&encoder.usage),
    })
}

pub(super) fn frames(encoder: &AnswerEncoder<'_>) -> Vec<SseFrame> {
    let mut events = NumberedEvents { frames: Vec::new() };
    let begun = response(encoder, "in_progress", Vec::new(), Value::Null);
    events.push(json!({"type": "response.created", "response": begun}));
    events.push(json!({"type": "response.in_progress", "response": begun}));
    for (at, (part, item)) in encoder.reply.parts.iter().zip(output_items(encoder)).enumerate() {
        events.item(at, part, &item);
    }
    let kind = match encoder.reply.stop {
        StopReason::Length | StopReason::WindowFull => "response.incomplete",
        _ => "response.completed",
    };
    events.push(json!({"type": kind, "response": whole(encoder)}));
    events.frames
}

/// The items of an answer.
pub(crate) fn output_items(encoder: &AnswerEncoder<'_>) -> Vec<Value> {
    encoder.reply.parts.iter().enumerate().map(|(at, part)| item(encoder, at, part)).collect()
}

fn item(encoder: &AnswerEncoder<'_>, at: usize, part: &ReplyPart) -> Value {
    let id = |prefix: &str| encoder.request.seed.id(prefix, at, 32);
    match part {
        ReplyPart::Thought { text, seal } => {
            let wants_words = encoder.request.body.pointer("/reasoning/summary").is_some_and(|value| !value.is_null());
            let summary = if wants_words { json!([{"type": "summary_text", "text": text}]) } else { json!([]) };
            json!({"id": id("rs_"), "type": "reasoning", "summary": summary, "encrypted_content": seal})
        }
        ReplyPart::Text(text) => json!({
            "id": id("msg_"), "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
        }),
        ReplyPart::Call(call) => call_item(call, &id),
        ReplyPart::Compaction { seal, .. } => {
            json!({"id": id("cmp_"), "type": "compaction", "encrypted_content": seal})
        }
    }
}

fn call_item(call: &ReplyCall, id: &dyn Fn(&str) -> String) -> Value {
    match call.kind {
        CallKind::Function => json!({
            "id": id("fc_"), "type": "function_call", "status": "completed",
            "arguments": call.input.to_string(), "call_id": call.id, "name": call.name,
        }),
        CallKind::LocalShell => json!({
            "id": id("lsh_"), "type": "local_shell_call", "status": "completed",
            "call_id": call.id, "action": call.input,
        }),
    }
}

/// Numbered events.
struct NumberedEvents {
    frames: Vec<SseFrame>,
}

impl NumberedEvents {
    fn push(&mut self, mut event: Value) {
        event["sequence_number"] = self.frames.len().into();
        self.frames.push(SseFrame::event(&event));
    }

    fn push_token(&mut self, event: Value) {
        self.push(event);
        if let Some(last) = self.frames.pop() {
            self.frames.push(last.token());
        }
    }

    fn item(&mut self, at: usize, part: &ReplyPart, item: &Value) {
        self.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun(item)}));
        let id = &item["id"];
        match part {
            ReplyPart::Text(text) => self.text(at, id, text),
            ReplyPart::Thought { text, .. } if item["summary"].as_array().is_some_and(|list| !list.is_empty()) => {
                self.summary(at, id, text);
            }
            ReplyPart::Call(ReplyCall { kind: CallKind::Function, input, .. }) => {
                self.arguments(at, id, &input.to_string());
            }
            _ => {}
        }
        self.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }

    fn text(&mut self, at: usize, id: &Value, text: &str) {
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        let at_part = json!({"item_id": id, "output_index": at, "content_index": 0});
        self.push(with(&at_part, json!({"type": "response.content_part.added", "part": part("")})));
        for token in tokens_of(text) {
            let delta = json!({"type": "response.output_text.delta", "delta": token, "logprobs": []});
            self.push_token(with(&at_part, delta));
        }
        self.push(with(&at_part, json!({"type": "response.output_text.done", "text": text, "logprobs": []})));
        self.push(with(&at_part, json!({"type": "response.content_part.done", "part": part(text)})));
    }

    fn summary(&mut self, at: usize, id: &Value, text: &str) {
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        let at_part = json!({"item_id": id, "output_index": at, "summary_index": 0});
        self.push(with(&at_part, json!({"type": "response.reasoning_summary_part.added", "part": part("")})));
        for token in tokens_of(text) {
            self.push_token(with(&at_part, json!({"type": "response.reasoning_summary_text.delta", "delta": token})));
        }
        self.push(with(&at_part, json!({"type": "response.reasoning_summary_text.done", "text": text})));
        self.push(with(&at_part, json!({"type": "response.reasoning_summary_part.done", "part": part(text)})));
    }

    fn arguments(&mut self, at: usize, id: &Value, arguments: &str) {
        let at_item = json!({"item_id": id, "output_index": at});
        for piece in tokens_of(arguments) {
            let delta = json!({"type": "response.function_call_arguments.delta", "delta": piece});
            self.push_token(with(&at_item, delta));
        }
        let done = json!({"type": "response.function_call_arguments.done", "arguments": arguments});
        self.push(with(&at_item, done));
    }
}

/// An event with the place it is about.
fn with(place: &Value, mut event: Value) -> Value {
    if let (Some(event), Some(place)) = (event.as_object_mut(), place.as_object()) {
        event.extend(place.clone());
    }
    event
}

/// An item as it is announced: nothing in it yet.
fn begun(item: &Value) -> Value {
    let mut item = item.clone();
    if item.get("status").is_some() {
        item["status"] = "in_progress".into();
    }
    for (field, empty) in [("content", json!([])), ("arguments", json!("")), ("summary", json!([]))] {
        if item.get(field).is_some() {
            item[field] = empty;
        }
    }
    item
}

fn ended(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Length | StopReason::WindowFull => "incomplete",
        _ => "completed",
    }
}

fn response(encoder: &AnswerEncoder<'_>, status: &str, output: Vec<Value>, usage: Value) -> Value {
    let request = encoder.request;
    let or = |name: &str, default: Value| request.field(name).cloned().unwrap_or(default);
    let incomplete = if status == "incomplete" { json!({"reason": "max_output_tokens"}) } else { Value::Null };
    json!({
        "id": request.seed.id("resp_", 0, 32), "object": "response", "created_at": CREATED, "status": status,
        "background": false, "error": null, "incomplete_details": incomplete,
        "instructions": or("instructions", Value::Null), "max_output_tokens": or("max_output_tokens", Value::Null),
        "model": request.model(), "output": output,
        "parallel_tool_calls": or("parallel_tool_calls", true.into()),
        "previous_response_id": or("previous_response_id", Value::Null),
        "prompt_cache_key": or("prompt_cache_key", Value::Null),
        "reasoning": or("reasoning", json!({"effort": null, "summary": null})),
        "service_tier": "default", "store": or("store", true.into()), "temperature": or("temperature", json!(1.0)),
        "text": or("text", json!({"format": {"type": "text"}})), "tool_choice": or("tool_choice", "auto".into()),
        "tools": or("tools", json!([])), "top_p": or("top_p", json!(1.0)), "truncation": or("truncation", "disabled".into()),
        "usage": usage, "user": null, "metadata": or("metadata", json!({})),
    })
}

fn usage(usage: &ReplyUsage) -> Value {
    let served = usage.served;
    json!({
        "input_tokens": served.input,
        "input_tokens_details": {"cached_tokens": served.read, "cache_write_tokens": served.written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": served.input + usage.output,
    })
}
