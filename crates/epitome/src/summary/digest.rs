//! The digest: an inventory of what tools did in a span, by the policy's tool classes, as data and as the lines of a summary.
//!
//! It is a view of a summary's items, so every round's digest stands for all rounds, and every door tells the same one. Where nothing
//! is left of an earlier round but its text, its lines are read back as items; see `parse.rs`.

use serde::Serialize;
use serde_json::Value;

use super::clip::one_line;
use super::extract::first_line;
use super::structured::{ArtifactFact, CommandEnding, CommandFact, FileFact, MemoryRead, Quote, StructuredSummary};
use crate::thread::{ToolCall, ToolResult};

/// A value in a line of the digest is told in at most so many characters.
const VALUE_CHARS_MAX: usize = 160;
/// The most paths and the most turns that are kept of one look into a memory; the others are read back.
const HITS_MAX: usize = 24;
/// The most of them in a line.
const SHOWN_MAX: usize = 6;

/// What tools did in the messages that a summary stands for: seed 000's `compaction_digest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Digest {
    /// Artifacts that were streamed to the user.
    pub artifacts: Vec<DigestArtifact>,
    /// Files that were written whole, each where that was done last.
    pub writes: Vec<DigestFile>,
    /// Files that were changed in part, each where that was done last.
    pub patches: Vec<DigestFile>,
    /// Commands, with how they ended.
    pub commands: Vec<DigestCommand>,
    /// Looks into a memory, with what they found.
    pub memory_reads: Vec<DigestMemoryRead>,
    /// Hidden messages, with what stands in their place.
    pub hidden: Vec<DigestHidden>,
}

/// An artifact that was streamed to the user.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigestArtifact {
    /// The message: `m12`.
    pub message: String,
    /// Its path or name.
    pub path: Option<String>,
    /// Its media type.
    pub mime: Option<String>,
    /// Who may see it.
    pub visibility: Option<String>,
    /// What it was made of.
    pub sources_used: Vec<String>,
}

/// A file that was written or changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigestFile {
    /// The message: `m12`.
    pub message: String,
    /// Its path.
    pub path: String,
}

/// A command, with how it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigestCommand {
    /// The message of its result: `m13`.
    pub message: String,
    /// The command.
    pub command: String,
    /// Its exit status, where the output tells it.
    pub exit: Option<i32>,
    /// How it ended, as far as something tells.
    pub ending: CommandEnding,
}

/// A look into a memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigestMemoryRead {
    /// The message of its result: `m13`.
    pub message: String,
    /// What was looked for.
    pub query: String,
    /// The paths that were found.
    pub paths: Vec<String>,
    /// The turns that were found.
    pub turn_ids: Vec<String>,
}

/// A hidden message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigestHidden {
    /// The message: `m3`.
    pub message: String,
    /// What stands in its place.
    pub replacement: String,
}

impl StructuredSummary {
    /// Returns what tools did in the messages that it stands for.
    pub fn digest(&self) -> Digest {
        let file = |file: &FileFact, place: usize| DigestFile { message: message(place), path: file.path.clone() };
        let mut digest = Digest {
            artifacts: self.artifacts.iter().map(artifact).collect(),
            writes: self.files.iter().filter_map(|own| Some(file(own, own.written?))).collect(),
            patches: self.files.iter().filter_map(|own| Some(file(own, own.patched?))).collect(),
            commands: self.commands.iter().map(command).collect(),
            memory_reads: self.memory_reads.iter().map(memory_read).collect(),
            hidden: self.hidden.iter().map(hidden).collect(),
        };
        for files in [&mut digest.writes, &mut digest.patches] {
            files.sort_by_key(|file| place_of(&file.message));
        }
        digest
    }
}

fn message(place: usize) -> String {
    format!("m{}", place + 1)
}

fn place_of(message: &str) -> Option<usize> {
    message.strip_prefix('m')?.parse::<usize>().ok()?.checked_sub(1)
}

fn artifact(own: &ArtifactFact) -> DigestArtifact {
    let ArtifactFact { path, mime, visibility, sources_used, place } = own.clone();
    DigestArtifact { message: message(place), path, mime, visibility, sources_used }
}

fn command(own: &CommandFact) -> DigestCommand {
    let CommandFact { command, exit, failed, ending, place } = own.clone();
    let ending = if failed { CommandEnding::Failed } else { ending };
    DigestCommand { message: message(place), command, exit, ending }
}

fn memory_read(own: &MemoryRead) -> DigestMemoryRead {
    let MemoryRead { query, paths, turn_ids, place } = own.clone();
    DigestMemoryRead { message: message(place), query, paths, turn_ids }
}

