//! Messages: content blocks, each put together from its deltas and kept with its signature.

use epitome::summary::Finish;
use epitome::wire::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::merge::merge;
use super::{Ears, Flow, StreamEvent, garbled, or_overflow, str_at};
use crate::model::{ModelAnswer, ModelError, StreamPiece, Usage};

/// A message in the making.
#[derive(Debug, Default)]
pub(in crate::model) struct AnthropicAssembly {
    blocks: Vec<(u64, Block)>,
    any: bool,
    stop: Option<String>,
    done: bool,
    usage: Map<String, Value>,
}

#[derive(Debug, Default)]
struct Block {
    fields: Map<String, Value>,
    /// The text of the `input`, where it comes in pieces.
    input: String,
}

impl AnthropicAssembly {
    pub(super) fn take(&mut self, event: StreamEvent<'_>, ears: &mut Ears<'_, '_>) -> Result<Flow, ModelError> {
        let mut value = event.value()?;
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(event.name).to_owned();
        self.any |= kind != "ping";
        let index = value.get("index").and_then(Value::as_u64).unwrap_or_default();
        match kind.as_str() {
            "message_start" => self.count(value.pointer("/message/usage")),
            "content_block_start" => self.start(index, value.get_mut("content_block").map(Value::take), ears),
            "content_block_delta" => self.delta(index, value.get_mut("delta").map(Value::take), ears),
            "message_delta" => {
                self.count(value.get("usage"));
                self.stop =
                    value.pointer("/delta/stop_reason").and_then(Value::as_str).map(str::to_owned).or(self.stop.take());
            }
            "message_stop" => {
                self.done = true;
                return Ok(Flow::Done);
            }
            _ => {}
        }
        Ok(Flow::On)
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        Usage::of_anthropic(&Value::Object(self.usage.clone()))
    }

    pub(super) fn is_whole(&self) -> bool {
        self.done || self.stop.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any
    }

    pub(super) fn finish(mut self) -> Result<ModelAnswer, ModelError> {
        self.blocks.sort_by_key(|(index, _)| *index);
        let word = self.stop.unwrap_or_default();
        let cut = Finish::parse(&word) == Finish::Length;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (_, block) in self.blocks {
            match block.written() {
                Ok(json) => blocks.push(json),
                // The limit of the output fell into a call. Nobody may perform half of one.
                Err(_) if cut => {}
                Err(error) => return Err(garbled("the input of a call is not JSON", &error)),
            }
        }
        answer(blocks, &word, Usage::of_anthropic(&Value::Object(self.usage)))
    }

    /// Counts are totals so far: the newest of a name counts.
    fn count(&mut self, usage: Option<&Value>) {
        let fields = usage.and_then(Value::as_object).into_iter().flatten();
        self.usage
            .extend(fields.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone())));
    }

    fn start(&mut self, index: u64, block: Option<Value>, ears: &mut Ears<'_, '_>) {
        let Some(Value::Object(fields)) = block else { return };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => ears.words(text("text"), StreamPiece::Text),
            "thinking" => ears.words(text("thinking"), StreamPiece::Reasoning),
            "tool_use" => ears.call(text("id"), text("name")),
            _ => {}
        }
        self.blocks.push((index, Block { fields, input: String::new() }));
    }

    fn delta(&mut self, index: u64, delta: Option<Value>, ears: &mut Ears<'_, '_>) {
        let Some(Value::Object(mut delta)) = delta else { return };
        let Some((_, block)) = self.blocks.iter_mut().rev().find(|(own, _)| *own == index) else { return };
        let is_own = block.fields.get("type").and_then(Value::as_str) == Some("tool_use");
        let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "input_json_delta" => {
                block.input.push_str(text("partial_json"));
                if is_own {
                    ears.words(text("partial_json"), StreamPiece::Arguments);
                }
                return;
            }
            "citations_delta" => {
                let citation = delta.shift_remove("citation").into_iter().collect();
                delta = Map::from_iter([("citations".to_owned(), Value::Array(citation))]);
            }
            "text_delta" => ears.words(text("text"), StreamPiece::Text),
            "thinking_delta" => ears.words(text("thinking"), StreamPiece::Reasoning),
            _ => {}
        }
        // Whatever else a delta has continues the block's field of that name.
        delta.shift_remove("type");
        merge(&mut block.fields, delta);
    }
}

impl Block {
    /// The block as JSON. An input that came in pieces is kept letter for letter.
    fn written(self) -> Result<String, serde_json::Error> {
        if self.input.trim().is_empty() {
            return Ok(Value::Object(self.fields).to_string());
        }
        let input: Box<RawValue> = serde_json::from_str(&self.input)?;
        let field = |(name, value): (String, Value)| {
            let value = if name == "input" { input.get().to_owned() } else { value.to_string() };
            format!("{}:{value}", Value::String(name))
        };
        let mut fields = self.fields;
        fields.entry("input").or_insert(Value::Null);
        Ok(format!("{{{}}}", fields.into_iter().map(field).collect::<Vec<_>>().join(",")))
    }
}

/// A message, as far as it is read.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    stop_reason: Option<String>,
    usage: Option<Value>,
}

/// Reads a message that came whole.
pub(super) fn whole(body: &str) -> Result<ModelAnswer, ModelError> {
    let message: Message<'_> = serde_json::from_str(body).map_err(|error| garbled("it is no message", &error))?;
    let blocks = message.content.iter().map(|block| block.get().to_owned()).collect();
    let usage = message.usage.as_ref().and_then(Usage::of_anthropic);
    answer(blocks, &message.stop_reason.unwrap_or_default(), usage)
}

fn answer(blocks: Vec<String>, word: &str, usage: Option<Usage>) -> Result<ModelAnswer, ModelError> {
    let kept: Vec<String> = blocks.into_iter().filter(|block| !is_empty_text(block)).collect();
    let message = (!kept.is_empty()).then(|| format!(r#"{{"role":"assistant","content":[{}]}}"#, kept.join(",")));
    let messages = message.into_iter().collect();
    or_overflow(ModelAnswer::of(Dialect::Anthropic, messages, Finish::parse(word), usage), word)
}

/// Tells whether a block is one that the provider sends but does not take back.
fn is_empty_text(block: &str) -> bool {
    let block: Value = serde_json::from_str(block).unwrap_or_default();
    str_at(&block, "type") == "text" && str_at(&block, "text").trim().is_empty()
}
