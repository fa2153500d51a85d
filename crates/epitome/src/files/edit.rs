//! Edits: what a call changes in a file, whichever agent's tool it is, and how that reads as a diff.

use serde_json::{Map, Value};

use crate::policy::{ArgumentKind, ToolClass, Tools};
use crate::thread::ToolCall;

/// A change that a call makes to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    /// The file, as the call names it.
    pub path: String,
    /// The change.
    pub change: FileChange,
}

/// How a file is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It is written whole.
    Written(String),
    /// Texts in it are replaced, one after the other.
    Replaced(Vec<Replacement>),
    /// A text is put behind a line; 0 is the beginning.
    Inserted {
        /// The number of the line.
        after_line: usize,
        /// The text.
        text: String,
    },
    /// It is deleted.
    Deleted,
}

/// One text that another replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The text that goes.
    pub old: String,
    /// The text that comes.
    pub new: String,
    /// True if every occurrence is replaced, and not the first alone.
    pub is_everywhere: bool,
}

const OLD: [&str; 5] = ["old_string", "old_str", "oldString", "oldText", "old_text"];
const NEW: [&str; 5] = ["new_string", "new_str", "newString", "newText", "new_text"];
const EVERYWHERE: [&str; 3] = ["replace_all", "replaceAll", "allow_multiple"];
const PATCH_BEGINS: &str = "*** Begin Patch";

/// Names of arguments that an edit is told by.
pub(super) fn is_told_by_edit(name: &str) -> bool {
    let is_content = ["content", "file_text", "insert_text", "insert_line", "command"].contains(&name);
    is_replaced_text(name) || EVERYWHERE.contains(&name) || is_content
}

impl FileEdit {
    /// Reads the changes that a call makes; none for a call that changes no file.
    pub fn of(tools: &Tools, call: &ToolCall) -> Vec<FileEdit> {
        if let Some(patch) = patch_in(call) {
            return patched(&patch);
        }
        let Ok(Value::Object(arguments)) = serde_json::from_str::<Value>(&call.arguments) else { return Vec::new() };
        let path = arguments.iter().find(|(name, _)| ArgumentKind::of(name) == ArgumentKind::Path);
        let Some(path) = path.and_then(|(_, path)| path.as_str()) else { return Vec::new() };
        let change = change(tools.class(&call.name), &arguments);
        change.into_iter().map(|change| FileEdit { path: path.to_owned(), change }).collect()
    }

    /// Returns the change as lines that begin with `-`, `+`, or a space for what stays.
    pub fn diff(&self) -> String {
        match &self.change {
            FileChange::Written(text) => line_diff("", text),
            FileChange::Replaced(replaced) => replaced_diff(replaced),
            FileChange::Inserted { after_line, text } => format!("@@ after line {after_line}\n{}", line_diff("", text)),
            FileChange::Deleted => "(deleted)\n".to_owned(),
        }
    }
}

/// Returns the diff of the texts that a call's arguments replace, whatever file they are in; `None` where they replace none.
pub(crate) fn replacement_diff(arguments: &Map<String, Value>) -> Option<String> {
    let replaced = replacements(arguments);
    (!replaced.is_empty()).then(|| replaced_diff(&replaced))
}

/// Tells whether an argument of this name holds a replaced text, its replacement, or a list of both.
pub(crate) fn is_replaced_text(name: &str) -> bool {
    OLD.contains(&name) || NEW.contains(&name) || name == "edits"
}

fn replaced_diff(replaced: &[Replacement]) -> String {
    replaced.iter().map(|one| line_diff(&one.old, &one.new)).collect::<Vec<_>>().join("@@\n")
}

fn change(class: Option<ToolClass>, arguments: &Map<String, Value>) -> Option<FileChange> {
    let text = |names: &[&str]| names.iter().find_map(|name| arguments.get(*name)?.as_str());
    let replaced = replacements(arguments);
    match &replaced[..] {
        // What replaces nothing is a new file.
        [Replacement { old, new, .. }] if old.is_empty() => return Some(FileChange::Written(new.clone())),
        [] => {}
        _ => return Some(FileChange::Replaced(replaced)),
    }
    if let Some(line) = arguments.get("insert_line").and_then(Value::as_u64) {
        let text = text(&["insert_text", "new_str", "text"])?.to_owned();
        return Some(FileChange::Inserted { after_line: usize::try_from(line).unwrap_or(usize::MAX), text });
    }
    let is_written = class == Some(ToolClass::Write) || text(&["command"]) == Some("create");
    let texts = arguments.iter().filter(|(name, _)| ArgumentKind::of(name) == ArgumentKind::Written);
    let longest = texts.filter_map(|(_, value)| value.as_str()).max_by_key(|text| text.len());
    let named = text(&["content", "file_text", "contents", "text"]);
    named.or(longest).filter(|_| is_written).map(|text| FileChange::Written(text.to_owned()))
}

