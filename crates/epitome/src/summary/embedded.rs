//! The embedded summariser: extraction, ranking and an exact bound, without any model.
//!
//! It quotes. It never writes a sentence about the work that was not in the work, and it is never larger than its
//! limit, unless what must stay is larger still.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write;

use super::clip::{GAP, middle_out};
use super::extract::{extract, settle_requests, turn_context};
use super::form::{closing, heading, title};
use super::notes::notes;
use super::passages::{Arguments, Past, cut};
use super::pending::Pending;
use super::said::Said;
use super::section::Section;
use super::select::{self, Pick};
use super::structured::{Quote, RequestState, StructuredSummary};
use crate::budget::{Recount, Tokens, longest};
use crate::policy::Form;

/// Shares of the limit.
const TASK_SHARE: f64 = 0.15;
const REQUESTS_SHARE: f64 = 0.05;
const REQUEST_SHARE: f64 = 0.025;
const FACTS_SHARE: f64 = 0.4;
const SIDE_SHARE: f64 = 0.03;
/// What is told by kind and not by worth: the notes quote most of it where it matters.
const BRIEF_SHARE: f64 = 0.01;
/// More lines than fit are asked for: lines cost less together than one by one.
const ASKED_FOR: f64 = 1.12;
/// The most text that lines are chosen from: what is older is all but never worth a line, and reading it costs.
const READ_BYTES_MAX: usize = 384 * 1024;
/// A share smaller than this is not worth a heading.
const WORTH_A_SECTION: Tokens = Tokens::new(16);

/// A summary as it stands in a prompt.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// Its items.
    pub items: StructuredSummary,
    /// What of them a model wrote: the next round's model builds on it.
    pub written: StructuredSummary,
    /// Its text, without the policy's prefix and suffix.
    pub text: String,
    /// The tokens of the message that holds it.
    pub tokens: Tokens,
    /// Who wrote it.
    pub author: Author,
}

/// Who wrote a summary.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    /// The embedded summariser.
    Embedded,
    /// A model, with the facts carried by code.
    Model,
}

/// Summarises a pending span within its limit.
pub fn summarise(pending: &Pending<'_>, model: Option<StructuredSummary>) -> Summary {
    let author = if model.is_some() { Author::Model } else { Author::Embedded };
    let written = model.clone().unwrap_or_default();
    let items = items(pending, model);
    let (text, tokens) = Writer::new(pending, &items).write();
    Summary { items, written, text, tokens, author }
}

/// What code extracted, with what a model added and what earlier rounds held.
fn items(pending: &Pending<'_>, model: Option<StructuredSummary>) -> StructuredSummary {
    let mut items = extract(pending.thread, pending.span.range(), &pending.policy.tools);
    if let Some(earlier) = &pending.earlier {
        super::merge::merge(&mut items, earlier);
        settle_requests(&mut items, pending.thread);
    }
    if let Some(model) = model {
        super::merge::merge_model(&mut items, model);
    }
    for pin in &pending.pins {
        if !items.pins.contains(pin) {
            items.pins.push(pin.clone());
        }
    }
    let thread = pending.thread;
    if (pending.span.range().end..thread.len()).any(|place| thread.message(place).opens_turn()) {
        // A newer request stands in the prompt itself.
        items.current_task = None;
    }
    if pending.splits_turn {
        items.turn_context = turn_context(pending.thread, pending.span.range(), &items);
    }
    items.rounds = pending.round;
    items
}

/// Writes a summary section by section, within the limit.
struct Writer<'p, 'a> {
    pending: &'p Pending<'a>,
    items: &'p StructuredSummary,
    form: Form,
    limit: Tokens,
    out: String,
    counted: RefCell<Recount<'a>>,
    /// What stands in the prompt beside the summary.
    beside: Said<'p>,
    /// Messages whose words are quoted whole, by their places in the log.
    whole: HashSet<usize>,
    /// The heading that is open: two sections may share one.
    open: &'static str,
}

