//! A provider: answers written as it streams them, and as it sends them whole.

use epitome::wire::Dialect;
use serde_json::{Value, json};

/// A part of an answer.
#[derive(Clone, Debug)]
pub(in crate::own_tools) enum Part {
    /// Words, in pieces.
    Text(Vec<String>),
    /// Sealed thinking, and whether it is told in pieces.
    Thinking(String, bool),
    /// A call of a tool by name, with its arguments.
    Call(&'static str, String),
}

/// An answer: its number in the exchange, and what it says.
#[derive(Clone, Debug)]
pub(in crate::own_tools) struct Answer<'a> {
    pub(in crate::own_tools) number: usize,
    pub(in crate::own_tools) parts: &'a [Part],
    /// How many bytes of arguments come at once.
    pub(in crate::own_tools) piece_bytes: usize,
}

/// A JSON event a line, as the stream of a dialect.
pub(in crate::own_tools) fn stream(dialect: Dialect, lines: &str) -> String {
    let event = |line: &str| {
        let kind = serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        match dialect {
            Dialect::Chat => format!("data: {line}\n\n"),
            _ => format!("event: {}\ndata: {line}\n\n", kind["type"].as_str().unwrap()),
        }
    };
    let mut stream: String = lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(event).collect();
    if dialect == Dialect::Chat {
        stream.push_str("data: [DONE]\n\n");
    }
    stream
}

