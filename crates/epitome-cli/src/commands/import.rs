//! `epitome import`: turns a file into a thread of the store, and stores the file's bytes with it.
//!
//! The file is written first, then its messages in batches with their index. An interrupted import continues where it
//! stopped.

use std::path::{Path, PathBuf};

use epitome::budget::Meter;
use epitome::session::{Format, LogMessage, ReadOptions, Session};
use epitome::thread::{NewMessage, Thread};
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::log::{LogEntry, NewThread, total, words_of};
use epitome_runtime::recall::index_rows;
use epitome_runtime::store::{IndexRow, MessageRow, ThreadRow, Write};
use serde_json::{Value, json};

use crate::artifact_folder::file_name;
use crate::cli::ImportArgs;
use crate::failure::{Answer, Exit, Failure, Result};
use crate::imported_file::ImportedFile;
use crate::input::{self, read, unreadable};
use crate::open_store::{IfMissing, OpenStore, thread_id, wait};
use crate::progress::Progress;
use crate::receipt::{count, notices, notices_json};
use crate::screen::Screen;

/// The most messages in one batch; a batch also ends with the message that reaches the bytes.
const BATCH_MESSAGES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 << 20;

pub fn run(args: &ImportArgs, config: Option<&Path>, screen: Screen, progress: &Progress) -> Result<Answer> {
    if args.thread.is_some() && args.files.len() > 1 {
        return Err(Failure::new(Exit::Usage, "`--thread` names one thread, but there are several files.")
            .hint("Import them one by one, or without `--thread`."));
    }
    wait(async {
        let store = OpenStore::open(config, &args.store_options, IfMissing::Create).await?;
        let mut text = String::new();
        let mut imported: Vec<Value> = Vec::new();
        for path in &args.files {
            progress.now(format!("Importing {}", path.display()));
            let import = FileImport::run(&store, args, path, progress).await?;
            text.push_str(&import.text(screen));
            imported.push(import.to_json());
        }
        Ok(Answer::new(text, json!({"store": store.url(), "imported": imported})))
    })
}

/// A finished import of one file.
struct FileImport {
    path: PathBuf,
    session: Session,
    row: ThreadRow,
    /// The messages that were not in the store before.
    appended: u64,
    is_new: bool,
}

impl FileImport {
    async fn run(store: &OpenStore, args: &ImportArgs, path: &Path, progress: &Progress) -> Result<FileImport> {
        let options = ReadOptions { format: args.format, skip_bad_lines: args.skip_bad_lines };
        let session = Session::read(read(path)?.text, &options).map_err(|error| unreadable(path, &error))?;
        if !input::holds_message(&session) {
            return Err(Failure::new(Exit::Unreadable, format!("{} holds no message.", path.display())));
        }
        let key = ThreadKey::new(store.access.tenant.clone(), choose_id(args.thread.as_deref(), path, &session)?);
        let (row, is_new) = find_or_create_thread(store, &key, path, &session).await?;
        let appended = (session.log().len() as u64).saturating_sub(row.length);
        if appended > 0 {
            append(store, &row, &session, progress).await?;
        }
        let row = store.require_thread(key.thread.as_str()).await?;
        Ok(FileImport { path: path.to_owned(), session, row, appended, is_new })
    }

    fn text(&self, screen: Screen) -> String {
        let (name, thread) = (self.path.display(), screen.head(self.row.key.thread.as_str()));
        let said = match (self.is_new, self.appended) {
            (false, 0) => format!("{name} is in the store already, as thread {thread}; nothing to do.\n"),
            (false, rest) => {
                let rest = count(rest as usize, "message");
                format!("{name} was partly imported before; added the missing {rest} to thread {thread}.\n")
            }
            (true, _) => {
                let format = self.session.format().description();
                let messages = count(self.session.log().len(), "message");
                let tokens = input::total(&self.session);
                format!("{name}: {format}, {messages}, {tokens} tokens in the context; imported as thread {thread}.\n")
            }
        };
        said + &notices(&self.session, screen)
    }

    fn to_json(&self) -> Value {
        json!({
            "file": self.path.display().to_string(), "thread": self.row.key.thread,
            "format": self.session.format().name(), "messages": self.session.log().len(), "tokens": input::total(&self.session), "log_tokens": self.row.tokens,
            "appended": self.appended, "new": self.is_new, "notices": notices_json(&self.session),
        })
    }
}

