//! Models: whoever answers a prompt. Real ones speak a dialect over HTTP; the scripted one answers from a file.

mod answer;
mod assembly;
mod body;
mod breaker;
mod embeddings;
mod endpoint;
mod error;
mod http;
mod learn;
mod overflow_retry;
mod protocol;
mod refusal;
mod retry;
mod scripted;
mod secret;

pub use assembly::AnswerReader;
pub use breaker::{BreakerSettings, CallPermit, CircuitBreaker, EndpointHealth};
pub use embeddings::{EmbeddingSettings, Embeddings};
pub use endpoint::{Endpoint, EndpointError, Timeouts};
pub use error::ModelError;
pub use http::HttpModel;
pub use learn::{
    LEARNED_FOR, LEARNED_WINDOW_MIN, LESSONS_MAX, LearnedWindow, LessonBook, ModelLesson, ServedModel, believable_limit,
};
pub use overflow_retry::OverflowRetry;
pub use refusal::read_refusal;
pub use retry::Retry;
pub use scripted::{ScriptError, Scripted};
pub use secret::{NoSecret, Secret};

use std::fmt;

use async_trait::async_trait;
use epitome::budget::Tokens;
use epitome::summary::Finish;
use epitome::thread::ToolCall;
use epitome::wire::Dialect;
use serde::{Deserialize, Serialize};
use tracing::Instrument as _;

use crate::event::spans::{self, CallPurpose};
use crate::ids::ThreadId;

/// A model that answers prompts. Dropping the future aborts the call.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// The model's id, as its provider spells it.
    fn id(&self) -> &str;

    /// The address of whoever serves it; empty where there is none. What is learned of the model is learned of it there.
    fn upstream(&self) -> &str {
        ""
    }

    /// The dialect it is spoken to in.
    fn dialect(&self) -> Dialect;

    /// Answers a prompt; `hear` is told of pieces as they come when the prompt wants a stream.
    async fn answer(&self, prompt: &ModelPrompt, hear: &mut Hear<'_>) -> Result<ModelAnswer, ModelError>;
}

/// Asks a model within a span that says how long it took, what it cost and how it ended.
pub async fn answer_traced(
    model: &dyn Model,
    purpose: CallPurpose,
    thread: Option<&ThreadId>,
    prompt: &ModelPrompt,
    hear: &mut Hear<'_>,
) -> Result<ModelAnswer, ModelError> {
    let provider = if model.dialect() == Dialect::Anthropic { "anthropic" } else { "openai" };
    let span = spans::chat(purpose, provider, model.id(), thread);
    let answer = model.answer(prompt, hear).instrument(span.clone()).await;
    match &answer {
        Ok(answer) => spans::record_answer(&span, answer),
        Err(error) => spans::record_error(&span, error),
    }
    answer
}

/// Told of each piece of an answer as it comes.
pub type Hear<'a> = dyn FnMut(&StreamPiece) + Send + 'a;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamPiece {
    /// Some more text.
    Text(String),
    /// Some more reasoning.
    Reasoning(String),
    /// A call begins.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// Some more of the arguments of the newest call.
    Arguments(String),
}

impl StreamPiece {
    /// The bytes of what it says.
    pub fn bytes(&self) -> usize {
        match self {
            StreamPiece::Text(text) | StreamPiece::Reasoning(text) | StreamPiece::Arguments(text) => text.len(),
            StreamPiece::Call { name, .. } => name.len(),
        }
    }
}

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelPrompt {
    /// The system prompt beside the messages, as JSON: a string, or what the dialect has there.
    pub system: Option<String>,
    /// The messages, each as JSON of the dialect.
    pub messages: Vec<String>,
    /// The tool schemas, as a JSON list of the dialect.
    pub tools: Option<String>,
    /// The most tokens of the answer.
    pub max_output: Option<Tokens>,
    /// Fields of the request besides: temperature, thinking, cache settings. They are sent as they are.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// True if the answer comes in pieces.
    pub stream: bool,
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The answer as messages of the dialect, each as JSON, ready to be appended to the thread.
    pub messages: Vec<String>,
    /// Its words.
    pub text: String,
    /// The tools it calls.
    pub calls: Vec<ToolCall>,
    /// The way it ended.
    pub finish: Finish,
    /// The usage that the provider reported.
    pub usage: Option<Usage>,
    /// The provider's id of the answer, where a request can continue from it.
    pub id: Option<String>,
}

/// The usage of a call, as the provider reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The whole prompt, cached or not.
    pub input: u64,
    /// The input tokens that were read from the cache.
    pub cached: u64,
    /// The input tokens that were written to the cache.
    pub written: u64,
    /// The answer.
    pub output: u64,
}
