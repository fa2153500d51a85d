//! A draft: a plan that may still need its summary. Whoever has a model answers the request; without one the embedded
//! summarizer does.

use std::collections::HashMap;

use super::compaction::{Compaction, Plan, Shortfall, Step};
use super::decide::Ask;
use super::record::Action;
use super::tail::{OPEN_MEDIA, open_media_tokens};
use crate::budget::{Meter, Tokens};
use crate::policy::{Policy, Rung};
use crate::render::{Piece, Prompt, render, said_in};
use crate::summary::{
    Brief, Dialogue, Earlier, Limits, Pending, Receipt, Said, State, StructuredSummary, Summary, extract, merge,
    summarize,
};
use crate::thread::{Media, Part, Raw, Thread};
use crate::wire::decode_message;

/// How often a summary gives way to what was not foreseen.
const GIVE_WAY_MAX: usize = 2;

/// How a model is asked for a summary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Questions<'a> {
    /// The model that is asked.
    pub model: &'a str,
    /// The most characters of a transcript in one question, where the policy allows more than the model takes.
    pub chunk_chars_max: Option<usize>,
    /// The workstream state, where one is kept.
    pub state: Option<&'a State>,
    /// Whether the question goes to the end of the agent's own request.
    pub appended: bool,
}

/// A plan without its summary.
pub struct Draft<'a> {
    thread: &'a Thread,
    policy: &'a Policy,
    meter: Meter<'a>,
    plan: Plan,
    pending: Option<Pending<'a>>,
    earlier: Vec<Summary>,
    /// Whether the plan has a summary of its own.
    summarizes: bool,
    pins: Vec<String>,
    instructions: Option<String>,
}

