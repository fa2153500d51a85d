//! Passages: a thread as stretches of text, each with its author and the heading it belongs under.
//!
//! ```text
//! m38 assistant  "The error is in total()."                 note      m38:           Agent
//! m39 assistant  call edit {path: src/cart.rs, new: …}      file      src/cart.rs    Call
//! m40 assistant  call bash {command: cargo test cart}       command   m40 $ cargo …  Call
//! m41 tool       "src/cart.rs:12: error: …"                 file      src/cart.rs    Tool    a search hit or error line
//!                "test result: FAILED"                      command   m40 $ cargo …  Tool    the rest of the result
//! m42 assistant  call grep {pattern: round_half}            call      m42 grep: …    Call
//! m44 tool       a subagent's report                        note      m44:           Agent
//! ```
//!
//! Everything about one file is one source, whichever calls it came through, so a summary shows a file once. The heading of any
//! other call ends with the gist of its result: `m40 $ cargo test cart → 1 failed`. A summary of an
//! earlier round is taken apart the same way, by the headings that `excerpt.rs` wrote.
//!
//! It slices; it does not copy, rank or drop anything but blank text and a harness's notices.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;

use serde_json::Value;

use super::answered::unchosen;
use super::arguments::{CallArguments, each_string, first_string, printed_file, search_hit};
use super::excerpt::{PATHS_BELOW, SPOKE, WITHOUT_LINES};
use super::gist::gist;
use super::headings::{Section, is_rendered};
use super::parse::sections;
use super::structured::{CommandEnding, UserRequest};
use super::work_state::only_reads;
use crate::message::outside_reminders;
use crate::policy::{ArgumentKind, ToolClass, Tools, is_partial};
use crate::thread::{HarnessText, Message, Part, Role, Speaker, Thread, ToolCall, ToolResult, pieces};

/// Longer words beside a call are more than a word on what the call is for.
const NARRATION_BYTES_MAX: usize = 600;

/// Stands between a call and the gist of its result.
pub(super) const RESULT: &str = " → ";

/// Stands behind the number of a message that reports what a subagent did.
const REPORT: &str = " (report)";

/// The author of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextOrigin {
    User,
    Agent,
    /// The agent, in the arguments of a call.
    Call,
    /// The agent, telling a subagent what to do: what comes back counts more.
    Briefing,
    Tool,
    /// A tool, repeating what the agent just wrote.
    Echo,
}

impl TextOrigin {
    pub(super) fn is_printed(self) -> bool {
        matches!(self, TextOrigin::Tool | TextOrigin::Echo)
    }
}

/// A stretch of text with one origin.
#[derive(Clone, Debug)]
pub(super) struct Passage<'a> {
    pub(super) origin: TextOrigin,
    pub(super) text: &'a str,
    pub(super) message: usize,
    /// The kind of the argument, for the origins `Call` and `Briefing`.
    pub(super) argument: Option<ArgumentKind>,
    /// Its heading says it already.
    pub(super) is_heading: bool,
    /// The agent tells what it found or did, rather than what it does next.
    pub(super) is_conclusion: bool,
    /// It is the text of a whole file: what was known of the file before is out of date.
    pub(super) is_whole_file: bool,
    /// The heading it is shown under: an index into `Passages::sources`.
    pub(super) source: usize,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    Request,
    Note,
    File,
    Command,
    Call,
}

/// A heading, with the messages that touched its subject first and last.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) kind: SourceKind,
    pub(super) label: String,
    pub(super) first: usize,
    pub(super) last: usize,
    /// The numbers of the messages that edited and read it last.
    pub(super) edited: Option<usize>,
    pub(super) read: Option<usize>,
    /// The call with what came of it, in one line.
    pub(super) action: String,
    /// It only looked something up: a search, a listing, a printed file.
    pub(super) is_lookup: bool,
    /// Its heading is in the summary already.
    pub(super) is_told: bool,
}

/// All passages of a thread with their headings.
#[derive(Default)]
pub(super) struct Passages<'a> {
    pub(super) passages: Vec<Passage<'a>>,
    pub(super) sources: Vec<Source>,
    /// The directory nearly all files are in, left out of their labels.
    pub(super) root: String,
}

