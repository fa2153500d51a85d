//! The meter: a counter together with what the provider adds to each message.

use super::{TokenCounter, Tokens};
use crate::thread::{NewMessage, Part, ToolResult};

/// Texts below this size are not worth a second thread.
const PARALLEL_BYTES_MIN: usize = 256 * 1024;

/// Counts messages as a provider would bill them.
#[derive(Clone, Copy)]
pub struct Meter<'a> {
    counter: &'a dyn TokenCounter,
    per_message: Tokens,
    per_call: Tokens,
}

impl<'a> Meter<'a> {
    /// A meter with the usual overhead: four tokens for a message, eight for a tool call.
    pub fn new(counter: &'a dyn TokenCounter) -> Self {
        Meter { counter, per_message: Tokens::new(4), per_call: Tokens::new(8) }
    }

    /// The counter inside.
    pub fn counter(&self) -> &'a dyn TokenCounter {
        self.counter
    }

    /// The tokens of a text on its own.
    pub fn text(&self, text: &str) -> Tokens {
        self.counter.count(text)
    }

    /// The tokens of a message that holds nothing but a text.
    pub fn text_message(&self, text: &str) -> Tokens {
        self.per_message + self.text(text)
    }

    /// The tokens of a message whose parts are counted.
    pub fn message(&self, parts: &[Tokens]) -> Tokens {
        self.per_message + parts.iter().copied().sum()
    }

    /// The tokens of each part of a message.
    pub fn parts(&self, message: &NewMessage) -> Vec<Tokens> {
        message.parts.iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: &Part) -> Tokens {
        match part {
            Part::Text(text) => self.text(text),
            Part::Image(image) => image.tokens,
            Part::Reasoning(reasoning) => self.text(&reasoning.text),
            Part::ToolCall(call) => self.per_call + self.text(&call.name) + self.text(&call.arguments),
            Part::ToolResult(result) => self.result(result),
            Part::Opaque(opaque) => self.text(opaque.json.as_str()),
        }
    }

    fn result(&self, result: &ToolResult) -> Tokens {
        self.text(&result.text) + result.images.iter().map(|image| image.tokens).sum()
    }

    /// The tokens of each part of many messages, counted on as many threads as help.
    pub fn parts_of_all(&self, messages: &[NewMessage]) -> Vec<Vec<Tokens>> {
        let bytes: usize = messages.iter().map(|message| message.raw.len()).sum();
        if bytes < PARALLEL_BYTES_MIN {
            return messages.iter().map(|message| self.parts(message)).collect();
        }
        let middle = half_by_bytes(messages, bytes);
        let (left, right) = messages.split_at(middle);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| right.iter().map(|message| self.parts(message)).collect::<Vec<_>>());
            let mut counts: Vec<Vec<Tokens>> = left.iter().map(|message| self.parts(message)).collect();
            counts.extend(other.join().expect("counting does not panic"));
            counts
        })
    }
}

fn half_by_bytes(messages: &[NewMessage], bytes: usize) -> usize {
    let mut seen = 0;
    messages.iter().position(|message| {
        seen += message.raw.len();
        seen * 2 >= bytes
    })
    .map_or(0, |at| at + 1)
}