impl std::fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        thread: &'a Thread,
        policy: &'a Policy,
        meter: Meter<'a>,
        ask: &Ask<'a>,
        plan: Plan,
        pending: Option<Pending<'a>>,
    ) -> Self {
        let earlier = ask.previous.map(|previous| previous.summaries.clone()).unwrap_or_default();
        let pins = policy.protect.pins.iter().chain(&ask.pins).cloned().collect();
        let summarizes = pending.is_some();
        let instructions = ask.instructions.clone();
        Draft { thread, policy, meter, plan, pending, earlier, summarizes, pins, instructions }
    }

    /// The plan so far; a summary is counted at its limit.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The summary that is needed, if one is.
    pub fn pending(&self) -> Option<&Pending<'a>> {
        self.pending.as_ref()
    }

    /// The request for a model's summary, as a dialogue that the caller drives: `None` when no summary is needed.
    pub fn dialogue(&self, model: &str) -> Option<Dialogue> {
        self.dialogue_with(&Questions { model, ..Questions::default() })
    }

    /// The same, asked as the caller wants it.
    pub fn dialogue_with(&self, questions: &Questions<'_>) -> Option<Dialogue> {
        let pending = self.pending.as_ref()?;
        let (policy, label) = (self.policy, self.policy.label());
        let earlier = self.earlier.first().map(|summary| &summary.written);
        let shows = |tool: &str| policy.tools.is_summarized(tool);
        let instructions = match &self.instructions {
            Some(words) => format!("{}{words}", policy.summarize.focus),
            None => String::new(),
        };
        let mut brief = Brief::new(self.thread, &pending.span, &label, questions.model);
        brief.earlier = earlier.filter(|written| !written.is_empty()).map(Earlier::Summary);
        brief.state = questions.state;
        brief.instructions = &instructions;
        brief.tools = &policy.tools;
        brief.shows = &shows;
        brief.limits = Limits {
            output: pending.limit,
            part_chars_max: policy.summarize.part_chars_max,
            chunk_chars_max: questions
                .chunk_chars_max
                .map_or(policy.summarize.chunk_chars_max, |most| most.min(policy.summarize.chunk_chars_max)),
            rollup: policy.summarize.rollup,
        };
        Some(match questions.appended {
            true => Dialogue::appended(&brief),
            false => Dialogue::new(&brief),
        })
    }

    /// The tokens before the first thing that changes.
    pub fn unchanged(&self) -> Tokens {
        let first = self.plan.records.iter().map(|record| record.span.range().start).min();
        first.map_or(self.plan.after, |first| self.thread.tokens(0..first))
    }

    /// Carries the plan out with the embedded summarizer.
    pub fn finish(self) -> Compaction {
        self.finish_with(None)
    }

    /// Carries the plan out with what a model answered, if it did.
    pub fn finish_with(mut self, model: Option<StructuredSummary>) -> Compaction {
        let Some(mut pending) = self.pending.take() else {
            let earlier = std::mem::take(&mut self.earlier);
            return self.carried_out(earlier);
        };
        pending.pins = self.pins.clone();
        // Above the trigger it would act again at once.
        let most = self.plan.room.trigger.min(self.plan.room.limit);
        let fits = self.plan.after <= most;
        let mut compaction = self.carried_out(vec![summarize(&pending, model.clone())]);
        for _ in 0..GIVE_WAY_MAX {
            // What a provider needs around the messages was not foreseen: the summary gives way.
            let over = compaction.plan.after - most;
            if !fits || over == Tokens::ZERO {
                break;
            }
            pending.limit = pending.limit.min(compaction.summaries[0].tokens) - over;
            let again = self.carried_out(vec![summarize(&pending, model.clone())]);
            if again.plan.after >= compaction.plan.after {
                break;
            }
            compaction = again;
        }
        compaction
    }

    /// The compaction with these summaries: rendered once, to count it and to see what is in it.
    fn carried_out(&self, summaries: Vec<Summary>) -> Compaction {
        let items = self.items(&summaries);
        let mut compaction = Compaction { plan: self.plan.clone(), summaries, receipt: Receipt::default() };
        let mut prompt = self.render(&compaction);
        let mut said = said_in(&prompt, self.thread);
        let stands = Said::in_texts([said.as_str()]);
        let must_stay = items.pins.iter().chain(items.constraints.iter().map(|quote| &quote.text));
        let missing: Vec<String> = must_stay.filter(|text| !stands.contains(text)).cloned().collect();
        if !missing.is_empty() {
            compaction.plan.carried = missing;
            prompt = self.render(&compaction);
            said = said_in(&prompt, self.thread);
        }
        let layout = &self.policy.render;
        let known = compaction
            .summaries
            .first()
            .filter(|_| self.summarizes)
            .map(|summary| (layout.dressed(&summary.text), summary.tokens));
        let known = known.as_ref().map(|(text, tokens)| (text.as_str(), *tokens));
        let tokens = prompt.tokens_knowing(self.thread, self.meter, known);
        self.settle(&mut compaction, tokens);
        let mut receipt = Receipt::of(&items, &said);
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

    fn render(&self, compaction: &Compaction) -> Prompt {
        render(self.thread, Some(compaction), self.policy, self.meter.dialect(), self.meter, &[])
    }

    /// Every item that the receipt is to account for.
    fn items(&self, summaries: &[Summary]) -> StructuredSummary {
        let mut items = match (summaries.first(), self.summarizes) {
            (Some(summary), true) => return summary.items.clone(),
            _ => extract(self.thread, 0..self.thread.len(), &self.policy.tools),
        };
        if let Some(earlier) = summaries.first() {
            merge(&mut items, &earlier.items);
        }
        items.pins = self.pins.clone();
        items
    }

    /// Puts true sizes in the place of planned ones.
    fn settle(&self, compaction: &mut Compaction, tokens: Tokens) {
        let plan = &mut compaction.plan;
        let question = match self.policy.render.question.is_empty() {
            true => Tokens::ZERO,
            false => self.meter.text_message(&self.policy.render.question),
        };
        if let Some(summary) = compaction.summaries.first() {
            for record in plan.records.iter_mut().filter(|record| matches!(record.action, Action::Summarize { .. })) {
                record.after = summary.tokens + question;
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
    for piece in &prompt.pieces {
        match piece {
            Piece::Kept(place) => shown.insert(*place, Shown::Whole),
            Piece::Edited { place, json } => {
                let message = decode_message(prompt.dialect, &Raw::whole(json.as_str()));
                let media = message.parts.iter().flat_map(Part::media);
                shown.insert(*place, Shown::Edited(media.map(|media| media.json.to_string()).collect()))
            }
            Piece::Written { .. } => None,
        };
    }
    shown
}

/// Makes the steps add up to what became of the prompt: what it takes less than planned is the summary's doing, what it
/// takes more is taken back from the last steps.
fn settle_steps(steps: &mut [Step], before: Tokens, after: Tokens) {
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
