//! The artifact folder: what left a prompt, each thing under the hash of its bytes, and one record for each compaction.
//!
//! Things are only ever added. An object is there whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use epitome::plan::{ArtifactId, Compaction};
use epitome::render::Prompt;
use epitome::session::Session;
use epitome::thread::Thread;
use epitome::wire::PromptMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, words};
use crate::find::reference;
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
    /// The same for each message that stayed with something in it changed; as it came it is among `messages`, here or in
    /// an earlier record.
    #[serde(default)]
    pub edited: BTreeMap<String, usize>,
    /// Summaries of earlier rounds and other words of theirs, which have no number.
    #[serde(default)]
    pub unnumbered: Vec<Kept>,
    /// How the numbers are meant.
    #[serde(default)]
    pub numbering: Numbering,
    /// The first number that no message has.
    #[serde(default)]
    pub next: usize,
    /// The parts that left one by one.
    pub parts: Vec<KeptPart>,
}

/// What the numbers of a record mean, where the list was compacted before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbering {
    /// Each round counted the list from 1 again; records that say nothing are such.
    #[default]
    EachRound,
    /// A message keeps its number.
    Lasting,
}

impl Record {
    /// Whether its numbers are those that every later round means.
    pub fn is_lasting(&self) -> bool {
        self.numbering == Numbering::Lasting || self.earlier.is_none()
    }

    /// The first number that no message has.
    pub fn next_number(&self) -> usize {
        let known = self.messages.keys().chain(self.stayed.keys()).chain(self.edited.keys());
        let last = known.filter_map(|id| reference(id, 'm')).max().unwrap_or(0);
        self.next.max(last + 1)
    }
}

/// The compactions that made a list, newest first.
#[derive(Debug, Default)]
pub struct Chain {
    records: Vec<Record>,
    /// How many messages the list had when the newest was written.
    length: usize,
}

