//! The embedded summarizer: extraction, ranking and an exact bound, without any model.
//!
//! It quotes. It never writes a sentence about the work that was not in the work, and it is never larger than its
//! limit, unless what must stay is larger still.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write;

use super::clip::{GAP, middle_out};
use super::extract::{extract, settle_requests, turn_context};
use super::form::{closing, heading, title};
use super::merge::{forget_revised, merge, merge_model, without_written};
use super::notes::notes;
use super::passages::{Arguments, Passages, cut};
use super::pending::SummaryContext;
use super::said::TextIndex;
use super::section::Section;
use super::select::{self, Pick};
use super::structured::{OpenItem, Quote, RequestState, StructuredSummary};
use crate::budget::{Recount, Tokens, longest};
use crate::policy::SummaryForm;
use crate::thread::Message;

/// Shares of the limit.
const TASK_SHARE: f64 = 0.15;
const REQUESTS_SHARE: f64 = 0.05;
const REQUEST_SHARE: f64 = 0.025;
const FACTS_SHARE: f64 = 0.4;
const SIDE_SHARE: f64 = 0.03;
const MEDIA_SHARE: f64 = 0.15;
/// Room for the names of a few images or files, however short a summary is.
const MEDIA_MIN: Tokens = Tokens::new(60);
/// What is told by kind and not by worth: the notes quote most of it where it matters.
const BRIEF_SHARE: f64 = 0.01;
/// What a model wrote of one kind, its facts aside.
const GOAL_SHARE: f64 = 0.1;
const WRITTEN_SHARE: f64 = 0.12;
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
    pub author: SummaryAuthor,
}

/// Who wrote a summary.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryAuthor {
    /// The embedded summarizer.
    Embedded,
    /// A model, with the facts carried by code.
    Model,
}

/// Summarizes a pending span within its limit.
pub fn summarize(pending: &SummaryContext<'_>, model: Option<StructuredSummary>) -> Summary {
    let author = if model.is_some() { SummaryAuthor::Model } else { SummaryAuthor::Embedded };
    // What no model has revised since still stands.
    let revises = model.is_some();
    let written = model.unwrap_or_else(|| pending.order.written.clone());
    let items = items(pending, &written, revises);
    let (text, tokens) = Writer::new(pending, &items, !written.is_empty()).write();
    Summary { items, written, text, tokens, author }
}

/// What code extracted, with what a model wrote and what earlier rounds held; a model that was asked now has revised what
/// earlier ones wrote.
fn items(pending: &SummaryContext<'_>, written: &StructuredSummary, revises: bool) -> StructuredSummary {
    let mut items = extract(pending.thread, pending.order.span.range(), &pending.policy.tools);
    if revises {
        forget_revised(&mut items, written, &summary_places(pending));
    }
    if let Some(earlier) = &pending.order.earlier {
        merge(&mut items, &without_written(earlier, &pending.order.written));
        settle_requests(&mut items, pending.thread);
    }
    merge_model(&mut items, written.clone());
    for pin in &pending.order.pins {
        if !items.pins.contains(pin) {
            items.pins.push(pin.clone());
        }
    }
    let thread = pending.thread;
    if (pending.order.span.range().end..thread.len()).any(|place| thread.message(place).opens_turn()) {
        // A newer request stands in the prompt itself.
        items.current_task = None;
    }
    if pending.order.splits_turn {
        items.turn_context = turn_context(pending.thread, pending.order.span.range(), &items);
    }
    items.rounds = pending.order.round;
    items
}

/// The places of the log where what earlier compactions left behind stands as text.
fn summary_places(pending: &SummaryContext<'_>) -> Vec<usize> {
    let messages = pending.order.span.range().map(|place| pending.thread.message(place));
    messages.filter(|message| message.is_summary()).map(Message::log_place).collect()
}

/// Writes a summary section by section, within the limit.
struct Writer<'p, 'a> {
    pending: &'p SummaryContext<'a>,
    items: &'p StructuredSummary,
    /// Whether a model wrote some of the items.
    is_written: bool,
    form: SummaryForm,
    limit: Tokens,
    out: String,
    counted: RefCell<Recount<'a>>,
    /// What stands in the prompt beside the summary.
    beside: TextIndex<'p>,
    /// Messages whose words are quoted whole, by their places in the log.
    whole: HashSet<usize>,
    /// The heading that is open: two sections may share one.
    open: &'static str,
}

impl<'p, 'a> Writer<'p, 'a> {
    fn new(pending: &'p SummaryContext<'a>, items: &'p StructuredSummary, is_written: bool) -> Self {
        let form = pending.policy.summarize.form;
        let limit = pending.order.limit - pending.meter.text_message(&pending.dressed(""));
        Writer {
            pending,
            items,
            is_written,
            form,
            limit,
            out: title(form, pending.order.span.turns(), pending.order.round),
            counted: RefCell::new(Recount::new(pending.meter.counter())),
            beside: TextIndex::in_texts(pending.order.beside.iter().map(String::as_str)),
            whole: HashSet::new(),
            open: "",
        }
    }

