//! The board: the state that rungs work on while a plan is made.

use std::collections::HashSet;
use std::ops::Range;

use super::Planner;
use super::tail::ProtectedTail;
use crate::budget::Tokens;
use crate::plan::{Action, ArtifactId, PartPlace, Record, part_content};
use crate::policy::Rung;
use crate::render::{repaired_tokens, stand_in};
use crate::summary::PendingSummary;
use crate::thread::{Part, ResultForm};

/// A plan in the making: the records so far, and the size of the prompt under them.
///
/// The board starts from the records of the compaction that the thread is under, and rungs move it forward in two ways only:
/// [`replace_part`](Board::replace_part) puts a stand-in where one part was, and [`take_span`](Board::take_span) takes whole
/// exchanges out and forgets what was decided inside them:
///
/// ```text
/// place     0     1     2     3     4     5         total
///           user  call  res   user  call  res        900
/// replace   ·     ·     [~]   ·     ·     ·          650    part (2, 0): taken, 300 became 50
/// take      [------------]    ·     ·     ·          480    0..3 gone; the record of (2, 0) with them; summary of 130
/// ```
///
/// `total`, `taken` and `gone` follow from `records`: whoever changes `records` otherwise calls `index`. Were `total` off,
/// a rung would stop too early or a plan would report a size that its prompt does not have.
pub struct Board<'a> {
    /// The thread, the policy and the options. Its room may aim for less than the caller's.
    pub planner: Planner<'a>,
    /// What stays verbatim.
    pub tail: ProtectedTail,
    /// The prompt's tokens as planned so far.
    pub total: Tokens,
    /// What was decided.
    pub records: Vec<Record>,
    /// The summary to be written, if one is planned.
    pub pending: Option<PendingSummary>,
    /// What the messages up to each place cost once a provider can take them.
    totals: Vec<Tokens>,
    /// The parts that a record is about already.
    taken: HashSet<PartPlace>,
    /// The messages that left the prompt as part of a span.
    gone: Vec<bool>,
}

impl<'a> Board<'a> {
    /// A board that starts from the records of the plan that the thread is under.
    pub fn new(planner: Planner<'a>, tail: ProtectedTail) -> Self {
        let thread = planner.thread;
        let mut totals = vec![Tokens::ZERO];
        for tokens in repaired_tokens(thread, thread.turn_start(), planner.meter) {
            totals.push(totals[totals.len() - 1] + tokens);
        }
        let previous = planner.options.previous.as_ref();
        let mut board = Board {
            planner,
            tail,
            total: totals[thread.len()],
            records: previous.map(|previous| previous.plan.records.clone()).unwrap_or_default(),
            pending: None,
            totals,
            taken: HashSet::new(),
            gone: Vec::new(),
        };
        board.index();
        board.total = board.planned();
        board
    }

    fn index(&mut self) {
        self.taken = self.records.iter().filter_map(|record| record.part).collect();
        self.gone = vec![false; self.planner.thread.len()];
        for record in self.records.iter().filter(|record| record.part.is_none()) {
            for place in record.span.range() {
                let id = self.planner.thread.message(place).id();
                self.gone[place] = !matches!(&record.action, Action::Summarize { kept, .. } if kept.contains(&id));
            }
        }
    }

    /// The prompt's tokens under the records so far.
    fn planned(&self) -> Tokens {
        let mut total = self.original_tokens(0..self.planner.thread.len());
        for record in &self.records {
            total = total + record.after - if record.part.is_some() { record.before } else { self.freed_by(record) };
        }
        total
    }

    /// What the messages of a range cost when nothing leaves them.
    pub fn original_tokens(&self, range: Range<usize>) -> Tokens {
        self.totals[range.end] - self.totals[range.start]
    }

    /// What leaves the prompt with a span.
    fn freed_by(&self, record: &Record) -> Tokens {
        self.original_tokens(record.span.range()) - self.kept(record)
    }

    /// The tokens of the messages that a summary's span keeps.
    pub fn kept(&self, record: &Record) -> Tokens {
        let Action::Summarize { kept, .. } = &record.action else { return Tokens::ZERO };
        if kept.is_empty() {
            return Tokens::ZERO;
        }
        let stays = record.span.range().filter(|place| kept.contains(&self.planner.thread.message(*place).id()));
        stays.map(|place| self.original_tokens(place..place + 1)).sum()
    }

