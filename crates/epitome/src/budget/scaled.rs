//! A counter times a factor: how one tokenizer stands in for another.

use std::sync::Arc;

use super::tokens::{CountSource, TokenCounter, Tokens};

/// Another counter's number times an assumed factor, rounded up: an estimate, however exact the other one is.
pub struct ScaledCounter {
    counter: Arc<dyn TokenCounter>,
    factor: f64,
}

impl ScaledCounter {
    /// Scales a counter.
    pub fn new(counter: Arc<dyn TokenCounter>, factor: f64) -> Self {
        ScaledCounter { counter, factor }
    }
}

impl TokenCounter for ScaledCounter {
    fn count(&self, text: &str) -> Tokens {
        self.counter.count(text).scaled(self.factor)
    }

    fn source(&self) -> CountSource {
        CountSource::Estimated
    }

    fn name(&self) -> &str {
        self.counter.name()
    }
}
