//! Reading back: artifacts, messages and passages of what left the prompt.

use std::ops::RangeInclusive;
use std::sync::Arc;

use epitome::budget::Meter;
use epitome::plan::{ArtifactId, part_content};
use epitome::session::is_named_by_compaction;
use epitome::thread::{Part, Thread};

use super::error::{EngineError, Result};
use super::thread::OpenThread;
use crate::artifact::{Content, DenialReason, Denied, Permission};
use crate::event::{Event, EventField, EventKind};
use crate::ids::Moment;
use crate::log::LogEntry;
use crate::recall::{
    FileQuestion, MessageSelection, PromptLines, RecallRequest, RecallResult, file_answer, read_messages,
};
use crate::store::{ArtifactRow, Sensitivity};

/// A summary that a thread came with is among its first messages.
const FIRST_MESSAGES: u64 = 32;

impl OpenThread {
    /// Tells whether what left the prompt may be read: the thread's own permission, and that of the most sensitive content that is
    /// kept of it. Messages have no sensitivity of their own, and one of them may quote another.
    pub(super) fn may_read_back(&self) -> Result<()> {
        self.require(Permission::ReadThread)?;
        let kept = self.state.hints.iter().filter_map(|hint| hint.sensitivity);
        let strictest = kept.fold(self.engine.settings().retention.sensitivity, Sensitivity::max);
        match Permission::to_read(strictest) {
            Some(permission) => self.require(permission),
            None => Ok(()),
        }
    }

    /// The sensitivity of an artifact that is read from the log.
    fn sensitivity_in_log(&self, id: &str) -> Sensitivity {
        let hint = self.state.hints.iter().find(|hint| hint.id == id);
        hint.and_then(|hint| hint.sensitivity).unwrap_or(self.engine.settings().retention.sensitivity)
    }

