//! Kinds of documents: one closed set, with everything that depends on the kind declared here.
//!
//! Rotation, checking, expiry and erasure go through all documents of a tenant and ask the kind what to do. A kind that is
//! added answers every question below or does not compile. A kind that is found in a store and is not in the set was
//! written by another version: it is named in a report and sealed like the others, never passed over.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use crate::ids::{Moment, ThreadId};

const DAY_SECONDS: u64 = 24 * 60 * 60;

crate::named_enum! {
    /// The kinds of documents. A store keeps each under its name, which is never given to another kind.
    pub enum DocumentKind {
        /// What people noted about a thread: hidden messages, pins.
        Annotations = "annotations",
        /// A model's answer as the client got it, kept until the client sends it back.
        Answer = "answer",
        /// The description of a queued compaction.
        CompactionJob = "errand",
        /// The lessons about models.
        Learned = "learned",
        /// One request in the ledger.
        Ledger = "ledger",
        /// The ledger's totals of a day.
        LedgerDay = "ledger-day",
        /// A thread's previous request in the ledger.
        LedgerPrevious = "ledger-previous",
        /// A thread's memory block.
        Memory = "memory",
        /// Entries that were folded into a memory block's summary.
        MemoryFolded = "memory-folded",
        /// The pins of a thread.
        Pins = "pins",
        /// A small write that shows that a store takes any.
        Probe = "probe",
        /// The quality metrics of a thread.
        Quality = "quality",
        /// An answer that a client may go on from by its id.
        Response = "response",
        /// The key under which a thread's search index was made.
        Rotated = "rotated",
        /// The thread that was last begun under a conversation's name.
        Scope = "scope",
        /// The store's own random secret.
        Secret = "secret",
        /// The file that a thread was imported from.
        Source = "source",
        /// The workstream state of a thread.
        State = "state",
        /// A model's summary, cached.
        Summary = "summary",
        /// The thread that a model said something in.
        Trace = "trace",
        /// The rehydration state of a thread's current turn.
        Turn = "turn",
    }
}

/// The owner of a document, with which it is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The tenant; the store's own documents belong to the system tenant.
    Tenant,
    /// The thread that its name is or begins with. Without that thread it has no meaning.
    Thread,
    /// The thread that its name begins with. It is accounted for on its own, whether the thread is there or not.
    ThreadRecord,
    /// The thread that its content names; its own name is made of what a client or a model said.
    ThreadInContent,
}

/// The readable part of a document's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The name as it is: a thread, a day, a process. Nothing of it comes from a client or a model.
    Plain,
    /// Nothing: the name is blinded.
    Blinded,
    /// The part before the last colon; the rest is blinded.
    BlindedLast,
}

/// The retention of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// As long as its owner.
    WithOwner,
    /// This long after it was last written.
    For(Duration),
}

impl Retention {
    /// When a document that is written at this moment may be removed.
    pub fn expiry(self, at: Moment) -> Option<Moment> {
        match self {
            Retention::WithOwner => None,
            Retention::For(time) => Some(at.after(time)),
        }
    }
}

impl DocumentKind {
    /// Returns the owner of documents of this kind.
    pub fn owner(self) -> Owner {
        match self {
            DocumentKind::Learned
            | DocumentKind::LedgerDay
            | DocumentKind::Probe
            | DocumentKind::Secret
            | DocumentKind::Summary => Owner::Tenant,
            DocumentKind::Annotations
            | DocumentKind::CompactionJob
            | DocumentKind::Memory
            | DocumentKind::MemoryFolded
            | DocumentKind::Pins
            | DocumentKind::Quality
            | DocumentKind::Rotated
            | DocumentKind::Source
            | DocumentKind::State
            | DocumentKind::Turn => Owner::Thread,
            DocumentKind::Answer | DocumentKind::Ledger | DocumentKind::LedgerPrevious => Owner::ThreadRecord,
            DocumentKind::Response | DocumentKind::Scope | DocumentKind::Trace => Owner::ThreadInContent,
        }
    }

    /// Returns the readable part of the names of documents of this kind.
    pub fn naming(self) -> Naming {
        match self {
            // A response's id, a conversation's name, a line of an answer, a request to a model, a model's name.
            DocumentKind::Learned
            | DocumentKind::Response
            | DocumentKind::Scope
            | DocumentKind::Summary
            | DocumentKind::Trace => Naming::Blinded,
            // Behind the thread and its length stands the id of a request, which a client may choose.
            DocumentKind::Answer => Naming::BlindedLast,
            DocumentKind::Annotations
            | DocumentKind::CompactionJob
            | DocumentKind::Ledger
            | DocumentKind::LedgerDay
            | DocumentKind::LedgerPrevious
            | DocumentKind::Memory
            | DocumentKind::MemoryFolded
            | DocumentKind::Pins
            | DocumentKind::Probe
            | DocumentKind::Quality
            | DocumentKind::Rotated
            | DocumentKind::Secret
            | DocumentKind::Source
            | DocumentKind::State
            | DocumentKind::Turn => Naming::Plain,
        }
    }

