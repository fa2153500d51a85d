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

pub use answer::{AnswerError, Dropped, Finish, Note, NotedDecision, NotedItem, Prose, Reply, read as read_answer};
pub use cache_key::{CacheKey, ContentHash};
pub use clip::{GAP, clip_bytes, middle_out};
pub use dialogue::{Dialogue, Progress, Summarized};
pub use digest::Digest;
pub use display::{DISPLAY_CHARS_MAX, display};
pub use embedded::{Author, Summary, summarize};
pub use evidence::Evidence;
pub use extract::extract;
pub use form::RENDER_VERSION;
pub(crate) use form::{STILL_HOLDS, is_rendered};
pub use keywords::keywords;
pub use memory::{FoldError, MemoryBlock, MemoryRequest, PlainFold, Rhythm};
pub(crate) use merge::merge;
pub(crate) use pending::all_words;
pub use pending::{Pending, PendingSummary};
pub use receipt::{Entry, Fate, Kind, Receipt};
pub use request::{Brief, Earlier, Limits, Prompt, Step, SummaryRequest};
pub(crate) use said::Said;
pub use state::{
    Caps, Contribution, Delta, Fallen, KeyDecision, MadeThing, Question, State, StateList, Task, TaskStatus,
};
pub use structured::{
    ArtifactNote, CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, Request,
    RequestState, SCHEMA_VERSION, StructuredSummary, ToolOutcome, TurnContext,
};
