//! A draft: a plan that may still need its summary, from a model or from the embedded summarizer.

use std::collections::HashMap;

use super::Planner;
use super::tail::{OPEN_MEDIA, open_media_tokens};
use crate::budget::Tokens;
use crate::plan::{Action, Compaction, Plan, RungStep, Shortfall};
use crate::policy::Rung;
use crate::render::{Prompt, said_in};
use crate::summary::{
    Dialogue, PendingSummary, Receipt, RequestLimits, StructuredSummary, Summary, SummaryBrief, SummaryContext,
    carried_items, extract, merge, summarize,
};
use crate::thread::{Media, Part, Raw, Span, Thread};
use crate::wire::{PromptMessage, decode_message};

/// The most rounds in which a summary shrinks because its prompt came out larger than planned.
const SHRINK_ROUNDS_MAX: usize = 2;
/// The tokens of an answer, as a multiple of the summary's: JSON takes more than text, and a cut answer is no answer.
const ANSWER_ROOM: f64 = 1.25;

/// How a model is asked for a summary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Questions<'a> {
    /// The model that is asked.
    pub model: &'a str,
    /// The most characters of a transcript in one question, where the policy allows more than the model takes.
    pub chunk_chars_max: Option<usize>,
    /// Whether the question goes to the end of the agent's own request.
    pub appended: bool,
}

/// A plan that may still lack its summary.
///
/// [`Planner::decide`] makes it; [`Planner::finish`] consumes it. In between it waits: for nobody where `pending` is `None`, and
/// for a model's answer otherwise, which may never come. It borrows nothing, so the thread may grow meanwhile; a planner of the
/// same thread, policy and options finishes it. Under other options the receipt would look for the wrong pins, and under another
/// policy the summary would be counted in another frame than it is rendered in.
///
/// Until it is finished, the plan's `after` counts the summary at its limit: the true size is known only once it is rendered.
#[derive(Clone, Debug)]
pub struct Draft {
    plan: Plan,
    pending: Option<PendingSummary>,
}

impl Draft {
    pub(super) fn new(plan: Plan, pending: Option<PendingSummary>) -> Self {
        Draft { plan, pending }
    }

    /// Returns the plan so far; a summary is counted at its limit.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the summary that is needed, if one is.
    pub fn pending(&self) -> Option<&PendingSummary> {
        self.pending.as_ref()
    }

    /// Returns the tokens of a thread before the first thing that changes.
    pub fn unchanged(&self, thread: &Thread) -> Tokens {
        let first = self.plan.records.iter().map(|record| record.span.range().start).min();
        first.map_or(self.plan.after, |first| thread.tokens(0..first))
    }
}

