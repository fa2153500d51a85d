//! The record: what came is logged, what was answered is kept, and what it took is learnt. All of it beside the request.

use std::sync::{Arc, PoisonError};

use epitome::budget::{Tokens, Window};
use epitome::wire::Dialect;
use epitome_runtime::engine::{Engine, OpenThread, Saved};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::log::Document;
use epitome_runtime::model::{ModelAnswer, Usage};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::answer::End;
use super::asked::Asked;
use super::turn::{Told, Turn};
use super::{Inner, UNSAID_MIN};
use crate::caller::Caller;
use crate::identity::{Counted, Relation, Scope};
use crate::ledger::{self, Extra, ExtraKind, Marks, Original};
use crate::serve::RequestId;

/// What a provider adds to every request outweighs smaller prompts: they say nothing of how it counts.
const LESSON_MIN: Tokens = Tokens::new(4000);
const LESSON_SHARE: f64 = 0.25;
/// How long an answer that a client may go on from by its id is kept.
const RESPONSE_DAYS: u64 = 30;

/// An answer, as it is kept: the thread has it once the client sends it back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    thread: String,
    /// How many messages the thread had when it was given.
    length: u64,
    /// Its messages.
    messages: Vec<String>,
}

impl Kept {
    fn of(turn: &Turn, answer: &ModelAnswer) -> Kept {
        Kept {
            thread: turn.placed.line.key().thread.to_string(),
            length: turn.asked.messages().len() as u64,
            messages: answer.messages.clone(),
        }
    }
}

/// How a request went.
#[derive(Debug)]
pub(super) struct Gone {
    pub told: Told,
    /// What it was counted as.
    pub counted: Option<Tokens>,
    pub status: StatusCode,
    pub end: End,
    pub id: RequestId,
    /// What each of several answers took that one was woven of.
    pub rounds: Vec<Usage>,
}

