//! What is odd about a session, told to people. A notice never stops anything.

use std::collections::HashMap;
use std::fmt;

use super::LogMessage;
use crate::thread::{Part, Role};

/// Something odd, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The line, from 1.
    pub line: usize,
    /// What kind of oddity.
    pub kind: NoticeKind,
    /// The whole sentence.
    pub sentence: String,
}

/// The kinds of oddity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoticeKind {
    /// A line that breaks off.
    HalfLine,
    /// A line that is not JSON.
    BadLine,
    /// An id that was used before.
    DuplicateId,
    /// A parent that is not in the file.
    LostParent,
    /// A tool result without its call.
    OrphanResult,
    /// A tool call without its result.
    UnansweredCall,
    /// A message that says nothing.
    EmptyMessage,
    /// A role that is not known.
    UnknownRole,
}

impl Notice {
    pub(super) fn new(line: usize, kind: NoticeKind, what: String) -> Self {
        Notice { line, kind, sentence: format!("Line {line} {what}.") }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Reports ids that occur twice.
pub(super) fn duplicate_ids<'a>(ids: impl Iterator<Item = (usize, &'a str)>, notices: &mut Vec<Notice>) {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (line, id) in ids {
        if let Some(before) = first.insert(id, line) {
            let what = format!("repeats the id `{id}` of line {before}; the later entry counts");
            notices.push(Notice::new(line, NoticeKind::DuplicateId, what));
        }
    }
}

/// Reports messages that are empty or of unknown roles, and calls and results that lack each other.
pub(super) fn check(log: &[LogMessage], notices: &mut Vec<Notice>) {
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut made: HashMap<&str, usize> = HashMap::new();
    for logged in log.iter().filter(|logged| logged.copy_of.is_none()) {
        check_words(logged, notices);
        for part in &logged.message.parts {
            match part {
                Part::ToolCall(call) => {
                    made.insert(&call.id, logged.line);
                    open.insert(&call.id, logged.line);
                }
                Part::ToolResult(result) => {
                    open.remove(&*result.call_id);
                    if !made.contains_key(&*result.call_id) {
                        let what = format!("answers the call `{}`, which was not made before it", result.call_id);
                        notices.push(Notice::new(logged.line, NoticeKind::OrphanResult, what));
                    }
                }
                _ => {}
            }
        }
    }
    let mut open: Vec<(usize, &str)> = open.into_iter().map(|(id, line)| (line, id)).collect();
    open.sort_unstable();
    for (line, id) in open {
        let what = format!("makes the call `{id}`, which is never answered");
        notices.push(Notice::new(line, NoticeKind::UnansweredCall, what));
    }
}

fn check_words(logged: &LogMessage, notices: &mut Vec<Notice>) {
    let message = &logged.message;
    if message.role == Role::Other {
        notices.push(Notice::new(
            logged.line,
            NoticeKind::UnknownRole,
            "has a role that is not known; it is carried".into(),
        ));
    }
    let says_something = message.parts.iter().any(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    if !says_something {
        notices.push(Notice::new(logged.line, NoticeKind::EmptyMessage, "is a message without content".into()));
    }
}
