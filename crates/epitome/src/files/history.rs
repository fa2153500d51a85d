//! The history of one file: what a conversation read of it, wrote to it and changed in it, in order.
//!
//! ```text
//! m12 read src/cart.rs    seen whole, 84 lines
//! m41 edit                -old +new                     found in what was seen
//! m57 edit                -old +new                     its old text is nowhere: told, not applied
//! m60 $ cargo fmt         names the file                it may have changed: told
//! ```

use std::collections::HashMap;
use std::fmt::Write;

use super::edit::{FileChange, FileEdit, Replacement};
use super::printed::{FileView, is_path_of};
use crate::policy::{ToolClass, Tools, only_shows};
use crate::thread::{Part, ToolCall};

/// What a conversation did with one file.
///
/// Messages are given to it in their order. A call takes effect when its result comes, and a call that failed changes nothing.
pub struct FileHistory<'a> {
    wanted: &'a str,
    tools: &'a Tools,
    open: HashMap<Box<str>, (usize, ToolCall)>,
    events: Vec<FileEvent>,
}

/// One thing that was done with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEvent {
    /// The number of the message: of the call, or of the result for a view.
    pub number: usize,
    /// The file, as the call names it.
    pub path: String,
    /// What was done.
    pub action: FileAction,
    /// True if the call failed, or was rejected.
    pub failed: bool,
}

/// What was done with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAction {
    /// It was changed.
    Changed(FileChange),
    /// It was shown.
    Seen(FileView),
    /// A command was run that names it and does not only show it.
    Ran(String),
}

impl<'a> FileHistory<'a> {
    /// The history of the file that `wanted` names: its path, or the end of it.
    pub fn new(wanted: &'a str, tools: &'a Tools) -> Self {
        FileHistory { wanted, tools, open: HashMap::new(), events: Vec::new() }
    }

    /// Adds the next message.
    pub fn push(&mut self, number: usize, parts: &[Part]) {
        for part in parts {
            match part {
                Part::ToolCall(call) => {
                    self.open.insert(call.id.clone(), (number, call.clone()));
                }
                Part::ToolResult(result) => {
                    let Some((called, call)) = self.open.remove(&result.call_id) else { continue };
                    if let Some(view) = FileView::of(self.tools, &call, result) {
                        self.add(number, view.path.clone(), FileAction::Seen(view), false);
                        continue;
                    }
                    self.end_call(called, &call, self.tools.has_failed(Some(&call), result));
                }
                _ => {}
            }
        }
    }

    /// Adds what a call did, once it is known how it ended.
    fn end_call(&mut self, number: usize, call: &ToolCall, failed: bool) {
        let edits = FileEdit::of(self.tools, call);
        if edits.is_empty() {
            let meaning = self.tools.meaning(call);
            let command = meaning.command.filter(|_| meaning.class == Some(ToolClass::Exec));
            if let Some(command) = command.filter(|command| !failed && self.may_change(command)) {
                self.add(number, self.wanted.to_owned(), FileAction::Ran(command), failed);
            }
        }
        for FileEdit { path, change } in edits {
            self.add(number, path, FileAction::Changed(change), failed);
        }
    }

    fn may_change(&self, command: &str) -> bool {
        let name = self.wanted.rsplit(['/', '\\']).next().unwrap_or(self.wanted);
        let is_in_place = command.contains("sed -i") || command.contains("perl -pi") || command.contains('>');
        command.contains(name) && (is_in_place || !only_shows(command))
    }

    fn add(&mut self, number: usize, path: String, action: FileAction, failed: bool) {
        if is_path_of(&path, self.wanted) {
            self.events.push(FileEvent { number, path, action, failed });
        }
    }

    /// Returns what was done with it, in order. Calls whose result never came are not in it.
    pub fn events(&self) -> &[FileEvent] {
        &self.events
    }

