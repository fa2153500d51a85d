//! Notes on a thread: hidden messages, pins, the memory block, the workstream state and the quality metrics, seen and changed
//! in one place. The command line, the API and MCP pass a [`NoteChange`] here and show the [`ThreadNotes`] that come back.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use epitome::render::Rehydrated;
use epitome::summary::{MemoryBlock, WorkstreamState};
use serde::{Deserialize, Serialize};

use super::Engine;
use super::error::{EngineError, Result};
use super::thread::{OpenThread, RACES_MAX};
use crate::artifact::Permission;
use crate::event::{Event, EventKind, Quality};
use crate::ids::{Moment, ThreadKey};
use crate::log::{Annotations, NewDocument};
use crate::store::{DocumentKind, StoreError};

/// The most characters of one note. It is in every later prompt, or in the next ones.
const NOTE_CHARS_MAX: usize = 4_000;
/// The most pins, and the most hidden messages, of a thread.
const NOTES_MAX: usize = 200;

/// A change of the notes on a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum NoteChange {
    /// Shows other words in the place of a message, in every later prompt. The log keeps the message.
    Hide {
        /// The message, such as `m41`.
        message: String,
        /// The words that stand for it.
        text: String,
    },
    /// Shows a hidden message again.
    Show {
        /// The message, such as `m41`.
        message: String,
    },
    /// Adds words that every later prompt must hold.
    Pin {
        /// The words.
        text: String,
    },
    /// Removes a pin. The next compaction leaves its words out.
    Unpin {
        /// The words, as they were pinned.
        text: String,
    },
    /// Adds an entry to the memory block, which is in every later prompt.
    Remember {
        /// The entry.
        text: String,
    },
    /// Says whether the thread's task was completed.
    EndTask {
        /// True if it was.
        completed: bool,
    },
}

/// A hidden message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HiddenMessage {
    /// The message, such as `m41`.
    pub message: String,
    /// The words that stand for it.
    pub text: String,
}

/// The memory block of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryNotes {
    /// The summary of the older entries.
    pub summary: String,
    /// The newer entries, oldest first.
    pub entries: Vec<String>,
}

/// Everything that is noted about a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadNotes {
    /// The hidden messages, in order.
    pub hidden: Vec<HiddenMessage>,
    /// Words that every later prompt must hold, whoever pinned them.
    pub pins: Vec<String>,
    /// The memory block, which is in every prompt.
    pub memory: MemoryNotes,
    /// The workstream state, if the policy keeps one and a model has written one.
    pub state: Option<WorkstreamState>,
    /// The quality metrics.
    pub quality: Quality,
    /// True if the agent asks for what was compacted so often that the policy should keep more.
    pub asks_often: bool,
}

/// The threads that this process knows to have annotations, with the version of them that it saw last.
///
/// One process may have a thread open twice, as a proxy and as the API. What one of them noted reaches the other through here,
/// without a look into the store for each request.
#[derive(Clone, Debug, Default)]
pub(super) struct AnnotatedThreads(Arc<Mutex<HashMap<ThreadKey, SeenAnnotations>>>);

#[derive(Clone, Copy, Debug, Default)]
struct SeenAnnotations {
    version: u64,
    is_empty: bool,
}

impl AnnotatedThreads {
    pub(super) fn note(&self, key: &ThreadKey, notes: &Annotations, version: u64) {
        if version > 0 {
            let seen = SeenAnnotations { version, is_empty: notes.is_empty() };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), seen);
        }
    }

    fn seen(&self, key: &ThreadKey) -> Option<SeenAnnotations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }
}

impl Engine {
    /// Tells whether this process knows that a thread has annotations, which change its prompts even below any budget.
    pub fn is_annotated(&self, key: &ThreadKey) -> bool {
        self.inner.annotated.seen(key).is_some_and(|seen| !seen.is_empty)
    }

    /// Finds out whether a thread has annotations.
    pub async fn look_for_annotations(&self, key: &ThreadKey) -> Result<()> {
        let (notes, version) = self.inner.log.annotations(key).await?;
        self.inner.annotated.note(key, &notes, version);
        Ok(())
    }
}

