//! What is odd about a session, told to people. A notice never stops anything.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::LogMessage;
use super::known::is_known_part;
use crate::message::{Opaque, Part, Role};

/// The most characters of a type's name that are told.
const NAME_CHARS_MAX: usize = 60;

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
    /// Entries of a type that is not known.
    UnknownEntry,
    /// Parts of a type that is not understood.
    UnknownPart,
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

/// Oddities that are alike, told once: where the first is, and how many follow.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    found: BTreeMap<String, (usize, usize)>,
}

impl Tally {
    /// Counts an oddity.
    pub(super) fn add(&mut self, line: usize, what: String) {
        self.found.entry(what).or_insert((line, 0)).1 += 1;
    }

    /// Reports each kind of oddity once.
    pub(super) fn tell(self, kind: NoticeKind, notices: &mut Vec<Notice>) {
        for (what, (line, count)) in self.found {
            let more = if count > 1 { format!(", with {} more like it", count - 1) } else { String::new() };
            notices.push(Notice::new(line, kind, format!("{what}; it is carried{more}")));
        }
    }
}

/// Tells of a thing by its type that it is not known, or not understood.
pub(super) fn of_type(kind: &str, known: &str) -> String {
    match kind.char_indices().nth(NAME_CHARS_MAX) {
        _ if kind.is_empty() => "without a type".to_owned(),
        Some((end, _)) => format!("of the type `{}…`, which is not {known}", &kind[..end]),
        None => format!("of the type `{kind}`, which is not {known}"),
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

/// Reports messages that are empty or of unknown roles, parts that are not understood, and calls and results that lack
/// each other or share an id.
pub(super) fn check(log: &[LogMessage], notices: &mut Vec<Notice>) {
    let mut calls = Calls::default();
    let mut strange = Tally::default();
    for logged in log.iter().filter(|logged| logged.copy_of.is_none()) {
        check_words(logged, notices);
        for part in &logged.message.parts {
            match part {
                Part::ToolCall(call) => calls.make(&call.id, logged.line),
                Part::ToolResult(result) => calls.answer(&result.call_id, logged.line, notices),
                Part::Opaque(opaque) => check_opaque(opaque, logged, &mut strange),
                _ => {}
            }
        }
    }
    calls.tell(notices);
    strange.tell(NoticeKind::UnknownPart, notices);
}

/// The calls of a log, by their ids.
#[derive(Default)]
struct Calls<'a> {
    open: HashMap<&'a str, usize>,
    made: HashMap<&'a str, Made>,
}

/// Where a call was first made, where it was made again, and how often in all.
struct Made {
    first: usize,
    again: usize,
    count: usize,
}

impl<'a> Calls<'a> {
    fn make(&mut self, id: &'a str, line: usize) {
        self.open.insert(id, line);
        let made = self.made.entry(id).or_insert(Made { first: line, again: line, count: 0 });
        made.count += 1;
        if made.count == 2 {
            made.again = line;
        }
    }

    fn answer(&mut self, id: &str, line: usize, notices: &mut Vec<Notice>) {
        self.open.remove(id);
        if !self.made.contains_key(id) {
            let what = format!("answers the call `{id}`, which was not made before it");
            notices.push(Notice::new(line, NoticeKind::OrphanResult, what));
        }
    }

    fn tell(self, notices: &mut Vec<Notice>) {
        let mut open: Vec<(usize, &str)> = self.open.into_iter().map(|(id, line)| (line, id)).collect();
        open.sort_unstable();
        for (line, id) in open {
            let what = format!("makes the call `{id}`, which has no result");
            notices.push(Notice::new(line, NoticeKind::UnansweredCall, what));
        }
        let mut again: Vec<(&str, Made)> = self.made.into_iter().filter(|(id, made)| made.is_odd(id)).collect();
        again.sort_unstable_by_key(|(id, made)| (made.again, *id));
        for (id, Made { first, again, count }) in again {
            let more = if count > 2 { format!("; {count} calls have it in all") } else { String::new() };
            let what = format!("repeats the id `{id}` of the call that line {first} makes{more}");
            notices.push(Notice::new(again, NoticeKind::DuplicateId, what));
        }
    }
}

impl Made {
    /// Whether an id that should tell calls apart does not; the name of a function, which stands for the id of calls
    /// that have none, need not.
    fn is_odd(&self, id: &str) -> bool {
        self.count > 1 && !id.is_empty() && !id.starts_with("function:")
    }
}

fn check_opaque(opaque: &Opaque, logged: &LogMessage, strange: &mut Tally) {
    let told_by_role = opaque.kind.is_empty() && logged.message.role == Role::Other;
    if !told_by_role && !is_known_part(&opaque.kind) {
        strange.add(logged.line, format!("has a part {}", of_type(&opaque.kind, "understood")));
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
