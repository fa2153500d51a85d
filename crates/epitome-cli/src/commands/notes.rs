//! `epitome notes`: what is noted about a thread, shown, or changed and shown.

use std::path::Path;

use epitome_runtime::engine::NoteChange;
use serde_json::json;

use crate::cli::NotesArgs;
use crate::failure::{Answer, Result};
use crate::open_store::{IfMissing, OpenStore, wait};

pub fn run(args: &NotesArgs, config: Option<&Path>) -> Result<Answer> {
    wait(async {
        let store = OpenStore::open(config, &args.store_options, IfMissing::Fail).await?;
        let row = store.require_thread(&args.thread).await?;
        let mut thread = store.engine.resume(&store.access, row.key.thread.clone()).await?;
        for change in changes(args) {
            thread.annotate(&change).await?;
        }
        let notes = thread.notes().await?;
        Ok(Answer::new(notes.to_string(), json!({"thread": row.key.thread, "notes": notes})))
    })
}

/// Returns the changes in the order of the help.
fn changes(args: &NotesArgs) -> Vec<NoteChange> {
    let hide = args.hide.iter().zip(&args.with);
    let mut changes: Vec<NoteChange> =
        hide.map(|(message, text)| NoteChange::Hide { message: message.clone(), text: text.clone() }).collect();
    changes.extend(args.show.iter().map(|message| NoteChange::Show { message: message.clone() }));
    changes.extend(args.pin.iter().map(|text| NoteChange::Pin { text: text.clone() }));
    changes.extend(args.unpin.iter().map(|text| NoteChange::Unpin { text: text.clone() }));
    changes.extend(args.remember.iter().map(|text| NoteChange::Remember { text: text.clone() }));
    changes.extend(args.completed.map(|completed| NoteChange::EndTask { completed }));
    changes
}
