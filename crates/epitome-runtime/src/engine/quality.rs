//! Quality: how a thread does after its compactions, watched and kept.

use epitome::thread::Role;

use super::thread::OpenThread;
use crate::event::{Event, EventKind};
use crate::ids::Moment;
use crate::log::Document;
use crate::store::DocumentKind;

impl OpenThread {
    /// Notes whether the task was completed, for the quality metrics.
    pub async fn task_ended(&mut self, completed: bool) {
        self.quality = self.quality.task_ended(completed);
        self.save_quality().await;
    }

    /// Watches for an agent that asks for what was compacted away.
    pub(super) async fn note_quality(&mut self, turn_before: u32) {
        let before = self.quality;
        if self.state.thread.turn() != turn_before && self.state.compaction.is_some() {
            self.quality = self.quality.turn_began();
        }
        let newest = self.state.thread.messages().last().filter(|message| message.role() == Role::Assistant);
        if let (Some(message), true) = (newest, self.state.compaction.is_some()) {
            self.quality = self.quality.assistant_said(&message.text());
        }
        if self.quality.agent_asked_for_context > before.agent_asked_for_context {
            let event = Event::new(Moment::now(), self.key.clone(), EventKind::ContextMissed);
            self.keep_event(event.with("turns_since_compaction", self.quality.turns_since_compaction)).await;
            self.save_quality().await;
        }
    }

    /// Hands the quality metrics to the store, in their order; nobody waits until they are on disk.
    pub(super) async fn save_quality(&mut self) {
        let log = self.engine.inner.log.clone();
        let (tenant, kind, name) = (&self.key.tenant, DocumentKind::Quality, self.key.thread.as_str());
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
}
