//! The definition that a chosen line of a file belongs to, also where the line was seen without it.
//!
//! ```text
//! m10  read resume.go, lines 390-420    func resumeSession(…) error {
//!                                           CheckpointID: checkpointID,
//! m40  edit resume.go                   old: CheckpointID: checkpointID,
//!                                       new: CheckpointID: id.Must(checkpointID),   ─► resumeSession, by the line it replaced
//! ```
//!
//! A line is looked for in its own passage first, then in what was read of the same file, newest first, where it stands there once; a
//! line that stands nowhere else is found by its neighbors in the same edit. A definition that a later edit changed is told as it stands. It guesses nothing: a
//! line that no reading shows has no home.

use std::collections::HashMap;

use super::passages::{Passage, Passages, SourceKind, TextOrigin};
use super::select::{OutdatedLines, Pick};
use crate::files::{definition_name, home_of, is_definition};
use crate::policy::ArgumentKind;

/// So many lines of an edit are tried.
const NEIGHBORS_MAX: usize = 6;
/// The texts of one edit stand so near to each other.
const EDIT_PASSAGES_MAX: usize = 4;
/// A shorter line stands in too many places to say where; what is typical of a language, as `if err != nil {`, takes a little more.
const LINE_BYTES_MIN: usize = 12;
const NEIGHBOR_BYTES_MIN: usize = 20;
/// So many readings of a file are searched for each line.
const READINGS_MAX: usize = 12;

/// Finds the homes of chosen lines of files.
pub(super) fn find_homes<'a>(passages: &Passages<'a>, outdated: &OutdatedLines, picks: &mut [Pick<'a>]) {
    let mut homes = HomeFinder { passages, outdated, readings: HashMap::new(), of_edits: HashMap::new() };
    for (at, passage) in passages.passages.iter().enumerate().rev() {
        let is_file = passages.sources[passage.source].kind == SourceKind::File;
        let known = homes.readings.entry(passage.source).or_default();
        if is_file && passage.origin == TextOrigin::Tool && known.len() < READINGS_MAX {
            known.push(at);
        }
    }
    for pick in picks.iter_mut().filter(|pick| !pick.text.is_empty() && !is_definition(pick.text)) {
        pick.home = pick.passage.and_then(|at| homes.find(at, pick.text));
    }
}

struct HomeFinder<'p, 'a> {
    passages: &'p Passages<'a>,
    outdated: &'p OutdatedLines,
    /// The passages in which each file was read, newest first.
    readings: HashMap<usize, Vec<usize>>,
    /// The homes that the neighbors of an edited line tell, by passage.
    of_edits: HashMap<usize, Option<&'a str>>,
}

impl<'a> HomeFinder<'_, 'a> {
    fn find(&mut self, at: usize, line: &'a str) -> Option<&'a str> {
        let passage = &self.passages.passages[at];
        if let Some(home) = home_of(passage.text, line) {
            return self.as_it_stands(passage, home);
        }
        let home = self.in_readings(passage.source, line);
        if home.is_some() || passage.origin != TextOrigin::Call {
            return home;
        }
        if let Some(known) = self.of_edits.get(&at) {
            return *known;
        }
        let near =
            self.passages.passages[at.saturating_sub(EDIT_PASSAGES_MAX)..].iter().take(2 * EDIT_PASSAGES_MAX + 1);
        let of_edit = near.filter(|near| near.message == passage.message && near.source == passage.source);
        let neighbors = of_edit.flat_map(|near| near.text.lines()).map(str::trim);
        let mut neighbors = neighbors.filter(|line| line.len() >= NEIGHBOR_BYTES_MIN).take(NEIGHBORS_MAX);
        let home = neighbors.find_map(|line| self.in_readings(passage.source, line));
        self.of_edits.insert(at, home);
        home
    }

    /// Returns the home of a line where the file was read.
    fn in_readings(&self, source: usize, line: &str) -> Option<&'a str> {
        let readings = self.readings.get(&source).map_or(&[][..], Vec::as_slice);
        readings.iter().find_map(|at| {
            let passage = &self.passages.passages[*at];
            self.as_it_stands(passage, home_in(passage.text, line)?)
        })
    }

    /// Returns a home as the newest edit that touched it wrote it; `None` where it was taken out.
    fn as_it_stands(&self, passage: &Passage<'a>, home: &'a str) -> Option<&'a str> {
        if !self.outdated.has(passage, home) {
            return Some(home);
        }
        let name = definition_name(home)?;
        let written = self
            .passages
            .passages
            .iter()
            .rev()
            .filter(|later| later.source == passage.source && later.argument == Some(ArgumentKind::Written));
        written.take_while(|later| later.message >= passage.message).find_map(|later| {
            let mut lines = later.text.lines().map(str::trim).filter(|line| is_definition(line));
            lines.find(|line| definition_name(line) == Some(name) && !self.outdated.has(later, line))
        })
    }
}

