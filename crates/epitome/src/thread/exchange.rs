//! Exchanges, spans and cuts: what may be parted and what may not.
//!
//! The partition is kept up on append, so that asking costs nothing. A [`Span`] can only be made here and only of
//! whole exchanges: no plan can part a result from its call.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::message::MessageId;

/// The atom nobody may split: a user message, or an assistant message with its calls and all their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) unanswered: u32,
}

impl Exchange {
    /// The places of its messages in the thread.
    pub fn range(&self) -> Range<usize> {
        self.first..self.end
    }
}

/// A run of whole exchanges, named by the ids of their messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub(super) first: usize,
    pub(super) messages: Vec<MessageId>,
    pub(super) turns: (u32, u32),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ends: Option<(MessageId, MessageId)>,
}

impl Span {
    /// The places of its messages in the thread.
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.messages.len()
    }

    /// The ids of its loaded messages, in order; what is not loaded has one. Never empty.
    pub fn messages(&self) -> &[MessageId] {
        &self.messages
    }

    /// The ids of its oldest and its newest message, whether they are loaded or not. `None` in plans of before they were kept.
    pub fn ends(&self) -> Option<(MessageId, MessageId)> {
        self.ends
    }

    /// The first and the last turn it touches.
    pub fn turns(&self) -> (u32, u32) {
        self.turns
    }

    /// The span with fewer messages; it stands for the same turns, from the same oldest message to the same newest.
    pub(crate) fn shortened(&self, first: usize, messages: impl Iterator<Item = MessageId>) -> Span {
        Span { first, messages: messages.collect(), turns: self.turns, ends: self.ends }
    }

    /// Whether a place in the thread is inside it.
    pub fn contains(&self, place: usize) -> bool {
        self.range().contains(&place)
    }
}
