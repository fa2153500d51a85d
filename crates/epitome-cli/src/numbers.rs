//! The numbers of messages: `m41` is the same message, or an error, after any number of compactions.
//!
//! An agent's session holds its whole log, and places in it are the numbers. A compacted list holds only what is left, so
//! the records in the artifact folder say what was removed and which numbers the rest has:
//!
//! ```text
//! thread.json             m1 m2 m3 m4 m5 m6
//! thread.compacted.json   summary m5 m6            the record stores m1 to m4; next is m7
//! it grows                summary m5 m6 m7 m8
//! compacted again         summary m8               the second record stores m5 to m7; next is m9
//! ```
//!
//! Without its records a compacted list has no numbers, and none are guessed: `m2` would be another message.

use std::collections::BTreeMap;
use std::path::Path;

use epitome::session::{Format, Session};
use epitome::thread::{NewMessage, Raw, Role};

use crate::artifact_folder::{ArtifactFolder, CompactionRecord, RecordChain, file_name};
use crate::failure::{Exit, Failure, Result};
use crate::find_message::parse_reference;

/// A message that was found by its number.
pub enum NumberedMessage {
    /// Its place in the file's log, from 0.
    InFile(usize),
    /// Its JSON, from the artifact folder.
    Stored(String),
}

/// Gives the messages of a compacted list the numbers they had. Returns whether the numbers are known.
pub fn restore(session: &mut Session, folder: &ArtifactFolder, path: &Path) -> bool {
    if !session.is_compacted_list() {
        return true;
    }
    match folder.chain_for(session, &file_name(path)).numbers(session) {
        Some(numbers) => {
            session.renumber(numbers);
            true
        }
        None => false,
    }
}

/// Finds the message of a reference such as `m41`.
pub fn locate(session: &Session, folder: &ArtifactFolder, path: &Path, id: &str) -> Result<NumberedMessage> {
    let number = parse_reference(id, 'm').unwrap_or(0);
    if !matches!(session.format(), Format::List(_)) {
        return by_place(session, number);
    }
    let chain = folder.chain_for(session, &file_name(path));
    if chain.is_empty() && !session.is_compacted_list() {
        return by_place(session, number);
    }
    let Some(numbers) = chain.numbers(session) else { return Err(unknown(id, folder, path, &chain)) };
    if let Some(location) = chain.original(id) {
        return folder.message(location).map(NumberedMessage::Stored).ok_or_else(|| {
            Failure::new(
                Exit::Unreadable,
                format!("{id} was removed from the prompt, and {} no longer holds it.", folder.dir().display()),
            )
            .hint("If you moved the folder, name it with `--artifacts DIR`.")
            .facts(serde_json::json!({"object": location.object}))
        });
    }
    let newest = chain.newest();
    let is_shortened = newest.is_some_and(|record| record.places.edited.contains_key(id));
    match numbers.iter().position(|known| *known == number) {
        Some(at) if number > 0 && !is_shortened => Ok(NumberedMessage::InFile(at)),
        _ if number == 0 || number >= newest.map_or(0, CompactionRecord::next_number) && !is_shortened => {
            let last = numbers.iter().max().copied().unwrap_or(0);
            Err(no_such(number, last))
        }
        _ => Err(left_before(id, folder, path)),
    }
}

/// A message of a file's whole log.
pub struct LoggedMessage {
    /// The message, with its number.
    pub message: NewMessage,
    /// True for a copy that a compaction made: the original is another one.
    pub is_copy: bool,
}

/// Returns every message that a file knows by a number, in the order of the numbers and without a gap: those in the file, and those
/// that left it. One that nobody has any more is empty.
pub fn whole_log(session: &Session, folder: &ArtifactFolder, path: &Path) -> Result<Vec<LoggedMessage>> {
    let chain = match session.format() {
        Format::List(_) => folder.chain_for(session, &file_name(path)),
        _ => RecordChain::default(),
    };
    if chain.is_empty() && !session.is_compacted_list() {
        let logged = session.log().iter().enumerate();
        return Ok(logged
            .map(|(at, logged)| {
                LoggedMessage::new(NewMessage::clone(&logged.message), at + 1, logged.copy_of.is_some())
            })
            .collect());
    }
    let Some(numbers) = chain.numbers(session) else { return Err(unknown("m1", folder, path, &chain)) };
    let mut known: BTreeMap<usize, NewMessage> = BTreeMap::new();
    for (logged, number) in session.log().iter().zip(numbers).filter(|(_, number)| *number > 0) {
        known.insert(number, NewMessage::clone(&logged.message));
    }
    for (number, json) in folder.originals(&chain) {
        known.insert(number, session.format().decode(&Raw::whole(json)));
    }
    let last = known.keys().next_back().copied().unwrap_or(0);
    let empty = || NewMessage::new(Role::Other, Vec::new(), Raw::whole("{}"));
    let message = |number| LoggedMessage::new(known.remove(&number).unwrap_or_else(empty), number, false);
    Ok((1..=last).map(message).collect())
}

impl LoggedMessage {
    fn new(message: NewMessage, number: usize, is_copy: bool) -> Self {
        LoggedMessage { message: NewMessage { number: Some(number), ..message }, is_copy }
    }
}

fn by_place(session: &Session, number: usize) -> Result<NumberedMessage> {
    let count = session.log().len();
    let at = number.checked_sub(1).filter(|at| *at < count);
    at.map(NumberedMessage::InFile).ok_or_else(|| no_such(number, count))
}

fn no_such(number: usize, last: usize) -> Failure {
    Failure::new(Exit::Usage, format!("There is no message m{number}: the last one is m{last}."))
        .hint("A message can also be named by its line, such as `L12`, or by its id.")
}

/// Returns the failure for a compacted list whose numbers cannot be known.
fn unknown(id: &str, folder: &ArtifactFolder, path: &Path, chain: &RecordChain) -> Failure {
    let (name, dir) = (path.display(), folder.dir().display());
    let why = if chain.is_empty() {
        format!("{dir} has no record of that")
    } else {
        format!("its record in {dir} is from an older version, which numbered every round from m1")
    };
    Failure::new(Exit::Unreadable, format!("{id} is ambiguous: {name} was compacted before, and {why}."))
        .hint("Name the folder with `--artifacts DIR`: it is `.epitome` beside the file that was compacted. Messages of the list itself can be read by id; `epitome show` lists them.")
}

/// Returns the failure for a message that left in a round whose record is missing.
fn left_before(id: &str, folder: &ArtifactFolder, path: &Path) -> Failure {
    let (name, dir) = (path.display(), folder.dir().display());
    Failure::new(Exit::Unreadable, format!("{id} left {name} in an earlier compaction, which {dir} has no record of."))
        .hint("Name the folder with `--artifacts DIR`: it is `.epitome` beside the file that was compacted then.")
}
