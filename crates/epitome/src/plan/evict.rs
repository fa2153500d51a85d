//! Eviction: a compaction and its thread without the messages that a summary stands for.
//!
//! What is rendered stays the same, byte for byte; what can be planned next stays the same but for the words that the
//! next summary can quote from. Nothing is forgotten: the log keeps every message.

use std::ops::Range;

use super::compaction::Compaction;
use super::record::{Action, PartPlace, Record};
use crate::thread::{MessageId, Thread};

impl Compaction {
    /// The thread and the compaction with the summarized messages left unloaded; `None` when there are none to leave.
    pub fn evict(&self, thread: &Thread) -> Option<(Thread, Compaction)> {
        let (record, summary, kept) = self.plan.records.iter().find_map(|record| match &record.action {
            Action::Summarize { summary, kept } if record.part.is_none() => Some((record, *summary, kept)),
            _ => None,
        })?;
        let run = record.span.range();
        let stayed = stayed(thread, run.clone(), kept);
        if stayed.iter().filter(|stays| !**stays).count() < 2 {
            return None;
        }
        let text = &self.summaries.get(summary)?.text;
        let small = thread.evict(run.clone(), &|place| stayed[place - run.start], text)?;
        let shift = Shift { from: run.start, stayed };
        let mut compaction = self.clone();
        let plan = &mut compaction.plan;
        plan.covers = shift.moved(plan.covers);
        plan.tail_from = shift.moved(plan.tail_from);
        plan.reasoning_from = shift.moved(plan.reasoning_from);
        plan.records = plan.records.iter().map(|old| shift.record(old, &small)).collect::<Option<_>>()?;
        Some((small, compaction))
    }
}

/// Which messages of a summarized run stay loaded: those that the prompt has, with the exchanges they belong to.
fn stayed(thread: &Thread, run: Range<usize>, kept: &[MessageId]) -> Vec<bool> {
    let mut stayed = vec![false; run.len()];
    for place in run.clone().filter(|place| kept.contains(&thread.message(*place).id())) {
        for near in thread.exchange_at(place).range().filter(|near| run.contains(near)) {
            stayed[near - run.start] = true;
        }
    }
    stayed
}

/// How places move when the messages of a run are left out but for those that stay, and one entry stands for them.
struct Shift {
    from: usize,
    stayed: Vec<bool>,
}

impl Shift {
    fn moved(&self, place: usize) -> usize {
        let inside = place.saturating_sub(self.from).min(self.stayed.len());
        let gone = self.stayed[..inside].iter().filter(|stays| !**stays).count();
        if gone == 0 && inside == 0 { place } else { place - gone + 1 }
    }

    fn record(&self, old: &Record, small: &Thread) -> Option<Record> {
        let (span, part) = match (&old.action, old.part) {
            (_, Some(part)) => {
                let place = self.moved(part.place);
                (small.span(place..place + 1)?, Some(PartPlace { place, ..part }))
            }
            (Action::Summarize { .. }, None) => {
                let loaded = self.stayed.iter().filter(|stays| **stays).count();
                let messages = &small.messages()[self.from..self.from + 1 + loaded];
                (old.span.shortened(self.from, messages.iter().map(|message| message.id())), None)
            }
            (_, None) => {
                let range = old.span.range();
                (small.span(self.moved(range.start)..self.moved(range.end))?, None)
            }
        };
        Some(Record { span, part, ..old.clone() })
    }
}
