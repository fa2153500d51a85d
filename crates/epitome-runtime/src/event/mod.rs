//! Events: what happened to a thread, told to whoever listens.
//!
//! An event holds numbers, names and places, never what was said. A listener that fails is not asked again for this
//! event, and nothing waits for it.

mod asking;
mod bus;
mod field;
mod json_lines;
#[cfg(feature = "otel")]
pub mod otel;
mod prometheus;
mod quality;
pub mod spans;

pub use asking::asks_again;
pub use bus::Bus;
pub use field::{EventField, JobStage, Strategy};
pub use json_lines::JsonLines;
pub use prometheus::CompactionMetrics;
pub use quality::Quality;

use std::collections::BTreeMap;

use epitome::budget::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{Moment, ThreadKey};

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A prompt is looked at.
    CompactionCheckStarted,
    /// There is a plan.
    CompactionProposalGenerated,
    /// The same result twice: one of them left.
    CompactionDeduplicated,
    /// A stale result left.
    CompactionSuperseded,
    /// Content moved out.
    CompactionExternalized,
    /// A span was summarized.
    CompactionSummarized,
    /// Results were cleared.
    CompactionCleared,
    /// A span was dropped.
    CompactionDropped,
    /// Long parts lost their middle.
    CompactionTrimmed,
    /// Passages went to the index that `recall` searches. Stored as `compaction_retrieved`, the name that the design gives it.
    #[serde(rename = "compaction_retrieved")]
    CompactionIndexed,
    /// Passages got vectors, so that `recall` finds them by meaning.
    PassagesEmbedded,
    /// The embedding endpoint gave no vectors: a search was by words alone, or passages wait for theirs.
    EmbeddingFailed,
    /// Content was brought back into one prompt.
    CompactionRehydrated,
    /// A plan was committed.
    CompactionCompleted,
    /// A plan was made and not committed.
    CompactionFailed,
    /// Somebody else committed first; the plan is made again.
    CompactionConflict,
    /// The model's summary could not be used; the embedded summarizer wrote it.
    SummaryFellBack,
    /// A model was asked for a summary, whatever came of it. The details hold who, and what it took.
    SummaryAsked,
    /// A summary was found in the cache.
    SummaryCached,
    /// Content was not brought back because of its sensitivity.
    RehydrationBlockedSensitivity,
    /// Somebody asked for an artifact and did not get it.
    ArtifactDenied,
    /// An artifact was read on purpose.
    ArtifactRead,
    /// A background compaction was queued.
    JobQueued,
    /// A background job was begun.
    JobStarted,
    /// A background job ended.
    JobFinished,
    /// A provider said that a prompt was too long.
    ModelOverflowed,
    /// The agent asked for something that was compacted away.
    ContextMissed,
    /// Somebody hid a message from later prompts.
    MessageHidden,
    /// Somebody showed a hidden message again.
    MessageShown,
}

impl EventKind {
    /// Its name, as it is stored and sent.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Something that happened to a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Moment,
    /// To which thread.
    pub key: ThreadKey,
    /// The kind.
    pub kind: EventKind,
    /// The prompt's tokens before.
    pub tokens_before: u64,
    /// The prompt's tokens after.
    pub tokens_after: u64,
    /// The limit of the prompt's tokens.
    pub budget_limit: u64,
    /// The rung that did it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Strategy::deserialize_known")]
    pub strategy: Option<Strategy>,
    /// The places of the messages it is about: first, and the one after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(u64, u64)>,
    /// The tokens that it freed.
    pub tokens_freed: u64,
    /// Numbers, names and ids by [`EventField`]; never what was said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, Value>,
}

impl Event {
    /// An event with nothing told of it yet.
    pub fn new(at: Moment, key: ThreadKey, kind: EventKind) -> Self {
        Event {
            at,
            key,
            kind,
            tokens_before: 0,
            tokens_after: 0,
            budget_limit: 0,
            strategy: None,
            span: None,
            tokens_freed: 0,
            details: BTreeMap::new(),
        }
    }

    /// An event that happens now to a prompt of this size, and changes no token of it.
    pub fn of_prompt(key: &ThreadKey, kind: EventKind, tokens: Tokens, limit: Tokens) -> Self {
        let tokens = tokens.get();
        let event = Event::new(Moment::now(), key.clone(), kind);
        Event { tokens_before: tokens, tokens_after: tokens, budget_limit: limit.get(), ..event }
    }

    /// The event with one more detail.
    #[must_use]
    pub fn with(mut self, field: EventField, value: impl Into<Value>) -> Self {
        self.details.insert(field.name().to_owned(), value.into());
        self
    }

    /// Returns a detail.
    pub fn detail(&self, field: EventField) -> Option<&Value> {
        self.details.get(field.name())
    }
}

/// A receiver of events.
pub trait Listener: Send + Sync {
    /// Hears of an event. Must not block: it is called on the way of a request.
    fn hear(&self, event: &Event);
}

/// The numbers of one compaction, as hooks get them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionStats {
    /// The prompt's tokens before.
    pub tokens_before: u64,
    /// The prompt's tokens after; what is planned, before it is done.
    pub tokens_after: u64,
    /// The number of messages that left the prompt, whole or in part.
    pub compacted_blocks: u64,
    /// The number of summaries in the prompt.
    pub summary_block_count: u64,
}

/// Called around every compaction. One that fails or hangs is left behind.
#[async_trait::async_trait]
pub trait Hook: Send + Sync {
    /// A compaction begins.
    async fn on_before_compaction(&self, _key: &ThreadKey, _stats: &CompactionStats) {}

    /// A compaction was committed.
    async fn on_after_compaction(&self, _key: &ThreadKey, _stats: &CompactionStats) {}
}
