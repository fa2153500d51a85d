//! The meter: a counter together with what the provider adds to each message.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::media::{fixed_tokens, opaque_tokens};
use super::{Count, FixedOverhead, ImageRule, Overhead, TokenCounter, Tokens};
use crate::message::{Media, NewMessage, Part, Raw, ResultForm, ToolResult};
use crate::wire::{Dialect, decode_message};

/// Texts below this size are not worth a second thread.
const PARALLEL_BYTES_MIN: usize = 256 * 1024;

/// The words of a block of a system prompt.
fn block_text(block: &Value) -> Option<&str> {
    block.get("text").and_then(Value::as_str).filter(|_| block.get("role").is_none())
}

/// Counts messages as a provider would bill them: a counter for text, with what a dialect adds around it.
///
/// It has no state and is made anew wherever it is needed. A thread is counted with one meter for its whole life; another
/// counter or dialect later would compare stand-ins in one measure with messages in another, and a rung would keep what it
/// should replace.
#[derive(Clone, Copy)]
pub struct Meter<'a> {
    counter: &'a dyn TokenCounter,
    dialect: Dialect,
    overhead: Overhead,
    images: ImageRule,
}

impl<'a> Meter<'a> {
    /// A meter for messages of a dialect.
    pub fn new(counter: &'a dyn TokenCounter, dialect: Dialect) -> Self {
        let images = if dialect == Dialect::Anthropic { ImageRule::Anthropic } else { ImageRule::OpenAi };
        Meter { counter, dialect, overhead: Overhead::of(dialect), images }
    }

    /// The counter inside.
    pub fn counter(&self) -> &'a dyn TokenCounter {
        self.counter
    }

    /// The dialect whose messages it counts.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The tokens of a text on its own.
    pub fn text(&self, text: &str) -> Tokens {
        self.counter.count(text)
    }

    /// The tokens of a message that holds nothing but a text.
    pub fn text_message(&self, text: &str) -> Tokens {
        self.overhead.per_message + self.text(text)
    }

    /// The tokens of a tool result that holds nothing but a text.
    pub(crate) fn text_result(&self, text: &str) -> Tokens {
        self.overhead.per_result + self.text(text)
    }

    /// The tokens of a message whose parts are counted.
    pub fn message(&self, parts: &[Tokens]) -> Tokens {
        self.overhead.per_message + parts.iter().copied().sum()
    }

    /// The tokens of a request that are not its messages. Everybody who tells a request's size adds these to the tokens of
    /// its messages, so that it has one size. `system` and `tools` are JSON as the request has them; messages that stand
    /// before the thread may follow the system prompt in a list.
    pub fn fixed(&self, system: Option<&str>, tools: Option<&str>) -> FixedOverhead {
        let system = system.map_or(Tokens::ZERO, |json| match serde_json::from_str::<Value>(json) {
            Ok(value) => self.system(&value),
            Err(_) => self.overhead.system_prompt(self.counter, [json]),
        });
        let tools = tools.and_then(|json| serde_json::from_str::<Vec<Value>>(json).ok()).unwrap_or_default();
        let tools = self.overhead.tool_schemas(self.counter, &tools);
        FixedOverhead { system, tools, reply: self.overhead.reply }
    }

    fn system(&self, value: &Value) -> Tokens {
        match value {
            Value::Null => Tokens::ZERO,
            Value::String(text) => self.overhead.system_prompt(self.counter, [text.as_str()]),
            Value::Array(items) => {
                let texts = items.iter().filter_map(block_text);
                let others = items.iter().filter(|item| block_text(item).is_none());
                self.overhead.system_prompt(self.counter, texts) + others.map(|item| self.system(item)).sum()
            }
            message => self.count(&decode_message(self.dialect, &Raw::whole(message.to_string()))),
        }
    }

    /// The tokens of a message.
    pub fn count(&self, message: &NewMessage) -> Tokens {
        self.message(&self.parts(message))
    }

    /// The tokens of each part of a message.
    pub fn parts(&self, message: &NewMessage) -> Vec<Tokens> {
        message.parts.iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: &Part) -> Tokens {
        match part {
            Part::Text(text) => self.text(text),
            Part::Media(media) => self.media(media).tokens,
            Part::Reasoning(reasoning) => self.text(&reasoning.text),
            Part::ToolCall(call) => self.overhead.per_call + self.text(&call.name) + self.text(&call.arguments),
            Part::ToolResult(result) => self.result(result),
            Part::Opaque(opaque) => opaque_tokens(opaque.json.as_str(), self.counter),
        }
    }

    fn result(&self, result: &ToolResult) -> Tokens {
        let text = match result.form {
            ResultForm::Words => self.text(&result.text),
            ResultForm::Fixed => fixed_tokens(&result.text, self.counter),
        };
        self.overhead.per_result + text + self.media_of(result)
    }

    /// The tokens of media, and whether they are exact or estimated.
    pub fn media(&self, media: &Media) -> Count {
        self.images.count(media, self.counter)
    }
    pub(crate) fn media_of(&self, result: &ToolResult) -> Tokens {
        result.media.iter().map(|media| self.media(media).tokens).sum()
    }

    /// The tokens of each part of many messages, counted on as many threads as help.
    pub(crate) fn parts_of_all(&self, messages: &[NewMessage]) -> Vec<Vec<Tokens>> {
        let bytes: usize = messages.iter().map(|message| message.raw.len()).sum();
        if bytes < PARALLEL_BYTES_MIN {
            return messages.iter().map(|message| self.parts(message)).collect();
        }
        // One thread counts from the front and one from the back; they meet where they meet.
        let taken = AtomicUsize::new(0);
        let may_go_on = |_: &&NewMessage| taken.fetch_add(1, Ordering::Relaxed) < messages.len();
        std::thread::scope(|scope| {
            let back = messages.iter().rev().take_while(may_go_on).map(|message| self.parts(message));
            let back = scope.spawn(|| back.collect::<Vec<_>>());
            let front = messages.iter().take_while(may_go_on).map(|message| self.parts(message));
            let mut counts: Vec<Vec<Tokens>> = front.collect();
            counts.extend(back.join().expect("counting does not panic").into_iter().rev());
            counts
        })
    }
}
