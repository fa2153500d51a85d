//! An open thread: its messages as far as they are needed, and the way into the store for new ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use epitome::budget::Meter;
use epitome::thread::{Message, MessageId, Raw, Thread};
use epitome::wire::{Dialect, decode_message};

use super::Engine;
use super::ask::SuspectedWindow;
use super::error::{EngineError, Result};
use crate::artifact::{Access, Permission};
use crate::event::Quality;
use crate::ids::{Moment, ThreadKey};
use crate::log::{Envelope, LoadedThread, LogError, total, wire_dialect};
use crate::recall::PromptLines;
use crate::rehydrate::RehydrationContext;
use crate::store::{DocumentKind, JobKind, StoreError, ThreadRow, Write};

/// The most tries to append while others append.
pub(super) const RACES_MAX: usize = 200;
/// For how long an append that the store took says that nobody else was there.
const UP_TO_DATE: Duration = Duration::from_millis(50);

/// A message to be appended.
#[derive(Clone, Debug, Default)]
pub struct NewEntry {
    /// The message, as JSON of the thread's dialect.
    pub json: String,
    /// The metadata of the tool results in it.
    pub envelopes: Vec<Envelope>,
}

impl<T: Into<String>> From<T> for NewEntry {
    fn from(json: T) -> Self {
        NewEntry { json: json.into(), envelopes: Vec::new() }
    }
}

/// The state of an open thread's messages in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is.
    Yes,
    /// These many wait for the store; they are kept here and saved with the next step.
    Waiting {
        /// Their number.
        messages: usize,
        /// Why.
        reason: String,
    },
}

/// A thread loaded from its last compaction onward, with the messages that are not in the store yet.
///
/// The loaded messages (`state`) are always the stored row plus the backlog. A message moves through three states:
///
/// ```text
/// append ──► backlog ──────► unconfirmed ──────► stored (the backlog is empty again)
///            loaded here     the write was       the store answered; `last_append` is now
///                            sent and not answered
///              ▲                 │
///              └─────────────────┘ reload: the row at that place has another id, or none
/// ```
///
/// A write that was not answered in time may have been made. Writing it again would double the messages; forgetting it
/// would lose them. So its last place and id stay in `unconfirmed`, and before anything is written again the row at that
/// place is read: ids are chained, so that an equal id proves this append and all before it. Dropping a future in the
/// middle of a write leaves the thread in the same state.
///
/// Others may append and commit at any time. `catch_up` compares length and version with the store and loads
/// anew what differs; for a moment after an append of its own the thread is up to date without asking.
#[derive(Debug)]
pub struct OpenThread {
    pub(super) engine: Engine,
    pub(super) access: Access,
    pub(super) key: ThreadKey,
    pub(super) dialect: Dialect,
    pub(super) state: LoadedThread,
    /// Messages that are loaded here and not in the store, as far as is known. They are the last ones of `state.thread`.
    pub(super) backlog: Vec<NewEntry>,
    /// Why the backlog is not saved.
    unsaved_reason: Option<String>,
    unconfirmed: Vec<UnconfirmedAppend>,
    pub(super) turn: RehydrationContext,
    pub(super) quality: Quality,
    /// The write of quality metrics that is under way.
    pub(super) quality_write: Option<tokio::task::JoinHandle<()>>,
    /// When the model was last asked: the age of its cache.
    pub(super) last_call: Option<Instant>,
    /// When the store last took an append: the thread was as long as it is here then.
    last_append: Option<Instant>,
    /// The store had no such thread when it was last asked.
    is_lost: bool,
    /// The window that a refusal of this thread's prompts named.
    pub(super) suspected: Option<SuspectedWindow>,
    /// The lines of the prompt, for a version and a number of loaded messages.
    pub(super) prompt_lines: Option<((u64, usize), Arc<PromptLines>)>,
    /// Sentences about what went wrong during the current step.
    pub(super) warnings: Vec<String>,
}

/// An append that was sent and not answered, by its last message.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UnconfirmedAppend {
    place: u64,
    id: MessageId,
    /// The number of messages in it.
    messages: usize,
}

