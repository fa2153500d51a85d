//! The embedded summarizer: extraction, ranking and an exact bound, without any model.
//!
//! ```text
//! limit 2 000 tokens
//! ├─ pins, constraints, tool outcomes      in full, even above the limit: they must stay
//! ├─ goal, task, turn context              quoted, clipped to a share of the limit each
//! ├─ what the user said                    all of it, up to its share; pasted material by head and tail
//! ├─ media, facts, plan, open items, …     the newest lines that fit into a share each
//! └─ files and notes                       every token that is left: lines of the past, chosen by select.rs
//! ```
//!
//! It quotes. No sentence about the work is its own, and the result is never larger than the limit, unless what must stay is
//! larger still. A section that needs less than its share leaves the rest to the chosen lines.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write;

use super::arguments::CallArguments;
use super::clip::{GAP, clip_middle, one_line, outline};
use super::constraint::decisions;
use super::constraint::gives_reason;
use super::digest::{digest_lines, last_number};
use super::done::{TABLE_HEAD, file_lines};
use super::excerpt::{PATHS_BELOW, render_excerpts};
use super::extract::{extract, first_line, turn_context, update_request_states};
use super::handoff::{Subject, is_handoff, left_out_line};
use super::headings::{LAST_ACTIONS, Section, closing, heading, title, titled_round, titled_turns};
use super::merge::{forget_revised, merge, merge_model, without_written};
use super::parse::{DECIDED, DONE_SO_FAR, LAST_COMPLETED, REQUEST_ABOVE, RESOLVED, RequestLabel, SHORT_BYTES_MAX};
use super::passages::{Passage, Passages, RESULT, SourceKind};
use super::pending::SummaryContext;
use super::said_words::{SaidWords, thin_out};
use super::select::{Pick, select};
use super::set_apart::{holds, set_apart, set_apart_item, set_apart_rest};
use super::speech::{approval, choice, constraints, corrections, is_pasted_mostly, typed};
use super::state::StateDelta;
use super::structured::{
    CommandEnding, ErrorFact, OpenItem, PlanItem, Quote, RequestContext, RequestState, StructuredSummary, UserRequest,
};
use super::text_index::TextIndex;
use super::wishes::{ALWAYS, has_any, wanted_sections};
use super::work_state::{SINCE, StateLine, only_reads, run_kind, run_outcome};
use crate::budget::{Recount, Tokens, longest};
use crate::message::{is_rejected, is_user_command};
use crate::policy::{SummaryForm, ToolClass};
use crate::thread::{HarnessText, Message, Role, Speaker, Thread, pieces};

// Shares of the limit, tuned by `just eval`.
const TASK_SHARE: f64 = 0.15;
/// The user's words, all of them; material that they pasted, message by message.
const SAID_SHARE: f64 = 0.9;
const PASTED_SHARE: f64 = 0.05;
/// The user's words where not all of them fit: after hundreds of routine requests, the work itself has to be told too.
const CROWDED_SHARE: f64 = 0.7;
/// An open request that is mostly pasted, a plan to carry out or a review to work through, stays whole up to the larger share;
/// above it, its outline gets the smaller one, so that there is room for what was done about it.
const OPEN_PASTED_MAX: f64 = 0.9;
const OPEN_PASTED_SHARE: f64 = 0.7;
const STATE_SHARE: f64 = 0.15;
/// Each line of the state gets its part of that share, in characters, and at least so many.
const STATE_CHARS_PER_TOKEN: u64 = 3;
/// The least room for the state: a small summary has a line of it too.
const STATE_TOKENS_MIN: f64 = 60.0;
const STATE_CHARS_MIN: usize = 160;
const FACTS_SHARE: f64 = 0.4;
const SIDE_SHARE: f64 = 0.03;
const MEDIA_SHARE: f64 = 0.15;
const PLAN_SHARE: f64 = 0.12;
const DIGEST_SHARE: f64 = 0.3;
/// The least room for decisions.
const DECISION_TOKENS_MIN: f64 = 40.0;
/// The least room for the names of images and files.
const MEDIA_TOKENS_MIN: Tokens = Tokens::new(60);
/// Errors, decisions and progress that code extracted: the chosen lines quote most of them where they matter.
const BRIEF_SHARE: f64 = 0.01;
/// What was done in the turn whose beginning leaves, where there is room for it beside the newest actions.
const ROOMY: Tokens = Tokens::new(4000);
const ROOMY_PROGRESS_SHARE: f64 = 0.03;
const GOAL_SHARE: f64 = 0.1;
/// In the session form: the user's words, what was completed, decisions, and errors with what resolved them.
const SESSION_SAID_SHARE: f64 = 0.6;
const WORKING_SHARE: f64 = 0.1;
const COMPLETED_TABLE_SHARE: f64 = 0.12;
const COMPLETED_TABLE_TOKENS_MIN: f64 = 60.0;
const COMPLETED_TASKS_SHARE: f64 = 0.06;
const COMPLETED_CONCLUSIONS_SHARE: f64 = 0.14;
const SESSION_CHOICES_SHARE: f64 = 0.2;
const SESSION_DECISIONS_SHARE: f64 = 0.1;
const SESSION_ERRORS_SHARE: f64 = 0.08;
/// A model's items of one kind, its facts aside.
const WRITTEN_SHARE: f64 = 0.25;
/// A model's findings, which are most of what it writes.
const WRITTEN_FACTS_SHARE: f64 = 0.6;
/// The capped lists of a workstream.
const WORKSTREAM_SHARE: f64 = 0.3;
/// Lines cost less together than one by one, so more are chosen than fit by their own counts.
const OVERSELECTION: f64 = 1.12;
/// The most text that lines are chosen from: older text is hardly ever worth a line, and reading it costs.
const READ_BYTES_MAX: usize = 384 * 1024;
/// The newest actions that the state tells: so many at least, and one more for so many tokens of the limit.
const LAST_ACTIONS_MIN: usize = 6;
const TOKENS_PER_ACTION: u64 = 400;
/// The most characters of an action.
const ACTION_CHARS_MAX: usize = 240;
/// A result is told once; it is known again by so many of its first characters.
const SAME_RESULT_CHARS: usize = 40;
const ACTIONS_SHARE: f64 = 0.1;
/// Files that were changed after a run are named up to so many.
const CHANGED_NAMED_MAX: usize = 3;
/// The most characters of an error, and of the command that failed, beside what resolved it.
const ERROR_CHARS_MAX: usize = 100;
/// The longest words of one message, where the user's words do not fit as they are.
const LONG_WORDS_TOKENS_MAX: Tokens = Tokens::new(150);
/// Smaller shares are not worth a heading.
const SECTION_TOKENS_MIN: Tokens = Tokens::new(16);

/// A summary, with the message text that holds it in a prompt.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// Its items.
    pub items: StructuredSummary,
    /// Those of them that a model wrote: the next round's model builds on them.
    pub written: StructuredSummary,
    /// Its text, without the policy's prefix and suffix.
    pub text: String,
    /// The tokens of the message that holds it.
    pub tokens: Tokens,
    /// Its author.
    pub author: SummaryAuthor,
}

