//! Token amounts and where they came from.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// An amount of tokens. Subtraction stops at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(u64);

impl Tokens {
    /// No tokens.
    pub const ZERO: Tokens = Tokens(0);

    /// An amount.
    pub const fn new(amount: u64) -> Self {
        Tokens(amount)
    }

    /// The amount as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This amount times a factor, rounded up.
    pub fn scaled(self, factor: f64) -> Self {
        Tokens((self.0 as f64 * factor).ceil() as u64)
    }

    /// This amount times a share, rounded down.
    pub fn share(self, share: f64) -> Self {
        Tokens((self.0 as f64 * share).floor() as u64)
    }
}

impl Add for Tokens {
    type Output = Tokens;
    fn add(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Tokens) {
        *self = *self + other;
    }
}

impl Sub for Tokens {
    type Output = Tokens;
    fn sub(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Tokens {
    fn sub_assign(&mut self, other: Tokens) {
        *self = *self - other;
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(amounts: I) -> Tokens {
        amounts.fold(Tokens::ZERO, Add::add)
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(" ")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// Where a count came from, from most to least trustworthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountSource {
    /// The provider said so.
    Reported,
    /// The model's own public tokenizer.
    Exact,
    /// Another tokenizer's count, or an estimate, corrected by reported usage.
    Calibrated,
    /// The script-aware estimate.
    Estimated,
    /// A fixed number of characters for each token.
    Characters,
}

/// An amount together with where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub tokens: Tokens,
    /// Says who.
    pub source: CountSource,
}

/// Counts the tokens of a text.
pub trait TokenCounter: Send + Sync {
    /// The tokens of a text on its own.
    fn count(&self, text: &str) -> Tokens;

    /// The last place in a text where it can be parted and the counts of both parts add up, however it goes on.
    fn seam(&self, _text: &str) -> usize {
        0
    }

    /// Where this counter's numbers come from.
    fn source(&self) -> CountSource;

    /// The counter's name, as a policy or a person writes it.
    fn name(&self) -> &str;
}