impl OpenThread {
    pub(super) async fn load(engine: Engine, access: Access, key: ThreadKey) -> Result<OpenThread> {
        let log = &engine.inner.log;
        let row = log.thread(&key).await?.ok_or_else(|| LogError::NoThread(key.thread.clone()))?;
        let dialect = wire_dialect(&row).ok_or_else(|| EngineError::Foreign(row.dialect.clone()))?;
        let state = load(&engine, &key, dialect).await?;
        let (tenant, name) = (&key.tenant, key.thread.as_str());
        // Neither is worth failing for.
        let turn =
            log.document::<RehydrationContext>(tenant, DocumentKind::Turn, name).await.ok().and_then(|found| found.0);
        let quality = log.document::<Quality>(tenant, DocumentKind::Quality, name).await.ok().and_then(|found| found.0);
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
            unsaved_reason: None,
            unconfirmed: Vec::new(),
            turn: turn.unwrap_or_default(),
            quality,
            quality_write: None,
            last_call: None,
            last_append: None,
            is_lost: false,
            suspected: None,
            prompt_lines: None,
            warnings: Vec::new(),
            engine,
        })
    }

    /// Goes on under another engine: another policy, or another model. Messages are counted anew where that counts
    /// differently.
    pub async fn go_on_under(&mut self, engine: &Engine) -> Result<()> {
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

    /// Returns the thread's row as it was last read or written.
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

    /// The rehydration state of the current turn.
    pub fn rehydration(&self) -> &RehydrationContext {
        &self.turn
    }

    /// Tells whether every message is in the store.
    pub fn saved(&self) -> Saved {
        match &self.unsaved_reason {
            Some(reason) => Saved::Waiting { messages: self.backlog.len(), reason: reason.clone() },
            None => Saved::Yes,
        }
    }

    /// Tells whether the store has no such thread any more: it is another store now, or somebody removed it. What waits here
    /// can only be saved as another thread.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Tells whether a compaction is pending or running in the background.
    pub async fn is_compacting(&self) -> Result<bool> {
        let job = self.engine.inner.log.store().job(&self.key, &JobKind::Compact).await?;
        Ok(job.is_some_and(|job| job.state.is_pending()))
    }

    /// Appends messages. They are in the store when this returns [`Saved::Yes`]; while the store cannot be reached they
    /// are kept here and saved with the next step.
    pub async fn append<E: Into<NewEntry>>(&mut self, entries: impl IntoIterator<Item = E>) -> Result<Saved> {
        self.require(Permission::WriteThread)?;
        let entries: Vec<NewEntry> = entries.into_iter().map(Into::into).collect();
        for (at, entry) in entries.iter().enumerate() {
            serde_json::from_str::<&serde_json::value::RawValue>(&entry.json)
                .map_err(|error| EngineError::NotJson(at + 1, error.to_string()))?;
        }
        if entries.is_empty() {
            return Ok(self.saved());
        }
        let turn = self.state.thread.turn();
        self.append_locally(&entries);
        self.backlog.extend(entries);
        self.flush().await;
        self.note_quality(turn).await;
        Ok(self.saved())
    }

    /// Returns the number of messages, those that wait for the store included.
    pub fn length(&self) -> u64 {
        self.state.row.length + self.backlog.len() as u64
    }

    /// Appends messages if they come right behind the first `place` ones, and not behind what others appended meanwhile:
    /// that is [`EngineError::Moved`], and nothing has changed then.
    pub async fn append_at<E: Into<NewEntry>>(
        &mut self,
        place: u64,
        entries: impl IntoIterator<Item = E>,
    ) -> Result<Saved> {
        if self.length() != place {
            self.catch_up().await;
        }
        if self.length() != place {
            return Err(EngineError::Moved { length: self.length(), place });
        }
        if !self.backlog.is_empty() {
            return self.append(entries).await;
        }
        let entries: Vec<NewEntry> = entries.into_iter().map(Into::into).collect();
        let (state, turn) = (self.state.clone(), self.state.thread.turn());
        self.append_locally(&entries);
        self.backlog = entries;
        match self.try_flush().await {
            Ok(()) => self.note_quality(turn).await,
            Err(error) if error.is_conflict() => {
                (self.state, self.backlog) = (state, Vec::new());
                self.unconfirmed.clear();
                self.reload().await?;
                return Err(EngineError::Moved { length: self.length(), place });
            }
            Err(error) => self.note_unsaved(&error.to_string()),
        }
        Ok(self.saved())
    }

    pub(super) fn require(&self, permission: Permission) -> Result<()> {
        if self.access.may(permission) { Ok(()) } else { Err(EngineError::NotAllowed) }
    }

    /// Appends to the loaded thread alone.
    fn append_locally(&mut self, entries: &[NewEntry]) {
        let engine = self.engine.clone();
        let meter = Meter::new(&**engine.counter(), self.dialect);
        let thread = Arc::make_mut(&mut self.state.thread);
        for entry in entries {
            let mut message = decode_message(self.dialect, &Raw::whole(entry.json.as_str()));
            Envelope::apply(&entry.envelopes, &mut message);
            thread.append(message, &meter);
        }
    }

    /// Saves the backlog. A lost race is run again behind the messages of the process that was faster.
    pub async fn flush(&mut self) {
        for _ in 0..RACES_MAX {
            if self.backlog.is_empty() {
                self.unsaved_reason = None;
                return;
            }
            let outcome = if self.unconfirmed.is_empty() {
                self.try_flush().await.map_err(EngineError::from)
            } else {
                // An append was not answered: first see whether it was made.
                match self.reload().await {
                    Ok(()) => self.try_flush().await.map_err(EngineError::from),
                    Err(error) => Err(error),
                }
            };
            let outcome = match outcome {
                Ok(()) => continue,
                Err(EngineError::Log(error)) if error.is_conflict() => self.reload().await,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                return self.note_unsaved(&error.to_string());
            }
            tokio::task::yield_now().await;
        }
        self.note_unsaved("others append faster");
    }

    fn note_unsaved(&mut self, reason: &str) {
        tracing::warn!(reason, messages = self.backlog.len(), "failed to save messages; they wait for the store");
        self.unsaved_reason = Some(reason.to_owned());
    }

    /// Appends the backlog in one write that expects the thread to be as long as it was.
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
        let Some(last) = new.last() else { return Ok(()) };
        let append = UnconfirmedAppend { place: last.log_place() as u64, id: last.id(), messages: self.backlog.len() };
        // Noted before the write, because this future may be dropped in the middle of it.
        if !self.unconfirmed.contains(&append) {
            self.unconfirmed.push(append);
        }
        log.apply(&[Write::Append { key: self.key.clone(), messages: rows, tokens }]).await?;
        self.unconfirmed.clear();
        self.last_append = Some(Instant::now());
        let thread = &self.state.thread;
        let row = &mut self.state.row;
        row.length += messages;
        row.tokens += tokens;
        (row.tip, row.turn, row.updated) = (thread.tip(), thread.turn(), at);
        self.backlog.clear();
        Ok(())
    }

    /// Loads the thread anew and appends the backlog behind it, without the messages that turn out to be stored.
    pub(super) async fn reload(&mut self) -> Result<()> {
        let loaded = load(&self.engine, &self.key, self.dialect).await;
        self.is_lost = matches!(&loaded, Err(EngineError::Log(LogError::NoThread(_))));
        let state = loaded?;
        let stored = self.count_stored(&state.row).await?;
        self.backlog.drain(..stored.min(self.backlog.len()));
        if stored > 0 {
            self.unconfirmed.clear();
        }
        self.state = state;
        let backlog = self.backlog.clone();
        self.append_locally(&backlog);
        Ok(())
    }

    /// Counts the messages of the backlog that are in the store already: the most that an unconfirmed append proves.
    async fn count_stored(&self, row: &ThreadRow) -> Result<usize> {
        let mut stored = 0;
        for append in self.unconfirmed.iter().filter(|append| append.place < row.length) {
            let found = self.engine.inner.log.read(row, append.place..append.place + 1).await?;
            if found.first().is_some_and(|entry| entry.id == append.id) {
                stored = stored.max(append.messages);
            }
        }
        Ok(stored)
    }

    /// Tells that the store has just taken an append, so that nobody else was here. A plan that was committed since is taken
    /// over with the next step, or when there is something to decide.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.backlog.is_empty() && self.last_append.is_some_and(|then| then.elapsed() < UP_TO_DATE)
    }

    /// Saves the backlog and loads what others appended or committed. A store that does not answer is a warning: the step
    /// continues with what is loaded.
    ///
    /// ```text
    /// here:  length 12, version 3, backlog 1      store: length 14, version 4
    /// flush  appends at 12, conflict ──► reload: 14 messages under plan 4, the backlog behind ──► appends at 14
    /// ```
    pub(super) async fn catch_up(&mut self) {
        self.flush().await;
        let row = match self.engine.inner.log.thread(&self.key).await {
            Ok(Some(row)) => row,
            Ok(None) => return self.warnings.push("The thread is not in the store.".to_owned()),
            Err(error) => return self.warnings.push(format!("The store could not be asked: {error}.")),
        };
        let known = (self.state.row.length, self.state.row.version);
        if (row.length, row.version) == known {
            return;
        }
        match self.reload().await {
            Ok(()) if self.state.row.version > known.1 => self.quality = self.quality.compacted(),
            Ok(()) => {}
            Err(error) => self.warnings.push(format!("The thread could not be loaded anew: {error}.")),
        }
    }
}

async fn load(engine: &Engine, key: &ThreadKey, dialect: Dialect) -> Result<LoadedThread> {
    let meter = Meter::new(&**engine.counter(), dialect);
    let loaded = engine.inner.log.load(key, &meter, engine.counter_label()).await?;
    loaded.ok_or_else(|| LogError::NoThread(key.thread.clone()).into())
}
