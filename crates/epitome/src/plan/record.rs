//! Records: what becomes of a span or of one part of a message, as data.
//!
//! A record names messages by id and never holds their content.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Tokens;
use crate::policy::{ReadBy, Rung};
use crate::thread::{MessageId, Span};

/// Content that left the prompt, by the hash of its bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArtifactId(String);

// Ids become names of files: a record from elsewhere must not name any other.
impl TryFrom<String> for ArtifactId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        ArtifactId::parse(&text).ok_or("an artifact's id is sixteen or twenty-four hexadecimal digits")
    }
}

impl From<ArtifactId> for String {
    fn from(id: ArtifactId) -> Self {
        id.0
    }
}

impl ArtifactId {
    /// The id of some content.
    pub fn of(content: &[u8]) -> Self {
        ArtifactId::of_pieces([content])
    }

    /// The id of some content that is in pieces.
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(piece);
        }
        ArtifactId(hasher.finalize().to_hex()[..16].to_owned())
    }

    /// The id of some content under a key: whoever has the content but not the key cannot tell it.
    pub fn keyed(key: &[u8; 32], content: &[u8]) -> Self {
        ArtifactId(blake3::keyed_hash(key, content).to_hex()[..24].to_owned())
    }

    /// Reads an id: sixteen lower-case hexadecimal digits, or twenty-four under a key.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (is_hex && matches!(text.len(), 16 | 24)).then(|| ArtifactId(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What stands where something left the prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum Action {
    /// Nothing but an entry in the index of what was dropped.
    Drop {
        /// Words to find it by.
        keywords: Vec<String>,
    },
    /// A pointer with the beginning and the end of the content.
    Externalize {
        /// Where the content went.
        artifact: ArtifactId,
        /// Tokens kept of its beginning.
        head: Tokens,
        /// Tokens kept of its end.
        tail: Tokens,
        /// How the model gets it back.
        #[serde(default, skip_serializing_if = "ReadBy::is_default")]
        by: ReadBy,
    },
    /// A summary.
    Summarize {
        /// Which one, among the compaction's summaries.
        summary: usize,
        /// Messages of the span that stay nevertheless.
        kept: Vec<MessageId>,
    },
    /// A placeholder.
    Clear {
        /// Why it could go.
        why: ClearReason,
        /// Where the content went.
        artifact: ArtifactId,
        /// Fields of it that stay.
        preserved: BTreeMap<String, String>,
    },
}

impl Action {
    /// Which action wins when two want the same message.
    pub fn precedence(&self) -> u8 {
        match self {
            Action::Drop { .. } => 4,
            Action::Externalize { .. } => 3,
            Action::Summarize { .. } => 2,
            Action::Clear { .. } => 1,
        }
    }

    /// The action's name.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Drop { .. } => "drop",
            Action::Externalize { .. } => "externalize",
            Action::Summarize { .. } => "summarize",
            Action::Clear { .. } => "clear",
        }
    }
}

/// Why a result could be cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum ClearReason {
    /// A later message holds the same result.
    Duplicate {
        /// Which one.
        of: MessageId,
    },
    /// A later message read or wrote the same thing.
    Superseded {
        /// Which one.
        by: MessageId,
    },
    /// Its durability allows it.
    Durability,
    /// The policy's own words stand there.
    Policy {
        /// The words.
        placeholder: String,
    },
    /// The caller's own rung asked for it.
    Own {
        /// The words.
        placeholder: String,
    },
}

/// What becomes of a span, or of one part of one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which rung decided it.
    pub rung: Rung,
    /// Which messages.
    pub span: Span,
    /// Which part, when only one part of a single message is meant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<PartPlace>,
    /// What becomes of it.
    #[serde(flatten)]
    pub action: Action,
    /// Its tokens before.
    pub before: Tokens,
    /// Its tokens after.
    pub after: Tokens,
}

/// One part of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartPlace {
    /// The message's place in the thread.
    pub place: usize,
    /// The part's place in the message.
    pub part: usize,
}

impl Record {
    /// Whether a tool result that it shortens goes on with its media: only words can be shortened.
    pub(crate) fn keeps_media(&self) -> bool {
        matches!(self.action, Action::Externalize { tail, .. } if tail > Tokens::ZERO)
    }

    /// The messages that it is about: those of its span, less those that a summary leaves in the prompt.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let kept: &[MessageId] = match &self.action {
            Action::Summarize { kept, .. } => kept,
            _ => &[],
        };
        let messages = self.span.range().zip(self.span.messages());
        messages.filter(|(_, id)| !kept.contains(id)).map(|(place, _)| place)
    }

    /// Whether it is about a place, or a part at that place.
    pub fn covers(&self, place: usize, part: Option<usize>) -> bool {
        match self.part {
            Some(own) => own.place == place && part.is_none_or(|part| part == own.part),
            None => self.span.contains(place),
        }
    }
}
