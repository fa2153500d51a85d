//! Parsing a rendered summary: its items are read back from the text that code wrote.
//!
//! A message list on disk has no place for structured items. When it is compacted again, all that is left of the earlier
//! round is its text, so the text is the format:
//!
//! ```text
//! ## Constraints                     ─► constraints: "Never push to main."
//! - Never push to main.
//! ## What the user said
//! m3: Add tests.                     ─► words of message 3, answered
//! m9 (superseded by m11 where they differ): Use tabs.
//! m11 (supersedes m9): Spaces.       ─► words of message 11, which take back those of message 9
//! m12 (answers "Shall I push?"): no  ─► words of message 12, with what they answer
//! ## Errors not fixed yet
//! - make: error: no rule (m14)       ─► an error about `make` in message 14, open
//! ```
//!
//! Only text under our own headings becomes items; the rest is left to the ranking. A line that no longer parses is lost to
//! the next round, so `embedded.rs` and this file change together.

use super::constraint::decisions;
use super::digest::parse_digest;
use super::done::{parse_completed, parse_conclusion};
use super::headings::{Section, is_closing, section_of};
use super::set_apart::{is_ours, put_back, put_back_item, put_back_rest};
use super::speech::constraints;
use super::state::WorkstreamState;
use super::structured::{
    Decision, ErrorFact, OpenItem, PlanItem, Priority, Quote, RequestContext, RequestState, StructuredSummary,
    ToolOutcome, UserRequest,
};
use super::work_state::{StateLine, set_state};
use crate::thread::{Outcome, own_words};

/// Stands before the request that is open.
pub(super) const LATEST_REQUEST: &str = "Latest request (m";

/// Stands before what was done about it.
pub(super) const DONE_SO_FAR: &str = "Done so far for m";

/// Stands before the number of the request that is open, where its words are told above.
pub(super) const REQUEST_ABOVE: &str = "Request: m";

/// Stands before a decision among facts.
pub(super) const DECIDED: &str = "Decided: ";

/// Stands before the agent's newest conclusion.
pub(super) const LAST_COMPLETED: &str = "Last completed: ";

/// Stands between an error and what resolved it.
pub(super) const RESOLVED: &str = " → ";

/// Adds the items of an earlier summary's text to `items`; those without a place of their own get the text's.
pub(super) fn parse_items(text: &str, place: usize, items: &mut StructuredSummary) {
    let first = items.requests.len();
    for (section, body) in sections(text) {
        match section {
            Some(Section::Pins) => {
                let new: Vec<String> = bullets(body).filter(|pin| !items.pins.contains(pin)).collect();
                items.pins.extend(new);
            }
            Some(Section::Constraints) => bullets(body).for_each(|item| add_constraint(items, &item, place)),
            Some(Section::Task) => add_request(items, put_back(body).trim(), RequestLabel::at(place)),
            Some(Section::Requests | Section::TurnContext) => parse_requests(items, body),
            Some(Section::Plan) => parse_open(items, body, place),
            Some(Section::Decisions) => parse_decisions(items, body, place),
            Some(Section::Digest) => {
                parse_completed(items, body, place);
                parse_digest(body, items);
            }
            Some(Section::Errors) => items.errors.extend(bullets(body).map(|item| error(&item, place))),
            Some(Section::State) => {
                for line in bullets(body) {
                    if let Some(line) = StateLine::parse(&line, place) {
                        set_state(items, line.kind, line.line, line.place);
                    } else if let Some(told) = line.strip_prefix(LAST_COMPLETED) {
                        items.conclusions.extend(parse_conclusion(told));
                    }
                }
            }
            Some(Section::Goal) => items.goal = Some(put_back(body).trim().to_owned()).filter(|goal| !goal.is_empty()),
            Some(Section::OpenItems) => items.open_items.extend(bullets(body).map(open_item)),
            Some(Section::Facts) => parse_facts(items, body, place),
            Some(Section::Workstream) => items.workstream = Some(WorkstreamState::parse(body)),
            Some(Section::Outcomes) => items.tool_outcomes.extend(bullets(body).filter_map(|item| tool_outcome(&item))),
            Some(Section::Media) => {
                let lines = bullets(body).filter_map(|item| parse_label(&item));
                items.media.extend(lines.map(|(label, text)| Quote { text, place: label.place }));
            }
            _ => {}
        }
    }
    for at in first..items.requests.len() {
        let UserRequest { text, place, context, .. } = items.requests[at].clone();
        if context == Some(RequestContext::Retold) {
            continue;
        }
        constraints(&text).for_each(|sentence| add_constraint(items, sentence, place));
    }
    items.rounds += 1;
}

