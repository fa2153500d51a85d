//! Prices: what tokens cost, by model, relative to an uncached input token and in money where it is known.

use std::sync::LazyLock;

use epitome::budget::ModelName;
use epitome_runtime::model::Usage;
use serde::{Deserialize, Serialize};

/// The table that ships.
static SHIPPED: LazyLock<PriceList> =
    LazyLock::new(|| PriceList::parse(include_str!("prices.toml")).expect("prices.toml is checked by a test"));

/// The reason for which a table of prices cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// It cannot be read.
    #[error("the price list cannot be read: {0}")]
    Unreadable(#[from] toml::de::Error),
    /// A price without a model.
    #[error("a price says no `names`")]
    Nameless,
    /// A price that is none.
    #[error("the price of {0} is not one: every number must be 0 or more, and `input` more than 0")]
    NotAPrice(String),
}

/// The prices of tokens, by model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceList {
    rows: Vec<(ModelName, Price)>,
}

impl PriceList {
    /// The list that ships with the gateway.
    pub fn shipped() -> PriceList {
        SHIPPED.clone()
    }

    /// Reads a list in the form of `prices.toml`.
    pub fn parse(text: &str) -> Result<PriceList, PriceError> {
        let written: Written = toml::from_str(text)?;
        let mut rows = Vec::new();
        for mut row in written.price {
            let names = row.remove("names").ok_or(PriceError::Nameless)?;
            let (names, price): (Vec<String>, Price) = (names.try_into()?, row.try_into()?);
            if !price.is_one() {
                return Err(PriceError::NotAPrice(names.join(", ")));
            }
            rows.extend(names.iter().map(|name| (ModelName::new(name), price)));
        }
        Ok(PriceList { rows })
    }

    /// This list, with another behind it for the models it does not name.
    #[must_use]
    pub fn before(mut self, other: &PriceList) -> PriceList {
        let theirs = other.rows.iter().filter(|(name, _)| !self.rows.iter().any(|(own, _)| own == name));
        let theirs: Vec<_> = theirs.cloned().collect();
        self.rows.extend(theirs);
        self
    }

    /// The price of a model; the longest name that it is known by decides.
    pub fn of(&self, model: &str) -> Price {
        let model = ModelName::new(model);
        let named = self.rows.iter().filter(|(name, _)| model.is(name));
        named.max_by_key(|(name, _)| name.len()).map(|(_, price)| *price).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    price: Vec<toml::Table>,
}

/// The prices of one model's tokens, relative to one uncached input token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// US dollars for a million uncached input tokens, where that is known.
    pub input: Option<f64>,
    /// An output token.
    pub output: f64,
    /// A token read from the cache.
    pub read: f64,
    /// A token written to the cache.
    pub write: f64,
    /// A token written to a cache that lives for an hour.
    pub write_long: Option<f64>,
    /// The time that the cache lives after it was last read.
    pub ttl_s: u64,
    /// The smallest prefix that is cached.
    pub cached_min: u64,
    /// True if only marked parts of a request are cached.
    pub marks: bool,
}

impl Default for Price {
    /// The prices assumed for an unknown model.
    fn default() -> Self {
        let (output, read, write) = (4.0, 0.1, 1.0);
        Price { input: None, output, read, write, write_long: None, ttl_s: 300, cached_min: 1024, marks: false }
    }
}

impl Price {
    /// Returns the cost of a call in input tokens.
    pub fn units(&self, usage: &Usage, marks: Marks) -> f64 {
        let uncached = usage.input.saturating_sub(usage.cached).saturating_sub(usage.written);
        uncached as f64
            + usage.cached as f64 * self.read
            + usage.written as f64 * self.write(marks)
            + usage.output as f64 * self.output
    }

    /// A token written to the cache, as the request asks for it.
    pub fn write(&self, marks: Marks) -> f64 {
        match marks {
            Marks::Long => self.write_long.unwrap_or(self.write),
            Marks::Short | Marks::None => self.write,
        }
    }

    /// Returns the time that the cache of such a request lives.
    pub fn ttl_s(&self, marks: Marks) -> u64 {
        if marks == Marks::Long && self.write_long.is_some() { self.ttl_s.max(3600) } else { self.ttl_s }
    }

