//! Listening in: an answer that passes by on its way to somebody else, understood without being touched.

use epitome::wire::Dialect;

use super::assembly::{Assembly, Ears, Flow, StreamEvent, whole};
use super::protocol::Protocol;
use super::refusal::refused;
use super::{Hear, ModelAnswer, ModelError};

/// Listens to the events of a stream.
#[derive(Debug)]
pub struct Listener {
    assembly: Assembly,
}

impl Listener {
    /// Listens to a dialect; `None` where it is never streamed.
    pub fn new(dialect: Dialect) -> Option<Self> {
        Some(Listener { assembly: Assembly::new(Protocol::of(dialect)?) })
    }

    /// Takes the next event; `hear` is told what it says. Answers whether the answer is complete.
    pub fn event(&mut self, name: &str, data: &str, hear: &mut Hear<'_>) -> Result<bool, ModelError> {
        let mut ears = Ears::new(hear);
        Ok(self.assembly.take(StreamEvent { name, data }, &mut ears)? == Flow::Done)
    }

    /// Whether nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.assembly.is_empty()
    }

    /// The answer, at the end of the stream. Half an answer is an error.
    pub fn finish(self) -> Result<ModelAnswer, ModelError> {
        self.assembly.finish()
    }
}

/// Reads an answer that came whole.
pub fn read_answer(dialect: Dialect, body: &str) -> Result<ModelAnswer, ModelError> {
    let protocol = Protocol::of(dialect)
        .ok_or_else(|| ModelError::Garbled { reason: "nobody answers in this dialect".to_owned() })?;
    whole(protocol, body)
}

/// Reads a response with a bad status.
pub fn read_refusal(status: u16, body: &str) -> ModelError {
    refused(status, None, body)
}
