//! Carrying an earlier round's summary over: its items are read back from the text that code rendered.
//!
//! Only what stands under our own headings is taken as items; the rest of the text is left to the ranking.

use super::constraint::constraints;
use super::form::{heading, heading_of};
use super::section::Section;
use super::structured::{
    Decision, ErrorFact, OpenItem, PlanItem, Priority, Quote, RequestState, StructuredSummary, ToolOutcome, UserRequest,
};
use crate::policy::SummaryForm;
use crate::thread::{Outcome, own_words};

/// What stands before the request that was open.
const LATEST: &str = "Latest request (m";

/// Adds the items of an earlier summary's text, which stands at a place of the log.
pub fn carry_over(text: &str, place: usize, facts: &mut StructuredSummary) {
    let first = facts.requests.len();
    let workstream = text.lines().any(|line| heading(SummaryForm::Workstream, Section::Facts) == Some(line));
    for (section, body) in sections(text) {
        match section {
            Some(Section::Pins) => {
                let new: Vec<String> =
                    bullets(body).filter(|pin| !facts.pins.iter().any(|own| own == pin)).map(str::to_owned).collect();
                facts.pins.extend(new);
            }
            Some(Section::Constraints) => bullets(body).for_each(|item| constrain(facts, item, place)),
            Some(Section::Task) if workstream => carry_key_facts(facts, body, place),
            Some(Section::Task) => add_request(facts, body.trim(), place, RequestState::Answered),
            Some(Section::Requests | Section::TurnContext) => carry_requests(facts, body),
            Some(Section::Plan) => facts.current_plan = bullets(body).map(|item| plan_item(item, place)).collect(),
            Some(Section::Decisions) => facts.decisions.extend(bullets(body).map(|item| decision(item, place))),
            Some(Section::Errors) => facts.errors.extend(bullets(body).map(|item| error(item, place))),
            Some(Section::Goal) => facts.goal = Some(body.trim().to_owned()).filter(|goal| !goal.is_empty()),
            Some(Section::OpenItems) => facts.open_items.extend(bullets(body).map(open_item)),
            Some(Section::Facts) => facts.facts.extend(bullets(body).map(|item| fact(item, place))),
            Some(Section::Outcomes) => facts.tool_outcomes.extend(bullets(body).filter_map(tool_outcome)),
            Some(Section::Media) => {
                facts.media.extend(bullets(body).filter_map(labeled).map(|(place, _, text)| Quote { text, place }));
            }
            _ => {}
        }
    }
    for at in first..facts.requests.len() {
        let UserRequest { text, place, .. } = facts.requests[at].clone();
        constraints(&text).for_each(|sentence| constrain(facts, sentence, place));
    }
    facts.rounds += 1;
}

/// The form that has one heading for the task and for facts: the task is not a list.
fn carry_key_facts(facts: &mut StructuredSummary, body: &str, place: usize) {
    let task: Vec<&str> = body.lines().filter(|line| !line.trim_start().starts_with("- ")).collect();
    add_request(facts, task.join("\n").trim(), place, RequestState::Answered);
    facts.facts.extend(bullets(body).map(|item| fact(item, place)));
}

