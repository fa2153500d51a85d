//! An open thread: its messages as far as they are needed, and the way to append, read back and search.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use epitome::budget::{Meter, Tokens};
use epitome::plan::{ArtifactId, part_content};
use epitome::render::Rehydrated;
use epitome::summary::MemoryBlock;
use epitome::thread::{Message, MessageId, Raw, Role, Thread};
use epitome::wire::{Dialect, decode_message};

use super::error::EngineError;
use super::{COMPACT, Engine, StepRequest};
use crate::artifact::{Access, Content, Denied, Permission, Reason};
use crate::event::spans::Purpose;
use crate::event::{Event, EventKind, Quality};
use crate::ids::{Moment, ThreadKey};
use crate::log::{Document, Envelope, Loaded, LogError, total, wire_dialect};
use crate::model::{Hear, Model, ModelAnswer, ModelError, Usage, answer_traced};
use crate::recall::{Query, Recalled, recall};
use crate::rehydrate::TurnContext;
use crate::store::{ArtifactRow, StoreError, ThreadRow, Write};

/// How often messages are appended anew when others append at the same time.
const RACES_MAX: usize = 200;
/// For how long an append that the store took says that nobody else was there.
const UP_TO_DATE: Duration = Duration::from_millis(50);
/// How often a prompt that the provider refuses is made smaller.
const HARDER_MAX: u8 = 3;
/// How often a prompt is sent at all: refusals of the output's size come besides.
const RETRIES_MAX: u8 = HARDER_MAX + 2;
/// What is left free when the answer's limit is lowered to what fits.
const OUTPUT_MARGIN: Tokens = Tokens::new(16);
/// The most passages of an answer of recall.
const HITS_MAX: usize = 12;

/// A message to be appended.
#[derive(Clone, Debug, Default)]
pub struct NewEntry {
    /// The message, as JSON of the thread's dialect.
    pub json: String,
    /// What is known of the tool results in it.
    pub envelopes: Vec<Envelope>,
}

impl<T: Into<String>> From<T> for NewEntry {
    fn from(json: T) -> Self {
        NewEntry { json: json.into(), envelopes: Vec::new() }
    }
}

/// Whether every message is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is.
    Yes,
    /// These many wait for the store; they are kept here and saved with the next step.
    Waiting {
        /// How many.
        messages: usize,
        /// Why.
        reason: String,
    },
}

/// An open thread.
#[derive(Debug)]
pub struct OpenThread {
    pub(super) engine: Engine,
    pub(super) access: Access,
    pub(super) key: ThreadKey,
    pub(super) dialect: Dialect,
    pub(super) state: Loaded,
    /// What is in the thread here and not in the store yet.
    pub(super) backlog: Vec<NewEntry>,
    waits_for: Option<String>,
    /// Appends that were begun and not answered: the place and the id of the last message, and how many there were.
    unsure: Vec<(u64, MessageId, usize)>,
    pub(super) turn: TurnContext,
    pub(super) quality: Quality,
    /// Quality metrics on their way into the store.
    saving: Option<tokio::task::JoinHandle<()>>,
    /// When the model was last asked.
    pub(super) called: Option<Instant>,
    /// When an append was last taken by the store: the thread was as long as it is here then.
    appended: Option<Instant>,
}

impl OpenThread {
    pub(super) async fn load(engine: Engine, access: Access, key: ThreadKey) -> Result<OpenThread, EngineError> {
        let log = &engine.inner.log;
        let row = log.thread(&key).await?.ok_or_else(|| LogError::NoThread { thread: key.thread.clone() })?;
        let dialect = wire_dialect(&row).ok_or_else(|| EngineError::Foreign { format: row.dialect.clone() })?;
        let state = load(&engine, &key, dialect).await?;
        let name = key.thread.as_str();
        let turn = log.document::<TurnContext>(&key.tenant, "turn", name).await.ok().and_then(|(turn, _)| turn);
        let quality = log.document::<Quality>(&key.tenant, "quality", name).await.ok().and_then(|(found, _)| found);
        let mut quality = quality.unwrap_or_default();
        quality.compactions = quality.compactions.max(state.row.version);
        Ok(OpenThread {
            access,
            key,
            dialect,
            state,
            backlog: Vec::new(),
            waits_for: None,
            unsure: Vec::new(),
            turn: turn.unwrap_or_default(),
            quality,
            saving: None,
            called: None,
            appended: None,
            engine,
        })
    }

