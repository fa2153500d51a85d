//! When to act: the thresholds of the presets, as a policy writes them.
//!
//! A threshold is arithmetic on a window. It counts nothing and knows no model.

use serde::{Deserialize, Serialize};

use super::tokens::Tokens;

/// The most of a window that reserves take.
const RESERVE_SHARE_MAX: f64 = 0.5;

/// The count at which compaction starts.
///
/// In a policy: `{ tokens = 180000 }`, `{ remaining = 16384 }`, `{ share_of_window = 0.9 }`,
/// `{ share_of_window = 0.7, output = 32000, margin = 8000 }`,
/// `{ share_of_available = 0.8, system = 2000, output = 4000, safety = 5000 }`,
/// `{ soft = 0.85, safety = 500, rehydration = 2000 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Threshold {
    /// This many tokens, whatever the window (Codex).
    Tokens(Tokens),
    /// When less than this is left of the window (`pi`).
    Remaining(Tokens),
    /// A share of the window (`timeline`).
    ShareOfWindow(f64),
    /// A share of the window, or the window less output and margin, whichever is less (`workstream`).
    ShareWithin {
        /// The share of the window.
        share: f64,
        /// Kept for the answer.
        output: Tokens,
        /// Kept for what was counted wrong.
        margin: Tokens,
    },
    /// A share of what the reserves leave of the window (`layer`).
    ShareOfAvailable {
        /// The share of the rest.
        share: f64,
        /// Kept for the system prompt and tools.
        system: Tokens,
        /// Kept for the answer.
        output: Tokens,
        /// Kept for what was counted wrong.
        safety: Tokens,
    },
    /// A share of the window, less the reserves (`ladder`).
    Soft {
        /// The share of the window.
        share: f64,
        /// Kept for the answer and what was counted wrong.
        safety: Tokens,
        /// Kept for artifacts that are brought back.
        rehydration: Tokens,
    },
}

impl Threshold {
    /// The count at which compaction starts for a model with this window. Reserves that were chosen for a large window
    /// take no more than half of a small one: a model that is left no room at all cannot work.
    pub fn trigger_at(&self, window: Tokens) -> Tokens {
        let kept = |reserve: Tokens| reserve.min(window.share(RESERVE_SHARE_MAX));
        match *self {
            Threshold::Tokens(tokens) => tokens,
            Threshold::Remaining(reserve) => window - kept(reserve),
            Threshold::ShareOfWindow(share) => window.share(share),
            Threshold::ShareWithin { share, output, margin } => window.share(share).min(window - kept(output + margin)),
            Threshold::ShareOfAvailable { share, system, output, safety } => {
                (window - kept(system + output + safety)).share(share)
            }
            Threshold::Soft { share, safety, rehydration } => {
                let soft = window.share(share);
                soft - (safety + rehydration).min(soft.share(RESERVE_SHARE_MAX))
            }
        }
    }
}

/// The ladder's.
impl Default for Threshold {
    fn default() -> Self {
        Threshold::Soft { share: 0.85, safety: Tokens::new(500), rehydration: Tokens::new(2_000) }
    }
}

/// A threshold as it is written: flat, with most keys left out.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_window: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_available: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soft: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    margin: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rehydration: Option<Tokens>,
}

/// A threshold that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// None, or more than one, of the keys that say what kind it is.
    #[error("a threshold has exactly one of `tokens`, `remaining`, `share_of_window`, `share_of_available` and `soft`")]
    Kind,
    /// A key that belongs to another kind.
    #[error("`{key}` does not go with `{kind}`; with it go {allowed}")]
    Stray {
        /// The key that is out of place.
        key: &'static str,
        /// The kind that was written.
        kind: &'static str,
        /// What this kind takes.
        allowed: &'static str,
    },
    /// A share that is not between 0 and 1.
    #[error("a share is more than 0 and at most 1")]
    Share,
}

impl TryFrom<Written> for Threshold {
    type Error = ThresholdError;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let or = |amount: Option<Tokens>, default| amount.unwrap_or(Tokens::new(default));
        let Written { system, output, margin, safety, rehydration, .. } = written;
        match (written.tokens, written.remaining, written.share_of_window, written.share_of_available, written.soft) {
            (Some(tokens), None, None, None, None) => {
                written.allows("tokens", &[], "no others").map(|()| Threshold::Tokens(tokens))
            }
            (None, Some(reserve), None, None, None) => {
                written.allows("remaining", &[], "no others").map(|()| Threshold::Remaining(reserve))
            }
            (None, None, Some(share), None, None) => {
                written.allows("share_of_window", &["output", "margin"], "`output` and `margin`")?;
                let share = checked(share)?;
                Ok(match (output, margin) {
                    (None, None) => Threshold::ShareOfWindow(share),
                    _ => Threshold::ShareWithin { share, output: or(output, 0), margin: or(margin, 0) },
                })
            }
            (None, None, None, Some(share), None) => {
                written.allows(
                    "share_of_available",
                    &["system", "output", "safety"],
                    "`system`, `output` and `safety`",
                )?;
                let share = checked(share)?;
                Ok(Threshold::ShareOfAvailable {
                    share,
                    system: or(system, 0),
                    output: or(output, 0),
                    safety: or(safety, 0),
                })
            }
            (None, None, None, None, Some(share)) => {
                written.allows("soft", &["safety", "rehydration"], "`safety` and `rehydration`")?;
                let share = checked(share)?;
                Ok(Threshold::Soft { share, safety: or(safety, 500), rehydration: or(rehydration, 2_000) })
            }
            _ => Err(ThresholdError::Kind),
        }
    }
}

