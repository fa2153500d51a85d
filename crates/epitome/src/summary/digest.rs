//! The digest: an inventory of what tools did in a span, by the policy's tool classes.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::extract::first_line;
use super::headings::Section;
use super::parse::sections;
use super::structured::{CommandFact, StructuredSummary};
use crate::policy::{ToolClass, Tools};
use crate::thread::{Thread, ToolCall};

/// The lines of a digest, by kind.
#[derive(Default)]
struct Digest {
    /// Artifacts that were streamed to the user.
    artifacts: Vec<String>,
    writes: Vec<String>,
    patches: Vec<String>,
    memory_reads: Vec<String>,
}

const ARTIFACT_FIELDS: [&str; 5] = ["path", "mime", "media_type", "visibility", "sources_used"];
const MEMORY_FIELDS: [&str; 4] = ["query", "paths", "path", "turn_ids"];

impl Digest {
    /// Lists what is known of messages that are not loaded: from the items, and from the digest of the earlier summary.
    fn of_unloaded(thread: &Thread, items: &StructuredSummary) -> Digest {
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
        let of_digest = |(section, _): &(Option<Section>, &str)| *section == Some(Section::Digest);
        for (_, body) in sections(&evicted.text).into_iter().filter(of_digest) {
            let with_name = |name| body.lines().filter_map(move |line| line.strip_prefix(name)).map(str::to_owned);
            digest.artifacts.extend(with_name("- artifact: "));
            digest.memory_reads.extend(with_name("- memory: "));
        }
        digest
    }

    fn add(&mut self, thread: &Thread, place: usize, call: &ToolCall, tools: &Tools) {
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

/// Formats named fields of a call's arguments.
fn fields(call: &ToolCall, names: &[&str]) -> String {
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { return call.name.to_string() };
    let field = |name: &&str| {
        let value = arguments.get(*name)?;
        Some(format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    };
    names.iter().filter_map(field).collect::<Vec<_>>().join(" ")
}

fn exec_line(command: &CommandFact) -> String {
    let end = match (command.exit, command.failed) {
        (Some(code), _) => format!("exit {code}"),
        (None, true) => "failed".to_owned(),
        (None, false) => "ended".to_owned(),
    };
    format!("`{}` {end} (m{})", first_line(&command.command), command.place + 1)
}

/// Returns the digest of a range of messages, line by line.
pub(super) fn inventory(thread: &Thread, range: Range<usize>, tools: &Tools, items: &StructuredSummary) -> Vec<String> {
    let mut digest = Digest::of_unloaded(thread, items);
    for place in range {
        thread.message(place).calls().for_each(|call| digest.add(thread, place, call, tools));
    }
    let execs = items.commands.iter().map(exec_line).collect();
    let hidden = items.hidden.iter().map(|quote| format!("m{}: {}", quote.place + 1, quote.text)).collect();
    let named = [
        ("artifact", digest.artifacts),
        ("wrote", digest.writes),
        ("patched", digest.patches),
        ("memory", digest.memory_reads),
        ("hidden", hidden),
        ("ran", execs),
    ];
    let with_name = |(name, lines): (&str, Vec<String>)| -> Vec<String> {
        lines.into_iter().map(|line| format!("- {name}: {line}")).collect()
    };
    named.into_iter().flat_map(with_name).collect()
}

/// Returns the number of the message that a line of the digest names last; a line that names none comes before all others.
pub(super) fn last_number(line: &str) -> usize {
    let words = line.split(|c: char| !c.is_alphanumeric()).rev();
    words.filter_map(|word| word.strip_prefix('m')?.parse().ok()).next().unwrap_or(usize::MAX)
}
