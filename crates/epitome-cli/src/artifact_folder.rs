//! The artifact folder beside a file: the content that compactions removed, and a record of each compaction.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use epitome::plan::{ArtifactId, Compaction};
use epitome::render::Prompt;
use epitome::session::Session;
use epitome::thread::Thread;
use epitome::wire::PromptMessage;
use epitome_runtime::summarize::Prose;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, Result, words};
use crate::find_message::parse_reference;
use crate::write::{Origin, replace, sweep};

/// The folder's name beside a session.
const FOLDER: &str = ".epitome";
/// The folder of its index.
const TIPS: &str = "tips";

/// The folder that content goes to when it leaves a prompt. It need not exist yet.
///
/// ```text
/// .epitome/.gitignore                  `*`, if the folder was created here
/// .epitome/objects/HASH                one part, or the messages of one span, a line each
/// .epitome/compactions/HASH.json       a CompactionRecord
/// .epitome/tips/TIP.HASH               an empty file: the record with that hash is of the list with that tip
/// .epitome/summaries/HASH.json         what a model answered to the request of that hash
/// ```
///
/// Files are named after their content and only ever added, so a reader never sees half of one, two runs on one folder
/// cannot disturb each other, and a changed object is noticed because its name no longer fits.
#[derive(Debug)]
pub struct ArtifactFolder {
    dir: PathBuf,
}

/// One compaction: what was made of which file, and where its messages are now.
///
/// An agent's session holds its whole log, so its record is a receipt. A list does not: its records are the only place that
/// knows which message was `m41`. They form a chain: `tip` names the list that was written, `earlier` the tip of the list
/// that it was made of. See [`RecordChain`].
#[derive(Debug, Serialize, Deserialize)]
pub struct CompactionRecord {
    /// The time it was made.
    pub made: String,
    /// The name of the file that was compacted.
    pub source: String,
    pub written_to: String,
    /// The last of the [`tips`] of the list that was written; `None` for a session.
    pub tip: Option<ArtifactId>,
    #[serde(default)]
    pub earlier: Option<ArtifactId>,
    /// The plan, the summaries and the receipt.
    pub compaction: Value,
    /// What tools did in the messages that were summarized.
    #[serde(default)]
    pub digest: Value,
    #[serde(default)]
    pub numbering: Numbering,
    #[serde(flatten)]
    pub places: MessagePlaces,
}

/// The present places of the messages of a compacted file, by number: `m41`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MessagePlaces {
    /// Messages that are in the prompt no more, or not as they were.
    pub messages: BTreeMap<String, MessageLocation>,
    /// Places in the prompt, from 1, of messages that stayed as they were.
    pub stayed: BTreeMap<String, usize>,
    /// Places in the prompt, from 1, of messages that stayed with something in them changed. The original is among
    /// `messages`, here or in an earlier record.
    #[serde(default)]
    pub edited: BTreeMap<String, usize>,
    /// Summaries and other texts of earlier rounds, which have no number.
    #[serde(default)]
    pub unnumbered: Vec<MessageLocation>,
    /// The first number that no message has.
    #[serde(default)]
    pub next: usize,
    /// The parts that left one by one.
    pub parts: Vec<StoredPart>,
}

/// The numbering of messages in a list that was compacted before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbering {
    /// From 1 again in each round, as records did before they said so.
    #[default]
    EachRound,
    /// A message keeps its number.
    Lasting,
}

impl CompactionRecord {
    /// Returns the first number that no message has.
    pub fn next_number(&self) -> usize {
        let MessagePlaces { messages, stayed, edited, next, .. } = &self.places;
        let known = messages.keys().chain(stayed.keys()).chain(edited.keys());
        let last = known.filter_map(|id| parse_reference(id, 'm')).max().unwrap_or(0);
        (*next).max(last + 1)
    }
}

/// The records of the compactions that made a list, newest first.
///
/// A list grows between compactions, so `length` says how many of its messages the newest record knows. Messages after
/// those get the next free numbers. A number that was given once never means another message.
#[derive(Debug, Default)]
pub struct RecordChain {
    records: Vec<CompactionRecord>,
    length: usize,
}