fn home_in<'a>(text: &'a str, line: &str) -> Option<&'a str> {
    if line.len() < LINE_BYTES_MIN {
        return None;
    }
    let mut places = text.match_indices(line);
    let (at, _) = places.next()?;
    let home = home_of(text, &text[at..at + line.len()])?;
    places.all(|(at, _)| home_of(text, &text[at..at + line.len()]) == Some(home)).then_some(home)
}

#[cfg(test)]
mod tests {
    use super::super::arguments::CallArguments;
    use super::super::passages::Passages;
    use super::super::select::select;
    use super::super::testing;
    use crate::policy::Tools;

    #[test]
    fn a_line_that_was_seen_without_its_function_has_it_all_the_same() {
        let read = "     1\tfunc resume(id string) error {\\n     2\t\tpoint := Point{\\n     3\t\t\tCheckpointID: checkpointID,\\n     4\t\t}\\n     5\t\tif err != nil {\\n     6\t\t}\\n     7\t}";
        let edit = |old: &str, new: &str| {
            format!("call edit: {{\"path\":\"a/resume.go\",\"old_string\":\"{old}\",\"new_string\":\"{new}\"}}")
        };
        let home = Some("func resume(id string) error {");
        let cases = [
            (
                "by the line it replaced",
                edit("CheckpointID: checkpointID,", "CheckpointID: id.Must(checkpointID),"),
                home,
            ),
            (
                "under the new signature",
                format!(
                    "{}\n{}",
                    edit("func resume(id string) error {", "func resume(id ID, force bool) error {"),
                    edit("CheckpointID: checkpointID,", "CheckpointID: id.Must(checkpointID),")
                ),
                Some("func resume(id ID, force bool) error {"),
            ),
            ("no reading shows it", edit("SessionID: sessionID,", "SessionID: id.Must(sessionID),"), None),
            (
                "its neighbor stands in every function",
                edit("if err != nil {\\nreturn from(sessionID)", "if err != nil {\\nreturn id.Must(sessionID)"),
                None,
            ),
        ];
        for (why, edit, expected) in cases {
            let lines = format!("user: go\ncall read: {{\"path\":\"a/resume.go\"}}\nresult read: {read}\n{edit}");
            let thread = testing::thread(&lines);
            let (arguments, tools) = (CallArguments::of(&thread), Tools::default());
            let passages = Passages::of(&thread, &arguments, &tools, &[]);
            let is_kept = vec![false; passages.passages.len()];
            let picks = select(&passages, &is_kept, &[], "", 400, &|text| text.len() / 4);
            let changed = picks.iter().find(|pick| pick.text.contains("id.Must")).unwrap();
            assert_eq!(changed.home, expected, "{why}: {picks:?}");
        }
    }

    #[test]
    fn an_edit_that_changed_nothing_is_not_quoted() {
        let edit = r#"call edit: {"path":"a/resume.go","old_string":"point := old()","new_string":"point := id.Must(checkpointID)"}"#;
        let cases = [
            ("it went through", "The file a/resume.go has been updated.", true),
            ("it was rejected", "The user doesn't want to proceed with this tool use. STOP what you are doing", false),
        ];
        for (why, result, expected) in cases {
            let thread = testing::thread(&format!("user: go\n{edit}\nresult edit: {result}"));
            let (arguments, tools) = (CallArguments::of(&thread), Tools::default());
            let passages = Passages::of(&thread, &arguments, &tools, &[]);
            let is_kept = vec![false; passages.passages.len()];
            let picks = select(&passages, &is_kept, &[], "", 400, &|text| text.len() / 4);
            assert_eq!(picks.iter().any(|pick| pick.text.contains("id.Must")), expected, "{why}: {picks:?}");
            assert_eq!(passages.sources.iter().any(|source| source.edited.is_some()), expected, "{why}");
        }
    }
}
