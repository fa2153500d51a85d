//! `epitome import`: a file becomes a thread of the store, and its bytes are kept beside it.
//!
//! The file comes first, then its messages, some at a time with their index. An import that was broken off goes on where
//! it stopped.

use std::path::Path;

use epitome::budget::{Meter, Tokens};
use epitome::session::{Format, LogMessage, ReadOptions, Session};
use epitome::thread::{NewMessage, Thread};
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::log::{Entry, NewThread, total, words_of};
use epitome_runtime::recall::index_rows;
use epitome_runtime::store::{MessageRow, ThreadRow, Write};
use serde_json::{Value, json};

use crate::cli::Import;
use crate::desk::{Absent, Desk, thread_id, wait};
use crate::failure::{Answer, Exit, Failure};
use crate::open::{dialect, read, unreadable};
use crate::paint::Paint;
use crate::progress::Progress;
use crate::receipt::{notices, notices_json, plural};
use crate::source::Source;

/// So many messages are written at once, or as many as have so many bytes.
const BATCH_MESSAGES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Imports.
pub fn run(args: &Import, config: Option<&Path>, paint: Paint, progress: &Progress) -> Result<Answer, Failure> {
    if args.thread.is_some() && args.files.len() > 1 {
        return Err(Failure::new(Exit::Usage, "`--thread` names one thread, and there are several files.")
            .hint("Import them one by one, or without `--thread`."));
    }
    wait(async {
        let desk = Desk::open(config, &args.whose, Absent::Make).await?;
        let mut text = String::new();
        let mut imported: Vec<Value> = Vec::new();
        for path in &args.files {
            progress.now(format!("Importing {}", path.display()));
            let (said, json) = one(&desk, args, path, paint, progress).await?;
            text.push_str(&said);
            imported.push(json);
        }
        let store = desk.configured.config().store.url.to_string();
        Ok(Answer::new(text, json!({"store": store, "imported": imported})))
    })
}

async fn one(
    desk: &Desk,
    args: &Import,
    path: &Path,
    paint: Paint,
    progress: &Progress,
) -> Result<(String, Value), Failure> {
    let file = read(path)?;
    let options = ReadOptions { format: args.format, skip_bad_lines: args.skip_bad_lines };
    let session = Session::read(&file.text, &options).map_err(|error| unreadable(path, &error))?;
    drop(file);
    if session.log().is_empty() {
        return Err(Failure::new(Exit::Unreadable, format!("{} holds no message.", path.display())));
    }
    let key = ThreadKey::new(desk.access.tenant.clone(), id(args.thread.as_deref(), path, &session)?);
    let (row, is_new) = claimed(desk, &key, path, &session).await?;
    let from = row.length.min(session.log().len() as u64);
    let count = session.log().len() as u64 - from;
    if count > 0 {
        append(desk, &row, &session, from, progress).await?;
    }
    let row = desk.thread(key.thread.as_str()).await?;
    let name = path.display();
    let thread = paint.head(key.thread.as_str());
    let messages = session.log().len();
    let tokens = Tokens::new(row.tokens);
    let mut text = match (is_new, count) {
        (false, 0) => format!("{name} is in the store already, as thread {thread}: there is nothing to do.\n"),
        (false, _) => format!("{name} was half imported; the other {count} messages are in thread {thread} now.\n"),
        (true, _) => format!(
            "{name}: {}, {messages} message{}, {tokens} tokens, is thread {thread} now.\n",
            session.format().description(),
            plural(messages),
        ),
    };
    text.push_str(&notices(&session, paint));
    let json = json!({
        "file": name.to_string(), "thread": key.thread, "format": session.format().name(), "messages": messages,
        "tokens": row.tokens, "appended": count, "new": is_new, "notices": notices_json(&session),
    });
    Ok((text, json))
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
async fn claimed(desk: &Desk, key: &ThreadKey, path: &Path, session: &Session) -> Result<(ThreadRow, bool), Failure> {
    if let Some(row) = desk.log().thread(key).await? {
        let same = match Source::of(desk, &key.thread).await? {
            Some(source) => source.text(desk).await? == session.source().as_str(),
            None => false,
        };
        return if same { Ok((row, false)) } else { Err(taken(path, &key.thread)) };
    }
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let writes = Source::keep(desk, &key.thread, file, session).await?;
    desk.log().apply(&writes).await?;
    let new = NewThread {
        key: key.clone(),
        dialect: session.format().name().to_owned(),
        counter: desk.engine.counter_label().to_owned(),
        at: Moment::now(),
        labels: Value::Null,
    };
    Ok((desk.log().create(new).await?, true))
}

fn taken(path: &Path, thread: &ThreadId) -> Failure {
    Failure::new(
        Exit::CannotFit,
        format!("{} cannot become thread {thread}: there is one with other content.", path.display()),
    )
    .hint("Name a new one with `--thread`.")
}

/// Appends a session's messages from a place on, each batch with its index.
async fn append(
    desk: &Desk,
    row: &ThreadRow,
    session: &Session,
    from: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    let thread = thread_of(desk, session);
    let at = Moment::now();
    let count = thread.len();
    let mut next = usize::try_from(from).unwrap_or(count);
    while next < count {
        let start = next;
        let (mut rows, mut index, mut bytes) = (Vec::new(), Vec::new(), 0);
        while next < count && rows.len() < BATCH_MESSAGES_MAX && bytes < BATCH_BYTES_MAX {
            let message = message_row(desk, row, session, &thread, next, at);
            bytes += message.body.len();
            rows.push(message);
            if session.log()[next].copy_of.is_none() {
                let words = words_of(thread.message(next).parts());
                index.extend(index_rows(desk.log().vault(), &row.key.tenant, next as u64, &words));
            }
            next += 1;
        }
        let tokens = total(&rows);
        let mut writes = vec![Write::Append { key: row.key.clone(), messages: rows, tokens }];
        if !index.is_empty() {
            writes.push(Write::Index { key: row.key.clone(), rows: index });
        }
        desk.log().apply(&writes).await?;
        progress.now(format!("Importing messages {} to {next} of {count}", start + 1));
    }
    Ok(())
}

fn thread_of(desk: &Desk, session: &Session) -> Thread {
    let numbered =
        |(at, logged): (usize, &LogMessage)| NewMessage { number: Some(at + 1), ..NewMessage::clone(&logged.message) };
    let messages = session.log().iter().enumerate().map(numbered).collect();
    let mut thread = Thread::new();
    thread.extend(messages, &Meter::new(&**desk.engine.counter(), dialect(session)));
    thread
}

fn message_row(desk: &Desk, row: &ThreadRow, session: &Session, thread: &Thread, at: usize, now: Moment) -> MessageRow {
    let message = thread.message(at);
    match session.format() {
        Format::List(_) => desk.log().message_row(&row.key, message, &[], now),
        _ => {
            let entry = Entry {
                place: at as u64,
                id: message.id(),
                turn: message.turn(),
                part_tokens: (0..message.parts().len()).map(|part| message.part_tokens(part)).collect(),
                at: now,
                message: NewMessage::clone(&session.log()[at].message),
            };
            desk.log().foreign_row(&row.key, &entry)
        }
    }
}
