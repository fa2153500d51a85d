//! Which message a number means: `m41` is one message, or an error, however often a list was compacted.
//!
//! An agent's session holds its whole log, and its places are the numbers. A list does not: the records beside it know what
//! left it, and under which numbers. Without them a compacted list cannot tell, and nothing is guessed.

use std::path::Path;

use epitome::session::{Format, Session};

use crate::failure::{Exit, Failure};
use crate::find::reference;
use crate::store::{Chain, Record, Store, file_name};

/// Where the message of a number is.
pub enum NumberedMessage {
    /// In the file: its place in the log, from 0.
    InFile(usize),
    /// In the artifact folder: its JSON.
    Stored(String),
}

/// Gives the messages of a compacted list the numbers they had; answers whether the numbers are known.
pub fn restore(session: &mut Session, store: &Store, path: &Path) -> bool {
    if !session.is_compacted_list() {
        return true;
    }
    match store.chain_for(session, &file_name(path)).numbers(session) {
        Some(numbers) => {
            session.renumber(numbers);
            true
        }
        None => false,
    }
}

/// Finds the message of a reference such as `m41`.
pub fn locate(session: &Session, store: &Store, path: &Path, id: &str) -> Result<NumberedMessage, Failure> {
    let number = reference(id, 'm').unwrap_or(0);
    if !matches!(session.format(), Format::List(_)) {
        return by_place(session, number);
    }
    let chain = store.chain_for(session, &file_name(path));
    if chain.is_empty() && !session.is_compacted_list() {
        return by_place(session, number);
    }
    let Some(numbers) = chain.numbers(session) else { return Err(unknown(id, store, path, &chain)) };
    if let Some(kept) = chain.kept(id) {
        return store.message(kept).map(NumberedMessage::Stored).ok_or_else(|| {
            Failure::new(
                Exit::Unreadable,
                format!("{id} left the prompt, and {} does not hold it any more.", store.dir().display()),
            )
            .hint("Name the folder that still does with `--artifacts DIR`.")
            .facts(serde_json::json!({"object": kept.object}))
        });
    }
    let newest = chain.newest();
    let is_shortened = newest.is_some_and(|record| record.edited.contains_key(id));
    match numbers.iter().position(|known| *known == number) {
        Some(at) if number > 0 && !is_shortened => Ok(NumberedMessage::InFile(at)),
        _ if number == 0 || number >= newest.map_or(0, Record::next_number) && !is_shortened => {
            let last = numbers.iter().max().copied().unwrap_or(0);
            Err(no_such(number, last))
        }
        _ => Err(left_before(id, store, path)),
    }
}

fn by_place(session: &Session, number: usize) -> Result<NumberedMessage, Failure> {
    let count = session.log().len();
    let at = number.checked_sub(1).filter(|at| *at < count);
    at.map(NumberedMessage::InFile).ok_or_else(|| no_such(number, count))
}

fn no_such(number: usize, last: usize) -> Failure {
    Failure::new(Exit::Usage, format!("There is no message m{number}: they go from m1 to m{last}."))
        .hint("A message can also be named by its line, such as `L12`, or by its id.")
}

/// A list that was compacted, and nothing that tells by whom.
fn unknown(id: &str, store: &Store, path: &Path, chain: &Chain) -> Failure {
    let (name, dir) = (path.display(), store.dir().display());
    let why = match chain.is_empty() {
        true => format!("and no record of that is in {dir}"),
        false => format!("and its record in {dir} is of an earlier version that counted every round from m1"),
    };
    Failure::new(Exit::Unreadable, format!("{id} cannot be told: {name} was compacted before, {why}."))
        .hint("Name the folder with `--artifacts DIR`: it is `.epitome` beside the file that was compacted. A message of the list itself can be read by its id; `epitome show` lists them.")
}

/// A number of a round store_args record is not there.
fn left_before(id: &str, store: &Store, path: &Path) -> Failure {
    let (name, dir) = (path.display(), store.dir().display());
    Failure::new(Exit::Unreadable, format!("{id} left {name} in a compaction store_args record is not in {dir}.")).hint(
        "Name the folder that has it with `--artifacts DIR`: it is `.epitome` beside the file that was compacted then.",
    )
}
