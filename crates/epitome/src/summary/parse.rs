//! Parsing a rendered summary: its items are read back from the text that code wrote.
//!
//! A message list on disk has no place for structured items. When it is compacted again, all that is left of the earlier
//! round is its text, so the text is the format:
//!
//! ```text
//! ## Constraints                     ─► constraints: "Never push to main."
//! - Never push to main.
//! ## Requests so far
//! m3: Add tests.                     ─► a request of message 3, answered
//! m9 (superseded): Stop.             ─► a request of message 9, superseded
//! ## Errors not fixed yet
//! - make: error: no rule (m14)       ─► an error about `make` in message 14, open
//! ```
//!
//! Only text under our own headings becomes items; the rest is left to the ranking. A line that no longer parses is lost to
//! the next round, so `embedded.rs` and this file change together.

use super::constraint::constraints;
use super::headings::{Section, heading, section_of};
use super::structured::{
    Decision, ErrorFact, OpenItem, PlanItem, Priority, Quote, RequestState, StructuredSummary, ToolOutcome, UserRequest,
};
use crate::policy::SummaryForm;
use crate::thread::{Outcome, own_words};

/// Stands before the request that is open.
pub(super) const LATEST_REQUEST: &str = "Latest request (m";

/// Adds the items of an earlier summary's text to `items`; those without a place of their own get the text's.
pub(super) fn parse_items(text: &str, place: usize, items: &mut StructuredSummary) {
    let first = items.requests.len();
    let workstream = text.lines().any(|line| heading(SummaryForm::Workstream, Section::Facts) == Some(line));
    for (section, body) in sections(text) {
        match section {
            Some(Section::Pins) => {
                let new: Vec<String> =
                    bullets(body).filter(|pin| !items.pins.iter().any(|own| own == pin)).map(str::to_owned).collect();
                items.pins.extend(new);
            }
            Some(Section::Constraints) => bullets(body).for_each(|item| add_constraint(items, item, place)),
            Some(Section::Task) if workstream => parse_key_facts(items, body, place),
            Some(Section::Task) => add_request(items, body.trim(), place, RequestState::Answered),
            Some(Section::Requests | Section::TurnContext) => parse_requests(items, body),
            Some(Section::Plan) => items.current_plan = bullets(body).map(|item| plan_item(item, place)).collect(),
            Some(Section::Decisions) => items.decisions.extend(bullets(body).map(|item| decision(item, place))),
            Some(Section::Errors) => items.errors.extend(bullets(body).map(|item| error(item, place))),
            Some(Section::Goal) => items.goal = Some(body.trim().to_owned()).filter(|goal| !goal.is_empty()),
            Some(Section::OpenItems) => items.open_items.extend(bullets(body).map(open_item)),
            Some(Section::Facts) => {
                items.facts.extend(bullets(body).map(|text| Quote { text: text.to_owned(), place }));
            }
            Some(Section::Outcomes) => items.tool_outcomes.extend(bullets(body).filter_map(tool_outcome)),
            Some(Section::Media) => {
                items.media.extend(bullets(body).filter_map(parse_label).map(|(place, _, text)| Quote { text, place }));
            }
            _ => {}
        }
    }
    for at in first..items.requests.len() {
        let UserRequest { text, place, .. } = items.requests[at].clone();
        constraints(&text).for_each(|sentence| add_constraint(items, sentence, place));
    }
    items.rounds += 1;
}

/// Parses the section of the form that has one heading for the task and for facts: the task is not a list.
fn parse_key_facts(items: &mut StructuredSummary, body: &str, place: usize) {
    let task: Vec<&str> = body.lines().filter(|line| !line.trim_start().starts_with("- ")).collect();
    add_request(items, task.join("\n").trim(), place, RequestState::Answered);
    items.facts.extend(bullets(body).map(|text| Quote { text: text.to_owned(), place }));
}

/// Splits a summary's text into pieces, each with the section that its heading opens.
pub(super) fn sections(text: &str) -> Vec<(Option<Section>, &str)> {
    let mut pieces = Vec::new();
    let (mut section, mut from, mut at) = (None, 0, 0);
    for line in text.split_inclusive('\n') {
        if let Some(found) = section_of(line.trim()) {
            pieces.push((section, &text[from..at]));
            (section, from) = (Some(found), at + line.len());
        }
        at += line.len();
    }
    pieces.push((section, &text[from..]));
    pieces
}

fn bullets(body: &str) -> impl Iterator<Item = &str> {
    body.lines().filter_map(|line| line.trim().strip_prefix("- "))
}

fn add_constraint(items: &mut StructuredSummary, sentence: &str, place: usize) {
    if items.constraints.iter().all(|known| known.text != sentence) {
        items.constraints.push(Quote { text: sentence.to_owned(), place });
    }
}

/// Parses requests: `m12: words`, over as many lines as they have, and the latest under a line of its own.
fn parse_requests(items: &mut StructuredSummary, body: &str) {
    let mut open: Option<(usize, RequestState, String)> = None;
    // A bullet ends a request; one past the last line ends the last request.
    for line in body.lines().chain(["- "]) {
        let started = parse_label(line);
        if started.is_some() || line.starts_with("- ") {
            if let Some((place, state, words)) = std::mem::replace(&mut open, started) {
                add_request(items, words.trim(), place, state);
            }
        } else if let Some((_, _, words)) = &mut open {
            words.push('\n');
            words.push_str(line);
        }
    }
}