/// The author of a summary.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryAuthor {
    /// The embedded summarizer.
    Embedded,
    /// A model, with the facts carried by code.
    Model,
}

/// Summarizes a pending span within its limit, with what a model wrote for it, if one was asked.
pub(crate) fn summarize(pending: &SummaryContext<'_>, model: Option<StructuredSummary>) -> Summary {
    let author = if model.is_some() { SummaryAuthor::Model } else { SummaryAuthor::Embedded };
    // Without a new answer, what an earlier model wrote still holds.
    let revises = model.is_some();
    let mut written = model.unwrap_or_else(|| pending.order.written.clone());
    let items = collect_items(pending, &mut written, revises);
    let (text, tokens) = SectionWriter::new(pending, &items, !written.is_empty()).write();
    Summary { items, written, text, tokens, author }
}

/// Returns the items that code carries into this round's summary, without those that a model wrote.
pub(crate) fn carried_items(pending: &SummaryContext<'_>) -> StructuredSummary {
    collect_items(pending, &mut StructuredSummary::default(), true)
}

/// Collects the items of this round. A model that was asked now has revised what earlier ones wrote; see `merge.rs`.
fn collect_items(pending: &SummaryContext<'_>, written: &mut StructuredSummary, revises: bool) -> StructuredSummary {
    let mut items = extract(pending.thread, pending.order.span.range(), &pending.policy.tools);
    let news = StateDelta::of(&items);
    if revises {
        forget_revised(&mut items, &summary_places(pending));
    }
    if let Some(earlier) = &pending.order.earlier {
        merge(&mut items, &without_written(earlier, &pending.order.written));
    }
    let thread = pending.thread;
    if pending.order.splits_turn {
        items.turn_context = turn_context(thread, pending.order.span.range(), &items);
    }
    keep_workstream(pending, &mut items, news, written.workstream.take().filter(|_| revises));
    // What code found binds on its own: no later model can withdraw it.
    written.constraints.retain(|quote| items.constraints.iter().all(|known| known.text != quote.text));
    merge_model(&mut items, written.clone());
    // A model may give words that the user took back.
    update_request_states(&mut items, thread);
    for pin in &pending.order.pins {
        if !items.pins.contains(pin) {
            items.pins.push(pin.clone());
        }
    }
    if (pending.order.span.range().end..thread.len()).any(|place| thread.message(place).opens_turn()) {
        // A newer request is in the prompt itself.
        items.current_task = None;
    }
    items.rounds = round_of(pending);
    items
}

/// Keeps the capped lists beside the summary, where the form has them: the state so far, changed by what code found and then by a
/// model's answer. What leaves over a cap is in the log.
fn keep_workstream(
    pending: &SummaryContext<'_>,
    items: &mut StructuredSummary,
    news: StateDelta,
    delta: Option<StateDelta>,
) {
    if pending.policy.summarize.form != SummaryForm::Workstream {
        items.workstream = None;
        return;
    }
    let order = pending.order;
    let earlier = order.earlier.as_ref().and_then(|earlier| earlier.workstream.clone());
    let mut state = order.workstream.clone().or(earlier).or(items.workstream.take()).unwrap_or_default();
    for changes in [Some(news), delta].into_iter().flatten() {
        let _ = state.merge(changes);
    }
    items.workstream = Some(state);
}

/// Returns the number of this round. A list has no record of earlier ones but the titles of their summaries.
fn round_of(pending: &SummaryContext<'_>) -> u32 {
    let titled = earlier_summaries(pending).filter_map(|message| titled_round(&message.text())).max();
    pending.order.round.max(titled.map_or(0, |round| round + 1))
}

/// Returns the turns that the summary stands for: those that an earlier summary in the span names, and the later ones behind it.
fn turns_of(pending: &SummaryContext<'_>) -> (u32, u32) {
    let turns = pending.order.span.turns();
    let named = earlier_summaries(pending).filter_map(|message| Some((titled_turns(&message.text())?, message.turn())));
    match named.last() {
        Some(((first, last), at)) => (first, (last + turns.1.saturating_sub(at)).max(turns.1)),
        None => turns,
    }
}

fn earlier_summaries<'p>(pending: &'p SummaryContext<'_>) -> impl Iterator<Item = &'p Message> {
    let messages = pending.order.span.range().map(|place| pending.thread.message(place));
    messages.filter(|message| message.is_summary())
}

/// Returns the log places of messages in the span that are summaries of earlier compactions.
fn summary_places(pending: &SummaryContext<'_>) -> Vec<usize> {
    earlier_summaries(pending).map(Message::log_place).collect()
}

/// Writes a summary section by section, within the limit.
struct SectionWriter<'p, 'a> {
    pending: &'p SummaryContext<'a>,
    items: &'p StructuredSummary,
    /// A model wrote some of the items.
    has_written: bool,
    form: SummaryForm,
    limit: Tokens,
    out: String,
    recount: RefCell<Recount<'a>>,
    /// Everything else in the prompt.
    kept_texts: TextIndex<'p>,
    /// The log places of messages that are quoted in full.
    quoted_whole: HashSet<usize>,
    /// The directory that is left out of paths.
    root: String,
    /// The heading that is open: two sections may share one.
    open: &'static str,
    /// The user's words leave no room for what only explains them: the questions that they answer, a heading of their own.
    is_crowded: bool,
    /// The sections that the user limits the summary to, where they do and there is something of it.
    wanted: Option<HashSet<Section>>,
    /// What a handoff is about: nothing else goes along.
    subject: Option<Subject>,
}

impl<'p, 'a> SectionWriter<'p, 'a> {
    fn new(pending: &'p SummaryContext<'a>, items: &'p StructuredSummary, has_written: bool) -> Self {
        let form = pending.policy.summarize.form;
        let limit = pending.order.limit.min(pending.policy.summarize.rollup);
        let limit = limit - pending.meter.text_message(&pending.policy.render.wrap(""));
        let wanted = wanted_sections(&pending.order.focus).filter(|_| !is_handoff(pending));
        SectionWriter {
            pending,
            items,
            has_written,
            form,
            limit,
            out: title(form, turns_of(pending), items.rounds),
            recount: RefCell::new(Recount::new(pending.meter.counter())),
            kept_texts: TextIndex::new(pending.order.kept_texts.iter().map(String::as_str)),
            quoted_whole: HashSet::new(),
            root: String::new(),
            open: "",
            is_crowded: false,
            wanted: wanted.filter(|wanted| has_any(items, wanted)),
            subject: None,
        }
    }

