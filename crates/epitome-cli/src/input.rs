//! Opening a file: its bytes become a session, its context a thread, with the counter that fits.
//!
//! Nothing is written here, and nothing about a file's content is guessed from its name.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use epitome::budget::{CautiousCounter, CountSource, TokenCounter as _, Tokens};
use epitome::session::{Format, ReadOptions, Session, SessionError};
use epitome::thread::{NewMessage, Role};
use epitome::wire::DocumentError;
use epitome::{Conversation, CountFor};
use serde_json::json;

use crate::artifact_folder::ArtifactFolder;
use crate::cli::InputArgs;
use crate::failure::{Exit, Failure, Result, words};
use crate::numbers;
use crate::write::FileVersion;

/// The characters of an id that a message is named by.
const ID_CHARS: usize = 8;

/// A file's text, before anything is known about it.
#[derive(Debug)]
pub struct InputFile {
    /// The path as it was typed.
    pub path: PathBuf,
    pub text: String,
    /// The file's size and time when it was read; `None` for standard input.
    pub version: Option<FileVersion>,
}

/// A conversation and the file that it was read from.
pub struct OpenedFile {
    /// The path as it was typed.
    pub path: PathBuf,
    /// The file's size and time when it was read; `None` for standard input.
    pub version: Option<FileVersion>,
    pub conversation: Conversation,
    /// `false` for a compacted list whose records are missing: nobody can tell which message `m41` is.
    is_numbered: bool,
}

/// Reads a file or standard input.
pub fn read(path: &Path) -> Result<InputFile> {
    let (bytes, version) = read_bytes(path).map_err(|error| {
        Failure::unreadable(path, words(&error)).hint("Name a session file, a request or a list of messages.")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    Ok(InputFile { path: path.to_owned(), text, version })
}

fn read_bytes(path: &Path) -> io::Result<(Vec<u8>, Option<FileVersion>)> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok((bytes, None));
    }
    // The version comes first: a writer in between makes the replacement fail, not overwrite.
    let version = FileVersion::of(path)?;
    Ok((std::fs::read(path)?, Some(version)))
}

fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> Failure {
    let offset = error.utf8_error().valid_up_to();
    let line = error.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
    Failure::unreadable(path, format_args!("it is not UTF-8 from byte {offset} on, in line {line}"))
        .hint("Session files are UTF-8 text; this may be another kind of file, or a damaged one.")
}

/// Parses a text as a session, which keeps it: a second copy of a large file is not worth its memory.
pub fn session(text: impl Into<String>, input: &InputArgs) -> Result<Session> {
    let options = ReadOptions { format: input.format, skip_bad_lines: input.skip_bad_lines };
    Session::read(text, &options).map_err(|error| unreadable(&input.file, &error))
}

/// Reads a file and counts its first `until` messages.
pub fn open(input: &InputArgs, count_for: CountFor, until: Option<usize>) -> Result<OpenedFile> {
    let InputFile { path, text, version } = read(&input.file)?;
    let mut session = session(text, input)?;
    if session.context().is_empty() || !holds_message(&session) {
        return Err(no_message(&session, input));
    }
    if let Some(until) = until.filter(|until| *until < session.context().len()) {
        session = until_message(session, input, until)?;
    }
    let is_numbered = numbers::restore(&mut session, &ArtifactFolder::of(input.artifacts.as_deref(), &path), &path);
    // One file has one total, whichever verb is asked: all count on the safe side.
    let count_for = CountFor { cautious: true, ..count_for };
    let conversation = Conversation::until(session, count_for, until.unwrap_or(usize::MAX));
    Ok(OpenedFile { path, version, conversation, is_numbered })
}

/// Counts the tokens of a session's context, as every verb counts them.
pub fn total(session: &Session) -> Tokens {
    let count_for = CountFor { cautious: true, ..CountFor::default() };
    Conversation::new(session.clone(), count_for).thread.total()
}

/// Returns whether a file holds a message at all: any JSON object can be read as one without role and content.
pub fn holds_message(session: &Session) -> bool {
    let said = |message: &NewMessage| message.role != Role::Other || !message.parts.is_empty();
    session.log().iter().any(|logged| said(&logged.message))
}