    /// Returns the paths that it was called by, the longest first, each once.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = self.events.iter().map(|event| event.path.as_str()).collect();
        paths.sort_by_key(|path| (std::cmp::Reverse(path.len()), *path));
        paths.dedup();
        paths
    }

    /// Returns the message since which a line that stood in the file at message `after` is not in it any more.
    pub fn outdated_by(&self, after: usize, line: &str) -> Option<usize> {
        let line = line.trim();
        let holds = |text: &str| text.lines().any(|other| other.trim() == line);
        let mut gone = None;
        for event in self.events.iter().filter(|event| event.number > after && !event.failed) {
            let stands = match &event.action {
                FileAction::Changed(FileChange::Written(text)) => Some(holds(text)),
                FileAction::Changed(FileChange::Replaced(replaced)) => {
                    let new = replaced.iter().any(|one| holds(&one.new)).then_some(true);
                    new.or_else(|| replaced.iter().any(|one| holds(&one.old)).then_some(false))
                }
                FileAction::Changed(FileChange::Inserted { text, .. }) => holds(text).then_some(true),
                FileAction::Changed(FileChange::Deleted) => Some(false),
                FileAction::Seen(view) if view.is_whole => Some(view.lines.iter().any(|other| other.trim() == line)),
                FileAction::Seen(_) | FileAction::Ran(_) => None,
            };
            gone = match stands {
                Some(true) => None,
                Some(false) => gone.or(Some(event.number)),
                None => gone,
            };
        }
        gone
    }

    /// Returns every change as a diff, each under the number of its message. Empty if there is none.
    pub fn edits_text(&self) -> String {
        let mut out = String::new();
        for event in &self.events {
            let FileAction::Changed(change) = &event.action else { continue };
            let edit = FileEdit { path: event.path.clone(), change: change.clone() };
            let ending = if event.failed { ", failed" } else { "" };
            let is_whole = matches!(change, FileChange::Written(_));
            let what = if is_whole { "written whole" } else { "edited" };
            let _ = writeln!(out, "[m{} {} {what}{ending}]\n{}", event.number, edit.path, edit.diff());
        }
        out
    }

    /// Returns the file as it stands after the last message, as far as it is known; `None` if nothing of it was ever seen.
    pub fn now(&self) -> Option<FileNow> {
        let mut now = FileNow::default();
        for event in &self.events {
            match &event.action {
                _ if event.failed => {}
                FileAction::Changed(change) => now.change(event.number, change),
                FileAction::Seen(view) => now.see(event.number, view),
                FileAction::Ran(command) if !now.pieces.is_empty() => {
                    let line = command.lines().next().unwrap_or_default();
                    now.doubts.push(format!("m{} ran a command that names it: {line:.120}", event.number));
                }
                FileAction::Ran(_) => {}
            }
        }
        (!now.pieces.is_empty() || now.deleted_by.is_some()).then_some(now)
    }
}

/// A file as it stands, as far as a conversation shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNow {
    /// What is known of it, in the order of the file. One piece if all of it is.
    pub pieces: Vec<FilePiece>,
    /// True if the pieces are the whole file.
    pub is_whole: bool,
    /// The messages that changed it since it was last seen whole, or at all.
    pub edited_by: Vec<usize>,
    /// The message that deleted it.
    pub deleted_by: Option<usize>,
    /// Why it may stand otherwise, in sentences.
    pub doubts: Vec<String>,
}

/// Lines of a file that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// The number of the first line, where it is known.
    pub first_line: Option<usize>,
    /// The lines.
    pub lines: Vec<String>,
    /// The message that showed or wrote them.
    pub from: usize,
}

impl FilePiece {
    fn holds(&self, line: usize) -> bool {
        self.first_line.is_some_and(|first| (first..first + self.lines.len()).contains(&line))
    }
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

impl FileNow {
    fn replace_by(&mut self, from: usize, lines: Vec<String>) {
        *self = FileNow {
            pieces: vec![FilePiece { first_line: Some(1), lines, from }],
            is_whole: true,
            ..FileNow::default()
        };
    }

    fn see(&mut self, number: usize, view: &FileView) {
        if view.is_whole {
            return self.replace_by(number, view.lines.clone());
        }
        let FileView { first_line, lines, .. } = view;
        let end = first_line + lines.len();
        if self.is_whole {
            let whole = &mut self.pieces[0].lines;
            let known = whole.get(first_line - 1..(end - 1).min(whole.len())).unwrap_or_default();
            if known != lines {
                self.doubts.push(format!(
                    "m{number} showed lines {first_line}-{} otherwise; they are told as it showed them",
                    end - 1
                ));
                let from = (first_line - 1).min(whole.len());
                let to = (end - 1).min(whole.len());
                whole.splice(from..to, lines.iter().cloned());
            }
            return;
        }
        // What was seen of these lines before is out of date.
        for piece in &mut self.pieces {
            if let Some(first) = piece.first_line
                && (piece.holds(*first_line) || (*first_line..end).contains(&first))
            {
                let before: Vec<String> = piece.lines.iter().take(first_line.saturating_sub(first)).cloned().collect();
                let after: Vec<String> = piece.lines.iter().skip(end.saturating_sub(first)).cloned().collect();
                piece.lines = if before.is_empty() && end > first { after } else { before };
                piece.first_line = Some(if first < *first_line { first } else { end });
            }
        }
        self.pieces.retain(|piece| !piece.lines.is_empty());
        self.pieces.push(FilePiece { first_line: Some(*first_line), lines: lines.clone(), from: number });
        self.pieces.sort_by_key(|piece| piece.first_line.unwrap_or(usize::MAX));
        self.deleted_by = None;
    }

