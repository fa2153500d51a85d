//! Headings: the sections of a summary, what each form calls them, and the lines around them.
//!
//! A rendered summary is read back in the next round (`parse.rs`), and a list file that holds one is recognized by its title
//! (`is_rendered`). A changed heading is therefore a changed format: summaries that are stored already lose that section.

use std::sync::LazyLock;

use super::clip::GAP;
use super::set_apart::set_apart_item;
use crate::policy::{Preset, SummaryForm};

/// The version of the layout, written into the titles of the structured forms. Bump it when the layout changes.
const RENDER_VERSION: &str = "v1.0";

/// A section of a summary: the same content in every form, under the form's own heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Section {
    Pins,
    Constraints,
    /// The goal in a model's words.
    Goal,
    /// The thread's first request.
    Task,
    Requests,
    /// The summarized beginning of the turn that is still going on.
    TurnContext,
    /// Tests, builds and commits: how things are.
    State,
    /// The capped lists that are kept beside a workstream's summary.
    Workstream,
    Facts,
    Plan,
    OpenItems,
    Decisions,
    Errors,
    /// Tool answers whose fields must stay.
    Outcomes,
    Media,
    Hidden,
    /// The inventory of what tools did.
    Digest,
    /// Quoted lines of files.
    Files,
    /// Quoted lines of everything else.
    Notes,
}

/// Each section's heading in the forms structured and digest, session, workstream, and handoff; empty where the form leaves
/// the section out. Where two sections of a form share a heading, text under it is read back as the first of them.
#[rustfmt::skip]
const HEADINGS: [(Section, [&str; 4]); 19] = {
    use Section::{
        Constraints, Decisions, Digest, Errors, Facts, Files, Goal, Hidden, Media, Notes, OpenItems, Outcomes, Pins, Plan,
        Requests, State, Task, TurnContext, Workstream,
    };
    [
        (Pins, ["## Pinned", "### Pinned", "PINNED:", "## Pinned"]),
        (Constraints, ["## Constraints", "### Constraints", "ACTIVE CONSTRAINTS:", "## Constraints and preferences"]),
        (Goal, ["## Current goal", "### Current Goal", "CURRENT GOAL:", "## Current goal"]),
        (Task, ["## Task", "### Original Task", "", "## Goal"]),
        (Requests, ["## What the user said", "### What the User Said", "CONVERSATION FLOW:", "## What the user said"]),
        (TurnContext, [
            "## Turn Context (split turn)", "### Turn Context (split turn)", "TURN CONTEXT (SPLIT TURN):", "## Turn Context (split turn)",
        ]),
        (State, ["## State now", "### Current State", "STATE NOW:", "## State now"]),
        (Workstream, ["", "", "WORKSTREAM STATE:", ""]),
        (Facts, ["## What is known", "### What Is Known", "KEY FACTS:", "## What is known"]),
        (Plan, ["## Plan", "### Pending Work", "OPEN THREADS:", "## Next steps"]),
        (OpenItems, ["## Open items", "### Pending Work", "OPEN THREADS:", "## Open items"]),
        (Decisions, ["## Decisions", "### Key Technical Decisions", "KEY FACTS:", "## Key decisions"]),
        (Errors, ["## Errors not fixed yet", "### Errors & Resolutions", "OPEN THREADS:", "## Blocked or failing"]),
        (Outcomes, ["## Tool outcomes", "### Tool Outcomes", "TOOL OUTCOMES:", "## Tool outcomes"]),
        (Media, [
            "## Images and files left out", "### Images and Files Left Out", "IMAGES AND FILES LEFT OUT:", "## Images and files left out",
        ]),
        (Hidden, ["## Hidden messages", "", "", ""]),
        (Digest, ["## Compaction digest", "### Completed Work", "", ""]),
        (Files, ["## Files, with lines from them", "### Files", "FILES:", "## Files, with lines from them"]),
        (Notes, ["## The work so far, in order", "### Details", "DETAILS:", "## Progress"]),
    ]
};

/// Returns the heading of a section in a form; `None` where the form leaves the section out.
pub(super) fn heading(form: SummaryForm, section: Section) -> Option<&'static str> {
    let column = match form {
        SummaryForm::Structured if section == Section::Digest => return None,
        SummaryForm::Structured | SummaryForm::Digest => 0,
        SummaryForm::Session => 1,
        SummaryForm::Workstream => 2,
        SummaryForm::Handoff => 3,
    };
    let row = HEADINGS.iter().find(|(row, _)| *row == section)?;
    Some(row.1[column]).filter(|heading| !heading.is_empty())
}

/// Stands before words that must be in a prompt and that no summary in it holds.
const STILL_HOLDS: &str = "[Still holds]";

/// Returns the message that tells words which must be in a prompt and are nowhere else in it.
pub(crate) fn still_holds(words: &[String]) -> String {
    let items = words.iter().map(|words| format!("\n- {}", set_apart_item(words)));
    items.fold(STILL_HOLDS.to_owned(), |text, item| text + &item)
}

/// Stands before lines of the user's words for which there was no room among the others.
pub(super) const OTHER_WORDS: &str = "From other messages of the user:";

/// Stands before the newest actions, under the heading of the state.
pub(super) const LAST_ACTIONS: &str = "Last actions before what follows, oldest first:";

