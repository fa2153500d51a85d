//! The structured summary: what a span held, item by item, each item linked to the message it came from.
//!
//! Items are what code extracted or a model answered; rendering them is the form's affair, choosing among them the
//! embedded summarizer's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::thread::{MessageId, Outcome, Span};

/// Bumped when the meaning of a summary's fields changes; part of every cache key.
pub const SCHEMA_VERSION: &str = "v1.1";

/// What a span held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StructuredSummary {
    /// The messages it stands for.
    pub span: Option<Span>,
    /// Words that must be in every later prompt, as the caller gave them.
    pub pins: Vec<String>,
    /// What the user demanded or corrected, verbatim.
    pub constraints: Vec<Quote>,
    /// What the user asked for, oldest first.
    pub requests: Vec<UserRequest>,
    /// Stable things learned.
    pub facts: Vec<Quote>,
    /// What was decided and why.
    pub decisions: Vec<Decision>,
    /// What is still to be done.
    pub open_items: Vec<OpenItem>,
    /// Files and what was done to them.
    pub files: Vec<FileFact>,
    /// Commands and how they ended.
    pub commands: Vec<CommandFact>,
    /// Errors and whether they were fixed.
    pub errors: Vec<ErrorFact>,
    /// Content that was moved out.
    pub artifacts: Vec<ArtifactNote>,
    /// What tools answered, where the policy wants fields of it kept.
    pub tool_outcomes: Vec<ToolOutcome>,
    /// Numbers with their names, and ids.
    pub values: Vec<Quote>,
    /// Addresses that were mentioned.
    pub urls: Vec<Quote>,
    /// Images, documents, recordings and files, each with its kind, name, type and size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Quote>,
    /// Messages that were hidden, with what stood in their place.
    pub hidden: Vec<Quote>,
    /// What the user is after now, as a model put it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The request being worked on.
    pub current_task: Option<Quote>,
    /// The plan as last written down.
    pub current_plan: Vec<PlanItem>,
    /// The part of the current turn that was summarized, when the turn was split.
    pub turn_context: Option<TurnContext>,
    /// How many rounds it stands for, this one included.
    pub rounds: u32,
}

impl StructuredSummary {
    /// Whether nothing is in it.
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

/// Something the user asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRequest {
    /// The words.
    pub text: String,
    /// The place of the message.
    pub place: usize,
    /// The turn it opened.
    pub turn: u32,
    /// What became of it.
    pub state: RequestState,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestState {
    /// It is being worked on.
    Open,
    /// The agent finished its turn on it.
    Answered,
    /// The user broke in with something else.
    Superseded,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What was decided.
    pub decision: String,
    /// Why, where it was said.
    #[serde(default)]
    pub rationale: String,
    /// The turn.
    #[serde(default)]
    pub turn: u32,
    /// The place of the message.
    #[serde(default)]
    pub place: usize,
}

/// Something still to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenItem {
    /// What.
    pub description: String,
    /// In which connection.
    #[serde(default)]
    pub context: String,
    /// How pressing.
    #[serde(default)]
    pub priority: Priority,
}

/// How pressing something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Pressing.
    High,
    /// Ordinary.
    #[default]
    Medium,
    /// Whenever.
    Low,
}

/// One entry of a plan that the agent wrote down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanItem {
    /// What.
    pub text: String,
    /// Its state, in the agent's own word.
    pub state: String,
    /// The place of the message that wrote it down.
    #[serde(default)]
    pub place: usize,
}

impl PlanItem {
    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "done" | "complete" | "cancelled")
    }
}

/// A file and what was done to it.
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
}

impl FileFact {
    /// The newest message that touched it.
    pub fn last(&self) -> usize {
        self.read.max(self.written).max(self.patched).unwrap_or(0)
    }

    /// What was done to it, in one word.
    pub fn deed(&self) -> &'static str {
        match (self.written, self.patched) {
            (Some(written), Some(patched)) if patched > written => "edited",
            (Some(_), _) => "written",
            (None, Some(_)) => "edited",
            (None, None) => "read",
        }
    }
}

/// A command and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFact {
    /// The command.
    pub command: String,
    /// Its exit status, where the output tells it.
    pub exit: Option<i32>,
    /// Whether it failed.
    pub failed: bool,
    /// The place of the message.
    pub place: usize,
}

/// An error and whether it was fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorFact {
    /// The line that says it.
    pub line: String,
    /// What it was about: a command or a tool.
    pub about: String,
    /// The place of the message.
    pub place: usize,
    /// The place of a later message in which the same thing went well.
    pub fixed: Option<usize>,
}

/// Content that was moved out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactNote {
    /// Its id, or a message reference such as `m41`.
    pub id: String,
    /// What it is.
    pub description: String,
    /// When to read it again.
    pub hint: String,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// The tool.
    pub tool: String,
    /// How it ended, where that is known.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// Fields that must survive.
    pub key_fields: BTreeMap<String, String>,
    /// What went wrong.
    pub error: Option<String>,
    /// The message.
    pub message: Option<MessageId>,
}

/// The part of the current turn that was summarized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnContext {
    /// What the turn is about: the user's words.
    pub request: Quote,
    /// What was done in it so far.
    pub progress: Vec<Quote>,
}
