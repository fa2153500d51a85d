//! Quality: how a thread does after its compactions, watched and kept.

use epitome::thread::Role;

use super::thread::OpenThread;
use crate::event::{Event, EventField, EventKind};
use crate::ids::Moment;
use crate::log::NewDocument;
use crate::store::DocumentKind;

impl OpenThread {
    /// Records that the thread's task ended, and whether it was completed. Only the program around the agent knows that.
    pub async fn end_task(&mut self, completed: bool) {
        self.quality = self.quality.task_ended(completed);
        self.save_quality().await;
    }

    /// Watches the newest messages, so many that were appended at once, for an agent that asks for what was compacted away. A
    /// proxy sees an answer only when the client sends it back, together with what the user says next.
    pub(super) async fn note_quality(&mut self, appended: usize) {
        if self.state.compaction.is_none() {
            return;
        }
        let before = self.quality;
        let messages = self.state.thread.messages();
        for message in &messages[messages.len().saturating_sub(appended)..] {
            if message.opens_turn() {
                self.quality = self.quality.turn_began();
            } else if message.role() == Role::Assistant {
                self.quality = self.quality.assistant_said(&message.text());
            }
        }
        if self.quality.agent_asked_for_context > before.agent_asked_for_context {
            let event = Event::new(Moment::now(), self.key.clone(), EventKind::ContextMissed);
            let turns = self.quality.turns_since_compaction;
            self.engine.record_event(&event.with(EventField::TurnsSinceCompaction, turns)).await;
            self.save_quality().await;
        }
    }

    /// Starts to write the quality metrics, after the write before. Nothing waits until they are on disk.
    pub(super) async fn save_quality(&mut self) {
        let log = self.engine.inner.log.clone();
        let name = self.key.thread.as_str();
        let document = NewDocument::new(&self.key.tenant, DocumentKind::Quality, name, &self.quality);
        let write = log.put_document(document);
        let before = self.quality_write.take();
        let mut saving = Box::pin(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            if let Err(error) = log.apply(&[write]).await {
                tracing::warn!(%error, "failed to save quality metrics");
            }
        });
        // Polled once here, so that the store has them before this returns.
        tokio::select! {
            biased;
            () = &mut saving => {}
            () = std::future::ready(()) => self.quality_write = Some(tokio::spawn(saving)),
        }
    }
}
