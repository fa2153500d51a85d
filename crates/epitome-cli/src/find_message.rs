//! Finding a message by its line, `L212`, or the beginning of its id. For its number, `m41`, see `numbers`.

use std::sync::Arc;

use epitome::budget::{Characters, Meter};
use epitome::session::{ContextMessage, ReadOptions, Session};
use epitome::thread::{NewMessage, Thread};

use crate::failure::{Exit, Failure, Result};

/// The fewest characters of an id that name a message.
const ID_CHARS_MIN: usize = 4;

#[derive(Clone, Debug)]
pub struct FoundMessage {
    pub message: Arc<NewMessage>,
    pub line: usize,
    /// Its place in the log; `None` when a compaction made it.
    pub logged: Option<usize>,
}

/// Returns the session as it was before the newest compaction; `None` if there is none.
pub fn before_compaction(session: &Session) -> Option<Session> {
    let newest = session.compactions().last()?;
    let text: String = session.source().as_str().split_inclusive('\n').take(newest.line.saturating_sub(1)).collect();
    Session::read(&text, &ReadOptions { format: Some(session.format()), skip_bad_lines: true }).ok()
}

/// Finds a message by its line or the beginning of its id.
pub fn by_line_or_id(session: &Session, id: &str) -> Result<FoundMessage> {
    match parse_reference(id, 'L') {
        Some(line) => by_line(session, line),
        None => by_id(session, id),
    }
}

/// Parses a reference of a letter and a number: `m41`.
pub fn parse_reference(id: &str, letter: char) -> Option<usize> {
    id.strip_prefix(letter)?.parse().ok()
}

/// Returns the message at a place of the log.
pub fn logged(session: &Session, at: usize) -> FoundMessage {
    let found = &session.log()[at];
    FoundMessage { message: Arc::clone(&found.message), line: found.line, logged: Some(at) }
}

fn in_context(message: &ContextMessage) -> FoundMessage {
    FoundMessage { message: Arc::clone(&message.message), line: message.line, logged: message.logged }
}

fn by_line(session: &Session, line: usize) -> Result<FoundMessage> {
    if let Some(at) = session.log().iter().position(|logged| logged.line == line) {
        return Ok(logged(session, at));
    }
    let made = session.context().iter().find(|message| message.line == line);
    made.map(in_context).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("There is no message on line {line}."))
            .hint("`epitome show` lists messages with their numbers and lines.")
    })
}

fn by_id(session: &Session, id: &str) -> Result<FoundMessage> {
    let mut found = Vec::new();
    if id.len() >= ID_CHARS_MIN {
        for (at, message) in session.log().iter().enumerate() {
            if message.id.as_ref().is_some_and(|own| own.starts_with(id)) {
                found.push(logged(session, at));
            }
        }
        if found.is_empty() {
            found = by_hash(session, id);
        }
    }
    match found.len() {
        0 => Err(Failure::new(Exit::Usage, format!("There is no message or artifact `{id}`."))
            .hint("Name a message by its number (`m41`), its line (`L212`) or at least four characters of its id.")),
        1 => Ok(found.remove(0)),
        count => Err(Failure::new(Exit::Usage, format!("{count} ids begin with `{id}`.")).hint("Type more of it.")),
    }
}

/// Finds messages by the hash of content and place, in the context before the newest compaction.
fn by_hash(session: &Session, id: &str) -> Vec<FoundMessage> {
    let before = before_compaction(session);
    let seen = before.as_ref().unwrap_or(session);
    let mut thread = Thread::new();
    thread.extend(seen.messages(), &Meter::new(&Characters::Four, session.counting_dialect()));
    let hashes = thread.messages().iter().map(|message| message.id().to_string());
    hashes
        .zip(seen.context())
        .filter(|(hash, _)| hash.starts_with(id))
        .map(|(_, message)| in_context(message))
        .collect()
}
