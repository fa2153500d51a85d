//! The window of a model: how much input it takes, and who says so.
//!
//! What a provider has shown of its own limit outranks what the table says: gateways, local servers and tiers serve a
//! model with another window than its maker publishes. Nothing here decides when a provider is believed, and nothing is
//! kept here: that is the caller's affair.

use super::models::{Known, Model};
use super::tokens::Tokens;

/// How much input a model takes, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Its provider refused more than this.
    Learned(Tokens),
    /// The table of models says so.
    Listed(Tokens),
    /// Nobody said anything.
    Fallback(Tokens),
}

impl Window {
    /// The window of a model: the learned one, where there is one, or what is known by its name.
    pub fn of(model: &str, learned: Option<Tokens>) -> Window {
        if let Some(tokens) = learned {
            return Window::Learned(tokens);
        }
        let listed = Model::named(model);
        match listed.known {
            Known::As(_) => Window::Listed(listed.max_input),
            Known::Fallback => Window::Fallback(listed.max_input),
        }
    }

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
    fn what_a_provider_showed_outranks_the_table() {
        assert_eq!(Window::of("gpt-4o", None), Window::Listed(Tokens::new(128_000)));
        assert_eq!(Window::of("gpt-4o", Some(Tokens::new(64_000))), Window::Learned(Tokens::new(64_000)));
        assert_eq!(Window::of("no-such", None), Window::Fallback(Tokens::new(128_000)));
    }
}
