//! The structured summary: the items of a span, each linked to the message it came from.
//!
//! Items are what code extracted or a model answered. How they are laid out is the form's business, which of them fit is the
//! embedded summarizer's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::state::WorkstreamState;
use super::work_state::StateLine;
use crate::policy::{CallEnding, still_runs};
use crate::thread::{MessageId, Outcome, Span};

/// The version of the fields' meaning, part of every cache key. Bump it when that changes, or old summaries are reused.
pub(super) const SCHEMA_VERSION: &str = "v1.1";

/// The items of a span.
///
/// One value goes through four hands, in this order, and each round begins anew with the first:
///
/// 1. `extract` fills it from the messages of the span. Texts of earlier summaries in the span are parsed back into it.
/// 2. `merge` puts the earlier round's items in front. On the same thing, the newer item wins.
/// 3. A model's answer is added: its goal, facts, decisions and open items. These are the only fields that a model may
///    write; what code extracted is never changed by one, so a constraint of round 1 is the same bytes in round 50.
/// 4. The embedded summarizer renders as many items as fit, the receipt looks each of them up in the prompt, and the whole
///    value is stored with the compaction as the next round's earlier items.
///
/// Places are numbers in the log, not in the loaded thread: a thread that is loaded from its last compaction onward has
/// fewer messages, and an item with a loaded place would point to the wrong one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StructuredSummary {
    /// The messages it stands for.
    pub span: Option<Span>,
    /// Words that must be in every later prompt, as the caller gave them.
    pub pins: Vec<String>,
    /// The user's demands and corrections, verbatim.
    pub constraints: Vec<Quote>,
    /// Everything that the user said, oldest first.
    pub requests: Vec<UserRequest>,
    /// Stable things learned.
    pub facts: Vec<Quote>,
    /// Decisions with their reasons.
    pub decisions: Vec<Decision>,
    /// Unfinished work.
    pub open_items: Vec<OpenItem>,
    /// Files, with what was done to them.
    pub files: Vec<FileFact>,
    /// Commands, with how they ended.
    pub commands: Vec<CommandFact>,
    /// Artifacts that were streamed to the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactFact>,
    /// Looks into a memory, with what they found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_reads: Vec<MemoryRead>,
    /// What the agent told at the end of each turn, in one line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conclusions: Vec<Quote>,
    /// The state of the work, the newest line of each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StateLine>,
    /// Errors, with their fixes.
    pub errors: Vec<ErrorFact>,
    /// Tool answers with fields that the policy preserves.
    pub tool_outcomes: Vec<ToolOutcome>,
    /// Numbers with their names, and ids.
    pub values: Vec<Quote>,
    /// Addresses that were mentioned.
    pub urls: Vec<Quote>,
    /// Images, documents, recordings and files, each with its kind, name, type and size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Quote>,
    /// Hidden messages, with their replacements.
    pub hidden: Vec<Quote>,
    /// The user's goal, as a model put it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The request being worked on.
    pub current_task: Option<Quote>,
    /// The plan as last written down.
    pub current_plan: Vec<PlanItem>,
    /// The part of the current turn that was summarized, when the turn was split.
    pub turn_context: Option<TurnContext>,
    /// The workstream state, where the form keeps one. In a model's own part: the entries that it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workstream: Option<WorkstreamState>,
    /// The rounds it stands for, this one included.
    pub rounds: u32,
}

impl StructuredSummary {
    /// Tells whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        *self == StructuredSummary::default()
    }
}

/// Words with the message they are from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// The words.
    pub text: String,
    /// The place of the message in the log.
    pub place: usize,
}

/// Words of the user: a message that opened a turn, or what they said inside a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRequest {
    /// The words.
    pub text: String,
    /// The place of the message.
    pub place: usize,
    /// The turn it opened.
    pub turn: u32,
    /// Its state.
    pub state: RequestState,
    /// What it is about, where its words alone do not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<RequestContext>,
    /// The place of the user's earlier words that these take back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<usize>,
}

/// What a person's words are about, in the agent's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestContext {
    /// They answer this question, or choose this option.
    Answers(String),
    /// They ask something else, and this choice waits for an answer.
    LeavesOpen(String),
    /// They were said while this call was rejected.
    Rejects(String),
    /// A summary of another harness lists them: they are the user's as far as that summary is right.
    Retold,
}

/// The state of a request. Extraction sets it from the messages that follow; only the newest request can be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestState {
    /// The agent works on it.
    Open,
    /// The agent finished its turn on it.
    Answered,
    /// The user took it back, as far as their later words differ.
    Superseded,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The decision.
    pub decision: String,
    /// The reason, where one was given.
    #[serde(default)]
    pub rationale: String,
    /// The turn.
    #[serde(default)]
    pub turn: u32,
    /// The place of the message.
    #[serde(default)]
    pub place: usize,
}

