//! A counter times a factor: how one tokenizer stands in for another.
//!
//! The factor is given, by a table or by a calibration; this file learns nothing.

use std::sync::Arc;

use super::tokens::{CountSource, TokenCounter, Tokens};

/// Another counter's number times a factor, rounded up.
pub struct Scaled {
    counter: Arc<dyn TokenCounter>,
    factor: f64,
    source: CountSource,
}

impl Scaled {
    /// A factor that somebody assumed or measured once.
    pub fn assumed(counter: Arc<dyn TokenCounter>, factor: f64) -> Self {
        Scaled { counter, factor, source: CountSource::Estimated }
    }

    /// A factor that reported usage taught.
    pub fn calibrated(counter: Arc<dyn TokenCounter>, factor: f64) -> Self {
        Scaled { counter, factor, source: CountSource::Calibrated }
    }

    /// What every count is multiplied by.
    pub fn factor(&self) -> f64 {
        self.factor
    }
}

impl TokenCounter for Scaled {
    fn count(&self, text: &str) -> Tokens {
        self.counter.count(text).scaled(self.factor)
    }

    fn source(&self) -> CountSource {
        self.source
    }

    fn name(&self) -> &str {
        self.counter.name()
    }
}
