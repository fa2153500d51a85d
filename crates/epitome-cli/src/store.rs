//! The artifact folder: what left a prompt, each thing under the hash of its bytes, and one record for each compaction.
//!
//! Things are only ever added. An object is there whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use epitome::plan::{ArtifactId, Compaction};
use epitome::render::{Piece, Prompt};
use epitome::session::Session;
use epitome::thread::Thread;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, words};
use crate::write::{Origin, replace, sweep};

/// The folder's name beside a session.
const FOLDER: &str = ".epitome";

/// An artifact folder; it need not exist yet.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
}

/// What is kept of one compaction.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// When it was made.
    pub made: String,
    /// The name of the file it was made of.
    pub source: String,
    /// The name of the file it was written to.
    pub written_to: String,
    /// The last of the [`tips`] of the list that was written; `None` for a session, which has all its messages itself.
    pub tip: Option<ArtifactId>,
    /// The tip of the record of the list that this one was made of, where that was compacted too.
    #[serde(default)]
    pub earlier: Option<ArtifactId>,
    /// The plan, the summaries and the receipt.
    pub compaction: Value,
    /// Where each message that is no longer in the prompt as it was is kept, by its number: `m41`.
    pub messages: BTreeMap<String, Kept>,
    /// Where each message that stayed stands in the prompt, from 1, by its number.
    pub stayed: BTreeMap<String, usize>,
    /// The parts that left one by one.
    pub parts: Vec<KeptPart>,
}

/// Where a message is kept: a line of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The object.
    pub object: ArtifactId,
    /// The line in it, from 1.
    pub line: usize,
}

/// A part that is kept as an object of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptPart {
    /// The object.
    pub object: ArtifactId,
    /// The message it is from: `m41`.
    pub message: String,
}

/// What was put into a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// How many objects.
    pub objects: usize,
    /// Their size together.
    pub bytes: usize,
}

/// What is to be kept of a compaction: objects, and where to find what in them.
pub struct Parcel {
    objects: BTreeMap<ArtifactId, String>,
    messages: BTreeMap<String, Kept>,
    stayed: BTreeMap<String, usize>,
    parts: Vec<KeptPart>,
}

impl Parcel {
    /// Everything that a compaction took out of a thread's prompt or changed in it.
    pub fn of(compaction: &Compaction, thread: &Thread, prompt: &Prompt) -> Self {
        let stayed = prompt.pieces.iter().enumerate().filter_map(|(at, piece)| match piece {
            Piece::Kept(place) => Some((thread.reference(*place), at + 1)),
            _ => None,
        });
        let stayed = stayed.collect();
        let mut parcel = Parcel { objects: BTreeMap::new(), messages: BTreeMap::new(), stayed, parts: Vec::new() };
        for artifact in compaction.artifacts(thread) {
            parcel.objects.insert(artifact.id.clone(), artifact.content.to_owned());
            parcel.parts.push(KeptPart { object: artifact.id, message: thread.reference(artifact.place) });
        }
        for record in compaction.plan.records.iter().filter(|record| record.part.is_none()) {
            parcel.add_messages(&record.span.range().collect::<Vec<usize>>(), thread);
        }
        let is_known = |place: &usize| {
            let number = thread.reference(*place);
            parcel.stayed.contains_key(&number) || parcel.messages.contains_key(&number)
        };
        let changed: Vec<usize> = (0..thread.len()).filter(|place| !is_known(place)).collect();
        parcel.add_messages(&changed, thread);
        parcel
    }

    /// Messages as they came, one a line, as one object.
    fn add_messages(&mut self, places: &[usize], thread: &Thread) {
        if places.is_empty() {
            return;
        }
        let lines: String = places.iter().map(|place| one_line(thread.message(*place).raw().as_str())).collect();
        let object = ArtifactId::of(lines.as_bytes());
        for (at, place) in places.iter().enumerate() {
            self.messages.insert(thread.reference(*place), Kept { object: object.clone(), line: at + 1 });
        }
        self.objects.insert(object, lines);
    }

    /// How much it is.
    pub fn size(&self) -> Stored {
        Stored { objects: self.objects.len(), bytes: self.objects.values().map(String::len).sum() }
    }
}

/// JSON on one line. Line breaks in JSON stand between values only, so a blank says the same.
fn one_line(json: &str) -> String {
    format!("{}\n", json.replace(['\n', '\r'], " "))
}

