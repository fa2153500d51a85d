//! The provider: parses a request, checks it, counts it, serves it from the cache, answers it and bills it.
//!
//! It owns all state that lasts between requests, under one lock. Nothing here awaits; delays are `outgoing.rs`'s.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use epitome::budget::Tokens;
use serde_json::{Value, json};

use super::archive::ResponseArchive;
use super::cache::{CacheOwner, InputUsage, PrefixCache};
use super::compaction::RequestedCompaction;
use super::embeddings;
use super::encode::{AnswerEncoder, compacted, output_items};
use super::endpoint::{MockEndpoint, ProviderProtocol};
use super::faults::{
    Delivery, FaultBody, FaultKind, FaultOutcome, FaultResponse, HiddenOverflow, ProviderFault, RequestFacts,
};
use super::incoming::IncomingRequest;
use super::models::models;
use super::outgoing::OutgoingResponse;
use super::prompt::{CountedPrompt, PromptCounter, input_items};
use super::record::{RequestRecords, RuleViolation};
use super::rejection::ProviderRejection;
use super::reply::{ModelReply, ReplyPart, ReplyUsage, StopReason};
use super::request::MockRequest;
use super::rules;
use super::seal;
use super::settings::MockSettings;
use super::window::window_of;
use super::work::AgentJobs;

/// Answers requests; shared by all connections.
pub(crate) struct MockProvider {
    pub(crate) settings: MockSettings,
    scales: PromptCounter,
    state: Mutex<ProviderState>,
}

/// The state that lasts between requests.
#[derive(Default)]
struct ProviderState {
    window: Option<Tokens>,
    records: RequestRecords,
    cache: PrefixCache,
    archive: ResponseArchive,
    jobs: AgentJobs,
    /// Faults for the next requests.
    faults: Vec<ProviderFault>,
}

/// An answer, and the tokens of its prompt for the record.
struct ProviderAnswer {
    outgoing: OutgoingResponse,
    prompt_tokens: Option<u64>,
}

impl From<OutgoingResponse> for ProviderAnswer {
    fn from(outgoing: OutgoingResponse) -> Self {
        ProviderAnswer { outgoing, prompt_tokens: None }
    }
}

