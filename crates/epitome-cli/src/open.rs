//! Opening a file: its bytes become a session, its context a thread, with the counter that fits.
//!
//! Nothing is written here, and nothing about a file's content is guessed from its name.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use epitome::budget::{Cautious, CountSource, TokenCounter, Tokens};
use epitome::session::{Format, ReadOptions, Session, SessionError};
use epitome::thread::{NewMessage, Role};
use epitome::wire::DocumentError;
pub use epitome::{Conversation, CountFor};

use crate::cli::Input;
use crate::failure::{Exit, Failure, words};
use crate::numbers;
use crate::store::Store;
use crate::write::Seen;

/// How much of an id a message is named by.
const ID_CHARS: usize = 8;

/// A file as it was found.
#[derive(Debug)]
pub struct File {
    /// The path as it was typed.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// What it was like when it was read; `None` for standard input.
    pub seen: Option<Seen>,
}

/// A conversation, and the file it was read from.
pub struct Opened {
    /// The path as it was typed.
    pub path: PathBuf,
    /// What the file was like when it was read.
    pub seen: Option<Seen>,
    /// What the file holds.
    pub conversation: Conversation,
    /// Whether messages can be read back by their numbers.
    is_numbered: bool,
}

impl std::ops::Deref for Opened {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.conversation
    }
}

/// Reads a file whole.
pub fn read(path: &Path) -> Result<File, Failure> {
    let (bytes, seen) = match path == Path::new("-") {
        true => (read_stdin(path)?, None),
        false => {
            let seen = Seen::of(path).map_err(|error| missing(path, &error))?;
            (std::fs::read(path).map_err(|error| missing(path, &error))?, Some(seen))
        }
    };
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    Ok(File { path: path.to_owned(), text, seen })
}

fn read_stdin(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| missing(path, &error))?;
    Ok(bytes)
}

fn missing(path: &Path, error: &std::io::Error) -> Failure {
    Failure::unreadable(path, words(error)).hint("Name a session file, a request or a list of messages.")
}

fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> Failure {
    let offset = error.utf8_error().valid_up_to();
    let line = error.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
    Failure::unreadable(path, format_args!("it is not UTF-8 from byte {offset} on, in line {line}"))
        .hint("Session files are UTF-8 text; this may be another kind of file, or a damaged one.")
}

/// Reads a file as a session.
pub fn session(file: &File, input: &Input) -> Result<Session, Failure> {
    let options = ReadOptions { format: input.format, skip_bad_lines: input.skip_bad_lines };
    Session::read(&file.text, &options).map_err(|error| unreadable(&file.path, &error))
}

/// Opens a file: its session, and the thread of the first `until` messages, counted.
pub fn open(input: &Input, count_for: CountFor, until: Option<usize>) -> Result<Opened, Failure> {
    let file = read(&input.file)?;
    let mut session = session(&file, input)?;
    if session.context().is_empty() || !holds_message(&session) {
        return Err(no_message(&file, &session, input));
    }
    // The session has the text; a second copy of a large file is not worth its memory.
    let File { path, seen, .. } = file;
    if let Some(until) = until.filter(|until| *until < session.context().len()) {
        session = until_message(&path, session, input, until)?;
    }
    let is_numbered = numbers::restore(&mut session, &Store::of(input.artifacts.as_deref(), &path), &path);
    // One file has one total, whichever verb is asked: all count on the safe side.
    let count_for = CountFor { cautious: true, ..count_for };
    let conversation = Conversation::until(session, count_for, until.unwrap_or(usize::MAX));
    Ok(Opened { path, seen, conversation, is_numbered })
}

/// The tokens of what the model of a session sees now, as every verb counts them.
pub fn total(session: &Session) -> Tokens {
    let count_for = CountFor { cautious: true, ..CountFor::default() };
    Conversation::new(session.clone(), count_for).thread.total()
}

/// Whether anything in a file is a message: an object of anybody's is read as one without role and content.
pub fn holds_message(session: &Session) -> bool {
    let said = |message: &NewMessage| message.role != Role::Other || !message.parts.is_empty();
    session.log().iter().any(|logged| said(&logged.message))
}