/// Returns the failure for a file without messages, which may only have been read in the wrong format.
fn no_message(session: &Session, input: &InputArgs) -> Failure {
    let (name, format) = (input.file.display(), session.format().description());
    let options = ReadOptions { format: None, skip_bad_lines: true };
    let detected = input.format.and_then(|_| Session::read(session.source().as_str(), &options).ok());
    match detected.filter(|detected| !detected.context().is_empty()) {
        Some(detected) => Failure::new(Exit::Unreadable, format!("{name} holds no message when read as {format}."))
            .hint(format!("It looks like {}; leave `--format` out.", detected.format().description())),
        None => Failure::new(Exit::Unreadable, format!("{name} holds no message."))
            .hint("Name a session file, a request or a list of messages."),
    }
}

/// Cuts a session's file after a message of its context. A list keeps its text, because its messages are picked by place.
fn until_message(session: Session, input: &InputArgs, until: usize) -> Result<Session> {
    if until == 0 {
        return Err(Failure::new(Exit::Usage, "`--until 0` leaves no message.").hint("Messages are counted from 1."));
    }
    if matches!(session.format(), Format::List(_)) {
        return Ok(session);
    }
    let last = session.context()[until - 1].line;
    let text: String = session.source().as_str().split_inclusive('\n').take(last).collect();
    self::session(text, input)
}

impl OpenedFile {
    /// Returns the name that `epitome read` finds a message by: its number or line, or its id where neither is known.
    pub fn label(&self, place: usize) -> String {
        let Conversation { session, thread, .. } = &self.conversation;
        let message = thread.message(place);
        if self.conversation.is_list() && (!self.is_numbered || message.number() == 0) {
            return message.id().to_string()[..ID_CHARS].to_owned();
        }
        session.reference(&session.context()[place])
    }

    /// Returns where the counts come from, in words.
    pub fn provenance(&self) -> String {
        let Conversation { counter, model, .. } = &self.conversation;
        let source = source_name(counter.source());
        let messages = match model {
            _ if counter.name() == CautiousCounter.name() => {
                "a rough, high estimate; `--model` makes it better".to_owned()
            }
            Some(model) => format!("{}, {source}, for {model}", counter.name()),
            None => format!("{}, {source}, no model named", counter.name()),
        };
        match self.conversation.media() {
            (tokens, source) if tokens > Tokens::ZERO && source != counter.source() => {
                format!("{messages}; images and files {}", source_name(source))
            }
            _ => messages,
        }
    }
}

fn source_name(source: CountSource) -> String {
    serde_json::to_value(source).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// Returns the failure for a session that cannot be read or written, with the place and what to do.
pub fn unreadable(path: &Path, error: &SessionError) -> Failure {
    let name = path.display();
    let failure = |sentence: String| Failure::new(Exit::Unreadable, sentence);
    let not_json =
        |line, column, reason| failure(format!("{name}, line {line}, column {column}: not JSON ({reason})."));
    match error {
        SessionError::BadLine { line, column, reason } => not_json(line, column, reason)
            .hint("Add `--skip-bad-lines` to keep such lines without reading them.")
            .facts(json!({"line": line, "column": column})),
        SessionError::Document(DocumentError::NotJson { line, column, reason, truncated }) => {
            let hint = if *truncated {
                "The file ends too early: it is still being written, or it was cut off."
            } else {
                "Repair the file there, or use an intact copy."
            };
            not_json(line, column, reason)
                .hint(hint)
                .facts(json!({"line": line, "column": column, "truncated": truncated}))
        }
        SessionError::Document(DocumentError::Empty) | SessionError::Empty => {
            failure(format!("{name} is empty: there is no message in it."))
        }
        SessionError::Document(error) => failure(format!("{name} cannot be read: {error}.")).hint(
            "Supported: Claude Code, Codex and pi sessions; OpenAI, Anthropic and AI SDK requests and message lists.",
        ),
        error => Failure::new(Exit::CannotFit, format!("{name}: {error}")),
    }
}
