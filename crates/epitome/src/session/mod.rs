//! Sessions: the files in which agents keep their conversations, read, compacted and branched in their own format.
//!
//! A session is text in and text out. What was in a file stays in it, byte for byte: a compaction is appended, and what
//! is not understood is carried. Nothing here opens a file, reads a clock or draws a random number: the time comes in
//! as a stamp, and new ids are hashes of what they name and where it stands.

mod branch;
mod claude;
mod codex;
mod error;
mod fields;
mod format;
mod ids;
mod known;
mod lines;
mod list;
mod notice;
mod numbers;
mod pi;
mod pi_message;
mod proof;
mod reading;
#[cfg(test)]
mod tests;
mod usage;
mod write;

use std::sync::Arc;

pub use error::SessionError;
pub use format::Format;
pub use notice::{Notice, NoticeKind};
pub use numbers::is_named_by_compaction;
pub use usage::Usage;
pub use write::{CompactedContext, CompactionOccasion, SessionChange};

use self::lines::Line;
use self::reading::{Facts, Mark, Reading, Visible};
use crate::message::{NewMessage, Raw};
use crate::planner::PromptShape;
use crate::wire::{Dialect, Layout};

/// A session file, read by the rules of its agent's own loader.
///
/// Four views of one text: **entries** are its lines, understood or not; the **log** is every message among them; the
/// **context** is what the model sees now, after the file's last compaction; **compactions** are what the file records:
///
/// ```text
/// entries       header  user  asst  user  asst  compaction  user  note
/// log                   0     1     2     3                 4
/// context                                 (summary)  3      4             the summary stands for 0, 1 and 2
/// ```
///
/// It is never changed, but for [`renumber`](Session::renumber), which a caller uses right after reading. A context place is not a
/// log place: `PromptMessage`s that are written back name context places.
#[derive(Clone, Debug)]
pub struct Session {
    format: Format,
    source: Raw,
    body: Body,
    entries: Vec<Entry>,
    log: Vec<LogMessage>,
    context: Vec<ContextMessage>,
    compactions: Vec<RecordedCompaction>,
    notices: Vec<Notice>,
    facts: Facts,
    /// The numbers of a list's messages, where they are not their places.
    numbers: Option<Vec<usize>>,
}

/// How to read a session.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; told by the text itself where this is `None`.
    pub format: Option<Format>,
    /// Whether a line in the middle that is not JSON is carried and reported instead of refused.
    pub skip_bad_lines: bool,
}

/// One line of a session, or one message of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line it is on, from 1.
    pub line: usize,
    /// Its text.
    pub raw: Raw,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A message of the conversation: its place in the log.
    Message(usize),
    /// A compaction: its place among the compactions.
    Compaction(usize),
    /// Anything else, by the name the format gives it: settings, snapshots, progress, usage.
    Note(Box<str>),
    /// A line that is not JSON.
    Broken,
}

/// A message of the file, whether the model still sees it or not.
#[derive(Clone, Debug)]
pub struct LogMessage {
    /// The message.
    pub message: Arc<NewMessage>,
    /// The line it is on, from 1.
    pub line: usize,
    /// Its place among the entries.
    pub entry: usize,
    /// The id the format gives it.
    pub id: Option<Box<str>>,
    /// Whether the model sees it now.
    pub in_context: bool,
    /// Whether it belongs to a sub-agent and not to the conversation itself.
    pub sidechain: bool,
    /// The place in the log of the message that a compaction copied here.
    pub copy_of: Option<usize>,
}

/// A message the model sees now.
#[derive(Clone, Debug)]
pub struct ContextMessage {
    /// The message.
    pub message: Arc<NewMessage>,
    /// The line it comes from, from 1: its own, or that of the compaction that made it.
    pub line: usize,
    /// The entry it comes from.
    pub entry: usize,
    /// Its place in the log; `None` when a compaction made it.
    pub logged: Option<usize>,
}

/// A compaction that the file records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCompaction {
    /// The line it is on, from 1.
    pub line: usize,
    /// Its place among the entries.
    pub entry: usize,
    /// The summary, as the format keeps it.
    pub summary: String,
    /// The size of the context before it, where the file tells.
    pub tokens_before: Option<u64>,
    /// Whether the size of the context was its occasion, rather than a person.
    pub automatic: bool,
    /// Whether epitome wrote it: its sizes are our counts, and say nothing of the agent's window.
    pub own: bool,
    /// Which messages of the log the model saw just before it.
    pub before: Vec<usize>,
    /// Which messages of the log the model saw just after it.
    pub after: Vec<usize>,
}

