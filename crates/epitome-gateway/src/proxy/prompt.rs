//! The prompt: what goes to the provider in the place of what came.
//!
//! Under budget it is what came. Otherwise the thread is brought up to date, the engine decides, and the plan is rendered
//! onto the client's own bytes.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use epitome::budget::Tokens;
use epitome::plan::Compaction;
use epitome::summary::Fate;
use epitome::wire::{Dialect, MarkLifetime, PromptMessage, cache_marks, set_field, without_field};
use epitome_runtime::engine::{EngineError, OpenThread, Saved, Step, StepRequest};
use epitome_runtime::ids::{ThreadId, ThreadKey};
use epitome_runtime::log::LogError;
use epitome_runtime::store::{DocumentKind, StoreError};
use tokio::sync::MutexGuard;

use super::Inner;
use super::turn::{Pressure, Told, Turn};
use crate::fail_open::FailOpenReason;
use crate::identity::{CachedThread, Counted, Origin, Parent, ThreadQuery, loaded_bytes};

/// How often a line is begun anew because others were faster.
const RACES_MAX: usize = 4;
/// The label that says which thread a client compacted into this one.
const DERIVED_FROM: &str = "derived_from";
/// The most cache marks that a provider takes.
const MARKS_MAX: usize = 4;

/// What goes to the provider.
#[derive(Clone, Debug)]
pub struct Sending {
    pub body: Bytes,
    /// Whether it is what came.
    pub is_original: bool,
    /// Whether the request needs the header that lets thinking of another prefix be dropped.
    pub drops_thinking: bool,
    pub told: Told,
    /// What it was counted as, with everything.
    pub counted: Option<Tokens>,
    /// Whether everything that came for it is in the store.
    pub is_saved: bool,
}

impl Sending {
    /// What came.
    pub fn original(turn: &Turn, told: Told) -> Self {
        let (body, is_original) = if turn.asked.is_restored {
            (Bytes::from(turn.asked.document.source().to_string()), false)
        } else {
            (turn.original.clone(), true)
        };
        Sending { body, is_original, drops_thinking: false, told, counted: None, is_saved: true }
    }
}

impl Inner {
    /// Whether a request certainly fits.
    pub(super) fn certainly_fits(&self, turn: &Turn) -> bool {
        let is_annotated = {
            let state = turn.placed.thread.state();
            let parent = state.forked_from.clone().map(|parent| ThreadKey::new(state.key.tenant.clone(), parent));
            let keys = [Some(state.key.clone()), parent];
            state.version > 0 || keys.iter().flatten().any(|key| self.engine.is_annotated(key))
        };
        if is_annotated || turn.asked.is_completed {
            return false;
        }
        let output = turn.asked.document.max_output().map(Tokens::new);
        let trigger = self.trigger_of(&turn.engine, output, &turn.wishes, &turn.served);
        turn.tokens_at_most().is_some_and(|most| most <= trigger)
    }

