//! Rows: what a store holds, as plain values. Bodies are sealed bytes; the store never looks inside.

use epitome::budget::Tokens;
use epitome::thread::MessageId;
use serde::{Deserialize, Serialize};

use super::kind::{DocumentKind, StoredKind};
use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Which thread.
    pub key: ThreadKey,
    /// When it was made.
    pub created: Moment,
    /// When something was last appended or committed.
    pub updated: Moment,
    /// The number of messages, shared ones included.
    pub length: u64,
    /// The newest message.
    pub tip: MessageId,
    /// The turn of the newest message.
    pub turn: u32,
    /// The tokens of all its messages.
    pub tokens: u64,
    /// The version of its newest plan; 0 before the first.
    pub version: u64,
    /// The name of the dialect that the messages are written in.
    pub dialect: String,
    /// The counter that the messages were counted with.
    pub counter: String,
    /// The segments that hold the messages before its own, oldest first; empty unless it is a fork.
    pub shared: Vec<Segment>,
    /// Among whose threads it is looked for by its messages; a name without meaning, empty where nobody looks.
    pub scope: String,
    /// The caller's own labels; sealed.
    pub labels: Vec<u8>,
}

/// A message that a store found by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The thread that holds it.
    pub thread: ThreadId,
    /// Its place.
    pub place: u64,
}

/// A run of messages that another thread holds: its places up to `until`, from where the segment before ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The thread that holds them.
    pub thread: ThreadId,
    /// The place after the last one.
    pub until: u64,
}

/// One message of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Its place, from 0.
    pub place: u64,
    /// Its id: the hash of its parent's id and its meaning.
    pub id: MessageId,
    /// Its turn.
    pub turn: u32,
    /// The tokens of each of its parts.
    pub part_tokens: Vec<Tokens>,
    /// When it was appended.
    pub at: Moment,
    /// The message itself; sealed.
    pub body: Vec<u8>,
}

/// One version of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRow {
    /// Its version, from 1.
    pub version: u64,
    /// When it was committed.
    pub at: Moment,
    /// The number of messages that the thread had when it was made.
    pub covers: u64,
    /// From this place on every message is needed to render it.
    pub live_from: u64,
    /// The policy's name and version.
    pub policy: String,
    /// The prompt's tokens before.
    pub before: u64,
    /// The prompt's tokens after.
    pub after: u64,
    /// The messages that this version took out of the prompt, as runs of places: first, and the one after the last.
    pub compacted: Vec<(u64, u64)>,
    /// The plan with its summaries and its receipt; sealed.
    pub body: Vec<u8>,
}

/// The key of a document: tenant, kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentKey {
    /// Whose.
    pub tenant: TenantId,
    /// The kind.
    pub kind: StoredKind,
    /// Which one: a thread, a cache key, a model.
    pub name: String,
}

impl DocumentKey {
    /// The document of this kind and name.
    pub fn new(tenant: TenantId, kind: DocumentKind, name: impl Into<String>) -> Self {
        DocumentKey { tenant, kind: StoredKind::Known(kind), name: name.into() }
    }
}

/// A document: a small value that is replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRow {
    /// The number of times that it was written, from 1.
    pub version: u64,
    /// When it was written.
    pub at: Moment,
    /// When it may be removed.
    pub expires: Option<Moment>,
    /// Its content; sealed.
    pub body: Vec<u8>,
}

crate::named_enum! {
    /// The sensitivity of content.
    #[derive(Default, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Sensitivity {
        /// Anybody may see it.
        Public = "public",
        /// Everybody in the tenant may see it.
        #[default]
        Internal = "internal",
        /// Only on purpose.
        Confidential = "confidential",
        /// Only on purpose, and with a permission of its own.
        Restricted = "restricted",
    }
}

/// The metadata of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRow {
    /// Its id: the keyed hash of its content.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// The thread it came from first.
    pub thread: ThreadId,
    /// When it was stored.
    pub at: Moment,
    /// When it expires.
    pub expires: Option<Moment>,
    /// The key it is sealed with; `None`: it is not.
    pub key_id: Option<String>,
    /// Its sensitivity.
    pub sensitivity: Sensitivity,
    /// The size of its content.
    pub bytes: u64,
    /// The tokens of its content.
    pub tokens: u64,
}

/// Something that happened to a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Its number within the thread, from 1. Given by the store when it is added.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// The name of its kind.
    pub kind: String,
    /// The event; sealed.
    pub body: Vec<u8>,
}