/// What a format's own reader knows beyond the log.
#[derive(Clone, Debug)]
enum Body {
    Pi(pi::Pi),
    Claude(claude::Claude),
    Codex(codex::Codex),
    List(list::List),
}

impl Body {
    /// What the model saw when only the first `upto` entries were there.
    fn visible(&self, upto: usize, log: &[LogMessage]) -> Vec<Visible> {
        match self {
            Body::Pi(pi) => pi.visible(upto),
            Body::Claude(claude) => claude.visible(upto),
            Body::Codex(codex) => codex.visible(upto, log),
            Body::List(_) => (0..log.len()).map(Visible::Logged).collect(),
        }
    }
}

impl Session {
    /// Reads a session; the text is kept once and shared by every piece of it.
    pub fn read(text: impl Into<String>, options: &ReadOptions) -> Result<Session, SessionError> {
        let source = Raw::whole(text);
        let mut notices = Vec::new();
        let format = options.format.or_else(|| Format::detect(source.as_str()));
        let (format, reading, body) = match format {
            None | Some(Format::List(_)) => {
                let dialect = options
                    .format
                    .and_then(|format| if let Format::List(dialect) = format { Some(dialect) } else { None });
                let (list, reading) = list::List::read(&source, dialect, options.skip_bad_lines, &mut notices)?;
                (Format::List(list.document.dialect()), reading, Body::List(list))
            }
            Some(format) => {
                let lines = lines::split(&source, options.skip_bad_lines, &mut notices)?;
                let (reading, body) = read_lines(format, &lines, &mut notices);
                (format, reading, body)
            }
        };
        Ok(Session::assemble(format, source, reading, body, notices))
    }

    fn assemble(format: Format, source: Raw, reading: Reading, body: Body, mut notices: Vec<Notice>) -> Session {
        let Reading { entries, mut log, marks, facts, strange } = reading;
        let mut context = Vec::new();
        for seen in body.visible(entries.len(), &log) {
            if let Visible::Logged(at) = &seen {
                log[*at].in_context = true;
            }
            context.push(ContextMessage::of(seen, &log, &entries));
        }
        let compactions = marks.into_iter().map(|mark| RecordedCompaction::of(mark, &entries, &body, &log)).collect();
        strange.tell(NoticeKind::UnknownEntry, &mut notices);
        notice::check(&log, &mut notices);
        notices.sort_by_key(|notice| notice.line);
        let numbers = matches!(format, Format::List(_)).then(|| numbers::after_compaction(&log)).flatten();
        Session { format, source, body, entries, log, context, compactions, notices, facts, numbers }
    }

    /// The format it is kept in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The text it was read from.
    pub fn source(&self) -> &Raw {
        &self.source
    }

    /// Its lines, or its messages if it is a list.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is odd about it.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// What the model sees now, by the rules of the format's own loader.
    pub fn context(&self) -> &[ContextMessage] {
        &self.context
    }

    /// What the model sees now, ready to be appended to a thread.
    pub fn messages(&self) -> Vec<NewMessage> {
        let numbered = |seen: &ContextMessage| {
            let mut message = NewMessage::clone(&seen.message);
            message.number = Some(seen.logged.map_or(0, |at| self.number(at)));
            message
        };
        self.context.iter().map(numbered).collect()
    }

    /// What people and summaries call a message of the context: its number in the log, or the line it is on when a
    /// compaction made it.
    pub fn reference(&self, seen: &ContextMessage) -> String {
        let number = seen.logged.map(|at| self.number(at)).filter(|number| *number > 0);
        number.map_or_else(|| format!("L{}", seen.line), |number| format!("m{number}"))
    }

    /// The number of a message of the log, from 1; a copy has its original's. 0 for what an earlier compaction wrote into
    /// a list.
    pub fn number(&self, at: usize) -> usize {
        match &self.numbers {
            Some(numbers) => numbers[at],
            None => self.log[at].copy_of.unwrap_or(at) + 1,
        }
    }

    /// Whether this is a list that was compacted before: it holds a summary or stand-ins, and the numbers in them are not
    /// the places of its messages.
    pub fn is_compacted_list(&self) -> bool {
        self.numbers.is_some()
    }