/// Why a file that can be read is of no use: nothing in it is a message, or not in the format that was named.
fn no_message(file: &File, session: &Session, input: &Input) -> Failure {
    let (name, format) = (file.path.display(), session.format().description());
    let options = ReadOptions { format: None, skip_bad_lines: true };
    let detected = input.format.and_then(|_| Session::read(&file.text, &options).ok());
    match detected.filter(|detected| !detected.context().is_empty()) {
        Some(detected) => Failure::new(Exit::Unreadable, format!("{name} holds no message when read as {format}."))
            .hint(format!("It looks like {}; leave `--format` out.", detected.format().description())),
        None => Failure::new(Exit::Unreadable, format!("{name} holds no message."))
            .hint("Name a session file, a request or a list of messages."),
    }
}

/// A session that ends with the message at a place of its context. A list keeps its text: its messages are picked.
fn until_message(path: &Path, session: Session, input: &Input, until: usize) -> Result<Session, Failure> {
    if until == 0 {
        return Err(Failure::new(Exit::Usage, "`--until 0` leaves no message.").hint("Messages are counted from 1."));
    }
    if matches!(session.format(), Format::List(_)) {
        return Ok(session);
    }
    let last = session.context()[until - 1].line;
    let text = session.source().as_str().split_inclusive('\n').take(last).collect();
    self::session(&File { path: path.to_owned(), text, seen: None }, input)
}

impl Opened {
    /// What `epitome read` finds a message by: its number, its line if a compaction of a session made it, or its id.
    pub fn label(&self, place: usize) -> String {
        match self.is_list() && (!self.is_numbered || self.thread.message(place).number() == 0) {
            true => self.thread.message(place).id().to_string()[..ID_CHARS].to_owned(),
            false => self.session.reference(&self.session.context()[place]),
        }
    }

    /// Where the counts come from, in words.
    pub fn provenance(&self) -> String {
        let told = provenance(&*self.counter, self.model.as_deref());
        match self.media() {
            (Tokens::ZERO, _) => told,
            (_, source) if source == self.counter.source() => told,
            (_, source) => format!("{told}; images and files {}", source_name(source)),
        }
    }
}

/// A source's name.
pub fn source_name(source: CountSource) -> String {
    serde_json::to_value(source).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// Where counts come from, in words.
pub fn provenance(counter: &dyn TokenCounter, model: Option<&str>) -> String {
    let source = source_name(counter.source());
    if counter.name() == Cautious.name() {
        return "a rough, high estimate; `--model` makes it better".to_owned();
    }
    match model {
        Some(model) => format!("{}, {source}, for {model}", counter.name()),
        None => format!("{}, {source}, no model named", counter.name()),
    }
}

/// Why a session cannot be read, with where and what to do.
pub fn unreadable(path: &Path, error: &SessionError) -> Failure {
    let name = path.display();
    match error {
        SessionError::BadLine { line, column, reason } => {
            Failure::new(Exit::Unreadable, format!("{name}, line {line}, column {column}: this is not JSON ({reason})."))
                .hint("Add `--skip-bad-lines` to carry the line along unread.")
                .facts(serde_json::json!({"line": line, "column": column}))
        }
        SessionError::Document(DocumentError::NotJson { line, column, reason, truncated }) => {
            let hint = match truncated {
                true => "The file ends too early; it may still be being written, or it was cut.",
                false => "Mend the file at that place, or take a copy that is whole.",
            };
            Failure::new(Exit::Unreadable, format!("{name}, line {line}, column {column}: this is not JSON ({reason})."))
                .hint(hint)
                .facts(serde_json::json!({"line": line, "column": column, "truncated": truncated}))
        }
        SessionError::Document(DocumentError::Empty) | SessionError::Empty => {
            Failure::new(Exit::Unreadable, format!("{name} is empty: there is no message in it."))
        }
        SessionError::Document(error) => Failure::new(Exit::Unreadable, format!("{name} cannot be read: {error}."))
            .hint("Known are Claude Code, Codex and pi sessions, and OpenAI, Anthropic and AI-SDK requests and message lists."),
        error => Failure::new(Exit::CannotFit, format!("{name}: {error}")),
    }
}
