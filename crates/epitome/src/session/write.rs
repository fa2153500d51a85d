//! Writing a compacted context back into its session.
//!
//! Lines are only ever appended: what the file held stays in it, byte for byte. A list is written anew, with the
//! messages that are kept byte for byte in it. A compaction that a format cannot express is refused, not bent.

use super::error::SessionError;
use super::ids::Ids;
use super::{Body, Session};
use crate::wire::PromptMessage;

crate::named_enum! {
    /// The occasion of a compaction, for formats that tell it.
    #[derive(Default)]
    pub enum CompactionOccasion {
        /// A person asked for it.
        #[default]
        Manual = "manual",
        /// The size of the context did.
        Auto = "auto",
    }
}

/// A compacted context, to be written into the session it was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactedContext {
    /// What the model shall see, in its order, in the session's dialect; places are those of the session's context.
    pub messages: Vec<PromptMessage>,
    /// The bare summary, for formats that keep it in a field of its own.
    pub summary: String,
    /// The size of the context before.
    pub tokens_before: u64,
    /// The size of the context after.
    pub tokens_after: u64,
    /// The occasion.
    pub occasion: CompactionOccasion,
}

/// The change to a session's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// Appends these lines.
    Append(String),
    /// Replaces the whole text.
    Replace(String),
}

impl SessionChange {
    /// The whole new text of the file.
    pub fn apply(&self, source: &str) -> String {
        match self {
            SessionChange::Append(lines) => format!("{source}{lines}"),
            SessionChange::Replace(text) => text.clone(),
        }
    }
}

impl Session {
    /// Writes a compacted context in the session's own format; reading the result gives that context. `stamp` is the
    /// present time in RFC 3339.
    pub fn write(&self, compacted: &CompactedContext, stamp: &str) -> Result<SessionChange, SessionError> {
        self.check_places(compacted)?;
        // The new lines stand after the last one.
        let tip = self.entries.last().map_or("", |entry| entry.raw.as_str());
        let mut ids = Ids::new(&[tip, stamp, &compacted.summary]);
        let lines = match &self.body {
            Body::List(list) => return Ok(SessionChange::Replace(list.encode(&compacted.messages))),
            Body::Pi(pi) => vec![pi.write(self, compacted, stamp, &mut ids)?],
            Body::Claude(claude) => claude.write(self, compacted, stamp, &mut ids),
            Body::Codex(codex) => codex.write(self, compacted, stamp, &mut ids),
        };
        let start = if self.source.as_str().ends_with('\n') { "" } else { "\n" };
        Ok(SessionChange::Append(format!("{start}{}\n", lines.join("\n"))))
    }

    /// Whether the kept messages may begin at this place of the context. Always so where the shape is free; pi's first
    /// format keeps whole turns and nothing from before an earlier compaction. The end of the context keeps nothing.
    pub(crate) fn tail_may_start(&self, at: usize) -> bool {
        match &self.body {
            Body::Pi(pi) => pi.keep_from(self, at).is_ok(),
            _ => at <= self.context.len(),
        }
    }

    pub(super) fn not_expressible(&self, why: impl Into<String>) -> SessionError {
        SessionError::NotExpressible(self.format, why.into())
    }

    fn check_places(&self, compacted: &CompactedContext) -> Result<(), SessionError> {
        let count = self.context.len();
        let mut places = compacted.messages.iter().filter_map(PromptMessage::place);
        match places.find(|at| *at >= count) {
            Some(index) => Err(SessionError::NoSuchMessage { index, count }),
            None => Ok(()),
        }
    }
}
