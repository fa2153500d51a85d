//! The model summarizer: drives the core's dialogue with a model, within the model's window.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use epitome::budget::{Meter, TokenCounter, Tokens, Window, counter_for};
use epitome::planner::{Draft, Planner, Questions};
use epitome::summary::{AnswerError, Dialogue, Finish, Progress, Reply, SummaryPrompt, SummaryRequest};
use epitome::thread::Raw;
use epitome::wire::{Dialect, Voice, decode_message, say};
use serde::{Deserialize, Serialize};

use super::flight::SingleFlight;
use super::{NoSummary, NoSummaryReason, Prose, SummaryUsage};
use crate::event::spans::CallPurpose;
use crate::ids::TenantId;
use crate::model::{Model, ModelAnswer, ModelError, ModelPrompt, answer_traced, believable_limit};

/// The most times that one question is asked while the answers cannot be used.
const ASKED_MAX: u32 = 2;
/// The most times that questions are halved while the model finds them too long.
const SMALLER_MAX: u32 = 3;
/// The least characters of a transcript in one question.
const CHUNK_CHARS_MIN: usize = 1000;
/// Tokens of a window that are left free for roles, schema and miscounts.
const MARGIN: Tokens = Tokens::new(64);
/// The setting of a request for which some models refuse it.
const TEMPERATURE: &str = "temperature";
const SUSPECTED_FOR: Duration = Duration::from_secs(600);
/// The share of a window that the answer may take at most.
const ANSWER_SHARE: f64 = 0.33;

/// The agent's own request, around its messages: what must stay the same for its prefix to be cached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestFrame {
    /// The model that it goes to.
    pub model: String,
    /// The system prompt, as JSON.
    pub system: Option<String>,
    /// The tools, as JSON.
    pub tools: Option<String>,
    /// Every other setting.
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// A model that writes summaries.
pub struct ModelSummarizer {
    model: Arc<dyn Model>,
    /// The timeout of one summary, all its questions together.
    pub timeout: Duration,
    /// The window, where it is told.
    window: Option<Tokens>,
    /// The window that a refusal named, and when.
    suspected: Mutex<Option<(Tokens, Instant)>>,
    counter: Arc<dyn TokenCounter>,
    flights: SingleFlight<Result<Prose, NoSummary>>,
}

/// The form in which a span is sent to the model.
#[derive(Clone, Debug)]
pub enum QuestionForm {
    /// As a transcript.
    Transcript,
    /// At the end of the agent's own request.
    Appended {
        /// The request.
        frame: RequestFrame,
        /// Its messages.
        messages: Vec<String>,
    },
}

impl std::fmt::Debug for ModelSummarizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSummarizer").field("model", &self.model).finish_non_exhaustive()
    }
}

impl ModelSummarizer {
    /// A summarizer that asks this model.
    pub fn new(model: Arc<dyn Model>, timeout: Duration) -> Self {
        let counter = counter_for(Some(model.id()));
        ModelSummarizer {
            model,
            timeout,
            window: None,
            suspected: Mutex::default(),
            counter,
            flights: SingleFlight::default(),
        }
    }

    /// A summarizer that is told the model's window.
    #[must_use]
    pub fn with_window(mut self, window: Tokens) -> Self {
        self.window = Some(window);
        self
    }

    /// The model's id.
    pub fn id(&self) -> &str {
        self.model.id()
    }

    fn window(&self) -> Tokens {
        let known = self.window.unwrap_or_else(|| Window::of(self.model.id(), None).tokens());
        let suspected = *self.suspected.lock().unwrap_or_else(PoisonError::into_inner);
        let believed = suspected.filter(|(_, since)| since.elapsed() < SUSPECTED_FOR);
        believed.map_or(known, |(tokens, _)| tokens.min(known))
    }

    /// Suspects the window that a refusal names, for a while: this model writes for every tenant, and what it is sent is
    /// what they said.
    fn suspect(&self, window: Tokens) {
        *self.suspected.lock().unwrap_or_else(PoisonError::into_inner) = Some((window, Instant::now()));
    }

    /// Tells whether the agent's own request can be the prefix of the question: the same model, and room for both.
    pub fn can_append(&self, frame: &RequestFrame, dialect: Dialect, prompt: Tokens, answer: Tokens) -> bool {
        let fits = prompt + answer.min(self.answer_max()) + Tokens::new(2000) + MARGIN <= self.window();
        frame.model == self.model.id() && dialect == self.model.dialect() && fits
    }

    fn answer_max(&self) -> Tokens {
        self.window().share(ANSWER_SHARE)
    }

