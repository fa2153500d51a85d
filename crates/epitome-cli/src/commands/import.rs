//! `epitome import`: a file becomes a thread of the store, and its bytes are kept beside it.
//!
//! The file comes first, then its messages, some at a time with their index. An import that was broken off goes on where
//! it stopped.

use std::path::{Path, PathBuf};

use epitome::budget::Meter;
use epitome::session::{Format, LogMessage, ReadOptions, Session};
use epitome::thread::{NewMessage, Thread};
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::log::{LogEntry, NewThread, total, words_of};
use epitome_runtime::recall::index_rows;
use epitome_runtime::store::{IndexRow, MessageRow, ThreadRow, Write};
use serde_json::{Value, json};

use crate::cli::Import;
use crate::failure::{Answer, Exit, Failure};
use crate::open::{self, read, unreadable};
use crate::open_store::{IfMissing, OpenStore, thread_id, wait};
use crate::progress::Progress;
use crate::receipt::{notices, notices_json, plural};
use crate::screen::Screen;
use crate::source::Source;

/// So many messages are written at once, or as many as have so many bytes.
const BATCH_MESSAGES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Imports.
pub fn run(args: &Import, config: Option<&Path>, screen: Screen, progress: &Progress) -> Result<Answer, Failure> {
    if args.thread.is_some() && args.files.len() > 1 {
        return Err(Failure::new(Exit::Usage, "`--thread` names one thread, and there are several files.")
            .hint("Import them one by one, or without `--thread`."));
    }
    wait(async {
        let open_store = OpenStore::open(config, &args.store_args, IfMissing::Create).await?;
        let mut text = String::new();
        let mut imported: Vec<Value> = Vec::new();
        for path in &args.files {
            progress.now(format!("Importing {}", path.display()));
            let file = Imported::from(&open_store, args, path, progress).await?;
            text.push_str(&file.text(screen));
            imported.push(file.json());
        }
        let store = open_store.configured.config().store.url.to_string();
        Ok(Answer::new(text, json!({"store": store, "imported": imported})))
    })
}

/// A file that is in the store now.
struct Imported {
    path: PathBuf,
    session: Session,
    row: ThreadRow,
    /// How many of its messages were not there before.
    appended: u64,
    is_new: bool,
}

impl Imported {
    async fn from(
        open_store: &OpenStore,
        args: &Import,
        path: &Path,
        progress: &Progress,
    ) -> Result<Imported, Failure> {
        let session = session(args, path)?;
        let key = ThreadKey::new(open_store.access.tenant.clone(), id(args.thread.as_deref(), path, &session)?);
        let (row, is_new) = claimed(open_store, &key, path, &session).await?;
        let appended = (session.log().len() as u64).saturating_sub(row.length);
        if appended > 0 {
            append(open_store, &row, &session, progress).await?;
        }
        let row = open_store.thread(key.thread.as_str()).await?;
        Ok(Imported { path: path.to_owned(), session, row, appended, is_new })
    }

    fn text(&self, screen: Screen) -> String {
        let (name, thread) = (self.path.display(), screen.head(self.row.key.thread.as_str()));
        let (messages, tokens) = (self.session.log().len(), open::total(&self.session));
        let said = match (self.is_new, self.appended) {
            (false, 0) => format!("{name} is in the store already, as thread {thread}: there is nothing to do.\n"),
            (false, rest) => {
                let (s, are) = (plural(rest as usize), if rest == 1 { "is" } else { "are" });
                format!("{name} was half imported; the other {rest} message{s} {are} in thread {thread} now.\n")
            }
            (true, _) => format!(
                "{name}: {}, {messages} message{}, {tokens} tokens in the context, is thread {thread} now.\n",
                self.session.format().description(),
                plural(messages),
            ),
        };
        said + &notices(&self.session, screen)
    }

    fn json(&self) -> Value {
        json!({
            "file": self.path.display().to_string(), "thread": self.row.key.thread,
            "format": self.session.format().name(), "messages": self.session.log().len(), "tokens": open::total(&self.session), "log_tokens": self.row.tokens,
            "appended": self.appended, "new": self.is_new, "notices": notices_json(&self.session),
        })
    }
}

fn session(args: &Import, path: &Path) -> Result<Session, Failure> {
    let options = ReadOptions { format: args.format, skip_bad_lines: args.skip_bad_lines };
    let session = Session::read(&read(path)?.text, &options).map_err(|error| unreadable(path, &error))?;
    if !open::holds_message(&session) {
        return Err(Failure::new(Exit::Unreadable, format!("{} holds no message.", path.display())));
    }
    Ok(session)
}