impl<'p, 'a> Writer<'p, 'a> {
    fn new(pending: &'p Pending<'a>, items: &'p StructuredSummary) -> Self {
        let form = pending.policy.summarise.form;
        let limit = pending.limit - pending.meter.text_message(&pending.dressed(""));
        Writer {
            pending,
            items,
            form,
            limit,
            out: title(form, pending.span.turns(), pending.round),
            counted: RefCell::new(Recount::new(pending.meter.counter())),
            beside: Said::in_texts(pending.beside.iter().map(String::as_str)),
            whole: HashSet::new(),
            open: "",
        }
    }

    /// The summary's text, and the tokens of the message that holds it.
    fn write(mut self) -> (String, Tokens) {
        self.pins();
        self.task();
        self.requests();
        self.turn_context();
        self.constraints();
        self.facts();
        self.plan();
        self.errors();
        self.decisions();
        self.outcomes();
        self.hidden();
        self.digest();
        self.notes();
        if let Some(line) = closing(self.form, self.pending.round) {
            let _ = write!(self.out, "\n{line}");
        }
        let mut text = self.out.trim_end().to_owned();
        if text.is_empty() {
            // No provider takes an empty message.
            text.push_str(GAP);
        }
        let tokens = self.recount(&self.pending.dressed(&text));
        (text, self.pending.meter.message(&[tokens]))
    }

    fn count(&self, text: &str) -> Tokens {
        self.pending.meter.text(text)
    }

    /// Counts a text of which most was counted before.
    fn recount(&self, text: &str) -> Tokens {
        self.counted.borrow_mut().count(text)
    }

    fn left(&self) -> Tokens {
        self.limit - self.recount(&self.out)
    }

    fn share(&self, share: f64) -> Tokens {
        self.limit.share(share).min(self.left())
    }

    /// Opens a section; answers whether the form has it.
    fn section(&mut self, section: Section) -> bool {
        let Some(heading) = heading(self.form, section) else { return false };
        if self.open != heading {
            self.open = heading;
            self.out.truncate(self.out.trim_end().len());
            let gap = if self.out.is_empty() { "" } else { "\n\n" };
            let _ = writeln!(self.out, "{gap}{heading}");
        }
        true
    }

    /// Whether words stand in the prompt already: here, or in what stays beside it.
    fn is_said(&self, words: &str) -> bool {
        self.out.contains(words) || self.beside.contains(words)
    }

    fn pins(&mut self) {
        let pins: Vec<&String> = self.items.pins.iter().filter(|pin| !self.is_said(pin)).collect();
        self.bullets(Section::Pins, &pins);
    }

    /// Every line, whatever it costs: what must stay.
    fn bullets<T: AsRef<str>>(&mut self, section: Section, lines: &[T]) {
        if lines.is_empty() || !self.section(section) {
            return;
        }
        for line in lines {
            let _ = writeln!(self.out, "- {}", line.as_ref());
        }
    }

    /// As many lines as fit in a share, newest kept first, in their order.
    fn some(&mut self, section: Section, lines: Vec<String>, share: f64) {
        let mut room = self.share(share);
        let mut kept = Vec::new();
        for line in lines.into_iter().rev() {
            let cost = self.count(&line) + Tokens::new(2);
            if cost <= room && !self.is_said(&line) {
                room -= cost;
                kept.push(line);
            }
        }
        kept.reverse();
        if room < self.share(share) || !kept.is_empty() {
            self.bullets(section, &kept);
        }
    }

    /// The first request, when it does not stay as a message of its own.
    fn task(&mut self) {
        let opening = self.pending.thread.messages().iter().find(|message| message.opens_turn());
        let is_first = |place: usize| opening.is_none_or(|opening| place <= opening.log_place());
        let Some(first) = self.items.requests.first().filter(|first| is_first(first.place)) else { return };
        if self.is_said(&first.text) || self.is_current(first.place) {
            return;
        }
        let (text, place) = (first.text.clone(), first.place);
        if self.section(Section::Task) {
            self.quote(&text, place, self.share(TASK_SHARE), "");
        }
    }

