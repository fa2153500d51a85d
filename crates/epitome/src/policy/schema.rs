//! The keys of a policy file, with their defaults.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::PolicyError;
use super::tools::Tools;
use crate::budget::{ModelName, Threshold, Tokens};
use crate::wire::Voice;

/// Declares tables of a policy file, each key with its default beside it.
macro_rules! rules {
    ($($(#[$about:meta])* pub struct $table:ident { $($(#[$doc:meta])* pub $key:ident: $kind:ty = $default:expr,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $table {
            $($(#[$doc])* pub $key: $kind,)*
        }

        impl Default for $table {
            fn default() -> Self {
                $table { $($key: $default,)* }
            }
        }
    )*};
}

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

rules! {
    /// The counter.
    pub struct CountRules {
        /// `auto` takes the model's own; else `o200k`, `cl100k`, `estimate`, `chars/4` or `chars/3`.
        pub tokenizer: String = "auto".into(),
    }

    /// The part of the window that is not for messages, besides the system prompt and the tool schemas, which are counted.
    pub struct ReserveRules {
        /// For the answer and for being wrong.
        pub safety: Tokens = Tokens::ZERO,
        /// For content that is brought back.
        pub rehydration: Tokens = Tokens::ZERO,
    }

    /// The size to compact to.
    pub struct TargetRules {
        /// The low-water mark, as a share of the trigger.
        pub low_water: f64 = 0.5,
    }

    /// Messages that stay verbatim.
    pub struct ProtectRules {
        /// The newest turns.
        pub recent_turns: u32 = 0,
        /// The newest messages.
        pub recent_messages: usize = 0,
        /// The newest tokens, in whole exchanges.
        pub recent_tokens: Tokens = Tokens::ZERO,
        /// The newest tokens, as a share of the target.
        pub recent_share: f64 = 0.0,
        /// The most that the rules above may keep, as a share of the target; a larger tail is cut inside its turn.
        pub tail_max: f64 = 1.0,
        /// The same where an exact size was asked for, such as a budget, and nothing lies between target and limit.
        pub tail_max_exact: Option<f64> = None,
        /// The places where a tail of tokens or of a share may begin.
        pub cut: CutPlace = CutPlace::Exchange,
        /// The fewest and the most tokens of `recent_share`.
        pub tail_limit: Option<TailLimits> = None,
        /// The first thing the user asked for.
        pub first_task: bool = false,
        /// Words that every prompt must hold.
        pub pins: Vec<String> = Vec::new(),
    }

    /// The externalize rung.
    pub struct ExternalizeRules {
        /// Results from this size on move out.
        pub tokens_min: Tokens = Tokens::new(1000),
        /// The tokens of the beginning that stay as a preview.
        pub preview: Tokens = Tokens::new(60),
        /// The way in which the model gets the rest back.
        pub by: ReadBy = ReadBy::Tool,
    }

    /// The clear rung.
    pub struct ClearRules {
        /// The newest tokens of tool output that are never cleared.
        pub protect: Tokens = Tokens::ZERO,
        /// Clear only when at least this much is gained.
        pub minimum: Tokens = Tokens::ZERO,
        /// The newest turns that are never touched.
        pub skip_turns: u32 = 0,
        /// The newest results that are never cleared.
        pub keep_last: usize = 0,
        /// Tools whose results are never cleared.
        pub exempt: Vec<String> = Vec::new(),
        /// Words in place of the result; empty: the envelope's own placeholder.
        pub placeholder: String = String::new(),
        /// Durability decides; if not, everything outside the protections may go.
        pub by_durability: bool = true,
        /// It acts below the trigger too, as soon as its minimum is reached.
        pub eager: bool = false,
    }

    /// The summarize rung.
    pub struct SummarizeRules {
        /// The summary's size as a share of what it stands for.
        pub ratio: f64 = 0.25,
        /// The most tokens a summary may take; 0: no bound of its own.
        pub tokens_max: Tokens = Tokens::ZERO,
        /// When less than this share of the prompt may stay, the summary comes before all other rungs: pointers and
        /// placeholders would be most of what is left.
        pub first_below: f64 = 0.35,
        /// The layout of the summary.
        pub form: SummaryForm = SummaryForm::Structured,
        /// User messages of the span that stay verbatim, newest first, up to this many tokens.
        pub user_messages: Tokens = Tokens::ZERO,
        /// The most characters of one part that a model's summarizer is shown.
        pub part_chars_max: usize = 2000,
        /// The most characters of a transcript in one request; longer ones are chunked.
        pub chunk_chars_max: usize = 120_000,
        /// A summary above this size is itself rolled up.
        pub rollup: Tokens = Tokens::new(80_000),
        /// The most tokens of a model's answer; 0: a quarter more than the summary may take.
        pub answer_max: Tokens = Tokens::ZERO,
        /// The temperature of a model's answer; without one, the model's own.
        pub temperature: Option<f64> = None,
        /// Words in front of the user's own instructions to the summarizer.
        pub focus: String = String::new(),
    }

    /// The trim rung.
    pub struct TrimRules {
        /// The tokens of a trimmed part that stay, head and tail together.
        pub keep: Tokens = Tokens::new(2000),
        /// The same as a share of the target; the smaller of the two counts.
        pub keep_share: f64 = 0.06,
    }

    /// The summary's place, role and frame.
    pub struct SummaryLayout {
        /// The role that it speaks in. A dialect that forbids it gets the user's.
        pub role: Voice = Voice::Assistant,
        /// Its place.
        pub place: SummaryPlace = SummaryPlace::Span,
        /// Words in front of the summary.
        pub prefix: String = String::new(),
        /// Words after it.
        pub suffix: String = String::new(),
        /// A user message that the summary answers, where it speaks as the assistant; empty: none.
        pub question: String = String::new(),
        /// A user message after the tail of a compaction that nobody asked for, unless the tail ends with a request; empty: none.
        pub resume: String = String::new(),
        /// Cache checkpoints are placed before the tail and at it.
        pub checkpoints: bool = false,
    }

    /// The prices of the prompt cache, relative to uncached input.
    pub struct CachePrices {
        /// A cached token.
        pub read: f64 = 0.1,
        /// A token written to the cache.
        pub write: f64 = 1.25,
        /// The cache's lifetime.
        pub ttl_s: u64 = 300,
        /// The calls that the thread is expected to make after this one.
        pub calls_expected: u32 = 20,
    }

    /// The automatic return of moved-out content.
    pub struct RehydrateRules {
        /// Content comes back by itself.
        pub enabled: bool = true,
        /// The most artifacts in one turn.
        pub artifacts_max: usize = 3,
        /// The most tokens of one artifact.
        pub tokens_max: Tokens = Tokens::new(4000),
        /// The most tokens together.
        pub total: Tokens = Tokens::new(8000),
        /// Turns before the same artifact may come again.
        pub cooldown_turns: u32 = 2,
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
    /// The same for single models, by their names; a longer name counts before a shorter one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, Threshold>,
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

crate::named_enum! {
    /// The places where a tail of tokens or of a share may begin.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CutPlace {
        /// At any exchange.
        Exchange = "exchange",
        /// Where a turn begins, if that keeps most of what an exchange would; else at an exchange.
        NearTurn = "near-turn",
        /// Where a turn begins, as long as `tail_max` has room for the newest turn.
        Turn = "turn",
    }
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

crate::named_enum! {
    /// One way to make a prompt smaller. The set is closed.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Rung {
        /// The same result twice: the older one points to the newer.
        Deduplicate = "deduplicate",
        /// A result that a later read or write of the same thing made stale.
        Supersede = "supersede",
        /// Large results move out; a pointer and a preview stay.
        Externalize = "externalize",
        /// Older spans become a summary.
        Summarize = "summarize",
        /// Results are cleared, by their durability.
        Clear = "clear",
        /// Older spans go; an index of them stays.
        Drop = "drop",
        /// The largest results of the protected tail lose their middle.
        Trim = "trim",
    }
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

impl TrimRules {
    /// Returns the tokens that stay of a trimmed part, in a prompt that is brought down to `target`.
    pub fn clip(&self, target: Tokens) -> Tokens {
        self.keep.min(target.share(self.keep_share)).max(Tokens::new(24))
    }
}

impl SummaryLayout {
    /// Puts the policy's words around a summary's text.
    pub fn wrap(&self, text: &str) -> String {
        format!("{}{text}{}", self.prefix, self.suffix)
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

impl Policy {
    /// Reads and checks a policy.
    pub fn parse(toml: &str) -> Result<Policy, PolicyError> {
        let policy: Policy = toml::from_str(toml).map_err(|error| PolicyError::from_toml(toml, &error))?;
        policy.check(toml)?;
        Ok(policy)
    }

    /// Tells whether its summaries are for a new thread: the user's instructions are then that thread's goal.
    pub fn is_handoff(&self) -> bool {
        self.summarize.form == SummaryForm::Handoff && !self.summarize.focus.is_empty()
    }

    /// Returns the policy's name and version, as plans and cache keys have it.
    pub fn label(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Returns the policy with the threshold of a model, where it has one of its own.
    pub fn for_model(&self, model: Option<&str>) -> Cow<'_, Policy> {
        let Some(name) = model.map(ModelName::new) else { return Cow::Borrowed(self) };
        let named = self.trigger.models.iter().filter(|(known, _)| name.is(&ModelName::new(known)));
        let Some((_, at)) = named.max_by_key(|(known, _)| known.len()) else { return Cow::Borrowed(self) };
        let mut policy = self.clone();
        policy.trigger.at = *at;
        Cow::Owned(policy)
    }

    fn check(&self, toml: &str) -> Result<(), PolicyError> {
        let (share, share_or_none, price) = ((f64::MIN_POSITIVE, 1.0), (0.0, 1.0), (0.0, 10.0));
        let checks = [
            ("target.low_water", self.target.low_water, share),
            ("protect.recent_share", self.protect.recent_share, share_or_none),
            ("protect.tail_max", self.protect.tail_max, share),
            ("protect.tail_max_exact", self.protect.tail_max_exact.unwrap_or(1.0), share),
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
