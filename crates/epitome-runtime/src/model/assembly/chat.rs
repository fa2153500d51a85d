//! Chat Completions: deltas merged into one assistant message.

use epitome::summary::Finish;
use epitome::wire::Dialect;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::merge::merge;
use super::{Ears, Flow, StreamEvent, or_overflow, str_at};
use crate::model::{ModelAnswer, ModelError, StreamPiece, Usage};

/// A message in the making.
#[derive(Debug, Default)]
pub(in crate::model) struct ChatAssembly {
    message: Map<String, Value>,
    calls: Vec<Call>,
    /// The last piece's call.
    newest: usize,
    any: bool,
    finish: Option<String>,
    done: bool,
    usage: Option<Usage>,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    fields: Map<String, Value>,
    told: bool,
}

impl ChatAssembly {
    pub(super) fn take(&mut self, event: StreamEvent<'_>, ears: &mut Ears<'_, '_>) -> Result<Flow, ModelError> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Flow::Done);
        }
        let mut chunk = event.value()?;
        self.usage = chunk.get("usage").and_then(Usage::of_openai).or(self.usage);
        let choices = chunk.get_mut("choices").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        for choice in choices {
            if choice.get("index").and_then(Value::as_u64).unwrap_or_default() == 0 {
                self.choice(choice, ears);
            }
        }
        Ok(Flow::On)
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    pub(super) fn is_whole(&self) -> bool {
        self.finish.is_some() || (self.done && self.any)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any
    }

    pub(super) fn finish(self) -> Result<ModelAnswer, ModelError> {
        let mut message = self.message;
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().map(|call| Value::Object(call.fields)).collect();
            message.insert("tool_calls".into(), Value::Array(calls));
        }
        answer(message, &self.finish.unwrap_or_default(), self.usage)
    }

    fn choice(&mut self, mut choice: Value, ears: &mut Ears<'_, '_>) {
        self.any = true;
        if let Some(word) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(word.to_owned());
        }
        let Some(Value::Object(mut delta)) = choice.get_mut("delta").map(Value::take) else { return };
        let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        let reasoning =
            if text("reasoning_content").is_empty() { text("reasoning") } else { text("reasoning_content") };
        ears.words(reasoning, StreamPiece::Reasoning);
        ears.words(text("content"), StreamPiece::Text);
        ears.words(text("refusal"), StreamPiece::Text);
        let calls = delta.shift_remove("tool_calls");
        merge(&mut self.message, delta);
        if let Some(Value::Array(calls)) = calls {
            calls.into_iter().for_each(|call| self.call(call, ears));
        }
    }

    fn call(&mut self, piece: Value, ears: &mut Ears<'_, '_>) {
        let Value::Object(mut piece) = piece else { return };
        let index = piece.shift_remove("index").as_ref().and_then(Value::as_u64);
        let at = self.slot(index, piece.get("id").and_then(Value::as_str).unwrap_or_default());
        let arguments = body(&piece).map(|(_, arguments)| arguments.to_owned()).unwrap_or_default();
        let call = &mut self.calls[at];
        merge(&mut call.fields, piece);
        if !call.told && body(&call.fields).is_some_and(|(name, _)| !name.is_empty()) {
            with_id(&mut call.fields);
            let name = body(&call.fields).map(|(name, _)| name).unwrap_or_default();
            ears.call(call.fields.get("id").and_then(Value::as_str).unwrap_or_default(), name);
            call.told = true;
            self.newest = at;
        }
        // A piece cannot say which call it belongs to, so only those of the newest are told.
        if at == self.newest {
            ears.words(&arguments, StreamPiece::Arguments);
        }
    }

    /// The place of a call. Some servers give every call the same index, but never the same id.
    fn slot(&mut self, index: Option<u64>, id: &str) -> usize {
        let is_same = |call: &Call| {
            let own = call.fields.get("id").and_then(Value::as_str).unwrap_or_default();
            let same_id = id.is_empty() || own.is_empty() || own == id;
            same_id && (index.is_none() || call.index == index)
        };
        if let Some(at) = self.calls.iter().rposition(is_same) {
            return at;
        }
        self.calls.push(Call { index, fields: Map::new(), told: false });
        self.calls.len() - 1
    }
}

/// The name and the arguments of a call.
fn body(call: &Map<String, Value>) -> Option<(&str, &str)> {
    let own = |kind: &str, arguments: &str| {
        let body = call.get(kind)?;
        Some((str_at(body, "name"), body.get(arguments).and_then(Value::as_str).unwrap_or_default()))
    };
    own("function", "arguments").or_else(|| own("custom", "input"))
}

/// Reads a response that came whole.
pub(super) fn whole(mut value: Value) -> Result<ModelAnswer, ModelError> {
    let usage = value.get("usage").and_then(Usage::of_openai);
    let Some(choice) = value.pointer_mut("/choices/0").map(Value::take) else {
        return Err(ModelError::Garbled("it holds no choice".into()));
    };
    let word = str_at(&choice, "finish_reason").to_owned();
    match choice.get("message") {
        Some(Value::Object(message)) => answer(message.clone(), &word, usage),
        _ => Err(ModelError::Garbled("its choice holds no message".into())),
    }
}

fn answer(message: Map<String, Value>, word: &str, usage: Option<Usage>) -> Result<ModelAnswer, ModelError> {
    let refuses = message.get("refusal").and_then(Value::as_str).is_some_and(|words| !words.is_empty());
    let finish = if refuses { Finish::Refusal } else { Finish::parse(word) };
    let message = Value::Object(tidied(message)).to_string();
    or_overflow(ModelAnswer::of(Dialect::Chat, vec![message], finish, usage), word)
}

/// A message as a request may hold it: no absent fields written out, no empty list of calls, calls with ids.
fn tidied(mut message: Map<String, Value>) -> Map<String, Value> {
    let calls = match message.shift_remove("tool_calls") {
        Some(Value::Array(calls)) => calls,
        _ => Vec::new(),
    };
    let role = message.shift_remove("role").filter(Value::is_string).unwrap_or_else(|| "assistant".into());
    let content = message.shift_remove("content").filter(|content| !content.is_null());
    let has_calls = !calls.is_empty() || message.get("function_call").is_some_and(Value::is_object);
    let mut tidy = Map::new();
    tidy.insert("role".into(), role);
    tidy.insert(
        "content".into(),
        match content {
            Some(Value::String(text)) if text.is_empty() && has_calls => Value::Null,
            Some(content) => content,
            None if has_calls => Value::Null,
            None => "".into(),
        },
    );
    tidy.extend(message.into_iter().filter(|(_, value)| !value.is_null()));
    if !calls.is_empty() {
        tidy.insert("tool_calls".into(), calls.into_iter().map(tidied_call).collect());
    }
    tidy
}

fn tidied_call(call: Value) -> Value {
    let Value::Object(mut call) = call else { return call };
    call.shift_remove("index");
    with_id(&mut call);
    if let Some(Value::Object(function)) = call.get_mut("function") {
        // A tool without parameters is called with nothing by some, and servers that read it again want an object.
        if function.get("arguments").is_none_or(|own| own.is_null() || own == "") {
            function.insert("arguments".into(), "{}".into());
        }
        call.entry("type").or_insert_with(|| "function".into());
    }
    Value::Object(call)
}

/// Gives a call an id where a local server gave none: its result has to name one.
fn with_id(call: &mut Map<String, Value>) {
    if call.get("id").and_then(Value::as_str).is_none_or(str::is_empty) {
        call.insert("id".into(), format!("call_{}", Uuid::now_v7().simple()).into());
    }
}
