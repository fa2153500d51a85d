//! An open thread: its messages as far as they are needed, and the way into the store for new ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use epitome::budget::Meter;
use epitome::thread::{Message, MessageId, Raw, Thread};
use epitome::wire::{Dialect, decode_message};

use super::ask::SuspectedWindow;
use super::error::EngineError;
use super::Engine;
use crate::artifact::{Access, Permission};
use crate::event::{Event, Quality};
use crate::ids::{Moment, ThreadKey};
use crate::log::{Envelope, Loaded, LogError, total, wire_dialect};
use crate::rehydrate::TurnContext;
use crate::store::{DocumentKind, JobKind, StoreError, ThreadRow, Write};

/// How often messages are appended anew when others append at the same time.
pub(super) const RACES_MAX: usize = 200;
/// For how long an append that the store took says that nobody else was there.
const UP_TO_DATE: Duration = Duration::from_millis(50);

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
    pub(super) saving: Option<tokio::task::JoinHandle<()>>,
    /// When the model was last asked.
    pub(super) called: Option<Instant>,
    /// When an append was last taken by the store: the thread was as long as it is here then.
    appended: Option<Instant>,
    /// Whether the store had no such thread when it was last asked.
    is_lost: bool,
    /// The window that a refusal of this thread's prompts named.
    pub(super) suspected: Option<SuspectedWindow>,
}

impl OpenThread {
    pub(super) async fn load(engine: Engine, access: Access, key: ThreadKey) -> Result<OpenThread, EngineError> {
        let log = &engine.inner.log;
        let row = log.thread(&key).await?.ok_or_else(|| LogError::NoThread { thread: key.thread.clone() })?;
        let dialect = wire_dialect(&row).ok_or_else(|| EngineError::Foreign { format: row.dialect.clone() })?;
        let state = load(&engine, &key, dialect).await?;
        let name = key.thread.as_str();
        let turn =
            log.document::<TurnContext>(&key.tenant, DocumentKind::Turn, name).await.ok().and_then(|(turn, _)| turn);
        let quality =
            log.document::<Quality>(&key.tenant, DocumentKind::Quality, name).await.ok().and_then(|(found, _)| found);
        let mut quality = quality.unwrap_or_default();
        quality.compactions = quality.compactions.max(state.row.version);
        if let Some(compaction) = &state.compaction {
            let newest = compaction.plan.covers.checked_sub(1).filter(|at| *at < state.thread.len());
            let then = newest.map_or(0, |at| state.thread.message(at).turn());
            quality.turns_since_compaction = u64::from(state.thread.turn().saturating_sub(then));
        }
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
            is_lost: false,
            suspected: None,
            engine,
        })
    }

    /// Goes on under another engine: another policy, or another model. Messages are counted anew where that counts
    /// differently.
    pub async fn go_on_under(&mut self, engine: &Engine) -> Result<(), EngineError> {
        if Arc::ptr_eq(&self.engine.inner, &engine.inner) {
            return Ok(());
        }
        let recount = self.engine.counter_label() != engine.counter_label();
        self.engine = engine.clone();
        if recount { self.reload().await } else { Ok(()) }
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

    /// Whether the store has no such thread any more: it is another store now, or somebody removed it. What waits here
    /// can only be saved as another thread.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether a compaction is pending or running in the background.
    pub async fn is_compacting(&self) -> Result<bool, EngineError> {
        let job = self.engine.inner.log.store().job(&self.key, &JobKind::Compact).await?;
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

    /// How many messages it has, those that wait for the store included.
    pub fn length(&self) -> u64 {
        self.state.row.length + self.backlog.len() as u64
    }

    /// Appends messages if they come right behind the first `place` ones, and not behind what others appended meanwhile:
    /// that is [`EngineError::Moved`], and nothing has changed then.
    pub async fn append_at<E: Into<NewEntry>>(
        &mut self,
        place: u64,
        entries: impl IntoIterator<Item = E>,
    ) -> Result<Saved, EngineError> {
        if self.length() != place {
            self.catch_up(&mut Vec::new()).await;
        }
        if self.length() != place {
            return Err(EngineError::Moved { length: self.length(), place });
        }
        if !self.backlog.is_empty() {
            return self.append(entries).await;
        }
        let entries: Vec<NewEntry> = entries.into_iter().map(Into::into).collect();
        let (state, turn) = (self.state.clone(), self.state.thread.turn());
        self.take_in(&entries);
        self.backlog = entries;
        match self.try_flush().await {
            Ok(()) => self.note_quality(turn).await,
            Err(error) if error.is_conflict() => {
                (self.state, self.backlog) = (state, Vec::new());
                self.unsure.clear();
                self.reload().await?;
                return Err(EngineError::Moved { length: self.length(), place });
            }
            Err(error) => self.wait_for(&error.to_string()),
        }
        Ok(self.saved())
    }

    pub(super) fn may(&self, permission: Permission) -> Result<(), EngineError> {
        match self.access.may(permission) {
            true => Ok(()),
            false => Err(EngineError::NotAllowed),
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
        let counter = (!log.is_counted_with(&self.state.row, label)).then_some(label);
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
        let loaded = load(&self.engine, &self.key, self.dialect).await;
        self.is_lost = matches!(&loaded, Err(EngineError::Log(LogError::NoThread { .. })));
        let state = loaded?;
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

    pub(super) async fn keep_event(&self, event: Event) {
        self.engine.inner.bus.emit(&event);
        if let Err(error) = self.engine.inner.log.apply(&[self.engine.inner.log.add_event(&event)]).await {
            tracing::warn!(%error, "an event could not be kept");
        }
    }
}

async fn load(engine: &Engine, key: &ThreadKey, dialect: Dialect) -> Result<Loaded, EngineError> {
    let meter = Meter::new(&**engine.counter(), dialect);
    let loaded = engine.inner.log.load(key, &meter, engine.counter_label()).await?;
    loaded.ok_or_else(|| LogError::NoThread { thread: key.thread.clone() }.into())
}
