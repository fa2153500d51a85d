//! Forms: the headings under which a summary's sections stand, and the lines around them.

use std::sync::LazyLock;

use super::section::Section;
use crate::policy::{Preset, SummaryForm};

/// Bumped when the layout of a rendered summary changes.
pub const RENDER_VERSION: &str = "v1.0";

/// The heading of a section in a form; `None` where the form leaves the section out.
pub fn heading(form: SummaryForm, section: Section) -> Option<&'static str> {
    match form {
        SummaryForm::Structured | SummaryForm::Digest => structured(form, section),
        SummaryForm::Session => session(section),
        SummaryForm::Workstream => workstream(section),
        SummaryForm::Handoff => handoff(section),
    }
}

fn structured(form: SummaryForm, section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "## Pinned",
        Section::Constraints => "## Constraints",
        Section::Goal => "## Current goal",
        Section::Task => "## Task",
        Section::Requests => "## Requests so far",
        Section::TurnContext => "## Turn Context (split turn)",
        Section::Facts => "## What is known",
        Section::Plan => "## Plan",
        Section::OpenItems => "## Open items",
        Section::Decisions => "## Decisions",
        Section::Errors => "## Errors not fixed yet",
        Section::Outcomes => "## Tool outcomes",
        Section::Artifacts => "## Moved out",
        Section::Media => "## Images and files left out",
        Section::Hidden => "## Hidden messages",
        Section::Digest if form == SummaryForm::Digest => "## Compaction digest",
        Section::Digest => return None,
        Section::Files => "## Files, with lines from them",
        Section::Notes => "## The work so far, in order",
    })
}

fn session(section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "### Pinned",
        Section::Constraints => "### Constraints",
        Section::Goal => "### Current Goal",
        Section::Task => "### Original Task",
        Section::Requests => "### Later Requests",
        Section::TurnContext => "### Turn Context (split turn)",
        Section::Facts => "### What Is Known",
        Section::Plan => "### Pending Work",
        Section::OpenItems => "### Open Items",
        Section::Decisions => "### Key Technical Decisions",
        Section::Errors => "### Errors & Resolutions",
        Section::Outcomes => "### Tool Outcomes",
        Section::Digest => "### Completed Work",
        Section::Notes => "### Current State",
        Section::Media => "### Images and Files Left Out",
        Section::Files => "### Files",
        Section::Artifacts | Section::Hidden => return None,
    })
}

fn workstream(section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "PINNED:",
        Section::Constraints => "ACTIVE CONSTRAINTS:",
        Section::Goal => "CURRENT GOAL:",
        Section::Task | Section::Facts | Section::Decisions => "KEY FACTS:",
        Section::Requests => "CONVERSATION FLOW:",
        Section::TurnContext => "TURN CONTEXT (SPLIT TURN):",
        Section::Plan | Section::OpenItems | Section::Errors => "OPEN THREADS:",
        Section::Outcomes => "TOOL OUTCOMES:",
        Section::Notes => "DETAILS:",
        Section::Media => "IMAGES AND FILES LEFT OUT:",
        Section::Files => "FILES:",
        Section::Digest | Section::Artifacts | Section::Hidden => return None,
    })
}

fn handoff(section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "## Pinned",
        Section::Constraints => "## Constraints and preferences",
        Section::Goal => "## Current goal",
        Section::Task => "## Goal",
        Section::Requests => "## Requests so far",
        Section::TurnContext => "## Turn Context (split turn)",
        Section::Facts => "## What is known",
        Section::Plan => "## Next steps",
        Section::OpenItems => "## Open items",
        Section::Decisions => "## Key decisions",
        Section::Errors => "## Blocked or failing",
        Section::Outcomes => "## Tool outcomes",
        Section::Notes => "## Progress",
        Section::Files => "## Files, with lines from them",
        Section::Artifacts => "## Moved out",
        Section::Media => "## Images and files left out",
        Section::Digest | Section::Hidden => return None,
    })
}

/// What stands before words that must be in a prompt and that no summary in it holds.
pub const STILL_HOLDS: &str = "[Still holds]";

/// The section that a heading of any form opens.
pub fn heading_of(line: &str) -> Option<Section> {
    if line == STILL_HOLDS {
        return Some(Section::Pins);
    }
    let forms = [SummaryForm::Digest, SummaryForm::Session, SummaryForm::Workstream, SummaryForm::Handoff];
    forms.iter().find_map(|form| Section::ALL.into_iter().find(|section| heading(*form, *section) == Some(line)))
}

/// The line that opens a summary, with the turns it stands for and the round.
pub fn title(form: SummaryForm, turns: (u32, u32), round: u32) -> String {
    match form {
        SummaryForm::Structured | SummaryForm::Digest => {
            format!("[Context Summary - Turns {}-{}]\n[Summary {RENDER_VERSION}]", turns.0, turns.1)
        }
        SummaryForm::Session => format!("## Session Summary (Compaction Round {round})"),
        SummaryForm::Workstream | SummaryForm::Handoff => String::new(),
    }
}

/// What the presets put before a summary, and what they have the user ask for one.
static INTRODUCTIONS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let layouts = Preset::ALL.iter().map(|preset| preset.policy().render);
    layouts.map(|layout| (layout.prefix, layout.question)).collect()
});

/// Whether a message's text is a summary as it is rendered here; `before` is the text of the message before it.
pub fn is_rendered(text: &str, before: &str) -> bool {
    let opens = |text: &str| text.lines().next().is_some_and(|line| heading_of(line).is_some());
    let is_introduced = |(prefix, question): &(String, String)| {
        let body =
            Some(prefix).filter(|prefix| !prefix.is_empty()).and_then(|prefix| text.strip_prefix(prefix.as_str()));
        let answer = Some(text).filter(|_| !question.is_empty() && question == before);
        body.or(answer).is_some_and(|body| opens(body) || is_titled(body))
    };
    is_titled(text) || INTRODUCTIONS.iter().any(is_introduced)
}

/// Whether a text begins with the title of a form that has one.
fn is_titled(text: &str) -> bool {
    let numbers = |words: &str| !words.is_empty() && words.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let line = text.lines().next().unwrap_or_default();
    let turns = line.strip_prefix("[Context Summary - Turns ").and_then(|rest| rest.strip_suffix(']'));
    let round = line.strip_prefix("## Session Summary (Compaction Round ").and_then(|rest| rest.strip_suffix(')'));
    line == STILL_HOLDS || turns.or(round).is_some_and(numbers)
}

/// The line that closes a summary.
pub fn closing(form: SummaryForm, round: u32) -> Option<String> {
    match (form, round) {
        (SummaryForm::Session, 2..) => {
            let rounds = round - 1;
            let s = if rounds == 1 { "" } else { "s" };
            Some(format!("This summary includes what {rounds} earlier round{s} held."))
        }
        _ => None,
    }
}
