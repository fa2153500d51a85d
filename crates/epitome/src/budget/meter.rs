//! The meter: a counter together with what the provider adds to each message.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{ImageDetail, ImageRule, Overhead, TokenCounter, Tokens};
use crate::thread::{Image, NewMessage, Part, ToolResult};
use crate::wire::Dialect;

/// Texts below this size are not worth a second thread.
const PARALLEL_BYTES_MIN: usize = 256 * 1024;

/// Counts messages as a provider would bill them.
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
    pub fn text_result(&self, text: &str) -> Tokens {
        self.overhead.per_result + self.text(text)
    }

    /// The tokens of a message whose parts are counted.
    pub fn message(&self, parts: &[Tokens]) -> Tokens {
        self.overhead.per_message + parts.iter().copied().sum()
    }

    /// The tokens of each part of a message.
    pub fn parts(&self, message: &NewMessage) -> Vec<Tokens> {
        message.parts.iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: &Part) -> Tokens {
        match part {
            Part::Text(text) => self.text(text),
            Part::Image(image) => self.image(image),
            Part::Reasoning(reasoning) => self.text(&reasoning.text),
            Part::ToolCall(call) => self.overhead.per_call + self.text(&call.name) + self.text(&call.arguments),
            Part::ToolResult(result) => self.result(result),
            Part::Opaque(opaque) => self.text(opaque.json.as_str()),
        }
    }

    fn result(&self, result: &ToolResult) -> Tokens {
        let images = result.images.iter().map(|image| self.image(image)).sum();
        self.overhead.per_result + self.text(&result.text) + images
    }

    fn image(&self, image: &Image) -> Tokens {
        self.images.tokens(image.size, ImageDetail::High)
    }

    /// The tokens of each part of many messages, counted on as many threads as help.
    pub fn parts_of_all(&self, messages: &[NewMessage]) -> Vec<Vec<Tokens>> {
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