/// Parses facts, and the decisions among them in the form that has one heading for both.
fn parse_facts(items: &mut StructuredSummary, body: &str, place: usize) {
    for item in bullets(body) {
        if let Some(told) = item.strip_prefix(DECIDED) {
            items.decisions.push(decision(told.to_owned(), place));
        } else if decisions(&item).next().is_some() {
            items.decisions.push(decision(item, place));
        } else {
            items.facts.push(Quote { text: item, place });
        }
    }
}

/// Parses decisions: the agent's, and the answers with which the user chose.
fn parse_decisions(items: &mut StructuredSummary, body: &str, place: usize) {
    for item in bullets(body) {
        match parse_label(&item) {
            Some((label, words)) => add_request(items, &words, label),
            None => items.decisions.push(decision(item, place)),
        }
    }
}

/// Parses what is open: steps of the plan in boxes, and, in the forms that have one heading for all, errors and other work.
fn parse_open(items: &mut StructuredSummary, body: &str, place: usize) {
    let has_number = |item: &str| item.strip_suffix(')').and_then(|item| item.rsplit_once(" (m")).is_some();
    let mut plan = Vec::new();
    for item in bullets(body) {
        if item.starts_with("[ ] ") || item.starts_with("[x] ") {
            plan.push(plan_item(&item, place));
        } else if item.contains(": ") && has_number(&item) {
            items.errors.push(error(&item, place));
        } else {
            items.open_items.push(open_item(item));
        }
    }
    items.current_plan = plan;
}

/// Splits a summary's text into pieces, each with the section that its heading opens.
pub(super) fn sections(text: &str) -> Vec<(Option<Section>, &str)> {
    let mut pieces = Vec::new();
    let (mut section, mut from, mut at) = (None, 0, 0);
    for line in text.split_inclusive('\n') {
        let found = section_of(line.trim_end());
        if found.is_some() || is_closing(line.trim_end()) {
            pieces.push((section, &text[from..at]));
            (section, from) = (found, at + line.len());
        }
        at += line.len();
    }
    pieces.push((section, &text[from..]));
    pieces
}

/// Returns the items of a list; one may go over several lines.
fn bullets(body: &str) -> impl Iterator<Item = String> {
    let mut items: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in body.lines() {
        if let Some(item) = line.strip_prefix("- ") {
            items.push(item.to_owned());
            is_open = true;
        } else if is_ours(line) {
            is_open = false;
        } else if let Some(item) = items.last_mut().filter(|_| is_open) {
            item.push('\n');
            item.push_str(line);
        }
    }
    items.into_iter().map(|item| put_back_item(item.trim_end()).into_owned())
}

fn add_constraint(items: &mut StructuredSummary, sentence: &str, place: usize) {
    if items.constraints.iter().all(|known| known.text != sentence) {
        items.constraints.push(Quote { text: sentence.to_owned(), place });
    }
}

/// What stands before a user's words: `m12`, `m12 (supersedes m9)`, `m12 (answers "Shall I?")`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestLabel {
    pub(super) place: usize,
    pub(super) state: RequestState,
    /// The place of the words that took these back.
    pub(super) superseded_by: Option<usize>,
    /// The place of the words that these take back.
    pub(super) supersedes: Option<usize>,
    pub(super) context: Option<RequestContext>,
    /// Something in the words binds.
    pub(super) binds: bool,
}

const SUPERSEDED: &str = "superseded";
const SUPERSEDED_BY: &str = "superseded by m";
const WHERE_THEY_DIFFER: &str = " where they differ";
const SUPERSEDES: &str = "supersedes m";
const BINDS: &str = "binds";
const RETOLD: &str = "retold in a summary";
const ANSWERS: &str = "answers \"";
const LEAVES_OPEN: &str = "leaves open \"";
const REJECTS: &str = "while rejecting `";

impl RequestLabel {
    pub(super) fn at(place: usize) -> RequestLabel {
        let state = RequestState::Answered;
        RequestLabel { place, state, superseded_by: None, supersedes: None, context: None, binds: false }
    }

    /// Leaves out what the words answer.
    pub(super) fn forget_question(&mut self) {
        self.context.take_if(|context| matches!(context, RequestContext::Answers(_) | RequestContext::LeavesOpen(_)));
    }

    /// Renders the label, with what `parse_label` looks for.
    pub(super) fn render(&self) -> String {
        let (number, notes) = (self.place + 1, self.notes());
        if notes.is_empty() { format!("m{number}: ") } else { format!("m{number} ({notes}): ") }
    }

