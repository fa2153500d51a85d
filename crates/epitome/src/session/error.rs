//! Why a session cannot be read, written or branched. Each error is a whole sentence.

use super::Format;
use crate::wire::DocumentError;

/// Why something cannot be done with a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is nothing in the text.
    #[error("The session is empty: there is no line in it.")]
    Empty,
    /// A line is not JSON.
    #[error("Line {line} is not JSON ({reason} at column {column}); skip bad lines to carry it unread.")]
    BadLine {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The parser's reason.
        reason: String,
    },
    /// The text is neither a session nor a list of messages.
    #[error("This is not a session that can be read: {0}.")]
    Document(#[from] DocumentError),
    /// The format has no way to say what was asked.
    #[error("{who} cannot express this compaction: {1}.", who = capital(.0.description()))]
    NotExpressible(Format, String),
    /// A place that does not exist.
    #[error("There is no message {index}: the session has {count}, counted from 0.")]
    NoSuchMessage {
        /// The place asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A branch can only leave at a user message.
    #[error("Cannot branch at line {0}: {1}.")]
    NotABranchPoint(usize, &'static str),
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