/// Returns the section that a heading of any form opens.
pub(super) fn section_of(line: &str) -> Option<Section> {
    match line {
        STILL_HOLDS => return Some(Section::Pins),
        OTHER_WORDS => return Some(Section::Requests),
        _ => {}
    }
    let of_form = |column: usize| HEADINGS.iter().find(|(_, headings)| !line.is_empty() && headings[column] == line);
    (0..4).find_map(of_form).map(|(section, _)| *section)
}

const TURNS_TITLE: &str = "[Context Summary - Turns ";
const VERSION_TITLE: &str = "[Summary ";
const ROUND_TITLE: &str = "## Session Summary (Compaction Round ";

/// Tells whether a line is one of those that open a summary.
pub(super) fn is_title_line(line: &str) -> bool {
    [TURNS_TITLE, VERSION_TITLE, ROUND_TITLE].iter().any(|title| line.starts_with(title))
}

/// Returns the line that opens a summary, with the turns it stands for and the round.
pub(super) fn title(form: SummaryForm, turns: (u32, u32), round: u32) -> String {
    match form {
        SummaryForm::Structured | SummaryForm::Digest => {
            format!("{TURNS_TITLE}{}-{}]\n{VERSION_TITLE}{RENDER_VERSION}]", turns.0, turns.1)
        }
        SummaryForm::Session => format!("{ROUND_TITLE}{round})"),
        SummaryForm::Workstream | SummaryForm::Handoff => String::new(),
    }
}

/// The presets' words before a summary, and their questions that a summary answers.
static INTRODUCTIONS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let layouts = Preset::ALL.iter().map(|preset| preset.policy().render);
    layouts.map(|layout| (layout.prefix, layout.question)).collect()
});

/// Tells whether a message's text is a summary as it is rendered here; `before` is the text of the message before it. A list
/// file has no other mark: where this fails, the next round quotes the summary as the user's words.
pub(crate) fn is_rendered(text: &str, before: &str) -> bool {
    let opens = |text: &str| {
        // Earlier versions began some summaries with an empty line.
        let line = text.trim_start().lines().next().unwrap_or_default();
        section_of(line).is_some() || line == GAP
    };
    let is_introduced = |(prefix, question): &(String, String)| {
        let body =
            Some(prefix).filter(|prefix| !prefix.is_empty()).and_then(|prefix| text.strip_prefix(prefix.as_str()));
        let answer = Some(text).filter(|_| !question.is_empty() && question == before);
        body.or(answer).is_some_and(|body| opens(body) || is_titled(body))
    };
    is_titled(text) || INTRODUCTIONS.iter().any(is_introduced)
}

fn is_titled(text: &str) -> bool {
    text.lines().next() == Some(STILL_HOLDS) || titled_turns(text).is_some() || titled_round(text).is_some()
}

/// Returns the turns that a summary's title names.
pub(crate) fn titled_turns(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().next()?;
    let turns = line.strip_prefix(TURNS_TITLE)?.strip_suffix(']')?;
    let (first, last) = turns.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Returns the round that a summary's title names.
pub(super) fn titled_round(text: &str) -> Option<u32> {
    let line = text.lines().next()?;
    line.strip_prefix(ROUND_TITLE)?.strip_suffix(')')?.parse().ok()
}

/// Returns the line that closes a summary, in the form that has one.
pub(super) fn closing(form: SummaryForm, round: u32) -> Option<String> {
    match (form, round) {
        (SummaryForm::Session, 2..) => {
            let rounds = round - 1;
            let s = if rounds == 1 { "" } else { "s" };
            Some(format!("{CLOSING}{rounds} earlier round{s} held."))
        }
        _ => None,
    }
}

const CLOSING: &str = "This summary includes what ";

/// Tells whether a line is the one that closes a summary.
pub(super) fn is_closing(line: &str) -> bool {
    line.starts_with(CLOSING) && line.ends_with(" held.")
}

/// Every line of ours that some form has, as it would stand in a summary.
#[cfg(test)]
pub(super) fn lines_of_ours() -> Vec<String> {
    let headings = HEADINGS.iter().flat_map(|(_, headings)| headings.iter().map(|heading| (*heading).to_owned()));
    let mut lines: Vec<String> = headings.filter(|heading| !heading.is_empty()).collect();
    for form in [SummaryForm::Structured, SummaryForm::Session] {
        lines.extend(title(form, (1, 9), 3).lines().map(str::to_owned));
        lines.extend(closing(form, 3));
    }
    lines.extend([STILL_HOLDS, OTHER_WORDS, LAST_ACTIONS].map(str::to_owned));
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::{INTRODUCTIONS, is_rendered};

    #[test]
    fn a_summary_is_known_again_whatever_it_begins_with() {
        let bodies = [
            "## Files, with lines from them\nsrc/a.rs (read m3):\nfn a()",
            "\n## Files, with lines from them\nsrc/a.rs (read m3):\nfn a()",
            "From other messages of the user:\nm3: and test it",
            "[Still holds]\n- Never push.",
            "[... left out ...]",
        ];
        for (prefix, _) in INTRODUCTIONS.iter().filter(|(prefix, _)| !prefix.is_empty()) {
            for body in bodies {
                assert!(is_rendered(&format!("{prefix}{body}"), ""), "{prefix}{body}");
            }
            assert!(!is_rendered(&format!("{prefix}What does this mean?"), ""), "{prefix}");
        }
    }
}
