//! What reported usage teaches about our counts: one factor for each model.
//!
//! Plain data that can be stored and sent. It refuses to learn from usage that is absent, zero, or so far off that
//! something other than a tokenizer explains it (a server that silently truncated, a cache that was not reported).

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::tokens::Tokens;

/// How much a new observation weighs against all earlier ones.
const NEWEST_WEIGHT: f64 = 0.2;

/// What a factor is kept within.
const FACTORS: RangeInclusive<f64> = 0.5..=2.0;

/// Ratios that a tokenizer can explain; others are ignored.
const BELIEVABLE: RangeInclusive<f64> = 0.25..=4.0;

/// What our counts for one model are to be multiplied by to be its provider's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CountFactor(f64);

impl CountFactor {
    /// The factor after one more request: what we counted for it, and what the provider reported for it. Usage that
    /// teaches nothing leaves the factor as it was.
    pub fn learn(before: Option<CountFactor>, counted: Tokens, reported: Option<Tokens>) -> Option<CountFactor> {
        let Some(reported) = reported else { return before };
        let ratio = reported.get() as f64 / counted.get() as f64;
        if !BELIEVABLE.contains(&ratio) {
            return before;
        }
        let learned = match before {
            Some(CountFactor(factor)) => factor + NEWEST_WEIGHT * (ratio - factor),
            None => ratio,
        };
        Some(CountFactor(learned.clamp(*FACTORS.start(), *FACTORS.end())))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(observations: &[(u64, Option<u64>)]) -> Option<f64> {
        let learn = |factor, &(counted, reported): &(u64, Option<u64>)| {
            CountFactor::learn(factor, Tokens::new(counted), reported.map(Tokens::new))
        };
        observations.iter().fold(None, learn).map(|factor| (factor.get() * 1e6).round() / 1e6)
    }

    #[test]
    fn the_first_usage_is_believed_and_later_ones_weigh_a_fifth() {
        for (observations, factor) in [
            (&[(1_000, Some(1_200))][..], 1.2),
            (&[(1_000, Some(1_200)), (1_000, Some(1_200))], 1.2),
            (&[(1_000, Some(1_200)), (1_000, Some(1_700))], 1.3),
            (&[(1_000, Some(3_900))], 2.0),
            (&[(1_000, Some(300))], 0.5),
        ] {
            assert_eq!(after(observations), Some(factor), "{observations:?}");
        }
    }

    #[test]
    fn usage_that_is_absent_or_absurd_teaches_nothing() {
        for observation in [
            (1_000, None),
            (1_000, Some(0)),
            (0, Some(1_000)),
            (0, Some(0)),
            (1_000, Some(9_000)),
            (50_000, Some(4_096)),
        ] {
            assert_eq!(after(&[observation]), None, "{observation:?}");
            assert_eq!(after(&[(1_000, Some(1_500)), observation]), Some(1.5), "{observation:?}");
        }
    }
}
