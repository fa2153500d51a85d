//! The provider: takes a request, judges it, counts it, serves it from the cache, answers, and bills.
//!
//! It is the one owner of everything that lasts between requests. Nothing here waits.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use epitome::budget::Tokens;
use serde_json::{Value, json};

use super::archive::Archive;
use super::arrival::Arrival;
use super::asked::Asked;
use super::cache::{Owner, PrefixCache, Served};
use super::compaction::Compaction;
use super::endpoint::{Endpoint, Protocol};
use super::faults::{Content, Delivery, Facts, Fault, FaultKind, Outcome, Pretense, Told};
use super::models::models;
use super::outlet::Outgoing;
use super::prompt::{Prompt, Scales, input_items};
use super::record::{Broken, Records};
use super::refusal::Complaint;
use super::reply::{Part, Reply, Stop, Usage};
use super::rules;
use super::seal;
use super::settings::MockSettings;
use super::speak::{Speech, compacted, output_items};
use super::window::window_of;
use super::work::Jobs;

/// The provider.
pub(crate) struct Provider {
    pub(crate) settings: MockSettings,
    scales: Scales,
    state: Mutex<State>,
}

/// What lasts between requests.
#[derive(Default)]
struct State {
    window: Option<Tokens>,
    records: Records,
    cache: PrefixCache,
    archive: Archive,
    jobs: Jobs,
    /// Faults for the next requests.
    faults: Vec<Fault>,
}

/// An answer and what is to be remembered of it.
struct Answer {
    outgoing: Outgoing,
    prompt_tokens: Option<u64>,
}

impl From<Outgoing> for Answer {
    fn from(outgoing: Outgoing) -> Self {
        Answer { outgoing, prompt_tokens: None }
    }
}

