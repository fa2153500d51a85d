//! Summaries that do not drift: extracted by code, ranked, bounded, and rendered the same way every time.
//!
//! ```text
//! extract ─► merge with earlier rounds ─► [a model's answer] ─► embedded: render within a limit ─► receipt
//! ```
//!
//! [`Summary`] is the result. The embedded summarizer needs no model; a [`Dialogue`] asks one. Both are driven by the planner.

mod answer;
mod answered;
mod arguments;
mod cache_key;
mod clip;
mod constraint;
mod dialogue;
mod digest;
mod display;
mod done;
mod embedded;
mod evidence;
mod excerpt;
mod extract;
mod facts;
mod fence;
mod gist;
mod handoff;
mod headings;
mod homes;
mod keywords;
mod lexicon;
mod lines;
mod memory;
mod merge;
mod parse;
mod passages;
mod pending;
mod receipt;
mod request;
mod said_words;
mod select;
mod set_apart;
mod speech;
mod state;
mod structured;
#[cfg(test)]
mod testing;
mod text_index;
mod transcript;
mod transcript_call;
mod values;
mod wishes;
mod wording;
mod work_state;

pub use answer::{AnswerError, Finish, InventedItem, Reply};
pub use cache_key::CacheKey;
pub(crate) use clip::{GAP, clip_middle, one_line};
pub use dialogue::{Dialogue, ModelSummary, Progress};
pub use digest::{Digest, DigestArtifact, DigestCommand, DigestFile, DigestHidden, DigestMemoryRead};
pub use embedded::{Summary, SummaryAuthor};
pub(crate) use embedded::{carried_items, summarize};
pub(crate) use extract::{extract, is_taken_back};
pub use facts::{Fact, FactKind, FactStatus, facts};
pub(crate) use gist::gist;
pub(crate) use headings::{is_rendered, still_holds, titled_turns};
pub(crate) use keywords::{all_words, keywords};
pub use memory::{FoldError, FoldRules, MemoryBlock, MemoryRequest, PlainFold};
pub(crate) use merge::merge;
pub use pending::PendingSummary;
pub(crate) use pending::SummaryContext;
pub use receipt::{Fate, ItemKind, Receipt, ReceiptEntry};
pub(crate) use receipt::{PromptWords, ShownMessage};
pub use request::{RequestLimits, SummaryBrief, SummaryPrompt, SummaryRequest, TranscriptChunk};
pub(crate) use speech::is_pasted_mostly;
pub use state::{
    AgentContribution, KeyDecision, MadeArtifact, StateDelta, StateQuestion, StateTask, TaskStatus, WorkstreamState,
};
pub use structured::{
    ArtifactFact, CommandEnding, CommandFact, Decision, ErrorFact, FileFact, MemoryRead, OpenItem, PlanItem, Priority,
    Quote, RequestContext, RequestState, StructuredSummary, ToolOutcome, TurnContext, UserRequest,
};
pub use work_state::{StateKind, StateLine};
