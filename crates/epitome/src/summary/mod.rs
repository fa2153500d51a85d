//! Summaries that do not drift: extracted by code, ranked, bounded, and rendered the same way every time.

mod answer;
mod cache_key;
mod carry;
mod clip;
mod command;
mod constraint;
mod dialogue;
mod digest;
mod display;
mod embedded;
mod evidence;
mod extract;
mod fence;
mod form;
mod guess;
mod keywords;
mod lexicon;
mod lines;
mod memory;
mod merge;
mod notes;
mod passages;
mod pending;
mod receipt;
mod request;
mod said;
mod section;
mod select;
mod slots;
mod state;
mod structured;
#[cfg(test)]
mod testing;
mod transcript;
mod value;
mod wording;

pub use answer::{
    AnswerError, Finish, InventedItem, ModelProse, ProseDecision, ProseItem, ProseNote, Reply, read as read_answer,
};
pub use cache_key::{CacheKey, ContentHash};
pub use clip::{GAP, clip_bytes, middle_out};
pub use dialogue::{Dialogue, ModelSummary, Progress};
pub use digest::Digest;
pub use display::{DISPLAY_CHARS_MAX, display};
pub use embedded::{Summary, SummaryAuthor, summarize};
pub use evidence::Evidence;
pub use extract::extract;
pub use form::RENDER_VERSION;
pub(crate) use form::{STILL_HOLDS, is_rendered};
pub use keywords::keywords;
pub use memory::{FoldError, FoldRules, MemoryBlock, MemoryRequest, PlainFold};
pub(crate) use merge::merge;
pub(crate) use pending::all_words;
pub use pending::{PendingSummary, SummaryContext};
pub use receipt::{Fate, ItemKind, Receipt, ReceiptEntry};
pub use request::{Earlier, RequestLimits, SummaryBrief, SummaryPrompt, SummaryRequest, TranscriptChunk};
pub(crate) use said::TextIndex;
pub use state::{
    AgentContribution, EvictedEntry, KeyDecision, MadeArtifact, StateCaps, StateDelta, StateList, StateQuestion,
    StateTask, TaskStatus, WorkstreamState,
};
pub use structured::{
    ArtifactNote, CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, RequestState,
    SCHEMA_VERSION, StructuredSummary, ToolOutcome, TurnContext, UserRequest,
};
