//! The memory block of a thread: entries that gather, the oldest folded from time to time.

use epitome::budget::Tokens;
use epitome::render::Rehydrated;
use epitome::summary::{MemoryBlock, MemoryRequest, PlainFold};

use super::error::Result;
use super::thread::{OpenThread, RACES_MAX};
use crate::artifact::Permission;
use crate::event::{Event, EventField, EventKind};
use crate::ids::Moment;
use crate::log::NewDocument;
use crate::model::Usage;
use crate::store::{DocumentKind, StoreError};
use crate::summarize::SummaryUsage;

/// The most tokens of a model's text for folded entries.
const FOLD_OUTPUT_MAX: Tokens = Tokens::new(4000);

impl OpenThread {
    /// Remembers an entry in the thread's memory block. When it is time, the oldest entries are folded into its summary: by the
    /// model that writes summaries, or by code where there is none or its text cannot be used.
    pub async fn remember(&mut self, entry: &str) -> Result<()> {
        self.require(Permission::WriteThread)?;
        let log = &self.engine.inner.log;
        let (tenant, name) = (&self.key.tenant, self.key.thread.as_str());
        let mut asked: Option<(MemoryRequest, Option<String>)> = None;
        for _ in 0..RACES_MAX {
            let (block, version) = log.document::<MemoryBlock>(tenant, DocumentKind::Memory, name).await?;
            let mut block = block.unwrap_or_default();
            block.push(entry);
            let mut writes = Vec::new();
            if let Some(request) = block.due() {
                // After a lost race the same entries are not paid for twice.
                if asked.as_ref().is_none_or(|(known, _)| *known != request) {
                    let text = self.ask_for_fold(&request).await;
                    asked = Some((request, text));
                }
                let folded = fold(&mut block, asked.as_ref());
                // The folded entries stay readable.
                let (name, value) = (format!("{name}@{version}"), (folded.entries, folded.lost));
                writes.push(log.put_document(NewDocument::new(tenant, DocumentKind::MemoryFolded, &name, &value)));
            }
            let document = NewDocument::new(tenant, DocumentKind::Memory, name, &block).expecting(version);
            writes.push(log.put_document(document));
            match log.apply(&writes).await {
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
                Ok(()) if self.state.annotations.has_memory => return Ok(()),
                Ok(()) => return self.change_annotations(&|notes| notes.has_memory = true, None).await,
            }
        }
        Err(StoreError::conflict("the memory block").into())
    }

    /// Asks the model for the text that takes the entries' place; `None` where there is no model or no answer.
    async fn ask_for_fold(&self, request: &MemoryRequest) -> Option<String> {
        let model = self.engine.inner.summarizer.model()?;
        let spent = SummaryUsage::default();
        let text = model.write(&request.prompt, FOLD_OUTPUT_MAX, &spent).await;
        if spent.total() != Usage::default() {
            let usage = serde_json::to_value(spent.total()).unwrap_or_default();
            let event = Event::new(Moment::now(), self.key.clone(), EventKind::SummaryAsked);
            self.engine.inner.bus.emit(&event.with(EventField::Model, model.id()).with(EventField::Usage, usage));
        }
        text.inspect_err(|no| tracing::warn!(error = %no, "the model did not fold the memory block; code does")).ok()
    }

    /// The thread's memory block.
    pub async fn memory(&self) -> Result<MemoryBlock> {
        let log = &self.engine.inner.log;
        let (block, _) = log.document(&self.key.tenant, DocumentKind::Memory, self.key.thread.as_str()).await?;
        Ok(block.unwrap_or_default())
    }

    pub(super) async fn memory_block(&self) -> Option<Rehydrated> {
        let content = self.memory().await.ok()?.render();
        (!content.is_empty()).then(|| Rehydrated { reference: "memory".to_owned(), content, truncated: false })
    }
}

/// Folds the oldest entries with the model's text, or without one where that does not fit them.
fn fold(block: &mut MemoryBlock, asked: Option<&(MemoryRequest, Option<String>)>) -> PlainFold {
    if let Some((request, Some(text))) = asked {
        match block.fold(request, text) {
            Ok(entries) => return PlainFold { entries, lost: Vec::new() },
            Err(error) => tracing::warn!(%error, "the model's text cannot replace the memory entries"),
        }
    }
    block.fold_plainly()
}