    /// Returns the summary's text, and the tokens of the message that holds it.
    fn write(mut self) -> (String, Tokens) {
        let (thread, order, tools) = (self.pending.thread, self.pending.order, &self.pending.policy.tools);
        let arguments = CallArguments::of(thread);
        let requests = order.earlier.as_ref().map_or(&[][..], |earlier| &earlier.requests);
        let mut passages = Passages::of(thread, &arguments, tools, requests);
        self.root.clone_from(&passages.root);
        if is_handoff(self.pending) {
            self.subject = Some(Subject::of(&order.focus, &passages, &self.items.requests));
        }
        self.write_handoff_goal();
        self.write_pins();
        self.write_goal();
        self.write_task();
        self.write_requests();
        self.write_turn_context();
        self.write_workstream();
        let joins_facts = heading(self.form, Section::Decisions) == heading(self.form, Section::Facts);
        if self.form == SummaryForm::Session {
            // The user's choices among them.
            self.write_decisions();
        }
        self.write_constraints();
        self.write_state(&mut passages);
        self.write_media();
        self.write_facts();
        // Sections under one heading stand together.
        if joins_facts {
            self.write_decisions();
        }
        self.write_plan();
        self.write_open_items();
        self.write_errors();
        if !joins_facts && self.form != SummaryForm::Session {
            self.write_decisions();
        }
        self.write_outcomes();
        self.write_hidden();
        match self.form {
            SummaryForm::Session => self.write_completed(),
            _ => self.write_digest(),
        }
        self.write_excerpts(&mut passages);
        if let Some(line) = closing(self.form, self.items.rounds) {
            let _ = write!(self.out, "\n{line}");
        }
        let mut text = self.out.trim().to_owned();
        if text.is_empty() {
            // No provider takes an empty message.
            text.push_str(GAP);
        }
        let tokens = self.recount(&self.pending.policy.render.wrap(&text));
        (text, self.pending.meter.message(&[tokens]))
    }

    fn count(&self, text: &str) -> Tokens {
        self.pending.meter.text(text)
    }

    /// Counts a text of which most was counted before.
    fn recount(&self, text: &str) -> Tokens {
        self.recount.borrow_mut().count(text)
    }

    fn left(&self) -> Tokens {
        self.limit - self.recount(&self.out)
    }

    /// Returns the share of a kind that a model may have written: what it was asked for is shown.
    fn written_share(&self, without: f64) -> f64 {
        if self.has_written { WRITTEN_SHARE } else { without }
    }

    /// Returns a share, or what makes so many tokens: a small summary has room for one or two lines of a kind too.
    fn at_least(&self, share: f64, tokens_min: f64) -> f64 {
        share.max(tokens_min / self.limit.get().max(1) as f64)
    }

    fn share(&self, share: f64) -> Tokens {
        self.limit.share(share).min(self.left())
    }

    /// Tells whether a line goes along: in a handoff, what shares the subject of the goal.
    fn is_needed(&self, line: &str) -> bool {
        self.subject.as_ref().is_none_or(|subject| subject.covers(line))
    }

    /// Opens a section; `false` when the form leaves it out.
    fn open_section(&mut self, section: Section) -> bool {
        let is_wanted =
            self.wanted.as_ref().is_none_or(|wanted| ALWAYS.contains(&section) || wanted.contains(&section));
        let Some(heading) = heading(self.form, section).filter(|_| is_wanted) else { return false };
        if self.open != heading {
            self.open = heading;
            self.out.truncate(self.out.trim_end().len());
            let gap = if self.out.is_empty() { "" } else { "\n\n" };
            let _ = writeln!(self.out, "{gap}{heading}");
        }
        true
    }

    /// Tells whether words are in the prompt already: in the summary so far, or in the messages that stay.
    fn is_in_prompt(&self, words: &str) -> bool {
        holds(&self.out, words) || self.kept_texts.contains(words)
    }

    fn write_pins(&mut self) {
        let pins: Vec<&String> = self.items.pins.iter().filter(|pin| !self.is_in_prompt(pin)).collect();
        self.write_bullets(Section::Pins, &pins);
    }

    /// Writes every line, even above the limit.
    fn write_bullets<T: AsRef<str>>(&mut self, section: Section, lines: &[T]) {
        if lines.is_empty() || !self.open_section(section) {
            return;
        }
        for line in lines {
            let _ = writeln!(self.out, "- {}", set_apart_item(line.as_ref()));
        }
    }

    /// Writes the newest lines that fit into a share, in their order.
    fn write_newest(&mut self, section: Section, lines: Vec<String>, share: f64) {
        let kept = self.newest_fitting(lines, share);
        self.write_bullets(section, &kept);
    }

    /// Returns the last lines that fit into a share, in their order.
    fn newest_fitting(&self, lines: Vec<String>, share: f64) -> Vec<String> {
        let mut room = self.share(share);
        let mut kept = Vec::new();
        for line in lines.into_iter().rev() {
            let cost = self.count(&line) + Tokens::new(2);
            if cost <= room && !self.is_in_prompt(&line) {
                room -= cost;
                kept.push(line);
            }
        }
        kept.reverse();
        kept
    }

    /// Writes the goal of the new thread that a handoff is for: it leads, whatever the old thread was about.
    fn write_handoff_goal(&mut self) {
        if is_handoff(self.pending) && self.open_section(Section::Task) {
            let _ = writeln!(self.out, "{}", set_apart(self.pending.order.focus.trim()));
        }
    }

    /// Writes the capped lists of a workstream, as far as their share goes.
    fn write_workstream(&mut self) {
        let Some(state) = self.items.workstream.as_ref().filter(|state| !state.is_empty()) else { return };
        let mut room = self.share(WORKSTREAM_SHARE);
        let mut kept: Vec<String> = Vec::new();
        for line in state.render().lines().filter(|line| !line.is_empty()) {
            // What the user said stands above, word for word.
            if line.strip_prefix("- ").is_some_and(|words| self.is_in_prompt(words)) {
                continue;
            }
            let line = one_line(line, ACTION_CHARS_MAX);
            let cost = self.count(&line) + Tokens::new(1);
            if cost > room {
                break;
            }
            room -= cost;
            // A list without an entry needs no heading.
            if !line.starts_with("- ") && kept.last().is_some_and(|last| !last.starts_with("- ")) {
                kept.pop();
            }
            kept.push(line);
        }
        if kept.last().is_some_and(|last| !last.starts_with("- ")) {
            kept.pop();
        }
        if !kept.is_empty() && self.open_section(Section::Workstream) {
            let _ = writeln!(self.out, "{}", kept.join("\n"));
        }
    }

    /// Writes the first request, unless it stays as a message of its own.
    fn write_task(&mut self) {
        if is_handoff(self.pending) {
            return;
        }
        let opening = self.pending.thread.messages().iter().find(|message| message.opens_turn());
        let is_first = |place: usize| opening.is_none_or(|opening| place <= opening.log_place());
        let mut own = self.items.requests.iter().filter(|request| request.context != Some(RequestContext::Retold));
        let Some(first) = own.next().filter(|first| is_first(first.place)) else { return };
        // Taken back, it is told with what took it back; and what takes something back is not the first.
        let stands = first.state != RequestState::Superseded && first.supersedes.is_none();
        // Words that do not fit here are told with the others.
        let fits = is_pasted_mostly(&first.text) || self.count(&first.text) <= self.share(TASK_SHARE);
        if !stands || !fits || self.is_in_prompt(&first.text) || self.is_current(first.place) {
            return;
        }
        let (text, place) = (first.text.clone(), first.place);
        if self.open_section(Section::Task) {
            self.write_quote(&text, place, self.share(TASK_SHARE), "");
        }
    }

