//! Models over real sockets: the client against a small server of ours on the loopback, and against a real model.
#![allow(clippy::unwrap_used)]

mod abort;
mod again;
mod answers;
mod embeddings;
mod real;
mod refusals;
mod scripted;
mod secrets;
mod server;

use std::time::Duration;

use epitome::wire::{Dialect, Voice, say};
use epitome_runtime::model::{
    BreakerSettings, Endpoint, HttpModel, Model, ModelAnswer, ModelError, ModelPrompt, Retry, StreamPiece, Timeouts,
};

/// The dialects that are spoken.
const SPOKEN: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

/// Whether an answer is wanted in pieces.
const WAYS: [bool; 2] = [false, true];

/// An endpoint that is asked once, and waits no longer than a test should take.
fn endpoint(url: &str, dialect: Dialect) -> Endpoint {
    let long = Duration::from_secs(60);
    Endpoint {
        retry: Retry::never(),
        timeouts: Timeouts { connect: long, first_byte: long, idle: long, whole: long },
        trip: BreakerSettings { failures: u32::MAX, ..BreakerSettings::default() },
        ..Endpoint::new(url, dialect, "m")
    }
}

fn model(url: &str, dialect: Dialect) -> HttpModel {
    HttpModel::new(endpoint(url, dialect)).unwrap()
}

fn prompt(dialect: Dialect, text: &str, stream: bool) -> ModelPrompt {
    ModelPrompt { messages: vec![say(dialect, Voice::User, text)], stream, ..ModelPrompt::default() }
}

/// Asks, and keeps what was heard.
async fn ask(model: &dyn Model, prompt: &ModelPrompt) -> (Result<ModelAnswer, ModelError>, Vec<StreamPiece>) {
    let mut heard = Vec::new();
    let answer = model.answer(prompt, &mut |piece| heard.push(piece.clone())).await;
    (answer, heard)
}
