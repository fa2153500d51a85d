//! What an engine is told once.

use std::time::Duration;

use epitome::budget::Tokens;
use epitome::policy::{Policy, preset};

use crate::store::Sensitivity;

/// What an engine is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When and how to compact.
    pub policy: Policy,
    /// The model that the prompts are for: its window and its tokenizer.
    pub model: Option<String>,
    /// The window, where it is not the model's.
    pub window: Option<Tokens>,
    /// Whether compaction runs in the background.
    pub background: Background,
    /// How background jobs run.
    pub jobs: Jobs,
    /// How content that leaves a prompt is kept.
    pub retention: ArtifactRetention,
    /// Which artifacts may come back by themselves.
    pub auto_rehydrate: Vec<Sensitivity>,
    /// The most tokens of an answer of recall.
    pub recall_tokens: Tokens,
    /// How long summaries are found again.
    pub summary_cache: Duration,
    /// How long the store is waited for.
    pub store_timeout: Duration,
    /// How long the object store is waited for.
    pub object_timeout: Duration,
}

/// Whether compaction runs in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Whoever asks for a prompt waits for its compaction.
    Off,
    /// From the soft mark on, in the background; at the hard mark a request waits this long, then goes on without.
    On {
        /// How long.
        wait: Duration,
    },
}

/// How background jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// How many at once.
    pub concurrency: usize,
    /// How long a worker holds a job without a sign of life.
    pub lease: Duration,
    /// How often a job is begun.
    pub attempts: u32,
    /// How long after the first failure it is tried again; doubled each time.
    pub backoff: Duration,
    /// How often a worker looks for jobs that others queued.
    pub poll: Duration,
}

impl Default for Jobs {
    fn default() -> Self {
        Jobs {
            concurrency: 2,
            lease: Duration::from_secs(300),
            attempts: 2,
            backoff: Duration::from_secs(3),
            poll: Duration::from_millis(500),
        }
    }
}

/// How content that leaves a prompt is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArtifactRetention {
    /// For how long; for ever without.
    pub ttl: Option<Duration>,
    /// How careful to be with it.
    pub sensitivity: Sensitivity,
}

impl Settings {
    /// The settings of a policy.
    pub fn new(policy: Policy) -> Self {
        Settings {
            policy,
            model: None,
            window: None,
            background: Background::Off,
            jobs: Jobs::default(),
            retention: ArtifactRetention::default(),
            auto_rehydrate: vec![Sensitivity::Public, Sensitivity::Internal],
            recall_tokens: Tokens::new(2000),
            summary_cache: Duration::from_secs(30 * 24 * 3600),
            store_timeout: Duration::from_secs(10),
            object_timeout: Duration::from_secs(20),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new(preset("ladder").expect("the default preset is there"))
    }
}