/// A summary's text in pieces, each with the section that its heading opens.
pub(super) fn sections(text: &str) -> Vec<(Option<Section>, &str)> {
    let mut pieces = Vec::new();
    let (mut section, mut from, mut at) = (None, 0, 0);
    for line in text.split_inclusive('\n') {
        if let Some(found) = heading_of(line.trim()) {
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

fn constrain(facts: &mut StructuredSummary, sentence: &str, place: usize) {
    if facts.constraints.iter().all(|known| known.text != sentence) {
        facts.constraints.push(Quote { text: sentence.to_owned(), place });
    }
}

/// Requests as they are written: `m12: words`, over as many lines as they have, and the latest under its own line.
fn carry_requests(facts: &mut StructuredSummary, body: &str) {
    let mut open: Option<(usize, RequestState, String)> = None;
    for line in body.lines() {
        let started = labeled(line);
        if started.is_some() || line.starts_with("- ") {
            add_open(facts, open.take());
        }
        match (started, &mut open) {
            (Some(request), _) => open = Some(request),
            (None, Some((_, _, words))) if !line.starts_with("- ") => {
                words.push('\n');
                words.push_str(line);
            }
            _ => {}
        }
    }
    add_open(facts, open);
}

/// The beginning of a request: its place in the log, its state, and its first words.
fn labeled(line: &str) -> Option<(usize, RequestState, String)> {
    if let Some(rest) = line.strip_prefix(LATEST) {
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

fn add_open(facts: &mut StructuredSummary, request: Option<(usize, RequestState, String)>) {
    if let Some((place, state, words)) = request {
        add_request(facts, words.trim(), place, state);
    }
}

fn add_request(facts: &mut StructuredSummary, text: &str, place: usize, state: RequestState) {
    let text = own_words(text).map(str::trim).collect::<Vec<_>>().join("\n");
    if !text.is_empty() && facts.requests.iter().all(|known| known.text != text) {
        facts.requests.push(UserRequest { text, place, turn: 0, state });
    }
}

fn plan_item(item: &str, place: usize) -> PlanItem {
    let words = item.strip_prefix("[ ] ").unwrap_or(item);
    let (text, state) = words.strip_suffix(')').and_then(|words| words.rsplit_once(" (")).unwrap_or((words, "pending"));
    PlanItem { text: text.to_owned(), state: state.to_owned(), place }
}

fn fact(item: &str, place: usize) -> Quote {
    Quote { text: item.to_owned(), place }
}

fn open_item(item: &str) -> OpenItem {
    OpenItem { description: item.to_owned(), context: String::new(), priority: Priority::default() }
}

/// `tool: outcome, name=value, name=value`, as it is written.
fn tool_outcome(item: &str) -> Option<ToolOutcome> {
    let (tool, rest) = item.split_once(": ")?;
    let told = [Outcome::Success, Outcome::Failure, Outcome::Partial];
    let told = told.into_iter().find_map(|told| Some((told, rest.strip_prefix(&format!("{told}, "))?)));
    let (outcome, fields) = told.map_or((None, rest), |(told, fields)| (Some(told), fields));
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
    use super::carry_over;
    use crate::summary::{RequestState, StructuredSummary};

    #[test]
    fn the_items_of_a_rendered_summary_are_read_back() {
        let text = "[Context Summary - Turns 1-9]\n[Summary v1.0]\n\n## Pinned\n- keep the API\n\n## Constraints\n- Never push to main.\n\n\
            ## Requests so far\nm3: Add tests.\nOnly unit tests, please.\nm9 (superseded): Stop.\n\n\
            ## Turn Context (split turn)\nLatest request (m12):\nFix the build.\n- edited src/a.rs (m13)\n\n\
            ## Plan\n- [ ] fix it (in_progress)\n\n## Errors not fixed yet\n- make: error: no rule (m14)\n";
        let mut facts = StructuredSummary::default();
        carry_over(text, 0, &mut facts);
        assert_eq!(facts.pins, ["keep the API"]);
        let constraints: Vec<&str> = facts.constraints.iter().map(|quote| quote.text.as_str()).collect();
        assert_eq!(constraints, ["Never push to main.", "Only unit tests, please."]);
        let requests: Vec<(usize, &str, RequestState)> =
            facts.requests.iter().map(|request| (request.place, request.text.as_str(), request.state)).collect();
        assert_eq!(
            requests,
            [
                (2, "Add tests.\nOnly unit tests, please.", RequestState::Answered),
                (8, "Stop.", RequestState::Superseded),
                (11, "Fix the build.", RequestState::Open)
            ]
        );
        assert_eq!(
            (facts.current_plan[0].text.as_str(), facts.current_plan[0].state.as_str()),
            ("fix it", "in_progress")
        );
        assert_eq!((facts.errors[0].about.as_str(), facts.errors[0].place), ("make", 13));
    }
}