/// Chooses the thread's id: the given one, the session's own, or the file's name.
fn choose_id(named: Option<&str>, path: &Path, session: &Session) -> Result<ThreadId> {
    if let Some(named) = named {
        return thread_id(named);
    }
    if let Some(id) = session.id().and_then(|id| id.parse().ok()) {
        return Ok(id);
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._:@+=-".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(allowed).take(100).collect();
    Ok(name.parse().ok().filter(|_| path != Path::new("-")).unwrap_or_default())
}

/// Finds the thread that a file was imported into before, or creates one. Returns whether it is new.
async fn find_or_create_thread(
    store: &OpenStore,
    key: &ThreadKey,
    path: &Path,
    session: &Session,
) -> Result<(ThreadRow, bool)> {
    if let Some(row) = store.log().thread(key).await? {
        let is_same = match ImportedFile::of(store, &key.thread).await? {
            Some(imported) => imported.text(store).await? == session.source().as_str(),
            None => false,
        };
        if is_same {
            return Ok((row, false));
        }
        let sentence = format!("{}: thread {} exists already, with other content.", path.display(), key.thread);
        return Err(Failure::new(Exit::CannotFit, sentence).hint("Choose another id with `--thread`."));
    }
    let writes = ImportedFile::put(store, &key.thread, file_name(path), session).await?;
    store.log().apply(&writes).await?;
    let new = NewThread {
        scope: String::new(),
        key: key.clone(),
        dialect: session.format().name().to_owned(),
        counter: store.engine.counter_label().to_owned(),
        at: Moment::now(),
        labels: Value::Null,
    };
    Ok((store.log().create(new).await?, true))
}

/// Appends the messages that a thread does not have yet, each batch with its index.
async fn append(store: &OpenStore, row: &ThreadRow, session: &Session, progress: &Progress) -> Result<()> {
    let importer = Importer { store, row, session, thread: &thread_of(store, session), now: Moment::now() };
    let count = session.log().len();
    let mut next = usize::try_from(row.length).unwrap_or(count);
    while next < count {
        progress.now(format!("Importing message {} of {count}", next + 1));
        let batch = importer.batch(next);
        next += batch.rows.len();
        store.log().apply(&batch.into_writes(row)).await?;
    }
    Ok(())
}

fn thread_of(store: &OpenStore, session: &Session) -> Thread {
    let numbered =
        |(at, logged): (usize, &LogMessage)| NewMessage { number: Some(at + 1), ..NewMessage::clone(&logged.message) };
    let messages = session.log().iter().enumerate().map(numbered).collect();
    let mut thread = Thread::new();
    thread.extend(messages, &Meter::new(&**store.engine.counter(), session.counting_dialect()));
    thread
}

/// Turns the messages of a session into rows of its thread.
struct Importer<'a> {
    store: &'a OpenStore,
    row: &'a ThreadRow,
    session: &'a Session,
    thread: &'a Thread,
    now: Moment,
}

/// Messages that are written together, with their search index.
#[derive(Default)]
struct Batch {
    rows: Vec<MessageRow>,
    index: Vec<IndexRow>,
    bytes: usize,
}

impl Importer<'_> {
    fn batch(&self, start: usize) -> Batch {
        let mut batch = Batch::default();
        for at in start..self.thread.len().min(start + BATCH_MESSAGES_MAX) {
            if batch.bytes >= BATCH_BYTES_MAX {
                break;
            }
            let message = self.message(at);
            batch.bytes += message.body.len();
            batch.rows.push(message);
            batch.index.extend(self.passages(at));
        }
        batch
    }

    /// Indexes a message. A copy that a compaction made is found as the original.
    fn passages(&self, at: usize) -> Vec<IndexRow> {
        if self.session.log()[at].copy_of.is_some() {
            return Vec::new();
        }
        let words = words_of(self.thread.message(at).parts());
        index_rows(self.store.log().vault(), &self.row.key.tenant, at as u64, &words)
    }

    fn message(&self, at: usize) -> MessageRow {
        let (log, message) = (self.store.log(), self.thread.message(at));
        // A continued import may use another counter than the one it began with.
        let counter = Some(self.store.engine.counter_label()).filter(|label| !log.is_counted_with(self.row, label));
        if let Format::List(_) = self.session.format() {
            return log.message_row(&self.row.key, message, &[], counter, self.now);
        }
        let entry = LogEntry {
            place: at as u64,
            id: message.id(),
            stored: message.id(),
            turn: message.turn(),
            part_tokens: (0..message.parts().len()).map(|part| message.part_tokens(part)).collect(),
            counter: counter.map(str::to_owned),
            at: self.now,
            message: NewMessage::clone(&self.session.log()[at].message),
        };
        log.foreign_row(&self.row.key, &entry)
    }
}

impl Batch {
    fn into_writes(self, row: &ThreadRow) -> Vec<Write> {
        let key = || row.key.clone();
        let mut writes = vec![Write::Append { key: key(), tokens: total(&self.rows), messages: self.rows }];
        if !self.index.is_empty() {
            writes.push(Write::Index { key: key(), rows: self.index });
        }
        writes
    }
}