impl Inner {
    /// Sees to it that everything that came is in the log, and learns from how it went.
    pub(super) async fn record(self: Arc<Self>, turn: Arc<Turn>, gone: Gone) {
        let Gone { told, counted, status, end, id, rounds } = gone;
        let line = Arc::clone(&turn.placed.line);
        let counted = match self.settled(&turn, &line).await {
            Ok(mut open) => {
                if open.as_ref().is_some_and(|thread| thread.saved() != Saved::Yes) {
                    self.settle_later(Arc::clone(&turn));
                }
                let messages = turn.asked.messages().len();
                let fixed = line.facts().counted.map(|counted| counted.fixed);
                let is_whole = |thread: &&mut OpenThread| told.plan == 0 && thread.thread().evicted().is_none();
                match open.as_mut().filter(is_whole) {
                    Some(thread) => {
                        let tokens = thread.thread().tokens(0..messages.min(thread.thread().len()));
                        let fixed = fixed.unwrap_or_else(|| fixed_tokens(&turn));
                        let now = Counted { messages, tokens, fixed, prompt: tokens };
                        let mut facts = line.facts();
                        if facts.counted.is_none_or(|before| before.messages <= messages) {
                            facts.counted = Some(now);
                        }
                        counted.or(Some(tokens + fixed))
                    }
                    None => counted,
                }
            }
            Err(error) => {
                tracing::warn!(%error, request = id.as_str(), "what came is not in the log yet");
                self.settle_later(Arc::clone(&turn));
                counted
            }
        };
        self.keep_pins(&turn, &id).await;
        let answer = match end.answer {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                if let Some(counted) = counted.filter(|_| status.is_success()) {
                    // It is too late to send this one again; the next one will fit.
                    turn.engine.learn(|learnt| learnt.error(turn.asked.model(), counted, &error)).await;
                }
                tracing::debug!(%error, is_left = end.is_left, status = status.as_u16(), request = id.as_str(), "there is no answer to keep");
                return;
            }
            None => return,
        };
        if let (Some(counted), Some(usage)) = (counted, &answer.usage)
            && self.suspicions.went_through(turn.asked.model(), counted, usage).is_none()
            && counted > LESSON_MIN.min(window(&turn).share(LESSON_SHARE))
        {
            turn.engine.learn(|learnt| learnt.usage(turn.asked.model(), counted, usage)).await;
        }
        if let Some(usage) = answer.usage.filter(|usage| end.has_filled && usage.input > UNSAID_MIN.get()) {
            // It is too late to send this one again; the next one will fit.
            let window = Tokens::new(usage.input + usage.output);
            turn.engine.learn(|learnt| learnt.windows.learn(turn.asked.model(), window)).await;
        }
        if let (Some(counted), Some(usage)) = (counted, answer.usage) {
            let request = self.charged(&turn, &told, counted, &rounds, &id);
            self.ledger.note(request, usage).await;
        }
        self.keep_answer(&turn, &answer, &id).await;
    }

    /// A request as the ledger has it. The tokens of single messages are told by their size: the whole is what counts.
    fn charged(&self, turn: &Turn, told: &Told, sent: Tokens, rounds: &[Usage], id: &RequestId) -> ledger::Request {
        let facts = turn.placed.line.facts();
        let (key, counted) = (facts.key.clone(), facts.counted);
        drop(facts);
        let document = &turn.asked.document;
        let fixed = counted.map_or(Tokens::ZERO, |counted| counted.fixed);
        let all = told.before.unwrap_or(sent) - fixed;
        let bytes: usize = turn.asked.messages().iter().map(epitome::thread::Raw::len).sum();
        let share = |message: &epitome::thread::Raw| all.share(message.len() as f64 / bytes.max(1) as f64);
        let ids = turn.prints.iter().map(|print| epitome::thread::MessageId::from_bytes(*print.as_bytes()));
        let mut head = blake3::Hasher::new();
        for beside in turn.asked.system().iter().chain(&document.tools().map(ToString::to_string)) {
            head.update(beside.as_bytes());
        }
        let head: [u8; 32] = *head.finalize().as_bytes();
        let source = document.source().as_str();
        let marks = match (source.contains("\"cache_control\""), source.contains("\"ttl\":\"1h\"")) {
            (false, _) => Marks::None,
            (true, true) => Marks::Long,
            (true, false) => Marks::Short,
        };
        let retries = (0..told.retries).map(|_| (ExtraKind::Retry, Usage::default()));
        let own_rounds = rounds.iter().rev().skip(1).map(|usage| (ExtraKind::OwnTool, *usage));
        let model = turn.asked.model().to_owned();
        ledger::Request {
            at: turn.at,
            key,
            forked_from: None,
            id: id.as_str().to_owned(),
            window: window(turn),
            original: Original {
                head: u64::from_le_bytes(head[..8].try_into().unwrap_or_default()),
                head_tokens: fixed,
                messages: ids.zip(turn.asked.messages().iter().map(share)).collect(),
            },
            marks,
            sent,
            changed: told.plan > 0,
            extra: retries.chain(own_rounds).map(|(kind, usage)| Extra { kind, model: model.clone(), usage }).collect(),
            model,
        }
    }

    /// The thread that was last begun in a scope: what the client calls its conversation was something else before.
    pub(super) async fn earlier(&self, engine: &Engine, caller: &Caller, scope: &Scope) -> Option<String> {
        if !scope.is_named() {
            return None;
        }
        let at_hand = self.scopes.lock().unwrap_or_else(PoisonError::into_inner).get(&scope.name).cloned();
        if at_hand.is_some() {
            return at_hand;
        }
        let found = engine.log().document::<String>(&caller.tenant, "scope", &scope.document()).await;
        found.ok().and_then(|(earlier, _)| earlier)
    }

    /// Keeps the pins of a thread for whoever goes on with it.
    async fn keep_pins(&self, turn: &Turn, id: &RequestId) {
        let (key, pins) = {
            let facts = turn.placed.line.facts();
            (facts.key.clone(), facts.pins.clone())
        };
        // A fork takes those over that it was made with.
        let is_new = !turn.wishes.pins.is_empty() || turn.placed.relation == Relation::Fork;
        if pins.is_empty() || !is_new {
            return;
        }
        let (log, name, at) = (self.engine.log(), key.thread.as_str(), Moment::now());
        let kind = super::prompt::PINS;
        let write = log.put_document(&Document {
            tenant: &key.tenant,
            kind,
            name,
            value: &pins,
            expected: None,
            at,
            expires: None,
        });
        if let Err(error) = log.apply(&[write]).await {
            tracing::warn!(%error, request = id.as_str(), "pins could not be kept");
        }
    }

    /// Keeps an answer at hand that a client may go on from by its name, before the client has all of it.
    pub(super) fn remember(&self, turn: &Turn, end: &End) {
        let Some(Ok(answer)) = &end.answer else { return };
        let Some(name) = answer.id.clone().filter(|_| turn.asked.dialect() == Dialect::Responses) else { return };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= super::ANSWERS_MAX {
            answers.clear();
        }
        answers.insert((turn.caller.tenant.clone(), name), Kept::of(turn, answer));
    }

    /// Remembers which thread was last begun in a scope.
    pub(super) fn note_scope(&self, scope: &Scope, thread: &ThreadId) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if scopes.len() >= super::ANSWERS_MAX {
            scopes.clear();
        }
        scopes.insert(scope.name.clone(), thread.to_string());
    }

    async fn keep_answer(&self, turn: &Turn, answer: &ModelAnswer, id: &RequestId) {
        let key = turn.placed.line.key();
        let kept = Kept::of(turn, answer);
        let at = Moment::now();
        let expires = Some(at.after(std::time::Duration::from_secs(RESPONSE_DAYS * 86_400)));
        let log = self.engine.log();
        let name = format!("{}:{}:{}", key.thread, kept.length, id.as_str());
        let put = |kind, name: &str, expires| {
            log.put_document(&Document { tenant: &key.tenant, kind, name, value: &kept, expected: None, at, expires })
        };
        let mut writes = vec![put("answer", &name, None)];
        if turn.placed.relation == Relation::New && turn.scope.is_named() {
            let (value, name) = (key.thread.to_string(), turn.scope.document());
            let scope = Document {
                tenant: &key.tenant,
                kind: "scope",
                name: &name,
                value: &value,
                expected: None,
                at,
                expires,
            };
            writes.push(log.put_document(&scope));
        }
        if let Some(response) = answer.id.as_deref().filter(|_| turn.asked.dialect() == Dialect::Responses) {
            writes.push(put("response", response, expires));
        }
        if let Err(error) = log.apply(&writes).await {
            tracing::warn!(%error, request = id.as_str(), "an answer could not be kept");
        }
    }

    /// A request that goes on from an answer which the provider keeps, with the history that is known here. One whose
    /// history is not known here stays as it is.
    pub(super) async fn completed(
        &self,
        engine: &Engine,
        caller: &Caller,
        asked: Asked,
    ) -> Result<Asked, &'static str> {
        let Some(previous) = asked.previous() else { return Ok(asked) };
        if self.store_rests() {
            return Err("store");
        }
        let at_hand = {
            let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.get(&(caller.tenant.clone(), previous.clone())).cloned()
        };
        let history = history(engine, caller, &previous, at_hand);
        let found = tokio::time::timeout(self.settings.limits.store_patience, history).await;
        match found {
            Ok(Ok(Some(before))) => Ok(asked.completed(&before).unwrap_or(asked)),
            Ok(Ok(None)) => Ok(asked),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the history of an answer could not be read");
                Err("store")
            }
            Err(_) => {
                self.store_failed();
                Err("store")
            }
        }
    }
}

