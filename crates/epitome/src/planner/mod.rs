//! The planner: the one type through which every door plans.
//!
//! A [`Planner`] is a thread with everything a plan of it depends on. It is made where it is needed, holds references, and
//! costs nothing to make:
//!
//! ```text
//! Planner::decide ──► Verdict::Fits | Verdict::Wait      the prompt stays as it is
//!                └──► Verdict::Act(Draft)                a plan; it may still lack its summary
//! Planner::dialogue(&draft)  ──► the request for a model's summary, if one is wanted
//! Planner::finish(draft, …)  ──► Compaction              the plan, its summaries, its receipt
//! Planner::render(compaction) ──► Prompt                 what the model gets
//! ```
//!
//! A [`Draft`] borrows nothing: it can wait for a model while the thread grows, and any planner of the same thread, policy
//! and options finishes it.

mod board;
mod decide;
mod draft;
mod options;
mod price;
mod rungs;
mod tail;

pub use decide::open_media_shortfall;
pub use draft::{Draft, Questions};
pub use options::{OwnProposal, OwnRung, PlanOptions, PromptShape};
pub use price::CacheState;
pub use tail::OPEN_MEDIA;

use crate::budget::{Meter, Tokens};
use crate::plan::{Compaction, Room};
use crate::policy::Policy;
use crate::render::{Prompt, Rehydrated, render};
use crate::thread::Thread;

/// A thread with everything that decides its plan.
///
/// It has no state: the same planner decides the same plan and renders the same bytes, however often it is asked. What
/// happened before is in `options.previous`, the compaction that the thread is under, which the caller keeps. A planner whose
/// `previous` belongs to another thread names places that mean something else there, and its prompt would be wrong without any
/// error; the runtime therefore stores a compaction with the id of the newest message that it covers.
///
/// Inside the folder a planner may be copied with a smaller room, to aim for less than the caller allows.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// The policy.
    pub policy: &'a Policy,
    /// Counts tokens as the thread's provider does.
    pub meter: Meter<'a>,
    /// The room for the messages.
    pub room: Room,
    /// The caller's options.
    pub options: &'a PlanOptions,
}

/// The planner's decision.
#[derive(Debug)]
pub enum Verdict {
    /// The prompt is below the trigger.
    Fits {
        /// Its tokens.
        tokens: Tokens,
    },
    /// The prompt is above the trigger, and acting would not help.
    Wait {
        /// Its tokens.
        tokens: Tokens,
        /// Why not, in words.
        reason: String,
    },
    /// A plan, which may still need its summary.
    Act(Box<Draft>),
}

impl<'a> Planner<'a> {
    /// Returns a planner of a thread.
    pub fn new(thread: &'a Thread, policy: &'a Policy, meter: Meter<'a>, room: Room, options: &'a PlanOptions) -> Self {
        Planner { thread, policy, meter, room, options }
    }

    /// Tells whether the summary is for another thread with a goal.
    fn hands_over(&self) -> bool {
        let has_goal = self.options.instructions.as_ref().is_some_and(|goal| !goal.trim().is_empty());
        self.options.hands_over && has_goal && self.policy.is_handoff()
    }

    /// Plans and carries the plan out with the embedded summarizer; `None` where there is nothing to do or to gain.
    pub fn compact(&self) -> Option<Compaction> {
        match self.decide() {
            Verdict::Act(draft) => Some(self.finish(*draft, None)),
            Verdict::Fits { .. } | Verdict::Wait { .. } => None,
        }
    }

    /// Returns the tokens of the prompt as the model would get it now.
    pub fn tokens(&self) -> Tokens {
        let previous = self.options.previous.as_deref();
        if self.thread.all_hidden().next().is_some() {
            // A hidden message counts as its replacement, whether it was hidden before the compaction or after it.
            return self.render(previous, &[]).tokens(self.thread, self.meter);
        }
        previous.map_or_else(|| self.thread.total(), |previous| previous.prompt_tokens(self.thread))
    }

    /// Renders the thread under a compaction, with content that was brought back for this one request.
    pub fn render(&self, compaction: Option<&Compaction>, rehydrated: &[Rehydrated]) -> Prompt {
        render(self.thread, compaction, self.policy, self.meter, rehydrated)
    }
}