/// Collects the pairs of old and new text in the arguments, those of a list of edits included.
fn replacements(arguments: &Map<String, Value>) -> Vec<Replacement> {
    let text = |names: [&str; 5]| names.iter().find_map(|name| arguments.get(*name)?.as_str());
    let is_everywhere = EVERYWHERE.iter().any(|name| arguments.get(*name).and_then(Value::as_bool) == Some(true));
    let own = text(OLD).map(|old| Replacement {
        old: old.to_owned(),
        new: text(NEW).unwrap_or_default().to_owned(),
        is_everywhere,
    });
    let lists = arguments.values().filter_map(Value::as_array).flatten().filter_map(Value::as_object);
    own.into_iter().chain(lists.flat_map(replacements)).collect()
}

/// Returns the patch among a call's arguments, wherever it stands.
fn patch_in(call: &ToolCall) -> Option<String> {
    if !call.arguments.contains(PATCH_BEGINS) {
        return None;
    }
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(&*call.arguments));
    let mut found = None;
    find_patch(&arguments, &mut found);
    found
}

fn find_patch(value: &Value, found: &mut Option<String>) {
    match value {
        Value::String(text) if found.is_none() => {
            *found = text.find(PATCH_BEGINS).map(|at| text[at..].to_owned());
        }
        Value::Array(items) => items.iter().for_each(|item| find_patch(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| find_patch(item, found)),
        _ => {}
    }
}

/// Reads a patch of the `*** Update File:` kind.
fn patched(patch: &str) -> Vec<FileEdit> {
    let mut edits: Vec<FileEdit> = Vec::new();
    let mut hunk = Hunk::default();
    for line in patch.lines() {
        let named = |mark: &str| line.strip_prefix(mark).map(|path| path.trim().to_owned());
        let opened = named("*** Update File: ").map(|path| (path, FileChange::Replaced(Vec::new())));
        let opened = opened.or_else(|| named("*** Add File: ").map(|path| (path, FileChange::Written(String::new()))));
        let opened = opened.or_else(|| named("*** Delete File: ").map(|path| (path, FileChange::Deleted)));
        if let Some((path, change)) = opened {
            hunk.end(edits.last_mut());
            edits.push(FileEdit { path, change });
        } else if line.starts_with("*** End Patch") {
            break;
        } else if line.starts_with("@@") || line.starts_with("*** ") {
            hunk.end(edits.last_mut());
        } else {
            match edits.last_mut().map(|edit| &mut edit.change) {
                Some(FileChange::Written(text)) => {
                    text.push_str(line.strip_prefix('+').unwrap_or(line));
                    text.push('\n');
                }
                Some(FileChange::Replaced(_)) => hunk.add(line),
                _ => {}
            }
        }
    }
    hunk.end(edits.last_mut());
    edits
}

/// The lines of one hunk of a patch.
#[derive(Default)]
struct Hunk<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

impl<'a> Hunk<'a> {
    fn add(&mut self, line: &'a str) {
        match line.chars().next() {
            Some('-') => self.old.push(&line[1..]),
            Some('+') => self.new.push(&line[1..]),
            _ => {
                let kept = line.strip_prefix(' ').unwrap_or(line);
                self.old.push(kept);
                self.new.push(kept);
            }
        }
    }

    fn end(&mut self, edit: Option<&mut FileEdit>) {
        let Hunk { old, new } = std::mem::take(self);
        if let Some(FileEdit { change: FileChange::Replaced(replaced), .. }) = edit
            && old != new
        {
            replaced.push(Replacement { old: old.join("\n"), new: new.join("\n"), is_everywhere: false });
        }
    }
}

/// Longer texts are not compared line by line.
const COMPARED_LINES_MAX: usize = 500;

/// Returns two texts as one: lines that go with `-`, lines that come with `+`, lines that stay with a space.
fn line_diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    let mut write = |sign: char, line: &str| {
        out.push(sign);
        out.push_str(line);
        out.push('\n');
    };
    let (mut at, mut to) = (0, 0);
    if old.len().max(new.len()) <= COMPARED_LINES_MAX {
        let rest = common_lengths(&old, &new);
        while at < old.len() && to < new.len() {
            if old[at] == new[to] {
                write(' ', old[at]);
                (at, to) = (at + 1, to + 1);
            } else if rest[at + 1][to] >= rest[at][to + 1] {
                write('-', old[at]);
                at += 1;
            } else {
                write('+', new[to]);
                to += 1;
            }
        }
    }
    old[at..].iter().for_each(|line| write('-', line));
    new[to..].iter().for_each(|line| write('+', line));
    out
}

