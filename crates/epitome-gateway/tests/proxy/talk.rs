//! A client that keeps a history in one dialect, as an agent does, and sends all of it each time.

use epitome::wire::Dialect;
use epitome_gateway::sse::Framer;
use epitome_runtime::model::{AnswerReader, ModelAnswer};
use serde_json::{Value, json};

use crate::world::{Gate, Got, post};

pub const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

/// A conversation, from the client's side.
#[derive(Clone, Debug)]
pub struct Talk {
    pub dialect: Dialect,
    pub stream: bool,
    pub model: String,
    /// The messages, as JSON.
    pub messages: Vec<String>,
    /// Fields besides, which stand before the messages.
    pub fields: Value,
    /// Headers besides.
    pub headers: Vec<(String, String)>,
    /// How many calls were made.
    calls: usize,
}

impl Talk {
    /// One with a system prompt, a tool and a task.
    pub fn new(dialect: Dialect) -> Talk {
        Talk::about(dialect, "Fix the bug in parser.rs. Do not touch main.rs.")
    }

    /// The same with this task.
    pub fn about(dialect: Dialect, task: &str) -> Talk {
        let mut talk = Talk {
            dialect,
            stream: false,
            model: "mock".to_owned(),
            messages: Vec::new(),
            fields: fields(dialect),
            headers: Vec::new(),
            calls: 0,
        };
        if dialect == Dialect::Chat {
            talk.push(json!({"role": "system", "content": "You are an agent. Never delete files."}));
        }
        talk.says(task);
        talk
    }

    pub fn streaming(mut self, stream: bool) -> Talk {
        self.stream = stream;
        self
    }

    pub fn model(mut self, model: &str) -> Talk {
        self.model = model.to_owned();
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Talk {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn field(mut self, name: &str, value: Value) -> Talk {
        self.fields[name] = value;
        self
    }

    pub fn push(&mut self, message: Value) {
        self.messages.push(message.to_string());
    }

    /// The user says something.
    pub fn says(&mut self, text: &str) -> &mut Talk {
        self.push(match self.dialect {
            Dialect::Responses => {
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
            }
            _ => json!({"role": "user", "content": text}),
        });
        self
    }

    /// The model says something.
    pub fn hears(&mut self, text: &str) -> &mut Talk {
        self.push(match self.dialect {
            Dialect::Responses => {
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
            }
            _ => json!({"role": "assistant", "content": text}),
        });
        self
    }

    /// The model calls the tool, and it puts out about so many tokens, with a line at the end that names the call.
    pub fn works(&mut self, tokens: usize) -> &mut Talk {
        let number = self.calls;
        self.calls += 1;
        let id = format!("call_{number}");
        let command = format!("cat src/file{number}.rs");
        let output = output(number, tokens);
        match self.dialect {
            Dialect::Chat => {
                let arguments = json!({"command": command}).to_string();
                let function = json!({"name": "bash", "arguments": arguments});
                let call = json!({"id": id, "type": "function", "function": function});
                self.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                self.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
            }
            Dialect::Responses => {
                let arguments = json!({"command": command}).to_string();
                self.push(json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": arguments}));
                self.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            }
            _ => {
                let call = json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": command}});
                self.push(json!({"role": "assistant", "content": [call]}));
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": output});
                self.push(json!({"role": "user", "content": [result]}));
            }
        }
        self
    }

    /// Works until it has about so many tokens.
    pub fn grown(mut self, tokens: usize) -> Talk {
        for _ in 0..tokens / 400 {
            self.works(380);
        }
        self
    }

    /// Takes an answer into the history, and answers the calls in it.
    pub fn takes(&mut self, answer: &ModelAnswer, tokens: usize) {
        self.messages.extend(answer.messages.iter().cloned());
        let mut results = Vec::new();
        for call in &answer.calls {
            let (id, output) = (call.id.to_string(), output(self.calls, tokens));
            self.calls += 1;
            match self.dialect {
                Dialect::Chat => self.push(json!({"role": "tool", "tool_call_id": id, "content": output})),
                Dialect::Responses => {
                    self.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
                }
                _ => results.push(json!({"type": "tool_result", "tool_use_id": id, "content": output})),
            }
        }
        if !results.is_empty() {
            self.push(json!({"role": "user", "content": results}));
        }
    }

    pub fn path(&self) -> &'static str {
        path(self.dialect)
    }

    /// The field that holds the messages.
    pub fn list(&self) -> &'static str {
        if self.dialect == Dialect::Responses { "input" } else { "messages" }
    }

    /// The request's body; its messages stand last.
    pub fn body(&self) -> String {
        let mut head = json!({"model": self.model, "stream": self.stream});
        if self.dialect == Dialect::Chat && self.stream {
            head["stream_options"] = json!({"include_usage": true});
        }
        let fields = self.fields.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone()));
        head.as_object_mut().unwrap().extend(fields);
        let head = head.to_string();
        format!("{},\"{}\":[{}]}}", head.strip_suffix('}').unwrap(), self.list(), self.messages.join(","))
    }

    /// Sends it.
    pub async fn send(&self, gate: &Gate) -> Got {
        self.send_with(gate, &[]).await
    }

    /// Sends it with headers besides.
    pub async fn send_with(&self, gate: &Gate, headers: &[(&str, &str)]) -> Got {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers: Vec<(&str, &str)> = own.chain(headers.iter().copied()).collect();
        gate.post(self.path(), &headers, self.body()).await
    }

    /// Sends it on a connection of its own.
    pub async fn send_anew(&self, gate: &Gate) -> Got {
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        post(&gate.url(self.path()), &headers, self.body().into()).await
    }

    /// What an answer says.
    #[track_caller]
    pub fn read(&self, got: &Got) -> ModelAnswer {
        read(self.dialect, self.stream, &got.text())
    }
}

