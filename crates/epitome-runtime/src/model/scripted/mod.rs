//! A model that answers from a script: a small real one, for tests, demonstrations and work without a network.
//!
//! It counts its prompts, keeps its window, streams, calls tools, waits and fails as its file says. It understands
//! nothing: the only thing it recognizes is the core's request for a summary.

mod script;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use epitome::budget::{Bpe, Meter, TokenCounter, Tokens};
use epitome::summary::SummaryRequest;
use epitome::thread::{NewMessage, Part, Raw};
use epitome::wire::{Dialect, decode_message};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::protocol::Protocol;
use super::refusal::refused;
use super::{Hear, Model, ModelAnswer, ModelError, ModelPrompt, StreamPiece, Usage};
pub use script::ScriptError;
use script::{Line, Purpose, Script};

/// A model that answers from a script. Clones share what has been answered.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Arc<Script>,
    protocol: Protocol,
    taken: Arc<Mutex<Vec<bool>>>,
    asked: Arc<AtomicU64>,
}

impl Scripted {
    /// The model of a script in a file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let read =
            |error: std::io::Error| ScriptError::Read { path: path.display().to_string(), reason: error.to_string() };
        Scripted::parse(&std::fs::read_to_string(path).map_err(read)?)
    }

    /// The model of a script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let script = Script::parse(text)?;
        let dialect = script.dialect()?;
        Ok(Scripted {
            protocol: Protocol::of(dialect).ok_or(ScriptError::Dialect(dialect))?,
            taken: Arc::new(Mutex::new(vec![false; script.answers.len()])),
            script: Arc::new(script),
            asked: Arc::default(),
        })
    }

    /// The same model in another dialect.
    pub fn in_dialect(self, dialect: Dialect) -> Result<Self, ScriptError> {
        let protocol = Protocol::of(dialect).ok_or(ScriptError::Dialect(dialect))?;
        Ok(Scripted { protocol, ..self })
    }

    /// Returns the number of prompts that it was asked.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The first answer that is left for a prompt.
    fn line(&self, reading: &Reading) -> Option<&Line> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = self.script.answers.iter().zip(taken.iter_mut());
        let (line, taken) =
            lines.find(|(line, taken)| !**taken && line.answers(reading.purpose, &reading.all, &reading.last))?;
        *taken = !line.repeat;
        Some(line)
    }

    /// Returns the error of the dialect's provider for a prompt that is too long.
    fn too_long(&self, used: u64, limit: u64) -> String {
        match self.protocol {
            Protocol::Anthropic => json!({"type": "error", "error": {
                "type": "invalid_request_error",
                "message": format!("prompt is too long: {used} tokens > {limit} maximum"),
            }}),
            Protocol::Chat | Protocol::Responses => json!({"error": {
                "message": format!(
                    "This model's maximum context length is {limit} tokens. However, your messages resulted in {used} tokens."
                ),
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }}),
        }
        .to_string()
    }

    fn answer_of(&self, line: &Line, prompt_tokens: Tokens) -> ModelAnswer {
        let messages = messages(self.protocol, line);
        let mut answer = ModelAnswer::of(self.protocol.dialect(), messages, line.finish(), None);
        let output =
            Bpe::O200k.count(&answer.text) + answer.calls.iter().map(|call| Bpe::O200k.count(&call.arguments)).sum();
        let counted = Usage { input: prompt_tokens.get(), output: output.get(), ..Usage::default() };
        answer.usage = Some(line.usage.unwrap_or(counted));
        answer
    }
}

#[async_trait]
impl Model for Scripted {
    fn id(&self) -> &str {
        &self.script.model
    }

    fn dialect(&self) -> Dialect {
        self.protocol.dialect()
    }

    async fn answer(&self, prompt: &ModelPrompt, hear: &mut Hear<'_>) -> Result<ModelAnswer, ModelError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let reading = Reading::of(prompt, self.dialect());
        if let Some(limit) = self.script.window.filter(|limit| reading.tokens > Tokens::new(*limit)) {
            return Err(refused(400, None, &self.too_long(reading.tokens.get(), limit)));
        }
        let line = self.line(&reading).ok_or_else(|| {
            let message = "the script has no answer left for this prompt; add one, or give one of them repeat = true";
            ModelError::Refused(404, message.into())
        })?;
        pause(line.delay()).await;
        let answer = self.answer_of(line, reading.tokens);
        if prompt.stream {
            tell(line, &answer, hear).await;
        }
        line.error.as_ref().map_or(Ok(answer), |mishap| Err(mishap.error()))
    }
}

/// Waits, or goes on at once where there is nothing to wait for: the shortest sleep is a millisecond.
async fn pause(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}

