//! A decoded message that has no place in a thread yet.
//!
//! It never knows how to write itself; that is the wire's affair.

use serde::{Deserialize, Serialize};

use super::harness::is_harness_only;
use super::part::Part;
use super::raw::Raw;
use super::said_in_result::said_in_result;

/// A message that has not been given its place yet.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// The JSON it came as.
    pub raw: Raw,
    /// The name of the speaker, where one is given.
    pub name: Option<Box<str>>,
    /// The provider's id of the response this message is a piece of: pieces of one response are one exchange.
    pub response: Option<Box<str>>,
    /// Whether this is what an earlier compaction left behind.
    pub summary: bool,
    /// The number that people and summaries call it by, from 1; `None`: its place in the thread.
    pub number: Option<usize>,
}

impl NewMessage {
    /// A message with nothing special about it.
    pub fn new(role: Role, parts: Vec<Part>, raw: Raw) -> Self {
        NewMessage { role, parts, raw, name: None, response: None, summary: false, number: None }
    }

    /// Whether a person's words are in it: a turn begins with it, or they rejected a call or answered a question in a result.
    pub fn holds_persons_words(&self) -> bool {
        let says = |part: &Part| matches!(part, Part::ToolResult(result) if !said_in_result(&result.text).is_empty());
        self.opens_turn() || self.parts.iter().any(says)
    }

    /// Whether a person says something in it: a user message that is not only tool results or a harness's text, nor a
    /// summary.
    pub fn opens_turn(&self) -> bool {
        let says = |part: &Part| match part {
            Part::ToolResult(_) => false,
            Part::Text(text) => !is_harness_only(text),
            _ => true,
        };
        self.role == Role::User && !self.summary && (self.parts.is_empty() || self.parts.iter().any(says))
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The operator: system and developer messages.
    System,
    /// The person, or whoever stands in for one.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// A role this library does not know; carried through untouched.
    Other,
}

impl Role {
    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Other => "other",
        }
    }
}
