//! The messages of a list that is to be written: the one type that renderer, documents and session files share.

use std::borrow::Cow;

use super::Dialect;
use super::cache_mark::MarkLifetime;
use super::compose::{Voice, mark_cached, say};

/// One message of a prompt that is to be written. Places are those of the list that the prompt is made from: a thread's
/// messages, a document's items or a session's context.
///
/// ```text
/// the list          0 user   1 call   2 result   3 user
/// its prompt        Written(summary)  Edited{2}  Kept(3)      0 and 1 left; 2 has other words; 3 is the same bytes
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptMessage {
    /// The message at this place, byte for byte.
    Kept(usize),
    /// The message at this place, with this JSON instead of its own.
    Edited {
        /// The message's place.
        place: usize,
        /// Its JSON in the list's dialect.
        json: String,
    },
    /// A new message.
    Written {
        /// In whose name it speaks.
        voice: Voice,
        /// Its words.
        text: String,
        /// Whether it is the summary that a compaction leaves behind.
        summary: bool,
        /// The cache mark that it carries, where the dialect has them.
        mark: Option<MarkLifetime>,
    },
}

impl PromptMessage {
    /// Returns a new message that is no summary.
    pub fn note(voice: Voice, text: impl Into<String>) -> Self {
        PromptMessage::Written { voice, text: text.into(), summary: false, mark: None }
    }

    /// Returns the summary that a compaction leaves behind.
    pub fn summary(voice: Voice, text: impl Into<String>) -> Self {
        PromptMessage::Written { voice, text: text.into(), summary: true, mark: None }
    }

    /// Returns the place of the message that this one is or was; `None` for a new one.
    pub fn place(&self) -> Option<usize> {
        match self {
            PromptMessage::Kept(place) | PromptMessage::Edited { place, .. } => Some(*place),
            PromptMessage::Written { .. } => None,
        }
    }

    /// Tells whether the message at its place is written as it was.
    pub fn is_kept(&self) -> bool {
        matches!(self, PromptMessage::Kept(_))
    }

    /// Returns its JSON; `kept` looks up that of the list's own messages.
    pub fn json<'a>(&'a self, dialect: Dialect, kept: impl Fn(usize) -> &'a str) -> Cow<'a, str> {
        match self {
            PromptMessage::Kept(place) => Cow::Borrowed(kept(*place)),
            PromptMessage::Edited { json, .. } => Cow::Borrowed(json),
            PromptMessage::Written { voice, text, mark, .. } => {
                let json = say(dialect, *voice, text);
                Cow::Owned(match mark {
                    Some(lifetime) => mark_cached(&json, *lifetime),
                    None => json,
                })
            }
        }
    }

    /// Returns the message with a cache mark on its last block, as far as it can carry one; an own mark stays.
    pub fn marked<'a>(&'a self, lifetime: MarkLifetime, kept: impl Fn(usize) -> &'a str) -> Self {
        match self {
            PromptMessage::Kept(place) => {
                PromptMessage::Edited { place: *place, json: mark_cached(kept(*place), lifetime) }
            }
            PromptMessage::Edited { place, json } => {
                PromptMessage::Edited { place: *place, json: mark_cached(json, lifetime) }
            }
            PromptMessage::Written { voice, text, summary, mark } => PromptMessage::Written {
                voice: *voice,
                text: text.clone(),
                summary: *summary,
                mark: mark.or(Some(lifetime)),
            },
        }
    }
}
