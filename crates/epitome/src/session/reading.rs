//! What every format's reader hands over: entries, log, marks of compactions, and facts.
//!
//! It knows no format.

use std::sync::Arc;

use super::known::is_known_entry;
use super::lines::Line;
use super::notice::{Tally, of_type};
use super::{CompactionOccasion, Entry, EntryKind, Format, LogMessage};
use crate::message::{NewMessage, Part, Raw};

/// A session as its reader found it.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) entries: Vec<Entry>,
    pub(super) log: Vec<LogMessage>,
    pub(super) marks: Vec<Mark>,
    pub(super) facts: Facts,
    /// Entries that no known agent writes.
    pub(super) strange: Tally,
}

/// Where a compaction stands in a file.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// The entry that records it.
    pub(super) entry: usize,
    /// How many entries there are when it is complete.
    pub(super) settled: usize,
    pub(super) summary: String,
    pub(super) tokens_before: Option<u64>,
    pub(super) automatic: bool,
    /// epitome wrote it.
    pub(super) own: bool,
}

/// What a file tells beside the conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) id: Option<String>,
    pub(super) system: Option<Raw>,
    pub(super) tools: Option<Raw>,
    pub(super) model: Option<String>,
}

/// One message of a context.
#[derive(Clone, Debug)]
pub(super) enum Visible {
    /// A message of the log.
    Logged(usize),
    /// A message that a compaction made.
    Made { message: NewMessage, entry: usize },
}

impl Visible {
    pub(super) fn logged(&self) -> Option<usize> {
        match self {
            Visible::Logged(at) => Some(*at),
            Visible::Made { .. } => None,
        }
    }
}

impl Reading {
    pub(super) fn message(&mut self, line: &Line, message: NewMessage, id: Option<Box<str>>) -> &mut LogMessage {
        let at = self.log.len();
        self.log.push(LogMessage {
            message: Arc::new(message),
            line: line.number,
            entry: self.entries.len(),
            id,
            in_context: false,
            sidechain: false,
            copy_of: None,
        });
        self.entry(line, EntryKind::Message(at));
        &mut self.log[at]
    }

    /// Adds the entry of a compaction. `trigger` is its occasion as the file tells it.
    pub(super) fn compaction(
        &mut self,
        line: &Line,
        summary: String,
        tokens_before: Option<u64>,
        (trigger, own): (Option<String>, bool),
    ) {
        let entry = self.entries.len();
        self.entry(line, EntryKind::Compaction(self.marks.len()));
        let automatic = trigger.as_deref() == Some(CompactionOccasion::Auto.name());
        self.marks.push(Mark { entry, settled: entry + 1, summary, tokens_before, automatic, own });
    }

    /// Adds a line that is neither.
    pub(super) fn note(&mut self, line: &Line, kind: &str) {
        let kind = if line.broken { EntryKind::Broken } else { EntryKind::Note(kind.into()) };
        self.entry(line, kind);
    }

    /// Adds a line that is no entry but another JSON value, or no JSON at all.
    pub(super) fn value(&mut self, line: &Line) {
        self.note(line, "value");
        if !line.broken {
            self.strange.add(line.number, "is a value that is no entry".to_owned());
        }
    }

    /// Looks whether entries of a type are known.
    pub(super) fn judge(&mut self, format: Format, line: &Line, kind: &str) {
        if !is_known_entry(format, kind) {
            self.strange.add(line.number, format!("is an entry {}", of_type(kind, "known")));
        }
    }

    /// Reports an entry that lacks what its type is about.
    pub(super) fn lacks(&mut self, line: &Line, kind: &str, field: &str) {
        self.strange.add(line.number, format!("is a `{kind}` without a {field}"));
    }

    fn entry(&mut self, line: &Line, kind: EntryKind) {
        self.entries.push(Entry { line: line.number, raw: line.raw.clone(), kind });
    }
}

/// The words of a message: its text parts joined by newlines.
pub(super) fn text_of(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.to_string()),
        _ => None,
    };
    parts.iter().filter_map(text).collect::<Vec<String>>().join("\n")
}
