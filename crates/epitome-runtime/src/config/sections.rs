//! The runtime's sections: every setting, once.

use std::path::PathBuf;

use epitome::budget::Tokens;
use epitome::wire::Dialect;

use super::address::{ArtifactsUrl, HttpUrl, ModelUrl, StoreUrl};
use super::secret::SecretSource;
use super::setting::{PresetName, SummarizerKind};
use crate::engine::{AutoCompaction, SensitivityRule};
use crate::ids::TenantId;
use crate::store::Sensitivity;

const DAY_S: u64 = 86_400;
const CENTURY_DAYS: u64 = 36_500;
const TOKENS: u64 = 10_000_000;

crate::sections! {
    /// The settings of the runtime.
    pub struct Config, checked by Config::resolve_policy;

    /// Threads, plans, events and jobs.
    store: Store {
        /// Where: `sqlite:PATH`, `postgres://…` or `memory:`.
        guarded url: StoreUrl = "sqlite:$DATA/epitome.db";
    }
    /// Content that was moved out of prompts.
    artifacts: Artifacts {
        /// Where: a folder, `s3://BUCKET/PREFIX` or `memory:`.
        guarded url: ArtifactsUrl = "$BESIDE";
        /// Days after which an artifact expires; without it, never.
        guarded ttl_days: Option<u64> = "" in (1, CENTURY_DAYS);
        /// How careful to be with content by default: `public`, `internal`, `confidential` or `restricted`.
        guarded sensitivity: Sensitivity = "internal";
        /// Other sensitivities by tool or path, such as `crm_*=confidential` or `secrets/*=restricted`; the strictest that fits counts.
        guarded sensitivity_of: Vec<SensitivityRule> = "";
    }
    /// The keys that content is sealed with.
    keys: Keys {
        /// The key that seals: `env:NAME`, `file:PATH`, or the key itself as its name, a colon and its secret; without it, nothing is sealed.
        guarded current: Option<SecretSource> = "";
        /// Keys that only open what was sealed before.
        guarded older: Vec<SecretSource> = "";
    }
    /// When to compact, and how.
    policy: Policy {
        /// A preset.
        free name: PresetName = "ladder";
        /// A policy file, instead of a preset.
        guarded path: Option<PathBuf> = "";
        /// What is compacted without being asked for it: `on` (whatever is above the trigger), `overflow` (what a provider refused as too long) or `off`; without it, the policy decides.
        free auto: Option<AutoCompaction> = "";
    }
    /// The model that answers.
    model: Model {
        /// The provider's address, with or without `/v1`; `script:PATH` answers from a file.
        guarded url: Option<ModelUrl> = "";
        /// Its API: `chat`, `responses` or `anthropic`.
        guarded dialect: Dialect = "chat";
        /// The model's name, as its provider spells it.
        guarded name: Option<String> = "";
        /// Its key: `env:NAME`, `file:PATH`, or the key itself.
        guarded key: Option<SecretSource> = "";
        /// The tokens of its window, if the model is not a known one.
        free window: Option<Tokens> = "" in (1, TOKENS);
        /// Seconds to wait for the connection.
        free connect_timeout_s: u64 = "10" in (1, DAY_S);
        /// Seconds to wait for the first byte of a stream.
        free first_byte_timeout_s: u64 = "120" in (1, DAY_S);
        /// Seconds to wait between two pieces of a stream.
        free idle_timeout_s: u64 = "120" in (1, DAY_S);
        /// Seconds to wait for a whole answer.
        free timeout_s: u64 = "600" in (1, DAY_S);
    }
    /// The writer of summaries.
    summarizer: Summarizer {
        /// `embedded` calls no model, `model` calls one, `model-with-fallback` calls one and falls back to `embedded` if that fails.
        guarded kind: SummarizerKind = "embedded";
        /// The provider's address; without it, the model's.
        guarded url: Option<ModelUrl> = "";
        /// Its API; without it, the model's.
        guarded dialect: Option<Dialect> = "";
        /// The model's name; without it, the model's.
        guarded name: Option<String> = "";
        /// Its key; without it the model's, unless there is another address.
        guarded key: Option<SecretSource> = "";
        /// Seconds to wait for a summary.
        free timeout_s: u64 = "60" in (1, DAY_S);
        /// Days that a summary is kept for the same request; 0 keeps none.
        guarded cache_days: u64 = "30" in (0, CENTURY_DAYS);
    }
    /// Background work.
    jobs: Jobs {
        /// Jobs that run at once.
        free concurrency: u64 = "2" in (1, 256);
        /// Seconds without a heartbeat before another worker takes a job.
        free lease_s: u64 = "300" in (1, DAY_S);
        /// Attempts for each job.
        free attempts: u64 = "2" in (1, 100);
        /// Seconds before a job is tried again; doubled each time.
        free backoff_s: u64 = "3" in (0, DAY_S);
    }
    /// Compaction while the agent works.
    background: Background {
        /// Whether threads are compacted in the background before they must be.
        free enabled: bool = "true";
        /// Seconds that a request waits for a running compaction.
        free wait_s: u64 = "30" in (0, DAY_S);
    }
    /// Bringing content back automatically; without a value, the policy decides.
    rehydrate: Rehydrate {
        /// Whether content is brought back.
        free enabled: Option<bool> = "";
        /// The most artifacts in one turn.
        free artifacts_max: Option<u64> = "" in (0, 1000);
        /// The most tokens of one artifact.
        free tokens_max: Option<Tokens> = "" in (0, TOKENS);
        /// The most tokens together.
        free total: Option<Tokens> = "" in (0, TOKENS);
        /// Turns before the same artifact may come again.
        free cooldown_turns: Option<u64> = "" in (0, 1_000_000);
        /// The sensitivities of content that is brought back; other content is read on purpose only.
        guarded sensitivities: Vec<Sensitivity> = "public, internal";
    }
    /// Searching what was compacted.
    recall: Recall {
        /// The most tokens of one answer.
        free tokens_max: Tokens = "2000" in (1, TOKENS);
    }
    /// Searching by meaning beside words. The text of what was compacted is sent to this endpoint.
    embeddings: Embeddings {
        /// The address of an endpoint that speaks OpenAI's `/v1/embeddings`, with or without `/v1`; without it, words alone are searched.
        guarded url: Option<HttpUrl> = "";
        /// The embedding model's name, as its provider spells it.
        guarded name: Option<String> = "";
        /// Its key: `env:NAME`, `file:PATH`, or the key itself.
        guarded key: Option<SecretSource> = "";
        /// The numbers of a vector, if the model can make shorter ones than its own.
        guarded dimensions: Option<u64> = "" in (1, 16_000);
        /// The most passages of one request.
        guarded batch: u64 = "32" in (1, 2048);
        /// Seconds to wait for the vectors of passages.
        free timeout_s: u64 = "30" in (1, DAY_S);
        /// Seconds that a search waits for the vector of its words; then it searches words alone.
        free search_timeout_s: u64 = "3" in (1, DAY_S);
    }
    /// Where events go.
    events: Events {
        /// A file that gets one JSON object a line.
        guarded json_lines: Option<PathBuf> = "";
        /// An OpenTelemetry collector that gets spans, such as `http://127.0.0.1:4318`.
        guarded otlp: Option<HttpUrl> = "";
    }
    /// The owner of the data.
    tenant: Tenant {
        /// The tenant, unless a request or a command names another.
        guarded id: TenantId = "local";
    }
}