    fn change(&mut self, number: usize, change: &FileChange) {
        match change {
            FileChange::Written(text) => return self.replace_by(number, lines_of(text)),
            FileChange::Deleted => *self = FileNow { deleted_by: Some(number), ..FileNow::default() },
            FileChange::Replaced(replaced) => replaced.iter().for_each(|one| self.replace(number, one)),
            FileChange::Inserted { after_line, text } => self.insert(number, *after_line, text),
        }
        if self.deleted_by.is_none() {
            self.edited_by.push(number);
        }
    }

    fn replace(&mut self, number: usize, one: &Replacement) {
        for at in 0..self.pieces.len() {
            let text = self.pieces[at].lines.join("\n");
            if !text.contains(&one.old) {
                continue;
            }
            let count = if one.is_everywhere { usize::MAX } else { 1 };
            let lines = lines_of(&text.replacen(&one.old, &one.new, count));
            self.shift(at, lines.len() as isize - self.pieces[at].lines.len() as isize);
            self.pieces[at].lines = lines;
            if !one.is_everywhere {
                return;
            }
        }
        if self.pieces.iter().any(|piece| piece.lines.join("\n").contains(&one.new)) && !one.new.is_empty() {
            return;
        }
        if self.is_whole {
            self.doubts.push(format!("the edit of m{number} is not applied: its old text is not in what was seen"));
        } else if !one.new.trim().is_empty() {
            self.pieces.push(FilePiece { first_line: None, lines: lines_of(&one.new), from: number });
        }
    }

    fn insert(&mut self, number: usize, after_line: usize, text: &str) {
        let new = lines_of(text);
        let place = self.pieces.iter().position(|piece| piece.holds(after_line.max(1)));
        let Some(at) = place else {
            return self.pieces.push(FilePiece { first_line: None, lines: new, from: number });
        };
        self.shift(at, new.len() as isize);
        let first = self.pieces[at].first_line.unwrap_or(1);
        let to = (after_line + 1).saturating_sub(first).min(self.pieces[at].lines.len());
        self.pieces[at].lines.splice(to..to, new);
    }

    /// Moves the numbers of the pieces behind one that grew or shrank.
    fn shift(&mut self, behind: usize, lines: isize) {
        let from = self.pieces[behind].first_line;
        for piece in &mut self.pieces {
            if let Some(first) = piece.first_line.as_mut().filter(|first| from.is_some_and(|from| **first > from)) {
                *first = first.saturating_add_signed(lines).max(1);
            }
        }
    }