    /// Returns the dialogue for a draft's summary; each step `smaller` halves its questions.
    pub fn dialogue(&self, planner: &Planner<'_>, draft: &Draft, put: &QuestionForm, smaller: u32) -> Option<Dialogue> {
        let appended = matches!(put, QuestionForm::Appended { .. });
        let questions = Questions { model: self.model.id(), chunk_chars_max: None, appended };
        let dialogue = planner.dialogue(draft, &questions)?;
        let most = self.chunk_chars_max(&dialogue.request().system, smaller);
        if smaller == 0
            && dialogue.request().chunks.iter().all(|chunk| chunk.transcript.len() + chunk.turn.len() <= most)
        {
            return Some(dialogue);
        }
        planner.dialogue(draft, &Questions { chunk_chars_max: Some(most), ..questions })
    }

    /// The characters of a transcript that one question may hold, beside the summary so far: two to a token.
    fn chunk_chars_max(&self, system: &str, smaller: u32) -> usize {
        let fixed = self.counter.count(system) + self.answer_max() + self.answer_max() + MARGIN;
        let chars = (self.window() - fixed).get() as usize * 2;
        (chars >> smaller.min(16)).max(CHUNK_CHARS_MIN)
    }

    /// Tells whether the same summary may be asked for with smaller questions, after this many halvings.
    pub fn may_ask_smaller(&self, no: &NoSummary, smaller: u32) -> bool {
        no.reason == NoSummaryReason::TooLong && smaller < SMALLER_MAX
    }

    /// Asks until there is a summary. The same request asked for twice at once is one call, and one of them has spent it.
    pub async fn ask(
        &self,
        tenant: &TenantId,
        dialogue: Dialogue,
        put: &QuestionForm,
        counter: &dyn TokenCounter,
        spent: &SummaryUsage,
    ) -> Result<Prose, NoSummary> {
        let key = format!("{tenant}/{}", cache_name(&dialogue, put));
        self.flights.run_or_join(&key, || self.ask_with_timeout(dialogue, put, counter, spent)).await
    }

    async fn ask_with_timeout(
        &self,
        dialogue: Dialogue,
        put: &QuestionForm,
        counter: &dyn TokenCounter,
        spent: &SummaryUsage,
    ) -> Result<Prose, NoSummary> {
        match tokio::time::timeout(self.timeout, self.drive(dialogue, put, counter, spent)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.late()),
        }
    }

    async fn drive(
        &self,
        mut dialogue: Dialogue,
        put: &QuestionForm,
        counter: &dyn TokenCounter,
        spent: &SummaryUsage,
    ) -> Result<Prose, NoSummary> {
        let mut asked = 0;
        while let Some(prompt) = dialogue.prompt() {
            let request = self.request(&prompt, put, dialogue.request());
            self.check_size(&request)?;
            asked += 1;
            let answer = self.answer(request).await?;
            spent.add(answer.usage.unwrap_or_default());
            match dialogue.answer(&Reply { text: &answer.text, finish: answer.finish }, counter) {
                Progress::Ask(_) | Progress::RollUp(_) => asked = 0,
                Progress::Done(done) => return Ok(Prose { summary: done.summary }),
                Progress::Refused(_) if asked < ASKED_MAX => {}
                Progress::Refused(error) => return Err(refused(&error)),
            }
        }
        Err(NoSummary { reason: NoSummaryReason::Empty, details: "the dialogue ended without a summary".to_owned() })
    }

    /// Asks once; a model that takes no temperature is asked again without one.
    async fn answer(&self, mut request: ModelPrompt) -> Result<ModelAnswer, NoSummary> {
        loop {
            let answer = answer_traced(&*self.model, CallPurpose::Summary, None, &request, &mut |_| {}).await;
            match answer {
                Err(ModelError::Refused(400, words))
                    if words.contains(TEMPERATURE) && request.settings.remove(TEMPERATURE).is_some() => {}
                answer => return answer.map_err(|error| self.failed(&request, &error)),
            }
        }
    }

    /// Asks for a text without a schema, within the timeout.
    pub async fn write(
        &self,
        prompt: &SummaryPrompt,
        output: Tokens,
        spent: &SummaryUsage,
    ) -> Result<String, NoSummary> {
        let request = self.standalone(prompt, output, None);
        self.check_size(&request)?;
        let answer = match tokio::time::timeout(self.timeout, self.answer(request)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(self.late()),
        };
        spent.add(answer.usage.unwrap_or_default());
        match answer.finish {
            Finish::Stop => Ok(answer.text),
            Finish::Length => Err(refused(&AnswerError::Cut)),
            Finish::ToolCall => Err(refused(&AnswerError::ToolCall)),
            Finish::Refusal => Err(refused(&AnswerError::Refusal)),
        }
    }

    fn late(&self) -> NoSummary {
        NoSummary { reason: NoSummaryReason::Late, details: format!("no summary within {:?}", self.timeout) }
    }

    /// No request leaves that the model cannot take.
    fn check_size(&self, request: &ModelPrompt) -> Result<(), NoSummary> {
        let tokens = self.size(request);
        let output = request.max_output.unwrap_or(Tokens::ZERO);
        if tokens + output > self.window() {
            let details = format!("the request would take {} of {} tokens", tokens + output, self.window());
            return Err(NoSummary { reason: NoSummaryReason::TooLong, details });
        }
        Ok(())
    }

    fn size(&self, request: &ModelPrompt) -> Tokens {
        let dialect = self.model.dialect();
        let meter = Meter::new(&*self.counter, dialect);
        let messages = request.messages.iter().map(|json| decode_message(dialect, &Raw::whole(json.as_str())));
        let messages: Tokens = messages.map(|message| meter.count(&message)).sum();
        messages + meter.fixed(request.system.as_deref(), request.tools.as_deref()).total()
    }

    fn request(&self, prompt: &SummaryPrompt, put: &QuestionForm, asked: &SummaryRequest) -> ModelPrompt {
        match put {
            // A question with a system prompt of its own stands alone: a shorter version needs no conversation before it.
            QuestionForm::Appended { frame, messages } if prompt.system.is_none() => {
                let question = say(self.model.dialect(), Voice::User, &prompt.message);
                ModelPrompt {
                    system: frame.system.clone(),
                    messages: messages.iter().cloned().chain([question]).collect(),
                    tools: frame.tools.clone(),
                    settings: frame.settings.clone(),
                    max_output: Some(asked.max_output.min(self.answer_max())),
                    stream: false,
                }
            }
            _ => self.standalone(prompt, asked.max_output, asked.temperature),
        }
    }

    fn standalone(&self, prompt: &SummaryPrompt, output: Tokens, temperature: Option<f64>) -> ModelPrompt {
        let dialect = self.model.dialect();
        let question = say(dialect, Voice::User, &prompt.message);
        let system = prompt.system.clone().unwrap_or_default();
        let (system, messages) = match dialect {
            Dialect::Chat | Dialect::AiSdk => (None, vec![say(dialect, Voice::System, &system), question]),
            Dialect::Responses | Dialect::Anthropic => {
                (Some(serde_json::Value::from(system).to_string()), vec![question])
            }
        };
        let settings = temperature.map(|degrees| (TEMPERATURE.to_owned(), degrees.into())).into_iter().collect();
        let max_output = Some(output.min(self.answer_max()));
        ModelPrompt { system, messages, max_output, settings, ..ModelPrompt::default() }
    }

    fn failed(&self, request: &ModelPrompt, error: &ModelError) -> NoSummary {
        if let ModelError::Overflow { .. } = error {
            if let Some(limit) = believable_limit(self.size(request), error) {
                self.suspect(limit);
            }
            return NoSummary { reason: NoSummaryReason::TooLong, details: told(error) };
        }
        let reason = match error {
            ModelError::TimedOut(..) => NoSummaryReason::Late,
            ModelError::Garbled(_) => NoSummaryReason::Garbled,
            ModelError::Refused(..) => NoSummaryReason::Rejected,
            ModelError::Throttled { .. } => NoSummaryReason::Throttled,
            ModelError::Open(..) => NoSummaryReason::CircuitOpen,
            _ => NoSummaryReason::Unreachable,
        };
        NoSummary { reason, details: told(error) }
    }
}

