//! A draft: a plan that may still need its summary. Whoever has a model answers the request; without one the embedded
//! summariser does.

use super::compaction::{Compaction, Plan, Shortfall};
use super::decide::Ask;
use super::record::Action;
use crate::budget::{Meter, Tokens};
use crate::policy::Policy;
use crate::render::prompt_words;
use crate::summary::{
    Brief, Dialogue, Earlier, Limits, Pending, Receipt, StructuredSummary, Summary, extract, summarise,
};
use crate::thread::Thread;

/// A plan without its summary.
pub struct Draft<'a> {
    thread: &'a Thread,
    policy: &'a Policy,
    meter: Meter<'a>,
    plan: Plan,
    pending: Option<Pending<'a>>,
    earlier: Vec<Summary>,
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
        Draft { thread, policy, meter, plan, pending, earlier, pins, instructions: ask.instructions.clone() }
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
        let pending = self.pending.as_ref()?;
        let (policy, label) = (self.policy, self.policy.label());
        let earlier = self.earlier.first().map(|summary| &summary.written);
        let shows = |tool: &str| policy.tools.is_summarised(tool);
        let instructions = match &self.instructions {
            Some(words) => format!("{}{words}", policy.summarise.focus),
            None => String::new(),
        };
        let mut brief = Brief::new(self.thread, &pending.span, &label, model);
        brief.earlier = earlier.filter(|written| !written.is_empty()).map(Earlier::Summary);
        brief.instructions = &instructions;
        brief.shows = &shows;
        brief.limits = Limits {
            output: pending.limit,
            part_chars_max: policy.summarise.part_chars_max,
            chunk_chars_max: policy.summarise.chunk_chars_max,
            rollup: policy.summarise.rollup,
        };
        Some(Dialogue::new(&brief))
    }

    /// The tokens before the first thing that changes.
    pub fn unchanged(&self) -> Tokens {
        let first = self.plan.records.iter().map(|record| record.span.range().start).min();
        first.map_or(self.plan.after, |first| self.thread.tokens(0..first))
    }

    /// Carries the plan out with the embedded summariser.
    pub fn finish(self) -> Compaction {
        self.finish_with(None)
    }

    /// Carries the plan out with what a model answered, if it did.
    pub fn finish_with(mut self, model: Option<StructuredSummary>) -> Compaction {
        let summaries = match self.pending.take() {
            Some(mut pending) => {
                pending.pins = self.pins.clone();
                let summary = summarise(&pending, model);
                self.settle(&summary);
                vec![summary]
            }
            None => std::mem::take(&mut self.earlier),
        };
        let items = match summaries.first() {
            Some(summary) => summary.items.clone(),
            None => {
                let mut items = extract(self.thread, 0..self.thread.len(), &self.policy.tools);
                items.pins = self.pins.clone();
                items
            }
        };
        let mut compaction = Compaction { plan: self.plan, summaries, receipt: Receipt::default() };
        let prompt = prompt_words(self.thread, &compaction, self.policy, self.meter);
        compaction.receipt = Receipt::of(&items, &prompt, self.thread.len());
        compaction
    }

    /// Puts the summary's true size in the place of its limit.
    fn settle(&mut self, summary: &Summary) {
        let plan = &mut self.plan;
        let question = match self.policy.render.question.is_empty() {
            true => Tokens::ZERO,
            false => self.meter.text_message(&self.policy.render.question),
        };
        for record in &mut plan.records {
            if matches!(record.action, Action::Summarise { .. }) {
                let actual = summary.tokens + question;
                plan.after = plan.after - record.after + actual;
                record.after = actual;
            }
        }
        let over = plan.after - plan.room.limit;
        plan.shortfall = match (over, plan.shortfall.take()) {
            (Tokens::ZERO, _) => None,
            (over, Some(known)) => Some(Shortfall { over, floor: plan.after, ..known }),
            (over, None) => {
                let parts = vec![("a summary that holds what must stay".to_owned(), summary.tokens)];
                Some(Shortfall { over, floor: plan.after, parts })
            }
        };
    }
}