/// Returns, for every pair of places, how many lines the rests of two texts have in common, in order.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<u16>> {
    let mut rest = vec![vec![0u16; new.len() + 1]; old.len() + 1];
    for at in (0..old.len()).rev() {
        for to in (0..new.len()).rev() {
            rest[at][to] =
                if old[at] == new[to] { rest[at + 1][to + 1] + 1 } else { rest[at + 1][to].max(rest[at][to + 1]) };
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::FileEdit;
    use crate::policy::Tools;
    use crate::thread::ToolCall;

    #[test]
    fn the_edits_of_every_agent_read_as_diffs() {
        let patch = "*** Begin Patch\\n*** Update File: a.rs\\n@@ fn f\\n one\\n-two\\n+2\\n*** Add File: b.rs\\n+new\\n*** Delete File: c.rs\\n*** End Patch";
        let cases = [
            (
                "Edit",
                r#"{"file_path":"a.rs","old_string":"one\ntwo","new_string":"one\n2"}"#.to_owned(),
                " one\n-two\n+2\n",
            ),
            (
                "edit",
                r#"{"filePath":"a.rs","oldString":"two","newString":"2","replaceAll":true}"#.to_owned(),
                "-two\n+2\n",
            ),
            (
                "edit",
                r#"{"path":"a.rs","edits":[{"oldText":"one","newText":"1"},{"oldText":"two","newText":"2"}]}"#
                    .to_owned(),
                "-one\n+1\n@@\n-two\n+2\n",
            ),
            (
                "MultiEdit",
                r#"{"file_path":"a.rs","edits":[{"old_string":"two","new_string":""}]}"#.to_owned(),
                "-two\n",
            ),
            (
                "str_replace_based_edit_tool",
                r#"{"command":"str_replace","path":"a.rs","old_str":"two","new_str":"2"}"#.to_owned(),
                "-two\n+2\n",
            ),
            (
                "str_replace_based_edit_tool",
                r#"{"command":"insert","path":"a.rs","insert_line":3,"new_str":"x"}"#.to_owned(),
                "@@ after line 3\n+x\n",
            ),
            (
                "str_replace_based_edit_tool",
                r#"{"command":"create","path":"a.rs","file_text":"x\ny"}"#.to_owned(),
                "+x\n+y\n",
            ),
            ("write_file", r#"{"file_path":"a.rs","content":"x"}"#.to_owned(), "+x\n"),
            ("Edit", r#"{"file_path":"a.rs","old_string":"","new_string":"x"}"#.to_owned(), "+x\n"),
            ("apply_patch", format!(r#"{{"input":"{patch}"}}"#), " one\n-two\n+2\n+new\n(deleted)\n"),
            ("shell", format!(r#"{{"command":["apply_patch","{patch}"]}}"#), " one\n-two\n+2\n+new\n(deleted)\n"),
            ("apply_patch", patch.replace("\\n", "\n"), " one\n-two\n+2\n+new\n(deleted)\n"),
            ("str_replace_based_edit_tool", r#"{"command":"view","path":"a.rs"}"#.to_owned(), ""),
            ("Read", r#"{"file_path":"a.rs"}"#.to_owned(), ""),
            ("Bash", r#"{"command":"sed -i s/two/2/ a.rs"}"#.to_owned(), ""),
        ];
        for (name, arguments, expected) in cases {
            let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.as_str().into() };
            let edits = FileEdit::of(&Tools::default(), &call);
            assert_eq!(edits.iter().map(FileEdit::diff).collect::<String>(), expected, "{name} {arguments}");
            assert!(edits.first().is_none_or(|edit| edit.path == "a.rs"));
        }
    }
}
