//! The past as passages: who said it, through which tool, about which file, under which heading.
//!
//! It slices; it does not copy, rank or drop anything but blank text.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::carry::sections;
use super::command::floor_boundary;
use super::form::is_rendered;
use super::notes::FIRST_IN_FULL;
use super::section::Section;
use super::slots;
use super::structured::UserRequest;
use crate::message::outside_reminders;
use crate::policy::{ArgumentKind, ToolClass, Tools};
use crate::thread::{HarnessText, Message, Part, Role, Speaker, Thread, ToolCall, ToolResult, pieces};

/// Whose words a passage holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextOrigin {
    /// The user's.
    User,
    /// The agent's.
    Agent,
    /// The agent's, as arguments of a call.
    Call,
    /// A tool's.
    Tool,
    /// A tool's, about what the agent just wrote.
    Echo,
}

impl TextOrigin {
    pub(crate) fn is_printed(self) -> bool {
        matches!(self, TextOrigin::Tool | TextOrigin::Echo)
    }
}

/// A stretch of text with one origin.
#[derive(Clone, Debug)]
pub(crate) struct Passage<'a> {
    pub(crate) voice: TextOrigin,
    pub(crate) text: &'a str,
    pub(crate) message: usize,
    /// What of the call it is, for the voice `Call`.
    pub(crate) slot: Option<ArgumentKind>,
    /// Whether its heading says it already.
    pub(crate) is_heading: bool,
    /// The heading it is shown under: an index into `Passages::sources`.
    pub(crate) source: usize,
}

/// What passages are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    Request,
    Note,
    File,
    Command,
    Call,
}

/// A heading, and when its thing was first and last touched.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) label: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// The numbers of the messages that edited and read it last.
    pub(crate) edited: Option<usize>,
    pub(crate) read: Option<usize>,
}

/// All passages of a thread with their headings.
#[derive(Default)]
pub(crate) struct Passages<'a> {
    pub(crate) passages: Vec<Passage<'a>>,
    pub(crate) sources: Vec<Source>,
    /// The directory nearly all files are in, left out of their labels.
    pub(crate) root: String,
}

impl Passages<'_> {
    /// Forgets the oldest passages when there is more text than `bytes`: what was said and what tools printed have half
    /// of it each, and what one leaves is the other's.
    pub(crate) fn keep_newest(&mut self, bytes: usize) {
        let is_printed = |passage: &Passage<'_>| passage.voice.is_printed();
        let sum = |printed: bool| -> usize {
            let passages = self.passages.iter().filter(|passage| is_printed(passage) == printed);
            passages.map(|passage| passage.text.len()).sum()
        };
        let (said, printed) = (sum(false), sum(true));
        if said + printed <= bytes {
            return;
        }
        let mut said_room = said.min((bytes / 2).max(bytes.saturating_sub(printed)));
        let mut printed_room = bytes - said_room;
        for passage in self.passages.iter_mut().rev() {
            let room = if is_printed(passage) { &mut printed_room } else { &mut said_room };
            passage.text = &passage.text[..floor_boundary(passage.text, *room)];
            *room -= passage.text.len();
        }
        self.passages.retain(|passage| !passage.text.trim().is_empty());
    }
}

/// The arguments of a thread's calls, read once; passages borrow from them.
pub(crate) struct Arguments(Vec<Vec<Value>>);

impl Arguments {
    pub(crate) fn of(thread: &Thread) -> Arguments {
        let read = |call: &ToolCall| {
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.to_string()))
        };
        Arguments(thread.messages().iter().map(|message| message.calls().map(read).collect()).collect())
    }
}

/// Cuts a thread into passages; `requests` are those that an earlier summary knew.
pub(crate) fn cut<'a>(
    thread: &'a Thread,
    arguments: &'a Arguments,
    tools: &'a Tools,
    requests: &'a [UserRequest],
) -> Passages<'a> {
    let past = Passages { root: root(arguments), ..Passages::default() };
    let mut cutter = Cutter { past, tools, calls: HashMap::new(), files: HashMap::new(), named: HashMap::new() };
    if let Some(evicted) = thread.evicted() {
        cutter.unloaded(evicted.at, thread, requests);
    }
    for (at, message) in thread.messages().iter().enumerate() {
        cutter.message(at, message, &arguments.0[at]);
    }
    cutter.past
}

