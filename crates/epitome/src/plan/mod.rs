//! The plan: what leaves the prompt and what stands in its place, as data.

mod board;
mod budget;
mod compaction;
mod decide;
mod draft;
mod evict;
mod normalize;
mod planner;
mod price;
mod record;
mod rungs;
mod tail;

pub use budget::Room;
pub use compaction::{Artifact, Compaction, Plan, Shortfall, Step, content_of, part_content};
pub use decide::{is_valid_for, open_media_shortfall};
pub use draft::{Draft, Questions};
pub use normalize::normalize;
pub use planner::{OwnProposal, OwnRung, PlanOptions, Planner, Shape, Verdict};
pub use price::{Cache, Worth};
pub use record::{Action, ArtifactId, Cleared, Part, Record};
pub use tail::OPEN_MEDIA;