/// The window of the model that a turn is for.
pub(super) fn window(turn: &Turn) -> Tokens {
    match turn.engine.learnt().windows.of(turn.asked.model()) {
        Window::Listed(tokens) | Window::Learned(tokens) => tokens,
        Window::Fallback(_) => turn.engine.settings().policy.trigger.window,
    }
}

/// The messages up to and with an answer.
async fn history(
    engine: &Engine,
    caller: &Caller,
    previous: &str,
    at_hand: Option<Kept>,
) -> Result<Option<Vec<String>>, epitome_runtime::engine::EngineError> {
    let log = engine.log();
    let kept = match at_hand {
        Some(kept) => Some(kept),
        None => log.document::<Kept>(&caller.tenant, "response", previous).await?.0,
    };
    let Some(kept) = kept else { return Ok(None) };
    let Ok(thread) = kept.thread.parse() else { return Ok(None) };
    let key = epitome_runtime::ids::ThreadKey::new(caller.tenant.clone(), thread);
    let Some(row) = log.thread(&key).await?.filter(|row| row.length >= kept.length) else { return Ok(None) };
    let entries = log.read(&row, 0..kept.length).await?;
    let before = entries.into_iter().map(|entry| entry.message.raw.to_string());
    Ok(Some(before.chain(kept.messages).collect()))
}

/// The tokens of a request that was not counted on its way.
pub(super) fn all_tokens(turn: &Turn) -> Tokens {
    let counter = turn.engine.counter();
    let messages: Tokens = turn.asked.messages().iter().map(|message| counter.count(message.as_str())).sum();
    messages + fixed_tokens(turn)
}

/// The tokens of what stands in every request.
pub(super) fn fixed_tokens(turn: &Turn) -> Tokens {
    let counter = turn.engine.counter();
    let tools = turn.asked.document.tools().map(ToString::to_string);
    turn.asked.system().iter().chain(&tools).map(|text| counter.count(text) + Tokens::new(4)).sum()
}