    fn is_current(&self, place: usize) -> bool {
        self.items.current_task.as_ref().is_some_and(|task| task.place == place)
    }

    /// Words in full, or head and tail of them when they are longer than `most`.
    fn quote(&mut self, text: &str, place: usize, most: Tokens, label: &str) {
        let clipped = middle_out(text, most, &|text| self.pending.meter.text(text));
        if clipped.is_none() {
            self.whole.insert(place);
        }
        let _ = writeln!(self.out, "{label}{}", clipped.as_deref().unwrap_or(text));
    }

    /// The user's other words, newest first as far as they fit, then in their order; the newest of all in full.
    fn requests(&mut self) {
        let mut room = self.share(REQUESTS_SHARE);
        let each = self.limit.share(REQUEST_SHARE);
        let mut shown = Vec::new();
        for request in self.items.requests.iter().rev() {
            if room < WORTH_A_SECTION {
                break;
            }
            if self.is_current(request.place) || self.is_said(&request.text) {
                continue;
            }
            if room < each && self.count(&request.text) > room {
                continue;
            }
            let clipped = middle_out(&request.text, each.min(room), &|text| self.pending.meter.text(text));
            let text = clipped.clone().unwrap_or_else(|| request.text.clone());
            if text == GAP {
                continue;
            }
            room -= self.count(&text) + Tokens::new(6);
            shown.push((request.place, request.state, text, clipped.is_none()));
        }
        shown.reverse();
        if shown.is_empty() || !self.section(Section::Requests) {
            return;
        }
        for (place, state, text, whole) in shown {
            let mark = if state == RequestState::Superseded { " (superseded)" } else { "" };
            let _ = writeln!(self.out, "m{}{mark}: {text}", place + 1);
            if whole {
                self.whole.insert(place);
            }
        }
    }

    /// The request that is open, in full, and what was done about it.
    fn turn_context(&mut self) {
        let Some(task) = self.items.current_task.clone() else { return };
        if self.is_said(&task.text) {
            return;
        }
        let section = if self.items.turn_context.is_some() { Section::TurnContext } else { Section::Requests };
        if !self.section(section) {
            return;
        }
        let most = self.left();
        self.quote(&task.text, task.place, most, &format!("Latest request (m{}):\n", task.place + 1));
        let Some(context) = self.items.turn_context.clone() else { return };
        let mut room = self.share(BRIEF_SHARE);
        for Quote { text, place } in &context.progress {
            let line = format!("- {text} (m{})", place + 1);
            let cost = self.count(&line);
            if cost > room || self.is_said(text) {
                continue;
            }
            room -= cost;
            let _ = writeln!(self.out, "{line}");
        }
    }

    /// Constraints that stand nowhere else in the prompt.
    fn constraints(&mut self) {
        let missing: Vec<&str> =
            self.items.constraints.iter().map(|quote| quote.text.as_str()).filter(|text| !self.is_said(text)).collect();
        let lines: Vec<String> = missing.into_iter().map(str::to_owned).collect();
        self.bullets(Section::Constraints, &lines);
    }

    fn facts(&mut self) {
        let lines: Vec<String> = self.items.facts.iter().map(|quote| quote.text.clone()).collect();
        self.some(Section::Facts, lines, FACTS_SHARE);
    }

    fn plan(&mut self) {
        let open = self.items.current_plan.iter().filter(|item| !item.is_done());
        let lines: Vec<String> = open.map(|item| format!("[ ] {} ({})", item.text, item.state)).collect();
        let lines = match lines.is_empty() {
            false => lines,
            true => self.items.open_items.iter().map(|item| item.description.clone()).collect(),
        };
        self.some(Section::Plan, lines, 2.0 * SIDE_SHARE);
    }

