//! The keys of a policy file, with their defaults.

use serde::{Deserialize, Serialize};

use super::error::PolicyError;
use super::tools::Tools;
use crate::budget::{Threshold, Tokens};
use crate::wire::Voice;

/// A whole policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its version, part of every summary's cache key. Bump it when the policy's meaning changes.
    pub version: u32,
    /// One line for `epitome policy list`.
    pub about: String,
    /// The counter.
    #[serde(default)]
    pub count: CountRules,
    /// The size at which to act.
    pub trigger: TriggerRules,
    /// The part of the window that is not for messages.
    #[serde(default)]
    pub reserve: ReserveRules,
    /// The size to compact to.
    #[serde(default)]
    pub target: TargetRules,
    /// Messages that stay.
    #[serde(default)]
    pub protect: ProtectRules,
    /// The rungs, in the order they are climbed.
    pub rungs: Vec<Rung>,
    /// The externalize rung.
    #[serde(default)]
    pub externalize: ExternalizeRules,
    /// The clear rung.
    #[serde(default)]
    pub clear: ClearRules,
    /// The summarize rung.
    #[serde(default)]
    pub summarize: SummarizeRules,
    /// The trim rung.
    #[serde(default)]
    pub trim: TrimRules,
    /// The summary's place, role and frame.
    #[serde(default)]
    pub render: SummaryLayout,
    /// The prices of the prompt cache.
    #[serde(default)]
    pub price: CachePrices,
    /// The tools' durabilities and classes.
    #[serde(default)]
    pub tools: Tools,
    /// The automatic return of moved-out content.
    #[serde(default)]
    pub rehydrate: RehydrateRules,
}

/// The counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CountRules {
    /// `auto` takes the model's own; else `o200k`, `cl100k`, `estimate`, `chars/4` or `chars/3`.
    pub tokenizer: String,
}

impl Default for CountRules {
    fn default() -> Self {
        CountRules { tokenizer: "auto".into() }
    }
}

/// The size at which to act.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerRules {
    /// Act without being asked.
    #[serde(default = "yes")]
    pub auto: bool,
    /// The size of the prompt from which to act.
    pub at: Threshold,
    /// The window to assume when the model is unknown.
    #[serde(default = "window")]
    pub window: Tokens,
    /// Below this many messages there is nothing to compact.
    #[serde(default)]
    pub messages_min: usize,
}

fn yes() -> bool {
    true
}

fn window() -> Tokens {
    Tokens::new(128_000)
}

/// The part of the window that is not for messages, besides the system prompt and the tool schemas, which are counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReserveRules {
    /// For the answer and for being wrong.
    pub safety: Tokens,
    /// For content that is brought back.
    pub rehydration: Tokens,
}

/// The size to compact to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TargetRules {
    /// The low-water mark, as a share of the trigger.
    pub low_water: f64,
}

impl Default for TargetRules {
    fn default() -> Self {
        TargetRules { low_water: 0.5 }
    }
}

/// Messages that stay verbatim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProtectRules {
    /// The newest turns.
    pub recent_turns: u32,
    /// The newest messages.
    pub recent_messages: usize,
    /// The newest tokens, in whole exchanges.
    pub recent_tokens: Tokens,
    /// The newest tokens, as a share of the target.
    pub recent_share: f64,
    /// The most that the rules above may keep, as a share of the target; a larger tail is cut inside its turn.
    pub tail_max: f64,
    /// The fewest and the most tokens of `recent_share`.
    pub tail_limit: Option<TailLimits>,
    /// The first thing the user asked for.
    pub first_task: bool,
    /// Words that every prompt must hold.
    pub pins: Vec<String>,
}

/// Bounds of a share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailLimits {
    /// At least.
    pub min: Tokens,
    /// At most.
    pub max: Tokens,
}

impl Default for ProtectRules {
    fn default() -> Self {
        ProtectRules {
            recent_turns: 0,
            recent_messages: 0,
            recent_tokens: Tokens::ZERO,
            recent_share: 0.0,
            tail_max: 1.0,
            tail_limit: None,
            first_task: false,
            pins: Vec::new(),
        }
    }
}

/// One way to make a prompt smaller. The set is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rung {
    /// The same result twice: the older one points to the newer.
    Deduplicate,
    /// A result that a later read or write of the same thing made stale.
    Supersede,
    /// Large results move out; a pointer and a preview stay.
    Externalize,
    /// Older spans become a summary.
    Summarize,
    /// Results are cleared, by their durability.
    Clear,
    /// Older spans go; an index of them stays.
    Drop,
    /// The largest results of the protected tail lose their middle.
    Trim,
}

