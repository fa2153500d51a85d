//! The digest: an inventory of what tools did in a span, by the policy's tool classes.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::carry::sections;
use super::extract::first_line;
use super::section::Section;
use super::structured::StructuredSummary;
use crate::policy::{ToolClass, Tools};
use crate::thread::{Thread, ToolCall};

/// What a compaction digest lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Digest {
    /// Artifacts that were streamed to the user: path, media type, visibility, sources used.
    pub artifacts: Vec<String>,
    /// Files that were written.
    pub writes: Vec<String>,
    /// Files that were changed.
    pub patches: Vec<String>,
    /// Commands with how they ended.
    pub execs: Vec<String>,
    /// Memory reads: the question, the paths and turns that were hit.
    pub memory_reads: Vec<String>,
    /// Hidden messages with what stood in their place.
    pub hidden: Vec<String>,
}

impl Digest {
    /// The digest of a range of messages.
    pub fn of(thread: &Thread, range: Range<usize>, tools: &Tools, items: &StructuredSummary) -> Digest {
        let mut digest = Digest::unloaded(thread, items);
        for place in range {
            for call in thread.message(place).calls() {
                digest.note(thread, place, call, tools);
            }
        }
        digest.execs = items.commands.iter().map(exec_line).collect();
        digest.hidden = items.hidden.iter().map(|quote| format!("m{}: {}", quote.place + 1, quote.text)).collect();
        digest
    }

    /// What is known of messages that are not loaded: from the items, and from the digest that stood before.
    fn unloaded(thread: &Thread, items: &StructuredSummary) -> Digest {
        let mut digest = Digest::default();
        let Some(evicted) = thread.evicted() else { return digest };
        let loaded: HashSet<usize> =
            thread.messages().iter().filter(|m| !m.is_summary()).map(|m| m.log_place()).collect();
        let line = |path: &str, place: usize| format!("{path} (m{})", place + 1);
        for file in &items.files {
            let gone = |place: &usize| !loaded.contains(place);
            digest.writes.extend(file.written.filter(gone).map(|place| line(&file.path, place)));
            digest.patches.extend(file.patched.filter(gone).map(|place| line(&file.path, place)));
        }
        for (_, body) in sections(&evicted.text).into_iter().filter(|(section, _)| *section == Some(Section::Digest)) {
            digest
                .artifacts
                .extend(body.lines().filter_map(|line| line.strip_prefix("- artifact: ")).map(str::to_owned));
            digest
                .memory_reads
                .extend(body.lines().filter_map(|line| line.strip_prefix("- memory: ")).map(str::to_owned));
        }
        digest
    }

    fn note(&mut self, thread: &Thread, place: usize, call: &ToolCall, tools: &Tools) {
        let mark = format!("({})", thread.reference(place));
        let meaning = tools.meaning(call);
        match meaning.class {
            Some(ToolClass::Write) => self.writes.extend(meaning.paths.iter().map(|path| format!("{path} {mark}"))),
            Some(ToolClass::Patch) => self.patches.extend(meaning.paths.iter().map(|path| format!("{path} {mark}"))),
            Some(ToolClass::Artifact) => self.artifacts.push(format!("{} {mark}", fields(call, &ARTIFACT_FIELDS))),
            Some(ToolClass::MemoryRead) => self.memory_reads.push(format!("{} {mark}", fields(call, &MEMORY_FIELDS))),
            _ => {}
        }
    }
}

const ARTIFACT_FIELDS: [&str; 5] = ["path", "mime", "media_type", "visibility", "sources_used"];
const MEMORY_FIELDS: [&str; 4] = ["query", "paths", "path", "turn_ids"];

/// Named fields of a call's arguments.
fn fields(call: &ToolCall, names: &[&str]) -> String {
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { return call.name.to_string() };
    let told: Vec<String> = names
        .iter()
        .filter_map(|name| {
            let value = arguments.get(*name)?;
            Some(format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        })
        .collect();
    told.join(" ")
}

fn exec_line(command: &super::structured::CommandFact) -> String {
    let end = match (command.exit, command.failed) {
        (Some(code), _) => format!("exit {code}"),
        (None, true) => "failed".to_owned(),
        (None, false) => "ended".to_owned(),
    };
    format!("`{}` {end} (m{})", first_line(&command.command), command.place + 1)
}

/// The digest as lines.
pub fn inventory(thread: &Thread, range: Range<usize>, tools: &Tools, items: &StructuredSummary) -> Vec<String> {
    let digest = Digest::of(thread, range, tools, items);
    let named = [
        ("artifact", &digest.artifacts),
        ("wrote", &digest.writes),
        ("patched", &digest.patches),
        ("memory", &digest.memory_reads),
        ("hidden", &digest.hidden),
        ("ran", &digest.execs),
    ];
    named.iter().flat_map(|(name, lines)| lines.iter().map(move |line| format!("- {name}: {line}"))).collect()
}

/// The files as the table of a session summary.
pub fn table(items: &StructuredSummary) -> Vec<String> {
    if items.files.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["| File/Component | Action | Description |".to_owned(), "|---|---|---|".to_owned()];
    let mut files: Vec<_> = items.files.iter().collect();
    files.sort_by_key(|file| (file.deed() == "read", file.last()));
    lines.extend(files.into_iter().map(|file| {
        let path = file.path.replace('|', "\\|");
        format!("| {path} | {} | last touched in m{} |", file.deed(), file.last() + 1)
    }));
    lines
}