    /// Which thread it is.
    pub fn key(&self) -> &ThreadKey {
        &self.key
    }

    /// What the store knows of it.
    pub fn row(&self) -> &ThreadRow {
        &self.state.row
    }

    /// Its messages, from the last compaction onward.
    pub fn thread(&self) -> &Thread {
        &self.state.thread
    }

    /// Its quality metrics.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// What happened in the current turn.
    pub fn turn(&self) -> &TurnContext {
        &self.turn
    }

    /// Whether every message is in the store.
    pub fn saved(&self) -> Saved {
        match &self.waits_for {
            Some(reason) => Saved::Waiting { messages: self.backlog.len(), reason: reason.clone() },
            None => Saved::Yes,
        }
    }

    /// Whether a compaction is pending or running in the background.
    pub async fn is_compacting(&self) -> Result<bool, EngineError> {
        let job = self.engine.inner.log.store().job(&self.key, COMPACT).await?;
        Ok(job.is_some_and(|job| job.state.is_pending()))
    }

    /// Appends messages. They are in the store when this returns [`Saved::Yes`]; while the store cannot be reached they
    /// are kept here and saved with the next step.
    pub async fn append<E: Into<NewEntry>>(
        &mut self,
        entries: impl IntoIterator<Item = E>,
    ) -> Result<Saved, EngineError> {
        self.may(Permission::WriteThread)?;
        let entries: Vec<NewEntry> = entries.into_iter().map(Into::into).collect();
        for (at, entry) in entries.iter().enumerate() {
            serde_json::from_str::<&serde_json::value::RawValue>(&entry.json)
                .map_err(|error| EngineError::NotJson { number: at + 1, reason: error.to_string() })?;
        }
        if entries.is_empty() {
            return Ok(self.saved());
        }
        let turn = self.state.thread.turn();
        self.take_in(&entries);
        self.backlog.extend(entries);
        self.flush().await;
        self.note_quality(turn).await;
        Ok(self.saved())
    }

    pub(super) fn may(&self, permission: Permission) -> Result<(), EngineError> {
        match self.access.may(permission) {
            true => Ok(()),
            false => Err(EngineError::NotAllowed),
        }
    }

    /// Whether what left the prompt may be read: the thread's own permission, and that of what is kept of it.
    fn may_read_back(&self) -> Result<(), EngineError> {
        self.may(Permission::ReadThread)?;
        match Permission::to_read(self.engine.settings().kept.sensitivity) {
            Some(permission) => self.may(permission),
            None => Ok(()),
        }
    }

    /// Appends to what is loaded.
    fn take_in(&mut self, entries: &[NewEntry]) {
        let engine = self.engine.clone();
        let meter = Meter::new(&**engine.counter(), self.dialect);
        let thread = Arc::make_mut(&mut self.state.thread);
        for entry in entries {
            let mut message = decode_message(self.dialect, &Raw::whole(entry.json.as_str()));
            Envelope::apply(&entry.envelopes, &mut message);
            thread.append(message, &meter);
        }
    }

    /// Saves what waits. A lost race is run again behind the messages of whoever was faster.
    pub async fn flush(&mut self) {
        for _ in 0..RACES_MAX {
            if self.backlog.is_empty() {
                self.waits_for = None;
                return;
            }
            let outcome = match self.unsure.is_empty() {
                true => self.try_flush().await.map_err(EngineError::from),
                // An append was not answered: first see whether it was made.
                false => match self.reload().await {
                    Ok(()) => self.try_flush().await.map_err(EngineError::from),
                    Err(error) => Err(error),
                },
            };
            let Err(error) = outcome else { continue };
            if let Err(error) = self.after(error).await {
                return self.wait_for(&error.to_string());
            }
            tokio::task::yield_now().await;
        }
        self.wait_for("others append faster");
    }

    fn wait_for(&mut self, reason: &str) {
        tracing::warn!(reason, messages = self.backlog.len(), "messages wait for the store");
        self.waits_for = Some(reason.to_owned());
    }

