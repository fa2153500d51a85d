//! Reading a thread back by more than one number: several messages, the edits of a file, a file as it stands now.

use epitome::files::FileHistory;
use epitome::policy::Tools;

use super::selection::MessageSelection;
use crate::log::{Log, LogEntry, Result};
use crate::store::ThreadRow;

/// Messages are read so many at once.
const BATCH: u64 = 256;

/// A question about one file of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileQuestion {
    /// All its edits, in order.
    Edits(String),
    /// The file as it stands after the last message.
    File(String),
}

impl FileQuestion {
    /// Returns the file.
    pub fn path(&self) -> &str {
        match self {
            FileQuestion::Edits(path) | FileQuestion::File(path) => path,
        }
    }

    /// Answers the question from a history of the file; a sentence where there is nothing to tell.
    pub fn answer(&self, history: &FileHistory<'_>) -> String {
        let wanted = self.path();
        let paths = history.paths();
        let path = match &paths[..] {
            [] => return format!("No message reads, writes or changes a file called {wanted}."),
            [path] => *path,
            // Longer and shorter names of one file are one; anything else has to be named.
            [path, rest @ ..] if rest.iter().all(|other| path.ends_with(other.trim_start_matches("./"))) => path,
            _ => return format!("{} files are called {wanted}: {}. Name one of them.", paths.len(), paths.join(", ")),
        };
        match self {
            FileQuestion::Edits(_) => match history.edits_text() {
                text if text.is_empty() => format!("No message changes {path}."),
                text => text.trim_end().to_owned(),
            },
            FileQuestion::File(_) => match history.now() {
                Some(now) => now.text(path),
                None => format!("{path} was changed, but nothing of it is known."),
            },
        }
    }
}

/// Answers a question about a file from all messages of a thread.
pub async fn file_answer(log: &Log, row: &ThreadRow, question: &FileQuestion, tools: &Tools) -> Result<String> {
    let mut history = FileHistory::new(question.path(), tools);
    let mut from = 0;
    while from < row.length {
        let to = row.length.min(from + BATCH);
        for entry in log.read(row, from..to).await? {
            history.push(number(&entry), &entry.message.parts);
        }
        from = to;
    }
    Ok(question.answer(&history))
}

/// Reads messages by their numbers, each under its number and role. Numbers that the thread does not have are left out.
pub async fn read_messages(log: &Log, row: &ThreadRow, selection: &MessageSelection) -> Result<Vec<LogEntry>> {
    let numbers = selection.numbers();
    let places: Vec<u64> = numbers.iter().filter_map(|number| number.checked_sub(1)).collect();
    let known: Vec<u64> = places.into_iter().filter(|place| *place < row.length).collect();
    let mut sorted = known.clone();
    sorted.sort_unstable();
    let mut entries = if sorted.is_empty() { Default::default() } else { log.read_at(row, &sorted).await? };
    Ok(known.iter().filter_map(|place| entries.remove(place)).collect())
}

fn number(entry: &LogEntry) -> usize {
    usize::try_from(entry.place + 1).unwrap_or(usize::MAX)
}
