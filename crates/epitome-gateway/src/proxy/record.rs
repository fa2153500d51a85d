//! The record: what came is logged, what was answered is kept, and what it took is learned. All of it beside the request.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use epitome::budget::{Meter, Tokens};
use epitome::wire::{Dialect, MarkLifetime, cache_marks, decode_message};
use epitome_runtime::engine::{Engine, OpenThread, Saved};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::log::NewDocument;
use epitome_runtime::model::{ModelAnswer, Usage};
use epitome_runtime::store::{DocumentKind, StoreWait, Write};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Inner;
use super::answer::{End, Said};
use super::asked::Asked;
use super::relay::UNSAID_MIN;
use super::suspicion::Shown;
use super::turn::{Told, Turn};
use crate::caller::Caller;
use crate::fail_open::FailOpenReason;
use crate::identity::{Counted, Relation, Scope};
use crate::ledger::{self, Extra, ExtraKind, Marks, Original};
use crate::serve::RequestId;

/// What a provider adds to every request outweighs smaller prompts: they say nothing of how it counts.
const LESSON_MIN: Tokens = Tokens::new(4000);
const LESSON_SHARE: f64 = 0.25;
/// What a token of an answer is taken for that broke off before the provider counted it.
const BYTES_PER_TOKEN: u64 = 4;

/// An answer, as it is kept: the thread has it once the client sends it back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    thread: String,
    /// How many messages the thread had when it was given.
    length: u64,
    messages: Vec<String>,
}

impl Kept {
    fn of(turn: &Turn, answer: &ModelAnswer) -> Kept {
        Kept {
            thread: turn.placed.thread.key().thread.to_string(),
            length: turn.asked.messages().len() as u64,
            messages: answer.messages.clone(),
        }
    }

    fn bytes(&self) -> usize {
        self.messages.iter().map(String::len).sum()
    }
}

/// How a request went.
#[derive(Debug)]
pub(super) struct Gone {
    pub told: Told,
    pub counted: Option<Tokens>,
    pub status: StatusCode,
    pub end: End,
    pub id: RequestId,
    /// What each of several answers took that one was woven of.
    pub rounds: Vec<Usage>,
    /// What those took that were thrown away for it.
    pub discarded: Vec<Usage>,
    /// Dropped once what came and what was answered is in the store, or cannot be: somebody waits for that.
    pub persisted: Option<oneshot::Sender<()>>,
}

/// What is written down of a request that is over.
#[derive(Default)]
struct Record {
    writes: Vec<Write>,
    charges: Vec<ledger::Charge>,
}

impl Inner {
    /// Records a request that is over.
    pub(super) async fn record(self: &Arc<Self>, turn: Arc<Turn>, gone: Gone) {
        let recorded = self.recorded(Arc::clone(&turn), gone);
        let Some(Record { writes, charges }) = self.whatever_breaks(turn, recorded).await else { return };
        tokio::join!(self.keep(&writes), self.ledger.note(charges));
    }

    async fn keep(&self, writes: &[Write]) {
        let begun = Instant::now();
        if let Err(error) = self.engine.log().apply(writes).await {
            tracing::warn!(%error, "failed to persist answers");
            self.store_failed_after(begun);
        }
    }