impl<'a> Passages<'a> {
    /// Splits a thread into passages; `requests` are those that an earlier summary knew.
    pub(super) fn of(
        thread: &'a Thread,
        arguments: &'a CallArguments,
        tools: &'a Tools,
        requests: &'a [UserRequest],
    ) -> Passages<'a> {
        let out = Passages { root: common_root(arguments), ..Passages::default() };
        let (calls, files, by_name) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut splitter = PassageSplitter {
            out,
            tools,
            calls,
            files,
            by_name,
            working: HashMap::new(),
            unchosen: unchosen_options(thread),
        };
        if let Some(evicted) = thread.evicted() {
            splitter.split_unloaded(evicted.at, thread, requests);
        }
        for at in (0..thread.len()).filter(|at| thread.hidden(*at).is_none()) {
            splitter.split_message(thread, at, &arguments.0[at]);
        }
        splitter.label_files();
        splitter.out
    }

    /// Drops the oldest passages when there is more text than `bytes`. Speech and tool output get half each; what one of them
    /// does not need is the other's.
    pub(super) fn keep_newest(&mut self, bytes: usize) {
        let is_printed = |passage: &Passage<'_>| passage.origin.is_printed();
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
            passage.text = &passage.text[..passage.text.floor_char_boundary(*room)];
            *room -= passage.text.len();
        }
        self.passages.retain(|passage| !passage.text.trim().is_empty());
    }
}

/// A call whose result is still to come.
#[derive(Clone, Copy, Default)]
struct KnownCall<'a> {
    source: usize,
    class: Option<ToolClass>,
    /// The shell command that it runs.
    command: Option<&'a str>,
    /// It asks for a part of a file.
    is_partial: bool,
    /// The passages of its arguments, from and to.
    passages: (usize, usize),
    /// The message that had edited its file before.
    edited_before: Option<usize>,
}

struct PassageSplitter<'a> {
    out: Passages<'a>,
    tools: &'a Tools,
    /// The calls by their id.
    calls: HashMap<&'a str, KnownCall<'a>>,
    files: HashMap<&'a str, usize>,
    /// Files by the last part of their path.
    by_name: HashMap<&'a str, Vec<(&'a str, usize)>>,
    /// Directories that relative paths turned out to be meant from, and how often.
    working: HashMap<&'a str, usize>,
    /// What the agent offered and the user did not choose: byte ranges of a message's first text.
    unchosen: HashMap<usize, Vec<Range<usize>>>,
}

impl<'a> PassageSplitter<'a> {
    fn split_message(&mut self, thread: &'a Thread, at: usize, arguments: &'a [Value]) {
        let message = thread.message(at);
        let mut calls = arguments.iter();
        for part in message.parts() {
            match part {
                Part::Text(text) => self.split_text(at, message, text),
                Part::ToolCall(call) => {
                    if let Some(arguments) = calls.next().filter(|_| self.tools.is_summarized(&call.name)) {
                        self.split_call(at, message, call, arguments);
                    }
                }
                Part::ToolResult(result) if self.tools.is_summarized(&result.tool) => {
                    let ending = CommandEnding::of(self.tools.ending_at(thread, at, result), &result.text);
                    self.split_result(at, message, result, ending);
                }
                Part::ToolResult(_) | Part::Media(_) | Part::Reasoning(_) | Part::Opaque(_) => {}
            }
        }
    }

    fn split_text(&mut self, at: usize, message: &'a Message, text: &'a str) {
        if text.trim().is_empty() {
            return;
        }
        let label = format!("m{}:", message.number());
        match message.role() {
            // A message without raw JSON stands for unloaded messages: its summary is ours, in any form.
            _ if message.is_summary() => {
                self.split_summary(at, text, message.raw().is_empty() || is_rendered(text, ""));
            }
            Role::System => {}
            Role::User => self.split_speech(at, label, text),
            _ => {
                let source = self.new_source(SourceKind::Note, label, at);
                let is_conclusion = message.calls().next().is_none() || text.len() > NARRATION_BYTES_MAX;
                for piece in without(text, &self.unchosen.remove(&at).unwrap_or_default()) {
                    self.add(TextOrigin::Agent, piece, at, source);
                    if let Some(passage) = self.out.passages.last_mut() {
                        passage.is_conclusion = is_conclusion;
                    }
                }
            }
        }
    }

