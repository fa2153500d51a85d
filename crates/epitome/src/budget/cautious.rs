//! The cautious counter, for when nobody says which model will read the text.

use super::{Bpe, CountSource, Estimate, TokenCounter, Tokens};

/// The larger of the o200k count and the script-aware estimate: tokenizers differ most where these two do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cautious;

impl TokenCounter for Cautious {
    fn count(&self, text: &str) -> Tokens {
        Bpe::O200k.count(text).max(Estimate.count(text))
    }

    fn source(&self) -> CountSource {
        CountSource::Estimated
    }

    fn name(&self) -> &str {
        "cautious"
    }
}
