//! What is known of a model by its name: its window, its output limit, and how to count for it.
//!
//! The facts are data, in `data/models.toml`. A model that is not in it gets 128 000 and says that this is a
//! fallback. This file learns nothing: what errors and usage teach is kept by whoever asks.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde::Deserialize;

use super::bpe::Bpe;
use super::estimate::{Characters, Estimate};
use super::image::ImageRule;
use super::scaled::ScaledCounter;
use super::tokens::{TokenCounter, Tokens};

/// The window assumed for a model nobody has heard of.
pub const FALLBACK_WINDOW: Tokens = Tokens::new(128_000);

/// The output limit assumed for a model nobody has heard of.
const FALLBACK_OUTPUT: Tokens = Tokens::new(16_384);

/// The most names that are remembered.
const ASKED_MAX: usize = 256;

/// The models that were asked for: every request asks for the same few, and a name is compared with the whole table.
static ASKED: LazyLock<RwLock<HashMap<String, Model>>> = LazyLock::new(RwLock::default);

/// What is known of one model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Model {
    /// Input and output together.
    pub window: Tokens,
    /// The most input; less than the window for some models.
    pub max_input: Tokens,
    /// The most output in one answer.
    pub max_output: Tokens,
    /// The tokenizer whose counts come nearest.
    pub tokenizer: Tokenizer,
    /// What those counts are multiplied by, where the tokenizer is not the model's own.
    pub factor: Option<f64>,
    /// How an image is counted.
    pub images: ImageRule,
    /// Whether this was found or assumed.
    pub known: Known,
}

/// Whether a model was found in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Under this name.
    As(&'static str),
    /// It was not, and everything about it is assumed.
    Fallback,
}

/// A tokenizer by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenizer {
    /// `o200k_base`.
    O200k,
    /// `cl100k_base`.
    Cl100k,
    /// The script-aware estimate.
    Estimate,
}

impl Model {
    /// What is known of the model with this name, or the fallback.
    pub fn named(name: &str) -> Model {
        let asked = ASKED.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        asked.unwrap_or_else(|| {
            let found = Model::looked_up(name);
            let mut asked = ASKED.write().unwrap_or_else(PoisonError::into_inner);
            if asked.len() >= ASKED_MAX {
                asked.clear();
            }
            asked.insert(name.to_owned(), found.clone());
            found
        })
    }

    fn looked_up(name: &str) -> Model {
        let name = normal(name);
        let found =
            TABLE.iter().filter(|(pattern, _)| stands_in(&name, pattern)).max_by_key(|(pattern, _)| pattern.len());
        found.map_or_else(Model::fallback, |(_, model)| model.clone())
    }

    /// The models of the table, each under every name that it has there.
    pub fn listed() -> impl Iterator<Item = (&'static str, &'static Model)> {
        TABLE.iter().map(|(name, model)| (name.as_str(), model))
    }

    /// What is assumed of a model that is unknown or unnamed.
    pub fn fallback() -> Model {
        Model {
            window: FALLBACK_WINDOW,
            max_input: FALLBACK_WINDOW,
            max_output: FALLBACK_OUTPUT,
            tokenizer: Tokenizer::O200k,
            factor: None,
            images: ImageRule::OpenAi,
            known: Known::Fallback,
        }
    }

    /// The counter that comes nearest to this model's own.
    pub fn counter(&self) -> Arc<dyn TokenCounter> {
        let counter = self.tokenizer.counter();
        match self.factor {
            Some(factor) => Arc::new(ScaledCounter::new(counter, factor)),
            None => counter,
        }
    }
}

impl Tokenizer {
    fn counter(self) -> Arc<dyn TokenCounter> {
        match self {
            Tokenizer::O200k => Arc::new(Bpe::O200k),
            Tokenizer::Cl100k => Arc::new(Bpe::Cl100k),
            Tokenizer::Estimate => Arc::new(Estimate),
        }
    }
}

/// The counter for a model; o200k where the model is unknown or not given.
pub fn counter_for(model: Option<&str>) -> Arc<dyn TokenCounter> {
    model.map_or_else(Model::fallback, Model::named).counter()
}

/// The counter with this name.
pub fn counter_named(name: &str) -> Result<Arc<dyn TokenCounter>, UnknownCounter> {
    match name {
        "o200k" => Ok(Arc::new(Bpe::O200k)),
        "cl100k" => Ok(Arc::new(Bpe::Cl100k)),
        "estimate" => Ok(Arc::new(Estimate)),
        "chars/4" => Ok(Arc::new(Characters::Four)),
        "chars/3" => Ok(Arc::new(Characters::Three)),
        _ => Err(UnknownCounter(name.to_owned())),
    }
}

/// A name that no counter has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a token counter; the counters are o200k, cl100k, estimate, chars/4 and chars/3")]
pub struct UnknownCounter(String);

type Row = (String, Model);

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let written: Written = crate::embedded_table!("models.toml");
    written.model.into_iter().flat_map(WrittenModel::rows).collect()
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    model: Vec<WrittenModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenModel {
    names: Vec<String>,
    window: Tokens,
    max_input: Option<Tokens>,
    max_output: Tokens,
    tokenizer: Tokenizer,
    factor: Option<f64>,
    images: ImageRule,
}

