//! Who writes the summary of a compaction: code alone, or a model that is asked and never relied on.
//!
//! A plan may be made several times until it fits; the same question is asked once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use epitome::budget::TokenCounter;
use epitome::plan::Draft;
use epitome::summary::{Dialogue, StructuredSummary};
use epitome::wire::Dialect;
use epitome_runtime::config::{Config, SecretSource};
use epitome_runtime::ids::TenantId;
use epitome_runtime::summarise::{ModelSummariser, NoSummary, Put, Spent, Summariser};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli;
use crate::desk;
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::settings::{Configured, Flags};

/// Who writes summaries.
pub struct Author<'a> {
    summariser: Summariser,
    /// Where a model is asked; none where none is.
    runtime: Option<Runtime>,
    progress: &'a Progress,
    heard: RefCell<HashMap<String, Result<StructuredSummary, NoSummary>>>,
}

/// Who wrote a summary.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// Nobody: nothing was summarised.
    Nobody,
    /// Code alone.
    Code,
    /// This model.
    Model(String),
    /// Code, because this model did not.
    Instead {
        /// The model.
        model: String,
        /// Why.
        why: NoSummary,
    },
}

impl<'a> Author<'a> {
    /// Who was asked for, on the command line or in the configuration.
    pub fn of(args: &cli::Author, config: Option<&Path>, progress: &'a Progress) -> Result<Author<'a>, Failure> {
        let mut configured = Configured::load(config, flags(args))?;
        if args.model_url.is_some() && args.summarizer_key_env.is_none() {
            configured.loaded.config.summarizer.key = usual_key(&configured);
        }
        let summariser = configured.config().summariser(&configured.environment)?;
        let runtime = summariser.model().map(|_| desk::runtime()).transpose()?;
        Ok(Author { summariser, runtime, progress, heard: RefCell::default() })
    }

    /// What a model writes for a draft, and who wrote; without a text, code does.
    pub fn write(
        &self,
        draft: &Draft<'_>,
        counter: &dyn TokenCounter,
    ) -> Result<(Option<StructuredSummary>, By), Failure> {
        let (Some(model), Some(runtime)) = (self.summariser.model(), &self.runtime) else {
            return Ok((None, By::code(draft)));
        };
        let name = model.id().to_owned();
        self.progress.now(format!("Asking {name} for a summary"));
        match self.heard(model, runtime, draft, counter) {
            None => Ok((None, By::Nobody)),
            Some(Ok(summary)) => Ok((Some(summary), By::Model(name))),
            Some(Err(why)) if self.summariser.may_fall_back() => Ok((None, By::Instead { model: name, why })),
            Some(Err(why)) => Err(not_written(&name, &why)),
        }
    }

    /// What the model says; questions that are too long for it are made smaller. `None` when there is nothing to ask.
    fn heard(
        &self,
        model: &ModelSummariser,
        runtime: &Runtime,
        draft: &Draft<'_>,
        counter: &dyn TokenCounter,
    ) -> Option<Result<StructuredSummary, NoSummary>> {
        let mut smaller = 0;
        loop {
            let dialogue = model.dialogue(draft, &Put::Transcript, None, smaller)?;
            match self.answer(model, runtime, dialogue, counter) {
                Err(why) if why.reason == "too-long" && smaller < model.smaller_max() => smaller += 1,
                answer => return Some(answer),
            }
        }
    }

    fn answer(
        &self,
        model: &ModelSummariser,
        runtime: &Runtime,
        dialogue: Dialogue,
        counter: &dyn TokenCounter,
    ) -> Result<StructuredSummary, NoSummary> {
        let key = dialogue.request().cache_key.to_string();
        if let Some(known) = self.heard.borrow().get(&key) {
            return known.clone();
        }
        let prose =
            runtime.block_on(model.ask(&TenantId::local(), dialogue, &Put::Transcript, counter, &Spent::default()));
        let answer = prose.map(|prose| prose.summary);
        self.heard.borrow_mut().insert(key, answer.clone());
        answer
    }
}

/// The options as settings. What names a model asks one.
fn flags(args: &cli::Author) -> Flags {
    let names_a_model = args.model_url.is_some()
        || args.summarizer_model.is_some()
        || args.summarizer_dialect.is_some()
        || args.summarizer_key_env.is_some();
    let implied = names_a_model.then(|| "model-with-fallback".to_owned());
    Flags::default()
        // No store is needed, so none has to have a place.
        .with("store.url", Some("memory:"))
        .with("summarizer.kind", args.summarizer.clone().or(implied))
        .with("summarizer.url", args.model_url.as_ref())
        .with("summarizer.name", args.summarizer_model.as_ref())
        .with("summarizer.dialect", args.summarizer_dialect.as_ref())
        .with("summarizer.key", args.summarizer_key_env.as_ref().map(|name| format!("env:{name}")))
        .with("summarizer.timeout_s", args.summarizer_timeout)
}

/// The variable in which the key of a dialect's provider usually is, if it is set. Only for an address that was typed:
/// a configured key goes nowhere else, and a file in a strange folder gets none.
fn usual_key(configured: &Configured) -> Option<SecretSource> {
    let Config { summarizer, model, .. } = configured.config();
    let name = match summarizer.dialect.unwrap_or(model.dialect) {
        Dialect::Anthropic => "ANTHROPIC_API_KEY",
        _ => "OPENAI_API_KEY",
    };
    let is_set = configured.environment.get(name).is_some_and(|key| !key.trim().is_empty());
    is_set.then(|| SecretSource::Environment(name.to_owned()))
}

fn not_written(model: &str, why: &NoSummary) -> Failure {
    Failure::new(Exit::CannotFit, format!("The model {model} wrote no summary that can be used: {}.", why.details))
        .hint("Nothing was written. `--summarizer model-with-fallback` goes on without the model.")
        .facts(json!({"model": model, "reason": why.reason}))
}

impl By {
    /// Code, if a draft has anything to summarise.
    pub fn code(draft: &Draft<'_>) -> By {
        if draft.pending().is_some() { By::Code } else { By::Nobody }
    }

    /// Who wrote, for people; nothing where nobody did.
    pub fn text(&self) -> String {
        match self {
            By::Nobody => String::new(),
            By::Code => "; summary by epitome itself".to_owned(),
            By::Model(model) => format!("; summary by {model}"),
            By::Instead { model, .. } => format!("; summary by epitome itself, not by {model}"),
        }
    }

    /// Why the model did not write, for people.
    pub fn excuse(&self) -> Option<String> {
        match self {
            By::Instead { model, why } => Some(format!("The summary of {model} was not used: {}.", why.details)),
            _ => None,
        }
    }

    /// It for programs.
    pub fn json(&self) -> Value {
        match self {
            By::Nobody => Value::Null,
            By::Code => json!({"by": "embedded"}),
            By::Model(model) => json!({"by": "model", "model": model}),
            By::Instead { model, why } => {
                json!({"by": "embedded", "model": model, "reason": why.reason, "details": why.details})
            }
        }
    }
}