/// The thread's id: as it was named, as the agent knows the session, or as the file is called.
fn id(named: Option<&str>, path: &Path, session: &Session) -> Result<ThreadId, Failure> {
    if let Some(named) = named {
        return thread_id(named);
    }
    if let Some(id) = session.id().and_then(|id| id.parse().ok()) {
        return Ok(id);
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let fine = |c: char| if c.is_ascii_alphanumeric() || "._:@+=-".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(fine).take(100).collect();
    Ok(name.parse().ok().filter(|_| path != Path::new("-")).unwrap_or_default())
}

/// The thread of a file: a new one with its source, or the one that it was imported into before.
async fn claimed(
    open_store: &OpenStore,
    key: &ThreadKey,
    path: &Path,
    session: &Session,
) -> Result<(ThreadRow, bool), Failure> {
    if let Some(row) = open_store.log().thread(key).await? {
        let same = match Source::of(open_store, &key.thread).await? {
            Some(source) => source.text(open_store).await? == session.source().as_str(),
            None => false,
        };
        return if same { Ok((row, false)) } else { Err(taken(path, &key.thread)) };
    }
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let writes = Source::keep(open_store, &key.thread, file, session).await?;
    open_store.log().apply(&writes).await?;
    let new = NewThread {
        scope: String::new(),
        key: key.clone(),
        dialect: session.format().name().to_owned(),
        counter: open_store.engine.counter_label().to_owned(),
        at: Moment::now(),
        labels: Value::Null,
    };
    Ok((open_store.log().create(new).await?, true))
}

fn taken(path: &Path, thread: &ThreadId) -> Failure {
    Failure::new(
        Exit::CannotFit,
        format!("{} cannot become thread {thread}: there is one with other content.", path.display()),
    )
    .hint("Name a new one with `--thread`.")
}

/// Appends the messages of a session that its thread does not have, each batch with its index.
async fn append(
    open_store: &OpenStore,
    row: &ThreadRow,
    session: &Session,
    progress: &Progress,
) -> Result<(), Failure> {
    let intake = Intake { open_store, row, session, thread: &thread_of(open_store, session), now: Moment::now() };
    let count = session.log().len();
    let mut next = usize::try_from(row.length).unwrap_or(count);
    while next < count {
        progress.now(format!("Importing message {} of {count}", next + 1));
        let batch = intake.batch(next);
        next += batch.rows.len();
        open_store.log().apply(&batch.into_writes(row)).await?;
    }
    Ok(())
}

fn thread_of(open_store: &OpenStore, session: &Session) -> Thread {
    let numbered =
        |(at, logged): (usize, &LogMessage)| NewMessage { number: Some(at + 1), ..NewMessage::clone(&logged.message) };
    let messages = session.log().iter().enumerate().map(numbered).collect();
    let mut thread = Thread::new();
    thread.extend(messages, &Meter::new(&**open_store.engine.counter(), session.counting_dialect()));
    thread
}

/// A session on its way into a thread.
struct Intake<'a> {
    open_store: &'a OpenStore,
    row: &'a ThreadRow,
    session: &'a Session,
    thread: &'a Thread,
    now: Moment,
}

/// Messages that are written at once, with what they are found by.
#[derive(Default)]
struct Batch {
    rows: Vec<MessageRow>,
    index: Vec<IndexRow>,
    bytes: usize,
}

impl Intake<'_> {
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

    /// What a message is found by; a copy that a compaction made is found where it first stood.
    fn passages(&self, at: usize) -> Vec<IndexRow> {
        if self.session.log()[at].copy_of.is_some() {
            return Vec::new();
        }
        let words = words_of(self.thread.message(at).parts());
        index_rows(self.open_store.log().vault(), &self.row.key.tenant, at as u64, &words)
    }

    fn message(&self, at: usize) -> MessageRow {
        let (log, message) = (self.open_store.log(), self.thread.message(at));
        // An import that goes on may count otherwise than it did when it began.
        let counter =
            Some(self.open_store.engine.counter_label()).filter(|label| !log.is_counted_with(self.row, label));
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
        writes.extend((!self.index.is_empty()).then(|| Write::Index { key: key(), rows: self.index }));
        writes
    }
}
