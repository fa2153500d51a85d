//! Names in the open: what rows are kept and found under, with nothing in them of what was said.
//!
//! Callers name a document by what it is about: a response's id, a line of an answer, a conversation. What reaches the store
//! is a keyed hash of that, because a plain hash tells everything to who guesses. It happens here and nowhere else, by the
//! document's kind, so that no caller can forget it.

use super::{Log, Result, document_name};
use crate::ids::TenantId;
use crate::store::{DocumentKey, DocumentKind, DocumentRow, Naming, ThreadRow, Write};
use crate::vault::{Sealing, is_blinded};

/// The prefix of a counter that was chosen for a model.
const FOR_MODEL: &str = "auto:";
/// The rest of that name where no model is known.
const NO_MODEL: &str = "-";
/// The separator between the parts of a scope.
const PART: char = '/';

impl Log {
    /// The name in the open of a document that is called so.
    pub(super) fn stored_name(&self, tenant: &TenantId, kind: DocumentKind, name: &str) -> String {
        let blind = |text| self.vault.blind_name(tenant, kind.name(), text);
        match (kind.naming(), name.rsplit_once(':')) {
            (Naming::Plain, _) => name.to_owned(),
            (Naming::BlindedLast, Some((before, last))) => format!("{before}:{}", blind(last)),
            (Naming::BlindedLast, None) | (Naming::Blinded, _) => blind(name),
        }
    }

    /// A scope in the open, part by part: what begins with whole parts of another scope still does.
    pub(super) fn stored_scope(&self, tenant: &TenantId, scope: &str) -> String {
        let mut stored = String::new();
        for (end, _) in scope.match_indices(PART) {
            stored.push_str(&self.vault.blind_name(tenant, "scope part", &scope[..end]));
            stored.push(PART);
        }
        if !scope.is_empty() && !scope.ends_with(PART) {
            stored.push_str(&self.vault.blind_name(tenant, "scope part", scope));
        }
        stored
    }

    /// A counter's name in the open: models stay unnamed.
    pub(super) fn stored_counter(&self, tenant: &TenantId, counter: &str) -> String {
        match counter.strip_prefix(FOR_MODEL) {
            Some(model) if model != NO_MODEL => {
                format!("{FOR_MODEL}{}", self.vault.blind_name(tenant, "counter", model))
            }
            _ => counter.to_owned(),
        }
    }

    /// Tells whether a thread's messages are counted with this counter.
    pub fn is_counted_with(&self, row: &ThreadRow, counter: &str) -> bool {
        row.counter == counter || row.counter == self.stored_counter(&row.key.tenant, counter)
    }

    /// Returns the write that blinds a thread's readable names; `None` when they are blinded.
    pub(crate) fn rename_thread(&self, row: &ThreadRow) -> Option<Write> {
        let tenant = &row.key.tenant;
        let is_told = |part: &str| !part.is_empty() && part != NO_MODEL && !is_blinded(part);
        let scope =
            if row.scope.split(PART).any(is_told) { self.stored_scope(tenant, &row.scope) } else { row.scope.clone() };
        let counter = if row.counter.strip_prefix(FOR_MODEL).is_some_and(is_told) {
            self.stored_counter(tenant, &row.counter)
        } else {
            row.counter.clone()
        };
        let is_new = scope != row.scope || counter != row.counter;
        is_new.then(|| Write::NameThread { key: row.key.clone(), scope, counter })
    }

    /// Tells whether a document's name tells nothing that its kind keeps to itself.
    pub(crate) fn is_well_named(&self, key: &DocumentKey) -> bool {
        let Some(kind) = key.kind.known() else { return true };
        match kind.naming() {
            Naming::Plain => true,
            Naming::Blinded => is_blinded(&key.name),
            Naming::BlindedLast => key.name.rsplit(':').next().is_some_and(is_blinded),
        }
    }

    /// Returns the writes that move a document to a blinded name: one that puts it there, one that removes the old. `None`
    /// when its name is well. Its body is sealed anew, because it is bound to the name.
    pub(crate) fn rename_document(&self, key: &DocumentKey, row: &DocumentRow) -> Result<Option<(Write, Write)>> {
        let Some(kind) = key.kind.known().filter(|_| !self.is_well_named(key)) else { return Ok(None) };
        let tenant = &key.tenant;
        let plain = self.open_document(key, row)?;
        let renamed = DocumentKey::new(tenant.clone(), kind, self.stored_name(tenant, kind, &key.name));
        let name = document_name(&renamed.kind, &renamed.name);
        let body = self.vault.seal(tenant, Sealing::Document, &name, &plain);
        let expires = row.expires.or_else(|| kind.retention().expiry(row.at));
        let put = Write::PutDocument { key: renamed, expected: Some(0), at: row.at, expires, body };
        Ok(Some((put, Write::DeleteDocument(key.clone()))))
    }
}
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::MemoryStore;
    use crate::vault::{Keys, Vault};

    fn log() -> Log {
        Log::new(Arc::new(MemoryStore::new()), Vault::new(Keys::none(), [7; 32]))
    }

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap_or_else(|_| TenantId::local())
    }

    #[test]
    fn the_same_words_have_other_names_in_another_tenant_and_another_kind() {
        let log = log();
        let name = |owner: &str, kind| log.stored_name(&tenant(owner), kind, "resp_1");
        let one = name("acme", DocumentKind::Response);
        assert!(is_blinded(&one) && !one.contains("resp"), "{one}");
        assert_eq!(one, name("acme", DocumentKind::Response));
        assert_ne!(one, name("bolt", DocumentKind::Response));
        assert_ne!(one, name("acme", DocumentKind::Trace));
        assert_eq!(name("acme", DocumentKind::Pins), "resp_1");
        let answer = log.stored_name(&tenant("acme"), DocumentKind::Answer, "team:t1:12:req-7");
        assert!(answer.starts_with("team:t1:12:~") && !answer.contains("req"), "{answer}");
    }

    #[test]
    fn a_scope_begins_like_the_scopes_that_it_is_in() {
        let log = log();
        let scope = |text| log.stored_scope(&tenant("acme"), text);
        let (caller, named) = (scope("chat:ab/"), scope("chat:ab/talk"));
        assert!(named.starts_with(&caller) && named.len() > caller.len(), "{caller} {named}");
        assert!(!scope("chat:cd/talk").ends_with(&named[caller.len()..]), "a name of another caller is another name");
        assert!(!named.contains("chat") && !named.contains("talk"), "{named}");
        assert_eq!(scope(""), "");
    }
}
