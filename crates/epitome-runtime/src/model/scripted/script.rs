//! The script's form: what a file may say, read once. `docs/scripted-model.md` tells it to people.

use std::time::Duration;

use epitome::summary::Finish;
use epitome::wire::Dialect;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::refusal::refused;
use crate::model::{ModelError, Usage};

/// A script that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script {path} cannot be read: {reason}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
    /// It is not a script.
    #[error("the script is not in the form of docs/scripted-model.md: {0}")]
    Form(String),
    /// Nobody speaks its dialect.
    #[error("a scripted model speaks chat, responses or anthropic, not {0}")]
    Dialect(Dialect),
}

/// A script: what a model is and what it answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    #[serde(default = "unnamed")]
    pub(super) model: String,
    #[serde(default = "chat")]
    pub(super) dialect: String,
    pub(super) window: Option<u64>,
    #[serde(default, rename = "answer")]
    pub(super) answers: Vec<Line>,
}

fn unnamed() -> String {
    "scripted".into()
}

fn chat() -> String {
    Dialect::Chat.name().into()
}

impl Script {
    pub(super) fn parse(text: &str) -> Result<Self, ScriptError> {
        let form = ScriptError::Form;
        let script: Script = toml::from_str(text).map_err(|error| form(error.to_string()))?;
        match script.answers.iter().position(|line| line.text.is_some() && line.json.is_some()) {
            Some(at) => Err(form(format!("answer {} has both text and json; one of them is the answer", at + 1))),
            None => Ok(script),
        }
    }

    pub(super) fn dialect(&self) -> Result<Dialect, ScriptError> {
        self.dialect.parse().map_err(ScriptError::Form)
    }
}

/// Which prompts an answer is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Purpose {
    /// Those of an agent.
    #[default]
    Turn,
    /// Those that ask for a summary.
    Summary,
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Line {
    #[serde(rename = "for")]
    pub(super) purpose: Purpose,
    when: Option<String>,
    when_last: Option<String>,
    pub(super) repeat: bool,
    text: Option<String>,
    json: Option<Value>,
    pub(super) reasoning: Option<String>,
    pub(super) calls: Vec<Call>,
    finish: Option<String>,
    pub(super) usage: Option<Usage>,
    delay_ms: u64,
    word_ms: u64,
    pub(super) error: Option<Mishap>,
}

/// A tool call of an answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    #[serde(default = "no_arguments")]
    pub(super) arguments: Value,
}

fn no_arguments() -> Value {
    json!({})
}

impl Line {
    /// Tells whether it answers a prompt, of which all words and those of the last message are given.
    pub(super) fn answers(&self, purpose: Purpose, all: &str, last: &str) -> bool {
        let stands = |words: &Option<String>, text: &str| words.as_ref().is_none_or(|words| text.contains(words));
        self.purpose == purpose && stands(&self.when, all) && stands(&self.when_last, last)
    }

    pub(super) fn words(&self) -> String {
        match (&self.text, &self.json) {
            (Some(text), _) => text.clone(),
            (None, Some(json)) => json.to_string(),
            (None, None) => String::new(),
        }
    }

    pub(super) fn finish(&self) -> Finish {
        self.finish.as_deref().map_or(Finish::Stop, Finish::parse)
    }

    pub(super) fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms)
    }

    pub(super) fn between_words(&self) -> Duration {
        Duration::from_millis(self.word_ms)
    }
}

/// A fault that a script plays instead of an answer, or after the beginning of one.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Mishap {
    /// A response with a bad status.
    Status { status: u16, message: Option<String>, body: Option<String>, after_ms: Option<u64> },
    /// Nobody is there.
    Unreachable { message: Option<String> },
    /// It takes too long.
    TimedOut { within_ms: u64 },
    /// The response makes no sense.
    Garbled { message: Option<String> },
}

impl Mishap {
    /// The error a client would make of it.
    pub(super) fn error(&self) -> ModelError {
        let words = |message: &Option<String>| message.clone().unwrap_or_else(|| "the script says so".into());
        match self {
            Mishap::Status { status, message, body, after_ms } => {
                let body = body.clone().unwrap_or_else(|| json!({"error": {"message": words(message)}}).to_string());
                refused(*status, after_ms.map(Duration::from_millis), &body)
            }
            Mishap::Unreachable { message } => ModelError::Unreachable(words(message)),
            Mishap::TimedOut { within_ms } => {
                ModelError::TimedOut("finish its answer", Duration::from_millis(*within_ms))
            }
            Mishap::Garbled { message } => ModelError::Garbled(words(message)),
        }
    }
}