    /// Renders the label of the request that is open, on a line of its own.
    pub(super) fn render_latest(&self) -> String {
        let (number, notes) = (self.place + 1, self.notes());
        let gap = if notes.is_empty() { "" } else { ", " };
        format!("{LATEST_REQUEST}{number}{gap}{notes}):\n")
    }

    fn notes(&self) -> String {
        let mut notes: Vec<String> = Vec::new();
        match self.superseded_by {
            Some(by) => notes.push(format!("{SUPERSEDED_BY}{}{WHERE_THEY_DIFFER}", by + 1)),
            None if self.state == RequestState::Superseded => notes.push(SUPERSEDED.to_owned()),
            None => {}
        }
        if let Some(taken) = self.supersedes {
            notes.push(format!("{SUPERSEDES}{}", taken + 1));
        }
        if self.binds {
            notes.push(BINDS.to_owned());
        }
        match &self.context {
            Some(RequestContext::Answers(question)) => notes.push(format!("{ANSWERS}{}\"", plain(question))),
            Some(RequestContext::LeavesOpen(question)) => notes.push(format!("{LEAVES_OPEN}{}\"", plain(question))),
            Some(RequestContext::Rejects(call)) => notes.push(format!("{REJECTS}{}`", plain(call))),
            Some(RequestContext::Retold) => notes.push(RETOLD.to_owned()),
            None => {}
        }
        notes.join(", ")
    }

    fn parse_notes(&mut self, notes: &str) -> Option<()> {
        let mut rest = notes;
        while !rest.is_empty() {
            rest = rest.strip_prefix(", ").unwrap_or(rest);
            if let Some(after) = rest.strip_prefix(SUPERSEDED_BY) {
                let (by, after) = leading_number(after)?;
                (self.state, self.superseded_by) = (RequestState::Superseded, by.checked_sub(1));
                rest = after.strip_prefix(WHERE_THEY_DIFFER)?;
            } else if let Some(after) = rest.strip_prefix(SUPERSEDED) {
                self.state = RequestState::Superseded;
                rest = after;
            } else if let Some(after) = rest.strip_prefix(SUPERSEDES) {
                let (taken, after) = leading_number(after)?;
                self.supersedes = taken.checked_sub(1);
                rest = after;
            } else if let Some(after) = rest.strip_prefix(BINDS) {
                self.binds = true;
                rest = after;
            } else if let Some(after) = rest.strip_prefix(RETOLD) {
                self.context = Some(RequestContext::Retold);
                rest = after;
            } else if let Some(question) = rest.strip_prefix(ANSWERS) {
                self.context = Some(RequestContext::Answers(question.strip_suffix('"')?.to_owned()));
                rest = "";
            } else if let Some(question) = rest.strip_prefix(LEAVES_OPEN) {
                self.context = Some(RequestContext::LeavesOpen(question.strip_suffix('"')?.to_owned()));
                rest = "";
            } else {
                let call = rest.strip_prefix(REJECTS)?.strip_suffix('`')?;
                self.context = Some(RequestContext::Rejects(call.to_owned()));
                rest = "";
            }
        }
        Some(())
    }
}

/// Splits the number off that a text begins with.
fn leading_number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// Returns a text without the signs that end a label.
fn plain(text: &str) -> String {
    text.replace("): ", ") ")
}

/// Parses requests: `m12: words`, over as many lines as they have, and the latest under a line of its own.
fn parse_requests(items: &mut StructuredSummary, body: &str) {
    let mut open: Option<(RequestLabel, String)> = None;
    // A line of ours ends a request; one past the last line ends the last request.
    for line in body.lines().chain(["- (m0)"]) {
        let started = parse_label(line);
        if started.is_some() || is_ours(line) {
            if let Some((label, words)) = std::mem::replace(&mut open, started) {
                add_request(items, put_back_rest(&words).trim(), label);
            }
        } else if let Some((_, words)) = &mut open {
            words.push('\n');
            words.push_str(line);
        }
    }
}

