//! The plan: what leaves the prompt and what stands in its place, as data. A [`crate::planner::Planner`] makes it.

mod compaction;
mod evict;
mod normalize;
mod record;
mod room;

pub use compaction::{Artifact, Compaction, Plan, RungStep, Shortfall, content_of, part_content};
pub use normalize::normalize;
pub use record::{Action, ArtifactId, ClearReason, PartPlace, Record};
pub use room::Room;