    fn is_current(&self, place: usize) -> bool {
        self.items.current_task.as_ref().is_some_and(|task| task.place == place)
    }

    /// Quotes words in full, or head and tail of them when they are longer than `most`.
    fn write_quote(&mut self, text: &str, place: usize, most: Tokens, label: &str) {
        let clipped = self.clip(text, most);
        if clipped.is_none() {
            self.quoted_whole.insert(place);
        }
        let _ = writeln!(self.out, "{label}{}", set_apart(clipped.as_deref().unwrap_or(text)));
    }

    /// Clips words to `most`: pasted material to its outline, other words to head and tail. `None` when they fit.
    fn clip(&self, text: &str, most: Tokens) -> Option<String> {
        let count = |text: &str| self.pending.meter.text(text);
        if is_pasted_mostly(text) { outline(text, &typed(text), most, &count) } else { clip_middle(text, most, &count) }
    }

    /// Returns what stands before the user's words.
    fn label(&self, request: &UserRequest) -> RequestLabel {
        let stands = request.state != RequestState::Superseded;
        let binds = stands && self.items.constraints.iter().any(|quote| request.text.contains(&quote.text));
        let takers = self.items.requests.iter().filter(|later| later.supersedes == Some(request.place));
        let superseded_by = takers.map(|later| later.place).next().filter(|_| !stands);
        let (place, state, context) = (request.place, request.state, request.context.clone());
        RequestLabel { place, state, superseded_by, supersedes: request.supersedes, context, binds }
    }

    /// Writes what the user said, all of it and in order. Only where that takes more than its share of the limit, long material
    /// is clipped further, and then words leave that neither bind nor correct anything.
    fn write_requests(&mut self) {
        let mut said = self.said();
        let (most, crowded) = match self.form {
            SummaryForm::Session => (SESSION_SAID_SHARE, SESSION_SAID_SHARE),
            _ => (SAID_SHARE, CROWDED_SHARE),
        };
        // The headings take their part too: one token over the limit would cost whole words.
        let left = self.left() - self.said_heading_tokens();
        let mut room = self.share(most).min(left) - self.open_request_tokens();
        for most in [LONG_WORDS_TOKENS_MAX, Tokens::new(60)] {
            if said.iter().map(|words| words.tokens).sum::<Tokens>() <= room {
                break;
            }
            said.iter_mut().for_each(|words| self.clip_words(words, most));
        }
        if said.iter().filter(|words| words.is_marked).map(|words| words.tokens).sum::<Tokens>() > room {
            // The agent's questions leave before what the user answered.
            self.is_crowded = true;
            for words in &mut said {
                words.label.forget_question();
                words.tokens = self.words_tokens(words);
            }
            let left = self.left() - self.said_heading_tokens();
            let all = if self.form == SummaryForm::Session { self.share(most).min(left) } else { left };
            room = all - self.open_request_tokens();
        }
        if said.iter().map(|words| words.tokens).sum::<Tokens>() > room {
            thin_out(&mut said, room, self.share(crowded) - self.open_request_tokens());
        }
        let left_out = left_out_line(&self.not_needed());
        if said.is_empty() && left_out.is_none() || !self.open_section(Section::Requests) {
            return;
        }
        if let Some(line) = left_out {
            let _ = writeln!(self.out, "{line}");
        }
        for words in said {
            let label = words.label.render();
            let label = if self.root.is_empty() { label } else { label.replace(&self.root, "") };
            let _ = writeln!(self.out, "{label}{}", set_apart_rest(&words.text));
            if words.is_whole {
                self.quoted_whole.insert(words.label.place);
            }
        }
    }

    /// Tells whether words of the user are told already, or stay as a message. Short ones stand in other words too.
    fn is_told(&self, quote: &Quote) -> bool {
        let is_long = quote.text.len() > SHORT_BYTES_MAX;
        self.stays(quote.place) || self.quoted_whole.contains(&quote.place) || is_long && self.is_in_prompt(&quote.text)
    }

    /// Returns the room that is left for the request that is open, which is written after the others.
    fn open_request_tokens(&self) -> Tokens {
        let Some(task) = self.items.current_task.as_ref().filter(|task| !self.is_told(task)) else {
            return Tokens::ZERO;
        };
        (self.count(&task.text) + self.count(&self.open_label(task))).min(self.share(OPEN_PASTED_SHARE))
    }

    /// Returns the tokens of the headings above the user's words and the request that is open.
    fn said_heading_tokens(&self) -> Tokens {
        let splits = self.items.turn_context.is_some() && !self.is_crowded;
        let sections = [Some(Section::Requests), Some(Section::TurnContext).filter(|_| splits)];
        let headings = sections.into_iter().flatten().filter_map(|section| heading(self.form, section));
        headings.map(|heading| self.count(heading) + Tokens::new(2)).sum()
    }

    /// Returns what stands before the request that is open.
    fn open_label(&self, task: &Quote) -> String {
        let opens = |request: &&UserRequest| request.place == task.place && request.text == task.text;
        let label = self.items.requests.iter().find(opens).map(|request| self.label(request));
        let mut label = label.unwrap_or_else(|| RequestLabel::at(task.place));
        if self.is_crowded {
            label.forget_question();
        }
        label.render_latest()
    }

    /// Returns the places of the user's words that a handoff leaves out.
    fn not_needed(&self) -> Vec<usize> {
        let Some(subject) = &self.subject else { return Vec::new() };
        let others = self.items.requests.iter().filter(|request| !subject.covers_request(request));
        let mut places: Vec<usize> = others.map(|request| request.place).collect();
        places.dedup();
        places
    }

    /// Returns the user's words that no other part of the prompt shows.
    fn said(&self) -> Vec<SaidWords> {
        let mut said = Vec::new();
        let is_needed =
            |request: &&UserRequest| self.subject.as_ref().is_none_or(|subject| subject.covers_request(request));
        for request in self.items.requests.iter().filter(is_needed).filter(|own| !self.is_told_as_choice(own)) {
            let is_long = request.text.len() > SHORT_BYTES_MAX;
            // Of what is retold, several pieces are in one message.
            let is_retold = request.context == Some(RequestContext::Retold);
            let is_shown = self.is_current(request.place) || self.quoted_whole.contains(&request.place);
            let is_whole = !is_retold && (is_shown || self.stays(request.place));
            if is_whole || is_long && self.is_in_prompt(&request.text) {
                continue;
            }
            let label = self.label(request);
            let has_marks = constraints(&request.text).chain(corrections(&request.text)).next().is_some();
            let is_marked = has_marks || request.state == RequestState::Superseded;
            let text = request.text.clone();
            let mut words = SaidWords { label, text, tokens: Tokens::ZERO, is_whole: true, is_marked };
            words.tokens = self.words_tokens(&words);
            if is_pasted_mostly(&request.text) {
                self.clip_words(&mut words, self.limit.share(PASTED_SHARE).max(Tokens::new(60)));
            }
            said.push(words);
        }
        said
    }