impl MockProvider {
    pub(crate) fn new(settings: MockSettings) -> MockProvider {
        let state = ProviderState { window: settings.window, ..ProviderState::default() };
        MockProvider { settings, scales: PromptCounter::default(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the records.
    pub(crate) fn records<T>(&self, read: impl FnOnce(&RequestRecords) -> T) -> T {
        read(&self.state().records)
    }

    /// Queues a fault for each of the next requests.
    pub(crate) fn fail_next(&self, fault: ProviderFault, times: usize) {
        self.state().faults.extend(std::iter::repeat_n(fault, times));
    }

    /// Changes the window of models that name none.
    pub(crate) fn set_window(&self, window: Option<Tokens>) {
        self.state().window = window;
    }

    /// Returns the number of turns of a key's job that were answered.
    pub(crate) fn work_turns(&self, key: &str) -> u64 {
        self.state().jobs.turns(key)
    }

    /// Answers a request.
    pub(crate) fn answer(&self, incoming: IncomingRequest) -> OutgoingResponse {
        if incoming.endpoint.is_own() {
            return self.serve_own(&incoming.endpoint, &incoming.bytes());
        }
        let bytes_max = self.settings.body_bytes_max;
        let answer = incoming.open(bytes_max).and_then(|request| self.serve(request, incoming.bytes().len()));
        let mut answer = answer.unwrap_or_else(|rejection| {
            self.note_broken(&rejection, &incoming);
            OutgoingResponse::json(rejection.status, &rejection.body(incoming.endpoint.protocol(), &incoming.seed))
                .into()
        });
        answer.outgoing.headers.push(incoming.request_id());
        answer.outgoing.packed = incoming.head.headers.get("x-mock-encoding").is_some_and(|value| value == "gzip");
        let recorded = incoming.recorded(answer.outgoing.status, answer.prompt_tokens);
        self.state().records.add(recorded, self.settings.records_max);
        answer.outgoing
    }

    fn note_broken(&self, rejection: &ProviderRejection, incoming: &IncomingRequest) {
        let broken = RuleViolation {
            rule: rejection.rule.into(),
            message: rejection.message.clone(),
            path: incoming.path().into(),
        };
        self.state().records.note(broken, incoming.key.as_deref().unwrap_or_default());
    }

    fn serve(&self, request: MockRequest, body_bytes: usize) -> Result<ProviderAnswer, ProviderRejection> {
        match request.endpoint.clone() {
            MockEndpoint::Models => Ok(OutgoingResponse::json(200, &models(&request)).into()),
            MockEndpoint::Stored(id) => self.stored(&request, &id),
            MockEndpoint::Conversations => {
                Ok(OutgoingResponse::json(200, &self.state().archive.converse(&request)).into())
            }
            MockEndpoint::Count(_) | MockEndpoint::GeminiCount { .. } => self.count(request),
            MockEndpoint::Embeddings => self.embed(&request),
            _ => self.generate(request, body_bytes),
        }
    }

    fn stored(&self, request: &MockRequest, id: &str) -> Result<ProviderAnswer, ProviderRejection> {
        let response = self.state().archive.response(&request.key, id);
        response.map(|response| OutgoingResponse::json(200, &response).into()).ok_or_else(|| {
            ProviderRejection::invalid(format!("Response with id '{id}' not found."))
                .with_status(404)
                .breaking("not-found")
        })
    }

    fn count(&self, request: MockRequest) -> Result<ProviderAnswer, ProviderRejection> {
        let request = self.expanded(request)?;
        rules::judge(&request, self.settings.pedantic)?;
        let tokens = self.scales.count(&request).tokens();
        let body = match request.protocol() {
            ProviderProtocol::Anthropic => json!({"input_tokens": tokens}),
            ProviderProtocol::Gemini => json!({"totalTokens": tokens}),
            _ => json!({"object": "response.input_tokens", "input_tokens": tokens}),
        };
        Ok(ProviderAnswer { outgoing: OutgoingResponse::json(200, &body), prompt_tokens: Some(tokens) })
    }

    fn embed(&self, request: &MockRequest) -> Result<ProviderAnswer, ProviderRejection> {
        let texts = embeddings::texts(request)?;
        let tokens: u64 = texts.iter().map(|text| self.scales.text(request.model(), text)).sum();
        if let Some(fault) = self.fault(request)? {
            self.state().records.account(&request.key).faulted += 1;
            let facts = self.facts(request, &self.scales.count(request), 0);
            if let FaultOutcome::Respond(response) = fault.outcome(&facts.forced(&fault)) {
                return Ok(ProviderAnswer { outgoing: sent(response), prompt_tokens: Some(tokens) });
            }
        }
        let body = embeddings::answer(request, &texts, tokens)?;
        Ok(ProviderAnswer { outgoing: OutgoingResponse::json(200, &body), prompt_tokens: Some(tokens) })
    }

    fn expanded(&self, request: MockRequest) -> Result<MockRequest, ProviderRejection> {
        match request.protocol() {
            ProviderProtocol::Responses => self.state().archive.expand(request),
            _ => Ok(request),
        }
    }

    fn generate(&self, original: MockRequest, body_bytes: usize) -> Result<ProviderAnswer, ProviderRejection> {
        let fault = self.fault(&original)?;
        let request = match (self.expanded(original.clone()), fault) {
            (Ok(request), _) => request,
            (Err(_), Some(_)) => original.clone(),
            (Err(rejection), None) => return Err(rejection),
        };
        if fault.is_none() {
            rules::judge(&request, self.settings.pedantic)?;
        }
        let prompt = self.scales.count(&request);
        if fault.is_none() {
            rules::judge_seals(&request, &prompt)?;
        }
        let facts = self.facts(&request, &prompt, body_bytes);
        match fault {
            Some(fault) => {
                self.state().records.account(&request.key).faulted += 1;
                let forced = facts.forced(&fault);
                Ok(self.fail(&fault, &forced, &original, &request, &prompt))
            }
            None => match self.overflow(&request, &facts)? {
                Some(shape) => {
                    self.state().records.account(&request.key).overflowed += 1;
                    Ok(self.fail(&shape, &facts, &original, &request, &prompt))
                }
                None => Ok(self.say(&original, &request, &prompt, None, Delivery::Whole)),
            },
        }
    }

    /// Returns the fault that was forced on this request by header or by `fail_next`.
    fn fault(&self, request: &MockRequest) -> Result<Option<ProviderFault>, ProviderRejection> {
        if let Some(name) = request.header("x-mock-fault") {
            return name.parse().map(Some).map_err(ProviderRejection::invalid);
        }
        let mut state = self.state();
        Ok(if state.faults.is_empty() { None } else { Some(state.faults.remove(0)) })
    }

    fn facts<'a>(&self, request: &'a MockRequest, prompt: &CountedPrompt, body_bytes: usize) -> RequestFacts<'a> {
        let named = request.header("x-mock-window").and_then(|value| value.parse().ok());
        let window = named.unwrap_or_else(|| window_of(request.model(), self.state().window));
        RequestFacts {
            protocol: request.protocol(),
            model: request.model(),
            stream: request.wants_stream(),
            input: prompt.tokens(),
            output: request.max_output().unwrap_or(0),
            window,
            body_bytes,
            seed: &request.seed,
        }
    }

    /// Returns the shape of the overflow error if the request does not fit its window.
    fn overflow(
        &self,
        request: &MockRequest,
        facts: &RequestFacts<'_>,
    ) -> Result<Option<ProviderFault>, ProviderRejection> {
        let asked_for =
            request.header("x-mock-overflow").map(str::parse).transpose().map_err(ProviderRejection::invalid)?;
        let shape = asked_for.or(self.settings.overflow).unwrap_or_else(|| ProviderFault::of(request.protocol()));
        let counts = self.settings.counts_output.unwrap_or(shape.counts_output());
        let used = if counts { facts.total() } else { facts.input };
        Ok((used > facts.window && shape.kind() == FaultKind::Overflow).then_some(shape))
    }

    fn fail(
        &self,
        fault: &ProviderFault,
        facts: &RequestFacts<'_>,
        original: &MockRequest,
        request: &MockRequest,
        prompt: &CountedPrompt,
    ) -> ProviderAnswer {
        match fault.outcome(facts) {
            FaultOutcome::Respond(response) => {
                ProviderAnswer { outgoing: sent(response), prompt_tokens: Some(facts.input) }
            }
            FaultOutcome::Pretend(hidden) => {
                self.say(original, request, prompt, Some((hidden, facts.window)), Delivery::Whole)
            }
            FaultOutcome::Deliver(delivery) => self.say(original, request, prompt, None, delivery),
        }
    }

    /// Answers, bills and stores.
    fn say(
        &self,
        original: &MockRequest,
        request: &MockRequest,
        prompt: &CountedPrompt,
        hidden: Option<(HiddenOverflow, u64)>,
        delivery: Delivery,
    ) -> ProviderAnswer {
        let mut served = self.served(request, prompt);
        let compaction = RequestedCompaction::requested_by(request, prompt.tokens());
        let mut reply = self.reply(request, prompt, compaction);
        if let Some((hidden, window)) = hidden {
            pretend(hidden, window, &mut served, &mut reply);
        }
        let usage = self.usage(request, served, &reply);
        self.state().records.account(&request.key).bill(&served, usage.output, &self.settings.prices);
        let encoder = AnswerEncoder { request, reply: &reply, usage };
        let mut outgoing = match request.wants_stream() {
            true => OutgoingResponse::events(encoder.frames()),
            false => OutgoingResponse::json(200, &self.whole(&encoder)),
        };
        if request.protocol() == ProviderProtocol::Responses && request.endpoint != MockEndpoint::Compact {
            self.state().archive.keep(request, original, &encoder.whole(), &output_items(&encoder));
        }
        outgoing.delivery = delivery;
        outgoing.timing = self.settings.timing;
        ProviderAnswer { outgoing, prompt_tokens: Some(prompt.tokens()) }
    }

    fn whole(&self, encoder: &AnswerEncoder<'_>) -> Value {
        match encoder.request.endpoint {
            MockEndpoint::Compact => {
                let is_users = |item: &Value| item.get("role").and_then(Value::as_str) == Some("user");
                compacted(encoder, input_items(encoder.request).into_iter().filter(is_users).collect())
            }
            _ => encoder.whole(),
        }
    }

    fn served(&self, request: &MockRequest, prompt: &CountedPrompt) -> InputUsage {
        let owner = CacheOwner(request.key.clone(), request.model().to_owned());
        let cache = &mut self.state().cache;
        match request.protocol() {
            ProviderProtocol::Anthropic => cache.serve_marked(&owner, prompt, &self.settings.cache, Instant::now()),
            _ => cache.serve(&owner, prompt, &self.settings.cache, Instant::now()),
        }
    }

    fn usage(&self, request: &MockRequest, served: InputUsage, reply: &ModelReply) -> ReplyUsage {
        let thoughts = reply.thoughts();
        let reasoning = if thoughts.is_empty() { 0 } else { self.scales.text(request.model(), &thoughts) };
        ReplyUsage { served, output: self.scales.text(request.model(), &reply.spoken()), reasoning }
    }

    fn reply(
        &self,
        request: &MockRequest,
        prompt: &CountedPrompt,
        compaction: Option<RequestedCompaction>,
    ) -> ModelReply {
        let messages = request.list("messages").len() + request.list("input").len() + request.list("contents").len();
        let mut reply = match compaction {
            Some(compaction @ (RequestedCompaction::Sealed | RequestedCompaction::SealedPause)) => ModelReply {
                parts: vec![sealed(request, prompt, compaction.summary(messages))],
                stop: StopReason::Compaction,
            },
            Some(RequestedCompaction::SealedFirst) => {
                let mut reply = self.plain(request, messages);
                reply.parts.insert(0, sealed(request, prompt, RequestedCompaction::SealedFirst.summary(messages)));
                return reply;
            }
            Some(compaction) => return ModelReply::text(compaction.summary(messages)),
            None => self.plain(request, messages),
        };
        if reply.stop != StopReason::Compaction
            && let Some(thought) = thought(request, prompt, messages)
        {
            reply.parts.insert(0, thought);
        }
        reply
    }

    fn plain(&self, request: &MockRequest, messages: usize) -> ModelReply {
        let worked = self.state().jobs.answer(request, &self.settings.work);
        worked.unwrap_or_else(|| {
            let text = plain_text(messages, self.settings.timing.answer_tokens);
            within(request.max_output(), text)
        })
    }

    fn serve_own(&self, endpoint: &MockEndpoint, body: &Bytes) -> OutgoingResponse {
        let command: Value = serde_json::from_slice(body).unwrap_or_default();
        match endpoint {
            MockEndpoint::Reset => self.reset(),
            MockEndpoint::Window => self.set_window(command.get("window").and_then(Value::as_u64).map(Tokens::new)),
            MockEndpoint::Faults => {
                let name = command.get("name").and_then(Value::as_str).unwrap_or_default();
                let times = command.get("times").and_then(Value::as_u64).unwrap_or(1);
                match name.parse::<ProviderFault>() {
                    Ok(fault) => self.fail_next(fault, times as usize),
                    Err(sentence) => return OutgoingResponse::json(400, &json!({"error": sentence})),
                }
            }
            _ => {}
        }
        OutgoingResponse::json(200, &self.stats())
    }

    /// Forgets requests, accounts, jobs, cache and faults; keeps the window.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        let window = state.window;
        state.jobs.clear();
        *state = ProviderState { window, ..ProviderState::default() };
    }