impl RecordChain {
    /// Returns the newest record, if later rounds can continue its numbers.
    pub fn newest(&self) -> Option<&CompactionRecord> {
        self.records.first().filter(|record| record.numbering == Numbering::Lasting || record.earlier.is_none())
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of compactions that made the list.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns where a message is stored as it came: in the first compaction that removed or changed it.
    pub fn original(&self, id: &str) -> Option<&MessageLocation> {
        self.records.iter().rev().find_map(|record| record.places.messages.get(id))
    }

    /// Returns the numbers of the list's messages, by place; 0 for what compactions wrote. `None` where they are not known.
    pub fn numbers(&self, list: &Session) -> Option<Vec<usize>> {
        let newest = self.newest()?;
        let places = newest.places.stayed.iter().chain(&newest.places.edited);
        let known: BTreeMap<usize, usize> =
            places.filter_map(|(id, place)| Some((*place, parse_reference(id, 'm')?))).collect();
        let number = |place: usize| {
            if place <= self.length {
                known.get(&place).copied().unwrap_or(0)
            } else {
                newest.next_number() + place - self.length - 1
            }
        };
        Some((1..=list.log().len()).map(number).collect())
    }
}

/// A line of an object that holds messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageLocation {
    pub object: ArtifactId,
    /// From 1.
    pub line: usize,
}

/// A part that is an object of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredPart {
    pub object: ArtifactId,
    /// The message it is from: `m41`.
    pub message: String,
}

/// Everything that a compaction took out of a prompt or changed in it. Objects are pieces of the thread: most of a large
/// file leaves, and is not copied for that.
#[derive(Default)]
pub struct RemovedContent<'a> {
    objects: BTreeMap<ArtifactId, Vec<Cow<'a, str>>>,
    places: MessagePlaces,
}

impl<'a> RemovedContent<'a> {
    /// Collects the content that a compaction removes. A message whose original an earlier compaction stored is not stored
    /// again in its shorter form.
    pub fn of(compaction: &Compaction, thread: &'a Thread, prompt: &Prompt, earlier: &RecordChain) -> Self {
        let mut removed = RemovedContent::default();
        removed.places.next = next_number(thread, earlier);
        let is_new = |place: &usize| earlier.original(&thread.reference(*place)).is_none();
        // Messages that left, or stand in the prompt as they are.
        let mut accounted = vec![false; thread.len()];
        for (at, message) in prompt.messages.iter().enumerate() {
            let (place, is_edited) = match message {
                PromptMessage::Kept(place) => (*place, false),
                PromptMessage::Edited { place, .. } => (*place, true),
                PromptMessage::Written { .. } => continue,
            };
            accounted[place] |= !is_edited;
            if thread.message(place).number() > 0 {
                // A message that stays in the form that an earlier compaction gave it is still not as it came.
                let is_original = !is_edited && is_new(&place);
                let MessagePlaces { stayed, edited, .. } = &mut removed.places;
                if is_original { stayed } else { edited }.insert(thread.reference(place), at + 1);
            }
        }
        for artifact in compaction.artifacts(thread) {
            removed.objects.insert(artifact.id.clone(), vec![artifact.content.into()]);
            let part = StoredPart { object: artifact.id, message: thread.reference(artifact.place) };
            removed.places.parts.push(part);
        }
        for record in compaction.plan.records.iter().filter(|record| record.part.is_none()) {
            let range = record.span.range();
            accounted[range.clone()].fill(true);
            removed.add_messages(&range.filter(is_new).collect::<Vec<usize>>(), thread);
        }
        let changed: Vec<usize> = (0..thread.len()).filter(|place| !accounted[*place] && is_new(place)).collect();
        removed.add_messages(&changed, thread);
        removed
    }

    /// Adds messages as they came, one a line, as one object.
    fn add_messages(&mut self, places: &[usize], thread: &'a Thread) {
        if places.is_empty() {
            return;
        }
        let line = |place: &usize| [one_line(thread.message(*place).raw().as_str()), "\n".into()];
        let lines: Vec<Cow<'a, str>> = places.iter().flat_map(line).collect();
        let object = ArtifactId::of_pieces(lines.iter().map(|piece| piece.as_bytes()));
        for (at, place) in places.iter().enumerate() {
            let location = MessageLocation { object: object.clone(), line: at + 1 };
            if thread.message(*place).number() == 0 {
                self.places.unnumbered.push(location);
            } else {
                self.places.messages.insert(thread.reference(*place), location);
            }
        }
        self.objects.insert(object, lines);
    }