    /// What follows from an append that failed: another one behind what others appended, or waiting.
    async fn after(&mut self, error: EngineError) -> Result<(), EngineError> {
        if matches!(&error, EngineError::Log(error) if error.is_conflict()) {
            return self.reload().await;
        }
        Err(error)
    }

    async fn try_flush(&mut self) -> Result<(), StoreError> {
        let thread = &self.state.thread;
        let new = &thread.messages()[thread.len() - self.backlog.len()..];
        let log = &self.engine.inner.log;
        let at = Moment::now();
        let rows = new.iter().zip(&self.backlog);
        let label = self.engine.counter_label();
        let counter = (label != self.state.row.counter).then_some(label);
        let row = |(message, entry): (&Arc<Message>, &NewEntry)| {
            log.message_row(&self.key, message, &entry.envelopes, counter, at)
        };
        let rows: Vec<_> = rows.map(row).collect();
        let tokens = total(&rows);
        let messages = rows.len() as u64;
        let Some(last) = new.last().map(|last| (last.log_place() as u64, last.id(), rows.len())) else { return Ok(()) };
        // Whoever drops this future does not know either; it stays unsure until the store has answered.
        if !self.unsure.contains(&last) {
            self.unsure.push(last);
        }
        match log.apply(&[Write::Append { key: self.key.clone(), messages: rows, tokens }]).await {
            Ok(()) => {
                self.unsure.clear();
                self.appended = Some(Instant::now());
            }
            // An earlier append of ours may have come through just now: it is looked for.
            Err(error) => return Err(error),
        }
        let thread = &self.state.thread;
        let row = &mut self.state.row;
        row.length += messages;
        row.tokens += tokens;
        (row.tip, row.turn, row.updated) = (thread.tip(), thread.turn(), at);
        self.backlog.clear();
        Ok(())
    }

    /// Loads the thread anew; what waits for the store comes behind.
    pub(super) async fn reload(&mut self) -> Result<(), EngineError> {
        let state = load(&self.engine, &self.key, self.dialect).await?;
        let made = self.made(&state.row).await?;
        self.backlog.drain(..made.min(self.backlog.len()));
        if made > 0 {
            self.unsure.clear();
        }
        self.state = state;
        let waiting = self.backlog.clone();
        self.take_in(&waiting);
        Ok(())
    }

    /// How many of the messages that wait are in the store already: ids are chained, so that an equal id at its place is
    /// this very append and all before it.
    async fn made(&self, row: &ThreadRow) -> Result<usize, EngineError> {
        let mut made = 0;
        for (place, id, messages) in &self.unsure {
            if *place < row.length {
                let found = self.engine.inner.log.read(row, *place..place + 1).await?;
                let is_ours = found.first().is_some_and(|entry| entry.id == *id);
                made = made.max(if is_ours { *messages } else { 0 });
            }
        }
        Ok(made)
    }