impl OpenThread {
    /// Changes the notes, and returns them as they are then.
    pub async fn annotate(&mut self, change: &NoteChange) -> Result<ThreadNotes> {
        self.require(Permission::WriteThread)?;
        match change {
            NoteChange::Hide { message, text } => {
                let place = self.place_in_prompt(message)?;
                let text = checked(text)?;
                let hide = |notes: &mut Annotations| {
                    notes.hidden.insert(place, text.clone());
                };
                self.change_annotations(&hide, Some((EventKind::MessageHidden, place))).await?;
            }
            NoteChange::Show { message } => {
                let place = self.place_of(message)?;
                if !self.state.annotations.hidden.contains_key(&place) {
                    return Err(EngineError::NotHidden(message.clone()));
                }
                let show = |notes: &mut Annotations| {
                    notes.hidden.remove(&place);
                };
                self.change_annotations(&show, Some((EventKind::MessageShown, place))).await?;
            }
            NoteChange::Pin { text } => {
                let text = checked(text)?;
                let pin = |notes: &mut Annotations| {
                    notes.unpinned.retain(|other| *other != text);
                    if !notes.pins.contains(&text) {
                        notes.pins.push(text.clone());
                    }
                };
                self.change_annotations(&pin, None).await?;
            }
            NoteChange::Unpin { text } => {
                let text = checked(text)?;
                if !self.pins().await?.contains(&text) {
                    return Err(EngineError::NotPinned(text));
                }
                let unpin = |notes: &mut Annotations| {
                    notes.pins.retain(|other| *other != text);
                    if !notes.unpinned.contains(&text) {
                        notes.unpinned.push(text.clone());
                    }
                };
                self.change_annotations(&unpin, None).await?;
            }
            NoteChange::Remember { text } => self.remember(&checked(text)?).await?,
            NoteChange::EndTask { completed } => self.end_task(*completed).await,
        }
        self.notes().await
    }

    /// Everything that is noted about the thread.
    pub async fn notes(&mut self) -> Result<ThreadNotes> {
        self.require(Permission::ReadThread)?;
        self.refresh_annotations().await?;
        let (tenant, name) = (&self.key.tenant, self.key.thread.as_str());
        let (state, _) = self.engine.inner.log.document::<WorkstreamState>(tenant, DocumentKind::State, name).await?;
        let memory: MemoryBlock = self.memory().await?;
        let hidden = self.state.annotations.hidden.iter();
        Ok(ThreadNotes {
            hidden: hidden
                .map(|(place, text)| HiddenMessage { message: format!("m{}", place + 1), text: text.clone() })
                .collect(),
            pins: self.pins().await?,
            memory: MemoryNotes { summary: memory.summary().to_owned(), entries: memory.entries().to_vec() },
            state: state.filter(|state| !state.is_empty()),
            quality: self.quality,
            asks_often: self.quality.asks_often(),
        })
    }

    /// Returns the notes that change the thread's prompts.
    pub fn annotations(&self) -> &Annotations {
        &self.state.annotations
    }

    /// Tells whether this process saw other annotations than those that are loaded here.
    pub(super) fn has_old_annotations(&self) -> bool {
        self.engine.inner.annotated.seen(&self.key).is_some_and(|seen| seen.version != self.state.annotated)
    }

    /// Loads the annotations anew if somebody changed them.
    pub(super) async fn refresh_annotations(&mut self) -> Result<()> {
        let (notes, version) = self.engine.inner.log.annotations(&self.key).await?;
        self.engine.inner.annotated.note(&self.key, &notes, version);
        if version != self.state.annotated {
            self.reload().await?;
        }
        Ok(())
    }

