//! Instructions for a summary that name all that is wanted: "only the to-dos", "just decisions and errors", "nur die Aufgaben".
//!
//! Any other instructions decide what is dwelt on, and limit nothing. It counts as a limit only where each word of the
//! instructions is understood: "only the todo app is broken" names a thing of the work, and leaving out everything else would be a
//! loss that nobody asked for.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::headings::Section;
use super::structured::StructuredSummary;
use crate::table::LowerList;

/// The words of `data/wishes.toml`, which says what each list is for.
static WORDS: LazyLock<WishWords> = LazyLock::new(|| crate::embedded_table!("wishes.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WishWords {
    only: LowerList,
    filling: LowerList,
    todos: LowerList,
    decisions: LowerList,
    errors: LowerList,
    files: LowerList,
    findings: LowerList,
    state: LowerList,
}

/// The sections that no wish leaves out: what must stay, and what the person typed.
pub(super) const ALWAYS: [Section; 4] = [Section::Pins, Section::Constraints, Section::Requests, Section::Outcomes];

/// Returns the sections that instructions limit a summary to; `None` where they limit nothing.
pub(super) fn wanted_sections(instructions: &str) -> Option<HashSet<Section>> {
    use Section::{Decisions, Digest, Errors, Facts, Files, Goal, OpenItems, Plan, State, TurnContext, Workstream};
    let lower = instructions.to_lowercase().replace('’', "'");
    let is_sign = |c: char| !(c.is_alphanumeric() || c == '-' || c == '\'');
    let words: Vec<&str> = lower.split(is_sign).filter(|word| !word.is_empty()).flat_map(segments).collect();
    let is_in = |list: &LowerList, word: &str| list.contains(word);
    if !words.iter().any(|word| is_in(&WORDS.only, word)) {
        return None;
    }
    let topics: [(&LowerList, &[Section]); 6] = [
        (&WORDS.todos, &[Plan, OpenItems, Workstream]),
        (&WORDS.decisions, &[Decisions]),
        (&WORDS.errors, &[Errors]),
        (&WORDS.files, &[Files, Digest]),
        (&WORDS.findings, &[Facts]),
        (&WORDS.state, &[State, Goal, TurnContext]),
    ];
    let mut wanted = HashSet::new();
    for word in words {
        match topics.iter().find(|(list, _)| is_in(list, word)) {
            Some((_, sections)) => wanted.extend(sections.iter().copied()),
            None if is_in(&WORDS.only, word) || is_in(&WORDS.filling, word) => {}
            None => return None,
        }
    }
    (!wanted.is_empty()).then_some(wanted)
}

/// Tells whether there is something for one of the sections.
pub(super) fn has_any(items: &StructuredSummary, sections: &HashSet<Section>) -> bool {
    let lists = [
        (Section::Plan, items.current_plan.is_empty()),
        (Section::OpenItems, items.open_items.is_empty()),
        (Section::Decisions, items.decisions.is_empty()),
        (Section::Errors, items.errors.iter().all(|error| error.fixed.is_some())),
        (Section::Files, items.files.is_empty()),
        (Section::Facts, items.facts.is_empty()),
        (Section::State, items.state.is_empty()),
    ];
    lists.iter().any(|(section, is_empty)| !is_empty && sections.contains(section))
}

/// Splits a word of a script without spaces into the words of the table; any other stays as it is.
fn segments(word: &str) -> Vec<&str> {
    let lists = [
        &WORDS.only,
        &WORDS.filling,
        &WORDS.todos,
        &WORDS.decisions,
        &WORDS.errors,
        &WORDS.files,
        &WORDS.findings,
        &WORDS.state,
    ];
    let has_spaces = |c: char| c.is_alphabetic() && (c as u32) < 0x3000;
    if word.contains(has_spaces) {
        return vec![word];
    }
    let (mut rest, mut found) = (word, Vec::new());
    while !rest.is_empty() {
        let longest = lists.iter().flat_map(|list| list.prefixes_of(rest)).map(str::len).max();
        let Some(end) = longest else { return vec![word] };
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::headings::Section;
    use super::wanted_sections;

    #[test]
    fn instructions_limit_a_summary_only_where_every_word_of_them_is_understood() {
        let cases = [
            ("only the TODOs", Some(Section::Plan)),
            ("Only keep the to-do list, please.", Some(Section::OpenItems)),
            ("just decisions and open errors", Some(Section::Decisions)),
            ("Nur die Aufgaben", Some(Section::Plan)),
            ("solo las tareas pendientes", Some(Section::Plan)),
            ("seulement les décisions", Some(Section::Decisions)),
            ("只保留待办", Some(Section::Plan)),
            ("タスクだけ残して", Some(Section::Plan)),
            ("only the todo app is broken", None),
            ("focus on the tests", None),
            ("the to-dos", None),
            ("only", None),
            ("", None),
        ];
        for (words, section) in cases {
            let wanted = wanted_sections(words);
            match section {
                Some(section) => assert!(wanted.is_some_and(|wanted| wanted.contains(&section)), "{words}"),
                None => assert_eq!(wanted, None, "{words}"),
            }
        }
    }
}