    /// Splits a text of a user's message into their own words and the harness's reports; its notices are left out.
    fn split_speech(&mut self, at: usize, label: String, text: &'a str) {
        for (speaker, piece) in pieces(text) {
            let (kind, origin, label) = match speaker {
                Speaker::User => (SourceKind::Request, TextOrigin::User, label.clone()),
                Speaker::Harness(HarnessText::Notice) => continue,
                Speaker::Harness(HarnessText::Output) => {
                    (SourceKind::Call, TextOrigin::Tool, label.trim_end_matches(':').to_owned())
                }
                Speaker::Harness(HarnessText::Summary) => (SourceKind::Note, TextOrigin::Agent, "earlier:".to_owned()),
            };
            let source = self.new_source(kind, label, at);
            self.add(origin, piece, at, source);
        }
    }

    /// Adds the user's words in messages that are not loaded.
    fn split_unloaded(&mut self, at: usize, thread: &Thread, requests: &'a [UserRequest]) {
        let loaded: HashSet<usize> =
            thread.messages().iter().filter(|m| m.opens_turn()).map(|m| m.log_place()).collect();
        for request in requests.iter().filter(|request| !loaded.contains(&request.place)) {
            let source = self.new_source(SourceKind::Request, format!("m{}:", request.place + 1), at);
            self.add(TextOrigin::User, &request.text, at, source);
        }
    }

    /// Splits an earlier summary into the blocks that it quoted; its items are merged by code and left out here.
    fn split_summary(&mut self, at: usize, text: &'a str, is_ours: bool) {
        for (section, body) in sections(text) {
            match section {
                Some(Section::Files) => self.split_blocks(at, body, PassageSplitter::file_heading),
                Some(Section::Notes) => self.split_blocks(at, body, PassageSplitter::note_heading),
                None if !is_ours && !body.trim().is_empty() => {
                    let source = self.new_source(SourceKind::Note, "earlier:".to_owned(), at);
                    self.add(TextOrigin::Agent, body, at, source);
                }
                _ => {}
            }
        }
    }

    /// Splits quoted lines into blocks, each under the heading that opens it. `heading` returns the source of a heading line,
    /// and where on that line the quote begins.
    fn split_blocks(
        &mut self,
        at: usize,
        body: &'a str,
        heading: fn(&mut PassageSplitter<'a>, usize, &'a str) -> Option<(usize, usize)>,
    ) {
        let (mut open, mut from, mut start): (Option<usize>, usize, usize) = (None, 0, 0);
        for line in body.split_inclusive('\n') {
            if let Some((source, quote)) = heading(self, at, line.trim_end()) {
                self.add_quoted(at, open, &body[from..start]);
                (open, from) = (Some(source), start + quote.min(line.len()));
            }
            start += line.len();
        }
        self.add_quoted(at, open, &body[from..]);
    }

    fn add_quoted(&mut self, at: usize, source: Option<usize>, text: &'a str) {
        if text.trim().is_empty() || text.trim_start().starts_with(PATHS_BELOW) {
            return;
        }
        let source = source.unwrap_or_else(|| self.new_source(SourceKind::Note, "earlier:".to_owned(), at));
        self.add(TextOrigin::Agent, text.trim_end(), at, source);
        if let Some(passage) = self.out.passages.last_mut() {
            passage.is_conclusion = self.out.sources[source].kind == SourceKind::Note;
        }
    }

    /// Parses `src/lib.rs (read m11):`, and the line of files without lines.
    fn file_heading(&mut self, at: usize, line: &'a str) -> Option<(usize, usize)> {
        if let Some(files) = line.strip_prefix(WITHOUT_LINES) {
            let headings = files.split("), ").map(|file| file.trim_end_matches(')'));
            return headings.filter_map(|label| self.known_file(at, label)).last().map(|source| (source, usize::MAX));
        }
        Some((self.known_file(at, line.strip_suffix("):")?)?, usize::MAX))
    }

    /// Returns the source of a file as an earlier summary told it: `src/lib.rs (read m11`.
    fn known_file(&mut self, at: usize, label: &'a str) -> Option<usize> {
        let (path, number, edited) = match label.rsplit_once(" (edited m") {
            Some((path, number)) => (path, number, true),
            None => label.rsplit_once(" (read m").map(|(path, number)| (path, number, false))?,
        };
        let number = number.parse().ok()?;
        let source = self.file_source(path, at);
        let known = &mut self.out.sources[source];
        if edited {
            known.edited = Some(number);
        } else {
            known.read = Some(number);
        }
        Some(source)
    }

