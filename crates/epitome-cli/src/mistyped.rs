//! Mistyped names: the nearest known ones, and models that are not known at all.

use epitome::budget::{Known, Model};
use strsim::osa_distance;

use crate::failure::{Exit, Failure, Result};

/// Shorter names get no suggestion: each is near to every other.
const NAME_CHARS_MIN: usize = 4;

/// From this length on a name may have two typos instead of one.
const TWO_TYPOS_CHARS_MIN: usize = 9;

/// Returns the known names that a name was probably meant to be, nearest first.
///
/// Names that differ in digits alone are not typos of each other: `gpt-6` is a newer model, not a mistyped `gpt-5`.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let length = name.chars().count();
    if length < NAME_CHARS_MIN {
        return Vec::new();
    }
    let typos_max = if length < TWO_TYPOS_CHARS_MIN { 1 } else { 2 };
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|known| (osa_distance(name, known), known))
        .filter(|(typos, known)| (1..=typos_max).contains(typos) && without_digits(name) != without_digits(known))
        .collect();
    near.sort();
    near.into_iter().map(|(_, known)| known).collect()
}

fn without_digits(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Returns a suggestion with a blank after it, or nothing where no name is near.
pub fn did_you_mean(name: &str, known: &[&str]) -> String {
    nearest(name, known.iter().copied()).first().map_or_else(String::new, |name| format!("Did you mean `{name}`? "))
}

/// Refuses a name that is a typo of a known model's. Returns whether the model is known.
pub fn check_model(name: &str) -> Result<Known> {
    let known = Model::named(name).known;
    // A gateway's name for a model has its maker before it: `openai/gpt-4o`.
    let own = name.rsplit('/').next().unwrap_or(name).to_lowercase().replace('.', "-");
    // The table names the beginning of a name: `claude-sonnet-4` for every version of it.
    let ends = own.match_indices('-').map(|(at, _)| at).filter(|at| *at >= TWO_TYPOS_CHARS_MIN).chain([own.len()]);
    let mut near: Vec<&str> = Vec::new();
    for end in ends.collect::<Vec<usize>>().into_iter().rev() {
        near.extend(nearest(&own[..end], Model::listed().map(|(name, _)| name)));
    }
    if known != Known::Fallback || near.is_empty() {
        return Ok(known);
    }
    let near: Vec<String> = near.iter().take(3).map(|name| format!("`{name}`")).collect();
    Err(Failure::new(Exit::Usage, format!("Unknown model `{name}`; did you mean {}?", near.join(" or ")))
        .hint("If that is its name, add its window: `--window N`. `epitome models` lists the known ones."))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_refused_with_the_name_that_was_meant() {
        for (typed, meant) in
            [("gtp-4o", "gpt-4o"), ("openai/gtp-4o", "gpt-4o"), ("cluade-sonnet-4-5", "claude-sonnet-4")]
        {
            let failure = check_model(typed).expect_err(typed);
            assert!(failure.sentence.contains(meant), "{}", failure.sentence);
        }
    }

    #[test]
    fn names_of_newer_and_of_own_models_pass() {
        for name in ["gpt-4o", "gpt-9", "my-own-model", "local-1", "o9", "x", "no-such-model", "mock-8k"] {
            assert!(check_model(name).is_ok(), "{name}");
        }
    }
}
