//! A session's text, cut into its lines.
//!
//! Blank lines count but are not kept apart; nothing here looks inside a line beyond asking whether it is JSON.

use serde::de::IgnoredAny;

use super::error::SessionError;
use super::notice::{Notice, NoticeKind};
use crate::message::Raw;

/// One line that is not blank.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    /// Its text, without the line end and the blanks around it.
    pub(super) raw: Raw,
    /// Whether it is not JSON.
    pub(super) broken: bool,
}

/// The lines of a text that are not blank, each with its number.
pub(super) fn text_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.trim_start_matches('\u{feff}');
    text.split('\n').enumerate().map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| !line.is_empty())
}

/// Cuts a text into lines; what is not JSON is carried and reported, or refused.
pub(super) fn split(source: &Raw, skip_bad_lines: bool, notices: &mut Vec<Notice>) -> Result<Vec<Line>, SessionError> {
    let text = source.as_str();
    let mut lines = Vec::new();
    let mut found = text_lines(text).peekable();
    while let Some((number, line)) = found.next() {
        let error = serde_json::from_str::<IgnoredAny>(line).err();
        if let Some(error) = &error {
            let next = found.peek().map(|(_, next)| *next);
            notices.push(judge(number, error, next, text.ends_with('\n'), skip_bad_lines)?);
        }
        lines.push(Line { number, raw: source.piece(line), broken: error.is_some() });
    }
    if lines.is_empty() { Err(SessionError::Empty) } else { Ok(lines) }
}

/// What to make of a line that is not JSON: a notice, or an error.
fn judge(
    line: usize,
    error: &serde_json::Error,
    next: Option<&str>,
    ended: bool,
    skip_bad_lines: bool,
) -> Result<Notice, SessionError> {
    let half = match next {
        None => !ended,
        Some(next) => error.is_eof() && is_compaction(next),
    };
    if half {
        Ok(Notice::new(line, NoticeKind::HalfLine, "is half-written; it is kept as it is and not read".into()))
    } else if skip_bad_lines {
        Ok(Notice::new(line, NoticeKind::BadLine, "is not JSON; it is kept as it is and not read".into()))
    } else {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        Err(SessionError::BadLine { line, column: error.column(), reason })
    }
}

/// Whether a line is the compaction that was appended after a half-written line.
fn is_compaction(line: &str) -> bool {
    ["\"compaction\"", "\"compact_boundary\"", "\"compacted\""].iter().any(|word| line.contains(word))
}