    /// Parses `m12: words`, `m12 (report): words`, `m7 $ command`, `m9 tool` and `m9 grep: pattern`, the last three with the gist of the result.
    fn note_heading(&mut self, at: usize, line: &'a str) -> Option<(usize, usize)> {
        if line.starts_with(SPOKE) {
            // The user's words are read back from where they stand.
            return Some((self.new_source(SourceKind::Note, String::new(), at), usize::MAX));
        }
        let digits = line.strip_prefix('m')?.bytes().take_while(u8::is_ascii_digit).count();
        let rest = line.get(1 + digits..).filter(|_| digits > 0)?;
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        let is_call = |call: &str| {
            let (named, _) = call.split_once(RESULT).unwrap_or((call, ""));
            is_name(named.split_once(": ").map_or(named, |(name, _)| name))
        };
        match rest {
            _ if let Some(label) = ["", REPORT]
                .into_iter()
                .find(|label| rest.strip_prefix(label).is_some_and(|words| words.starts_with(": "))) =>
            {
                let end = 1 + digits + label.len();
                Some((self.new_source(SourceKind::Note, line[..=end].to_owned(), at), end + 2))
            }
            _ if rest.starts_with(" $ ") => {
                Some((self.new_source(SourceKind::Command, line.to_owned(), at), usize::MAX))
            }
            "" => Some((self.new_source(SourceKind::Call, line.to_owned(), at), usize::MAX)),
            _ if rest.strip_prefix(' ').is_some_and(is_call) => {
                Some((self.new_source(SourceKind::Call, line.to_owned(), at), usize::MAX))
            }
            _ => None,
        }
    }

    fn split_call(&mut self, at: usize, message: &'a Message, call: &'a ToolCall, arguments: &'a Value) {
        let class = self.tools.class(&call.name);
        if class == Some(ToolClass::Plan) {
            return self.split_plan(at, message, call, arguments);
        }
        let command = first_string(arguments, ArgumentKind::Command);
        let file = first_string(arguments, ArgumentKind::Path)
            .filter(|_| class != Some(ToolClass::Search))
            .or_else(|| command.and_then(printed_file));
        let query = first_string(arguments, ArgumentKind::Query);
        let number = message.number();
        let source = match (file, command, query) {
            (Some(path), _, _) => self.file_source(path, at),
            (None, Some(command), _) => {
                let line = without_cd(first_line(command), &self.out.root);
                self.new_source(SourceKind::Command, format!("m{number} $ {line}"), at)
            }
            (None, None, Some(query)) => {
                self.new_source(SourceKind::Call, format!("m{number} {}: {}", call.name, first_line(query)), at)
            }
            (None, None, None) => self.new_source(SourceKind::Call, format!("m{number} {}", call.name), at),
        };
        let looks_up = class == Some(ToolClass::Search) || command.is_some_and(only_reads);
        self.out.sources[source].is_lookup = looks_up && file.is_none();
        let class = if file.is_some() && class == Some(ToolClass::Exec) { Some(ToolClass::Read) } else { class };
        let edited_before = self.out.sources[source].edited;
        self.touch(source, class, at, number);
        let is_partial = match command {
            Some(command) => !command.contains("cat "),
            None => is_partial(arguments),
        };
        let first = self.out.passages.len();
        each_string(arguments, &mut |kind, text| {
            // How a call is made, and where a search looks, is nothing that anybody goes on with.
            let is_aside = kind == ArgumentKind::Setting || kind == ArgumentKind::Path && file.is_none();
            if !text.trim().is_empty() && !is_aside {
                let origin = if class == Some(ToolClass::Delegate) { TextOrigin::Briefing } else { TextOrigin::Call };
                self.add(origin, text, at, source);
                if let Some(passage) = self.out.passages.last_mut() {
                    passage.argument = Some(kind);
                    passage.is_whole_file = class == Some(ToolClass::Write) && kind == ArgumentKind::Written;
                    // What a command is for is told by the command.
                    let describes = command.is_some() && kind == ArgumentKind::Written && text.len() < LABEL_BYTES_MAX;
                    let names = kind == ArgumentKind::Path && file.is_some() || kind == ArgumentKind::Query;
                    passage.is_heading = names || describes;
                }
            }
        });
        let passages = (first, self.out.passages.len());
        self.calls.insert(&call.id, KnownCall { source, class, command, is_partial, passages, edited_before });
    }