impl WrittenModel {
    fn rows(self) -> impl Iterator<Item = Row> {
        let WrittenModel { names, window, max_input, max_output, tokenizer, factor, images } = self;
        let max_input = max_input.unwrap_or(window);
        names.into_iter().map(move |name| {
            // The table is built once and lives as long as the process.
            let known = Known::As(String::leak(name.clone()));
            (name, Model { window, max_input, max_output, tokenizer, factor, images, known })
        })
    }
}

/// The name of a model, as tables of models spell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName(String);

impl ModelName {
    /// The name of this model.
    pub fn new(name: &str) -> Self {
        ModelName(normal(name))
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a table means this model by that name; see `data/models.toml` for the rule.
    pub fn is(&self, name: &ModelName) -> bool {
        stands_in(&self.0, &name.0)
    }
}

/// A model id as the table spells it.
fn normal(name: &str) -> String {
    name.to_lowercase().replace('.', "-")
}

/// Whether a name of the table stands in a model id as a word, or at the start of one.
fn stands_in(name: &str, pattern: &str) -> bool {
    // Names are short: looking at every place is quicker than preparing a search.
    let mut places = (0..name.len()).filter(|at| name.as_bytes()[*at..].starts_with(pattern.as_bytes()));
    places.any(|at| {
        let before = name[..at].chars().next_back();
        let after = name[at + pattern.len()..].chars().next();
        let number_goes_on =
            pattern.ends_with(|c: char| c.is_ascii_digit()) && after.is_some_and(|c| c.is_ascii_digit());
        !before.is_some_and(char::is_alphanumeric) && !number_goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::CountSource;

    #[test]
    fn the_longest_name_decides_the_window_and_the_factor() {
        let known: [(&str, &str, u64, Option<f64>); 24] = [
            ("gpt-4o-mini-2024-07-18", "gpt-4o", 128_000, None),
            ("gpt-4-turbo-preview", "gpt-4-turbo", 128_000, None),
            ("gpt-4", "gpt-4", 8_192, None),
            ("gpt-4-0613", "gpt-4", 8_192, None),
            ("gpt-4.1-nano", "gpt-4-1", 1_047_576, None),
            ("gpt-4-1106-preview", "gpt-4-1106", 128_000, None),
            ("o3-mini", "o3", 200_000, None),
            ("openai/gpt-5-codex", "gpt-5", 400_000, None),
            ("gpt-5.6-sol", "gpt-5-6", 1_050_000, None),
            ("ft:gpt-4o:acme::9aB", "gpt-4o", 128_000, None),
            ("claude-3-5-sonnet-20240620", "claude-3-5", 200_000, Some(1.25)),
            ("claude-3-haiku-20240307", "claude-3", 200_000, Some(1.25)),
            ("claude-opus-4-20250514", "claude-opus-4", 200_000, Some(1.25)),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4", 200_000, Some(1.25)),
            ("anthropic/claude-opus-4.6", "claude-opus-4-6", 1_000_000, Some(1.25)),
            ("claude-opus-4-7", "claude-opus-4-7", 1_000_000, Some(1.6)),
            ("claude-sonnet-5-5", "claude-sonnet-5", 1_000_000, Some(1.6)),
            ("claude-next", "claude", 200_000, Some(1.6)),
            ("gemini-2.5-pro", "gemini", 1_048_576, Some(1.1)),
            ("deepseek-chat", "deepseek", 128_000, Some(1.1)),
            ("Qwen/Qwen3-Coder-480B", "qwen3-coder", 262_144, Some(1.15)),
            ("kimi-k2-0711-preview", "kimi-k2", 131_072, Some(1.05)),
            ("meta-llama/Llama-3.3-70B-Instruct", "llama-3-3", 128_000, Some(1.05)),
            ("mistral-large-latest", "mistral", 128_000, Some(1.15)),
        ];
        for (name, pattern, window, factor) in known {
            let model = Model::named(name);
            assert_eq!(model.known, Known::As(pattern), "{name}");
            assert_eq!((model.window, model.factor), (Tokens::new(window), factor), "{name}");
        }
    }

    #[test]
    fn an_unknown_model_says_that_it_is_a_fallback() {
        for name in ["", "foo-9", "xgpt-4", "no1", "my-model-o10"] {
            assert_eq!(Model::named(name), Model::fallback(), "{name}");
        }
    }

    #[test]
    fn gpt_5_takes_less_input_than_its_window() {
        let model = Model::named("gpt-5");
        assert_eq!((model.window, model.max_input), (Tokens::new(400_000), Tokens::new(272_000)));
    }

    #[test]
    fn a_count_for_claude_is_o200k_times_its_factor_and_says_so() {
        let text = "hello world ".repeat(100);
        let plain = counter_for(None).count(&text);
        for (model, factor) in [("claude-sonnet-4-5", 1.25), ("claude-opus-4-7", 1.6)] {
            let counter = counter_for(Some(model));
            assert_eq!((counter.count(&text), counter.source()), (plain.scaled(factor), CountSource::Estimated));
        }
    }

    #[test]
    fn a_counter_is_found_by_its_own_name() {
        for name in ["o200k", "cl100k", "estimate", "chars/4", "chars/3"] {
            assert_eq!(counter_named(name).map(|counter| counter.name().to_owned()).as_deref(), Ok(name));
        }
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let error = counter_named("gpt2").map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            error,
            "`gpt2` is not a token counter; the counters are o200k, cl100k, estimate, chars/4 and chars/3"
        );
    }
}