fn fields(dialect: Dialect) -> Value {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    let about = "Runs a command.";
    match dialect {
        Dialect::Chat => {
            let function = json!({"name": "bash", "description": about, "parameters": schema});
            json!({"tools": [{"type": "function", "function": function}]})
        }
        Dialect::Responses => {
            let tool = json!({"type": "function", "name": "bash", "description": about, "parameters": schema});
            json!({"instructions": "You are an agent. Never delete files.", "tools": [tool]})
        }
        _ => {
            let tool = json!({"name": "bash", "description": about, "input_schema": schema});
            json!({"max_tokens": 500, "system": "You are an agent. Never delete files.", "tools": [tool]})
        }
    }
}

pub fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat => "/v1/chat/completions",
        Dialect::Responses => "/v1/responses",
        _ => "/v1/messages",
    }
}

/// What a tool puts out: about so many tokens, another text for each number.
pub fn output(number: usize, tokens: usize) -> String {
    let lines = (tokens / 19).max(1);
    let line = |at: usize| format!("line {at} of file {number}: let x{at} = compute({});", number * 31 + at);
    let lines: Vec<String> = (0..lines).map(line).collect();
    format!("{}\nend of file {number}", lines.join("\n"))
}

/// Reads an answer, whole or in events.
#[track_caller]
pub fn read(dialect: Dialect, stream: bool, text: &str) -> ModelAnswer {
    if !stream {
        return AnswerReader::read(dialect, text).unwrap().unwrap_or_else(|error| panic!("{error}: {text}"));
    }
    let mut reader = AnswerReader::new(dialect).unwrap();
    let mut framer = Framer::default();
    for event in framer.push(text.as_bytes().to_vec()) {
        if let Some(data) = event.text() {
            reader.take(event.name(), data).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
    }
    assert!(framer.rest().is_none_or(|rest| rest.raw.iter().all(u8::is_ascii_whitespace)), "half an event: {text}");
    assert!(reader.is_whole(), "a stream without an end: {text}");
    reader.finish().unwrap_or_else(|error| panic!("{error}: {text}"))
}