    /// Splits a call that writes a plan down: the states of its tasks are told by the plan, and a long text is the agent's words.
    fn split_plan(&mut self, at: usize, message: &'a Message, call: &'a ToolCall, arguments: &'a Value) {
        let source = self.new_source(SourceKind::Note, format!("m{}:", message.number()), at);
        let class = Some(ToolClass::Plan);
        self.calls.insert(&call.id, KnownCall { source, class, ..KnownCall::default() });
        each_string(arguments, &mut |_, text| {
            if text.len() > NARRATION_BYTES_MAX {
                self.add_conclusion(text, at, source);
            }
        });
    }

    fn split_result(&mut self, at: usize, message: &'a Message, result: &'a ToolResult, ending: CommandEnding) {
        let known = self.calls.get(&*result.call_id).copied();
        let KnownCall { source, class, command, is_partial, passages, edited_before } = known.unwrap_or_else(|| {
            let source = self.new_source(SourceKind::Call, format!("m{}", message.number()), at);
            KnownCall { source, ..KnownCall::default() }
        });
        if known.is_some() && matches!(self.out.sources[source].kind, SourceKind::Command | SourceKind::Call) {
            let told = gist(command, &result.text, ending, &self.out.root);
            let source = &mut self.out.sources[source];
            source.action = format!("{}{RESULT}{}", source.label, told.full);
            if !told.brief.is_empty() {
                let _ = write!(source.label, "{RESULT}{}", told.brief);
            }
        }
        match class {
            Some(ToolClass::Search | ToolClass::Exec) => self.split_hits(&result.text, at, source),
            // What a subagent found out is worth what the agent itself says.
            Some(ToolClass::Delegate) => {
                let source = self.new_source(SourceKind::Note, format!("m{}{REPORT}:", message.number()), at);
                for text in outside_reminders(&result.text).filter(|text| !text.trim().is_empty()) {
                    self.add_conclusion(text, at, source);
                }
            }
            Some(ToolClass::Plan) => {}
            // An edit that failed or was rejected changed no line, and its file stands as it did.
            Some(ToolClass::Patch | ToolClass::Write) if ending == CommandEnding::Failed => {
                self.out.passages[passages.0..passages.1].iter_mut().for_each(|passage| passage.text = "");
                self.out.sources[source].edited = edited_before;
            }
            Some(ToolClass::Patch | ToolClass::Write) => {
                self.add_output(TextOrigin::Echo, &result.text, at, source);
            }
            _ => {
                let before = self.out.passages.len();
                self.add_output(TextOrigin::Tool, &result.text, at, source);
                let is_whole_file = class == Some(ToolClass::Read) && !is_partial && ending != CommandEnding::Failed;
                self.out.passages[before..].iter_mut().for_each(|passage| passage.is_whole_file = is_whole_file);
            }
        }
    }

    fn add_conclusion(&mut self, text: &'a str, at: usize, source: usize) {
        self.add(TextOrigin::Agent, text, at, source);
        if let Some(passage) = self.out.passages.last_mut() {
            passage.is_conclusion = true;
        }
    }

