//! Token amounts and where they came from.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

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

/// Plain digits: every shell, spreadsheet and flag takes them back.
impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An amount that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number of tokens; write 12000, 12k, 1.5m, 12_000 or 12,000")]
pub struct UnknownAmount(String);

/// Reads an amount as people write it: `12000`, `12_000`, `12,000`, `12k`, `1.5m`.
///
/// A comma only separates groups of three digits, because `1,5` may mean either one and a half or fifteen. A fraction
/// needs a suffix and must come out whole.
impl FromStr for Tokens {
    type Err = UnknownAmount;

    fn from_str(text: &str) -> Result<Self, UnknownAmount> {
        parse_amount(text.trim()).map(Tokens).ok_or_else(|| UnknownAmount(text.to_owned()))
    }
}

fn parse_amount(text: &str) -> Option<u64> {
    let (number, decimals_max) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 3),
        None => text.strip_suffix(['m', 'M']).map_or((text, 0), |number| (number, 6)),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let is_split = whole.len() < number.len();
    if decimals.len() > decimals_max || is_split && decimals.is_empty() {
        return None;
    }
    let digits = ungrouped(whole)? + decimals + &"0".repeat(decimals_max - decimals.len());
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

/// The digits without what groups them; `None` where a comma does not stand before three digits.
fn ungrouped(whole: &str) -> Option<String> {
    let groups: Vec<&str> = whole.split(',').collect();
    let is_grouped = groups.len() == 1 || groups[0].len() <= 3 && groups[1..].iter().all(|group| group.len() == 3);
    let is_closed = whole.starts_with(|c: char| c.is_ascii_digit()) && whole.ends_with(|c: char| c.is_ascii_digit());
    (is_grouped && is_closed).then(|| whole.replace(['_', ','], ""))
}

/// Where a count came from, from most to least trustworthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountSource {
    /// The provider said so.
    Reported,
    /// The model's own public tokenizer.
    Exact,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_as_people_write_it() {
        let read = [
            ("12000", 12_000),
            ("12k", 12_000),
            ("12K", 12_000),
            ("1.5m", 1_500_000),
            ("0.25M", 250_000),
            ("1.024k", 1_024),
            ("12_000", 12_000),
            ("12,000", 12_000),
            ("1,000,000", 1_000_000),
            ("1_000k", 1_000_000),
            (" 7 ", 7),
            ("0", 0),
        ];
        for (text, tokens) in read {
            assert_eq!(text.parse(), Ok(Tokens::new(tokens)), "{text}");
            let written = Tokens::new(tokens).to_string();
            assert_eq!(written.parse(), Ok(Tokens::new(tokens)), "what is printed can be given back");
        }
    }

    #[test]
    fn an_amount_that_could_mean_two_things_is_refused_with_the_forms() {
        let refused = [
            "",
            "k",
            "12 000",
            "1,5",
            "12,00",
            "1234,000",
            ",000",
            "1.5",
            "1.0005k",
            "1.k",
            ".5m",
            "-1",
            "+1",
            "1e6",
            "12kk",
            "0x10",
            "_1",
            "1_",
            "1,",
            "99999999999999999999",
            "99999999999999999999m",
            "twelve",
            "1٣",
        ];
        for text in refused {
            let error = text.parse::<Tokens>().expect_err(text).to_string();
            assert!(error.contains("12k") && error.contains("12,000"), "{error}");
        }
    }
}
