//! The summary of a compaction: written by code alone, or by a model with code as its fallback.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write as _;
use std::time::Duration;

use epitome::Fitted;
use epitome::budget::TokenCounter;
use epitome::plan::Action;
use epitome::planner::{Draft, Planner};
use epitome::summary::{Dialogue, StructuredSummary};
use epitome::wire::Dialect;
use epitome_runtime::config::{Config, SecretSource};
use epitome_runtime::ids::TenantId;
use epitome_runtime::summarize::{ModelSummarizer, NoSummary, QuestionForm, Summarizer, SummaryUsage, cache_name};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::artifact_folder::ArtifactFolder;
use crate::cli::SummaryArgs;
use crate::cli_config::{CliConfig, Flags};
use crate::failure::{Exit, Failure, Result};
use crate::input::OpenedFile;
use crate::open_store;
use crate::progress::Progress;

const DAY_S: u64 = 86_400;

/// Writes summaries, and remembers what a model answered.
///
/// A plan may be made several times until it fits, and each time its draft may ask for the same summary. Answers and
/// failures are therefore kept under the request's cache key: a model is asked, and paid, once for the same text. Answers are kept
/// for the next run as well, in the folder of the file's artifacts.
pub struct SummaryWriter<'a> {
    summarizer: Summarizer,
    host: Option<String>,
    /// Set exactly when the summarizer has a model.
    runtime: Option<Runtime>,
    is_dry_run: bool,
    progress: &'a Progress,
    /// Keeps answers from one run to the next.
    folder: ArtifactFolder,
    /// How long they are kept.
    cache: Duration,
    /// What was spent on the answers of this run.
    spent: SummaryUsage,
    answers: RefCell<HashMap<String, Result<StructuredSummary, NoSummary>>>,
}

/// A model, and the host that it is called at.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAtHost {
    model: String,
    host: String,
}

impl std::fmt::Display for ModelAtHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.model, self.host)
    }
}

/// The origin of a summary.
#[derive(Clone, Debug, PartialEq)]
pub enum SummarySource {
    /// Nothing was summarized.
    None,
    Code,
    Model(ModelAtHost),
    /// Code, because the model failed.
    Fallback(ModelAtHost, NoSummary),
    /// Code, because a dry run does not call the model.
    DryRun(ModelAtHost),
}

impl<'a> SummaryWriter<'a> {
    /// Creates the writer that the command line or the configuration asks for. A dry run calls no model. Where no model is named,
    /// it is the one that the session was held with.
    pub fn new(
        mut config: CliConfig,
        args: &SummaryArgs,
        opened: &OpenedFile,
        folder: ArtifactFolder,
        is_dry_run: bool,
        progress: &'a Progress,
    ) -> Result<Self> {
        let named = &mut config.loaded.config.0;
        if named.summarizer.name.is_none() && named.model.name.is_none() {
            named.summarizer.name = opened.conversation.window_hints().model.map(str::to_owned);
        }
        let cache = Duration::from_secs(named.summarizer.cache_days * DAY_S);
        if args.model_url.is_some() && args.summarizer_key_env.is_none() {
            config.loaded.config.0.summarizer.key = usual_key(&config);
        }
        let summarizer = config.values().summarizer(&config.environment)?;
        let host = config.values().summarizer_model().map(|known| known.url.host());
        let runtime = summarizer.model().map(|_| open_store::runtime()).transpose()?;
        let (spent, answers) = (SummaryUsage::default(), RefCell::default());
        Ok(SummaryWriter { summarizer, host, runtime, is_dry_run, progress, folder, cache, spent, answers })
    }

    /// Writes the summary of a draft. Without a text the library's own code writes it.
    pub fn write(
        &self,
        planner: &Planner<'_>,
        draft: &Draft,
        counter: &dyn TokenCounter,
    ) -> Result<(Option<StructuredSummary>, SummarySource)> {
        let (Some(model), Some(runtime)) = (self.summarizer.model(), &self.runtime) else {
            return Ok((None, SummarySource::Code));
        };
        let called = ModelAtHost { model: model.id().to_owned(), host: self.host.clone().unwrap_or_default() };
        if self.is_dry_run {
            return Ok((None, SummarySource::DryRun(called)));
        }
        self.progress.now(format!("Asking {called} for a summary"));
        // A request that is too long for the model is made smaller, as often as the summarizer allows.
        let mut smaller = 0;
        let answer = loop {
            let Some(dialogue) = model.dialogue(planner, draft, &QuestionForm::Transcript, smaller) else {
                return Ok((None, SummarySource::None));
            };
            match self.ask_once(model, runtime, dialogue, counter, &called) {
                Err(why) if model.may_ask_smaller(&why, smaller) => smaller += 1,
                answer => break answer,
            }
        };
        match answer {
            Ok(summary) => Ok((Some(summary), SummarySource::Model(called))),
            Err(why) if self.summarizer.may_fall_back() => Ok((None, SummarySource::Fallback(called, why))),
            Err(why) => Err(no_summary(&called, &why)),
        }
    }