    /// Sees to it that everything that came is in the log, and learns from how it went.
    async fn recorded(self: &Arc<Self>, turn: Arc<Turn>, gone: Gone) -> Record {
        let counted = self.counted(&turn, &gone).await;
        let Gone { told, status, end, id, rounds, discarded, persisted, .. } = gone;
        let end = end.known();
        let mut record = Record::default();
        record.writes.extend(self.kept_pins(&turn));
        let (answer, error) = match end.answer {
            Some(Ok(answer)) => (Some(answer), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        if let Some(answer) = &answer {
            record.writes.extend(self.kept_answer(&turn, answer, &id));
        }
        // Somebody waits for these alone: what is learned, and what it cost, can wait.
        if persisted.is_some() {
            self.keep(&std::mem::take(&mut record.writes)).await;
            drop(persisted);
        }
        let counted = counted.filter(|_| status.is_success());
        if let Some(counted) = counted {
            let usage = answer.as_ref().and_then(|answer| answer.usage);
            if let Some((usage, is_estimated)) = charged_usage(usage, end.said, answer.as_ref(), counted) {
                let request = self.charged(&turn, &told, counted, (&rounds, &discarded), &id);
                record.charges.push(ledger::Charge { request, usage, is_estimated });
            }
        }
        if let (Some(error), Some(counted)) = (&error, counted) {
            // It is too late to send this one again; the next one of its thread will fit.
            if let Some(thread) = turn.line().open.lock().await.as_mut() {
                thread.learn_overflow(&turn.served, counted, error).await;
            }
            tracing::debug!(%error, is_left = end.is_left, request = id.as_str(), "there is no answer to keep");
        }
        let Some(answer) = answer else { return record };
        if let (Some(counted), Some(usage)) = (counted, &answer.usage)
            && !matches!(self.suspicions.went_through(&turn.served, counted, usage), Shown::Cut(_))
            && counted > LESSON_MIN.min(turn.window().share(LESSON_SHARE))
        {
            turn.engine.learn(&turn.served, |lesson| lesson.accept(counted, usage)).await;
        }
        if let Some(counted) = counted.filter(|_| told.plan > 0 && !end.has_filled)
            && let Some(thread) = turn.line().open.lock().await.as_mut()
        {
            thread.confirm_window(&turn.served, counted, answer.usage.as_ref()).await;
        }
        if let Some(usage) = answer.usage.filter(|usage| end.has_filled && usage.input > UNSAID_MIN.get()) {
            // It is too late to send this one again; the next ones will fit.
            self.suspicions.refused(&turn.served, Tokens::new(usage.input + usage.output));
        }
        record
    }

    /// What a request was counted as, with all that came in the log.
    async fn counted(self: &Arc<Self>, turn: &Arc<Turn>, gone: &Gone) -> Option<Tokens> {
        let (line, begun) = (&turn.placed.thread, Instant::now());
        let open = match self.settled(turn, line).await {
            Ok(open) => open,
            Err(error) => {
                let request = gone.id.as_str();
                tracing::warn!(%error, request, "failed to persist request messages; retrying");
                self.store_failed_after(begun);
                self.settle_later(Arc::clone(turn));
                return gone.counted;
            }
        };
        if open.as_ref().is_some_and(|thread| thread.saved() != Saved::Yes) {
            self.settle_later(Arc::clone(turn));
        } else if let Err(error) = self.engine.look_for_annotations(&line.key()).await {
            // Another process may have noted something; the next request of the thread shows it.
            tracing::debug!(%error, "failed to look for notes on a thread");
        }
        let is_whole = |thread: &&OpenThread| gone.told.plan == 0 && thread.thread().evicted().is_none();
        let Some(thread) = open.as_ref().filter(is_whole) else { return gone.counted };
        let tokens = counted_in(turn, thread);
        gone.counted.or(Some(tokens))
    }

    /// A request as the ledger has it. The tokens of single messages are told by their size: the whole is what counts.
    fn charged(
        &self,
        turn: &Turn,
        told: &Told,
        sent: Tokens,
        (rounds, discarded): (&[Usage], &[Usage]),
        id: &RequestId,
    ) -> ledger::Request {
        let facts = turn.placed.thread.state();
        let (key, counted, forked_from) = (facts.key.clone(), facts.counted, facts.forked_from.clone());
        drop(facts);
        let document = &turn.asked.document;
        let counted = counted.filter(|counted| counted.frame == turn.asked.frame());
        let fixed = counted.map_or_else(|| fixed_tokens(turn), |counted| counted.fixed);
        let all = told.before.unwrap_or(sent) - fixed;
        let bytes: usize = turn.asked.messages().iter().map(epitome::thread::Raw::len).sum();
        let share = |message: &epitome::thread::Raw| all.share(message.len() as f64 / bytes.max(1) as f64);
        let ids = turn.prints.iter().map(|print| epitome::thread::MessageId::from_bytes(*print.as_bytes()));
        let mut head = blake3::Hasher::new();
        for beside in turn.asked.system().iter().chain(&document.tools().map(ToString::to_string)) {
            head.update(beside.as_bytes());
        }
        let head: [u8; 32] = *head.finalize().as_bytes();
        let of_messages = document.items().iter().flat_map(|item| cache_marks(item.as_str()));
        let marks = document.marks_before().into_iter().chain(of_messages).chain(document.automatic_mark());
        let marks = marks.fold(Marks::None, |longest, mark| match (longest, mark) {
            (Marks::Long, _) | (_, MarkLifetime::Long) => Marks::Long,
            (_, MarkLifetime::Short) => Marks::Short,
        });
        let retries = discarded.iter().map(|usage| (ExtraKind::Retry, *usage));
        let own_rounds = rounds.iter().rev().skip(1).map(|usage| (ExtraKind::OwnTool, *usage));
        let model = turn.asked.model().to_owned();
        ledger::Request {
            at: turn.at,
            key,
            forked_from,
            id: id.as_str().to_owned(),
            window: turn.window(),
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
        let at_hand = self.scopes.lock().unwrap_or_else(PoisonError::into_inner).get(scope).cloned();
        if at_hand.is_some() {
            return at_hand;
        }
        let found = engine.log().document::<String>(&caller.tenant, DocumentKind::Scope, &scope.document()).await;
        found.ok().and_then(|(earlier, _)| earlier)
    }

    /// Keeps the pins of a thread for whoever goes on with it.
    pub(super) fn kept_pins(&self, turn: &Turn) -> Option<Write> {
        let (key, pins) = {
            let facts = turn.placed.thread.state();
            (facts.key.clone(), facts.pins.clone())
        };
        // A fork takes those over that it was made with.
        let is_new = !turn.wishes.pins.is_empty() || turn.placed.relation == Relation::Fork;
        let is_new = is_new && turn.scope.keeps_pins();
        (is_new && !pins.is_empty()).then(|| {
            self.engine.log().put_document(NewDocument::new(
                &key.tenant,
                DocumentKind::Pins,
                key.thread.as_str(),
                &pins,
            ))
        })
    }

    /// Keeps an answer at hand that a client may go on from by its name, before the client has all of it.
    pub(super) fn remember(&self, turn: &Turn, end: End) -> End {
        if turn.asked.dialect() != Dialect::Responses {
            return end;
        }
        let end = end.known();
        if let Some(Ok(answer)) = &end.answer
            && let Some(name) = answer.id.clone()
        {
            self.keep_at_hand(turn, name, answer);
        }
        End::Known(end)
    }

    fn keep_at_hand(&self, turn: &Turn, name: String, answer: &ModelAnswer) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Kept::of(turn, answer);
        let bytes: usize = answers.values().chain([&kept]).map(Kept::bytes).sum();
        if answers.len() >= super::ANSWERS_MAX || bytes > super::ANSWERS_BYTES_MAX {
            answers.clear();
        }
        answers.insert((turn.caller.tenant.clone(), turn.scope.answer(&name)), kept);
    }

    /// Remembers which thread was last begun in a scope.
    pub(super) fn note_scope(&self, scope: &Scope, thread: &ThreadId) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if scopes.len() >= super::ANSWERS_MAX {
            scopes.clear();
        }
        scopes.insert(scope.clone(), thread.to_string());
    }

    /// Keeps an answer, and what is found by it.
    fn kept_answer(&self, turn: &Turn, answer: &ModelAnswer, id: &RequestId) -> Vec<Write> {
        let key = turn.placed.thread.key();
        let kept = Kept::of(turn, answer);
        let at = Moment::now();
        let log = self.engine.log();
        let name = format!("{}:{}:{}", key.thread, kept.length, id.as_str());
        let put = |kind, name: &str| {
            let (tenant, value) = (&key.tenant, &kept);
            log.put_document(NewDocument::new(tenant, kind, name, value).at(at))
        };
        let mut writes = vec![put(DocumentKind::Answer, &name)];
        if turn.placed.relation == Relation::New && turn.scope.is_named() {
            let (value, name) = (key.thread.to_string(), turn.scope.document());
            let scope = NewDocument::new(&key.tenant, DocumentKind::Scope, &name, &value).at(at);
            writes.push(log.put_document(scope));
        }
        if let Some(response) = answer.id.as_deref().filter(|_| turn.asked.dialect() == Dialect::Responses) {
            writes.push(put(DocumentKind::Response, &turn.scope.answer(response)));
        }
        writes.extend(self.traces(turn, answer, at));
        writes
    }

    /// A request that goes on from an answer which the provider keeps, with the history that is known here. One whose
    /// history is not known here stays as it is.
    pub(super) async fn completed(
        &self,
        engine: &Engine,
        scope: &Scope,
        asked: Arc<Asked>,
        store_wait: &StoreWait,
    ) -> Result<Arc<Asked>, FailOpenReason> {
        let Some(previous) = asked.previous() else { return Ok(asked) };
        if self.store_rests() {
            return Err(FailOpenReason::Store);
        }
        let at_hand = {
            let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.get(&(scope.tenant.clone(), scope.answer(&previous))).cloned()
        };
        let history = history(engine, scope, &previous, at_hand);
        match store_wait.wait(history).await {
            Some(Ok(Some(before))) => Ok(asked.completed(&before).map_or(asked, Arc::new)),
            Some(Ok(None)) => Ok(asked),
            Some(Err(error)) => {
                tracing::warn!(%error, "failed to read the history of a previous response");
                Err(FailOpenReason::Store)
            }
            None => {
                self.store_failed();
                Err(FailOpenReason::Store)
            }
        }
    }
}

/// What a request took, and whether that is an estimate: many say nothing of a stream unless they are asked to, and nobody
/// does of one that broke off.
fn charged_usage(
    usage: Option<Usage>,
    said: Option<Said>,
    answer: Option<&ModelAnswer>,
    counted: Tokens,
) -> Option<(Usage, bool)> {
    if let Some(usage) = usage {
        return Some((usage, false));
    }
    let bytes = match (said, answer) {
        (Some(said), _) => said.bytes,
        (None, Some(answer)) => answer.messages.iter().map(String::len).sum(),
        (None, None) => return None,
    };
    let begun = said.and_then(|said| said.usage).unwrap_or(Usage { input: counted.get(), ..Usage::default() });
    let output = begun.output.max(bytes as u64 / BYTES_PER_TOKEN);
    Some((Usage { output, ..begun }, true))
}

/// The messages up to and with an answer.
async fn history(
    engine: &Engine,
    scope: &Scope,
    previous: &str,
    at_hand: Option<Kept>,
) -> Result<Option<Vec<String>>, epitome_runtime::engine::EngineError> {
    let log = engine.log();
    let kept = match at_hand {
        Some(kept) => Some(kept),
        None => log.document::<Kept>(&scope.tenant, DocumentKind::Response, &scope.answer(previous)).await?.0,
    };
    let Some(kept) = kept else { return Ok(None) };
    let Ok(thread) = kept.thread.parse() else { return Ok(None) };
    let key = epitome_runtime::ids::ThreadKey::new(scope.tenant.clone(), thread);
    let Some(row) = log.thread(&key).await?.filter(|row| row.length >= kept.length) else { return Ok(None) };
    let entries = log.read(&row, 0..kept.length).await?;
    let before = entries.into_iter().map(|entry| entry.message.raw.to_string());
    Ok(Some(before.chain(kept.messages).collect()))
}

/// The tokens of a request whose thread has all of it; its line knows them from then on.
pub(super) fn counted_in(turn: &Turn, thread: &OpenThread) -> Tokens {
    let messages = turn.asked.messages().len();
    let tokens = thread.thread().tokens(0..messages.min(thread.thread().len()));
    let frame = turn.asked.frame();
    let known = turn.placed.thread.state().counted.filter(|counted| counted.frame == frame);
    let fixed = known.map_or_else(|| fixed_tokens(turn), |counted| counted.fixed);
    if known.is_none_or(|before| before.messages <= messages) {
        turn.placed.thread.state().counted = Some(Counted { messages, tokens, fixed, frame });
    }
    tokens + fixed
}

/// The tokens of a request that was not counted on its way.
pub(super) fn all_tokens(turn: &Turn) -> Tokens {
    let meter = Meter::new(&**turn.engine.counter(), turn.asked.dialect());
    let messages = turn.asked.messages().iter().map(|raw| decode_message(turn.asked.dialect(), raw));
    let messages: Tokens = messages.map(|message| meter.count(&message)).sum();
    messages + fixed_tokens(turn)
}

/// The tokens of what stands in every request.
pub(super) fn fixed_tokens(turn: &Turn) -> Tokens {
    let meter = Meter::new(&**turn.engine.counter(), turn.asked.dialect());
    let tools = turn.asked.document.tools().map(epitome::thread::Raw::as_str);
    meter.fixed(turn.asked.system().as_deref(), tools).total()
}