    /// Decides what goes out, with the thread brought up to date.
    pub(super) async fn prompt(self: Arc<Self>, turn: Arc<Turn>, pressure: Pressure) -> Result<Sending, EngineError> {
        // Others may have waited for the store in vain meanwhile; then it is not waited for again.
        drop(turn.line().open.lock().await);
        if self.store_rests() {
            let reason = "it did not answer a moment ago".to_owned();
            return Err(StoreError::Unavailable(reason).into());
        }
        let line = self.line_of(&turn).await?;
        let mut open = self.settled(&turn, &line).await?;
        let Some(thread) = open.as_mut() else { return Err(EngineError::NotAllowed) };
        is_outgrown(&turn, thread).map_or(Ok(()), Err)?;
        if let Some((error, counted)) = &pressure.refused {
            thread.learn_overflow(&turn.served, *counted, error).await;
        }
        let pins = line.state().pins.clone();
        let asked = StepRequest {
            pins,
            ..turn.step(&pressure, self.settings.serve.budget, self.suspicions.window(&turn.served))
        };
        let step = thread.prepare_step(&asked).await?;
        thread.note_call();
        // A plan that was swapped in since the last prompt fills the provider's cache anew.
        let is_rewritten =
            line.state().sent_under.is_some_and(|before| before != step.version) || step.compacted.is_some();
        self.note(&turn, &line, thread, (&step, pressure.beside));
        let own = turn.asked.is_own_compaction() || turn.client.is_compacting();
        drop(open);
        let fits_as_it_is = step.whole() + step.fixed <= self.window_of(&turn);
        if own && fits_as_it_is && pressure.harder == 0 && !step.has_hidden() {
            return Ok(Sending::original(&turn, Told { plan: 0, receipt: None, ..told(&turn, &step) }));
        }
        let is_saved = step.saved == Saved::Yes;
        let mut sending = rendered(&turn, &step, &pressure, fits_as_it_is);
        sending.told.is_rewritten = is_rewritten && !sending.is_original;
        sending.is_saved = is_saved;
        Ok(sending)
    }

    /// The line that a turn's prompt is made of and its model may read. A line is shared by requests that say the same; one
    /// that went on with another's words is left where they part, or those words would be in this prompt's summary.
    pub(super) async fn line_of(&self, turn: &Turn) -> Result<Arc<CachedThread>, EngineError> {
        let line = turn.line();
        let open = self.settled(turn, line).await?;
        match open.as_ref().and_then(|thread| is_outgrown(turn, thread)) {
            None => Ok(Arc::clone(line)),
            Some(_) => Ok(Arc::clone(turn.leave_line())),
        }
    }

    /// Notes what was counted.
    fn note(&self, turn: &Turn, line: &CachedThread, thread: &OpenThread, (step, beside): (&Step, Tokens)) {
        let mut facts = line.state();
        facts.version = step.version;
        facts.sent_under = Some(step.version);
        facts.counted = Some(Counted {
            messages: usize::try_from(thread.length()).unwrap_or(usize::MAX),
            tokens: thread.thread().total(),
            fixed: step.fixed - beside,
            frame: turn.asked.frame(),
        });
    }