fn hidden(own: &Quote) -> DigestHidden {
    DigestHidden { message: message(own.place), replacement: own.text.clone() }
}

/// Reads an artifact from the call that streams it to the user.
pub(super) fn artifact_of(call: &ToolCall, place: usize) -> Option<ArtifactFact> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let word = |names: &[&str]| {
        names.iter().find_map(|name| arguments.get(*name)?.as_str()).map(|word| one_line(word, VALUE_CHARS_MAX))
    };
    let mut sources_used = Vec::new();
    collect_words(arguments.get("sources_used").unwrap_or(&Value::Null), &mut sources_used);
    Some(ArtifactFact {
        path: word(&["path", "file_path", "name", "title", "id"]),
        mime: word(&["mime", "media_type", "mime_type", "type"]),
        visibility: word(&["visibility"]),
        sources_used,
        place,
    })
}

/// Reads what a memory was asked for from the call, and what it found from the result.
pub(super) fn memory_read_of(call: Option<&ToolCall>, result: &ToolResult, place: usize) -> MemoryRead {
    let arguments: Value = call.and_then(|call| serde_json::from_str(&call.arguments).ok()).unwrap_or_default();
    let query = ["query", "q", "search", "text", "question"].iter().find_map(|name| arguments.get(*name)?.as_str());
    let mut read = MemoryRead {
        query: one_line(query.unwrap_or_default(), VALUE_CHARS_MAX),
        paths: Vec::new(),
        turn_ids: Vec::new(),
        place,
    };
    // What is looked up by its path or turn is named by the call alone.
    collect_hits(&arguments, &mut read);
    let found = serde_json::from_str(&result.text);
    match found {
        Ok(found) => collect_hits(&found, &mut read),
        Err(_) => result.text.lines().for_each(|line| collect_line(line, &mut read)),
    }
    read
}

const PATH_KEYS: [&str; 6] = ["path", "paths", "file", "file_path", "filename", "uri"];
const TURN_KEYS: [&str; 5] = ["turn_id", "turn_ids", "turn", "turns", "turnid"];

/// Collects the paths and turns anywhere in a memory's answer.
fn collect_hits(found: &Value, read: &mut MemoryRead) {
    match found {
        Value::Array(entries) => entries.iter().for_each(|entry| collect_hits(entry, read)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match list_of(key, read) {
                    Some(list) if !value.is_object() => collect_words(value, list),
                    _ => collect_hits(value, read),
                }
            }
        }
        _ => {}
    }
}

/// Collects them from a line of an answer in words: `path: notes/a.md`, `{"turn_id": "t4"}`.
fn collect_line(line: &str, read: &mut MemoryRead) {
    if let Ok(found @ Value::Object(_)) = serde_json::from_str(line) {
        return collect_hits(&found, read);
    }
    let line = line.trim_start_matches(['-', '*', ' ']);
    if let Some((key, value)) = line.split_once([':', '='])
        && let Some(list) = list_of(key.trim(), read)
    {
        value.split(", ").for_each(|word| collect_words(&Value::from(word.trim()), list));
    }
}

fn list_of<'r>(key: &str, read: &'r mut MemoryRead) -> Option<&'r mut Vec<String>> {
    let has = |keys: &[&str]| keys.iter().any(|known| known.eq_ignore_ascii_case(key));
    if has(&PATH_KEYS) {
        return Some(&mut read.paths);
    }
    has(&TURN_KEYS).then_some(&mut read.turn_ids)
}

