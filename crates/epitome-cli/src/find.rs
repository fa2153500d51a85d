//! Finding a message by what people call it: `m41`, `L212`, or the beginning of an id.
//!
//! Numbers are those that summaries and placeholders use; what they mean in a compacted list is told in `numbers`.

use std::sync::Arc;

use epitome::budget::{Characters, Meter};
use epitome::session::{ContextMessage, ReadOptions, Session};
use epitome::thread::{NewMessage, Thread};

use crate::failure::{Exit, Failure};

/// The fewest characters of an id that name a message.
const ID_CHARS_MIN: usize = 4;

/// A message that was found.
#[derive(Clone, Debug)]
pub struct Located {
    /// The message.
    pub message: Arc<NewMessage>,
    /// The line it is on.
    pub line: usize,
    /// Its place in the log; `None` when a compaction made it.
    pub logged: Option<usize>,
}

/// The session as the newest compaction found it; `None` if there is none.
pub fn before_compaction(session: &Session) -> Option<Session> {
    let newest = session.compactions().last()?;
    let text: String = session.source().as_str().split_inclusive('\n').take(newest.line.saturating_sub(1)).collect();
    Session::read(&text, &ReadOptions { format: Some(session.format()), skip_bad_lines: true }).ok()
}

/// Finds a message by anything but its number.
pub fn message(session: &Session, id: &str) -> Result<Located, Failure> {
    if let Some(line) = reference(id, 'L') {
        return by_line(session, line);
    }
    by_id(session, id)
}

/// The number in `m41`.
pub fn reference(id: &str, letter: char) -> Option<usize> {
    id.strip_prefix(letter)?.parse().ok()
}

/// The message at a place of the log.
pub fn logged(session: &Session, at: usize) -> Located {
    let found = &session.log()[at];
    Located { message: Arc::clone(&found.message), line: found.line, logged: Some(at) }
}

fn located(message: &ContextMessage) -> Located {
    Located { message: Arc::clone(&message.message), line: message.line, logged: message.logged }
}

fn by_line(session: &Session, line: usize) -> Result<Located, Failure> {
    let own = session.log().iter().position(|logged| logged.line == line).map(|at| logged(session, at));
    let made = || session.context().iter().find(|message| message.line == line).map(located);
    own.or_else(made).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("There is no message on line {line}."))
            .hint("`epitome show` lists messages with their places.")
    })
}

fn by_id(session: &Session, id: &str) -> Result<Located, Failure> {
    let mut found: Vec<Located> = Vec::new();
    if id.len() >= ID_CHARS_MIN {
        let own = session
            .log()
            .iter()
            .enumerate()
            .filter(|(_, logged)| logged.id.as_ref().is_some_and(|own| own.starts_with(id)));
        found.extend(own.map(|(at, logged)| Located {
            message: Arc::clone(&logged.message),
            line: logged.line,
            logged: Some(at),
        }));
        if found.is_empty() {
            found = by_hash(session, id);
        }
    }
    match found.len() {
        0 => Err(Failure::new(Exit::Usage, format!("There is no message or artifact `{id}`.")).hint(
            "A message is named by its number (`m41`), its line (`L212`) or at least four characters of its id.",
        )),
        1 => Ok(found.remove(0)),
        count => {
            Err(Failure::new(Exit::Usage, format!("`{id}` is the beginning of {count} ids.")).hint("Give more of it."))
        }
    }
}

/// By the hash of content and place, in the context as the newest compaction found it.
fn by_hash(session: &Session, id: &str) -> Vec<Located> {
    let before = before_compaction(session);
    let seen = before.as_ref().unwrap_or(session);
    let mut thread = Thread::new();
    thread.extend(seen.messages(), &Meter::new(&Characters::Four, session.counting_dialect()));
    let hashes = thread.messages().iter().map(|message| message.id().to_string());
    hashes.zip(seen.context()).filter(|(hash, _)| hash.starts_with(id)).map(|(_, message)| located(message)).collect()
}