    /// Returns the body of `/mock/stats`: usage by key, and the violations.
    pub(crate) fn stats(&self) -> Value {
        let state = self.state();
        let accounts: serde_json::Map<String, Value> =
            state.records.accounts.iter().map(|(key, account)| (masked(key), json!(account))).collect();
        json!({
            "requests": state.records.count,
            "window": state.window,
            "accounts": accounts,
            "violations": state.records.broken,
        })
    }
}

/// Shortens a key so that it can be shown.
fn masked(key: &str) -> String {
    let start: String = key.chars().take(12).collect();
    if start.len() < key.len() { format!("{start}…") } else { start }
}

fn sent(response: FaultResponse) -> OutgoingResponse {
    let mut outgoing = match response.content {
        FaultBody::Json(body) => OutgoingResponse::json(response.status, &body),
        FaultBody::Text(text) => OutgoingResponse::text(response.status, text),
        FaultBody::Stream(frames) => OutgoingResponse::events(frames),
    };
    outgoing.headers = response.headers;
    outgoing
}

fn pretend(hidden: HiddenOverflow, window: u64, served: &mut InputUsage, reply: &mut ModelReply) {
    match hidden {
        HiddenOverflow::Truncated => {
            *served = InputUsage { input: served.input.min(window * 3 / 4), ..InputUsage::default() }
        }
        HiddenOverflow::WindowFull => {
            *reply =
                ModelReply { parts: vec![ReplyPart::Text("I was about to say".into())], stop: StopReason::WindowFull };
        }
        HiddenOverflow::Empty => *reply = ModelReply { parts: Vec::new(), stop: StopReason::End },
    }
}