impl Provider {
    pub(crate) fn new(settings: MockSettings) -> Provider {
        let state = State { window: settings.window, ..State::default() };
        Provider { settings, scales: Scales::default(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered.
    pub(crate) fn records<T>(&self, read: impl FnOnce(&Records) -> T) -> T {
        read(&self.state().records)
    }

    /// Gives the next requests these faults, one each.
    pub(crate) fn fail_next(&self, fault: Fault, times: usize) {
        self.state().faults.extend(std::iter::repeat_n(fault, times));
    }

    /// Changes the window of models that name none.
    pub(crate) fn set_window(&self, window: Option<Tokens>) {
        self.state().window = window;
    }

    /// How many turns of a key's job were answered.
    pub(crate) fn work_turns(&self, key: &str) -> u64 {
        self.state().jobs.turns(key)
    }

    /// Answers a request.
    pub(crate) fn answer(&self, arrival: Arrival) -> Outgoing {
        if arrival.endpoint.is_own() {
            return self.serve_own(&arrival.endpoint, &arrival.bytes());
        }
        let bytes_max = self.settings.body_bytes_max;
        let answer = arrival.open(bytes_max).and_then(|asked| self.serve(asked, arrival.bytes().len()));
        let mut answer = answer.unwrap_or_else(|complaint| {
            self.note_broken(&complaint, &arrival);
            Outgoing::json(complaint.status, &complaint.body(arrival.endpoint.protocol(), &arrival.seed)).into()
        });
        answer.outgoing.headers.push(arrival.request_id());
        answer.outgoing.packed = arrival.head.headers.get("x-mock-encoding").is_some_and(|value| value == "gzip");
        let recorded = arrival.recorded(answer.outgoing.status, answer.prompt_tokens);
        self.state().records.add(recorded, self.settings.records_max);
        answer.outgoing
    }

    fn note_broken(&self, complaint: &Complaint, arrival: &Arrival) {
        let broken =
            Broken { rule: complaint.rule.into(), message: complaint.message.clone(), path: arrival.path().into() };
        self.state().records.note(broken, arrival.key.as_deref().unwrap_or_default());
    }

    fn serve(&self, asked: Asked, body_bytes: usize) -> Result<Answer, Complaint> {
        match asked.endpoint.clone() {
            Endpoint::Models => Ok(Outgoing::json(200, &models(&asked)).into()),
            Endpoint::Stored(id) => self.stored(&asked, &id),
            Endpoint::Conversations => Ok(Outgoing::json(200, &self.state().archive.converse(&asked)).into()),
            Endpoint::Count(_) | Endpoint::GeminiCount { .. } => self.count(asked),
            _ => self.generate(asked, body_bytes),
        }
    }

    fn stored(&self, asked: &Asked, id: &str) -> Result<Answer, Complaint> {
        let response = self.state().archive.response(&asked.key, id);
        response.map(|response| Outgoing::json(200, &response).into()).ok_or_else(|| {
            Complaint::invalid(format!("Response with id '{id}' not found.")).with_status(404).breaking("not-found")
        })
    }

    fn count(&self, asked: Asked) -> Result<Answer, Complaint> {
        let asked = self.expanded(asked)?;
        rules::judge(&asked, self.settings.pedantic)?;
        let tokens = self.scales.weigh(&asked).tokens();
        let body = match asked.protocol() {
            Protocol::Anthropic => json!({"input_tokens": tokens}),
            Protocol::Gemini => json!({"totalTokens": tokens}),
            _ => json!({"object": "response.input_tokens", "input_tokens": tokens}),
        };
        Ok(Answer { outgoing: Outgoing::json(200, &body), prompt_tokens: Some(tokens) })
    }

    fn expanded(&self, asked: Asked) -> Result<Asked, Complaint> {
        match asked.protocol() {
            Protocol::Responses => self.state().archive.expand(asked),
            _ => Ok(asked),
        }
    }

    fn generate(&self, original: Asked, body_bytes: usize) -> Result<Answer, Complaint> {
        let fault = self.fault(&original)?;
        let asked = match (self.expanded(original.clone()), fault) {
            (Ok(asked), _) => asked,
            (Err(_), Some(_)) => original.clone(),
            (Err(complaint), None) => return Err(complaint),
        };
        if fault.is_none() {
            rules::judge(&asked, self.settings.pedantic)?;
        }
        let prompt = self.scales.weigh(&asked);
        if fault.is_none() {
            rules::judge_seals(&asked, &prompt)?;
        }
        let facts = self.facts(&asked, &prompt, body_bytes);
        match fault {
            Some(fault) => {
                self.state().records.account(&asked.key).faulted += 1;
                let forced = facts.forced(&fault);
                Ok(self.fail(&fault, &forced, &original, &asked, &prompt))
            }
            None => match self.overflow(&asked, &facts)? {
                Some(shape) => {
                    self.state().records.account(&asked.key).overflowed += 1;
                    Ok(self.fail(&shape, &facts, &original, &asked, &prompt))
                }
                None => Ok(self.say(&original, &asked, &prompt, None, Delivery::Whole)),
            },
        }
    }

    /// The fault that this request gets whatever it says.
    fn fault(&self, asked: &Asked) -> Result<Option<Fault>, Complaint> {
        if let Some(name) = asked.header("x-mock-fault") {
            return name.parse().map(Some).map_err(Complaint::invalid);
        }
        let mut state = self.state();
        Ok(if state.faults.is_empty() { None } else { Some(state.faults.remove(0)) })
    }

    fn facts<'a>(&self, asked: &'a Asked, prompt: &Prompt, body_bytes: usize) -> Facts<'a> {
        let told = asked.header("x-mock-window").and_then(|value| value.parse().ok());
        let window = told.unwrap_or_else(|| window_of(asked.model(), self.state().window));
        Facts {
            protocol: asked.protocol(),
            model: asked.model(),
            stream: asked.wants_stream(),
            input: prompt.tokens(),
            output: asked.max_output().unwrap_or(0),
            window,
            body_bytes,
            seed: &asked.seed,
        }
    }

    /// How the request is told that it is too long, if it is.
    fn overflow(&self, asked: &Asked, facts: &Facts<'_>) -> Result<Option<Fault>, Complaint> {
        let asked_for = asked.header("x-mock-overflow").map(str::parse).transpose().map_err(Complaint::invalid)?;
        let shape = asked_for.or(self.settings.overflow).unwrap_or_else(|| Fault::of(asked.protocol()));
        let counts = self.settings.counts_output.unwrap_or(shape.counts_output());
        let used = if counts { facts.total() } else { facts.input };
        Ok((used > facts.window && shape.kind() == FaultKind::Overflow).then_some(shape))
    }

    fn fail(&self, fault: &Fault, facts: &Facts<'_>, original: &Asked, asked: &Asked, prompt: &Prompt) -> Answer {
        match fault.outcome(facts) {
            Outcome::Told(told) => Answer { outgoing: sent(told), prompt_tokens: Some(facts.input) },
            Outcome::Pretend(pretense) => {
                self.say(original, asked, prompt, Some((pretense, facts.window)), Delivery::Whole)
            }
            Outcome::Deliver(delivery) => self.say(original, asked, prompt, None, delivery),
        }
    }

    /// Answers.
    fn say(
        &self,
        original: &Asked,
        asked: &Asked,
        prompt: &Prompt,
        pretense: Option<(Pretense, u64)>,
        delivery: Delivery,
    ) -> Answer {
        let mut served = self.served(asked, prompt);
        let compaction = Compaction::asked_by(asked, prompt.tokens());
        let mut reply = self.reply(asked, prompt, compaction);
        if let Some((pretense, window)) = pretense {
            pretend(pretense, window, &mut served, &mut reply);
        }
        let usage = self.usage(asked, served, &reply);
        self.state().records.account(&asked.key).bill(&served, usage.output, &self.settings.prices);
        let speech = Speech { asked, reply: &reply, usage };
        let mut outgoing = match asked.wants_stream() {
            true => Outgoing::events(speech.frames()),
            false => Outgoing::json(200, &self.whole(&speech)),
        };
        if asked.protocol() == Protocol::Responses && asked.endpoint != Endpoint::Compact {
            self.state().archive.keep(asked, original, &speech.whole(), &output_items(&speech));
        }
        outgoing.delivery = delivery;
        outgoing.timing = self.settings.timing;
        Answer { outgoing, prompt_tokens: Some(prompt.tokens()) }
    }

    fn whole(&self, speech: &Speech<'_>) -> Value {
        match speech.asked.endpoint {
            Endpoint::Compact => {
                let is_users = |item: &Value| item.get("role").and_then(Value::as_str) == Some("user");
                compacted(speech, input_items(speech.asked).into_iter().filter(is_users).collect())
            }
            _ => speech.whole(),
        }
    }

    fn served(&self, asked: &Asked, prompt: &Prompt) -> Served {
        let owner = Owner(asked.key.clone(), asked.model().to_owned());
        let cache = &mut self.state().cache;
        match asked.protocol() {
            Protocol::Anthropic => cache.serve_marked(&owner, prompt, &self.settings.cache, Instant::now()),
            _ => cache.serve(&owner, prompt, &self.settings.cache, Instant::now()),
        }
    }

    fn usage(&self, asked: &Asked, served: Served, reply: &Reply) -> Usage {
        let thoughts = reply.thoughts();
        let reasoning = if thoughts.is_empty() { 0 } else { self.scales.text(asked.model(), &thoughts) };
        Usage { served, output: self.scales.text(asked.model(), &reply.spoken()), reasoning }
    }

    fn reply(&self, asked: &Asked, prompt: &Prompt, compaction: Option<Compaction>) -> Reply {
        let messages = asked.list("messages").len() + asked.list("input").len() + asked.list("contents").len();
        let mut reply = match compaction {
            Some(compaction @ (Compaction::Sealed | Compaction::SealedPause)) => {
                Reply { parts: vec![sealed(asked, prompt, compaction.summary(messages))], stop: Stop::Compaction }
            }
            Some(Compaction::SealedFirst) => {
                let mut reply = self.plain(asked, messages);
                reply.parts.insert(0, sealed(asked, prompt, Compaction::SealedFirst.summary(messages)));
                return reply;
            }
            Some(compaction) => return Reply::text(compaction.summary(messages)),
            None => self.plain(asked, messages),
        };
        if reply.stop != Stop::Compaction
            && let Some(thought) = thought(asked, prompt, messages)
        {
            reply.parts.insert(0, thought);
        }
        reply
    }

    fn plain(&self, asked: &Asked, messages: usize) -> Reply {
        let worked = self.state().jobs.answer(asked, &self.settings.work);
        worked.unwrap_or_else(|| {
            let text = plain_text(messages, self.settings.timing.answer_tokens);
            within(asked.max_output(), text)
        })
    }

    fn serve_own(&self, endpoint: &Endpoint, body: &Bytes) -> Outgoing {
        let told: Value = serde_json::from_slice(body).unwrap_or_default();
        match endpoint {
            Endpoint::Reset => self.reset(),
            Endpoint::Window => self.set_window(told.get("window").and_then(Value::as_u64).map(Tokens::new)),
            Endpoint::Faults => {
                let name = told.get("name").and_then(Value::as_str).unwrap_or_default();
                let times = told.get("times").and_then(Value::as_u64).unwrap_or(1);
                match name.parse::<Fault>() {
                    Ok(fault) => self.fail_next(fault, times as usize),
                    Err(sentence) => return Outgoing::json(400, &json!({"error": sentence})),
                }
            }
            _ => {}
        }
        Outgoing::json(200, &self.stats())
    }

    /// Forgets requests, accounts, jobs, cache and faults.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        let window = state.window;
        state.jobs.clear();
        *state = State { window, ..State::default() };
    }

