//! Replayable results: file reads that may be cleared only while the file on disk is still what was read.
//!
//! ```text
//! m12 read src/cart.rs      what was read, hashed    ─┐ equal: it may be cleared, reading again gives the same
//!     src/cart.rs on disk   the same lines, hashed   ─┘ drifted, gone or unreadable: it stays
//! ```
//!
//! Files are opened for results that the policy declares replayable, and for no others. Nothing of them is kept but a hash.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use epitome::Conversation;
use epitome::files::FileView;
use epitome::plan::ArtifactId;
use epitome::policy::Tools;
use epitome::thread::{Determinism, Durability};
use serde::Deserialize;

/// Larger files are not compared; what was read of them stays.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The lines of a session in which its folder is looked for.
const LINES_LOOKED_AT_MAX: usize = 64;

/// Notes in a conversation what each replayable file read showed, and returns how the files stand now, by call id.
pub fn compare_files(conversation: &mut Conversation, tools: &Tools) -> BTreeMap<String, Determinism> {
    let (mut then, mut now) = (BTreeMap::new(), BTreeMap::new());
    let mut folder = None;
    let thread = &conversation.thread;
    for (place, message) in thread.messages().iter().enumerate() {
        for (_, result) in message.results() {
            if tools.durability(result) != Durability::Replayable || result.determinism.is_some() {
                continue;
            }
            let Some(call) = thread.call_of(place, result) else { continue };
            let Some(view) = FileView::of(tools, call, result) else { continue };
            let folder = folder.get_or_insert_with(|| folder_of(conversation));
            then.insert(result.call_id.to_string(), hashed(&view.lines));
            if let Some(lines) = lines_on_disk(&folder.join(&view.path), &view) {
                now.insert(result.call_id.to_string(), hashed(&lines));
            }
        }
    }
    conversation.thread.note_determinism(&then);
    now
}

fn hashed<T: AsRef<str>>(lines: &[T]) -> Determinism {
    let pieces = lines.iter().flat_map(|line| [line.as_ref().as_bytes(), b"\n"]);
    let hash = ArtifactId::of_pieces(pieces).as_str().to_owned();
    Determinism { content_hash: Some(hash), ..Determinism::default() }
}

/// Returns the lines of a file that a view showed, as they are now; `None` if the file cannot be read.
fn lines_on_disk(path: &Path, view: &FileView) -> Option<Vec<String>> {
    fs::metadata(path).ok().filter(|about| about.is_file() && about.len() <= FILE_BYTES_MAX)?;
    let text = fs::read_to_string(path).ok()?;
    let lines = text.lines().map(str::to_owned);
    Some(if view.is_whole { lines.collect() } else { lines.skip(view.first_line - 1).take(view.lines.len()).collect() })
}

/// Returns the folder that relative paths of a session are meant from: the one that it names, or the working folder.
fn folder_of(conversation: &Conversation) -> PathBuf {
    #[derive(Deserialize)]
    struct Entry {
        cwd: Option<PathBuf>,
        payload: Option<Payload>,
    }
    #[derive(Deserialize)]
    struct Payload {
        cwd: Option<PathBuf>,
    }
    let entries = conversation.session.entries().iter().take(LINES_LOOKED_AT_MAX);
    let read = |json: &str| serde_json::from_str::<Entry>(json).ok();
    let mut named = entries.filter_map(|entry| {
        let entry = read(entry.raw.as_str())?;
        entry.cwd.or(entry.payload?.cwd)
    });
    named.next().unwrap_or_default()
}
