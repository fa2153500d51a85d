//! `epitome export`: a thread of the store as a file.

use std::path::Path;

use epitome::wire::{Document, PromptMessage};
use epitome_runtime::log::{LogEntry, wire_dialect};
use epitome_runtime::store::{DocumentKey, ThreadRow};
use epitome_runtime::upkeep::documents_of;
use serde_json::{Value, json};

use crate::cli::{ExportArgs, ExportFormat, StoreOptions};
use crate::failure::{Answer, Exit, Failure};
use crate::imported_file::ImportedFile;
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::receipt::count;
use crate::write::{Origin, may_create, replace};

/// Messages read in one query.
const PAGE: u64 = 512;

pub fn run(args: &ExportArgs, config: Option<&Path>) -> Result<Answer, Failure> {
    wait(async {
        args.output.as_deref().map_or(Ok(()), |out| may_create(out, args.overwrite))?;
        let store = OpenStore::open(config, &args.store_options, IfMissing::Fail).await?;
        let row = store.require_thread(&args.thread).await?;
        let (what, data) = match args.format {
            Some(ExportFormat::Jsonl) => {
                ("the log, one message a line", entries(&store, &row).await?.iter().map(log_line).collect())
            }
            Some(ExportFormat::Documents) => ("its documents, one a line", documents(&store, &row).await?),
            None => file(&store, &row).await?,
        };
        let messages = count(row.length as usize, "message");
        let mut answer = Answer::new(
            format!("Thread {}: {messages}, written as {what}.\n", row.key.thread),
            json!({"thread": row.key.thread, "dialect": row.dialect, "messages": row.length, "written_as": what, "bytes": data.len()}),
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

/// Reads a thread of the store, as the file that `epitome export` would write.
pub(super) fn stored_text(thread: &Path, options: &StoreOptions, config: Option<&Path>) -> Result<String, Failure> {
    wait(async {
        let store = OpenStore::open(config, options, IfMissing::Fail).await?;
        let row = store.require_thread(&thread.to_string_lossy()).await?;
        Ok(file(&store, &row).await?.1)
    })
}

/// Writes the imported file, with what was added to the thread since; without a file, a message list.
async fn file(store: &OpenStore, row: &ThreadRow) -> Result<(&'static str, String), Failure> {
    let imported = ImportedFile::of(store, &row.key.thread).await?;
    let kept = imported.as_ref().map_or(0, |imported| imported.messages);
    let text = match imported {
        Some(imported) => Some(imported.text(store).await?),
        None => None,
    };
    if row.length <= kept
        && let Some(text) = text
    {
        return Ok(("the file it was imported from", text));
    }
    let Some(dialect) = wire_dialect(row) else { return Err(no_dialect(row)) };
    let entries = entries(store, row).await?;
    let kept = kept as usize;
    if let Some(text) = text
        && let Ok(document) = Document::decode(&text, Some(dialect))
        && document.items().len() == kept
    {
        let added = entries.iter().enumerate().skip(kept);
        let added = added.map(|(place, entry)| PromptMessage::Edited { place, json: entry.message.raw.to_string() });
        let items: Vec<PromptMessage> = (0..kept).map(PromptMessage::Kept).chain(added).collect();
        return Ok(("the file it was imported from, with what was added", document.encode(&items)));
    }
    let items: Vec<&str> = entries.iter().map(|entry| entry.message.raw.as_str()).collect();
    Ok(("a message list", format!("[\n{}\n]\n", items.join(",\n"))))
}

fn no_dialect(row: &ThreadRow) -> Failure {
    let sentence = format!("Thread {} is a {} session, and its file is not in the store.", row.key.thread, row.dialect);
    Failure::new(Exit::CannotFit, sentence).hint("`--format jsonl` writes its log.")
}

async fn entries(store: &OpenStore, row: &ThreadRow) -> Result<Vec<LogEntry>, Failure> {
    let mut entries = Vec::new();
    for start in (0..row.length).step_by(PAGE as usize) {
        entries.extend(store.log().read(row, start..(start + PAGE).min(row.length)).await?);
    }
    Ok(entries)
}

/// Writes every document of a thread: its kind, its name in the store and its content.
async fn documents(store: &OpenStore, row: &ThreadRow) -> Result<String, Failure> {
    let line = |(key, content): (DocumentKey, Vec<u8>)| {
        let content: Value = serde_json::from_slice(&content).unwrap_or_default();
        json!({"kind": key.kind.name(), "name": key.name, "content": content}).to_string() + "\n"
    };
    Ok(documents_of(store.log(), &row.key).await?.into_iter().map(line).collect())
}

/// Writes one message: place, id, role, and its JSON as it came.
fn log_line(entry: &LogEntry) -> String {
    let raw = entry.message.raw.as_str();
    let id = entry.id.to_string();
    json!({"place": entry.place, "id": id, "role": entry.message.role.name(), "raw": raw}).to_string() + "\n"
}