    /// Returns it as text: what it is and how sure that is, then its lines.
    pub fn text(&self, path: &str) -> String {
        if let Some(number) = self.deleted_by.filter(|_| self.pieces.is_empty()) {
            return format!("[{path} was deleted by m{number}]\n");
        }
        let edited: Vec<String> = self.edited_by.iter().map(|number| format!("m{number}")).collect();
        let edits = if edited.is_empty() { String::new() } else { format!(", edited since by {}", edited.join(", ")) };
        let mut out = match &self.pieces[..] {
            [piece] if self.is_whole => {
                format!("[{path} as it stands: whole, as of m{}{edits}; {} lines]\n", piece.from, piece.lines.len())
            }
            _ => format!("[{path} as far as it is known: it was never read or written whole{edits}]\n"),
        };
        for doubt in &self.doubts {
            let _ = writeln!(out, "[{doubt}]");
        }
        for piece in &self.pieces {
            if !self.is_whole {
                let _ = match piece.first_line {
                    Some(first) => {
                        writeln!(out, "[lines {first}-{}, from m{}]", first + piece.lines.len() - 1, piece.from)
                    }
                    None => writeln!(out, "[somewhere in it, from m{}]", piece.from),
                };
            }
            piece.lines.iter().for_each(|line| out.extend([line.as_str(), "\n"]));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::FileHistory;
    use crate::policy::Tools;
    use crate::thread::{Outcome, Part, ToolCall, ToolResult};

    /// A conversation about `a.rs`: of each call its name, its arguments and what came of it.
    type Calls<'a> = &'a [(&'a str, &'a str, &'a str)];

    const READ: (&str, &str, &str) = ("Read", r#"{"file_path":"/x/a.rs"}"#, "1\tone\n2\ttwo\n3\tthree");
    const EDIT: (&str, &str, &str) =
        ("Edit", r#"{"file_path":"/x/a.rs","old_string":"two","new_string":"2\n2b"}"#, "updated");

    fn history<'a>(calls: Calls<'_>, tools: &'a Tools) -> FileHistory<'a> {
        let mut history = FileHistory::new("a.rs", tools);
        for (at, (name, arguments, printed)) in calls.iter().enumerate() {
            let call = ToolCall { id: "c".into(), name: (*name).into(), arguments: (*arguments).into() };
            history.push(2 * at + 1, &[Part::ToolCall(call)]);
            let outcome = printed.starts_with("Error").then_some(Outcome::Failure);
            history.push(2 * at + 2, &[Part::ToolResult(ToolResult::new("c", *printed, outcome))]);
        }
        history
    }

    #[test]
    fn a_file_stands_as_it_was_last_seen_with_every_later_edit_and_what_is_unknown_is_told() {
        let cases: [(Calls<'_>, &str); 11] = [
            (&[READ], "[a.rs as it stands: whole, as of m2; 3 lines]\none\ntwo\nthree\n"),
            (&[READ, EDIT], "[a.rs as it stands: whole, as of m2, edited since by m3; 4 lines]\none\n2\n2b\nthree\n"),
            (
                &[READ, ("Edit", r#"{"file_path":"/x/a.rs","old_string":"two","new_string":"2"}"#, "Error: rejected")],
                "[a.rs as it stands: whole, as of m2; 3 lines]\none\ntwo\nthree\n",
            ),
            (
                &[READ, ("Edit", r#"{"file_path":"/x/a.rs","old_string":"four","new_string":"4"}"#, "ok")],
                "[a.rs as it stands: whole, as of m2, edited since by m3; 3 lines]\n[the edit of m3 is not applied: its old text is not in what was seen]\none\ntwo\nthree\n",
            ),
            (&[EDIT, READ], "[a.rs as it stands: whole, as of m4; 3 lines]\none\ntwo\nthree\n"),
            (
                &[READ, ("Write", r#"{"file_path":"/x/a.rs","content":"new\n"}"#, "ok")],
                "[a.rs as it stands: whole, as of m3; 1 lines]\nnew\n",
            ),
            (
                &[READ, ("Bash", r#"{"command":"sed -i s/one/1/ a.rs"}"#, "")],
                "[a.rs as it stands: whole, as of m2; 3 lines]\n[m3 ran a command that names it: sed -i s/one/1/ a.rs]\none\ntwo\nthree\n",
            ),
            (
                &[("Read", r#"{"file_path":"/x/a.rs","offset":2,"limit":2}"#, "2\ttwo\n3\tthree"), EDIT],
                "[a.rs as far as it is known: it was never read or written whole, edited since by m3]\n[lines 2-4, from m2]\n2\n2b\nthree\n",
            ),
            (
                &[EDIT],
                "[a.rs as far as it is known: it was never read or written whole, edited since by m1]\n[somewhere in it, from m1]\n2\n2b\n",
            ),
            (
                &[READ, ("apply_patch", "*** Begin Patch\n*** Delete File: a.rs\n*** End Patch", "Done!")],
                "[a.rs was deleted by m3]\n",
            ),
            (
                &[READ, ("Read", r#"{"file_path":"/x/a.rs","offset":2,"limit":1}"#, "2\tTWO")],
                "[a.rs as it stands: whole, as of m2; 3 lines]\n[m4 showed lines 2-2 otherwise; they are told as it showed them]\none\nTWO\nthree\n",
            ),
        ];
        let tools = Tools::default();
        for (calls, expected) in cases {
            let now = history(calls, &tools).now().expect("something is known");
            assert_eq!(now.text("a.rs"), expected);
        }
        assert!(history(&[("Read", r#"{"file_path":"/x/b.rs"}"#, "1\tone")], &tools).now().is_none());
    }

    #[test]
    fn every_edit_is_told_as_a_diff_with_its_number_and_its_end() {
        let tools = Tools::default();
        let failed = ("Edit", r#"{"file_path":"/x/a.rs","old_string":"q","new_string":"w"}"#, "Error: not found");
        let text = history(&[READ, EDIT, failed], &tools).edits_text();
        assert_eq!(text, "[m3 /x/a.rs edited]\n-two\n+2\n+2b\n\n[m5 /x/a.rs edited, failed]\n-q\n+w\n\n");
    }

    #[test]
    fn a_line_is_outdated_by_the_first_change_that_took_it_out_for_good() {
        let back = ("Edit", r#"{"file_path":"/x/a.rs","old_string":"2b","new_string":"two"}"#, "ok");
        let tools = Tools::default();
        for (calls, line, expected) in [
            (&[READ, EDIT][..], "two", Some(3)),
            (&[READ, EDIT][..], "one", None),
            (&[READ, EDIT, back][..], "two", None),
            (&[READ, EDIT, READ][..], "2b", Some(6)),
            (&[EDIT, READ][..], "2b", Some(4)),
        ] {
            assert_eq!(history(calls, &tools).outdated_by(2, line), expected, "{calls:?} {line}");
        }
    }
}