    /// The line's thread, opened, with everything in the store that has come for it.
    pub(super) async fn settled<'l>(
        &self,
        turn: &Turn,
        line: &'l Arc<CachedThread>,
    ) -> Result<MutexGuard<'l, Option<OpenThread>>, EngineError> {
        let mut open = line.open.lock().await;
        let begun = Instant::now();
        let weight_before = loaded_bytes(open.as_ref());
        let wanted = turn.asked.messages().len();
        for _ in 0..RACES_MAX {
            let thread = match open.as_mut() {
                Some(thread) => {
                    thread.go_on_under(&turn.engine).await?;
                    thread
                }
                None => match self.opened(turn, line).await {
                    Ok(thread) => open.insert(thread),
                    // It, or the thread that it leaves, became another one or is not in the store any more.
                    Err(EngineError::Moved { .. } | EngineError::Log(LogError::NoThread(_))) => {
                        self.part(turn, line).await?;
                        continue;
                    }
                    Err(error) => {
                        self.store_failed_after(begun);
                        return Err(error);
                    }
                },
            };
            let (place, pending) = line.take_pending();
            let appended = if pending.is_empty() {
                Ok(())
            } else {
                thread.append_at(place, pending.iter().map(String::as_str)).await.map(drop)
            };
            match appended {
                Ok(()) if thread.length() >= wanted as u64 && !thread.is_lost() => {
                    note_stored(line, thread);
                    if thread.saved() != Saved::Yes {
                        self.store_failed_after(begun);
                    }
                    self.lines.update_size(weight_before, loaded_bytes(open.as_ref()));
                    return Ok(open);
                }
                // Somebody else goes on with this thread: what came here leaves it where they part. Or the store is another
                // one now, which knows nothing of it.
                Ok(()) | Err(EngineError::Moved { .. } | EngineError::Log(LogError::NoThread(_))) => {
                    *open = None;
                    self.part(turn, line).await?;
                }
                Err(error) => {
                    line.put_back(pending);
                    self.store_failed_after(begun);
                    return Err(error);
                }
            }
        }
        Err(EngineError::Moved { length: 0, place: wanted as u64 })
    }

    async fn opened(&self, turn: &Turn, line: &CachedThread) -> Result<OpenThread, EngineError> {
        let (ThreadKey { thread, .. }, mut origin) = {
            let facts = line.state();
            (facts.key.clone(), facts.origin.clone())
        };
        let access = turn.access();
        if let Origin::Fork { at, parent: Some(Parent(parent)), .. } = origin.clone() {
            self.store_parent(turn, &parent, at).await?;
            // It may have become another thread on its way into the store.
            let from = parent.key().thread;
            origin = Origin::Fork { from: from.clone(), at, parent: None };
            line.state().forked_from = Some(from);
        }
        self.remember_pins(turn, line, &thread, &origin).await?;
        let opened = match origin {
            Origin::Stored => turn.engine.resume(&access, thread).await?,
            Origin::New { scope, mut labels } => {
                if let Some(earlier) = self.traced(turn).await? {
                    labels[DERIVED_FROM] = earlier.as_str().into();
                }
                let scope = epitome_runtime::engine::ThreadScope { name: scope, labels };
                turn.engine.open_in(&access, thread, turn.asked.dialect(), scope).await?
            }
            Origin::Fork { from, at, .. } => match turn.engine.fork(&access, from, at, thread.clone()).await {
                Err(EngineError::Log(LogError::Taken(_))) => turn.engine.resume(&access, thread).await?,
                forked => forked?,
            },
        };
        line.state().origin = Origin::Stored;
        Ok(opened)
    }

    /// Sees to it that the store has the first `at` messages of a thread that another one leaves: it cannot be forked
    /// before. Usually somebody is about to write them, and this waits for that; otherwise it writes them itself.
    async fn store_parent(&self, turn: &Turn, parent: &Arc<CachedThread>, at: u64) -> Result<(), EngineError> {
        let is_stored = || parent.state().stored as u64 >= at;
        if is_stored() {
            return Ok(());
        }
        // Forks lock their parents and never the other way round, so nobody waits in a circle.
        let mut open = parent.open.lock().await;
        if is_stored() {
            return Ok(());
        }
        let thread = match open.as_mut() {
            Some(thread) => thread,
            None => open.insert(Box::pin(self.opened(turn, parent)).await?),
        };
        let (place, pending) = parent.take_pending();
        let appended = if pending.is_empty() {
            Ok(())
        } else {
            thread.append_at(place, pending.iter().map(String::as_str)).await.map(drop)
        };
        if let Err(error) = appended {
            parent.put_back(pending);
            return Err(error);
        }
        if thread.saved() != Saved::Yes {
            thread.flush().await;
        }
        note_stored(parent, thread);
        match (is_stored(), thread.saved()) {
            (true, _) => Ok(()),
            (false, Saved::Waiting { reason, .. }) => Err(StoreError::Unavailable(reason).into()),
            (false, Saved::Yes) => Err(EngineError::Moved { length: thread.row().length, place: at }),
        }
    }

    /// Takes over the pins of a stored thread, or of the one that a fork leaves.
    async fn remember_pins(
        &self,
        turn: &Turn,
        line: &CachedThread,
        thread: &ThreadId,
        origin: &Origin,
    ) -> Result<(), EngineError> {
        let holder = match origin {
            _ if !turn.scope.keeps_pins() => return Ok(()),
            Origin::Stored => thread,
            Origin::Fork { from, .. } => from,
            Origin::New { .. } => return Ok(()),
        };
        let log = self.engine.log();
        let (kept, _) = log.document::<Vec<String>>(&turn.caller.tenant, DocumentKind::Pins, holder.as_str()).await?;
        let mut facts = line.state();
        let newer = std::mem::take(&mut facts.pins);
        facts.pin(&kept.unwrap_or_default());
        facts.pin(&newer);
        Ok(())
    }

    /// Finds the line's history in the store anew, and makes it the thread that it is by now.
    async fn part(&self, turn: &Turn, line: &Arc<CachedThread>) -> Result<(), EngineError> {
        let messages = turn.asked.messages();
        let wanted = ThreadQuery {
            scope: &turn.scope,
            messages,
            prints: &turn.prints,
            labels: labels(&turn.client, turn.asked.model(), None),
            frame: turn.asked.frame(),
        };
        self.lines.reassign(&turn.engine, line, &wanted).await
    }
}

