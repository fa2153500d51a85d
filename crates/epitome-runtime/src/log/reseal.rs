//! Bodies under another key: what is sealed with an older one, or not at all, sealed with the current one.
//!
//! The names that bodies are bound to stand in this module's siblings and nowhere else.

use super::{Log, LogError, body, document_name, event_name, plan};
use crate::ids::{TenantId, ThreadKey};
use crate::store::{DocumentKey, DocumentRow, EventRow, MessageRow, PlanRow, ThreadRow};
use crate::vault::Sealing;

/// A body under the current key; `None` when it is under it already.
pub(crate) type Again = Result<Option<Vec<u8>>, LogError>;

impl Log {
    /// A message that the thread itself holds.
    pub(crate) fn reseal_message(&self, key: &ThreadKey, row: &MessageRow) -> Again {
        self.again(&key.tenant, Sealing::Message, &body::name(&key.thread, row.place), &row.body)
    }

    /// A plan.
    pub(crate) fn reseal_plan(&self, key: &ThreadKey, row: &PlanRow) -> Again {
        self.again(&key.tenant, Sealing::Plan, &plan::name(key, row.version), &row.body)
    }

    /// An event.
    pub(crate) fn reseal_event(&self, key: &ThreadKey, row: &EventRow) -> Again {
        self.again(&key.tenant, Sealing::Event, &event_name(key, row.at), &row.body)
    }

    /// A thread's labels.
    pub(crate) fn reseal_labels(&self, row: &ThreadRow) -> Again {
        match row.labels.is_empty() {
            true => Ok(None),
            false => self.again(&row.key.tenant, Sealing::Label, row.key.thread.as_str(), &row.labels),
        }
    }

    /// A document.
    pub(crate) fn reseal_document(&self, key: &DocumentKey, row: &DocumentRow) -> Again {
        self.again(&key.tenant, Sealing::Document, &document_name(&key.kind, &key.name), &row.body)
    }

    /// Whether a document opens.
    pub(crate) fn opens_document(&self, key: &DocumentKey, row: &DocumentRow) -> Result<(), LogError> {
        self.plain(&key.tenant, Sealing::Document, &document_name(&key.kind, &key.name), &row.body).map(drop)
    }

    fn again(&self, tenant: &TenantId, what: Sealing, name: &str, sealed: &[u8]) -> Again {
        if !self.vault.needs_reseal(sealed) {
            return Ok(None);
        }
        let plain = self.plain(tenant, what, name, sealed)?;
        Ok(Some(self.vault.seal(tenant, what, name, &plain)))
    }

    fn plain(&self, tenant: &TenantId, what: Sealing, name: &str, sealed: &[u8]) -> Result<Vec<u8>, LogError> {
        self.vault.open(tenant, what, name, sealed).map_err(|error| LogError::sealed(name, error))
    }
}