    /// True if a request with such marks is cached at all.
    pub fn caches(&self, marks: Marks) -> bool {
        !self.marks || marks != Marks::None
    }

    /// Returns the unit of amounts at this price.
    pub fn unit(&self) -> Unit {
        if self.input.is_some() { Unit::Usd } else { Unit::InputTokens }
    }

    /// Input tokens as an amount in this price's unit.
    pub fn amount(&self, units: f64) -> f64 {
        self.input.map_or(units, |input| units * input / 1e6)
    }

    fn is_one(&self) -> bool {
        let all = [self.output, self.read, self.write, self.write_long.unwrap_or_default()];
        let fine = |number: &f64| number.is_finite() && *number >= 0.0;
        all.iter().all(fine) && self.input.is_none_or(|input| input.is_finite() && input > 0.0)
    }
}

/// The cache marks of the client's own request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marks {
    /// Nothing: it has no cache marks.
    #[default]
    None,
    /// To keep what is marked for the usual time.
    Short,
    /// To keep it for an hour.
    Long,
}

/// The unit of an amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// US dollars.
    Usd,
    /// Uncached input tokens of the request's model: its price in money is not known.
    #[default]
    InputTokens,
}

#[cfg(test)]
mod tests {
    use super::{Marks, Price, PriceList, Unit};
    use epitome_runtime::model::Usage;

    #[test]
    fn the_longest_name_decides_the_price_and_an_unknown_model_has_none() {
        let list = PriceList::shipped();
        let known: [(&str, Option<f64>, f64, f64); 10] = [
            ("gpt-4o-mini-2024-07-18", Some(0.15), 0.5, 1.0),
            ("openai/gpt-4.1", Some(2.0), 0.25, 1.0),
            ("gpt-5-codex", Some(1.25), 0.1, 1.0),
            ("gpt-5.6-codex", None, 0.1, 1.25),
            ("us.anthropic.claude-opus-4-5-20251101-v1:0", Some(5.0), 0.1, 1.25),
            ("claude-opus-4-20250514", Some(15.0), 0.1, 1.25),
            ("claude-opus-4-8", None, 0.1, 1.25),
            ("claude-9-epic", None, 0.1, 1.25),
            ("grok-4", None, 0.16, 1.0),
            ("my-own-model", None, 0.1, 1.0),
        ];
        for (model, input, read, write) in known {
            let price = list.of(model);
            assert_eq!((price.input, price.read, price.write), (input, read, write), "{model}");
        }
        assert_eq!(list.of("my-own-model"), Price::default());
        assert_eq!(list.of("my-own-model").unit(), Unit::InputTokens);
    }

    #[test]
    fn a_table_of_ones_own_comes_before_the_shipped_one() {
        let own =
            PriceList::parse("[[price]]\nnames = ['gpt-4o', 'my-own-model']\ninput = 1.0\nread = 0.3").expect("a list");
        let list = own.before(&PriceList::shipped());
        assert_eq!(list.of("gpt-4o").read, 0.3);
        assert_eq!(list.of("my-own-model").input, Some(1.0));
        assert_eq!(list.of("gpt-4.1").input, Some(2.0));
    }

    #[test]
    fn a_price_below_nothing_and_a_misspelled_one_are_refused() {
        for text in [
            "[[price]]\nnames = ['a']\nread = -0.1",
            "[[price]]\nnames = ['a']\ninput = 0.0",
            "[[price]]\nnames = ['a']\nraed = 0.1",
            "[[price]]\nread = 0.1",
        ] {
            assert!(PriceList::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let usage = Usage { input: 1000, cached: 600, written: 300, output: 10 };
        let price = PriceList::shipped().of("claude-sonnet-4-5");
        let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(close(price.units(&usage, Marks::Short), 100.0 + 60.0 + 375.0 + 50.0));
        assert!(close(price.units(&usage, Marks::Long), 100.0 + 60.0 + 600.0 + 50.0));
        assert!(close(price.amount(1e6), 3.0));
    }
}