impl Written {
    fn allows(&self, kind: &'static str, keys: &[&str], allowed: &'static str) -> Result<(), ThresholdError> {
        let amounts = [
            ("system", self.system),
            ("output", self.output),
            ("margin", self.margin),
            ("safety", self.safety),
            ("rehydration", self.rehydration),
        ];
        match amounts.into_iter().find(|(key, amount)| amount.is_some() && !keys.contains(key)) {
            Some((key, _)) => Err(ThresholdError::Stray { key, kind, allowed }),
            None => Ok(()),
        }
    }
}

fn checked(share: f64) -> Result<f64, ThresholdError> {
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err(ThresholdError::Share) }
}

impl From<Threshold> for Written {
    fn from(threshold: Threshold) -> Self {
        let none = Written::default();
        match threshold {
            Threshold::Tokens(tokens) => Written { tokens: Some(tokens), ..none },
            Threshold::Remaining(reserve) => Written { remaining: Some(reserve), ..none },
            Threshold::ShareOfWindow(share) => Written { share_of_window: Some(share), ..none },
            Threshold::ShareWithin { share, output, margin } => {
                Written { share_of_window: Some(share), output: Some(output), margin: Some(margin), ..none }
            }
            Threshold::ShareOfAvailable { share, system, output, safety } => {
                let shared = Written { share_of_available: Some(share), ..none };
                Written { system: Some(system), output: Some(output), safety: Some(safety), ..shared }
            }
            Threshold::Soft { share, safety, rehydration } => {
                Written { soft: Some(share), safety: Some(safety), rehydration: Some(rehydration), ..none }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Policy {
        at: Threshold,
    }

    fn read(threshold: &str) -> Result<Threshold, String> {
        toml::from_str::<Policy>(&format!("at = {threshold}"))
            .map(|policy| policy.at)
            .map_err(|e| e.message().to_owned())
    }

    #[test]
    fn each_seed_triggers_where_it_says() {
        for (seed, threshold, window, trigger) in [
            ("000", "{ share_of_window = 0.9 }", 128_000, 115_200),
            ("001", "{ remaining = 16384 }", 200_000, 183_616),
            ("001, codex", "{ tokens = 180000 }", 272_000, 180_000),
            ("002", "{ soft = 0.85 }", 128_000, 106_300),
            ("003", "{ share_of_available = 0.8, system = 2000, output = 4000, safety = 5000 }", 128_000, 93_600),
            ("004", "{ share_of_window = 0.7, output = 32000, margin = 8000 }", 200_000, 140_000),
            ("004, small", "{ share_of_window = 0.7, output = 32000, margin = 8000 }", 100_000, 60_000),
            ("001, a reserve larger than the window", "{ remaining = 16384 }", 8_192, 4_096),
            (
                "003, reserves larger than the window",
                "{ share_of_available = 0.8, system = 2000, output = 4000, safety = 5000 }",
                8_192,
                3_276,
            ),
            (
                "004, reserves larger than the window",
                "{ share_of_window = 0.7, output = 32000, margin = 8000 }",
                8_192,
                4_096,
            ),
            ("002, reserves larger than the share", "{ soft = 0.85 }", 2_048, 870),
        ] {
            let threshold = read(threshold).expect(seed);
            assert_eq!(threshold.trigger_at(Tokens::new(window)), Tokens::new(trigger), "{seed}");
        }
    }

    #[test]
    fn a_threshold_is_written_as_it_is_read() {
        for threshold in [
            "{ tokens = 180000 }",
            "{ remaining = 16384 }",
            "{ share_of_window = 0.9 }",
            "{ share_of_window = 0.7, output = 32000, margin = 8000 }",
            "{ share_of_available = 0.8, system = 2000, output = 4000, safety = 5000 }",
            "{ soft = 0.85 }",
        ] {
            let policy = Policy { at: read(threshold).expect(threshold) };
            let written = toml::to_string(&policy).expect("plain data");
            assert_eq!(toml::from_str(&written).ok(), Some(policy), "{written}");
        }
    }

    #[test]
    fn a_threshold_that_means_nothing_says_why() {
        for (threshold, says) in [
            ("{}", "exactly one of"),
            ("{ tokens = 1, remaining = 2 }", "exactly one of"),
            ("{ tokens = 1, margin = 2 }", "`margin` does not go with `tokens`; with it go no others"),
            ("{ soft = 0.85, output = 2 }", "`output` does not go with `soft`; with it go `safety` and `rehydration`"),
            ("{ share_of_window = 90 }", "a share is more than 0 and at most 1"),
            ("{ share_of_window = nan }", "a share is more than 0 and at most 1"),
            ("{ percent = 90 }", "unknown field `percent`"),
        ] {
            let error = read(threshold).expect_err(threshold);
            assert!(error.contains(says), "{threshold}: {error}");
        }
    }
}
