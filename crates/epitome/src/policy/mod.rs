//! The policy: data that says when to act, what to protect, which rungs to climb, how to summarize and how to render.
//!
//! A policy is read from TOML, checked once, and never changed by the engine.

mod error;
mod meaning;
mod outcome;
mod preset;
mod schema;
mod slot;
mod tools;

pub use error::PolicyError;
pub use meaning::Meaning;
pub use outcome::Ending;
pub use preset::{Preset, preset};
pub use schema::{
    Clear, Counting, Externalize, Form, Layout, Place, Policy, Price, Protect, ReadBy, Rehydrate, Reserve, Rung,
    Summarize, TailLimit, Target, Trigger, Trim,
};
pub use slot::Slot;
pub use tools::{ReplayCost, ToolClass, ToolRule, Tools};