/// Why a thread cannot be what a turn's prompt is made of: it has messages that the turn's request has not.
pub(super) fn is_outgrown(turn: &Turn, thread: &OpenThread) -> Option<EngineError> {
    let (length, place) = (thread.length(), turn.asked.messages().len() as u64);
    (length > place).then_some(EngineError::Moved { length, place })
}

/// Notes how much of a line the store has, and under which plan.
fn note_stored(line: &CachedThread, thread: &OpenThread) {
    let mut facts = line.state();
    facts.version = thread.row().version;
    facts.stored = usize::try_from(thread.row().length).unwrap_or(usize::MAX);
}

/// What is remembered of a new thread.
pub(super) fn labels(client: &crate::identity::Client, model: &str, derived_from: Option<&str>) -> serde_json::Value {
    let mut labels = serde_json::json!({ "door": "gateway", "client": client.program.name(), "model": model });
    let named =
        [("session", client.session.as_deref()), ("role", client.role.as_deref()), (DERIVED_FROM, derived_from)];
    for (name, value) in named {
        if let Some(value) = value {
            labels[name] = value.into();
        }
    }
    labels
}

fn told(turn: &Turn, step: &Step) -> Told {
    let receipt = step
        .compaction()
        .map(|made| [Fate::Retained, Fate::Recoverable, Fate::Lost].map(|fate| made.receipt.count(fate)));
    Told {
        plan: step.version,
        before: None,
        after: Some(step.counted()),
        is_rewritten: step.compacted.is_some(),
        receipt,
        gave_way: step.compaction().map_or(0, |made| made.plan.gave_way),
        rounds: step.compaction().map_or(0, Compaction::rounds),
        warning: step.compaction().and_then(Compaction::round_warning),
        ..Told::of(turn)
    }
}

