//! Bodies under another key: what is sealed with an older one, or not at all, sealed with the current one.
//!
//! The names that bodies are bound to stand in this module's siblings and nowhere else.

use epitome::thread::MessageId;

use super::{Log, LogEntry, LogError, Result, body, document_name, event_name, plan};
use crate::ids::{TenantId, ThreadKey};
use crate::store::{DocumentKey, DocumentRow, EventRow, MessageRow, PlanRow, ThreadRow};
use crate::vault::Sealing;

/// A body under the current key; `None` when it is under it already.
pub(crate) type Again = Result<Option<Vec<u8>>>;

impl Log {
    /// A message that the thread itself holds, with its id as it stands in the open from then on.
    pub(crate) fn reseal_message(&self, thread: &ThreadRow, row: &MessageRow) -> Result<Option<(MessageId, Vec<u8>)>> {
        if !self.vault.needs_reseal(&row.body) {
            return Ok(None);
        }
        let (tenant, name) = (&thread.key.tenant, body::name(&thread.key.thread, row.place));
        let what = || format!("message {} of {}", row.place + 1, thread.key);
        let plain = self.plain(tenant, Sealing::Message, &name, &row.body, what)?;
        let unreadable = || LogError::Unreadable(what());
        let entry = LogEntry::read(row.clone(), &plain, &thread.dialect).ok_or_else(unreadable)?;
        let kept = self.vault.is_sealing().then_some(entry.id);
        let plain = body::with_id(&plain, kept).ok_or_else(unreadable)?;
        let sealed = self.vault.seal(tenant, Sealing::Message, &name, &plain);
        Ok(Some((self.vault.blind_id(tenant, entry.id), sealed)))
    }

    pub(crate) fn reseal_plan(&self, key: &ThreadKey, row: &PlanRow) -> Again {
        let what = || format!("plan {} of {key}", row.version);
        self.again(&key.tenant, Sealing::Plan, &plan::name(key, row.version), &row.body, what)
    }

    pub(crate) fn reseal_event(&self, key: &ThreadKey, row: &EventRow) -> Again {
        let what = || format!("event {} of {key}", row.number);
        self.again(&key.tenant, Sealing::Event, &event_name(key, row.at), &row.body, what)
    }

    /// A thread's labels.
    pub(crate) fn reseal_labels(&self, row: &ThreadRow) -> Again {
        if row.labels.is_empty() {
            return Ok(None);
        }
        let what = || format!("the labels of {}", row.key);
        self.again(&row.key.tenant, Sealing::Label, row.key.thread.as_str(), &row.labels, what)
    }

    pub(crate) fn reseal_document(&self, key: &DocumentKey, row: &DocumentRow) -> Again {
        let name = document_name(&key.kind, &key.name);
        self.again(&key.tenant, Sealing::Document, &name, &row.body, || document_in_words(key))
    }

    /// A document's content.
    pub(crate) fn open_document(&self, key: &DocumentKey, row: &DocumentRow) -> Result<Vec<u8>> {
        let name = document_name(&key.kind, &key.name);
        self.plain(&key.tenant, Sealing::Document, &name, &row.body, || document_in_words(key))
    }

    /// A body under the current key; `what` is what it is called in a sentence.
    fn again(
        &self,
        tenant: &TenantId,
        sealing: Sealing,
        name: &str,
        sealed: &[u8],
        what: impl FnOnce() -> String,
    ) -> Again {
        if !self.vault.needs_reseal(sealed) {
            return Ok(None);
        }
        let plain = self.plain(tenant, sealing, name, sealed, what)?;
        Ok(Some(self.vault.seal(tenant, sealing, name, &plain)))
    }

    fn plain(
        &self,
        tenant: &TenantId,
        sealing: Sealing,
        name: &str,
        sealed: &[u8],
        what: impl FnOnce() -> String,
    ) -> Result<Vec<u8>> {
        self.vault.open(tenant, sealing, name, sealed).map_err(|error| LogError::sealed(what(), error))
    }
}

fn document_in_words(key: &DocumentKey) -> String {
    format!("the {} document {} of {}", key.kind, key.name, key.tenant)
}