/// Tells whether a line is progress under the latest request, `- edited src/a.rs (m13)`, or opens it.
pub(super) fn is_progress(line: &str) -> bool {
    if line.starts_with(DONE_SO_FAR) {
        return true;
    }
    let number = line.strip_suffix(')').and_then(|line| line.rsplit_once("(m")).map(|(_, number)| number);
    line.starts_with("- ") && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Parses the beginning of a user's words: the label, and the first words.
pub(super) fn parse_label(line: &str) -> Option<(RequestLabel, String)> {
    if let Some(rest) = line.strip_prefix(LATEST_REQUEST) {
        let (number, notes) = leading_number(rest.strip_suffix("):")?)?;
        let mut label = RequestLabel::at(number.checked_sub(1)?);
        label.parse_notes(notes)?;
        label.state = RequestState::Open;
        return Some((label, String::new()));
    }
    let rest = line.strip_prefix('m')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let mut label = RequestLabel::at(rest[..digits].parse::<usize>().ok()?.checked_sub(1)?);
    let rest = &rest[digits..];
    if let Some(words) = rest.strip_prefix(": ") {
        return Some((label, words.to_owned()));
    }
    let (notes, words) = rest.strip_prefix(" (")?.split_once("): ")?;
    label.parse_notes(notes)?;
    Some((label, words.to_owned()))
}

fn add_request(items: &mut StructuredSummary, text: &str, label: RequestLabel) {
    let text = own_words(text).map(str::trim).collect::<Vec<_>>().join("\n");
    let RequestLabel { place, state, context, supersedes, .. } = label;
    let is_known = |known: &UserRequest| known.text == text && (known.place == place || text.len() > SHORT_BYTES_MAX);
    if !text.is_empty() && !items.requests.iter().any(is_known) {
        items.requests.push(UserRequest { text, place, turn: 0, state, context, supersedes });
    }
}

/// Words that are no longer are said more than once: "yes", "go on".
pub(super) const SHORT_BYTES_MAX: usize = 40;

/// Returns the user's messages that the summary of another harness lists under a heading of its own.
pub(super) fn listed_user_messages(text: &str) -> Vec<&str> {
    let is_heading = |line: &str| {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || "#.* ".contains(c)).to_lowercase();
        line.starts_with("all user messages")
    };
    let ends = |line: &&str| {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        line.starts_with('#') || digits > 0 && line[digits..].starts_with(". ")
    };
    let lines = text.lines().skip_while(|line| !is_heading(line)).skip(1).take_while(|line| !ends(line));
    let items = lines.filter_map(|line| line.trim().strip_prefix("- "));
    items
        .map(|item| item.trim().trim_matches(['"', '“', '”']))
        .filter(|item| item.len() > 2 && !item.starts_with(['[', '<', '(']))
        .collect()
}

pub(super) fn plan_item(item: &str, place: usize) -> PlanItem {
    if let Some(done) = item.strip_prefix("[x] ") {
        return PlanItem { text: done.to_owned(), state: "completed".to_owned(), place };
    }
    let words = item.strip_prefix("[ ] ").unwrap_or(item);
    let (text, state) = words.strip_suffix(')').and_then(|words| words.rsplit_once(" (")).unwrap_or((words, "pending"));
    PlanItem { text: text.to_owned(), state: state.to_owned(), place }
}

fn open_item(item: String) -> OpenItem {
    OpenItem { description: item, context: String::new(), priority: Priority::default() }
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

fn decision(item: String, place: usize) -> Decision {
    Decision { decision: item, rationale: String::new(), turn: 0, place }
}

/// Parses `make: error: no rule (m14)` and `make: error: no rule (m14) → Makefile: the rule was missing (m19)`.
fn error(item: &str, place: usize) -> ErrorFact {
    if let Some((error_part, fix)) = item.rsplit_once(RESOLVED)
        && let Some((resolution, number)) = fix.strip_suffix(')').and_then(|fix| fix.rsplit_once("(m"))
        && let Ok(number) = number.parse::<usize>()
    {
        let (fixed, resolution) = (number.checked_sub(1), resolution.trim().to_owned());
        return ErrorFact { fixed, resolution, ..error(error_part, place) };
    }
    let (words, place) = match item.strip_suffix(')').and_then(|words| words.rsplit_once(" (m")) {
        Some((words, number)) => (words, number.parse::<usize>().map_or(place, |number| number.saturating_sub(1))),
        None => (item, place),
    };
    let (about, line) = words.split_once(": ").unwrap_or(("", words));
    ErrorFact { line: line.to_owned(), about: about.to_owned(), place, fixed: None, resolution: String::new() }
}

#[cfg(test)]
mod tests {
    use super::parse_items;
    use crate::summary::{RequestState, StructuredSummary};

    #[test]
    fn the_items_of_a_rendered_summary_are_read_back() {
        let text = "[Context Summary - Turns 1-9]\n[Summary v1.0]\n\n## Pinned\n- keep the API\n\n## Constraints\n- Never push to main.\n\n\
            ## What the user said\nm3: Add tests.\nOnly unit tests, please.\nm9 (superseded by m11 where they differ): Stop.\nm11 (supersedes m9, binds): Scratch that, use A.\n\n\
            ## Turn Context (split turn)\nLatest request (m12, answers \"Which one?\"):\nFix the build.\n- edited src/a.rs (m13)\n\n\
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
                (10, "Scratch that, use A.", RequestState::Answered),
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