impl Rung {
    /// The rung's name.
    pub fn name(self) -> &'static str {
        match self {
            Rung::Deduplicate => "deduplicate",
            Rung::Supersede => "supersede",
            Rung::Externalize => "externalize",
            Rung::Summarize => "summarize",
            Rung::Clear => "clear",
            Rung::Drop => "drop",
            Rung::Trim => "trim",
        }
    }
}

/// The externalize rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalizeRules {
    /// Results from this size on move out.
    pub tokens_min: Tokens,
    /// The tokens of the beginning that stay as a preview.
    pub preview: Tokens,
    /// The way in which the model gets the rest back.
    pub by: ReadBy,
}

/// The way in which a model gets back what moved out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadBy {
    /// It calls a tool, and the placeholder says which.
    #[default]
    Tool,
    /// It has no such tool, and the placeholder does not speak of one.
    Nobody,
}

impl ReadBy {
    /// Tells whether it is the default, which stored plans leave out.
    pub fn is_default(&self) -> bool {
        *self == ReadBy::default()
    }
}

impl Default for ExternalizeRules {
    fn default() -> Self {
        ExternalizeRules { tokens_min: Tokens::new(1000), preview: Tokens::new(60), by: ReadBy::Tool }
    }
}

/// The clear rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClearRules {
    /// The newest tokens of tool output that are never cleared.
    pub protect: Tokens,
    /// Clear only when at least this much is gained.
    pub minimum: Tokens,
    /// The newest turns that are never touched.
    pub skip_turns: u32,
    /// The newest results that are never cleared.
    pub keep_last: usize,
    /// Tools whose results are never cleared.
    pub exempt: Vec<String>,
    /// Words in place of the result; empty: the envelope's own placeholder.
    pub placeholder: String,
    /// Durability decides; if not, everything outside the protections may go.
    pub by_durability: bool,
    /// It acts below the trigger too, as soon as its minimum is reached.
    pub eager: bool,
}

impl Default for ClearRules {
    fn default() -> Self {
        ClearRules {
            protect: Tokens::ZERO,
            minimum: Tokens::ZERO,
            skip_turns: 0,
            keep_last: 0,
            exempt: Vec::new(),
            placeholder: String::new(),
            by_durability: true,
            eager: false,
        }
    }
}

/// The summarize rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SummarizeRules {
    /// The summary's size as a share of what it stands for.
    pub ratio: f64,
    /// The most tokens a summary may take; 0: no bound of its own.
    pub tokens_max: Tokens,
    /// When less than this share of the prompt may stay, the summary comes before all other rungs: pointers and
    /// placeholders would be most of what is left.
    pub first_below: f64,
    /// The layout of the summary.
    pub form: SummaryForm,
    /// User messages of the span that stay verbatim, newest first, up to this many tokens.
    pub user_messages: Tokens,
    /// The most characters of one part that a model's summarizer is shown.
    pub part_chars_max: usize,
    /// The most characters of a transcript in one request; longer ones are chunked.
    pub chunk_chars_max: usize,
    /// A summary above this size is itself rolled up.
    pub rollup: Tokens,
    /// Words in front of the user's own instructions to the summarizer.
    pub focus: String,
}

impl Default for SummarizeRules {
    fn default() -> Self {
        SummarizeRules {
            ratio: 0.25,
            tokens_max: Tokens::ZERO,
            first_below: 0.35,
            form: SummaryForm::Structured,
            user_messages: Tokens::ZERO,
            part_chars_max: 2000,
            chunk_chars_max: 120_000,
            rollup: Tokens::new(80_000),
            focus: String::new(),
        }
    }
}

/// The layout of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryForm {
    /// Sections of facts, decisions, open items, artifacts and outcomes.
    Structured,
    /// Structured, with the digest of what tools did and an inventory of what was hidden.
    Digest,
    /// A round-numbered session summary with a table of completed work.
    Session,
    /// Key facts, conversation flow, open threads, and a capped state.
    Workstream,
    /// Goal, constraints, progress, decisions, next steps, critical context, files.
    Handoff,
}

/// The trim rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrimRules {
    /// The tokens of a trimmed part that stay, head and tail together.
    pub keep: Tokens,
    /// The same as a share of the target; the smaller of the two counts.
    pub keep_share: f64,
}

impl Default for TrimRules {
    fn default() -> Self {
        TrimRules { keep: Tokens::new(2000), keep_share: 0.06 }
    }
}

impl TrimRules {
    /// Returns the tokens that stay of a trimmed part, in a prompt that is brought down to `target`.
    pub fn clip(&self, target: Tokens) -> Tokens {
        self.keep.min(target.share(self.keep_share)).max(Tokens::new(24))
    }
}