    fn ask_once(
        &self,
        model: &ModelSummarizer,
        runtime: &Runtime,
        dialogue: Dialogue,
        counter: &dyn TokenCounter,
        called: &ModelAtHost,
    ) -> Result<StructuredSummary, NoSummary> {
        let key = cache_name(&dialogue, &QuestionForm::Transcript);
        if let Some(known) = self.answers.borrow().get(&key) {
            return known.clone();
        }
        if let Some(prose) = self.folder.answer(&key, self.cache) {
            return Ok(prose.summary);
        }
        if self.answers.borrow().is_empty() {
            let _ = writeln!(std::io::stderr(), "Asking {called} for a summary.");
        }
        let (tenant, put) = (TenantId::local(), QuestionForm::Transcript);
        let prose = runtime.block_on(model.ask(&tenant, dialogue, &put, counter, &self.spent));
        if let Some(prose) = prose.as_ref().ok().filter(|_| !self.cache.is_zero()) {
            // Without it the model is asked again next time, which is no reason to fail now.
            let _ = self.folder.put_answer(&key, prose);
        }
        let answer = prose.map(|prose| prose.summary);
        self.answers.borrow_mut().insert(key, answer.clone());
        answer
    }
}

/// Returns the options as settings. Any option that names a model turns the model on.
pub fn flags(args: &SummaryArgs) -> Flags {
    let names_a_model = args.model_url.is_some()
        || args.summarizer_model.is_some()
        || args.summarizer_dialect.is_some()
        || args.summarizer_key_env.is_some();
    let implied = names_a_model.then(|| "model-with-fallback".to_owned());
    Flags::without_store()
        .with("summarizer.kind", args.summarizer.clone().or(implied))
        .with("summarizer.url", args.model_url.as_ref())
        .with("summarizer.name", args.summarizer_model.as_ref())
        .with("summarizer.dialect", args.summarizer_dialect.as_ref())
        .with("summarizer.key", args.summarizer_key_env.as_ref().map(|name| format!("env:{name}")))
        .with("summarizer.timeout_s", args.summarizer_timeout)
}

/// Returns the provider's usual key variable, if it is set. Only for an address that was typed: a configured key is sent
/// nowhere else, and a file in an untrusted folder gets none.
fn usual_key(config: &CliConfig) -> Option<SecretSource> {
    let Config { summarizer, model, .. } = config.values();
    let name = match summarizer.dialect.unwrap_or(model.dialect) {
        Dialect::Anthropic => "ANTHROPIC_API_KEY",
        _ => "OPENAI_API_KEY",
    };
    let is_set = config.environment.get(name).is_some_and(|key| !key.trim().is_empty());
    is_set.then(|| SecretSource::Environment(name.to_owned()))
}

fn no_summary(called: &ModelAtHost, why: &NoSummary) -> Failure {
    Failure::new(Exit::CannotFit, format!("The model {called} wrote no usable summary: {}.", why.details))
        .hint("Nothing was written. With `--summarizer model-with-fallback`, epitome writes the summary itself then.")
        .facts(json!({"model": called.model, "host": called.host, "reason": why.reason.name()}))
}

impl SummarySource {
    /// Returns `Code` if a compaction has a summary, else `None`.
    pub fn by_code(fitted: &Fitted) -> SummarySource {
        let has_summary =
            fitted.compaction.plan.records.iter().any(|record| matches!(record.action, Action::Summarize { .. }));
        if has_summary { SummarySource::Code } else { SummarySource::None }
    }

    /// Describes the source for people, as the end of a line.
    pub fn text(&self) -> String {
        match self {
            SummarySource::None => String::new(),
            SummarySource::Code => "; summary by epitome itself".to_owned(),
            SummarySource::DryRun(_) => "; summary by epitome itself, as a dry run calls no model".to_owned(),
            SummarySource::Model(called) => format!("; summary by {called}"),
            SummarySource::Fallback(called, _) => format!("; summary by epitome itself, not by {called}"),
        }
    }

    /// Explains why a configured model did not write.
    pub fn fallback_reason(&self) -> Option<String> {
        match self {
            SummarySource::Fallback(called, why) => {
                Some(format!("The summary of {called} was not used: {}.", why.details))
            }
            SummarySource::DryRun(called) => {
                Some(format!("Without `--dry-run`, {called} would be asked for the summary."))
            }
            _ => None,
        }
    }

    /// Describes the source for programs.
    pub fn to_json(&self) -> Value {
        let mut json = match self {
            SummarySource::None => return Value::Null,
            SummarySource::Code => return json!({"by": "embedded"}),
            SummarySource::Model(_) => json!({"by": "model"}),
            SummarySource::Fallback(_, why) => {
                json!({"by": "embedded", "reason": why.reason.name(), "details": why.details})
            }
            SummarySource::DryRun(_) => json!({"by": "embedded", "reason": "dry-run"}),
        };
        if let SummarySource::Model(called) | SummarySource::Fallback(called, _) | SummarySource::DryRun(called) = self
        {
            (json["model"], json["host"]) = (json!(called.model), json!(called.host));
        }
        json
    }
}
