//! Messages that are not loaded, and messages that come back.
//!
//! A thread is loaded from its last compaction onward. What was summarized away is one entry that knows what it stands
//! for; nobody writes it into a prompt, and nothing of the log is lost by it: the log is wherever it is kept.

use serde::{Deserialize, Serialize};

use super::message::MessageId;

use crate::budget::Tokens;
use crate::message::{NewMessage, Part, Raw, Role};

/// What stands for messages that are not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictedRun {
    /// Its place in the thread.
    pub at: usize,
    /// How many messages it stands for.
    pub messages: usize,
    /// The newest of them.
    pub id: MessageId,
    /// The oldest of them; plans of before it was kept do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<MessageId>,
    /// The turn of the oldest of them.
    pub first_turn: u32,
    /// The turn of the newest of them.
    pub turn: u32,
    /// Their tokens.
    pub tokens: Tokens,
    /// The summary of them, for the next summary to quote from.
    pub text: String,
}

impl EvictedRun {
    pub(super) fn body(&self) -> NewMessage {
        NewMessage::new(Role::User, vec![Part::Text(self.text.as_str().into())], Raw::whole(""))
    }
}

/// A message that was appended before, with what was known of it.
#[derive(Clone, Debug)]
pub struct RestoredMessage {
    /// The message; its number tells its place in the log.
    pub body: NewMessage,
    /// Its id.
    pub id: MessageId,
    /// Its turn.
    pub turn: u32,
    /// The tokens of each of its parts.
    pub part_tokens: Vec<Tokens>,
}
