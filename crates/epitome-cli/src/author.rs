//! Who writes the summary of a compaction: code alone, or a model that is asked and never relied on.
//!
//! A plan may be made several times until it fits; the same question is asked once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write as _;

use epitome::Fitted;
use epitome::budget::TokenCounter;
use epitome::plan::{Action, Record};
use epitome::planner::{Draft, Planner};
use epitome::summary::{Dialogue, StructuredSummary};
use epitome::wire::Dialect;
use epitome_runtime::config::{Config, SecretSource};
use epitome_runtime::ids::TenantId;
use epitome_runtime::summarize::{ModelSummarizer, NoSummary, QuestionForm, Summarizer, SummaryUsage};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli;
use crate::failure::{Exit, Failure};
use crate::open_store;
use crate::progress::Progress;
use crate::settings::{Configured, Flags};

/// Who writes summaries.
pub struct Author<'a> {
    summarizer: Summarizer,
    /// The model's host; none where no model is asked.
    host: Option<String>,
    /// Where a model is asked; none where none is.
    runtime: Option<Runtime>,
    call: Call,
    progress: &'a Progress,
    heard: RefCell<HashMap<String, Result<StructuredSummary, NoSummary>>>,
}

/// Whether a model may be called at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It is called when a summary is to be written.
    Allowed,
    /// A dry run calls nobody: code writes, and the receipt names who would have been called.
    DryRun,
}

/// A model, and where it is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Writer {
    /// The model's name.
    pub model: String,
    /// The host it is called at.
    pub host: String,
}

/// Who wrote a summary.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// Nobody: nothing was summarized.
    Nobody,
    /// Code alone.
    Code,
    /// This model.
    Model(Writer),
    /// Code, because this model did not.
    Instead {
        /// The model.
        writer: Writer,
        /// Why.
        why: NoSummary,
    },
    /// Code, because a dry run does not call this model.
    DryRun(Writer),
}

impl std::fmt::Display for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.model, self.host)
    }
}

impl<'a> Author<'a> {
    /// Who was asked for, on the command line or in the configuration.
    pub fn of(
        mut configured: Configured,
        args: &cli::Author,
        call: Call,
        progress: &'a Progress,
    ) -> Result<Self, Failure> {
        if args.model_url.is_some() && args.summarizer_key_env.is_none() {
            configured.loaded.config.0.summarizer.key = usual_key(&configured);
        }
        let summarizer = configured.config().summarizer(&configured.environment)?;
        let host = configured.config().summarizer_model().map(|known| known.url.host());
        let runtime = summarizer.model().map(|_| open_store::runtime()).transpose()?;
        Ok(Author { summarizer, host, runtime, call, progress, heard: RefCell::default() })
    }

    /// What a model writes for a draft, and who wrote; without a text, code does.
    pub fn write(
        &self,
        planner: &Planner<'_>,
        draft: &Draft,
        counter: &dyn TokenCounter,
    ) -> Result<(Option<StructuredSummary>, By), Failure> {
        let (Some(model), Some(runtime)) = (self.summarizer.model(), &self.runtime) else {
            return Ok((None, By::Code));
        };
        let writer = Writer { model: model.id().to_owned(), host: self.host.clone().unwrap_or_default() };
        if self.call == Call::DryRun {
            return Ok((None, By::DryRun(writer)));
        }
        self.progress.now(format!("Asking {writer} for a summary"));
        match self.heard(model, runtime, planner, draft, counter) {
            None => Ok((None, By::Nobody)),
            Some(Ok(summary)) => Ok((Some(summary), By::Model(writer))),
            Some(Err(why)) if self.summarizer.may_fall_back() => Ok((None, By::Instead { writer, why })),
            Some(Err(why)) => Err(not_written(&writer, &why)),
        }
    }

    /// What the model says; questions that are too long for it are made smaller. `None` when there is nothing to ask.
    fn heard(
        &self,
        model: &ModelSummarizer,
        runtime: &Runtime,
        planner: &Planner<'_>,
        draft: &Draft,
        counter: &dyn TokenCounter,
    ) -> Option<Result<StructuredSummary, NoSummary>> {
        let mut smaller = 0;
        loop {
            let dialogue = model.dialogue(planner, draft, &QuestionForm::Transcript, None, smaller)?;
            match self.answer(model, runtime, dialogue, counter) {
                Err(why) if model.may_ask_smaller(&why, smaller) => smaller += 1,
                answer => return Some(answer),
            }
        }
    }

    fn answer(
        &self,
        model: &ModelSummarizer,
        runtime: &Runtime,
        dialogue: Dialogue,
        counter: &dyn TokenCounter,
    ) -> Result<StructuredSummary, NoSummary> {
        let key = dialogue.request().cache_key.to_string();
        if let Some(known) = self.heard.borrow().get(&key) {
            return known.clone();
        }
        self.announce(model.id());
        let prose = runtime.block_on(model.ask(
            &TenantId::local(),
            dialogue,
            &QuestionForm::Transcript,
            counter,
            &SummaryUsage::default(),
        ));
        let answer = prose.map(|prose| prose.summary);
        self.heard.borrow_mut().insert(key, answer.clone());
        answer
    }

    /// Names who is called, before the first call.
    fn announce(&self, model: &str) {
        if self.heard.borrow().is_empty() {
            let host = self.host.as_deref().unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "Asking {model} at {host} for a summary.");
        }
    }
}

/// The options as settings. What names a model asks one.
pub fn flags(args: &cli::Author) -> Flags {
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

fn not_written(writer: &Writer, why: &NoSummary) -> Failure {
    Failure::new(Exit::CannotFit, format!("The model {writer} wrote no summary that can be used: {}.", why.details))
        .hint("Nothing was written. `--summarizer model-with-fallback` goes on without the model.")
        .facts(json!({"model": writer.model, "host": writer.host, "reason": why.reason.name()}))
}

impl By {
    /// Code, if a compaction has a summary of its own.
    pub fn code(fitted: &Fitted) -> By {
        let summarizes = |record: &Record| matches!(record.action, Action::Summarize { .. });
        if fitted.compaction.plan.records.iter().any(summarizes) { By::Code } else { By::Nobody }
    }

    /// Who wrote, for people; nothing where nobody did.
    pub fn text(&self) -> String {
        match self {
            By::Nobody => String::new(),
            By::Code => "; summary by epitome itself".to_owned(),
            By::Model(writer) => format!("; summary by {writer}"),
            By::Instead { writer, .. } => format!("; summary by epitome itself, not by {writer}"),
            By::DryRun(_) => "; summary by epitome itself, as a dry run calls nobody".to_owned(),
        }
    }

    /// Why the model did not write, for people.
    pub fn excuse(&self) -> Option<String> {
        match self {
            By::Instead { writer, why } => Some(format!("The summary of {writer} was not used: {}.", why.details)),
            By::DryRun(writer) => Some(format!("Without `--dry-run`, {writer} would be asked for the summary.")),
            _ => None,
        }
    }

    /// It for programs.
    pub fn json(&self) -> Value {
        match self {
            By::Nobody => Value::Null,
            By::Code => json!({"by": "embedded"}),
            By::Model(Writer { model, host }) => json!({"by": "model", "model": model, "host": host}),
            By::Instead { writer: Writer { model, host }, why } => {
                json!({"by": "embedded", "model": model, "host": host, "reason": why.reason.name(), "details": why.details})
            }
            By::DryRun(Writer { model, host }) => {
                json!({"by": "embedded", "model": model, "host": host, "reason": "dry-run"})
            }
        }
    }
}