/// Describes an error without the provider's words, which may quote the request.
fn told(error: &ModelError) -> String {
    match error {
        ModelError::Overflow { status, .. } => format!("the question is too long for the model ({status})"),
        ModelError::Throttled { status, .. } => format!("the provider asks to wait ({status})"),
        ModelError::Refused(status, _) => format!("the provider refuses ({status})"),
        ModelError::Failed(status, _) => format!("the provider failed ({status})"),
        ModelError::Garbled(_) => "the answer cannot be read".to_owned(),
        ModelError::Unreachable(_) => "the provider cannot be reached".to_owned(),
        other => other.to_string(),
    }
}

/// Under which a summary is found again within a tenant: what it is made of, and how it was asked for.
pub fn cache_name(dialogue: &Dialogue, put: &QuestionForm) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(dialogue.request().cache_key.to_string().as_bytes());
    if let QuestionForm::Appended { frame, messages } = put {
        hash.update(&serde_json::to_vec(&(frame, messages)).unwrap_or_default());
    }
    hash.finalize().to_hex().to_string()
}

fn refused(error: &AnswerError) -> NoSummary {
    let reason = match error {
        AnswerError::Empty => NoSummaryReason::Empty,
        AnswerError::Cut => NoSummaryReason::CutOff,
        AnswerError::Refusal => NoSummaryReason::Refused,
        AnswerError::NotSmaller { .. } => NoSummaryReason::NotSmaller,
        AnswerError::Invented { .. } => NoSummaryReason::Invented,
        _ => NoSummaryReason::Unusable,
    };
    let details = match error {
        // The parser quotes what it could not read.
        AnswerError::Shape(_) => "the model's summary is not JSON of the given schema".to_owned(),
        other => other.to_string(),
    };
    NoSummary { reason, details }
}