struct Cutter<'a> {
    past: Passages<'a>,
    tools: &'a Tools,
    /// Source and class of each call by its id.
    calls: HashMap<&'a str, (usize, Option<ToolClass>)>,
    files: HashMap<&'a str, usize>,
    /// Files by the last part of their path.
    named: HashMap<&'a str, Vec<(&'a str, usize)>>,
}

impl<'a> Cutter<'a> {
    fn message(&mut self, at: usize, message: &'a Message, arguments: &'a [Value]) {
        let mut calls = arguments.iter();
        for part in message.parts() {
            match part {
                Part::Text(text) => self.words(at, message, text),
                Part::ToolCall(call) => {
                    if let Some(arguments) = calls.next().filter(|_| self.tools.is_summarized(&call.name)) {
                        self.call(at, message, call, arguments);
                    }
                }
                Part::ToolResult(result) if self.tools.is_summarized(&result.tool) => self.result(at, message, result),
                Part::ToolResult(_) | Part::Media(_) | Part::Reasoning(_) | Part::Opaque(_) => {}
            }
        }
    }

    fn words(&mut self, at: usize, message: &'a Message, text: &'a str) {
        if text.trim().is_empty() {
            return;
        }
        let label = format!("m{}:", message.number());
        match message.role() {
            Role::System => {}
            // What stands for unloaded messages was written here, whatever it looks like.
            _ if message.is_summary() => {
                self.carried(at, text, message.raw().is_empty() || is_rendered(text, ""));
            }
            Role::User => self.speech(at, label, text),
            _ => {
                let source = self.source(SourceKind::Note, label, at);
                self.passage(TextOrigin::Agent, text, at, source);
            }
        }
    }

    /// A text of a user's message: their own words, and what the harness told of the work. Its notices are no part of it.
    fn speech(&mut self, at: usize, label: String, text: &'a str) {
        for (speaker, piece) in pieces(text) {
            let (kind, voice, label) = match speaker {
                Speaker::User => (SourceKind::Request, TextOrigin::User, label.clone()),
                Speaker::Harness(HarnessText::Notice) => continue,
                Speaker::Harness(HarnessText::Output) => {
                    (SourceKind::Call, TextOrigin::Tool, label.trim_end_matches(':').to_owned())
                }
                Speaker::Harness(HarnessText::Summary) => (SourceKind::Note, TextOrigin::Agent, "earlier:".to_owned()),
            };
            let source = self.source(kind, label, at);
            self.passage(voice, piece, at, source);
        }
    }

    /// The user's words in messages that are not loaded.
    fn unloaded(&mut self, at: usize, thread: &Thread, requests: &'a [UserRequest]) {
        let loaded: HashSet<usize> =
            thread.messages().iter().filter(|m| m.opens_turn()).map(|m| m.log_place()).collect();
        for request in requests.iter().filter(|request| !loaded.contains(&request.place)) {
            let source = self.source(SourceKind::Request, format!("m{}:", request.place + 1), at);
            self.passage(TextOrigin::User, &request.text, at, source);
        }
    }

    /// What an earlier summary quoted, under the headings it had there; its items are carried over by code.
    fn carried(&mut self, at: usize, text: &'a str, is_ours: bool) {
        for (section, body) in sections(text) {
            match section {
                Some(Section::Files) => self.blocks(at, body, Cutter::file_heading),
                Some(Section::Notes) => self.blocks(at, body, Cutter::note_heading),
                None if !is_ours && !body.trim().is_empty() => {
                    let source = self.source(SourceKind::Note, "earlier:".to_owned(), at);
                    self.passage(TextOrigin::Agent, body, at, source);
                }
                _ => {}
            }
        }
    }

    /// Quoted lines in blocks, each under the heading that opens it. A heading answers its source, and where on its line
    /// the quote begins.
    fn blocks(
        &mut self,
        at: usize,
        body: &'a str,
        heading: fn(&mut Cutter<'a>, usize, &'a str) -> Option<(usize, usize)>,
    ) {
        let (mut open, mut from, mut start): (Option<usize>, usize, usize) = (None, 0, 0);
        for line in body.split_inclusive('\n') {
            if let Some((source, quote)) = heading(self, at, line.trim_end()) {
                self.quoted(at, open, &body[from..start]);
                (open, from) = (Some(source), start + quote.min(line.len()));
            }
            start += line.len();
        }
        self.quoted(at, open, &body[from..]);
    }