impl Planner<'_> {
    /// Returns the request for a model's summary of a draft, as a dialogue that the caller drives; `None` when the draft
    /// needs no summary.
    pub fn dialogue(&self, draft: &Draft, questions: &Questions<'_>) -> Option<Dialogue> {
        let pending = draft.pending.as_ref()?;
        let (policy, label, rules) = (self.policy, self.policy.label(), &self.policy.summarize);
        let context = SummaryContext { thread: self.thread, policy, meter: self.meter, order: pending };
        let carried = carried_items(&context);
        let shows = |tool: &str| policy.tools.is_summarized(tool);
        let instructions = match &self.options.instructions {
            Some(words) => format!("{}{words}", rules.focus),
            None => String::new(),
        };
        let prefix = pending.splits_turn.then(|| self.turn_prefix(&pending.span)).flatten();
        let output = if rules.answer_max > Tokens::ZERO { rules.answer_max } else { pending.limit.scaled(ANSWER_ROOM) };
        let chunk_chars_max = questions.chunk_chars_max.unwrap_or(rules.chunk_chars_max).min(rules.chunk_chars_max);
        let brief = SummaryBrief {
            turn_prefix: prefix.as_ref(),
            earlier: Some(&pending.written).filter(|written| !written.is_empty()),
            state: carried.workstream.as_ref(),
            carried: Some(&carried),
            instructions: &instructions,
            is_handoff: pending.hands_over,
            tools: &policy.tools,
            shows: &shows,
            limits: RequestLimits {
                output,
                words_max: RequestLimits::words_of(pending.limit),
                part_chars_max: rules.part_chars_max,
                chunk_chars_max,
                rollup: rules.rollup,
            },
            temperature: rules.temperature,
            ..SummaryBrief::new(self.thread, &pending.span, &label, questions.model)
        };
        Some(if questions.appended { Dialogue::appended(&brief) } else { Dialogue::new(&brief) })
    }

    /// Returns the end of a span that belongs to the turn which it parts.
    fn turn_prefix(&self, span: &Span) -> Option<Span> {
        let turn = self.thread.message(span.range().end - 1).turn();
        let first = span.range().find(|place| self.thread.message(*place).turn() == turn)?;
        self.thread.span(first..span.range().end)
    }

    /// Carries a draft out with what a model wrote for it; without that, the embedded summarizer writes.
    pub fn finish(&self, draft: Draft, written: Option<StructuredSummary>) -> Compaction {
        let Draft { plan, pending } = draft;
        let Some(mut order) = pending else {
            return self.carry_out(&plan, self.earlier().to_vec(), false);
        };
        order.pins = self.pins();
        let summarized = |order: &PendingSummary| {
            let pending = SummaryContext { thread: self.thread, policy: self.policy, meter: self.meter, order };
            vec![summarize(&pending, written.clone())]
        };
        // Above the trigger it would act again at once.
        let most = plan.room.trigger.min(plan.room.limit);
        let fits = plan.after <= most;
        let mut compaction = self.carry_out(&plan, summarized(&order), true);
        for _ in 0..SHRINK_ROUNDS_MAX {
            // A provider may need more around the messages than was foreseen: the summary shrinks by that.
            let over = compaction.plan.after - most;
            if !fits || over == Tokens::ZERO {
                break;
            }
            order.limit = order.limit.min(compaction.summaries[0].tokens) - over;
            let again = self.carry_out(&plan, summarized(&order), true);
            if again.plan.after >= compaction.plan.after {
                break;
            }
            compaction = again;
        }
        let warning = compaction.round_warning();
        compaction.plan.warnings.extend(warning);
        compaction
    }

    /// Returns the summaries of the compaction that the thread is under.
    fn earlier(&self) -> &[Summary] {
        self.options.previous.as_ref().map_or(&[][..], |previous| &previous.summaries)
    }

    /// Returns the tokens of the question that the policy puts before a summary.
    pub(super) fn question_tokens(&self) -> Tokens {
        let question = &self.policy.render.question;
        if question.is_empty() { Tokens::ZERO } else { self.meter.text_message(question) }
    }

    /// Returns the words that every later prompt must hold: the policy's and the caller's.
    fn pins(&self) -> Vec<String> {
        self.policy.protect.pins.iter().chain(&self.options.pins).cloned().collect()
    }

    /// Returns the compaction with these summaries: rendered once, to count it and to see what is in it. `is_new` tells a
    /// summary that this plan made from one that it carries on.
    fn carry_out(&self, plan: &Plan, summaries: Vec<Summary>, is_new: bool) -> Compaction {
        let items = self.items(&summaries, is_new);
        let mut compaction = Compaction { plan: plan.clone(), summaries, receipt: Receipt::default() };
        let mut prompt = self.render(Some(&compaction), &[]);
        let mut said = said_in(&prompt, self.thread);
        let missing = said.missing(&items);
        if !missing.is_empty() {
            compaction.plan.carried = missing;
            prompt = self.render(Some(&compaction), &[]);
            said = said_in(&prompt, self.thread);
        }
        let layout = &self.policy.render;
        let known =
            compaction.summaries.first().filter(|_| is_new).map(|summary| (layout.wrap(&summary.text), summary.tokens));
        let known = known.as_ref().map(|(text, tokens)| (text.as_str(), *tokens));
        let tokens = prompt.tokens_knowing(self.thread, self.meter, known);
        self.settle(&mut compaction, tokens);
        let mut receipt = Receipt::new(&items, &said);
        let shown = media_in(&prompt);
        let is_shown = |place: usize, media: &Media| match shown.get(&place) {
            Some(Shown::Whole) => true,
            Some(Shown::Edited(parts)) => parts.iter().any(|part| part == media.json.as_str()),
            None => false,
        };
        receipt.add_media(self.thread, &is_shown, &items.media);
        compaction.receipt = Receipt { repaired: compaction.plan.carried.len(), ..receipt };
        compaction
    }

    /// Returns every item that the receipt is to account for.
    fn items(&self, summaries: &[Summary], is_new: bool) -> StructuredSummary {
        let mut items = match (summaries.first(), is_new) {
            (Some(summary), true) => return summary.items.clone(),
            _ => extract(self.thread, 0..self.thread.len(), &self.policy.tools),
        };
        if let Some(earlier) = summaries.first() {
            merge(&mut items, &earlier.items);
        }
        items.pins = self.pins();
        items
    }

    /// Puts true sizes in the place of planned ones.
    fn settle(&self, compaction: &mut Compaction, tokens: Tokens) {
        let plan = &mut compaction.plan;
        if let Some(summary) = compaction.summaries.first() {
            for record in plan.records.iter_mut().filter(|record| matches!(record.action, Action::Summarize { .. })) {
                record.after = summary.tokens + self.question_tokens();
            }
        }
        settle_steps(&mut plan.steps, plan.before, tokens);
        plan.after = tokens;
        let over = tokens - plan.room.limit;
        let summary = compaction.summaries.first().map_or(Tokens::ZERO, |summary| summary.tokens);
        let media = open_media_tokens(self.thread, self.meter);
        let named = [
            ("a summary that holds what must stay", summary),
            (OPEN_MEDIA, media),
            ("everything else", tokens - summary - media),
        ];
        let parts = named.into_iter().filter(|(_, tokens)| *tokens > Tokens::ZERO);
        let parts = parts.map(|(name, tokens)| (name.to_owned(), tokens)).collect();
        plan.shortfall = (over > Tokens::ZERO).then_some(Shortfall { over, floor: tokens, parts });
    }
}