    /// Clips words to head and tail where they are longer than `most`.
    fn clip_words(&self, words: &mut SaidWords, most: Tokens) {
        let clipped = self.clip(&words.text, most);
        if let Some(text) = clipped.filter(|text| text != GAP) {
            words.text = text;
            words.tokens = self.words_tokens(words);
            words.is_whole = false;
        }
    }

    /// Counts words of the user as they will be written.
    fn words_tokens(&self, words: &SaidWords) -> Tokens {
        self.count(&set_apart_rest(&words.text)) + self.count(&words.label.render()) + Tokens::new(1)
    }

    /// Tells whether the message at a place of the log stays in the prompt unchanged.
    fn stays(&self, place: usize) -> bool {
        let thread = self.pending.thread;
        let loaded = thread.messages().iter().position(|message| message.log_place() == place && !message.is_summary());
        loaded.is_some_and(|at| self.pending.order.kept_whole.contains(&at))
    }

    /// Tells whether words of the user only choose or approve what the agent proposed: in the session form, that is a decision.
    fn is_told_as_choice(&self, request: &UserRequest) -> bool {
        let Some(RequestContext::Answers(asked)) = &request.context else { return false };
        let is_short = request.text.len() <= SHORT_BYTES_MAX;
        let chooses = || choice(&request.text).is_some() || is_question(asked) && approval(&request.text).is_some();
        let is_open = || {
            let split = self.items.turn_context.as_ref().map(|turn| turn.request.place);
            self.is_current(request.place) || split == Some(request.place)
        };
        self.form == SummaryForm::Session && is_short && chooses() && !is_open()
    }

    /// Writes how things are: tests, builds, commits, and the newest actions that leave the prompt.
    fn write_state(&mut self, passages: &mut Passages<'_>) {
        // A long list of failures leaves room for the other kinds.
        let room = (self.share(STATE_SHARE).get() * STATE_CHARS_PER_TOKEN) as usize;
        let most = even_share(self.items.state.iter().map(|line| line.text().len()).collect(), room);
        let lines = self.items.state.iter().map(|line| self.state_line(line, most.max(STATE_CHARS_MIN)));
        let lines = lines.filter(|line| self.is_needed(line)).collect();
        let least = STATE_TOKENS_MIN / self.limit.get().max(1) as f64;
        self.write_newest(Section::State, lines, STATE_SHARE.max(least));
        if self.form == SummaryForm::Session {
            self.write_newest(Section::State, self.working_on(), WORKING_SHARE);
        }
        if let Some((number, command)) = self.newest_command().filter(|(_, command)| self.is_needed(command))
            && self.open_section(Section::State)
        {
            let _ = writeln!(self.out, "- The newest command of the user (m{number}): {command}");
        }
        let actions = self.last_actions(passages);
        if actions.is_empty() || !self.open_section(Section::State) {
            return;
        }
        let _ = writeln!(self.out, "{LAST_ACTIONS}");
        for (source, line) in actions {
            passages.sources[source].is_told = true;
            let _ = writeln!(self.out, "- {line}");
        }
    }

    /// Tells what is in progress and what was completed last.
    fn working_on(&self) -> Vec<String> {
        let task = self.items.current_plan.iter().find(|item| item.state == "in_progress");
        let working = task.map(|item| format!("Working on: {}", item.text));
        let last = self.items.conclusions.last().filter(|told| !self.is_in_prompt(&told.text));
        let last = last.map(|told| format!("{LAST_COMPLETED}{}{}", RequestLabel::at(told.place).render(), told.text));
        working.into_iter().chain(last).collect()
    }

    /// Renders a line of the state; of a run, with what was changed after it, or where it was run once more.
    fn state_line(&self, line: &StateLine, chars_max: usize) -> String {
        let since = if line.kind.is_run() { self.since_run(line) } else { String::new() };
        format!("{} (m{}{since})", one_line(&line.text(), chars_max), line.place + 1)
    }

    fn since_run(&self, line: &StateLine) -> String {
        let (thread, tools) = (self.pending.thread, &self.pending.policy.tools);
        let run_in = |at: usize| {
            let mut calls = thread.message(at).calls().filter_map(|call| Some((call, tools.meaning(call).command?)));
            calls.find(|(_, command)| run_kind(first_line(command)) == Some(line.kind))
        };
        // The newest run tells how things are.
        let mut behind = (self.pending.order.span.range().end..thread.len()).rev();
        if let Some((at, (call, command))) = behind.find_map(|at| Some((at, run_in(at)?))) {
            // Another command may have run one test of many.
            let again = if line.line.contains(first_line(&command)) { "run again" } else { "others ran" };
            let results = (at..thread.len()).flat_map(|at| thread.message(at).results());
            let result = results.map(|(_, result)| result).find(|result| result.call_id == call.id);
            let outcome = result.map(|result| {
                let ending = CommandEnding::of(tools.ending(Some(call), result), &result.text);
                run_outcome(line.kind, first_line(&command), &result.text, ending)
            });
            let ended = match outcome.as_deref() {
                Some("passed") => ", passed",
                Some(outcome) if outcome.starts_with("failed") => ", failed",
                _ => "",
            };
            return format!("{SINCE}{again} in m{}{ended}, below", thread.message(at).number());
        }
        let files = &self.items.files;
        let changed: Vec<&str> = files
            .iter()
            .filter(|file| file.written.max(file.patched) > Some(line.place))
            .map(|file| file.path.strip_prefix(&self.root).unwrap_or(&file.path))
            .collect();
        match changed.len() {
            0 => String::new(),
            1..=CHANGED_NAMED_MAX => format!("{SINCE}changed since: {}", changed.join(", ")),
            more => format!("{SINCE}{more} files were changed since"),
        }
    }

    /// Returns a command such as `/review` with the number of its message, where the user said nothing after it. A skill's text, which
    /// may follow it, is no answer; what a local command printed is one.
    fn newest_command(&self) -> Option<(usize, String)> {
        let mut places = self.pending.order.span.range().rev();
        let message = places.find_map(|at| {
            let message = self.pending.thread.message(at);
            let text = message.text();
            let speaks = message.role() == Role::User && !text.trim().is_empty();
            let is_skill = pieces(&text).iter().all(|(speaker, _)| *speaker == Speaker::Harness(HarnessText::Notice));
            (speaks && (is_user_command(&text) || !is_skill)).then_some(message)
        })?;
        let text = message.text();
        let fits = self.count(&text) <= self.share(ACTIONS_SHARE).max(SECTION_TOKENS_MIN);
        let is_last = (self.pending.order.span.range().end..self.pending.thread.len())
            .all(|at| self.pending.thread.message(at).role() != Role::User);
        (is_user_command(&text) && fits && is_last).then(|| (message.number(), text.trim().to_string()))
    }