/// A step, rendered onto what came. A prompt without the newest message, or larger than what came, is none: what came
/// goes out as long as it may fit.
fn rendered(turn: &Turn, step: &Step, pressure: &Pressure, fits_as_it_is: bool) -> Sending {
    let asked = &turn.asked;
    let told = Told { before: Some(step.whole() + step.fixed), ..told(turn, step) };
    let is_plain = step.compaction().is_none() && step.rehydrated.is_empty() && !step.has_hidden();
    if is_plain && pressure.output.is_none() {
        // What shows the model more than fits, and cannot be told in fewer words, goes as it came.
        let failed_open = step.shortfall.as_ref().map(|_| FailOpenReason::Floor);
        return Sending { counted: Some(step.counted()), ..Sending::original(turn, Told { failed_open, ..told }) };
    }
    let mut body = if is_plain {
        asked.document.source().to_string()
    } else {
        let head = (0..asked.head).map(PromptMessage::Kept);
        let (messages, has_newest) = step.messages_on(asked.messages());
        // What somebody hid stays hidden, whatever stands in its place.
        let is_larger = step.tokens >= step.whole() && step.rehydrated.is_empty() && !step.has_hidden();
        if (is_larger || !has_newest) && fits_as_it_is && pressure.harder == 0 {
            let told =
                Told { failed_open: Some(FailOpenReason::Floor), plan: 0, receipt: None, after: told.before, ..told };
            let counted = Some(step.whole() + step.fixed);
            return Sending { counted, ..Sending::original(turn, told) };
        }
        let shifted = messages.into_iter().map(|message| match message {
            PromptMessage::Kept(place) => PromptMessage::Kept(place + asked.head),
            PromptMessage::Edited { place, json } => PromptMessage::Edited { place: place + asked.head, json },
            written => written,
        });
        let mut messages: Vec<PromptMessage> = head.chain(shifted).collect();
        keep_marks(turn, &mut messages);
        asked.document.encode(&messages)
    };
    if asked.is_completed && !is_plain {
        body = without_field(&body, "previous_response_id");
    }
    if let Some(output) = pressure.output {
        body = set_field(&body, asked.output_field(), &output.get().to_string());
    }
    if is_plain && asked.is_completed {
        // The provider still has the history; only the limit of the answer is another.
        let text = String::from_utf8_lossy(&turn.original);
        let limit = pressure.output.map_or_else(String::new, |output| output.get().to_string());
        body = set_field(&text, asked.output_field(), &limit);
    }
    let drops_thinking = !is_plain && asked.document.binds_thinking();
    let counted = Some(step.counted());
    Sending { body: body.into(), is_original: false, drops_thinking, told, counted, is_saved: true }
}

/// A cache mark of the client's whose block has left goes to the summary: what stands before it stays the same until the
/// next compaction.
fn keep_marks(turn: &Turn, messages: &mut [PromptMessage]) {
    if turn.asked.dialect() != Dialect::Anthropic {
        return;
    }
    let document = &turn.asked.document;
    let sent: Vec<Vec<MarkLifetime>> = document.items().iter().map(|item| cache_marks(item.as_str())).collect();
    let kept = |place: usize| document.items()[place].as_str();
    let now: Vec<Vec<MarkLifetime>> = messages
        .iter()
        .map(|message| match message {
            PromptMessage::Kept(place) => sent[*place].clone(),
            changed => cache_marks(&changed.json(Dialect::Anthropic, kept)),
        })
        .collect();
    let (before, automatic) = (document.marks_before(), document.automatic_mark());
    // Marks on the tools, the system prompt and the request count as well.
    let beside = before.len() + usize::from(automatic.is_some());
    let marks = |all: &[Vec<MarkLifetime>]| beside + all.iter().map(Vec::len).sum::<usize>();
    if marks(&sent) == 0 || marks(&now) >= MARKS_MAX {
        return;
    }
    let last_changed = messages.iter().rposition(|message| !message.is_kept());
    let first_kept = messages.iter().position(PromptMessage::is_kept);
    let summary = match (last_changed, first_kept) {
        (Some(last), Some(first)) if last > first => messages.iter().position(|message| !message.is_kept()),
        (last, _) => last,
    };
    if let Some(at) = summary {
        let behind: Vec<MarkLifetime> = now[at..].iter().flatten().copied().chain(automatic).collect();
        let before: Vec<MarkLifetime> = before.into_iter().chain(now[..at].iter().flatten().copied()).collect();
        messages[at] = messages[at].marked(lifetime_between(&before, &behind, sent.iter().flatten()), kept);
    }
}

/// How long a mark lasts that stands between others: none that lasts an hour may come behind one that does not. Where both
/// would do, it lasts as long as those that the client has set.
fn lifetime_between<'a>(
    before: &[MarkLifetime],
    behind: &[MarkLifetime],
    mut sent: impl Iterator<Item = &'a MarkLifetime>,
) -> MarkLifetime {
    let may_be_long = !before.contains(&MarkLifetime::Short);
    if behind.contains(&MarkLifetime::Long) || (may_be_long && sent.any(|mark| *mark == MarkLifetime::Long)) {
        MarkLifetime::Long
    } else {
        MarkLifetime::Short
    }
}