/// Adds the words and numbers of a value to a list, each once.
fn collect_words(value: &Value, list: &mut Vec<String>) {
    let word = match value {
        Value::Array(entries) => return entries.iter().for_each(|entry| collect_words(entry, list)),
        Value::String(text) => one_line(text, VALUE_CHARS_MAX),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if !word.is_empty() && !list.contains(&word) && list.len() < HITS_MAX {
        list.push(word);
    }
}

/// Returns the digest of a summary's items, line by line.
pub(super) fn digest_lines(items: &StructuredSummary) -> Vec<String> {
    let Digest { artifacts, writes, patches, commands, memory_reads, hidden } = items.digest();
    let mut lines = Vec::new();
    for DigestArtifact { message, path, mime, visibility, sources_used } in artifacts {
        let fields =
            [("path", path), ("mime", mime), ("visibility", visibility), ("sources_used", joined(&sources_used))];
        lines.push(format!("- artifact: {}({message})", field_text(fields)));
    }
    lines.extend(writes.iter().map(|file| format!("- wrote: {} ({})", file.path, file.message)));
    lines.extend(patches.iter().map(|file| format!("- patched: {} ({})", file.path, file.message)));
    for DigestMemoryRead { message, query, paths, turn_ids } in memory_reads {
        let query = Some(query).filter(|query| !query.is_empty());
        let fields = [("query", query), ("paths", joined(&paths)), ("turn_ids", joined(&turn_ids))];
        lines.push(format!("- memory: {}({message})", field_text(fields)));
    }
    lines.extend(hidden.iter().map(|own| format!("- hidden: {}: {}", own.message, own.replacement)));
    lines.extend(commands.iter().map(command_line));
    lines
}

fn joined(words: &[String]) -> Option<String> {
    let shown = &words[..words.len().min(SHOWN_MAX)];
    let more = if shown.len() < words.len() { format!("{MORE}{}", words.len() - shown.len()) } else { String::new() };
    (!shown.is_empty()).then(|| shown.join(", ") + &more)
}

/// Stands before the number of words that a line leaves out.
const MORE: &str = " and more: ";

fn field_text<const N: usize>(fields: [(&str, Option<String>); N]) -> String {
    fields.into_iter().filter_map(|(name, value)| Some(format!("{name}={} ", value?))).collect()
}

fn command_line(own: &DigestCommand) -> String {
    let end = own.exit.map_or_else(|| ending_word(own.ending).to_owned(), |code| format!("exit {code}"));
    format!("- ran: `{}` {end} ({})", first_line(&own.command), own.message)
}

/// Every ending, each with its own word.
const ENDINGS: [CommandEnding; 4] =
    [CommandEnding::Unknown, CommandEnding::Running, CommandEnding::Succeeded, CommandEnding::Failed];

fn ending_word(ending: CommandEnding) -> &'static str {
    match ending {
        CommandEnding::Unknown => "ended",
        CommandEnding::Running => "still runs",
        CommandEnding::Succeeded => "succeeded",
        CommandEnding::Failed => "failed",
    }
}

/// Reads the lines of an earlier summary's digest back into items.
pub(super) fn parse_digest(body: &str, items: &mut StructuredSummary) {
    for line in body.lines() {
        let Some((name, rest)) = line.strip_prefix("- ").and_then(|line| line.split_once(": ")) else { continue };
        if name == "hidden" {
            let hidden = rest.split_once(": ").and_then(|(number, text)| Some((place_of(number)?, text.to_owned())));
            items.hidden.extend(hidden.map(|(place, text)| Quote { text, place }));
            continue;
        }
        let ended = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
        let Some((words, place)) = ended.and_then(|(words, number)| Some((words.trim_end(), place_of(number)?))) else {
            continue;
        };
        match name {
            "artifact" => {
                let [path, mime, visibility, sources] =
                    fields_in(words, ["path", "mime", "visibility", "sources_used"]);
                let fact = ArtifactFact { path, mime, visibility, sources_used: split(sources), place };
                items.artifacts.push(fact);
            }
            "memory" => {
                let [query, paths, turn_ids] = fields_in(words, ["query", "paths", "turn_ids"]);
                let (query, paths, turn_ids) = (query.unwrap_or_default(), split(paths), split(turn_ids));
                items.memory_reads.push(MemoryRead { query, paths, turn_ids, place });
            }
            "wrote" => file_named(items, words).written = Some(place),
            "patched" => file_named(items, words).patched = Some(place),
            "ran" => {
                let Some((command, end)) = words.strip_prefix('`').and_then(|words| words.rsplit_once("` ")) else {
                    continue;
                };
                let exit: Option<i32> = end.strip_prefix("exit ").and_then(|code| code.parse().ok());
                let ending = match exit {
                    Some(0) => CommandEnding::Succeeded,
                    Some(_) => CommandEnding::Failed,
                    None => ENDINGS.into_iter().find(|ending| ending_word(*ending) == end).unwrap_or_default(),
                };
                let (command, failed) = (command.to_owned(), ending == CommandEnding::Failed);
                items.commands.push(CommandFact { command, exit, failed, ending, place });
            }
            _ => {}
        }
    }
}

fn file_named<'i>(items: &'i mut StructuredSummary, path: &str) -> &'i mut FileFact {
    let at = items.files.iter().position(|file| file.path == path).unwrap_or_else(|| {
        items.files.push(FileFact { path: path.to_owned(), read: None, written: None, patched: None, purpose: None });
        items.files.len() - 1
    });
    &mut items.files[at]
}

