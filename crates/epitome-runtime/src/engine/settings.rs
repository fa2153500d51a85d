//! What an engine is told once.

use std::time::Duration;

use epitome::budget::Tokens;
use epitome::policy::{Policy, preset};

use crate::store::Sensitivity;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// When and how to compact.
    pub policy: Policy,
    /// What is compacted without being asked for it; without a value, the policy decides.
    pub auto: Option<AutoCompaction>,
    /// The model that the prompts are for: its window and its tokenizer.
    pub model: Option<String>,
    /// The window, where it is not the model's.
    pub window: Option<Tokens>,
    /// Compaction in the background, or while the caller waits.
    pub background: Background,
    /// The settings of background jobs.
    pub jobs: Jobs,
    /// The retention of content that leaves a prompt.
    pub retention: ArtifactRetention,
    /// Which artifacts may come back by themselves.
    pub auto_rehydrate: Vec<Sensitivity>,
    /// Content of another sensitivity than the retention's own, by tool or path.
    pub sensitivity_rules: Vec<SensitivityRule>,
    /// The most tokens of an answer of recall.
    pub recall_tokens: Tokens,
    /// The lifetime of cached summaries.
    pub summary_cache: Duration,
    /// The timeout of one call of the store.
    pub store_timeout: Duration,
    /// The timeout of one call of the object store.
    pub object_timeout: Duration,
}

epitome::named_enum! {
    /// What is compacted without being asked for it.
    pub enum AutoCompaction {
        /// Every prompt above the policy's trigger.
        On = "on",
        /// Only a prompt that its provider refused as too long.
        Overflow = "overflow",
        /// Nothing. A provider's refusal reaches the caller.
        Off = "off",
    }
}

/// Compaction in the background, or while the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// The caller waits for its compaction.
    Off,
    /// From the soft mark on, in the background; at the hard mark a request waits this long, then goes on without.
    On {
        /// The longest wait.
        wait: Duration,
    },
}

/// The settings of background jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// The number of jobs that run at once.
    pub concurrency: usize,
    /// The time for which a worker holds a job; renewed while it works.
    pub lease: Duration,
    /// The most attempts at a job.
    pub attempts: u32,
    /// The wait after the first failure; doubled each time.
    pub backoff: Duration,
    /// The interval at which a worker looks for jobs of other processes.
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

/// The retention of content that leaves a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArtifactRetention {
    /// For how long; for ever without.
    pub ttl: Option<Duration>,
    /// Its sensitivity.
    pub sensitivity: Sensitivity,
}

/// A rule for the sensitivity of content, by what it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensitivityRule {
    /// The name of a tool, or a path or the end of one; `*` stands for anything.
    pub pattern: String,
    /// The sensitivity of what fits.
    pub sensitivity: Sensitivity,
}

impl SensitivityRule {
    /// Tells whether the name of a tool, a path or a file fits.
    fn fits(&self, name: &str) -> bool {
        let (pattern, name) = (self.pattern.to_lowercase(), name.to_lowercase());
        fits(&pattern, &name) || fits(&format!("*/{pattern}"), &name)
    }
}

/// Tells whether a text is a pattern in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(end)
}

impl EngineSettings {
    /// The sensitivity of content with these names: its tool's, its file's. Of several rules the strictest counts.
    pub fn sensitivity_of<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Sensitivity {
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let fitting = self.sensitivity_rules.iter().filter(|rule| names.iter().any(|name| rule.fits(name)));
        fitting.map(|rule| rule.sensitivity).max().unwrap_or(self.retention.sensitivity)
    }
}

impl EngineSettings {
    /// The settings of a policy.
    pub fn new(policy: Policy) -> Self {
        EngineSettings {
            policy,
            auto: None,
            model: None,
            window: None,
            background: Background::Off,
            jobs: Jobs::default(),
            retention: ArtifactRetention::default(),
            sensitivity_rules: Vec::new(),
            auto_rehydrate: vec![Sensitivity::Public, Sensitivity::Internal],
            recall_tokens: Tokens::new(2000),
            summary_cache: Duration::from_secs(30 * 24 * 3600),
            store_timeout: Duration::from_secs(10),
            object_timeout: Duration::from_secs(20),
        }
    }
}

impl EngineSettings {
    /// Takes a policy over, with what these settings say of acting without being asked.
    pub(super) fn adopt_policy(&mut self, mut policy: Policy) {
        if let Some(auto) = self.auto {
            policy.trigger.auto = auto == AutoCompaction::On;
        }
        self.policy = policy;
    }

    /// Tells whether a prompt that its provider refused as too long is made smaller and sent again.
    pub fn compacts_on_overflow(&self) -> bool {
        self.auto != Some(AutoCompaction::Off)
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        EngineSettings::new(preset("ladder").expect("the default preset is there"))
    }
}

#[cfg(test)]
mod tests {
    use super::{EngineSettings, SensitivityRule};
    use crate::store::Sensitivity;

    #[test]
    fn content_is_as_sensitive_as_the_strictest_rule_for_its_tool_or_path_says() {
        let rule = |pattern: &str, sensitivity| SensitivityRule { pattern: pattern.to_owned(), sensitivity };
        let settings = EngineSettings {
            sensitivity_rules: vec![
                rule("crm_*", Sensitivity::Confidential),
                rule("secrets/*", Sensitivity::Restricted),
                rule("*.pem", Sensitivity::Restricted),
                rule("ls", Sensitivity::Public),
                rule("notes/a.md", Sensitivity::Confidential),
            ],
            ..EngineSettings::default()
        };
        let cases: [(&[&str], Sensitivity); 9] = [
            (&["crm_lookup"], Sensitivity::Confidential),
            (&["CRM_Lookup", "/w/secrets/key.txt"], Sensitivity::Restricted),
            (&["read", "/w/tls/server.pem"], Sensitivity::Restricted),
            (&["read", "secrets/key.txt"], Sensitivity::Restricted),
            (&["read", "/w/secrets.md"], Sensitivity::Internal),
            (&["ls"], Sensitivity::Public),
            (&["/w/notes/a.md"], Sensitivity::Confidential),
            (&["/w/notes/aa.md"], Sensitivity::Internal),
            (&[], Sensitivity::Internal),
        ];
        for (names, expected) in cases {
            assert_eq!(settings.sensitivity_of(names.iter().copied()), expected, "{names:?}");
        }
    }
}