/// Tells an answer word by word.
async fn tell(line: &Line, answer: &ModelAnswer, hear: &mut Hear<'_>) {
    let reasoning = line.reasoning.as_deref().unwrap_or_default();
    let reasoning = reasoning.split_inclusive(' ').map(|word| StreamPiece::Reasoning(word.to_owned()));
    let text = answer.text.split_inclusive(' ').map(|word| StreamPiece::Text(word.to_owned()));
    for piece in reasoning.chain(text) {
        pause(line.between_words()).await;
        hear(&piece);
    }
    for call in &answer.calls {
        hear(&StreamPiece::Call { id: call.id.to_string(), name: call.name.to_string() });
        hear(&StreamPiece::Arguments(call.arguments.to_string()));
    }
}

/// The texts and counts of a prompt.
struct Reading {
    all: String,
    last: String,
    tokens: Tokens,
    purpose: Purpose,
}

impl Reading {
    fn of(prompt: &ModelPrompt, dialect: Dialect) -> Self {
        let meter = Meter::new(&Bpe::O200k, dialect);
        let system = prompt.system.as_deref().map(plain).unwrap_or_default();
        let decode = |message: &String| decode_message(dialect, &Raw::whole(message.as_str()));
        let messages: Vec<NewMessage> = prompt.messages.iter().map(decode).collect();
        let around = meter.text(&system) + prompt.tools.as_deref().map(|tools| meter.text(tools)).unwrap_or_default();
        let tokens = messages.iter().map(|message| meter.message(&meter.parts(message))).sum::<Tokens>() + around;
        let mut words: Vec<String> = messages.iter().map(words).collect();
        let last = words.last().cloned().unwrap_or_default();
        words.insert(0, system);
        let all = words.join("\n");
        let purpose = if all.contains(SummaryRequest::opening()) { Purpose::Summary } else { Purpose::Turn };
        Reading { all, last, tokens, purpose }
    }
}

/// A system prompt as text.
fn plain(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::String(text)) => text,
        Ok(Value::Array(blocks)) => {
            blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => json.to_owned(),
    }
}

fn words(message: &NewMessage) -> String {
    let words = |part: &Part| match part {
        Part::Text(text) => text.to_string(),
        Part::Reasoning(reasoning) => reasoning.text.to_string(),
        Part::ToolCall(call) => format!("{} {}", call.name, call.arguments),
        Part::ToolResult(result) => result.text.to_string(),
        Part::Media(_) | Part::Opaque(_) => String::new(),
    };
    message.parts.iter().map(words).collect::<Vec<_>>().join("\n")
}

/// An answer as messages of a protocol.
fn messages(protocol: Protocol, line: &Line) -> Vec<String> {
    match protocol {
        Protocol::Chat => vec![chat(line).to_string()],
        Protocol::Responses => responses(line).iter().map(Value::to_string).collect(),
        Protocol::Anthropic => anthropic(line).map(|message| message.to_string()).into_iter().collect(),
    }
}

fn chat(line: &Line) -> Value {
    let words = line.words();
    let content = if words.is_empty() && !line.calls.is_empty() { Value::Null } else { words.into() };
    let mut message = json!({"role": "assistant", "content": content});
    if let Some(reasoning) = &line.reasoning {
        message["reasoning_content"] = reasoning.as_str().into();
    }
    if !line.calls.is_empty() {
        let call = |call: &script::Call| {
            json!({"id": id(call, "call"), "type": "function",
                "function": {"name": call.name, "arguments": call.arguments.to_string()}})
        };
        message["tool_calls"] = line.calls.iter().map(call).collect();
    }
    message
}

fn responses(line: &Line) -> Vec<Value> {
    let reasoning = line.reasoning.as_ref().map(|text| {
        json!({"type": "reasoning", "id": fresh("rs"), "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": "scripted"})
    });
    let words = Some(line.words()).filter(|words| !words.is_empty());
    let message = words.map(|text| {
        json!({"type": "message", "id": fresh("msg"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    });
    let call = |call: &script::Call| {
        json!({"type": "function_call", "id": fresh("fc"), "call_id": id(call, "call"), "name": call.name,
            "arguments": call.arguments.to_string(), "status": "completed"})
    };
    reasoning.into_iter().chain(message).chain(line.calls.iter().map(call)).collect()
}

fn anthropic(line: &Line) -> Option<Value> {
    let reasoning = line.reasoning.as_ref();
    let reasoning = reasoning.map(|text| json!({"type": "thinking", "thinking": text, "signature": "scripted"}));
    let words = Some(line.words()).filter(|words| !words.is_empty());
    let text = words.map(|text| json!({"type": "text", "text": text}));
    let call = |call: &script::Call| json!({"type": "tool_use", "id": id(call, "toolu"), "name": call.name, "input": call.arguments});
    let blocks: Vec<Value> = reasoning.into_iter().chain(text).chain(line.calls.iter().map(call)).collect();
    (!blocks.is_empty()).then(|| json!({"role": "assistant", "content": blocks}))
}

fn id(call: &script::Call, kind: &str) -> String {
    call.id.clone().unwrap_or_else(|| fresh(kind))
}

fn fresh(kind: &str) -> String {
    format!("{kind}_{}", Uuid::now_v7().simple())
}