/// Splits `path=a.rs mime=text/plain` into its values; a value may hold anything but the name of a later one.
fn fields_in<const N: usize>(words: &str, names: [&str; N]) -> [Option<String>; N] {
    let mut rest = words;
    let mut values = [const { None }; N];
    for (at, name) in names.iter().enumerate().rev() {
        let mark = format!("{name}=");
        let found = rest.rmatch_indices(&mark).find(|(from, _)| *from == 0 || rest[..*from].ends_with(' '));
        if let Some((from, _)) = found {
            values[at] = Some(rest[from + mark.len()..].trim_end().to_owned());
            rest = &rest[..from];
        }
    }
    values
}

fn split(words: Option<String>) -> Vec<String> {
    let words = words.unwrap_or_default();
    let words = words.rsplit_once(MORE).map_or(words.as_str(), |(words, _)| words);
    words.split(", ").filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the number of the message that a line of the digest names last; a line that names none comes before all others.
pub(super) fn last_number(line: &str) -> usize {
    let words = line.split(|c: char| !c.is_alphanumeric()).rev();
    words.filter_map(|word| word.strip_prefix('m')?.parse().ok()).next().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{digest_lines, memory_read_of, parse_digest};
    use crate::summary::{ArtifactFact, CommandEnding, CommandFact, FileFact, MemoryRead, Quote, StructuredSummary};
    use crate::thread::ToolResult;

    #[test]
    fn the_lines_of_a_digest_are_read_back_as_they_were() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let command = |command: &str, exit, ending, place| {
            let failed = ending == CommandEnding::Failed;
            CommandFact { command: command.into(), exit, failed, ending, place }
        };
        let file =
            |path: &str, written, patched| FileFact { path: path.into(), read: None, written, patched, purpose: None };
        let items = StructuredSummary {
            artifacts: vec![ArtifactFact {
                path: Some("out/a plan.md".into()),
                mime: Some("text/markdown".into()),
                visibility: None,
                sources_used: words(&["src/a.rs", "notes.md"]),
                place: 4,
            }],
            files: vec![file("src/a.rs", Some(6), Some(8)), file("src/b (old).rs", None, Some(10))],
            memory_reads: vec![
                MemoryRead {
                    query: "which paths= were used, and by whom?".into(),
                    paths: words(&["notes/a.md"]),
                    turn_ids: words(&["turn_3", "turn_9"]),
                    place: 12,
                },
                MemoryRead { query: "nothing (at all)".into(), paths: vec![], turn_ids: vec![], place: 14 },
            ],
            commands: vec![
                command("make test", Some(2), CommandEnding::Failed, 16),
                command("echo `date`", None, CommandEnding::Unknown, 18),
                command("npm run dev", None, CommandEnding::Running, 20),
                command("make", Some(0), CommandEnding::Succeeded, 22),
                command("go build", None, CommandEnding::Succeeded, 24),
            ],
            hidden: vec![Quote { text: "[hidden: a long listing]".into(), place: 2 }],
            ..StructuredSummary::default()
        };
        let mut read = StructuredSummary::default();
        parse_digest(&digest_lines(&items).join("\n"), &mut read);
        assert_eq!(read.digest(), items.digest());
    }

    #[test]
    fn what_a_memory_found_is_read_from_its_result_in_every_shape() {
        let lists = json!({"hits": [
            {"path": "notes/a.md", "turn_id": "turn_3", "score": 0.8, "text": "path: never/this.md"},
            {"path": "notes/b.md", "turn_ids": ["turn_3", "turn_9"]},
        ]});
        let lines =
            "{\"path\":\"notes/a.md\",\"turn_id\":\"turn_3\"}\n{\"path\":\"notes/b.md\",\"turn_id\":\"turn_9\"}";
        let words = "2 hits\n- path: notes/a.md\n  turn_id: turn_3\n  It says that path is a word.\n- path: notes/b.md\n  turn_id: turn_9";
        for text in [lists.to_string(), lines.to_owned(), words.to_owned()] {
            let read = memory_read_of(None, &ToolResult::new("c", text.as_str(), None), 7);
            assert_eq!(
                (read.paths, read.turn_ids),
                (
                    vec!["notes/a.md".to_owned(), "notes/b.md".to_owned()],
                    vec!["turn_3".to_owned(), "turn_9".to_owned()],
                ),
                "{text}"
            );
        }
        let nothing = memory_read_of(None, &ToolResult::new("c", "No notes match.", None), 7);
        assert_eq!((nothing.paths.len(), nothing.turn_ids.len()), (0, 0));
    }
}