    /// The tokens of single messages that stay before the tail.
    pub fn held_tokens(&self) -> Tokens {
        let held = (0..self.tail.from).filter(|place| self.tail.holds(*place));
        held.map(|place| self.original_tokens(place..place + 1)).sum()
    }

    /// What was decided so far, to come back to.
    pub fn checkpoint(&self) -> (Vec<Record>, Tokens, ProtectedTail) {
        (self.records.clone(), self.total, self.tail.clone())
    }

    /// Comes back to what was decided before.
    pub fn roll_back(&mut self, (records, total, tail): (Vec<Record>, Tokens, ProtectedTail)) {
        (self.records, self.total, self.tail) = (records, total, tail);
        self.index();
    }

    /// Whether the target is reached.
    pub fn is_done(&self) -> bool {
        self.total <= self.planner.room.target
    }

    /// The places that rungs may touch: outside the tail, and not yet summarized or dropped.
    pub fn touchable_places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.tail.from).filter(|place| !self.is_gone(*place) && !self.tail.holds(*place))
    }

    /// Whether a message left the prompt as part of a span.
    pub fn is_gone(&self, place: usize) -> bool {
        self.gone[place]
    }

    /// Whether a part has been dealt with.
    pub fn is_taken(&self, place: usize, part: usize) -> bool {
        self.taken.contains(&PartPlace { place, part })
    }

    /// The tokens of the messages in a range as planned so far.
    pub fn tokens(&self, range: Range<usize>) -> Tokens {
        let mut tokens = self.original_tokens(range.clone());
        for record in &self.records {
            if let Some(part) = record.part
                && range.contains(&part.place)
            {
                tokens = tokens - record.before + record.after;
            }
        }
        tokens
    }

    /// Replaces one part by its stand-in, if that is smaller. Returns the tokens freed.
    pub fn replace_part(&mut self, rung: Rung, place: usize, part: usize, action: Action) -> Option<Tokens> {
        let message = self.planner.thread.message(place);
        let before = message.part_tokens(part);
        let record = Record {
            rung,
            span: self.planner.thread.span(place..place + 1)?,
            part: Some(PartPlace { place, part }),
            action,
            before,
            after: Tokens::ZERO,
        };
        // What its provider takes as one object only cannot become words.
        if matches!(&message.parts()[part], Part::ToolResult(result) if result.form == ResultForm::Fixed) {
            return None;
        }
        let words = stand_in(self.planner.thread, &record, &self.planner.policy.tools, self.planner.meter);
        let after = match &message.parts()[part] {
            Part::ToolResult(result) if record.keeps_media() => {
                self.planner.meter.text_result(&words) + self.planner.meter.media_of(result)
            }
            Part::ToolResult(_) => self.planner.meter.text_result(&words),
            _ => self.planner.meter.text(&words),
        };
        if after >= before || self.is_taken(place, part) {
            return None;
        }
        self.total = self.total - before + after;
        self.taken.insert(PartPlace { place, part });
        self.records.push(Record { after, ..record });
        Some(before - after)
    }

    /// Takes a span out of the prompt; what was decided inside it before is forgotten. Returns the tokens freed.
    pub fn take_span(&mut self, record: Record) -> Tokens {
        let range = record.span.range();
        let total_before = self.total;
        let inside: Vec<Record> = self.records.extract_if(.., |old| range.contains(&old.span.range().start)).collect();
        for old in &inside {
            if old.part.is_some() {
                self.total = self.total - old.after + old.before;
            } else {
                self.total = self.total - old.after + self.freed_by(old);
            }
        }
        self.total = self.total - self.freed_by(&record) + record.after;
        self.records.push(record);
        self.index();
        total_before - self.total
    }

    /// The artifact that a part's content would become.
    pub fn artifact(&self, place: usize, part: usize) -> Option<ArtifactId> {
        let content = part_content(self.planner.thread, place, part)?.as_bytes();
        Some(match &self.planner.options.artifact_key {
            Some(key) => ArtifactId::keyed(key, content),
            None => ArtifactId::of(content),
        })
    }
}