    fn quoted(&mut self, at: usize, source: Option<usize>, text: &'a str) {
        if text.trim().is_empty() || text.trim_start().starts_with(FIRST_IN_FULL) {
            return;
        }
        let source = source.unwrap_or_else(|| self.source(SourceKind::Note, "earlier:".to_owned(), at));
        self.passage(TextOrigin::Agent, text.trim_end(), at, source);
    }

    /// `src/lib.rs (read m11):`
    fn file_heading(&mut self, at: usize, line: &'a str) -> Option<(usize, usize)> {
        let label = line.strip_suffix("):")?;
        let (path, number, edited) = match label.rsplit_once(" (edited m") {
            Some((path, number)) => (path, number, true),
            None => label.rsplit_once(" (read m").map(|(path, number)| (path, number, false))?,
        };
        let number = number.parse().ok()?;
        let source = self.file(path, at);
        let known = &mut self.past.sources[source];
        if edited {
            known.edited = Some(number);
        } else {
            known.read = Some(number);
        }
        Some((source, usize::MAX))
    }

    /// `m12: words`, `m7 $ command`, `m9 tool`.
    fn note_heading(&mut self, at: usize, line: &'a str) -> Option<(usize, usize)> {
        let digits = line.strip_prefix('m')?.bytes().take_while(u8::is_ascii_digit).count();
        let rest = line.get(1 + digits..).filter(|_| digits > 0)?;
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        match rest {
            _ if rest.starts_with(": ") => {
                let source = self.source(SourceKind::Note, format!("{}:", &line[..=digits]), at);
                Some((source, digits + 3))
            }
            _ if rest.starts_with(" $ ") => Some((self.source(SourceKind::Command, line.to_owned(), at), usize::MAX)),
            "" => Some((self.source(SourceKind::Call, line.to_owned(), at), usize::MAX)),
            _ if rest.strip_prefix(' ').is_some_and(is_name) => {
                Some((self.source(SourceKind::Call, line.to_owned(), at), usize::MAX))
            }
            _ => None,
        }
    }

    fn call(&mut self, at: usize, message: &'a Message, call: &'a ToolCall, arguments: &'a Value) {
        let class = self.tools.class(&call.name);
        let mut command = None;
        slots::strings(arguments, &mut |slot, text| {
            if slot == ArgumentKind::Command {
                command.get_or_insert(text);
            }
        });
        let file = slots::path(arguments)
            .filter(|_| class != Some(ToolClass::Search))
            .or_else(|| command.and_then(slots::printed_file));
        let source = match (file, command) {
            (Some(path), _) => self.file(path, at),
            (None, Some(command)) => {
                self.source(SourceKind::Command, format!("m{} $ {}", message.number(), first_line(command)), at)
            }
            (None, None) => self.source(SourceKind::Call, format!("m{} {}", message.number(), call.name), at),
        };
        let class = if file.is_some() && class == Some(ToolClass::Exec) { Some(ToolClass::Read) } else { class };
        self.touch(source, class, at, message.number());
        self.calls.insert(&call.id, (source, class));
        slots::strings(arguments, &mut |slot, text| {
            if !text.trim().is_empty() {
                self.passage(TextOrigin::Call, text, at, source);
                if let Some(passage) = self.past.passages.last_mut() {
                    passage.slot = Some(slot);
                    passage.is_heading = slot == ArgumentKind::Path && file.is_some();
                }
            }
        });
    }

    fn result(&mut self, at: usize, message: &'a Message, result: &'a ToolResult) {
        let known = self.calls.get(&*result.call_id).copied();
        let (source, class) =
            known.unwrap_or_else(|| (self.source(SourceKind::Call, format!("m{}", message.number()), at), None));
        match class {
            Some(ToolClass::Search | ToolClass::Exec) => self.found(&result.text, at, source),
            Some(ToolClass::Patch | ToolClass::Write | ToolClass::Plan) => {
                self.unless_blank(TextOrigin::Echo, &result.text, at, source);
            }
            _ => self.unless_blank(TextOrigin::Tool, &result.text, at, source),
        }
    }