    /// What every key used, and every rule that was broken.
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

/// A key as it may be shown.
fn masked(key: &str) -> String {
    let start: String = key.chars().take(12).collect();
    if start.len() < key.len() { format!("{start}…") } else { start }
}

fn sent(told: Told) -> Outgoing {
    let mut outgoing = match told.content {
        Content::Json(body) => Outgoing::json(told.status, &body),
        Content::Text(text) => Outgoing::text(told.status, text),
        Content::Stream(frames) => Outgoing::events(frames),
    };
    outgoing.headers = told.headers;
    outgoing
}

fn pretend(pretense: Pretense, window: u64, served: &mut Served, reply: &mut Reply) {
    match pretense {
        Pretense::Truncated => *served = Served { input: served.input.min(window * 3 / 4), ..Served::default() },
        Pretense::WindowFull => {
            *reply = Reply { parts: vec![Part::Text("I was about to say".into())], stop: Stop::WindowFull };
        }
        Pretense::Empty => *reply = Reply { parts: Vec::new(), stop: Stop::End },
    }
}

fn sealed(asked: &Asked, prompt: &Prompt, summary: String) -> Part {
    let seal = seal::seal_compaction(asked.model(), prompt.bound(), &summary);
    Part::Compaction { summary, seal }
}

/// A thought, where the request asks for thinking.
fn thought(asked: &Asked, prompt: &Prompt, messages: usize) -> Option<Part> {
    let text = format!("The user has sent {messages} messages. I will answer the last one.");
    match asked.protocol() {
        Protocol::Anthropic => {
            let kind = asked.body.pointer("/thinking/type")?.as_str()?;
            let seal = seal::sign(&text, prompt.bound());
            matches!(kind, "enabled" | "adaptive").then_some(Part::Thought { text, seal })
        }
        Protocol::Responses => {
            let reasoning = asked.field("reasoning")?;
            let effort = reasoning.get("effort").and_then(Value::as_str);
            let seal = seal::encrypt(asked.model(), &format!("{} {text}", asked.seed.id("", 0, 16)));
            (effort != Some("none") && reasoning.is_object()).then_some(Part::Thought { text, seal })
        }
        _ => None,
    }
}

/// A text that stops where the reserved output ends.
fn within(max_output: Option<u64>, text: String) -> Reply {
    let words = max_output.map_or(usize::MAX, |max| max as usize);
    if text.split_inclusive(' ').count() <= words {
        return Reply::text(text);
    }
    let cut: String = text.split_inclusive(' ').take(words).collect();
    Reply { parts: vec![Part::Text(cut.trim_end().into())], stop: Stop::Length }
}

/// A short sentence, or as many words as are wanted.
pub(crate) fn plain_text(messages: usize, tokens: usize) -> String {
    match tokens {
        0 => format!("This is the mock provider. I saw {messages} messages."),
        _ => (0..tokens).map(|at| if at == 0 { "word".to_owned() } else { format!(" word{}", at % 10) }).collect(),
    }
}
