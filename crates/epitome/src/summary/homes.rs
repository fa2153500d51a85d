//! The definition that a chosen line of a file belongs to, also where the line was seen without it.
//!
//! ```text
//! m10  read resume.go, lines 390-420    func resumeSession(…) error {
//!                                           CheckpointID: checkpointID,
//! m40  edit resume.go                   old: CheckpointID: checkpointID,
//!                                       new: CheckpointID: id.Must(checkpointID),   ─► resumeSession, by the line it replaced
//! ```
//!
//! A line is looked for in its own passage first, then in what was read of the same file, newest first; a line that stands nowhere
//! else is found by its neighbors in the same edit. It guesses nothing: a line that no reading shows has no home.

use std::collections::HashMap;

use super::passages::{Passages, SourceKind, TextOrigin};
use super::select::Pick;
use crate::files::{home_of, is_definition};

/// So many lines of an edit are tried.
const NEIGHBORS_MAX: usize = 6;
/// The texts of one edit stand so near to each other.
const EDIT_PASSAGES_MAX: usize = 4;
/// A shorter line stands in too many places to say where.
const LINE_BYTES_MIN: usize = 12;
/// So many readings of a file are searched for each line.
const READINGS_MAX: usize = 12;

/// Finds the homes of chosen lines of files.
pub(super) fn find_homes<'a>(passages: &Passages<'a>, picks: &mut [Pick<'a>]) {
    let mut readings: HashMap<usize, Vec<&'a str>> = HashMap::new();
    for passage in passages.passages.iter().rev() {
        let is_reading =
            passages.sources[passage.source].kind == SourceKind::File && passage.origin == TextOrigin::Tool;
        let known = readings.entry(passage.source).or_default();
        if is_reading && known.len() < READINGS_MAX {
            known.push(passage.text);
        }
    }
    let mut of_passages: HashMap<usize, Option<&'a str>> = HashMap::new();
    for pick in picks.iter_mut().filter(|pick| !pick.text.is_empty() && !is_definition(pick.text)) {
        let Some(at) = pick.passage else { continue };
        let passage = &passages.passages[at];
        let readings = readings.get(&passage.source).map_or(&[][..], Vec::as_slice);
        let elsewhere = |line: &str| readings.iter().find_map(|text| home_in(text, line));
        let by_neighbors = || {
            let near = passages.passages[at.saturating_sub(EDIT_PASSAGES_MAX)..].iter().take(2 * EDIT_PASSAGES_MAX + 1);
            let of_edit = near.filter(|near| near.message == passage.message && near.source == passage.source);
            let neighbors = of_edit.flat_map(|near| near.text.lines()).map(str::trim);
            neighbors.filter(|line| line.len() >= LINE_BYTES_MIN).take(NEIGHBORS_MAX).find_map(elsewhere)
        };
        let is_edit = matches!(passage.origin, TextOrigin::Call);
        pick.home = home_of(passage.text, pick.text)
            .or_else(|| elsewhere(pick.text))
            .or_else(|| is_edit.then(|| *of_passages.entry(at).or_insert_with(by_neighbors)).flatten());
    }
}

fn home_in<'a>(text: &'a str, line: &str) -> Option<&'a str> {
    if line.len() < LINE_BYTES_MIN {
        return None;
    }
    let at = text.find(line)?;
    home_of(text, &text[at..at + line.len()])
}

#[cfg(test)]
mod tests {
    use super::super::arguments::CallArguments;
    use super::super::passages::Passages;
    use super::super::select::select;
    use super::super::testing;
    use super::find_homes;
    use crate::policy::Tools;

    #[test]
    fn a_line_that_was_seen_without_its_function_has_it_all_the_same() {
        let read = "     1\tfunc resume(id string) error {\\n     2\t\tpoint := Point{\\n     3\t\t\tCheckpointID: checkpointID,\\n     4\t\t}\\n     5\t}";
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
            ("no reading shows it", edit("SessionID: sessionID,", "SessionID: id.Must(sessionID),"), None),
        ];
        for (why, edit, expected) in cases {
            let lines = format!("user: go\ncall read: {{\"path\":\"a/resume.go\"}}\nresult read: {read}\n{edit}");
            let thread = testing::thread(&lines);
            let (arguments, tools) = (CallArguments::of(&thread), Tools::default());
            let passages = Passages::of(&thread, &arguments, &tools, &[]);
            let is_kept = vec![false; passages.passages.len()];
            let mut picks = select(&passages, &is_kept, &[], "", 400, &|text| text.len() / 4);
            find_homes(&passages, &mut picks);
            let changed = picks.iter().find(|pick| pick.text.contains("id.Must")).unwrap();
            assert_eq!(changed.home, expected, "{why}: {picks:?}");
        }
    }
}