    /// Gives the messages of a compacted list the numbers they had before, by place; 0 for those that the compaction
    /// wrote. Whoever keeps the record of that compaction knows them.
    pub fn renumber(&mut self, numbers: Vec<usize>) {
        if numbers.len() == self.log.len() {
            self.numbers = Some(numbers);
        }
    }

    /// Every message of the file, in its order.
    pub fn log(&self) -> &[LogMessage] {
        &self.log
    }

    /// The compactions of the file, in its order.
    pub fn compactions(&self) -> &[RecordedCompaction] {
        &self.compactions
    }

    /// The id the agent knows it by.
    pub fn id(&self) -> Option<&str> {
        self.facts.id.as_deref()
    }

    /// The system prompt as JSON, where the file has it.
    pub fn system(&self) -> Option<&Raw> {
        self.facts.system.as_ref()
    }

    /// The tool schemas as JSON, where the file has them.
    pub fn tools(&self) -> Option<&Raw> {
        self.facts.tools.as_ref()
    }

    /// The model that was used last, where the file tells.
    pub fn model(&self) -> Option<&str> {
        self.facts.model.as_deref()
    }

    /// Returns the dialect that the messages are counted and judged in; pi's own shape is nearest to OpenAI Chat.
    pub fn counting_dialect(&self) -> Dialect {
        self.dialect().unwrap_or(Dialect::Chat)
    }

    /// Returns the time of the newest line that has one, as the format writes it.
    pub fn newest_stamp(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Stamped {
            timestamp: Option<String>,
        }
        let stamp = |entry: &Entry| serde_json::from_str::<Stamped>(entry.raw.as_str()).ok()?.timestamp;
        self.entries.iter().rev().filter(|_| !matches!(self.body, Body::List(_))).find_map(stamp)
    }

    /// The output that a request reserves.
    pub fn max_output(&self) -> Option<u64> {
        match &self.body {
            Body::List(list) => list.document.max_output(),
            _ => None,
        }
    }

    /// The dialect of its messages' JSON; `None` for pi, which has a shape of its own.
    pub fn dialect(&self) -> Option<Dialect> {
        match self.format {
            Format::PiEvents | Format::PiTree => None,
            Format::ClaudeCode => Some(Dialect::Anthropic),
            Format::Codex => Some(Dialect::Responses),
            Format::List(dialect) => Some(dialect),
        }
    }

    /// How the messages of a list are laid out.
    pub fn layout(&self) -> Option<Layout> {
        match &self.body {
            Body::List(list) => Some(list.document.layout()),
            _ => None,
        }
    }

    /// What the format can say of a compacted context.
    pub fn shape(&self) -> PromptShape {
        match self.format {
            Format::PiEvents | Format::PiTree => PromptShape::SummaryThenTail,
            Format::ClaudeCode | Format::Codex | Format::List(_) => PromptShape::Free,
        }
    }
}

fn read_lines(format: Format, lines: &[Line], notices: &mut Vec<Notice>) -> (Reading, Body) {
    match format {
        Format::ClaudeCode => {
            let (reading, claude) = claude::Claude::read(lines, notices);
            (reading, Body::Claude(claude))
        }
        Format::Codex => {
            let (reading, codex) = codex::Codex::read(lines);
            (reading, Body::Codex(codex))
        }
        Format::PiEvents | Format::PiTree | Format::List(_) => {
            let (reading, pi) = pi::Pi::read(format, lines, notices);
            (reading, Body::Pi(pi))
        }
    }
}

impl ContextMessage {
    fn of(seen: Visible, log: &[LogMessage], entries: &[Entry]) -> Self {
        match seen {
            Visible::Logged(at) => {
                let logged = &log[at];
                let message = Arc::clone(&logged.message);
                ContextMessage { message, line: logged.line, entry: logged.entry, logged: Some(at) }
            }
            Visible::Made { message, entry } => {
                ContextMessage { message: Arc::new(message), line: entries[entry].line, entry, logged: None }
            }
        }
    }
}

impl RecordedCompaction {
    fn of(mark: Mark, entries: &[Entry], body: &Body, log: &[LogMessage]) -> Self {
        let logged = |upto: usize| -> Vec<usize> {
            body.visible(upto, log).into_iter().filter_map(|seen| seen.logged()).collect()
        };
        RecordedCompaction {
            line: entries[mark.entry].line,
            entry: mark.entry,
            before: logged(mark.entry),
            after: logged(mark.settled),
            summary: mark.summary,
            tokens_before: mark.tokens_before,
            automatic: mark.automatic,
            own: mark.own,
        }
    }
}
