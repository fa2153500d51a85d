//! Writes: changes as values, each with what it expects to find.

use epitome::thread::MessageId;
use uuid::Uuid;

use super::row::{
    ArtifactRow, DocumentKey, EventRow, IndexRow, JobId, JobKind, MessageRow, PlanRow, ThreadRow, VectorRow,
};
use crate::ids::{Moment, TenantId, ThreadKey};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A new thread. Conflict when it exists.
    CreateThread(Box<ThreadRow>),
    /// Messages at the end of a thread. Conflict unless it has exactly as many messages as the first one's place says.
    /// The thread's length, tip, turn, tokens and moment follow.
    Append {
        /// The thread.
        key: ThreadKey,
        /// The messages, with consecutive places. Never empty.
        messages: Vec<MessageRow>,
        /// Their tokens.
        tokens: u64,
    },
    /// The next plan. Conflict unless the newest version is the one before it.
    CommitPlan {
        /// The thread.
        key: ThreadKey,
        /// The plan.
        plan: Box<PlanRow>,
    },
    /// Passages for the full-text index of a thread. Those that are there already stay as they are.
    Index {
        /// The thread.
        key: ThreadKey,
        /// The passages.
        rows: Vec<IndexRow>,
    },
    /// Vectors of passages of a thread. One that is there already is replaced.
    PutVectors {
        /// The thread.
        key: ThreadKey,
        /// The vectors.
        rows: Vec<VectorRow>,
    },
    /// Replaces the caller's labels of a thread.
    Label {
        /// The thread.
        key: ThreadKey,
        /// The labels; sealed.
        labels: Vec<u8>,
    },
    /// Other names in the place of those by which a thread is looked for and counted. The thread is the same.
    NameThread {
        /// The thread.
        key: ThreadKey,
        /// Its scope from now on.
        scope: String,
        /// Its counter from now on.
        counter: String,
    },
    /// A document.
    PutDocument {
        /// The key.
        key: DocumentKey,
        /// The version it has now, 0 when it must not exist: conflict otherwise. `None`: whatever is there is replaced.
        expected: Option<u64>,
        /// When it is written.
        at: Moment,
        /// When it may be removed.
        expires: Option<Moment>,
        /// Its content; sealed.
        body: Vec<u8>,
    },
    /// Removes a document, if it is there.
    DeleteDocument(DocumentKey),
    /// An artifact's metadata. One that is there already keeps its thread and moment; sensitivity and expiry become the
    /// stricter sensitivity and the later expiry of both (no expiry is the latest), the key id the new one.
    PutArtifact(Box<ArtifactRow>),
    /// Removes an artifact's metadata, if it is there.
    DeleteArtifact {
        /// Whose.
        tenant: TenantId,
        /// Which.
        id: String,
    },
    /// An event; its number is given by the store.
    AddEvent {
        /// The thread it happened to.
        key: ThreadKey,
        /// The event.
        event: EventRow,
    },
    /// A job, unless one of this kind is pending for this thread already: then nothing.
    Enqueue(Box<NewJob>),
    /// A worker needs longer. Conflict when it no longer holds the job.
    ExtendLease {
        /// The job.
        job: JobId,
        /// The hold.
        token: Uuid,
        /// Until when now.
        until: Moment,
    },
    /// A worker is done with a job. Conflict when it no longer holds it, so that what it did is not written twice.
    FinishJob {
        /// The job.
        job: JobId,
        /// The hold.
        token: Uuid,
        /// The way it ended.
        end: JobEnd,
    },
    /// Another body in the place of a message's, under another key. The message is the same.
    Reseal {
        /// The thread.
        key: ThreadKey,
        /// The message's place.
        place: u64,
        /// The id as it stands in the open from now on; the thread's tip follows.
        id: MessageId,
        /// The body; sealed.
        body: Vec<u8>,
    },
    /// Another body in the place of a plan's, under another key.
    ResealPlan {
        /// The thread.
        key: ThreadKey,
        /// The plan's version.
        version: u64,
        /// The body; sealed.
        body: Vec<u8>,
    },
    /// Another body in the place of an event's, under another key.
    ResealEvent {
        /// The thread.
        key: ThreadKey,
        /// The event's number.
        number: u64,
        /// The body; sealed.
        body: Vec<u8>,
    },
    /// Forgets the full-text index of a thread, so that it can be made anew. Vectors stay.
    DropIndex(ThreadKey),
}

/// A job to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// The thread it is about.
    pub key: ThreadKey,
    /// The kind.
    pub kind: JobKind,
    /// The most attempts.
    pub attempts_max: u32,
    /// Not before this moment.
    pub due: Moment,
    /// When it is queued.
    pub queued: Moment,
    /// Numbers for the worker; free of content.
    pub payload: String,
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// It is done.
    Done,
    /// It failed; it is tried again at this moment unless its attempts are used up.
    Failed {
        /// When to try again.
        again: Moment,
        /// Why.
        error: String,
    },
}