impl Answer<'_> {
    pub(in crate::own_tools) fn streamed(&self, dialect: Dialect) -> String {
        let lines: Vec<String> = match dialect {
            Dialect::Chat => self.chat(),
            Dialect::Responses => self.responses(),
            _ => self.anthropic(),
        }
        .iter()
        .map(Value::to_string)
        .collect();
        stream(dialect, &lines.join("\n"))
    }

    pub(in crate::own_tools) fn whole(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Chat => self.whole_chat(),
            Dialect::Responses => json!({
                "id": format!("resp_{}", self.number), "object": "response", "status": "completed", "store": false, "tools": tools(),
                "output": self.items(), "usage": self.usage(dialect),
            }),
            _ => json!({
                "id": format!("msg_{}", self.number), "type": "message", "role": "assistant", "model": "claude-opus-4-6",
                "content": self.blocks(), "stop_reason": self.word("tool_use", "end_turn"), "usage": self.usage(dialect),
            }),
        }
        .to_string()
    }

    /// What the provider counts: the prompt grows from answer to answer.
    pub(in crate::own_tools) fn usage(&self, dialect: Dialect) -> Value {
        let (input, output) = (100 * (self.number + 1), 7);
        match dialect {
            Dialect::Chat => {
                json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
            }
            _ => json!({"input_tokens": input, "output_tokens": output}),
        }
    }

    fn calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call(..)))
    }

    fn word<'a>(&self, called: &'a str, done: &'a str) -> &'a str {
        if self.calls() { called } else { done }
    }

    fn id(&self, name: &str, at: usize) -> String {
        let whose = if name == "read" { "their" } else { "own" };
        format!("{whose}_{}_{at}", self.number)
    }

    fn pieces<'a>(&self, text: &'a str) -> Vec<&'a str> {
        text.as_bytes().chunks(self.piece_bytes).map(|piece| std::str::from_utf8(piece).unwrap()).collect()
    }

    fn chat(&self) -> Vec<Value> {
        let chunk = |delta: Value, word: Option<&str>| {
            json!({
                "id": format!("chatcmpl-{}", self.number), "object": "chat.completion.chunk", "created": 1_000 + self.number,
                "model": "gpt-5.6", "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": word}], "usage": null,
            })
        };
        let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
        let mut index = 0;
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(pieces) => chunks.extend(pieces.iter().map(|text| chunk(json!({"content": text}), None))),
                Part::Thinking(text, _) => chunks.push(chunk(json!({"reasoning_content": text}), None)),
                Part::Call(name, arguments) => {
                    let start = json!({"index": index, "id": self.id(name, at), "type": "function", "function": {"name": name, "arguments": ""}});
                    chunks.push(chunk(json!({"tool_calls": [start]}), None));
                    for piece in self.pieces(arguments) {
                        let piece = json!({"index": index, "function": {"arguments": piece}});
                        chunks.push(chunk(json!({"tool_calls": [piece]}), None));
                    }
                    index += 1;
                }
            }
        }
        chunks.push(chunk(json!({}), Some(self.word("tool_calls", "stop"))));
        let mut usage = chunk(json!({}), None);
        usage["choices"] = json!([]);
        usage["usage"] = self.usage(Dialect::Chat);
        chunks.push(usage);
        chunks
    }

    fn whole_chat(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": null, "refusal": null});
        let mut calls = Vec::new();
        let mut said = String::new();
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(pieces) => said.push_str(&pieces.concat()),
                Part::Thinking(text, _) => message["reasoning_content"] = text.as_str().into(),
                Part::Call(name, arguments) => calls.push(json!({"id": self.id(name, at), "type": "function", "function": {"name": name, "arguments": arguments}})),
            }
        }
        if !said.is_empty() {
            message["content"] = said.into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        json!({
            "id": format!("chatcmpl-{}", self.number), "object": "chat.completion", "created": 1_000 + self.number, "model": "gpt-5.6",
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": self.word("tool_calls", "stop")}],
            "usage": self.usage(Dialect::Chat),
        })
    }

    fn items(&self) -> Vec<Value> {
        let item = |(at, part): (usize, &Part)| {
            let number = self.number;
            match part {
                Part::Text(pieces) => json!({
                    "id": format!("msg_{number}_{at}"), "type": "message", "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": pieces.concat(), "annotations": []}],
                }),
                Part::Thinking(text, tells) => json!({
                    "id": format!("rs_{number}_{at}"), "type": "reasoning", "encrypted_content": format!("gAAAA{text}"),
                    "summary": tells.then(|| json!({"type": "summary_text", "text": text})).into_iter().collect::<Vec<_>>(),
                }),
                Part::Call(name, arguments) => json!({
                    "id": format!("fc_{}", self.id(name, at)), "type": "function_call", "status": "completed",
                    "arguments": arguments, "call_id": self.id(name, at), "name": name,
                }),
            }
        };
        self.parts.iter().enumerate().map(item).collect()
    }

    fn responses(&self) -> Vec<Value> {
        let response = |status: &str, output: Vec<Value>, usage: Value| {
            json!({
                "id": format!("resp_{}", self.number), "object": "response", "created_at": 1_000 + self.number, "status": status,
                "model": "gpt-5.6", "output": output, "store": false, "tools": tools(), "usage": usage,
            })
        };
        let announced = response("in_progress", Vec::new(), Value::Null);
        let mut events = vec![
            json!({"type": "response.created", "response": announced}),
            json!({"type": "response.in_progress", "response": announced}),
        ];
        let items = self.items();
        for (at, (part, item)) in self.parts.iter().zip(&items).enumerate() {
            let begun = match part {
                Part::Text(_) => {
                    json!({"id": item["id"], "type": "message", "status": "in_progress", "role": "assistant", "content": []})
                }
                Part::Thinking(..) => json!({"id": item["id"], "type": "reasoning", "summary": []}),
                Part::Call(name, _) => {
                    json!({"id": item["id"], "type": "function_call", "status": "in_progress", "arguments": "", "call_id": item["call_id"], "name": name})
                }
            };
            events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
            let mut tell = |kind: &str, key: &str, value: Value| {
                let mut event = json!({"type": format!("response.{kind}"), "item_id": item["id"], "output_index": at});
                event[key] = value;
                events.push(event);
            };
            match part {
                Part::Text(pieces) => {
                    tell("content_part.added", "part", json!({"type": "output_text", "text": "", "annotations": []}));
                    pieces.iter().for_each(|text| tell("output_text.delta", "delta", text.as_str().into()));
                    tell("output_text.done", "text", pieces.concat().into());
                    tell("content_part.done", "part", item["content"][0].clone());
                }
                Part::Thinking(text, true) => {
                    tell("reasoning_summary_part.added", "part", json!({"type": "summary_text", "text": ""}));
                    tell("reasoning_summary_text.delta", "delta", text.as_str().into());
                    tell("reasoning_summary_text.done", "text", text.as_str().into());
                }
                Part::Thinking(_, false) => {}
                Part::Call(_, arguments) => {
                    self.pieces(arguments)
                        .iter()
                        .for_each(|piece| tell("function_call_arguments.delta", "delta", (*piece).into()));
                    tell("function_call_arguments.done", "arguments", arguments.as_str().into());
                }
            }
            events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
        }
        let completed = response("completed", items, self.usage(Dialect::Responses));
        events.push(json!({"type": "response.completed", "response": completed}));
        for (at, event) in events.iter_mut().enumerate() {
            event["sequence_number"] = at.into();
        }
        events
    }

    fn blocks(&self) -> Vec<Value> {
        let block = |(at, part): (usize, &Part)| match part {
            Part::Text(pieces) => json!({"type": "text", "text": pieces.concat()}),
            Part::Thinking(text, _) => {
                json!({"type": "thinking", "thinking": text, "signature": format!("sig-{text}")})
            }
            Part::Call(name, arguments) => {
                let input: Value = serde_json::from_str(arguments).unwrap();
                json!({"type": "tool_use", "id": self.id(name, at), "name": name, "input": input})
            }
        };
        self.parts.iter().enumerate().map(block).collect()
    }

    fn anthropic(&self) -> Vec<Value> {
        let message = json!({
            "id": format!("msg_{}", self.number), "type": "message", "role": "assistant", "model": "claude-opus-4-6", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": self.usage(Dialect::Anthropic),
        });
        let mut events = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
        for (at, (part, block)) in self.parts.iter().zip(self.blocks()).enumerate() {
            let (begun, deltas) = match part {
                Part::Text(pieces) => (
                    json!({"type": "text", "text": ""}),
                    pieces.iter().map(|text| json!({"type": "text_delta", "text": text})).collect(),
                ),
                Part::Thinking(text, _) => (
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    vec![
                        json!({"type": "thinking_delta", "thinking": text}),
                        json!({"type": "signature_delta", "signature": block["signature"]}),
                    ],
                ),
                Part::Call(name, arguments) => (
                    json!({"type": "tool_use", "id": block["id"], "name": name, "input": {}}),
                    self.pieces(arguments)
                        .iter()
                        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                        .collect::<Vec<_>>(),
                ),
            };
            events.push(json!({"type": "content_block_start", "index": at, "content_block": begun}));
            events.extend(
                deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": at, "delta": delta})),
            );
            events.push(json!({"type": "content_block_stop", "index": at}));
        }
        let word = self.word("tool_use", "end_turn");
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": word, "stop_sequence": null}, "usage": {"output_tokens": 7}}));
        events.push(json!({"type": "message_stop"}));
        events
    }
}

/// The tools of a request as a response repeats them.
fn tools() -> Value {
    json!([
        {"type": "function", "name": "read", "parameters": {"type": "object"}},
        {"type": "function", "name": "read_artifact", "parameters": {"type": "object"}},
        {"type": "function", "name": "recall", "parameters": {"type": "object"}},
    ])
}
