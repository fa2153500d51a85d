//! Forms: the headings under which a summary's sections stand, and the lines around them.

use super::section::Section;
use crate::policy::Form;

/// Bumped when the layout of a rendered summary changes.
pub const RENDER_VERSION: &str = "v1.0";

/// The heading of a section in a form; `None` where the form leaves the section out.
pub fn heading(form: Form, section: Section) -> Option<&'static str> {
    match form {
        Form::Structured | Form::Digest => structured(form, section),
        Form::Session => session(section),
        Form::Workstream => workstream(section),
        Form::Handoff => handoff(section),
    }
}

fn structured(form: Form, section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "## Pinned",
        Section::Constraints => "## Constraints",
        Section::Task => "## Task",
        Section::Requests => "## Requests so far",
        Section::TurnContext => "## Turn Context (split turn)",
        Section::Facts => "## What is known",
        Section::Plan => "## Plan",
        Section::Decisions => "## Decisions",
        Section::Errors => "## Errors not fixed yet",
        Section::Outcomes => "## Tool outcomes",
        Section::Artifacts => "## Moved out",
        Section::Hidden => "## Hidden messages",
        Section::Digest if form == Form::Digest => "## Compaction digest",
        Section::Digest => return None,
        Section::Files => "## Files, with lines from them",
        Section::Notes => "## The work so far, in order",
    })
}

fn session(section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "### Pinned",
        Section::Constraints => "### Constraints",
        Section::Task => "### Original Task",
        Section::Requests => "### Later Requests",
        Section::TurnContext => "### Turn Context (split turn)",
        Section::Facts => "### What Is Known",
        Section::Plan => "### Pending Work",
        Section::Decisions => "### Key Technical Decisions",
        Section::Errors => "### Errors & Resolutions",
        Section::Outcomes => "### Tool Outcomes",
        Section::Digest => "### Completed Work",
        Section::Notes => "### Current State",
        Section::Files => "### Files",
        Section::Artifacts | Section::Hidden => return None,
    })
}

fn workstream(section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "PINNED:",
        Section::Constraints => "ACTIVE CONSTRAINTS:",
        Section::Task | Section::Facts | Section::Decisions => "KEY FACTS:",
        Section::Requests => "CONVERSATION FLOW:",
        Section::TurnContext => "TURN CONTEXT (SPLIT TURN):",
        Section::Plan | Section::Errors => "OPEN THREADS:",
        Section::Outcomes => "TOOL OUTCOMES:",
        Section::Notes => "DETAILS:",
        Section::Files => "FILES:",
        Section::Digest | Section::Artifacts | Section::Hidden => return None,
    })
}

fn handoff(section: Section) -> Option<&'static str> {
    Some(match section {
        Section::Pins => "## Pinned",
        Section::Constraints => "## Constraints and preferences",
        Section::Task => "## Goal",
        Section::Requests => "## Requests so far",
        Section::TurnContext => "## Turn Context (split turn)",
        Section::Facts => "## What is known",
        Section::Plan => "## Next steps",
        Section::Decisions => "## Key decisions",
        Section::Errors => "## Blocked or failing",
        Section::Outcomes => "## Tool outcomes",
        Section::Notes => "## Progress",
        Section::Files => "## Files, with lines from them",
        Section::Artifacts => "## Moved out",
        Section::Digest | Section::Hidden => return None,
    })
}

/// The section that a heading of any form opens.
pub fn heading_of(line: &str) -> Option<Section> {
    let forms = [Form::Digest, Form::Session, Form::Workstream, Form::Handoff];
    forms.iter().find_map(|form| Section::ALL.into_iter().find(|section| heading(*form, *section) == Some(line)))
}

/// The line that opens a summary, with the turns it stands for and the round.
pub fn title(form: Form, turns: (u32, u32), round: u32) -> String {
    match form {
        Form::Structured | Form::Digest => {
            format!("[Context Summary - Turns {}-{}]\n[Summary {RENDER_VERSION}]", turns.0, turns.1)
        }
        Form::Session => format!("## Session Summary (Compaction Round {round})"),
        Form::Workstream | Form::Handoff => String::new(),
    }
}

/// The line that closes a summary.
pub fn closing(form: Form, round: u32) -> Option<String> {
    match (form, round) {
        (Form::Session, 2..) => {
            let rounds = round - 1;
            let s = if rounds == 1 { "" } else { "s" };
            Some(format!("This summary includes what {rounds} earlier round{s} held."))
        }
        _ => None,
    }
}
