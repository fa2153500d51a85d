//! A plan, and the compaction that carries it out: the plan with its summaries and its receipt.

use serde::{Deserialize, Serialize};

use super::record::{Action, ArtifactId, Record};
use super::room::Room;
use crate::budget::Tokens;
use crate::policy::Rung;
use crate::summary::{Digest, Receipt, Summary};
use crate::thread::{MessageId, Part, Thread};

/// What leaves the prompt, as data tied to the thread it was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The policy's name and version.
    pub policy: String,
    /// Which compaction of the thread this is, from 1.
    pub round: u32,
    /// The newest message when it was made.
    pub tip: MessageId,
    /// How many messages the thread had.
    pub covers: usize,
    /// The thread's tokens when it was made.
    pub thread_tokens: Tokens,
    /// The room it was made for.
    pub room: Room,
    /// What becomes of what, in thread order, each part once.
    pub records: Vec<Record>,
    /// Sealed reasoning in kept messages before this place is left out.
    pub reasoning_from: usize,
    /// Where the verbatim tail began.
    pub tail_from: usize,
    /// How many messages that the policy protects are not in the tail; a warning names them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gave_way: usize,
    /// Whether the policy's words that send the model on stand behind the messages that it covers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// Pins and constraints that nothing else in the prompt would hold; they stand before the tail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<String>,
    /// The prompt's tokens before.
    pub before: Tokens,
    /// The prompt's tokens after.
    pub after: Tokens,
    /// What each rung did, in the order climbed.
    pub steps: Vec<RungStep>,
    /// By how much it does not fit, and why.
    pub shortfall: Option<Shortfall>,
    /// What normalization and the rungs have to say.
    pub warnings: Vec<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What one rung did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungStep {
    /// The rung; `None` for the caller's own.
    pub rung: Option<Rung>,
    /// How many parts or spans it touched.
    pub touched: usize,
    /// What it bought.
    pub freed: Tokens,
    /// The prompt's tokens after it.
    pub after: Tokens,
    /// Why it did nothing or not all.
    pub note: String,
}

/// By how much a plan does not fit, and what its irreducible floor is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// Tokens above the limit.
    pub over: Tokens,
    /// The smallest prompt there can be.
    pub floor: Tokens,
    /// What it is made of.
    pub parts: Vec<(String, Tokens)>,
}

/// A plan carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// What leaves the prompt.
    pub plan: Plan,
    /// What stands in its place.
    pub summaries: Vec<Summary>,
    /// What became of every item.
    pub receipt: Receipt,
}

/// Every so many rounds a person is told that there were that many.
const ROUNDS_MANY: u32 = 5;

/// Content that a plan took out of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact<'a> {
    /// Its id.
    pub id: ArtifactId,
    /// The place of the message it came from.
    pub place: usize,
    /// The place of the part in it.
    pub part: usize,
    /// The content.
    pub content: &'a str,
}

impl Compaction {
    /// The content that left the prompt part by part, each with its id.
    pub fn artifacts<'a>(&self, thread: &'a Thread) -> Vec<Artifact<'a>> {
        let mut found = Vec::new();
        for record in &self.plan.records {
            let (Action::Externalize { artifact, .. } | Action::Clear { artifact, .. }) = &record.action else {
                continue;
            };
            let Some(part) = record.part else { continue };
            if let Some(content) = part_content(thread, part.place, part.part) {
                found.push(Artifact { id: artifact.clone(), place: part.place, part: part.part, content });
            }
        }
        found
    }

    /// What tools did in the messages that were summarized. A summary stands for the earlier ones as well.
    pub fn digest(&self) -> Digest {
        self.summaries.first().map(|summary| summary.items.digest()).unwrap_or_default()
    }

    /// The number of compactions that the thread went through, this one included. In a message list it stands in the summary alone.
    pub fn rounds(&self) -> u32 {
        self.summaries.iter().map(|summary| summary.items.rounds).fold(self.plan.round, u32::max)
    }

    /// Warns, every so many rounds, that a thread was compacted often.
    pub fn round_warning(&self) -> Option<String> {
        let rounds = self.rounds();
        (rounds > 0 && rounds.is_multiple_of(ROUNDS_MANY)).then(|| {
            format!(
                "This thread was compacted {rounds} times. Details are lost each time, and answers get less accurate; begin a \
                 new thread when the task changes."
            )
        })
    }

    /// The tokens of the prompt for a thread that may have grown since: what was planned plus what is new.
    pub fn prompt_tokens(&self, thread: &Thread) -> Tokens {
        self.plan.after + (thread.total() - self.plan.thread_tokens)
    }
}

/// The content of a part that can be moved out: its words, or the part as it came where it is more than words.
pub fn part_content(thread: &Thread, place: usize, part: usize) -> Option<&str> {
    content_of(thread.message(place).parts().get(part)?)
}

/// The content of a part that can be moved out: its words, or the part as it came where it is more than words.
pub fn content_of(part: &Part) -> Option<&str> {
    match part {
        Part::ToolResult(result) => Some(result.json.as_deref().unwrap_or(&result.text)),
        Part::ToolCall(call) => Some(&call.arguments),
        Part::Media(media) => Some(media.json.as_str()),
        Part::Text(text) => Some(text),
        _ => None,
    }
}
