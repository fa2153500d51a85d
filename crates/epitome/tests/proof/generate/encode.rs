//! Writing a script in a dialect.

use epitome::wire::Dialect;
use serde_json::{Value, json};

use super::script::{Answer, Bit, Call, Entry, Script, Thought};
use super::style::Style;

/// The smallest picture there is.
pub const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAMBAQCbG5G4AAAAAElFTkSuQmCC";

/// A whole list of messages as text.
pub fn document(script: &Script, dialect: Dialect, style: Style) -> String {
    style.write(&Value::Array(messages(script, dialect, style)))
}

/// The messages of a script, or its items.
pub fn messages(script: &Script, dialect: Dialect, style: Style) -> Vec<Value> {
    let mut out = Vec::new();
    for (at, entry) in script.0.iter().enumerate() {
        match dialect {
            Dialect::Chat => chat(entry, style, &mut out),
            Dialect::Responses => responses(entry, style, at, &mut out),
            Dialect::Anthropic => anthropic(entry, style, at, &mut out),
            Dialect::AiSdk => ai_sdk(entry, style, &mut out),
        }
    }
    if style.extra {
        for message in &mut out {
            message["x_trace"] = json!({"span": [1, 2.50, "ü"], "none": null});
        }
    }
    out
}

fn unknown(kind: u32) -> Value {
    match kind {
        0 => json!({"role": "narrator", "content": "Meanwhile."}),
        1 => json!({"type": "hologram", "payload": {"depth": 3}}),
        _ => json!({"note": "no role at all"}),
    }
}

/// Content as a string where one text is all there is and the style has no wish for blocks.
fn content(blocks: Vec<Value>, style: Style) -> Value {
    match &blocks[..] {
        [only] if !style.blocks && only.get("text").is_some() => only["text"].clone(),
        [] => json!(""),
        _ => Value::Array(blocks),
    }
}

// --- Chat ----------------------------------------------------------------------------------------------------------

fn chat(entry: &Entry, style: Style, out: &mut Vec<Value>) {
    match entry {
        Entry::System(text) => out.push(json!({"role": "system", "content": text})),
        Entry::User(bits) => {
            let blocks = bits.iter().map(|bit| match bit {
                Bit::Text(text) => json!({"type": "text", "text": text}),
                Bit::Image => {
                    json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}})
                }
                Bit::Unknown => json!({"type": "smell", "smell": "of roses"}),
            });
            out.push(json!({"role": "user", "content": content(blocks.collect(), style)}));
        }
        Entry::Assistant { thought, words, calls } => {
            let mut message = json!({"role": "assistant", "content": words});
            if let Some(Thought::Open(text) | Thought::Signed(text)) = thought {
                message["reasoning_content"] = json!(text);
            }
            if style.blocks
                && let Some(words) = words
            {
                message["content"] = json!([{"type": "text", "text": words}]);
            }
            if !calls.is_empty() {
                message["tool_calls"] = calls.iter().map(|call| chat_call(call, style)).collect();
            }
            out.push(message);
        }
        Entry::Results(answers) => {
            out.extend(
                answers.iter().map(|answer| json!({"role": "tool", "tool_call_id": answer.id, "content": answer.text})),
            );
        }
        Entry::Unknown(kind) => out.push(unknown(*kind)),
    }
}