    /// Returns the number of objects and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.objects.len(), self.objects.values().map(|pieces| length(pieces)).sum())
    }
}

/// Returns the first number that neither a message of the thread nor an earlier one has.
fn next_number(thread: &Thread, earlier: &RecordChain) -> usize {
    let last = thread.messages().iter().map(|message| message.number()).max().unwrap_or(0);
    earlier.newest().map_or(1, CompactionRecord::next_number).max(last + 1)
}

/// Puts JSON on one line. Line breaks in JSON stand between values only, so a blank means the same.
fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json.into() }
}

fn length(pieces: &[Cow<'_, str>]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

impl ArtifactFolder {
    /// Returns the folder that was named, or the one beside a file.
    pub fn of(named: Option<&Path>, file: &Path) -> Self {
        ArtifactFolder { dir: named.map_or_else(|| file.with_file_name(FOLDER), Path::to_owned) }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores removed content, then the record of its compaction. Returns the record's id.
    pub fn put(&self, removed: RemovedContent<'_>, mut record: CompactionRecord) -> Result<ArtifactId> {
        self.create_folders(&["objects", "compactions"])?;
        self.index_tips()?;
        for (id, pieces) in &removed.objects {
            let path = self.object(id);
            if fs::metadata(&path).is_ok_and(|meta| meta.len() == length(pieces) as u64) {
                continue;
            }
            let pieces: Vec<&str> = pieces.iter().map(|piece| &**piece).collect();
            replace(&path, &pieces, Origin::Nothing)?;
        }
        record.places = removed.places;
        let json = serde_json::to_string_pretty(&record).unwrap_or_default();
        let id = ArtifactId::of(json.as_bytes());
        // First, so that no record is without it.
        index_tip(&self.dir.join(TIPS), &record, id.as_str())?;
        replace(&self.dir.join("compactions").join(format!("{id}.json")), &[&json], Origin::Nothing)?;
        Ok(id)
    }

    /// Indexes the records of a folder that has no index yet. It is built beside its place, so that a run that is killed leaves none.
    fn index_tips(&self) -> Result<()> {
        if self.dir.join(TIPS).exists() {
            return Ok(());
        }
        let building = format!("{TIPS}.{}", std::process::id());
        self.create_folders(&[&building])?;
        let folder = self.dir.join(building);
        self.all_records().iter().try_for_each(|(id, record)| index_tip(&folder, record, id))?;
        if fs::rename(&folder, self.dir.join(TIPS)).is_err() {
            // Another run was faster.
            let _ = fs::remove_dir_all(&folder);
        }
        Ok(())
    }

    /// Creates the folders, readable by their owner alone and ignored by version control. A folder that exists already is
    /// left to its owner's own settings.
    fn create_folders(&self, names: &[&str]) -> Result<()> {
        let is_new = !self.dir.exists();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        for folder in names.iter().map(|name| self.dir.join(name)) {
            builder.create(&folder).map_err(|error| Failure::unwritable(&self.dir, words(&error)))?;
            sweep(&folder, |_| true);
        }
        if is_new {
            replace(&self.dir.join(".gitignore"), &["*\n"], Origin::Nothing)?;
        }
        Ok(())
    }

    /// Reads what a model answered to a request before, unless that is longer ago than `age_max`.
    pub fn answer(&self, request: &str, age_max: Duration) -> Option<Prose> {
        let path = self.answer_path(request);
        let age = fs::metadata(&path).ok()?.modified().ok()?.elapsed().unwrap_or_default();
        let json = (age < age_max).then(|| fs::read_to_string(path).ok()).flatten()?;
        serde_json::from_str(&json).ok()
    }

    /// Stores what a model answered to a request.
    pub fn put_answer(&self, request: &str, prose: &Prose) -> Result<()> {
        self.create_folders(&["summaries"])?;
        let json = serde_json::to_string(prose).unwrap_or_default();
        replace(&self.answer_path(request), &[&json], Origin::Nothing)
    }

    fn answer_path(&self, request: &str) -> PathBuf {
        self.dir.join("summaries").join(format!("{request}.json"))
    }

    fn object(&self, id: &ArtifactId) -> PathBuf {
        self.dir.join("objects").join(id.as_str())
    }

    /// Reads an object. One whose content does not match its name was changed or is a link elsewhere, and counts as missing.
    pub fn get(&self, id: &ArtifactId) -> Option<String> {
        fs::read_to_string(self.object(id)).ok().filter(|content| ArtifactId::of(content.as_bytes()) == *id)
    }

    /// Tells whether a list is just what a compaction wrote to a file of this name.
    pub fn has_written(&self, list: &Session, name: &str) -> bool {
        let Some(tip) = tips(list).pop() else { return false };
        self.records_of(&[tip]).iter().any(|record| record.written_to == name)
    }

    /// Finds the records of all compactions that made a list. The list may have grown since the newest; where two wrote the
    /// same list, the one to a file of this name counts.
    pub fn chain_for(&self, list: &Session, name: &str) -> RecordChain {
        let tips = tips(list);
        let mut found = self.records_of(&tips);
        let rank = |record: &CompactionRecord| {
            let grown_from = tips.iter().position(|tip| record.tip.as_ref() == Some(tip))?;
            Some((grown_from, record.written_to == name, record.made.clone()))
        };
        let ranked = found.iter().enumerate().filter_map(|(at, record)| Some((rank(record)?, at)));
        let Some(((grown_from, ..), newest)) = ranked.max() else { return RecordChain::default() };
        let mut chain = RecordChain { records: vec![found.swap_remove(newest)], length: grown_from + 1 };
        while let Some(earlier) = chain.records.last().and_then(|record| record.earlier.clone()) {
            // Each list is taken once: a chain that bites its tail ends.
            let is_taken = chain.records.iter().any(|record| record.tip.as_ref() == Some(&earlier));
            let Some(record) = self.records_of(&[earlier]).pop().filter(|_| !is_taken) else { break };
            chain.records.push(record);
        }
        chain
    }

    /// Reads the records of the lists with these tips. Records of other files, which may be large, are not opened.
    fn records_of(&self, tips: &[ArtifactId]) -> Vec<CompactionRecord> {
        let wanted: HashSet<&str> = tips.iter().map(ArtifactId::as_str).collect();
        let Ok(entries) = fs::read_dir(self.dir.join(TIPS)) else {
            let of_list =
                |record: &CompactionRecord| record.tip.as_ref().is_some_and(|tip| wanted.contains(tip.as_str()));
            return self.all_records().into_iter().map(|(_, record)| record).filter(of_list).collect();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let ids = names.filter_map(|name| {
            let (tip, id) = name.split_once('.')?;
            wanted.contains(tip).then(|| id.to_owned())
        });
        ids.filter_map(|id| read_record(&self.dir.join("compactions").join(format!("{id}.json")))).collect()
    }

    /// Reads every record, with its id.
    fn all_records(&self) -> Vec<(String, CompactionRecord)> {
        let Ok(entries) = fs::read_dir(self.dir.join("compactions")) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), read_record(&path)?))).collect()
    }

    /// Reads the JSON of every message that the compactions of a list stored, as it came, with its number.
    pub fn originals(&self, chain: &RecordChain) -> Vec<(usize, String)> {
        let mut places: BTreeMap<usize, &MessageLocation> = BTreeMap::new();
        // The newest record comes first; the oldest has a message as it came.
        for record in &chain.records {
            places.extend(record.places.messages.iter().filter_map(|(id, at)| Some((parse_reference(id, 'm')?, at))));
        }
        let mut objects: BTreeMap<&ArtifactId, Vec<String>> = BTreeMap::new();
        let mut found = Vec::new();
        for (number, MessageLocation { object, line }) in places {
            let read = || self.get(object).map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default();
            let lines = objects.entry(object).or_insert_with(read);
            found.extend(lines.get(line - 1).map(|json| (number, json.clone())));
        }
        found
    }

    /// Reads the JSON of a stored message.
    pub fn message(&self, location: &MessageLocation) -> Option<String> {
        self.get(&location.object)?.lines().nth(location.line - 1).map(str::to_owned)
    }
}

fn index_tip(folder: &Path, record: &CompactionRecord, id: &str) -> Result<()> {
    let Some(tip) = &record.tip else { return Ok(()) };
    replace(&folder.join(format!("{tip}.{id}")), &[], Origin::Nothing).map(drop)
}

fn read_record(path: &Path) -> Option<CompactionRecord> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Hashes each message of a file together with all before it. A file that grows keeps the tips it had, and the layout of
/// its JSON does not matter.
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

/// Returns the name of a file without its folder.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
