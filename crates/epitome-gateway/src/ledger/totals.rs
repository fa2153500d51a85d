//! Totals: many entries as one line.

use std::ops::AddAssign;

use epitome_runtime::model::Usage;
use serde::{Deserialize, Serialize};

use super::day::Day;
use super::entry::Entry;
use super::price::Unit;

/// Many entries as one line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Totals {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests that were sent changed.
    pub changed: u64,
    /// The number of requests that would not have fit the window.
    pub impossible: u64,
    /// The number of requests that cost more than without the gateway.
    pub dearer: u64,
    /// The number of additional calls.
    pub extra_calls: u64,
    /// The number of requests that could not be recorded and are in none of the numbers.
    pub lost: u64,
    /// The prompts as the clients sent them.
    pub tokens_original: u64,
    /// The usage of the requests, without additional calls.
    pub usage: Usage,
    /// The amounts in US dollars.
    pub usd: Sums,
    /// The amounts in input tokens, of models whose price in money is not known.
    pub input_tokens: Sums,
}

/// Amounts in one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    /// The cost.
    pub paid: f64,
    /// The cost without the gateway.
    pub without: f64,
    /// The difference; below zero when the gateway made it dearer.
    pub saved: f64,
}

/// The totals of one day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DayTotals {
    /// The day.
    pub day: Day,
    /// Its totals.
    #[serde(flatten)]
    pub totals: Totals,
}

impl Totals {
    /// Counts an entry in.
    pub fn add(&mut self, entry: &Entry) {
        let amounts = Sums { paid: entry.paid, without: entry.without, saved: entry.saved };
        let (usd, input_tokens) = match entry.unit {
            Unit::Usd => (amounts, Sums::default()),
            Unit::InputTokens => (Sums::default(), amounts),
        };
        *self += &Totals {
            requests: 1,
            changed: entry.changed.into(),
            impossible: entry.impossible.into(),
            dearer: (entry.saved < 0.0).into(),
            extra_calls: entry.extra.len() as u64,
            lost: 0,
            tokens_original: entry.tokens_original,
            usage: entry.usage,
            usd,
            input_tokens,
        };
    }
}

impl AddAssign<&Totals> for Totals {
    fn add_assign(&mut self, other: &Totals) {
        self.requests += other.requests;
        self.changed += other.changed;
        self.impossible += other.impossible;
        self.dearer += other.dearer;
        self.extra_calls += other.extra_calls;
        self.lost += other.lost;
        self.tokens_original += other.tokens_original;
        self.usage.input += other.usage.input;
        self.usage.cached += other.usage.cached;
        self.usage.written += other.usage.written;
        self.usage.output += other.usage.output;
        self.usd += other.usd;
        self.input_tokens += other.input_tokens;
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.paid += other.paid;
        self.without += other.without;
        self.saved += other.saved;
    }
}