/// A passage of a compacted message in the full-text index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// The message's place.
    pub place: u64,
    /// Which passage of it, from 0.
    pub passage: u32,
    /// Its first line, from 1.
    pub first_line: u32,
    /// Its last line.
    pub last_line: u32,
    /// Its terms, with repetition; blinded where there is a key. Letters and digits only.
    pub terms: Vec<String>,
}

/// A passage that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The thread whose index it is in.
    pub thread: ThreadId,
    /// The message's place.
    pub place: u64,
    /// Which passage of it.
    pub passage: u32,
    /// Its first line, from 1.
    pub first_line: u32,
    /// Its last line.
    pub last_line: u32,
    /// The score: higher is better; comparable within one answer only.
    pub score: f64,
}

/// The vector of an indexed passage, as an embedding model made it.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRow {
    /// The message's place.
    pub place: u64,
    /// Which passage of it.
    pub passage: u32,
    /// The name of the model and the size that it was made with; vectors of one space can be compared.
    pub space: String,
    /// The vector.
    pub vector: StoredVector,
}

/// A vector as a store holds it. A passage can be guessed from its vector, so that it is sealed where bodies are.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredVector {
    /// Its numbers, where there is no key: a back-end may compare them by itself.
    Plain(Vec<f32>),
    /// Sealed bytes.
    Sealed(Vec<u8>),
}

/// The passages that are nearest to a vector, as a back-end found them.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// The nearest first.
    pub neighbors: Vec<Neighbor>,
    /// The median similarity of all vectors that were compared.
    pub typical: f64,
}

/// A passage and its nearness to a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// The message's place.
    pub place: u64,
    /// Which passage of it.
    pub passage: u32,
    /// The cosine of the angle between the two vectors.
    pub similarity: f64,
}

/// The order in which a search returns passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOrder {
    /// Those that fit best first, with their scores.
    Best,
    /// Those of the newest messages first, unscored: a common word's newest mention is among the worst of its ten thousand fits.
    Newest,
}

/// A job's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub uuid::Uuid);

impl JobId {
    /// A new id; later ones sort after earlier ones.
    #[allow(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Self {
        JobId(uuid::Uuid::now_v7())
    }
}

/// The kinds of jobs.
///
/// Stores write and compare the name alone, so that jobs of a newer version lie in the same table: a worker claims the
/// kinds that it knows and leaves the others to the version that queued them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Compact a thread.
    Compact,
    /// Make vectors of the passages of a thread that have none.
    Embed,
    /// A kind that this version does not know, by its stored name.
    Unknown(Box<str>),
}

impl JobKind {
    /// Returns the kind that a store holds under this name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "compact" => JobKind::Compact,
            "embed" => JobKind::Embed,
            _ => JobKind::Unknown(name.into()),
        }
    }

    /// Returns its stored name; never given to another kind.
    pub fn name(&self) -> &str {
        match self {
            JobKind::Compact => "compact",
            JobKind::Embed => "embed",
            JobKind::Unknown(name) => name,
        }
    }
}

crate::named_enum! {
    /// The state of a job.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum JobState {
        /// It waits for its time or for a worker.
        Ready = "ready",
        /// A worker has it.
        Running = "running",
        /// It is done.
        Done = "done",
        /// It failed as often as it may.
        Dead = "dead",
    }
}

impl JobState {
    /// Tells whether something is still to come of it.
    pub fn is_pending(self) -> bool {
        matches!(self, JobState::Ready | JobState::Running)
    }
}

/// A worker's hold on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name of the worker.
    pub worker: String,
    /// Proves that it is still this hold and not a later one.
    pub token: uuid::Uuid,
    /// Until when.
    pub until: Moment,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// Its id.
    pub id: JobId,
    /// The thread it is about.
    pub key: ThreadKey,
    /// The kind.
    pub kind: JobKind,
    /// The state.
    pub state: JobState,
    /// The attempts so far.
    pub attempts: u32,
    /// The most attempts.
    pub attempts_max: u32,
    /// Not before this moment.
    pub due: Moment,
    /// When it was queued.
    pub queued: Moment,
    /// The lease of the worker that has it.
    pub lease: Option<Lease>,
    /// Numbers for the worker; free of content.
    pub payload: String,
    /// Why the last attempt failed.
    pub error: Option<String>,
}