/// Unfinished work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenItem {
    /// The work.
    pub description: String,
    /// Its context.
    #[serde(default)]
    pub context: String,
    /// Its urgency.
    #[serde(default)]
    pub priority: Priority,
}

/// The urgency of an open item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Pressing.
    High,
    /// Ordinary.
    #[default]
    Medium,
    /// Can wait.
    Low,
}

/// One entry of a plan that the agent wrote down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanItem {
    /// The step.
    pub text: String,
    /// Its state, in the agent's own word.
    pub state: String,
    /// The place of the message that wrote it down.
    #[serde(default)]
    pub place: usize,
}

impl PlanItem {
    /// Tells whether it is done, in any of the words that agents use.
    pub fn is_done(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "done" | "complete" | "cancelled")
    }

    /// Returns the number that the harness gave it, with its sign: `#3`.
    pub(super) fn number(&self) -> Option<&str> {
        let first = self.text.split_whitespace().next()?;
        let digits = first.strip_prefix('#')?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(first)
    }
}

/// A file, with what was done to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFact {
    /// Its path, as it was written.
    pub path: String,
    /// The newest message that read it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub read: Option<usize>,
    /// The newest message that wrote it whole.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub written: Option<usize>,
    /// The newest message that changed a part of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub patched: Option<usize>,
    /// What the agent said that the newest change was for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub purpose: Option<String>,
}

impl FileFact {
    /// Returns the place of the newest message that touched it.
    pub fn last_touched(&self) -> usize {
        self.read.max(self.written).max(self.patched).unwrap_or(0)
    }

    /// Returns what was done to it last, in one word.
    pub fn last_action(&self) -> &'static str {
        match (self.written, self.patched) {
            (Some(written), Some(patched)) if patched > written => "edited",
            (Some(_), _) => "written",
            (None, Some(_)) => "edited",
            (None, None) => "read",
        }
    }
}

/// A command, with how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFact {
    /// The command.
    pub command: String,
    /// Its exit status, where the output tells it.
    pub exit: Option<i32>,
    /// It failed.
    pub failed: bool,
    /// How it ended, as far as something tells; summaries of before it was kept do not say.
    #[serde(default)]
    pub ending: CommandEnding,
    /// The place of the message.
    pub place: usize,
}

/// How a command ended, as far as something tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandEnding {
    /// Nothing tells.
    #[default]
    Unknown,
    /// It goes on in the background.
    Running,
    /// It did what it was to do.
    Succeeded,
    /// It failed.
    Failed,
}

impl CommandEnding {
    /// Reads it from what was told of a call and what the call printed.
    pub(crate) fn of(ending: CallEnding, output: &str) -> CommandEnding {
        match ending.outcome {
            Some(Outcome::Failure) => CommandEnding::Failed,
            _ if still_runs(output) => CommandEnding::Running,
            Some(Outcome::Success) => CommandEnding::Succeeded,
            Some(Outcome::Partial) | None => CommandEnding::Unknown,
        }
    }
}

/// An artifact that was streamed to the user, as the call describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactFact {
    /// Its path or name.
    #[serde(default)]
    pub path: Option<String>,
    /// Its media type.
    #[serde(default)]
    pub mime: Option<String>,
    /// Who may see it.
    #[serde(default)]
    pub visibility: Option<String>,
    /// What it was made of.
    #[serde(default)]
    pub sources_used: Vec<String>,
    /// The place of the message.
    pub place: usize,
}

/// A look into a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRead {
    /// What was looked for.
    pub query: String,
    /// The paths that were found.
    #[serde(default)]
    pub paths: Vec<String>,
    /// The turns that were found.
    #[serde(default)]
    pub turn_ids: Vec<String>,
    /// The place of the message with the result.
    pub place: usize,
}

/// An error, with its fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorFact {
    /// The line that reports it.
    pub line: String,
    /// The command or tool that failed.
    pub about: String,
    /// The place of the message.
    pub place: usize,
    /// The place of a later message in which the same thing succeeded.
    pub fixed: Option<usize>,
    /// What was changed before that.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub resolution: String,
}

/// A tool's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// The tool.
    pub tool: String,
    /// Its outcome, where that is known.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// Fields that must survive.
    pub key_fields: BTreeMap<String, String>,
    /// The line that reports the failure.
    pub error: Option<String>,
    /// The message.
    pub message: Option<MessageId>,
}

/// The summarized beginning of a turn whose end stays in the prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnContext {
    /// The request that opened the turn, in the user's words.
    pub request: Quote,
    /// The work done in it so far.
    pub progress: Vec<Quote>,
}
