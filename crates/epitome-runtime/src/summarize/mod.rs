//! Summarizers: who writes a summary's prose. The embedded one needs nobody; a model is asked, checked, and never relied on.
//!
//! A model's summary is found again under its cache key, the same span asked for twice at once is one call, and an answer
//! that is bad, empty, cut, grown, refused or late gives way to the embedded summarizer, which says so in an event.

mod flight;
mod model;

pub use model::{ModelSummarizer, QuestionForm, RequestFrame, cache_name};

use std::sync::{Arc, Mutex, PoisonError};

use epitome::summary::StructuredSummary;
use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// The writer of a summary's prose.
#[derive(Clone, Debug, Default)]
pub enum Summarizer {
    /// Code alone: extraction and ranking.
    #[default]
    Embedded,
    /// A model; while it does not answer, a compaction in the background is not made.
    Model(Arc<ModelSummarizer>),
    /// A model; when it does not answer well, code alone.
    WithFallback(Arc<ModelSummarizer>),
}

impl Summarizer {
    /// The model that is asked, if one is.
    pub fn model(&self) -> Option<&Arc<ModelSummarizer>> {
        match self {
            Summarizer::Embedded => None,
            Summarizer::Model(model) | Summarizer::WithFallback(model) => Some(model),
        }
    }

    /// Tells whether code alone may take over.
    pub fn may_fall_back(&self) -> bool {
        !matches!(self, Summarizer::Model(_))
    }
}

/// A model's part of a summary, as it is cached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prose {
    /// The model's part.
    pub summary: StructuredSummary,
}

/// The usage of all calls for one summary.
#[derive(Debug, Default)]
pub struct SummaryUsage(Mutex<Usage>);

impl SummaryUsage {
    fn add(&self, usage: Usage) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Usage {
            input: all.input + usage.input,
            cached: all.cached + usage.cached,
            written: all.written + usage.written,
            output: all.output + usage.output,
        };
    }

    /// All of it.
    pub fn total(&self) -> Usage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A model's summary that was not used, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {details}", reason.name())]
pub struct NoSummary {
    /// The reason, for events and metrics.
    pub reason: NoSummaryReason,
    /// The reason in a sentence, without content.
    pub details: String,
}

crate::named_enum! {
    /// The reasons for which a model's summary is not used.
    #[non_exhaustive]
    pub enum NoSummaryReason {
        /// It did not come in time.
        Late = "late",
        /// The model answered nothing.
        Empty = "empty",
        /// The question does not fit into the model's window. A smaller one may.
        TooLong = "too-long",
        /// The provider's answer cannot be read.
        Garbled = "garbled",
        /// The provider rejected the request.
        Rejected = "rejected",
        /// The provider asked to wait.
        Throttled = "throttled",
        /// The provider failed so often that it is not called for a while.
        CircuitOpen = "left-alone",
        /// The provider cannot be reached, or failed.
        Unreachable = "unreachable",
        /// The summary ends at the output limit.
        CutOff = "cut",
        /// The model refused.
        Refused = "refused",
        /// The summary is not smaller than what it replaces.
        NotSmaller = "grown",
        /// The summary quotes words that the user never said.
        Invented = "invented",
        /// The summary breaks the schema in another way.
        Unusable = "bad",
    }
}
