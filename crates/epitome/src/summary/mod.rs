//! Summaries that do not drift: extracted by code, ranked, bounded, and rendered the same way every time.
mod cache_key;
mod fence;
mod state;
mod structured;
#[cfg(test)]
mod testing;

pub use cache_key::{CacheKey, ContentHash};
pub use state::{Caps, Contribution, Delta, Fallen, KeyDecision, MadeThing, Question, State, StateList, Task, TaskStatus};
pub use structured::{
    ArtifactNote, CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, Request, RequestState,
    SCHEMA_VERSION, StructuredSummary, ToolOutcome, TurnContext,
};
