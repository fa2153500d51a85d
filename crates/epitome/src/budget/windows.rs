//! The windows that providers taught us by refusing a request.
//!
//! What a provider says of its own limit outranks what the table says: gateways, local servers and tiers serve a model
//! with another window than its maker publishes. Nothing here guesses; a window is learned from a number in an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::models::{Known, Model};
use super::tokens::Tokens;

/// Windows learned so far, by model id as the caller spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Windows {
    learned: BTreeMap<String, Tokens>,
}

/// How much input a model takes, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The provider said so in an error.
    Learned(Tokens),
    /// The table of models says so.
    Listed(Tokens),
    /// Nobody said anything.
    Fallback(Tokens),
}

impl Windows {
    /// Keeps the limit that a provider named for a model. The newest word counts; zero is no word.
    pub fn learn(&mut self, model: &str, limit: Tokens) {
        if limit > Tokens::ZERO {
            self.learned.insert(model.to_owned(), limit);
        }
    }

    /// The most input this model takes, as far as anybody knows.
    pub fn of(&self, model: &str) -> Window {
        if let Some(&limit) = self.learned.get(model) {
            return Window::Learned(limit);
        }
        let listed = Model::named(model);
        match listed.known {
            Known::As(_) => Window::Listed(listed.max_input),
            Known::Fallback => Window::Fallback(listed.max_input),
        }
    }
}

impl Window {
    /// The amount, whoever says so.
    pub fn tokens(self) -> Tokens {
        match self {
            Window::Learned(tokens) | Window::Listed(tokens) | Window::Fallback(tokens) => tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_said_outranks_the_table() {
        let mut windows = Windows::default();
        assert_eq!(windows.of("gpt-4o"), Window::Listed(Tokens::new(128_000)));
        windows.learn("gpt-4o", Tokens::new(64_000));
        windows.learn("gpt-4o", Tokens::ZERO);
        assert_eq!(windows.of("gpt-4o"), Window::Learned(Tokens::new(64_000)));
        assert_eq!(windows.of("no-such"), Window::Fallback(Tokens::new(128_000)));
    }

    #[test]
    fn learned_windows_survive_being_written_down() {
        let mut windows = Windows::default();
        windows.learn("local", Tokens::new(4_096));
        let written = serde_json::to_string(&windows).expect("plain data");
        assert_eq!(written, r#"{"local":4096}"#);
        assert_eq!(serde_json::from_str::<Windows>(&written).ok(), Some(windows));
    }
}