    fn errors(&mut self) {
        let open = self.items.errors.iter().filter(|error| error.fixed.is_none());
        let mut lines: Vec<String> = Vec::new();
        for error in open {
            let line = format!("{}: {} (m{})", error.about, error.line, error.place + 1);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        self.some(Section::Errors, lines, BRIEF_SHARE);
    }

    fn decisions(&mut self) {
        let lines = self.items.decisions.iter().map(|decision| match decision.rationale.is_empty() {
            true => decision.decision.clone(),
            false => format!("{} ({})", decision.decision, decision.rationale),
        });
        let lines: Vec<String> = lines.collect();
        self.some(Section::Decisions, lines, BRIEF_SHARE);
    }

    fn outcomes(&mut self) {
        let lines = self.items.tool_outcomes.iter().map(|outcome| {
            let fields: Vec<String> = outcome.key_fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let told = outcome.outcome.map(|told| format!("{told}, ")).unwrap_or_default();
            format!("{}: {told}{}", outcome.tool, fields.join(", "))
        });
        let lines: Vec<String> = lines.filter(|line| !self.is_said(line)).collect();
        self.bullets(Section::Outcomes, &lines);
    }

    fn hidden(&mut self) {
        let lines: Vec<String> =
            self.items.hidden.iter().map(|quote| format!("m{}: {}", quote.place + 1, quote.text)).collect();
        self.some(Section::Hidden, lines, SIDE_SHARE);
    }

    fn digest(&mut self) {
        if !matches!(self.form, Form::Digest | Form::Session) {
            return;
        }
        let lines = match self.form {
            Form::Session => super::digest::table(self.items),
            _ => super::digest::inventory(
                self.pending.thread,
                self.pending.span.range(),
                &self.pending.policy.tools,
                self.items,
            ),
        };
        let mut room = self.share(0.3);
        let mut kept = Vec::new();
        for line in lines {
            let cost = self.count(&line) + Tokens::new(1);
            if cost > room {
                break;
            }
            room -= cost;
            kept.push(line);
        }
        if !kept.is_empty() && self.section(Section::Digest) {
            for line in kept {
                let _ = writeln!(self.out, "{line}");
            }
        }
    }

    /// Lines of the whole past, as many as the rest of the limit holds.
    fn notes(&mut self) {
        let pending = self.pending;
        let closing = closing(self.form, pending.round).map_or(Tokens::ZERO, |line| self.count(&line) + Tokens::new(1));
        let room = self.left() - closing;
        if room < WORTH_A_SECTION {
            return;
        }
        let arguments = Arguments::of(pending.thread);
        let requests = pending.earlier.as_ref().map_or(&[][..], |earlier| &earlier.requests);
        let mut past = cut(pending.thread, &arguments, &pending.policy.tools, requests);
        past.keep_newest(READ_BYTES_MAX);
        let is_kept: Vec<bool> = past.passages.iter().map(|passage| self.is_whole(passage.message)).collect();
        let mut covered: Vec<&str> = pending.beside.iter().map(String::as_str).collect();
        covered.push(&self.out);
        let count = |text: &str| pending.meter.text(text).get() as usize;
        let limit = room.scaled(ASKED_FOR).get() as usize;
        let picks = select::select(&past, &is_kept, &covered, &pending.focus, limit, &count);
        let text = self.largest_fit(&past, &picks, self.limit - closing);
        self.out.push_str(&text);
    }

    /// The notes of as many picks, best first, as the limit holds.
    fn largest_fit(&self, past: &Past<'_>, picks: &[Pick<'_>], limit: Tokens) -> String {
        let written = |most: usize| notes(past, &picks[..most], self.form);
        let cost = |most: usize| self.recount(&format!("{}{}", self.out, written(most)));
        written(longest(picks.len(), limit, |most, _| cost(most)))
    }

    /// Whether a message's words are in the prompt whole, or must not be quoted at all.
    fn is_whole(&self, place: usize) -> bool {
        let message = self.pending.thread.message(place);
        let quoted = !message.is_summary() && self.whole.contains(&message.log_place());
        quoted || self.pending.keeps(place)
    }
}