    /// Returns the newest calls that leave the prompt, each with what came of it, oldest first.
    fn last_actions(&self, passages: &Passages<'_>) -> Vec<(usize, String)> {
        let (thread, end) = (self.pending.thread, self.pending.order.span.range().end);
        let is_own = |at: usize| at < end && !thread.message(at).is_summary();
        let mut actions: Vec<(usize, usize, String)> = Vec::new();
        for (at, source) in passages.sources.iter().enumerate() {
            match source.kind {
                SourceKind::Command | SourceKind::Call if is_own(source.first) && !source.action.is_empty() => {
                    actions.push((thread.message(source.first).number(), at, source.action.clone()));
                }
                SourceKind::File => {
                    if let Some(number) = source.edited.filter(|number| is_own_number(thread, end, *number)) {
                        actions.push((number, at, format!("m{number} edited {}", source.label)));
                    }
                }
                _ => {}
            }
        }
        actions.retain(|(.., line)| self.is_needed(line));
        actions.sort_unstable();
        let mut room = self.share(ACTIONS_SHARE);
        let mut kept = Vec::new();
        let most = LAST_ACTIONS_MIN.max((self.limit.get() / TOKENS_PER_ACTION) as usize);
        // Who looks again and finds the same does nothing new: the newest time is told.
        let mut told: HashSet<String> = HashSet::new();
        let is_news = |(.., line): &(usize, usize, String)| {
            let (call, result) = line.split_once(RESULT).unwrap_or((line, ""));
            let call = call.split_once(' ').map_or(call, |(_, call)| call);
            let looks = call.strip_prefix("$ ").is_some_and(only_reads) && result.len() > SAME_RESULT_CHARS;
            told.insert(if looks {
                result.to_owned()
            } else {
                line.split_once(' ').map_or("", |(_, line)| line).to_owned()
            })
        };
        for (_, at, line) in actions.into_iter().rev().filter(is_news).take(most) {
            let line = one_line(&self.without_told_result(&line), ACTION_CHARS_MAX);
            let cost = self.count(&line) + Tokens::new(2);
            if cost > room {
                break;
            }
            room -= cost;
            kept.push((at, line));
        }
        kept.reverse();
        kept
    }