    /// Cuts a result into what it found in files, each under its file, and the rest.
    fn found(&mut self, text: &'a str, at: usize, source: usize) {
        let mut rest = 0;
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if let Some((path, hit)) = slots::hit(line) {
                self.unless_blank(TextOrigin::Tool, &text[rest..start], at, source);
                let file = self.file(path, at);
                self.unless_blank(TextOrigin::Tool, hit, at, file);
                rest = start + line.len();
            }
            start += line.len();
        }
        self.unless_blank(TextOrigin::Tool, &text[rest..], at, source);
    }

    /// What a tool printed, without what the agent's host put into it.
    fn unless_blank(&mut self, voice: TextOrigin, text: &'a str, at: usize, source: usize) {
        for text in outside_reminders(text).filter(|text| !text.trim().is_empty()) {
            self.passage(voice, text, at, source);
        }
    }

    fn passage(&mut self, voice: TextOrigin, text: &'a str, at: usize, source: usize) {
        self.past.passages.push(Passage { voice, text, message: at, slot: None, is_heading: false, source });
    }

    fn source(&mut self, kind: SourceKind, label: String, at: usize) -> usize {
        self.past.sources.push(Source { kind, label, first: at, last: at, edited: None, read: None });
        self.past.sources.len() - 1
    }

    fn file(&mut self, path: &'a str, at: usize) -> usize {
        let path = path.trim_start_matches("./");
        if let Some(&source) = self.files.get(path) {
            return source;
        }
        if let Some(source) = self.same_file(path) {
            self.files.insert(path, source);
            return source;
        }
        let short = path.strip_prefix(self.past.root.as_str()).filter(|rest| rest.contains('/'));
        let source = self.source(SourceKind::File, short.unwrap_or(path).to_owned(), at);
        self.files.insert(path, source);
        self.named.entry(name_of(path)).or_default().push((path, source));
        source
    }

    /// A file known under a longer or a shorter path.
    fn same_file(&self, path: &str) -> Option<usize> {
        let is_end = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
        let known = self.named.get(name_of(path))?;
        let same = known.iter().find(|(other, _)| path.contains('/') && (is_end(other, path) || is_end(path, other)));
        same.map(|(_, source)| *source)
    }

    fn touch(&mut self, source: usize, class: Option<ToolClass>, at: usize, number: usize) {
        let source = &mut self.past.sources[source];
        source.last = at;
        match class {
            Some(ToolClass::Patch | ToolClass::Write) => source.edited = Some(number),
            Some(ToolClass::Read) => source.read = Some(number),
            _ => {}
        }
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The longest label taken from a command.
const LABEL_BYTES_MAX: usize = 400;

fn first_line(text: &str) -> &str {
    let line = text.lines().map(str::trim).find(|line| line.len() >= 4).unwrap_or(text.trim());
    if line.len() <= LABEL_BYTES_MAX {
        return line;
    }
    let head = &line[..floor_boundary(line, LABEL_BYTES_MAX)];
    head.rsplit_once(char::is_whitespace).map_or(head, |(words, _)| words)
}

/// The deepest directory, with its slash, that holds nine of ten absolute paths, but none directly.
fn root(arguments: &Arguments) -> String {
    let calls = arguments.0.iter().flatten();
    let paths: Vec<&str> = calls.filter_map(slots::path).filter(|path| path.starts_with('/')).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for path in &paths {
        for (slash, _) in path.match_indices('/').skip(1) {
            *counts.entry(&path[..=slash]).or_default() += 1;
        }
    }
    let parents: HashSet<&str> = paths.iter().filter_map(|path| path.rfind('/').map(|slash| &path[..=slash])).collect();
    let common = counts.into_iter().filter(|(directory, n)| n * 10 >= paths.len() * 9 && !parents.contains(directory));
    let deepest = common.map(|(directory, _)| directory).max_by_key(|directory| (directory.len(), *directory));
    deepest.unwrap_or_default().to_owned()
}
