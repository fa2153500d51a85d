//! The closed sets that events are described by: names of details, strategies, how a job ended.

use epitome::policy::Rung;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

macro_rules! event_fields {
    ($($field:ident = $name:literal: $about:literal,)*) => {
        /// The name of an event's detail. An event of a newer version may have others; they are stored and shown as they are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventField {
            $(#[doc = $about] $field,)*
        }

        impl EventField {
            /// Returns its name, as it is stored and sent.
            pub fn name(self) -> &'static str {
                match self {
                    $(EventField::$field => $name,)*
                }
            }
        }
    };
}

event_fields! {
    Artifact = "artifact": "An artifact's id.",
    Attempt = "attempt": "The number of the attempt at a job, from 1.",
    Author = "author": "The author of the summary: `embedded` or `model`.",
    Bytes = "bytes": "The size of the content that was read.",
    Covers = "covers": "The number of messages that the plan was made for.",
    Details = "details": "A reason in a sentence.",
    Embedded = "embedded": "True if the embedded summarizer takes over.",
    Error = "error": "The error of a job that failed.",
    Floor = "floor": "The tokens of the smallest prompt.",
    Limit = "limit": "The window that a provider named; 0 without one.",
    Model = "model": "A model's id.",
    Over = "over": "The tokens by which the prompt does not fit.",
    Passages = "passages": "The number of passages that were indexed.",
    Policy = "policy": "The policy's name and version.",
    Reason = "reason": "A reason in one word.",
    Records = "records": "The number of records of a plan.",
    Requester = "requester": "The requester of an artifact.",
    Round = "round": "The number of the compaction within its thread, from 1.",
    Sensitivity = "sensitivity": "The sensitivity of an artifact.",
    State = "state": "The end of a job: `done` or `failed`.",
    Tokens = "tokens": "The tokens that came back.",
    Touched = "touched": "The number of parts and spans that a rung changed.",
    Trigger = "trigger": "`manual` where a person or a program asked for the compaction, else `auto`.",
    TurnsSinceCompaction = "turns_since_compaction": "The number of turns since the newest compaction.",
    Usage = "usage": "The tokens that a provider reported.",
    Version = "version": "The version of the committed plan.",
    Why = "why": "The reason for which content came back.",
}

/// The means that freed tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// A rung of the policy.
    Rung(Rung),
    /// The caller's own rung.
    OwnRung,
}

impl Strategy {
    /// Returns its name, as it is stored and sent.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Rung(rung) => rung.name(),
            Strategy::OwnRung => "own",
        }
    }

    /// Reads a stored strategy; one that only a newer version knows is `None`, so that the event can still be read.
    pub(super) fn deserialize_known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Strategy>, D::Error> {
        let Some(name) = Option::<String>::deserialize(from)? else { return Ok(None) };
        if name == Strategy::OwnRung.name() {
            return Ok(Some(Strategy::OwnRung));
        }
        Ok(serde_json::from_value::<Rung>(Value::from(name)).ok().map(Strategy::Rung))
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

crate::named_enum! {
    /// The stage of a job, as events and metrics name it.
    pub enum JobStage {
        /// The job waits for a worker.
        Queued = "queued",
        /// A worker began an attempt.
        Started = "started",
        /// The job is done.
        Done = "done",
        /// The attempt failed; the job is tried again unless its attempts are used up.
        Failed = "failed",
    }
}