/// Parses the beginning of a request: its place in the log, its state, and its first words.
fn parse_label(line: &str) -> Option<(usize, RequestState, String)> {
    if let Some(rest) = line.strip_prefix(LATEST_REQUEST) {
        let number: usize = rest.strip_suffix("):")?.parse().ok()?;
        return Some((number.checked_sub(1)?, RequestState::Open, String::new()));
    }
    let (label, words) = line.strip_prefix('m')?.split_once(": ")?;
    let (number, state) = match label.split_once(' ') {
        Some((number, "(superseded)")) => (number, RequestState::Superseded),
        _ => (label, RequestState::Answered),
    };
    Some((number.parse::<usize>().ok()?.checked_sub(1)?, state, words.to_owned()))
}

fn add_request(items: &mut StructuredSummary, text: &str, place: usize, state: RequestState) {
    let text = own_words(text).map(str::trim).collect::<Vec<_>>().join("\n");
    if !text.is_empty() && items.requests.iter().all(|known| known.text != text) {
        items.requests.push(UserRequest { text, place, turn: 0, state });
    }
}

fn plan_item(item: &str, place: usize) -> PlanItem {
    let words = item.strip_prefix("[ ] ").unwrap_or(item);
    let (text, state) = words.strip_suffix(')').and_then(|words| words.rsplit_once(" (")).unwrap_or((words, "pending"));
    PlanItem { text: text.to_owned(), state: state.to_owned(), place }
}

fn open_item(item: &str) -> OpenItem {
    OpenItem { description: item.to_owned(), context: String::new(), priority: Priority::default() }
}

/// Parses `tool: outcome, name=value, name=value`.
fn tool_outcome(item: &str) -> Option<ToolOutcome> {
    let (tool, rest) = item.split_once(": ")?;
    let outcomes = [Outcome::Success, Outcome::Failure, Outcome::Partial];
    let stated = outcomes.into_iter().find_map(|outcome| Some((outcome, rest.strip_prefix(&format!("{outcome}, "))?)));
    let (outcome, fields) = stated.map_or((None, rest), |(outcome, fields)| (Some(outcome), fields));
    let mut key_fields: Vec<(String, String)> = Vec::new();
    for piece in fields.split(", ") {
        match (piece.split_once('='), key_fields.last_mut()) {
            (Some((name, value)), _) => key_fields.push((name.to_owned(), value.to_owned())),
            (None, Some((_, value))) => value.push_str(&format!(", {piece}")),
            (None, None) => return None,
        }
    }
    let key_fields = key_fields.into_iter().collect();
    Some(ToolOutcome { tool: tool.to_owned(), outcome, key_fields, error: None, message: None })
}

fn decision(item: &str, place: usize) -> Decision {
    Decision { decision: item.to_owned(), rationale: String::new(), turn: 0, place }
}

fn error(item: &str, place: usize) -> ErrorFact {
    let (words, place) = match item.strip_suffix(')').and_then(|words| words.rsplit_once(" (m")) {
        Some((words, number)) => (words, number.parse::<usize>().map_or(place, |number| number.saturating_sub(1))),
        None => (item, place),
    };
    let (about, line) = words.split_once(": ").unwrap_or(("", words));
    ErrorFact { line: line.to_owned(), about: about.to_owned(), place, fixed: None }
}

#[cfg(test)]
mod tests {
    use super::parse_items;
    use crate::summary::{RequestState, StructuredSummary};

    #[test]
    fn the_items_of_a_rendered_summary_are_read_back() {
        let text = "[Context Summary - Turns 1-9]\n[Summary v1.0]\n\n## Pinned\n- keep the API\n\n## Constraints\n- Never push to main.\n\n\
            ## Requests so far\nm3: Add tests.\nOnly unit tests, please.\nm9 (superseded): Stop.\n\n\
            ## Turn Context (split turn)\nLatest request (m12):\nFix the build.\n- edited src/a.rs (m13)\n\n\
            ## Plan\n- [ ] fix it (in_progress)\n\n## Errors not fixed yet\n- make: error: no rule (m14)\n";
        let mut items = StructuredSummary::default();
        parse_items(text, 0, &mut items);
        assert_eq!(items.pins, ["keep the API"]);
        let constraints: Vec<&str> = items.constraints.iter().map(|quote| quote.text.as_str()).collect();
        assert_eq!(constraints, ["Never push to main.", "Only unit tests, please."]);
        let requests: Vec<(usize, &str, RequestState)> =
            items.requests.iter().map(|request| (request.place, request.text.as_str(), request.state)).collect();
        assert_eq!(
            requests,
            [
                (2, "Add tests.\nOnly unit tests, please.", RequestState::Answered),
                (8, "Stop.", RequestState::Superseded),
                (11, "Fix the build.", RequestState::Open)
            ]
        );
        assert_eq!(
            (items.current_plan[0].text.as_str(), items.current_plan[0].state.as_str()),
            ("fix it", "in_progress")
        );
        assert_eq!((items.errors[0].about.as_str(), items.errors[0].place), ("make", 13));
    }
}
