//! The memory block of a thread: entries that gather, the oldest folded from time to time.

use epitome::render::Rehydrated;
use epitome::summary::MemoryBlock;

use super::error::EngineError;
use super::thread::{OpenThread, RACES_MAX};
use crate::artifact::Permission;
use crate::ids::Moment;
use crate::log::Document;
use crate::store::{DocumentKind, StoreError};

impl OpenThread {
    /// Remembers an entry in the thread's memory block. When it is time the oldest are folded into its summary.
    pub async fn remember(&mut self, entry: &str) -> Result<(), EngineError> {
        self.may(Permission::WriteThread)?;
        let log = &self.engine.inner.log;
        let (tenant, name) = (&self.key.tenant, self.key.thread.as_str());
        for _ in 0..RACES_MAX {
            let (block, version) = log.document::<MemoryBlock>(tenant, DocumentKind::Memory, name).await?;
            let mut block = block.unwrap_or_default();
            block.push(entry);
            let mut writes = Vec::new();
            let at = Moment::now();
            if block.due().is_some() {
                let folded = block.fold_plainly();
                // What is folded away stays readable.
                let name = format!("{name}@{version}");
                let value = &(folded.entries, folded.lost);
                let kind = DocumentKind::MemoryFolded;
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
            let (kind, value) = (DocumentKind::Memory, &block);
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
        let (block, _) = log.document(&self.key.tenant, DocumentKind::Memory, self.key.thread.as_str()).await?;
        Ok(block.unwrap_or_default())
    }

    pub(super) async fn memory_block(&self) -> Option<Rehydrated> {
        let text = self.memory().await.ok()?.render();
        let back = Rehydrated { reference: "memory".to_owned(), content: text, truncated: false };
        (!back.content.is_empty()).then_some(back)
    }
}
