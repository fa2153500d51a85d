//! Summaries that do not drift: extracted by code, ranked, bounded, and rendered the same way every time.

mod structured;

pub use structured::{
    ArtifactNote, CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, Request, RequestState,
    SCHEMA_VERSION, StructuredSummary, ToolOutcome, TurnContext,
};
