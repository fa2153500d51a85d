//! A reader of answers for whoever holds the stream itself and forwards what it reads.

use epitome::wire::Dialect;

use super::{Assembly, Ears, StreamEvent, whole};
use crate::model::protocol::Protocol;
use crate::model::{Hear, ModelAnswer, ModelError, Usage};

/// Puts an answer together from the events of its stream.
#[derive(Debug)]
pub struct AnswerReader(Assembly);

impl AnswerReader {
    /// A reader of a dialect; nothing for one that no provider speaks.
    pub fn new(dialect: Dialect) -> Option<Self> {
        Some(AnswerReader(Assembly::new(Protocol::of(dialect)?)))
    }

    /// Takes the next event; the error that it is, where it is one.
    pub fn take(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        self.hear(name, data, &mut |_| {})
    }

    /// Takes the next event and tells what it says.
    pub fn hear(&mut self, name: &str, data: &str, hear: &mut Hear<'_>) -> Result<(), ModelError> {
        self.0.take(StreamEvent { name, data }, &mut Ears::new(hear)).map(|_| ())
    }

    /// Tells whether nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether the answer is complete, whatever becomes of the rest of the stream.
    pub fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// Returns the usage that was reported so far: by some providers before the first word, by most with the last.
    pub fn usage(&self) -> Option<Usage> {
        self.0.usage()
    }

    /// The answer, at the end of the stream.
    pub fn finish(self) -> Result<ModelAnswer, ModelError> {
        self.0.finish()
    }

    /// Reads an answer that came whole; nothing in a dialect that no provider speaks.
    pub fn read(dialect: Dialect, body: &str) -> Option<Result<ModelAnswer, ModelError>> {
        Some(whole(Protocol::of(dialect)?, body))
    }
}