/// What a prompt has of a message.
enum Shown {
    /// All of it.
    Whole,
    /// These media, as JSON, beside what was changed.
    Edited(Vec<String>),
}

/// What a prompt has of each message, as far as its media go.
fn media_in(prompt: &Prompt) -> HashMap<usize, Shown> {
    let mut shown = HashMap::new();
    for message in &prompt.messages {
        match message {
            PromptMessage::Kept(place) => shown.insert(*place, Shown::Whole),
            PromptMessage::Edited { place, json } => {
                let edited = decode_message(prompt.dialect, &Raw::whole(json.as_str()));
                let media = edited.parts.iter().flat_map(Part::media);
                shown.insert(*place, Shown::Edited(media.map(|media| media.json.to_string()).collect()))
            }
            PromptMessage::Written { .. } => None,
        };
    }
    shown
}

/// Makes the steps add up to what became of the prompt: what it takes less than planned is the summary's doing, what it
/// takes more is taken back from the last steps.
fn settle_steps(steps: &mut [RungStep], before: Tokens, after: Tokens) {
    let (planned, freed) = (steps.iter().map(|step| step.freed).sum::<Tokens>(), before - after);
    let summarized = steps.iter().position(|step| step.rung == Some(Rung::Summarize) && step.touched > 0);
    if let Some(at) = summarized.or(steps.len().checked_sub(1)) {
        steps[at].freed += freed - planned;
    }
    let mut excess = planned - freed;
    for step in steps.iter_mut().rev() {
        let cut = step.freed.min(excess);
        step.freed -= cut;
        excess -= cut;
    }
    let mut left = before;
    for step in steps {
        left -= step.freed;
        step.after = left;
    }
}
