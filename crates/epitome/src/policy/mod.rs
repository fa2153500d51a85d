//! The policy: data that says when to act, what to protect, which rungs to climb, how to summarize and how to render.
//!
//! A policy is read from TOML, checked once, and never changed by the engine.

mod call;
mod error;
mod outcome;
mod preset;
mod schema;
mod tools;

pub use call::CallMeaning;
pub(crate) use call::{ArgumentKind, is_partial};
pub use error::PolicyError;
pub(crate) use outcome::{CallEnding, only_shows, still_runs};
pub use preset::{Preset, preset};
pub use schema::{
    CachePrices, ClearRules, CountRules, CutPlace, ExternalizeRules, Policy, ProtectRules, ReadBy, RehydrateRules,
    ReserveRules, Rung, SummarizeRules, SummaryForm, SummaryLayout, SummaryPlace, TailLimits, TargetRules,
    TriggerRules, TrimRules,
};
pub use tools::{ReplayCost, ToolClass, ToolRule, Tools};
