//! Summaries that do not drift: extracted by code, ranked, bounded, and rendered the same way every time.

mod carry;
mod clip;
mod command;
mod constraint;
mod digest;
mod embedded;
mod extract;
mod form;
mod guess;
mod keywords;
mod lexicon;
mod lines;
mod merge;
mod notes;
mod passages;
mod pending;
mod receipt;
mod section;
mod select;
mod slots;
mod structured;

pub use clip::{GAP, clip_bytes, middle_out};
pub use digest::Digest;
pub use embedded::{Author, Summary, summarise};
pub use extract::extract;
pub use form::RENDER_VERSION;
pub use keywords::keywords;
pub(crate) use merge::merge;
pub use pending::Pending;
pub(crate) use pending::all_words;
pub use receipt::{Entry, Fate, Kind, Receipt};
pub use structured::{
    ArtifactNote, CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, Request, RequestState,
    SCHEMA_VERSION, StructuredSummary, ToolOutcome, TurnContext,
};