    /// Takes the result out of an action where the state right above tells it already: the newest failure of a build.
    fn without_told_result<'l>(&self, action: &'l str) -> Cow<'l, str> {
        let Some((call, result)) = action.split_once(RESULT) else { return Cow::Borrowed(action) };
        let known = result.char_indices().nth(SAME_RESULT_CHARS).map(|(at, _)| &result[..at]);
        if known.is_some_and(|known| self.items.state.iter().any(|line| line.line.contains(known))) {
            Cow::Owned(format!("{call}{RESULT}as told above"))
        } else {
            Cow::Borrowed(action)
        }
    }

    /// Writes the request that is open, in full, and what was done about it.
    fn write_turn_context(&mut self) {
        // The turn that the cut splits need not be the last one.
        let split = || self.items.turn_context.as_ref().map(|context| context.request.clone());
        let is_last = self.items.current_task.is_some();
        let Some(task) = self.items.current_task.clone().or_else(split) else { return };
        if !self.is_needed(&task.text) {
            return;
        }
        let is_told = self.is_told(&task);
        if is_told && is_last {
            return self.write_turn_progress();
        }
        let has_section = self.items.turn_context.is_some() && !self.is_crowded;
        let section = if has_section { Section::TurnContext } else { Section::Requests };
        if !self.open_section(section) {
            return;
        }
        let most = if self.count(&task.text) > self.share(OPEN_PASTED_MAX) && is_pasted_mostly(&task.text) {
            self.share(OPEN_PASTED_SHARE)
        } else {
            self.left()
        };
        let label = self.open_label(&task);
        if is_told {
            let _ = writeln!(self.out, "{REQUEST_ABOVE}{}", task.place + 1);
        } else {
            self.write_quote(&task.text, task.place, most, &label);
        }
        let lines = self.progress_lines();
        if !lines.is_empty() && !is_told {
            let _ = writeln!(self.out, "{DONE_SO_FAR}{}:", task.place + 1);
        }
        for line in lines {
            let _ = writeln!(self.out, "{line}");
        }
    }

    /// Writes what a model told of the turn whose beginning leaves, where its request is shown elsewhere.
    fn write_turn_progress(&mut self) {
        let Some(place) = self.items.turn_context.as_ref().map(|turn| turn.request.place) else { return };
        let lines = if self.has_written { self.progress_lines() } else { Vec::new() };
        if lines.is_empty() || !self.open_section(Section::TurnContext) {
            return;
        }
        let _ = writeln!(self.out, "{DONE_SO_FAR}{}:", place + 1);
        for line in lines {
            let _ = writeln!(self.out, "{line}");
        }
    }

    /// Returns the progress of the turn whose beginning leaves, as far as its share goes.
    fn progress_lines(&self) -> Vec<String> {
        let progress = if self.limit >= ROOMY { ROOMY_PROGRESS_SHARE } else { BRIEF_SHARE };
        let mut room = self.share(self.written_share(progress));
        let mut lines = Vec::new();
        for Quote { text, place } in self.items.turn_context.iter().flat_map(|turn| &turn.progress).rev() {
            let number = format!("(m{})", place + 1);
            let line = if text.ends_with(')') { format!("- {text}") } else { format!("- {text} {number}") };
            let cost = self.count(&line);
            // A run is told with its outcome below.
            let is_state = self.items.state.iter().any(|line| line.line.contains(text.as_str()));
            if cost <= room && !is_state && !self.is_in_prompt(text) {
                room -= cost;
                lines.push(line);
            }
        }
        lines.reverse();
        lines
    }

    /// Writes the constraints that are nowhere else in the prompt.
    fn write_constraints(&mut self) {
        let texts = self.items.constraints.iter().map(|quote| &quote.text);
        let lines: Vec<&String> = texts.filter(|text| !self.is_in_prompt(text)).collect();
        self.write_bullets(Section::Constraints, &lines);
    }

    /// Writes the names of images and files that left with the span, the newest as far as they fit; the others are counted.
    fn write_media(&mut self) {
        let is_gone = |quote: &&Quote| !self.stays(quote.place) && self.is_needed(&quote.text);
        let gone: Vec<&Quote> = self.items.media.iter().filter(is_gone).collect();
        let mut room = self.share(MEDIA_SHARE).max(MEDIA_TOKENS_MIN).min(self.left());
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
        self.write_bullets(Section::Media, &lines);
    }

    fn write_facts(&mut self) {
        let mut lines: Vec<String> = self.items.facts.iter().map(|quote| quote.text.clone()).collect();
        // A model was told the goal: what it wrote is about it.
        lines.retain(|line| self.has_written || self.is_needed(line));
        let share = if self.has_written { WRITTEN_FACTS_SHARE } else { FACTS_SHARE };
        self.write_newest(Section::Facts, lines, share);
    }

    fn write_goal(&mut self) {
        let Some(goal) = self.items.goal.clone().filter(|goal| !self.is_in_prompt(goal)) else { return };
        if self.open_section(Section::Goal) {
            let most = self.share(GOAL_SHARE);
            let clipped = clip_middle(&goal, most, &|text| self.pending.meter.text(text));
            let _ = writeln!(self.out, "{}", set_apart(clipped.as_deref().unwrap_or(&goal)));
        }
    }

    fn write_plan(&mut self) {
        let (mut done, open): (Vec<_>, Vec<_>) = self.items.current_plan.iter().partition(|item| item.is_done());
        if self.form == SummaryForm::Session {
            // They are told as completed work.
            done.clear();
        }
        // What is open comes last, so that it is the last to go.
        let done = done.into_iter().map(|item| format!("[x] {}", item.text));
        let open = open.into_iter().map(|item| format!("[ ] {} ({})", item.text, item.state));
        let mut lines: Vec<String> = done.chain(open).collect();
        // The lists of a workstream have it.
        lines.retain(|line| self.items.workstream.is_none() || !self.out.contains(task_words(line)));
        lines.retain(|line| self.has_written || self.is_needed(line));
        let kept = self.newest_fitting(lines, self.written_share(PLAN_SHARE));
        // A list that is all ticked looks as if nothing remained, whatever was asked for after it.
        if let Some(after) = self.request_after_plan().filter(|_| !kept.is_empty())
            && self.open_section(Section::Plan)
        {
            let _ = writeln!(self.out, "(all of it was done before m{after})");
        }
        self.write_bullets(Section::Plan, &kept);
    }

    /// Returns the number of the open request, where it came after a plan that is carried out.
    fn request_after_plan(&self) -> Option<usize> {
        let plan = &self.items.current_plan;
        let last = plan.iter().map(|item| item.place).max()?;
        let open = self.items.current_task.as_ref().map(|task| task.place).filter(|place| *place > last)?;
        plan.iter().all(PlanItem::is_done).then_some(open + 1)
    }

    /// Writes the unfinished work, most urgent first, unless the plan says it.
    fn write_open_items(&mut self) {
        let mut items: Vec<&OpenItem> = self.items.open_items.iter().collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.priority));
        let mut lines: Vec<String> = items.into_iter().map(open_line).collect();
        lines.retain(|line| !self.is_in_prompt(line) && (self.has_written || self.is_needed(line)));
        let mut kept = self.newest_fitting(lines, self.written_share(2.0 * SIDE_SHARE));
        kept.reverse();
        self.write_bullets(Section::OpenItems, &kept);
    }

    fn write_errors(&mut self) {
        // The state tells how a test, a build or a check ended last. That a look-up found nothing is no error of the work.
        let is_told = |error: &ErrorFact| {
            run_kind(&error.about).is_some_and(|kind| self.items.state.iter().any(|line| line.kind == kind))
        };
        let tells_resolved = self.form == SummaryForm::Session;
        let tools = &self.pending.policy.tools;
        let looked_up = |error: &ErrorFact| {
            let tool = error.about.split_once(' ').map_or(error.about.as_str(), |(tool, _)| tool);
            matches!(tools.class(tool), Some(ToolClass::Read | ToolClass::Search))
        };
        // Of what an earlier round told, only runs were told with what resolved them.
        let is_loaded = |place: usize| {
            self.pending.thread.messages().iter().any(|message| message.log_place() == place && !message.is_summary())
        };
        let is_of_work = |error: &&ErrorFact| {
            let is_command = self.items.commands.iter().any(|command| command.place == error.place);
            let is_open = error.fixed.is_none() && !is_told(error) && (!is_command || !only_reads(&error.about));
            // Of what was fixed, only a run is worth a word: that an edit went through at last is seen from the file.
            let is_run = is_command || !is_loaded(error.place);
            let is_resolved = tells_resolved && error.fixed.is_some() && is_run && !only_reads(&error.about);
            (is_open || is_resolved) && !looked_up(error) && !is_rejected(&error.line)
        };
        let mut lines: Vec<String> = Vec::new();
        for error in self.items.errors.iter().filter(is_of_work) {
            let mut line = format!("{}: {} (m{})", error.about, error.line, error.place + 1);
            if tells_resolved {
                line = format!(
                    "{}: {} (m{})",
                    one_line(&error.about, ERROR_CHARS_MAX),
                    one_line(&error.line, ERROR_CHARS_MAX),
                    error.place + 1
                );
            }
            if let Some(fixed) = error.fixed {
                let gap = if error.resolution.is_empty() { "" } else { " " };
                let _ = write!(line, "{RESOLVED}{}{gap}(m{})", error.resolution, fixed + 1);
            }
            if !lines.contains(&line) && self.is_needed(&line) {
                lines.push(line);
            }
        }
        self.write_newest(Section::Errors, lines, if tells_resolved { SESSION_ERRORS_SHARE } else { BRIEF_SHARE });
    }

    fn write_decisions(&mut self) {
        let joins_facts = heading(self.form, Section::Decisions) == heading(self.form, Section::Facts);
        let lines = self.items.decisions.iter().map(|decision| {
            let told = match decision.rationale.is_empty() {
                true => decision.decision.clone(),
                false => format!("{} ({})", decision.decision, decision.rationale),
            };
            // Among facts, a decision that does not say so itself is marked.
            let is_marked = !joins_facts || decisions(&told).next().is_some();
            if is_marked { told } else { format!("{DECIDED}{told}") }
        });
        let lines: Vec<String> = lines.collect();
        if !self.has_written && self.form == SummaryForm::Session {
            // Those with a reason are the last to go, after them the newest.
            let (with_reason, bare): (Vec<String>, Vec<String>) =
                lines.into_iter().partition(|line| gives_reason(line));
            let choices = self.items.requests.iter().filter(|request| self.is_told_as_choice(request));
            let choices = choices.map(|request| format!("{}{}", self.label(request).render(), request.text)).collect();
            let mut kept = self.newest_fitting(choices, SESSION_CHOICES_SHARE);
            kept.extend(self.newest_fitting(bare.into_iter().chain(with_reason).collect(), SESSION_DECISIONS_SHARE));
            return self.write_bullets(Section::Decisions, &kept);
        }
        if !self.has_written {
            // A sentence of the agent that gives no reason is told better by the lines around it.
            let lines = lines.into_iter().filter(|line| gives_reason(line) && self.is_needed(line)).collect();
            return self.write_newest(Section::Decisions, lines, self.at_least(SIDE_SHARE, DECISION_TOKENS_MIN));
        }
        // A model's decisions come first in the list, so the list is filled from its front.
        let mut kept = self.newest_fitting(lines.into_iter().rev().collect(), WRITTEN_SHARE);
        kept.reverse();
        self.write_bullets(Section::Decisions, &kept);
    }

    fn write_outcomes(&mut self) {
        let lines = self.items.tool_outcomes.iter().map(|outcome| {
            let fields: Vec<String> = outcome.key_fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let ending = outcome.outcome.map(|ending| format!("{ending}, ")).unwrap_or_default();
            format!("{}: {ending}{}", outcome.tool, fields.join(", "))
        });
        let lines: Vec<String> = lines.filter(|line| !self.is_in_prompt(line) && self.is_needed(line)).collect();
        self.write_bullets(Section::Outcomes, &lines);
    }

    fn write_hidden(&mut self) {
        let lines: Vec<String> =
            self.items.hidden.iter().map(|quote| format!("m{}: {}", quote.place + 1, quote.text)).collect();
        self.write_newest(Section::Hidden, lines, SIDE_SHARE);
    }

    fn write_digest(&mut self) {
        if self.form != SummaryForm::Digest {
            return;
        }
        let lines = digest_lines(self.items);
        // The newest work goes in first.
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(|at| Reverse(last_number(&lines[*at])));
        let mut room = self.share(DIGEST_SHARE);
        let mut fits = vec![false; lines.len()];
        for at in order {
            let cost = self.count(&lines[at]) + Tokens::new(1);
            if cost > room {
                break;
            }
            room -= cost;
            fits[at] = true;
        }
        let kept: Vec<String> = lines.into_iter().zip(fits).filter(|(_, fits)| *fits).map(|(line, _)| line).collect();
        if !kept.is_empty() && self.open_section(Section::Digest) {
            for line in kept {
                let _ = writeln!(self.out, "{line}");
            }
        }
    }

    /// Writes what was done: the files that were changed and what for, finished tasks, and what the agent told at the end of turns.
    /// The newest go in first; of the older conclusions, some of every part of the thread.
    fn write_completed(&mut self) {
        let share = self.at_least(COMPLETED_TABLE_SHARE, COMPLETED_TABLE_TOKENS_MIN);
        let table = self.newest_fitting(file_lines(self.items, &self.root), share);
        let done = self.items.current_plan.iter().filter(|item| item.is_done());
        let done = done.map(|item| format!("[x] {}", item.text)).collect();
        let done = self.newest_fitting(done, COMPLETED_TASKS_SHARE);
        let conclusions = self.items.conclusions.iter().filter(|told| !self.is_in_prompt(&told.text)).map(|told| {
            let mut words = SaidWords::routine(told.place, told.text.clone());
            words.tokens = self.words_tokens(&words);
            words
        });
        let mut conclusions: Vec<SaidWords> = conclusions.collect();
        let room = self.share(COMPLETED_CONCLUSIONS_SHARE);
        if conclusions.iter().map(|words| words.tokens).sum::<Tokens>() > room {
            thin_out(&mut conclusions, room, room);
        }
        if table.is_empty() && done.is_empty() && conclusions.is_empty() || !self.open_section(Section::Digest) {
            return;
        }
        if !table.is_empty() {
            if !self.root.is_empty() {
                let _ = writeln!(self.out, "{PATHS_BELOW}{})", self.root);
            }
            let _ = writeln!(self.out, "{TABLE_HEAD}\n{}", table.join("\n"));
        }
        let conclusions = conclusions.iter().map(|words| format!("{}{}", words.label.render(), words.text));
        for line in done.into_iter().chain(conclusions) {
            let _ = writeln!(self.out, "- {line}");
        }
    }

    /// Writes lines of the whole past, as many as the rest of the limit holds.
    fn write_excerpts(&mut self, passages: &mut Passages<'_>) {
        let pending = self.pending;
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.contains(&Section::Files)) {
            return;
        }
        if let Some(subject) = &self.subject {
            subject.keep_about(passages);
        }
        let closing =
            closing(self.form, self.items.rounds).map_or(Tokens::ZERO, |line| self.count(&line) + Tokens::new(1));
        let room = self.left() - closing;
        if room < SECTION_TOKENS_MIN {
            return;
        }
        passages.keep_newest(READ_BYTES_MAX);
        // The user's words are told already, unless there was no room for them; so may be the agent's.
        let is_told = |passage: &Passage<'_>| {
            let is_speech = matches!(passages.sources[passage.source].kind, SourceKind::Request | SourceKind::Note);
            is_speech && self.is_in_prompt(passage.text.trim())
        };
        let is_kept = passages.passages.iter().map(|passage| self.is_whole(passage.message) || is_told(passage));
        let is_kept: Vec<bool> = is_kept.collect();
        let mut covered: Vec<&str> = pending.order.kept_texts.iter().map(String::as_str).collect();
        covered.push(&self.out);
        let count = |text: &str| pending.meter.text(text).get() as usize;
        let limit = room.scaled(OVERSELECTION).get() as usize;
        let picks = select(passages, &is_kept, &covered, &pending.order.focus, limit, &count);
        let spoken_until = pending.order.span.range().end;
        let text = self.largest_fit(passages, &picks, self.limit - closing, spoken_until);
        self.out.push_str(&text);
    }

    /// Renders as many picks, best first, as the limit holds.
    fn largest_fit<'t>(&self, passages: &Passages<'t>, picks: &[Pick<'t>], limit: Tokens, spoken: usize) -> String {
        let told_root = format!("{PATHS_BELOW}{})", passages.root);
        let told_root = self.out.contains(&told_root);
        let written = |most: usize| render_excerpts(passages, &picks[..most], self.form, told_root, spoken);
        let cost = |most: usize| self.recount(&format!("{}{}", self.out, written(most)));
        written(longest(picks.len(), limit, |most, _| cost(most)))
    }

    /// Tells whether all words of a message are in the prompt already.
    fn is_whole(&self, place: usize) -> bool {
        let message = self.pending.thread.message(place);
        let quoted = !message.is_summary() && self.quoted_whole.contains(&message.log_place());
        quoted || self.pending.order.kept_whole.contains(&place)
    }
}

/// Returns the most that each of some lengths may have, so that all fit into the room: what a short one leaves is the others'.
fn even_share(mut lengths: Vec<usize>, mut room: usize) -> usize {
    lengths.sort_unstable();
    for (at, length) in lengths.iter().enumerate() {
        let share = room / (lengths.len() - at);
        if *length > share {
            return share;
        }
        room -= length;
    }
    usize::MAX
}

fn is_question(asked: &str) -> bool {
    asked.ends_with(['?', '？', '؟'])
}

/// Tells whether the message of a number is loaded, before a place.
fn is_own_number(thread: &Thread, end: usize, number: usize) -> bool {
    thread.messages()[..end].iter().any(|message| message.number() == number && !message.is_summary())
}

/// Returns the words of a line of the plan: `[ ] port it (pending)`.
fn task_words(line: &str) -> &str {
    let words = line.get(4..).unwrap_or(line);
    words.rsplit_once(" (").map_or(words, |(words, _)| words)
}

fn open_line(item: &OpenItem) -> String {
    match item.context.trim() {
        "" => item.description.clone(),
        context => format!("{} ({context})", item.description),
    }
}