/// The summary's place, role and frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SummaryLayout {
    /// The role that it speaks in. A dialect that forbids it gets the user's.
    pub role: Voice,
    /// Its place.
    pub place: SummaryPlace,
    /// Words in front of the summary.
    pub prefix: String,
    /// Words after it.
    pub suffix: String,
    /// A user message that the summary answers; empty: none.
    pub question: String,
    /// Cache checkpoints are placed before the tail and at it.
    pub checkpoints: bool,
}

impl SummaryLayout {
    /// Puts the policy's words around a summary's text.
    pub fn wrap(&self, text: &str) -> String {
        format!("{}{text}{}", self.prefix, self.suffix)
    }
}

impl Default for SummaryLayout {
    fn default() -> Self {
        SummaryLayout {
            role: Voice::Assistant,
            place: SummaryPlace::Span,
            prefix: String::new(),
            suffix: String::new(),
            question: String::new(),
            checkpoints: false,
        }
    }
}

/// The place of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryPlace {
    /// At the first position of its span.
    Span,
    /// At the end of its span: after the messages of it that stayed, before the tail.
    Cut,
}

/// The prices of the prompt cache, relative to uncached input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CachePrices {
    /// A cached token.
    pub read: f64,
    /// A token written to the cache.
    pub write: f64,
    /// The cache's lifetime.
    pub ttl_s: u64,
    /// The calls that the thread is expected to make after this one.
    pub calls_expected: u32,
}

impl Default for CachePrices {
    fn default() -> Self {
        CachePrices { read: 0.1, write: 1.25, ttl_s: 300, calls_expected: 20 }
    }
}

/// The automatic return of moved-out content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RehydrateRules {
    /// Content comes back by itself.
    pub enabled: bool,
    /// The most artifacts in one turn.
    pub artifacts_max: usize,
    /// The most tokens of one artifact.
    pub tokens_max: Tokens,
    /// The most tokens together.
    pub total: Tokens,
    /// Turns before the same artifact may come again.
    pub cooldown_turns: u32,
}

impl Default for RehydrateRules {
    fn default() -> Self {
        RehydrateRules {
            enabled: true,
            artifacts_max: 3,
            tokens_max: Tokens::new(4000),
            total: Tokens::new(8000),
            cooldown_turns: 2,
        }
    }
}

impl Policy {
    /// Reads and checks a policy.
    pub fn parse(toml: &str) -> Result<Policy, PolicyError> {
        let policy: Policy = toml::from_str(toml).map_err(|error| PolicyError::from_toml(toml, &error))?;
        policy.check(toml)?;
        Ok(policy)
    }

    /// Returns the policy's name and version, as plans and cache keys have it.
    pub fn label(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    fn check(&self, toml: &str) -> Result<(), PolicyError> {
        let (share, share_or_none, price) = ((f64::MIN_POSITIVE, 1.0), (0.0, 1.0), (0.0, 10.0));
        let checks = [
            ("target.low_water", self.target.low_water, share),
            ("protect.recent_share", self.protect.recent_share, share_or_none),
            ("protect.tail_max", self.protect.tail_max, share),
            ("summarize.ratio", self.summarize.ratio, share),
            ("trim.keep_share", self.trim.keep_share, share),
            ("summarize.first_below", self.summarize.first_below, share_or_none),
            ("price.read", self.price.read, price),
            ("price.write", self.price.write, price),
        ];
        for (key, value, (min, max)) in checks {
            if !(min..=max).contains(&value) {
                let allowed = match min == 0.0 {
                    true => format!("a number from 0 to {max}"),
                    false => "a number above 0 and up to 1".to_owned(),
                };
                return Err(PolicyError::value(toml, key, &value.to_string(), &allowed));
            }
        }
        self.check_names(toml)
    }

    fn check_names(&self, toml: &str) -> Result<(), PolicyError> {
        let tokenizers = ["auto", "o200k", "cl100k", "estimate", "chars/4", "chars/3"];
        if !tokenizers.contains(&self.count.tokenizer.as_str()) {
            let allowed = format!("one of {}", tokenizers.join(", "));
            return Err(PolicyError::value(toml, "count.tokenizer", &format!("{:?}", self.count.tokenizer), &allowed));
        }
        if self.name.trim().is_empty() {
            return Err(PolicyError::value(toml, "name", "\"\"", "a name"));
        }
        if self.rungs.is_empty() {
            return Err(PolicyError::value(toml, "rungs", "[]", "at least one rung"));
        }
        if self.trigger.window == Tokens::ZERO {
            return Err(PolicyError::value(toml, "trigger.window", "0", "a whole number above 0"));
        }
        for (at, rung) in self.rungs.iter().enumerate() {
            if self.rungs[..at].contains(rung) {
                return Err(PolicyError::value(toml, "rungs", &format!("{:?}", rung.name()), "each rung once"));
            }
        }
        Ok(())
    }
}