    /// Whether the store has just said that nobody else was here. A plan that was committed since is taken over with the
    /// next step, or when there is something to decide.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.backlog.is_empty() && self.appended.is_some_and(|then| then.elapsed() < UP_TO_DATE)
    }

    /// Saves what waits and takes over what others appended or committed. What cannot be reached is gone on without.
    pub(super) async fn catch_up(&mut self, warnings: &mut Vec<String>) {
        self.flush().await;
        let row = match self.engine.inner.log.thread(&self.key).await {
            Ok(Some(row)) => row,
            Ok(None) => return warnings.push("The thread is not in the store.".to_owned()),
            Err(error) => return warnings.push(format!("The store could not be asked: {error}.")),
        };
        let known = (self.state.row.length, self.state.row.version);
        if (row.length, row.version) == known {
            return;
        }
        match self.reload().await {
            Ok(()) if self.state.row.version > known.1 => self.quality = self.quality.compacted(),
            Ok(()) => {}
            Err(error) => warnings.push(format!("The thread could not be loaded anew: {error}.")),
        }
    }

    /// Asks the model for the next answer and appends it. A prompt that the provider says is too long teaches the
    /// window, is compacted harder, and is sent again, three times at most.
    pub async fn ask(
        &mut self,
        model: &dyn Model,
        request: &StepRequest,
        stream: bool,
        hear: &mut Hear<'_>,
    ) -> Result<ModelAnswer, EngineError> {
        let mut request = request.clone();
        request.model.get_or_insert_with(|| model.id().to_owned());
        let mut left = RETRIES_MAX;
        loop {
            let step = self.prepare_step(&request).await?;
            let mut prompt = step.prompt();
            prompt.stream = stream;
            let counted = step.counted();
            self.called = Some(Instant::now());
            left -= 1;
            match answer_traced(model, Purpose::Turn, Some(&self.key.thread), &prompt, hear).await {
                Ok(answer) => {
                    self.learn_usage(model.id(), counted, answer.usage.as_ref()).await;
                    self.append(answer.messages.iter().map(String::as_str)).await?;
                    return Ok(answer);
                }
                Err(error) if left == 0 => return Err(error.into()),
                Err(error) => request = self.refused(model.id(), counted, &error, request).await.ok_or(error)?,
            }
        }
    }

    /// What to ask for after a refusal; `None` when asking again cannot help.
    async fn refused(
        &mut self,
        model: &str,
        counted: Tokens,
        error: &ModelError,
        mut request: StepRequest,
    ) -> Option<StepRequest> {
        let ModelError::Overflow { overflow, .. } = error else { return None };
        self.learn_overflow(model, counted, error).await;
        if let Some(output) = overflow.output_that_fits(OUTPUT_MARGIN).filter(|output| *output > OUTPUT_MARGIN)
            && request.max_output != Some(output)
        {
            request.max_output = Some(output);
            return Some(request);
        }
        (request.harder < HARDER_MAX).then(|| StepRequest { harder: request.harder + 1, ..request })
    }

    /// Learns the window from a provider's refusal, given what the prompt was counted as here.
    pub async fn learn_overflow(&mut self, model: &str, counted: Tokens, error: &ModelError) {
        let ModelError::Overflow { overflow, .. } = error else { return };
        self.engine.learn(|learnt| learnt.error(model, counted, error)).await;
        let event = Event::new(Moment::now(), self.key.clone(), EventKind::ModelOverflowed);
        let limit = overflow.limit().map_or(0, Tokens::get);
        self.engine.inner.bus.emit(&event.with("model", model).with("limit", limit));
    }

    /// Learns from what the provider says a prompt took, given what it was counted as here.
    pub async fn learn_usage(&mut self, model: &str, counted: Tokens, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.engine.learn(|learnt| learnt.usage(model, counted, usage)).await;
        }
    }

    /// An artifact of this thread's tenant, on purpose. Where its bytes cannot be had, the log still holds it.
    pub async fn read_artifact(&mut self, id: &str) -> Result<Content, EngineError> {
        let now = Moment::now();
        let denied = match self.engine.inner.artifacts.read(&self.access, id, now).await {
            Ok(content) => {
                self.quality = self.quality.read_artifact();
                let event = Event::new(now, self.key.clone(), EventKind::ArtifactRead);
                self.keep_event(event.with("artifact", id).with("bytes", content.text().len())).await;
                self.save_quality().await;
                return Ok(content);
            }
            Err(denied) => denied,
        };
        if may_be_in_the_log(&denied)
            && let Some(content) = self.content_in_log(id).await
        {
            return Ok(content);
        }
        self.keep_event(denied.event(now, self.key.clone())).await;
        Err(denied.into())
    }

    /// The content of an artifact as it stands in the log.
    async fn content_in_log(&self, id: &str) -> Option<Content> {
        let kept = self.engine.settings().kept;
        if !self.access.may_read(kept.sensitivity) {
            return None;
        }
        let hint = self.state.hints.iter().find(|hint| hint.id == id)?;
        if hint.expires.is_some_and(|expires| expires <= Moment::now()) {
            return None;
        }
        let entry = self.engine.inner.log.read(&self.state.row, hint.place..hint.place + 1).await.ok()?.pop()?;
        let mut thread = Thread::new();
        let meter = Meter::new(&**self.engine.counter(), self.dialect);
        thread.append(entry.message, &meter);
        let keys = self.engine.inner.log.vault().artifact_keys(&self.key.tenant);
        let contents = (0..thread.message(0).parts().len()).filter_map(|part| part_content(&thread, 0, part));
        let is_named = |key: &[u8; 32], content: &str| ArtifactId::keyed(key, content.as_bytes()).as_str() == id;
        let same = |content: &&str| keys.iter().any(|key| is_named(key, content));
        let content = contents.into_iter().find(same)?;
        let row = ArtifactRow {
            id: id.to_owned(),
            tenant: self.key.tenant.clone(),
            thread: self.key.thread.clone(),
            at: entry.at,
            expires: None,
            key_id: None,
            sensitivity: kept.sensitivity,
            bytes: content.len() as u64,
            tokens: self.engine.counter().count(content).get(),
        };
        Some(Content::new(row, content.as_bytes().to_vec()))
    }

    /// Content that may come back by itself: of a sensitivity that allows it.
    pub(super) async fn content_for_rehydration(&self, id: &str) -> Option<String> {
        let artifacts = &self.engine.inner.artifacts;
        match artifacts.metadata(&self.access, id).await {
            Ok(row) if !self.engine.settings().auto_rehydrate.contains(&row.sensitivity) => {
                let event = Event::new(Moment::now(), self.key.clone(), EventKind::RehydrationBlockedSensitivity);
                let event = event.with("artifact", id).with("sensitivity", row.sensitivity.name());
                self.keep_event(event.with("reason", "it comes back on purpose only, through read_artifact")).await;
                None
            }
            Ok(_) => match artifacts.read(&self.access, id, Moment::now()).await {
                Ok(content) => Some(content.into_text()),
                Err(denied) => self.if_in_log(id, &denied).await,
            },
            Err(denied) => self.if_in_log(id, &denied).await,
        }
    }

    async fn if_in_log(&self, id: &str, denied: &Denied) -> Option<String> {
        let allowed = self.engine.settings().auto_rehydrate.contains(&self.engine.settings().kept.sensitivity);
        match may_be_in_the_log(denied) && allowed {
            true => self.content_in_log(id).await.map(Content::into_text),
            false => None,
        }
    }

    /// A message as its references call it, `m41`, or some lines of it.
    pub async fn read_message(
        &self,
        reference: &str,
        lines: Option<RangeInclusive<usize>>,
    ) -> Result<String, EngineError> {
        self.may_read_back()?;
        let missing = || EngineError::NoMessage { reference: reference.to_owned() };
        let number: u64 = reference.strip_prefix('m').and_then(|number| number.parse().ok()).ok_or_else(missing)?;
        let place = number.checked_sub(1).filter(|place| *place < self.state.row.length).ok_or_else(missing)?;
        let entry = self.engine.inner.log.read(&self.state.row, place..place + 1).await?.pop().ok_or_else(missing)?;
        let words = entry.words();
        let Some(lines) = lines else { return Ok(words) };
        let first = (*lines.start()).max(1);
        let picked = words.lines().skip(first - 1).take(lines.end().saturating_add(1).saturating_sub(first));
        Ok(picked.collect::<Vec<_>>().join("\n"))
    }

    /// Notes whether the task was completed, for the quality metrics.
    pub async fn task_ended(&mut self, completed: bool) {
        self.quality = self.quality.task_ended(completed);
        self.save_quality().await;
    }

    /// Searches everything that left the thread's prompts.
    pub async fn recall(&mut self, words: &str) -> Result<Recalled, EngineError> {
        self.may_read_back()?;
        let tokens_max = self.engine.settings().recall_tokens;
        let query = Query { words, tokens_max, hits_max: HITS_MAX };
        let found = recall(&self.engine.inner.log, &self.state.row, &query, &**self.engine.counter()).await?;
        self.quality = self.quality.recalled();
        self.save_quality().await;
        Ok(found)
    }

    /// Remembers an entry in the thread's memory block. When it is time the oldest are folded into its summary.
    pub async fn remember(&mut self, entry: &str) -> Result<(), EngineError> {
        self.may(Permission::WriteThread)?;
        let log = &self.engine.inner.log;
        let (tenant, name) = (&self.key.tenant, self.key.thread.as_str());
        for _ in 0..RACES_MAX {
            let (block, version) = log.document::<MemoryBlock>(tenant, "memory", name).await?;
            let mut block = block.unwrap_or_default();
            block.push(entry);
            let mut writes = Vec::new();
            let at = Moment::now();
            if block.due().is_some() {
                let folded = block.fold_plainly();
                // What is folded away stays readable.
                let name = format!("{name}@{version}");
                let value = &(folded.entries, folded.lost);
                let kind = "memory-folded";
                writes.push(log.put_document(&Document {
                    tenant,
                    kind,
                    name: &name,
                    value,
                    expected: None,
                    at,
                    expires: None,
                }));
            }
            let (kind, value) = ("memory", &block);
            writes.push(log.put_document(&Document {
                tenant,
                kind,
                name,
                value,
                expected: Some(version),
                at,
                expires: None,
            }));
            match log.apply(&writes).await {
                Err(error) if error.is_conflict() => {}
                other => return Ok(other?),
            }
        }
        Err(StoreError::conflict("the memory block").into())
    }

    /// The thread's memory block.
    pub async fn memory(&self) -> Result<MemoryBlock, EngineError> {
        let log = &self.engine.inner.log;
        let (block, _) = log.document(&self.key.tenant, "memory", self.key.thread.as_str()).await?;
        Ok(block.unwrap_or_default())
    }

    pub(super) async fn memory_block(&self) -> Option<Rehydrated> {
        let text = self.memory().await.ok()?.render();
        let back = Rehydrated { reference: "memory".to_owned(), content: text, truncated: false };
        (!back.content.is_empty()).then_some(back)
    }

    /// Watches for an agent that asks for what was compacted away.
    async fn note_quality(&mut self, turn_before: u32) {
        let before = self.quality;
        if self.state.thread.turn() != turn_before && self.state.compaction.is_some() {
            self.quality = self.quality.turn_began();
        }
        let newest = self.state.thread.messages().last().filter(|message| message.role() == Role::Assistant);
        if let (Some(message), true) = (newest, self.state.compaction.is_some()) {
            self.quality = self.quality.assistant_said(&message.text());
        }
        let asked = self.quality.agent_asked_for_context > before.agent_asked_for_context;
        if asked {
            let event = Event::new(Moment::now(), self.key.clone(), EventKind::ContextMissed);
            self.keep_event(event.with("turns_since_compaction", self.quality.turns_since_compaction)).await;
        }
        if asked || self.quality.turns_since_compaction != before.turns_since_compaction {
            self.save_quality().await;
        }
    }

    /// Hands the quality metrics to the store, in their order; nobody waits until they are on disk.
    pub(super) async fn save_quality(&mut self) {
        let log = self.engine.inner.log.clone();
        let (tenant, kind, name) = (&self.key.tenant, "quality", self.key.thread.as_str());
        let (value, at) = (&self.quality, Moment::now());
        let write = log.put_document(&Document { tenant, kind, name, value, expected: None, at, expires: None });
        let before = self.saving.take();
        let mut saving = Box::pin(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            if let Err(error) = log.apply(&[write]).await {
                tracing::warn!(%error, "quality metrics could not be kept");
            }
        });
        // Begun here, so that they are the store's before this returns.
        tokio::select! {
            biased;
            () = &mut saving => {}
            () = std::future::ready(()) => self.saving = Some(tokio::spawn(saving)),
        }
    }

    async fn keep_event(&self, event: Event) {
        self.engine.inner.bus.emit(&event);
        if let Err(error) = self.engine.inner.log.apply(&[self.engine.inner.log.add_event(&event)]).await {
            tracing::warn!(%error, "an event could not be kept");
        }
    }
}

/// Whether what was denied may still be had: it is not forbidden, it is only not where it should be.
fn may_be_in_the_log(denied: &Denied) -> bool {
    matches!(denied.reason(), Reason::Unknown | Reason::Damaged | Reason::Unreachable)
}

async fn load(engine: &Engine, key: &ThreadKey, dialect: Dialect) -> Result<Loaded, EngineError> {
    let meter = Meter::new(&**engine.counter(), dialect);
    let loaded = engine.inner.log.load(key, &meter, engine.counter_label()).await?;
    loaded.ok_or_else(|| LogError::NoThread { thread: key.thread.clone() }.into())
}
