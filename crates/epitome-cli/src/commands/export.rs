//! `epitome export`: a thread of the store as a file.

use std::path::Path;

use epitome::wire::{Document, PromptMessage};
use epitome_runtime::log::{LogEntry, wire_dialect};
use epitome_runtime::store::ThreadRow;
use epitome_runtime::upkeep::documents_of;
use serde_json::{Value, json};

use crate::cli::{Export, ExportFormat};
use crate::failure::{Answer, Exit, Failure};
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::receipt::plural;
use crate::source::Source;
use crate::write::{Origin, may_create, replace};

/// Messages are read so many at once.
const PAGE: u64 = 512;

/// Exports.
pub fn run(args: &Export, config: Option<&Path>) -> Result<Answer, Failure> {
    wait(async {
        args.output.as_deref().map_or(Ok(()), |out| may_create(out, args.overwrite))?;
        let open_store = OpenStore::open(config, &args.store_args, IfMissing::Fail).await?;
        let row = open_store.thread(&args.thread).await?;
        let (what, data) = match args.format {
            Some(ExportFormat::Jsonl) => ("the log, one message a line", lines(&open_store, &row).await?),
            Some(ExportFormat::Documents) => {
                ("what is kept beside them, one a line", documents(&open_store, &row).await?)
            }
            None => written(&open_store, &row).await?,
        };
        let count = row.length as usize;
        let mut answer = Answer::new(
            format!("Thread {}: {count} message{}, written as {what}.\n", row.key.thread, plural(count)),
            json!({"thread": row.key.thread, "dialect": row.dialect, "messages": count, "written_as": what, "bytes": data.len()}),
        );
        match args.output.as_deref().filter(|out| *out != Path::new("-")) {
            Some(out) => {
                replace(out, &[&data], Origin::Nothing)?;
                answer.json["to"] = json!(out.display().to_string());
            }
            None => answer.data = Some(data),
        }
        Ok(answer)
    })
}

/// The imported file while nothing was added to it, else a message list.
async fn written(open_store: &OpenStore, row: &ThreadRow) -> Result<(&'static str, String), Failure> {
    let source = Source::of(open_store, &row.key.thread).await?;
    if source.as_ref().is_some_and(|source| row.length <= source.messages)
        && let Some(source) = source
    {
        return Ok(("the file it was imported from", source.text(open_store).await?));
    }
    let Some(dialect) = wire_dialect(row) else { return Err(foreign(row)) };
    let entries = entries(open_store, row).await?;
    let kept = source.as_ref().map_or(0, |source| source.messages as usize);
    if let Some(source) = source
        && let Ok(document) = Document::decode(&source.text(open_store).await?, Some(dialect))
        && document.items().len() == kept
    {
        let added = entries.iter().enumerate().skip(kept);
        let added = added.map(|(place, entry)| PromptMessage::Edited { place, json: entry.message.raw.to_string() });
        let items: Vec<PromptMessage> = (0..kept).map(PromptMessage::Kept).chain(added).collect();
        return Ok(("the file it was imported from, with what was added", document.encode(&items)));
    }
    Ok(("a message list", list(&entries)))
}

fn foreign(row: &ThreadRow) -> Failure {
    let sentence = format!("Thread {} is in the format {}, and its file is not kept.", row.key.thread, row.dialect);
    Failure::new(Exit::CannotFit, sentence).hint("`--format jsonl` writes its log.")
}

/// A JSON list, one message a line.
fn list(entries: &[LogEntry]) -> String {
    let items: Vec<&str> = entries.iter().map(|entry| entry.message.raw.as_str()).collect();
    format!("[\n{}\n]\n", items.join(",\n"))
}

async fn entries(open_store: &OpenStore, row: &ThreadRow) -> Result<Vec<LogEntry>, Failure> {
    let mut entries = Vec::new();
    for start in (0..row.length).step_by(PAGE as usize) {
        entries.extend(open_store.log().read(row, start..(start + PAGE).min(row.length)).await?);
    }
    Ok(entries)
}

async fn lines(open_store: &OpenStore, row: &ThreadRow) -> Result<String, Failure> {
    Ok(entries(open_store, row).await?.iter().map(line).collect())
}

/// Everything that is kept beside the messages, of every kind: its kind, its name in the store and its content.
async fn documents(open_store: &OpenStore, row: &ThreadRow) -> Result<String, Failure> {
    let line = |(key, content): (epitome_runtime::store::DocumentKey, Vec<u8>)| {
        let content: Value = serde_json::from_slice(&content).unwrap_or_default();
        json!({"kind": key.kind.name(), "name": key.name, "content": content}).to_string() + "\n"
    };
    Ok(documents_of(open_store.log(), &row.key).await?.into_iter().map(line).collect())
}

/// One message with its place, id and role, and its JSON as it came.
fn line(entry: &LogEntry) -> String {
    let raw = entry.message.raw.as_str();
    let id = entry.id.to_string();
    json!({"place": entry.place, "id": id, "role": entry.message.role.name(), "raw": raw}).to_string() + "\n"
}
