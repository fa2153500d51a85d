//! The memory block of a thread: entries that gather, the oldest folded from time to time.

use epitome::render::Rehydrated;
use epitome::summary::MemoryBlock;

use super::error::Result;
use super::thread::{OpenThread, RACES_MAX};
use crate::artifact::Permission;
use crate::log::NewDocument;
use crate::store::{DocumentKind, StoreError};

impl OpenThread {
    /// Remembers an entry in the thread's memory block. When it is time the oldest are folded into its summary.
    pub async fn remember(&mut self, entry: &str) -> Result<()> {
        self.require(Permission::WriteThread)?;
        let log = &self.engine.inner.log;
        let (tenant, name) = (&self.key.tenant, self.key.thread.as_str());
        for _ in 0..RACES_MAX {
            let (block, version) = log.document::<MemoryBlock>(tenant, DocumentKind::Memory, name).await?;
            let mut block = block.unwrap_or_default();
            block.push(entry);
            let mut writes = Vec::new();
            if block.due().is_some() {
                let folded = block.fold_plainly();
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
