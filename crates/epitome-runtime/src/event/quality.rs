//! Quality: how well a thread does after its compactions, as plain numbers.
//!
//! The sign that counts is an agent that asks for something it was told before. It is looked for in what the agent says
//! to the user, by a small table of phrases in several languages. The table prefers to miss one: an ordinary question is
//! not a sign, nor is anything in code or in quotes. Nothing of what was said is kept.

use serde::{Deserialize, Serialize};

use super::asking;

/// The quality counters of a thread, changed by one event at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quality {
    /// Turns since the newest compaction; since the beginning before the first.
    pub turns_since_compaction: u64,
    /// The times that the agent asked for something it was told before a compaction.
    pub agent_asked_for_context: u64,
    /// The times that content came back into a prompt automatically.
    pub rehydration_requests: u64,
    /// The artifacts that the agent read.
    pub explicit_reads: u64,
    /// The searches of compacted content.
    pub recalls: u64,
    /// The compactions of the thread.
    pub compactions: u64,
    /// True if the task was completed, where somebody said so.
    pub task_completed: Option<bool>,
}

impl Quality {
    /// A turn began.
    #[must_use]
    pub fn turn_began(self) -> Self {
        Quality { turns_since_compaction: self.turns_since_compaction.saturating_add(1), ..self }
    }

    /// The thread was compacted.
    #[must_use]
    pub fn compacted(self) -> Self {
        Quality { turns_since_compaction: 0, compactions: self.compactions.saturating_add(1), ..self }
    }

    /// Content was brought back into the prompt.
    #[must_use]
    pub fn rehydrated(self) -> Self {
        Quality { rehydration_requests: self.rehydration_requests.saturating_add(1), ..self }
    }

    /// The agent read an artifact.
    #[must_use]
    pub fn read_artifact(self) -> Self {
        Quality { explicit_reads: self.explicit_reads.saturating_add(1), ..self }
    }

    /// The agent searched what was compacted.
    #[must_use]
    pub fn recalled(self) -> Self {
        Quality { recalls: self.recalls.saturating_add(1), ..self }
    }

    /// The agent said something to the user. Before the first compaction nothing can be missed because of one.
    #[must_use]
    pub fn assistant_said(self, text: &str) -> Self {
        let missed = self.compactions > 0 && asking::asks_again(text);
        let asked = self.agent_asked_for_context.saturating_add(u64::from(missed));
        Quality { agent_asked_for_context: asked, ..self }
    }

    /// Tells whether the agent asks for what was compacted so often that the policy should keep more: three times at least, and
    /// once for every two compactions.
    pub fn asks_often(&self) -> bool {
        self.agent_asked_for_context >= 3 && 2 * self.agent_asked_for_context >= self.compactions
    }

    /// Somebody said whether the task was completed.
    #[must_use]
    pub fn task_ended(self, completed: bool) -> Self {
        Quality { task_completed: Some(completed), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_is_counted_and_a_question_counts_only_after_a_compaction() {
        let question = "What was the budget again?";
        let before = Quality::default().turn_began().assistant_said(question).turn_began();
        assert_eq!(before, Quality { turns_since_compaction: 2, ..Quality::default() });
        let after = before.compacted().turn_began().assistant_said(question).assistant_said("Done.");
        let after = after.read_artifact().recalled().recalled().rehydrated().task_ended(false);
        let expected = Quality {
            turns_since_compaction: 1,
            agent_asked_for_context: 1,
            rehydration_requests: 1,
            explicit_reads: 1,
            recalls: 2,
            compactions: 1,
            task_completed: Some(false),
        };
        assert_eq!(after, expected);
    }

    #[test]
    fn it_is_read_back_as_it_was_written_and_old_ones_without_a_field_too() {
        let quality = Quality::default().compacted().turn_began().task_ended(true);
        let json = serde_json::to_string(&quality).expect("JSON");
        assert_eq!(serde_json::from_str::<Quality>(&json).expect("a quality"), quality);
        let old: Quality = serde_json::from_str("{\"compactions\":3}").expect("a quality");
        assert_eq!(old, Quality { compactions: 3, ..Quality::default() });
    }
}
