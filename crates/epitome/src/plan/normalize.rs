//! Normalization: a message has one action.
//!
//! Drop wins over externalize, externalize over summarize, summarize over clear; what loses is told in a warning.

use std::collections::HashMap;

use super::record::{PartPlace, Record};

/// Resolves conflicts by precedence. The result is in thread order, and normalizing it again changes nothing.
pub fn normalize(records: Vec<Record>) -> (Vec<Record>, Vec<String>) {
    let mut by_strength = records;
    by_strength
        .sort_by_key(|record| (std::cmp::Reverse(record.action.precedence()), record.span.range().start, record.part));
    let mut claims = Claims::default();
    let mut warnings = Vec::new();
    for record in by_strength {
        match claims.winner_over(&record) {
            Some(winner) if *winner == record => {}
            Some(winner) => warnings.push(warning(winner, &record)),
            None => claims.add(record),
        }
    }
    let mut kept = claims.records;
    kept.sort_by_key(|record| (record.span.range().start, record.part));
    (kept, warnings)
}

/// Who has which message, and which part.
#[derive(Default)]
struct Claims {
    records: Vec<Record>,
    spans: HashMap<usize, usize>,
    parts: HashMap<PartPlace, usize>,
    touched: HashMap<usize, usize>,
}

impl Claims {
    fn winner_over(&self, record: &Record) -> Option<&Record> {
        let at = match record.part {
            Some(part) => self.parts.get(&part).or_else(|| self.spans.get(&part.place)),
            None => record.places().find_map(|place| self.spans.get(&place).or_else(|| self.touched.get(&place))),
        };
        at.map(|at| &self.records[*at])
    }

    fn add(&mut self, record: Record) {
        let at = self.records.len();
        match record.part {
            Some(part) => {
                self.parts.insert(part, at);
                self.touched.insert(part.place, at);
            }
            None => self.spans.extend(record.places().map(|place| (place, at))),
        }
        self.records.push(record);
    }
}

fn warning(winner: &Record, loser: &Record) -> String {
    let place = loser.part.map_or(loser.span.range().start, |part| part.place);
    let (winner, loser) = (winner.action.name(), loser.action.name());
    format!("message {} is in both {winner} and {loser}; {winner} takes precedence", place + 1)
}