    /// Returns the longest retention of documents of this kind. A writer may name an earlier moment.
    pub fn retention(self) -> Retention {
        let days = |days| Retention::For(Duration::from_secs(days * DAY_SECONDS));
        match self {
            DocumentKind::Answer | DocumentKind::Response | DocumentKind::Scope | DocumentKind::Trace => days(30),
            DocumentKind::Ledger | DocumentKind::Summary => days(90),
            // No provider's cache lives longer, which is all that the first is good for; the second is good for a moment.
            DocumentKind::LedgerPrevious | DocumentKind::Probe => days(1),
            DocumentKind::Annotations
            | DocumentKind::CompactionJob
            | DocumentKind::Learned
            | DocumentKind::LedgerDay
            | DocumentKind::Memory
            | DocumentKind::MemoryFolded
            | DocumentKind::Pins
            | DocumentKind::Quality
            | DocumentKind::Rotated
            | DocumentKind::Secret
            | DocumentKind::Source
            | DocumentKind::State
            | DocumentKind::Turn => Retention::WithOwner,
        }
    }

    /// The thread that a document of this kind and name belongs to, where its name says that.
    pub fn thread_in(self, name: &str) -> Option<ThreadId> {
        let thread = match (self.owner(), self) {
            (Owner::Tenant | Owner::ThreadInContent, _) => return None,
            (Owner::Thread | Owner::ThreadRecord, DocumentKind::MemoryFolded) => name.rsplit_once('@')?.0,
            (Owner::Thread | Owner::ThreadRecord, DocumentKind::Ledger) => name.split_once('/')?.0,
            // A thread's name may have colons of its own.
            (Owner::Thread | Owner::ThreadRecord, DocumentKind::Answer) => name.rsplitn(3, ':').nth(2)?,
            (Owner::Thread | Owner::ThreadRecord, _) => name,
        };
        thread.parse().ok()
    }
}

/// A kind as a store holds it: one of ours, or a name that another version wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoredKind {
    /// One of ours.
    Known(DocumentKind),
    /// A name that is not one of ours.
    Unknown(UnknownKind),
}

/// The name of a kind that this version does not know. Only a store makes one, of what it reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownKind(Box<str>);

impl StoredKind {
    /// The kind that a store holds under this name.
    pub fn read(name: &str) -> StoredKind {
        match DocumentKind::from_name(name) {
            Some(kind) => StoredKind::Known(kind),
            None => StoredKind::Unknown(UnknownKind(name.into())),
        }
    }

    /// The kind, if it is one of ours.
    pub fn known(&self) -> Option<DocumentKind> {
        match self {
            StoredKind::Known(kind) => Some(*kind),
            StoredKind::Unknown(_) => None,
        }
    }

    /// Its stored name.
    pub fn name(&self) -> &str {
        match self {
            StoredKind::Known(kind) => kind.name(),
            StoredKind::Unknown(UnknownKind(name)) => name,
        }
    }
}

impl From<DocumentKind> for StoredKind {
    fn from(kind: DocumentKind) -> Self {
        StoredKind::Known(kind)
    }
}

impl PartialOrd for StoredKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By name, as every store lists them.
impl Ord for StoredKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl fmt::Display for StoredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_read_back_from_its_own_name() {
        let names: BTreeSet<&str> = DocumentKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), DocumentKind::ALL.len());
        for kind in &DocumentKind::ALL {
            assert_eq!(StoredKind::read(kind.name()), StoredKind::Known(*kind));
        }
        assert_eq!(StoredKind::read("memories").known(), None);
        assert_eq!(StoredKind::read("memories").name(), "memories");
    }

    #[test]
    fn a_documents_name_says_which_thread_it_belongs_to() {
        let thread = |kind: DocumentKind, name: &str| kind.thread_in(name).map(|thread| thread.to_string());
        assert_eq!(thread(DocumentKind::Pins, "t1").as_deref(), Some("t1"));
        assert_eq!(thread(DocumentKind::MemoryFolded, "a@b@12").as_deref(), Some("a@b"));
        assert_eq!(thread(DocumentKind::Ledger, "t1/0001-ab").as_deref(), Some("t1"));
        assert_eq!(thread(DocumentKind::Answer, "team:t1:12:req").as_deref(), Some("team:t1"));
        assert_eq!(thread(DocumentKind::Trace, "t1"), None);
        assert_eq!(thread(DocumentKind::LedgerDay, "2026-11-17/p"), None);
    }
}