    /// Splits a result into search hits, each under its file, and the rest.
    fn split_hits(&mut self, text: &'a str, at: usize, source: usize) {
        let mut rest = 0;
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if let Some((path, hit)) = search_hit(line) {
                self.add_output(TextOrigin::Tool, &text[rest..start], at, source);
                let file = self.file_source(path, at);
                self.add_output(TextOrigin::Tool, hit, at, file);
                rest = start + line.len();
            }
            start += line.len();
        }
        self.add_output(TextOrigin::Tool, &text[rest..], at, source);
    }

    /// Adds a tool's output, without the reminders that a harness put into it.
    fn add_output(&mut self, origin: TextOrigin, text: &'a str, at: usize, source: usize) {
        for text in outside_reminders(text).filter(|text| !text.trim().is_empty()) {
            self.add(origin, text, at, source);
        }
    }

    fn add(&mut self, origin: TextOrigin, text: &'a str, at: usize, source: usize) {
        self.out.passages.push(Passage {
            origin,
            text,
            message: at,
            argument: None,
            is_heading: false,
            is_conclusion: false,
            is_whole_file: false,
            source,
        });
    }

    fn new_source(&mut self, kind: SourceKind, label: String, at: usize) -> usize {
        self.out.sources.push(Source {
            kind,
            label,
            first: at,
            last: at,
            edited: None,
            read: None,
            action: String::new(),
            is_lookup: false,
            is_told: false,
        });
        self.out.sources.len() - 1
    }

    fn file_source(&mut self, path: &'a str, at: usize) -> usize {
        let path = path.trim_start_matches("./");
        if let Some(&source) = self.files.get(path) {
            return source;
        }
        if let Some((other, source)) = self.same_file(path) {
            let (long, short) = if path.len() > other.len() { (path, other) } else { (other, path) };
            if long.starts_with('/') && !short.starts_with('/') {
                *self.working.entry(&long[..long.len() - short.len()]).or_default() += 1;
            }
            self.files.insert(path, source);
            return source;
        }
        let source = self.new_source(SourceKind::File, path.to_owned(), at);
        self.files.insert(path, source);
        self.by_name.entry(name_of(path)).or_default().push((path, source));
        source
    }

    /// Returns the source of a file that is known under a longer or a shorter path.
    fn same_file(&self, path: &str) -> Option<(&'a str, usize)> {
        let is_end = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
        let known = self.by_name.get(name_of(path))?;
        let same = known.iter().find(|(other, _)| path.contains('/') && (is_end(other, path) || is_end(path, other)));
        same.copied()
    }

    /// Labels files by their path below one directory: the one that relative paths are meant from where that is known.
    fn label_files(&mut self) {
        let working = self.working.iter().max_by_key(|(directory, times)| (**times, **directory));
        if let Some((directory, _)) = working {
            self.out.root = (*directory).to_owned();
        }
        let mut whole: HashMap<usize, &str> = HashMap::new();
        for (path, source) in &self.files {
            let known = whole.entry(*source).or_insert(path);
            if path.len() > known.len() {
                *known = path;
            }
        }
        let root = self.out.root.as_str();
        let mut is_used = false;
        for (source, path) in whole {
            if let Some(rest) = path.strip_prefix(root).filter(|_| !root.is_empty()) {
                self.out.sources[source].label = rest.to_owned();
                is_used = true;
            } else {
                self.out.sources[source].label = path.to_owned();
            }
        }
        if !is_used {
            self.out.root.clear();
        }
    }

    fn touch(&mut self, source: usize, class: Option<ToolClass>, at: usize, number: usize) {
        let source = &mut self.out.sources[source];
        source.last = at;
        match class {
            Some(ToolClass::Patch | ToolClass::Write) => source.edited = Some(number),
            Some(ToolClass::Read) => source.read = Some(number),
            _ => {}
        }
    }
}

/// Returns the options that the user did not choose, by the place of the message that offers them.
fn unchosen_options(thread: &Thread) -> HashMap<usize, Vec<Range<usize>>> {
    let own = (0..thread.len()).filter(|at| thread.message(*at).opens_turn() && !thread.message(*at).is_summary());
    own.filter_map(|at| unchosen(thread, at)).collect()
}

/// Returns the pieces of a text outside of some ranges of it.
fn without<'t>(text: &'t str, ranges: &[Range<usize>]) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for range in ranges {
        pieces.push(&text[from..range.start]);
        from = range.end;
    }
    pieces.push(&text[from..]);
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a command without going to the directory that all paths are below.
fn without_cd<'t>(command: &'t str, root: &str) -> &'t str {
    let moved = command.strip_prefix("cd ").and_then(|rest| rest.strip_prefix(root.trim_end_matches('/')));
    let rest = moved.filter(|_| !root.is_empty()).map(|rest| rest.trim_start_matches('/'));
    rest.and_then(|rest| rest.strip_prefix(" && ")).unwrap_or(command)
}

/// The longest label taken from a command.
const LABEL_BYTES_MAX: usize = 240;

fn first_line(text: &str) -> &str {
    let line = text.lines().map(str::trim).find(|line| line.len() >= 4).unwrap_or(text.trim());
    if line.len() <= LABEL_BYTES_MAX {
        return line;
    }
    let head = &line[..line.floor_char_boundary(LABEL_BYTES_MAX)];
    head.rsplit_once(char::is_whitespace).map_or(head, |(words, _)| words)
}

/// Returns the deepest directory, with its slash, that holds nine of ten absolute paths, but none directly.
fn common_root(arguments: &CallArguments) -> String {
    let calls = arguments.0.iter().flatten();
    let paths: Vec<&str> =
        calls.filter_map(|call| first_string(call, ArgumentKind::Path)).filter(|path| path.starts_with('/')).collect();
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