impl Store {
    /// The folder that was named, or the one beside a file.
    pub fn of(named: Option<&Path>, file: &Path) -> Self {
        Store { dir: named.map_or_else(|| file.with_file_name(FOLDER), Path::to_owned) }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps a parcel and the record of its compaction. Answers the record's id.
    pub fn put(&self, parcel: Parcel, mut record: Record) -> Result<ArtifactId, Failure> {
        self.make_folders()?;
        for (id, content) in &parcel.objects {
            let path = self.object(id);
            if fs::metadata(&path).is_ok_and(|meta| meta.len() == content.len() as u64) {
                continue;
            }
            replace(&path, &[content], Origin::Nothing)?;
        }
        (record.messages, record.stayed, record.parts) = (parcel.messages, parcel.stayed, parcel.parts);
        let json = serde_json::to_string_pretty(&record).unwrap_or_default();
        let id = ArtifactId::of(json.as_bytes());
        replace(&self.dir.join("compactions").join(format!("{id}.json")), &[&json], Origin::Nothing)?;
        Ok(id)
    }

    /// What was in the conversation is nobody else's affair, nor version control's. A folder that was there already is
    /// its owner's to hide.
    fn make_folders(&self) -> Result<(), Failure> {
        let is_new = !self.dir.exists();
        let made = |path: &Path| {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(path).map_err(|error| Failure::unwritable(&self.dir, words(&error)))
        };
        for folder in ["objects", "compactions"].map(|name| self.dir.join(name)) {
            made(&folder)?;
            sweep(&folder, |_| true);
        }
        if is_new {
            replace(&self.dir.join(".gitignore"), &["*\n"], Origin::Nothing)?;
        }
        Ok(())
    }

    fn object(&self, id: &ArtifactId) -> PathBuf {
        self.dir.join("objects").join(id.as_str())
    }

    /// An object's content. What is not what its name says was changed, or is a link to somewhere else: there is none.
    pub fn get(&self, id: &ArtifactId) -> Option<String> {
        fs::read_to_string(self.object(id)).ok().filter(|content| ArtifactId::of(content.as_bytes()) == *id)
    }

    /// The newest record of the compaction that a list was written by; it may have grown since. Where two compactions
    /// wrote the same, the one to a file of this name.
    pub fn newest_for(&self, list: &Session, name: &str) -> Option<Record> {
        let tips = tips(list);
        let rank = |record: &Record| {
            let grown_from = tips.iter().position(|tip| record.tip.as_ref() == Some(tip))?;
            Some((grown_from, record.written_to == name, record.made.clone()))
        };
        let ranked = self.records().into_iter().filter_map(|record| Some((rank(&record)?, record)));
        ranked.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, record)| record)
    }

    /// The records of all compactions that made a list, newest first.
    pub fn chain_for(&self, list: &Session, name: &str) -> Vec<Record> {
        let mut chain: Vec<Record> = self.newest_for(list, name).into_iter().collect();
        let mut others = self.records();
        while let Some(earlier) = chain.last().and_then(|record| record.earlier.clone()) {
            // Each is taken once: a chain that bites its tail ends.
            let Some(at) = others.iter().position(|record| record.tip.as_ref() == Some(&earlier)) else { break };
            chain.push(others.swap_remove(at));
        }
        chain
    }

    fn records(&self) -> Vec<Record> {
        let Ok(entries) = fs::read_dir(self.dir.join("compactions")) else { return Vec::new() };
        let read = |path: PathBuf| serde_json::from_str::<Record>(&fs::read_to_string(path).ok()?).ok();
        entries.filter_map(|entry| read(entry.ok()?.path())).collect()
    }

    /// The JSON of a message that left whole.
    pub fn message(&self, kept: &Kept) -> Option<String> {
        self.get(&kept.object)?.lines().nth(kept.line - 1).map(str::to_owned)
    }
}

/// The hash of each message of a file together with all before it. A file that grows keeps the tips it had, however
/// its JSON is laid out.
pub fn tips(session: &Session) -> Vec<ArtifactId> {
    let mut tips: Vec<ArtifactId> = Vec::new();
    for logged in session.log() {
        let before = tips.last().map(ArtifactId::as_str).unwrap_or_default();
        tips.push(ArtifactId::of(format!("{before}\n{}", without_layout(logged.message.raw.as_str())).as_bytes()));
    }
    tips
}

fn without_layout(json: &str) -> String {
    serde_json::from_str::<Value>(json).map_or_else(|_| json.to_owned(), |value| value.to_string())
}

/// The name of a file without its folder.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