    /// An artifact of this thread's tenant, on purpose. Where its bytes cannot be had, the log still holds it.
    pub async fn read_artifact(&mut self, id: &str) -> Result<Content> {
        let now = Moment::now();
        let denied = match self.engine.inner.artifacts.read(&self.access, id, now).await {
            Ok(content) => {
                self.quality = self.quality.read_artifact();
                let event = Event::new(now, self.key.clone(), EventKind::ArtifactRead);
                let event = event.with(EventField::Artifact, id).with(EventField::Bytes, content.text().len());
                self.engine.record_event(&event).await;
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
        self.engine.record_event(&denied.event(now, self.key.clone())).await;
        Err(denied.into())
    }

    /// Tells whether an artifact is this thread's: its plan names it, or it left this thread's prompts.
    pub async fn has_artifact(&self, id: &str) -> bool {
        if self.state.hints.iter().any(|hint| hint.id == id) {
            return true;
        }
        let row = self.engine.inner.artifacts.metadata(&self.access, id).await;
        row.is_ok_and(|row| row.thread == self.key.thread)
    }

    /// The content of an artifact as it stands in the log.
    async fn content_in_log(&self, id: &str) -> Option<Content> {
        let sensitivity = self.sensitivity_in_log(id);
        if !self.access.may_read(sensitivity) {
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
        let parts = 0..thread.message(0).parts().len();
        let contents: Vec<&str> = parts.filter_map(|part| part_content(&thread, 0, part)).collect();
        let is_named = |key: &[u8; 32], content: &str| ArtifactId::keyed(key, content.as_bytes()).as_str() == id;
        let named = contents.iter().copied().find(|content| keys.iter().any(|key| is_named(key, content)));
        // An id is made with the key of its day, which a rotation makes superfluous. The plan still names the message, and
        // where that has but one content there is no doubt which is meant.
        let content = named.or(match contents[..] {
            [only] => Some(only),
            _ => None,
        })?;
        let row = ArtifactRow {
            id: id.to_owned(),
            tenant: self.key.tenant.clone(),
            thread: self.key.thread.clone(),
            at: entry.at,
            expires: None,
            key_id: None,
            sensitivity,
            bytes: content.len() as u64,
            tokens: thread.total().get().min(self.engine.counter().count(content).get()),
        };
        Some(Content::new(row, content.as_bytes().to_vec()))
    }

    /// Content that may come back by itself: of a sensitivity that allows it.
    pub(super) async fn content_for_rehydration(&self, id: &str) -> Option<String> {
        let artifacts = &self.engine.inner.artifacts;
        match artifacts.metadata(&self.access, id).await {
            Ok(row) if !self.engine.settings().auto_rehydrate.contains(&row.sensitivity) => {
                let event = Event::new(Moment::now(), self.key.clone(), EventKind::RehydrationBlockedSensitivity);
                let event = event
                    .with(EventField::Artifact, id)
                    .with(EventField::Sensitivity, row.sensitivity.name())
                    .with(EventField::Reason, "it comes back on purpose only, through read_artifact");
                self.engine.record_event(&event).await;
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
        let allowed = self.engine.settings().auto_rehydrate.contains(&self.sensitivity_in_log(id));
        if may_be_in_the_log(denied) && allowed { self.content_in_log(id).await.map(Content::into_text) } else { None }
    }

    /// Reads a message by its reference, such as `m41`, or some lines of it.
    pub async fn read_message(&self, reference: &str, lines: Option<RangeInclusive<usize>>) -> Result<String> {
        let place = self.place_of(reference)?;
        self.are_own_numbers(&[place + 1]).await?;
        let words = self.entry_at(reference, place).await?.words();
        let Some(lines) = lines else { return Ok(words) };
        let first = (*lines.start()).max(1);
        let picked = words.lines().skip(first - 1).take(lines.end().saturating_add(1).saturating_sub(first));
        Ok(picked.collect::<Vec<_>>().join("\n"))
    }

    /// Reads several messages by their numbers, in the order in which they are asked for. Numbers that the thread does not have
    /// are left out.
    pub async fn read_messages(&self, selection: &MessageSelection) -> Result<Vec<LogEntry>> {
        self.may_read_back()?;
        self.are_own_numbers(&selection.numbers()).await?;
        Ok(read_messages(&self.engine.inner.log, &self.state.row, selection).await?)
    }

    /// Answers a question about one file from all messages of the thread: its edits, or how it stands now.
    pub async fn file_answer(&self, question: &FileQuestion) -> Result<String> {
        self.may_read_back()?;
        let policy = self.engine.policy();
        Ok(file_answer(&self.engine.inner.log, &self.state.row, question, &policy.tools).await?)
    }

    pub(super) fn place_of(&self, reference: &str) -> Result<u64> {
        self.may_read_back()?;
        let number = reference.strip_prefix('m').and_then(|number| number.parse::<u64>().ok());
        let place = number.and_then(|number| number.checked_sub(1)).filter(|place| *place < self.state.row.length);
        place.ok_or_else(|| EngineError::NoMessage(reference.to_owned()))
    }

    async fn entry_at(&self, reference: &str, place: u64) -> Result<LogEntry> {
        let found = self.engine.inner.log.read(&self.state.row, place..place + 1).await?.pop();
        found.ok_or_else(|| EngineError::NoMessage(reference.to_owned()))
    }

    /// Refuses numbers that a summary of somebody else's compaction names: a client that compacts its own list sends the
    /// summary as one of its first messages, and the numbers in it are not places of this log.
    async fn are_own_numbers(&self, numbers: &[u64]) -> Result<()> {
        let first = 0..self.state.row.length.min(FIRST_MESSAGES);
        let entries = self.engine.inner.log.read(&self.state.row, first).await?;
        let texts = entries.iter().flat_map(|entry| &entry.message.parts).filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::ToolResult(result) => Some(&*result.text),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect();
        let is_named = |number: u64| {
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            texts.iter().any(|text| is_named_by_compaction(text, number))
        };
        match numbers.iter().find(|number| is_named(**number)) {
            Some(number) => Err(EngineError::ForeignNumber(format!("m{number}"))),
            None => Ok(()),
        }
    }

    /// Searches everything that left the thread's prompts. Lines that the prompt holds are told by their number alone.
    pub async fn recall(&mut self, request: impl Into<RecallRequest>) -> Result<RecallResult> {
        self.may_read_back()?;
        let (request, prompt) = (request.into(), self.prompt_lines());
        let found = self.engine.search(&self.state.row, &request, Some(&prompt)).await?;
        // It is kept with whatever is kept next: a search shall not wait for a number.
        self.quality = self.quality.recalled();
        Ok(found)
    }
}

impl OpenThread {
    /// Returns the lines of the prompt; collected once for each plan and length.
    fn prompt_lines(&mut self) -> Arc<PromptLines> {
        let now = (self.state.row.version, self.state.thread.len());
        if let Some((_, lines)) = self.prompt_lines.as_ref().filter(|(then, _)| *then == now) {
            return Arc::clone(lines);
        }
        let lines = Arc::new(PromptLines::of(&self.state.thread, self.state.compaction.as_deref()));
        self.prompt_lines = Some((now, Arc::clone(&lines)));
        lines
    }
}

/// Tells whether what was denied may still be had: it is not forbidden, it is only not where it should be.
fn may_be_in_the_log(denied: &Denied) -> bool {
    matches!(denied.reason(), DenialReason::Unknown | DenialReason::Damaged | DenialReason::Unreachable)
}