fn chat_call(call: &Call, style: Style) -> Value {
    let arguments = style.write(&call.arguments);
    json!({"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}})
}

// --- Responses -----------------------------------------------------------------------------------------------------

fn responses(entry: &Entry, style: Style, at: usize, out: &mut Vec<Value>) {
    let said =
        |role: &str, blocks: Vec<Value>| json!({"type": "message", "role": role, "content": content(blocks, style)});
    match entry {
        Entry::System(text) => out.push(said("developer", vec![json!({"type": "input_text", "text": text})])),
        Entry::User(bits) => {
            let blocks = bits.iter().map(|bit| match bit {
                Bit::Text(text) => json!({"type": "input_text", "text": text}),
                Bit::Image => json!({"type": "input_image", "image_url": format!("data:image/png;base64,{PNG}")}),
                Bit::Unknown => json!({"type": "input_smell", "smell": "of roses"}),
            });
            out.push(said("user", blocks.collect()));
        }
        Entry::Assistant { thought, words, calls } => {
            if let Some(thought) = thought
                && (words.is_some() || !calls.is_empty())
            {
                let summary: Vec<Value> = match thought {
                    Thought::Open(text) | Thought::Signed(text) => vec![json!({"type": "summary_text", "text": text})],
                    Thought::Encrypted => Vec::new(),
                };
                out.push(json!({"type": "reasoning", "id": format!("rs_{at}"), "summary": summary, "encrypted_content": "gAAAA"}));
            }
            if let Some(words) = words {
                let mut message = said("assistant", vec![json!({"type": "output_text", "text": words})]);
                message["id"] = json!(format!("msg_{at}"));
                out.push(message);
            }
            for call in calls {
                let arguments = style.write(&call.arguments);
                let id = format!("fc_{}", call.id);
                out.push(json!({"type": "function_call", "id": id, "call_id": call.id, "name": call.tool, "arguments": arguments}));
            }
        }
        Entry::Results(answers) => out.extend(
            answers
                .iter()
                .map(|answer| json!({"type": "function_call_output", "call_id": answer.id, "output": answer.text})),
        ),
        Entry::Unknown(kind) => out.push(unknown(*kind)),
    }
}

// --- Anthropic -----------------------------------------------------------------------------------------------------

fn anthropic(entry: &Entry, style: Style, at: usize, out: &mut Vec<Value>) {
    match entry {
        Entry::System(text) => out.push(json!({"role": "system", "content": text})),
        Entry::User(bits) => {
            let blocks = bits.iter().map(|bit| match bit {
                Bit::Text(text) => json!({"type": "text", "text": text}),
                Bit::Image => {
                    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})
                }
                Bit::Unknown => json!({"type": "smell", "smell": "of roses"}),
            });
            out.push(json!({"role": "user", "content": content(blocks.collect(), style)}));
        }
        Entry::Assistant { thought, words, calls } => {
            let mut blocks: Vec<Value> = thought.iter().map(anthropic_thought).collect();
            blocks.extend(words.iter().map(|text| json!({"type": "text", "text": text})));
            blocks.extend(
                calls
                    .iter()
                    .map(|call| json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments})),
            );
            if style.extra
                && at.is_multiple_of(3)
                && at < 6
                && let Some(last) = blocks.last_mut()
                && last["type"] != "thinking"
            {
                last["cache_control"] = json!({"type": "ephemeral"});
            }
            out.push(json!({"role": "assistant", "content": content(blocks, style)}));
        }
        Entry::Results(answers) => {
            let blocks: Vec<Value> = answers.iter().map(anthropic_result).collect();
            // Results of one assistant message stand in one user message.
            match out.last_mut().filter(|last| last["role"] == "user" && last["content"][0]["type"] == "tool_result") {
                Some(last) => last["content"].as_array_mut().expect("a list of results").extend(blocks),
                None => out.push(json!({"role": "user", "content": blocks})),
            }
        }
        Entry::Unknown(kind) => out.push(unknown(*kind)),
    }
}

fn anthropic_thought(thought: &Thought) -> Value {
    match thought {
        // Anthropic signs whatever it shows.
        Thought::Open(text) | Thought::Signed(text) => {
            json!({"type": "thinking", "thinking": text, "signature": "c2ln"})
        }
        Thought::Encrypted => json!({"type": "redacted_thinking", "data": "ZW5j"}),
    }
}

fn anthropic_result(answer: &Answer) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": answer.id, "content": answer.text});
    if answer.image {
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
        block["content"] = json!([{"type": "text", "text": format!("{} seen", answer.text)}, image]);
    }
    if answer.failed {
        block["is_error"] = json!(true);
    }
    block
}

// --- AI SDK --------------------------------------------------------------------------------------------------------

fn ai_sdk(entry: &Entry, style: Style, out: &mut Vec<Value>) {
    match entry {
        Entry::System(text) => out.push(json!({"role": "system", "content": text})),
        Entry::User(bits) => {
            let parts = bits.iter().map(|bit| match bit {
                Bit::Text(text) => json!({"type": "text", "text": text}),
                Bit::Image => json!({"type": "image", "image": format!("data:image/png;base64,{PNG}")}),
                Bit::Unknown => json!({"type": "smell", "smell": "of roses"}),
            });
            out.push(json!({"role": "user", "content": content(parts.collect(), style)}));
        }
        Entry::Assistant { thought, words, calls } => {
            let mut parts: Vec<Value> = thought.iter().map(ai_sdk_thought).collect();
            parts.extend(words.iter().map(|text| json!({"type": "text", "text": text})));
            parts.extend(calls.iter().map(|call| {
                json!({"type": "tool-call", "toolCallId": call.id, "toolName": call.tool, "input": call.arguments})
            }));
            out.push(json!({"role": "assistant", "content": content(parts, style)}));
        }
        Entry::Results(answers) => {
            let parts: Vec<Value> = answers.iter().map(|answer| ai_sdk_result(answer, style)).collect();
            out.push(json!({"role": "tool", "content": parts}));
        }
        Entry::Unknown(kind) => out.push(unknown(*kind)),
    }
}

fn ai_sdk_thought(thought: &Thought) -> Value {
    match thought {
        Thought::Open(text) => json!({"type": "reasoning", "text": text}),
        Thought::Signed(text) => {
            json!({"type": "reasoning", "text": text, "providerOptions": {"anthropic": {"signature": "c2ln"}}})
        }
        Thought::Encrypted => json!({"type": "redacted-reasoning", "data": "ZW5j"}),
    }
}

fn ai_sdk_result(answer: &Answer, style: Style) -> Value {
    let mut part = json!({"type": "tool-result", "toolCallId": answer.id, "toolName": answer.tool});
    let kind = if answer.failed { "error-text" } else { "text" };
    // The older shape of the SDK beside the newer one.
    let (field, value) = match style.extra {
        true => ("result", json!(answer.text)),
        false => ("output", json!({"type": kind, "value": answer.text})),
    };
    part[field] = value;
    part
}