    /// Writes the changed annotations, with the event that tells of it, unless somebody else wrote meanwhile: then the change is
    /// made to theirs.
    pub(super) async fn change_annotations(
        &mut self,
        change: &(dyn Fn(&mut Annotations) + Sync),
        told: Option<(EventKind, u64)>,
    ) -> Result<()> {
        for _ in 0..RACES_MAX {
            let log = &self.engine.inner.log;
            let (mut notes, version) = log.annotations(&self.key).await?;
            change(&mut notes);
            if notes.pins.len().max(notes.hidden.len()).max(notes.unpinned.len()) > NOTES_MAX {
                return Err(EngineError::Note(format!("a thread has at most {NOTES_MAX} notes of a kind")));
            }
            let name = self.key.thread.as_str();
            let document = NewDocument::new(&self.key.tenant, DocumentKind::Annotations, name, &notes);
            let mut writes = vec![log.put_document(document.expecting(version))];
            let event = told.map(|(kind, place)| Event {
                span: Some((place, place + 1)),
                ..Event::new(Moment::now(), self.key.clone(), kind)
            });
            writes.extend(event.iter().map(|event| log.add_event(event)));
            match log.apply(&writes).await {
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    event.iter().for_each(|event| self.engine.inner.bus.emit(event));
                    return self.refresh_annotations().await;
                }
            }
        }
        Err(StoreError::conflict("the annotations").into())
    }

    /// The pins of the thread: noted here, sent by its client, or held by its newest plan.
    async fn pins(&self) -> Result<Vec<String>> {
        let (tenant, name) = (&self.key.tenant, self.key.thread.as_str());
        let (sent, _) = self.engine.inner.log.document::<Vec<String>>(tenant, DocumentKind::Pins, name).await?;
        let planned = self.state.compaction.iter().flat_map(|compaction| &compaction.summaries);
        let planned = planned.flat_map(|summary| summary.items.pins.clone());
        let notes = &self.state.annotations;
        let mut pins: Vec<String> = Vec::new();
        for pin in notes.pins.iter().cloned().chain(sent.unwrap_or_default()).chain(planned) {
            if !pins.contains(&pin) && !notes.unpinned.contains(&pin) {
                pins.push(pin);
            }
        }
        Ok(pins)
    }

    /// Returns the pins that the prompt does not hold yet: those that were noted after the newest compaction.
    pub(super) fn new_pins(&self) -> Option<Rehydrated> {
        let summaries = self.state.compaction.iter().flat_map(|compaction| &compaction.summaries);
        let held: Vec<&String> = summaries.flat_map(|summary| &summary.items.pins).collect();
        let new: Vec<&String> = self.state.annotations.pins.iter().filter(|pin| !held.contains(pin)).collect();
        let lines: String = new.iter().map(|pin| format!("- {pin}\n")).collect();
        let content = lines.trim_end().to_owned();
        (!new.is_empty()).then(|| Rehydrated { reference: "pinned".to_owned(), content, truncated: false })
    }

    /// The place of a message that prompts still show.
    fn place_in_prompt(&self, reference: &str) -> Result<u64> {
        let place = self.place_of(reference)?;
        let is_shown = self
            .state
            .thread
            .messages()
            .iter()
            .any(|message| message.log_place() as u64 == place && !message.is_summary());
        if is_shown { Ok(place) } else { Err(EngineError::LeftPrompt(reference.to_owned())) }
    }
}

/// The words of a note without the space around them, if they can be one.
fn checked(text: &str) -> Result<String> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err(EngineError::Note("it is empty".to_owned())),
        chars if chars > NOTE_CHARS_MAX => {
            Err(EngineError::Note(format!("it has {chars} characters, and the most are {NOTE_CHARS_MAX}")))
        }
        _ => Ok(text.to_owned()),
    }
}

impl fmt::Display for ThreadNotes {
    /// Writes the notes for people and models, a heading for each kind that has any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden: Vec<String> =
            self.hidden.iter().map(|hidden| format!("{}: {}", hidden.message, hidden.text)).collect();
        for (heading, lines) in [("Hidden messages", &hidden), ("Pins", &self.pins)] {
            if !lines.is_empty() {
                writeln!(f, "{heading}:")?;
                lines.iter().try_for_each(|line| writeln!(f, "- {line}"))?;
                writeln!(f)?;
            }
        }
        if !self.memory.summary.is_empty() {
            writeln!(f, "Memory so far:\n{}\n", self.memory.summary)?;
        }
        if !self.memory.entries.is_empty() {
            writeln!(f, "Latest memory entries:")?;
            self.memory.entries.iter().try_for_each(|entry| writeln!(f, "- {entry}"))?;
            writeln!(f)?;
        }
        if let Some(state) = &self.state {
            writeln!(f, "{}", state.render())?;
        }
        let quality = &self.quality;
        writeln!(f, "Quality:")?;
        writeln!(f, "- compactions: {}", quality.compactions)?;
        writeln!(f, "- turns since the newest: {}", quality.turns_since_compaction)?;
        writeln!(f, "- the agent asked for what was compacted: {}", quality.agent_asked_for_context)?;
        writeln!(f, "- content came back by itself: {}", quality.rehydration_requests)?;
        writeln!(f, "- artifacts read: {}", quality.explicit_reads)?;
        writeln!(f, "- searches: {}", quality.recalls)?;
        if let Some(completed) = quality.task_completed {
            writeln!(f, "- the task was completed: {}", if completed { "yes" } else { "no" })?;
        }
        if self.asks_often {
            writeln!(f, "The agent asks often. A policy that keeps more, or a larger budget, would help it.")?;
        }
        Ok(())
    }
}
