//! Summaries that do not drift: extracted by code, ranked, bounded, and rendered the same way every time.

mod answer;
mod cache_key;
mod dialogue;
mod display;
mod evidence;
mod fence;
mod memory;
mod request;
mod state;
mod structured;
#[cfg(test)]
mod testing;
mod transcript;
mod wording;

pub use answer::{AnswerError, Dropped, Finish, Note, NotedDecision, NotedItem, Prose, Reply, read as read_answer};
pub use cache_key::{CacheKey, ContentHash};
pub use dialogue::{Dialogue, Progress, Summarised};
pub use display::{DISPLAY_CHARS_MAX, display};
pub use evidence::Evidence;
pub use memory::{FoldError, MemoryBlock, MemoryRequest, PlainFold, Rhythm};
pub use request::{Brief, Earlier, Limits, Prompt, Step, SummaryRequest};
pub use state::{Caps, Contribution, Delta, Fallen, KeyDecision, MadeThing, Question, State, StateList, Task, TaskStatus};
pub use structured::{
    ArtifactNote, CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, Request, RequestState,
    SCHEMA_VERSION, StructuredSummary, ToolOutcome, TurnContext,
};