impl Chain {
    /// The newest record store_args numbers can be gone on from.
    pub fn newest(&self) -> Option<&Record> {
        self.records.first().filter(|record| record.is_lasting())
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Where a message is kept as it came: the first compaction that took or changed it has it so.
    pub fn kept(&self, id: &str) -> Option<&Kept> {
        self.records.iter().rev().find_map(|record| record.messages.get(id))
    }

    /// The numbers of the list's messages, by place; 0 for what compactions wrote. `None` where they are not known.
    pub fn numbers(&self, list: &Session) -> Option<Vec<usize>> {
        let newest = self.newest()?;
        let places = newest.stayed.iter().chain(&newest.edited);
        let known: BTreeMap<usize, usize> =
            places.filter_map(|(id, place)| Some((*place, reference(id, 'm')?))).collect();
        let number = |place: usize| match place <= self.length {
            true => known.get(&place).copied().unwrap_or(0),
            false => newest.next_number() + place - self.length - 1,
        };
        Some((1..=list.log().len()).map(number).collect())
    }
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
pub struct RemovedContent {
    objects: BTreeMap<ArtifactId, String>,
    messages: BTreeMap<String, Kept>,
    stayed: BTreeMap<String, usize>,
    edited: BTreeMap<String, usize>,
    unnumbered: Vec<Kept>,
    parts: Vec<KeptPart>,
    next: usize,
}

impl RemovedContent {
    /// Everything that a compaction took out of a thread's prompt or changed in it. What an earlier compaction keeps as it
    /// came is not kept again in its shorter form.
    pub fn of(compaction: &Compaction, thread: &Thread, prompt: &Prompt, earlier: &Chain) -> Self {
        let mut removed = RemovedContent {
            objects: BTreeMap::new(),
            messages: BTreeMap::new(),
            stayed: BTreeMap::new(),
            edited: BTreeMap::new(),
            unnumbered: Vec::new(),
            parts: Vec::new(),
            next: next_number(thread, earlier),
        };
        for (at, message) in prompt.messages.iter().enumerate() {
            let (places, place) = match message {
                PromptMessage::Kept(place) => (&mut removed.stayed, *place),
                PromptMessage::Edited { place, .. } => (&mut removed.edited, *place),
                PromptMessage::Written { .. } => continue,
            };
            if thread.message(place).number() > 0 {
                places.insert(thread.reference(place), at + 1);
            }
        }
        // What stays in a form that an earlier compaction gave it is still not there as it came.
        for (id, place) in removed.stayed.clone() {
            if earlier.kept(&id).is_some() {
                removed.stayed.remove(&id);
                removed.edited.insert(id, place);
            }
        }
        for artifact in compaction.artifacts(thread) {
            removed.objects.insert(artifact.id.clone(), artifact.content.to_owned());
            removed.parts.push(KeptPart { object: artifact.id, message: thread.reference(artifact.place) });
        }
        let is_new = |place: &usize| earlier.kept(&thread.reference(*place)).is_none();
        // Those that left or stand in the prompt as they are.
        let mut known = vec![false; thread.len()];
        for message in &prompt.messages {
            if let PromptMessage::Kept(place) = message {
                known[*place] = true;
            }
        }
        for record in compaction.plan.records.iter().filter(|record| record.part.is_none()) {
            let range = record.span.range();
            known[range.clone()].fill(true);
            removed.add_messages(&range.filter(is_new).collect::<Vec<usize>>(), thread);
        }
        let changed: Vec<usize> = (0..thread.len()).filter(|place| !known[*place] && is_new(place)).collect();
        removed.add_messages(&changed, thread);
        removed
    }

    /// Messages as they came, one a line, as one object.
    fn add_messages(&mut self, places: &[usize], thread: &Thread) {
        if places.is_empty() {
            return;
        }
        let lines: String = places.iter().map(|place| one_line(thread.message(*place).raw().as_str())).collect();
        let object = ArtifactId::of(lines.as_bytes());
        for (at, place) in places.iter().enumerate() {
            let kept = Kept { object: object.clone(), line: at + 1 };
            match thread.message(*place).number() {
                0 => self.unnumbered.push(kept),
                _ => drop(self.messages.insert(thread.reference(*place), kept)),
            }
        }
        self.objects.insert(object, lines);
    }

    /// How much it is.
    pub fn size(&self) -> Stored {
        Stored { objects: self.objects.len(), bytes: self.objects.values().map(String::len).sum() }
    }
}

/// The first number that neither a message of the thread nor an earlier one has.
fn next_number(thread: &Thread, earlier: &Chain) -> usize {
    let last = thread.messages().iter().map(|message| message.number()).max().unwrap_or(0);
    earlier.newest().map_or(1, Record::next_number).max(last + 1)
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

    /// Keeps a removed and the record of its compaction. Answers the record's id.
    pub fn put(&self, removed: RemovedContent, mut record: Record) -> Result<ArtifactId, Failure> {
        self.make_folders()?;
        for (id, content) in &removed.objects {
            let path = self.object(id);
            if fs::metadata(&path).is_ok_and(|meta| meta.len() == content.len() as u64) {
                continue;
            }
            replace(&path, &[content], Origin::Nothing)?;
        }
        (record.messages, record.stayed, record.parts) = (removed.messages, removed.stayed, removed.parts);
        (record.edited, record.unnumbered, record.next) = (removed.edited, removed.unnumbered, removed.next);
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

    /// The records of all compactions that made a list, newest first. It may have grown since the newest; where two wrote
    /// the same, the one to a file of this name counts.
    pub fn chain_for(&self, list: &Session, name: &str) -> Chain {
        let mut others = self.records();
        if others.is_empty() {
            return Chain::default();
        }
        let tips = tips(list);
        let rank = |record: &Record| {
            let grown_from = tips.iter().position(|tip| record.tip.as_ref() == Some(tip))?;
            Some((grown_from, record.written_to == name, record.made.clone()))
        };
        let ranked = others.iter().enumerate().filter_map(|(at, record)| Some((rank(record)?, at)));
        let Some(((grown_from, ..), newest)) = ranked.max() else { return Chain::default() };
        let mut chain = Chain { records: vec![others.swap_remove(newest)], length: grown_from + 1 };
        while let Some(earlier) = chain.records.last().and_then(|record| record.earlier.clone()) {
            // Each is taken once: a chain that bites its tail ends.
            let Some(at) = others.iter().position(|record| record.tip.as_ref() == Some(&earlier)) else { break };
            chain.records.push(others.swap_remove(at));
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