fn sealed(request: &MockRequest, prompt: &CountedPrompt, summary: String) -> ReplyPart {
    let seal = seal::seal_compaction(request.model(), prompt.bound(), &summary);
    ReplyPart::Compaction { summary, seal }
}

/// A thought, where the request asks for thinking.
fn thought(request: &MockRequest, prompt: &CountedPrompt, messages: usize) -> Option<ReplyPart> {
    let text = format!("The user has sent {messages} messages. I will answer the last one.");
    match request.protocol() {
        ProviderProtocol::Anthropic => {
            let kind = request.body.pointer("/thinking/type")?.as_str()?;
            let seal = seal::sign(&text, prompt.bound());
            matches!(kind, "enabled" | "adaptive").then_some(ReplyPart::Thought { text, seal })
        }
        ProviderProtocol::Responses => {
            let reasoning = request.field("reasoning")?;
            let effort = reasoning.get("effort").and_then(Value::as_str);
            let seal = seal::encrypt(request.model(), &format!("{} {text}", request.seed.id("", 0, 16)));
            (effort != Some("none") && reasoning.is_object()).then_some(ReplyPart::Thought { text, seal })
        }
        _ => None,
    }
}

/// A text that stops where the reserved output ends.
fn within(max_output: Option<u64>, text: String) -> ModelReply {
    let words = max_output.map_or(usize::MAX, |max| max as usize);
    if text.split_inclusive(' ').count() <= words {
        return ModelReply::text(text);
    }
    let cut: String = text.split_inclusive(' ').take(words).collect();
    ModelReply { parts: vec![ReplyPart::Text(cut.trim_end().into())], stop: StopReason::Length }
}

/// A short sentence, or as many words as are wanted.
pub(crate) fn plain_text(messages: usize, tokens: usize) -> String {
    match tokens {
        0 => format!("This is the mock provider. I saw {messages} messages."),
        _ => (0..tokens).map(|at| if at == 0 { "word".to_owned() } else { format!(" word{}", at % 10) }).collect(),
    }
}