    /// The summary's text, and the tokens of the message that holds it.
    fn write(mut self) -> (String, Tokens) {
        self.pins();
        self.goal();
        self.task();
        self.requests();
        self.turn_context();
        self.constraints();
        self.media();
        self.facts();
        self.plan();
        self.open_items();
        self.errors();
        self.decisions();
        self.outcomes();
        self.hidden();
        self.digest();
        self.notes();
        if let Some(line) = closing(self.form, self.pending.order.round) {
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

    /// The share of a kind that a model writes: what it was asked for is shown.
    fn written_share(&self, without: f64) -> f64 {
        if self.is_written { WRITTEN_SHARE } else { without }
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
        let kept = self.fitting(lines, share);
        self.bullets(section, &kept);
    }

    /// The lines that fit in a share, the last ones first, in their order.
    fn fitting(&self, lines: Vec<String>, share: f64) -> Vec<String> {
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
        kept
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

    /// The images and files that left with the span, the newest first; those that there is no room for are only counted.
    fn media(&mut self) {
        let thread = self.pending.thread;
        let stays = |place: usize| {
            let loaded = thread.messages().iter().position(|message| message.log_place() == place);
            loaded.is_some_and(|at| self.pending.keeps(at) && !thread.message(at).is_summary())
        };
        let gone: Vec<&Quote> = self.items.media.iter().filter(|quote| !stays(quote.place)).collect();
        let mut room = self.share(MEDIA_SHARE).max(MEDIA_MIN).min(self.left());
        let mut lines: Vec<String> = Vec::new();
        for Quote { text, place } in gone.iter().rev() {
            let line = format!("m{}: {text}", place + 1);
            let cost = self.count(&line) + Tokens::new(2);
            if cost > room {
                break;
            }
            room -= cost;
            lines.push(line);
        }
        let unnamed = gone.len() - lines.len();
        if unnamed > 0 {
            let (first, last) = (gone[0].place + 1, gone[unnamed - 1].place + 1);
            let places = if first == last { format!("m{first}") } else { format!("m{first} to m{last}") };
            lines.push(format!("{unnamed} more in {places}"));
        }
        lines.reverse();
        self.bullets(Section::Media, &lines);
    }

    fn facts(&mut self) {
        let lines: Vec<String> = self.items.facts.iter().map(|quote| quote.text.clone()).collect();
        self.some(Section::Facts, lines, FACTS_SHARE);
    }

    /// What the user is after, in a model's words.
    fn goal(&mut self) {
        let Some(goal) = self.items.goal.clone().filter(|goal| !self.is_said(goal)) else { return };
        if self.section(Section::Goal) {
            let most = self.share(GOAL_SHARE);
            let clipped = middle_out(&goal, most, &|text| self.pending.meter.text(text));
            let _ = writeln!(self.out, "{}", clipped.as_deref().unwrap_or(&goal));
        }
    }

    fn plan(&mut self) {
        let open = self.items.current_plan.iter().filter(|item| !item.is_done());
        let lines: Vec<String> = open.map(|item| format!("[ ] {} ({})", item.text, item.state)).collect();
        self.some(Section::Plan, lines, self.written_share(2.0 * SIDE_SHARE));
    }

    /// What is not finished, most pressing first; a plan may have said it.
    fn open_items(&mut self) {
        let mut items: Vec<&OpenItem> = self.items.open_items.iter().collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.priority));
        let mut lines: Vec<String> = items.into_iter().map(open_line).collect();
        lines.retain(|line| !self.is_said(line));
        let mut kept = self.fitting(lines, self.written_share(2.0 * SIDE_SHARE));
        kept.reverse();
        self.bullets(Section::OpenItems, &kept);
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
        if !self.is_written {
            return self.some(Section::Decisions, lines, BRIEF_SHARE);
        }
        // A model's decisions stand in front, the newest last.
        let mut kept = self.fitting(lines.into_iter().rev().collect(), WRITTEN_SHARE);
        kept.reverse();
        self.bullets(Section::Decisions, &kept);
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
        if !matches!(self.form, SummaryForm::Digest | SummaryForm::Session) {
            return;
        }
        let lines = match self.form {
            SummaryForm::Session => super::digest::table(self.items),
            _ => super::digest::inventory(
                self.pending.thread,
                self.pending.order.span.range(),
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
        let closing =
            closing(self.form, pending.order.round).map_or(Tokens::ZERO, |line| self.count(&line) + Tokens::new(1));
        let room = self.left() - closing;
        if room < WORTH_A_SECTION {
            return;
        }
        let arguments = Arguments::of(pending.thread);
        let requests = pending.order.earlier.as_ref().map_or(&[][..], |earlier| &earlier.requests);
        let mut past = cut(pending.thread, &arguments, &pending.policy.tools, requests);
        past.keep_newest(READ_BYTES_MAX);
        let is_kept: Vec<bool> = past.passages.iter().map(|passage| self.is_whole(passage.message)).collect();
        let mut covered: Vec<&str> = pending.order.beside.iter().map(String::as_str).collect();
        covered.push(&self.out);
        let count = |text: &str| pending.meter.text(text).get() as usize;
        let limit = room.scaled(ASKED_FOR).get() as usize;
        let picks = select::select(&past, &is_kept, &covered, &pending.order.focus, limit, &count);
        let text = self.largest_fit(&past, &picks, self.limit - closing);
        self.out.push_str(&text);
    }

    /// The notes of as many picks, best first, as the limit holds.
    fn largest_fit(&self, past: &Passages<'_>, picks: &[Pick<'_>], limit: Tokens) -> String {
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

fn open_line(item: &OpenItem) -> String {
    match item.context.trim() {
        "" => item.description.clone(),
        context => format!("{} ({context})", item.description),
    }
}
