//! The sections: every setting, once.

use std::net::SocketAddr;
use std::path::PathBuf;

use epitome::budget::Tokens;
use epitome::wire::Dialect;

use super::address::{ArtifactsUrl, HttpUrl, ModelUrl, StoreUrl};
use super::error::ConfigError;
use super::reader::Reader;
use super::secret::SecretSource;
use super::serve::{ClientSwitch, LogFormat, Persist, RoutedSecret, RoutedUrl, Switch, TenantSecret};
use super::setting::{Guard, Key, PresetName, Setting, SummarizerKind};
use crate::ids::TenantId;
use crate::store::Sensitivity;

/// Makes the structs, the table of keys and the reading of them from one list. Each setting says whether it is `free`
/// or `guarded`: see [`Guard`].
macro_rules! sections {
    ($(
        #[doc = $section_about:literal]
        $section:ident: $Section:ident {
            $( #[doc = $about:literal] $guard:ident $field:ident: $Type:ty = $default:literal $(in $range:expr)?; )*
        }
    )*) => {
        /// What the program is told before it begins.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct Config {
            $( #[doc = $section_about] pub $section: $Section, )*
        }

        $(
            #[doc = $section_about]
            #[derive(Clone, Debug, PartialEq)]
            #[non_exhaustive]
            pub struct $Section {
                $( #[doc = $about] pub $field: $Type, )*
            }
        )*

        /// Every setting, in the order of the documentation.
        pub static KEYS: &[Key] = &[$($(
            Key {
                name: concat!(stringify!($section), ".", stringify!($field)),
                shape: <$Type as Setting>::SHAPE,
                default: $default,
                about: $about,
                guard: sections!(@guard $guard),
                range: sections!(@range $($range)?),
            },
        )*)*];

        // A setting that names a place, a program or a secret cannot be declared free.
        $($(
            const _: () = assert!(
                matches!(sections!(@guard $guard), Guard::Guarded) || !<$Type as Setting>::REACHES_OUT,
                concat!(stringify!($section), ".", stringify!($field), " has to be guarded")
            );
        )*)*

        impl Config {
            pub(super) fn read(reader: &mut Reader<'_>) -> Result<Config, ConfigError> {
                Ok(Config {
                    $( $section: $Section {
                        $( $field: reader.take(concat!(stringify!($section), ".", stringify!($field)))?, )*
                    }, )*
                })
            }
        }
    };
    (@guard free) => { Guard::Free };
    (@guard guarded) => { Guard::Guarded };
    (@range) => { (0, u64::MAX) };
    (@range $range:expr) => { $range };
}

const DAY_S: u64 = 86_400;
const CENTURY_DAYS: u64 = 36_500;
const TOKENS: u64 = 10_000_000;
/// A prompt below this has no room for a summary and an answer's worth of messages.
const BUDGET_MIN: u64 = 500;

sections! {
    /// What lasts: threads, plans, events and jobs.
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
        /// How careful to be with content that nothing else is known of: `public`, `internal`, `confidential` or `restricted`.
        guarded sensitivity: Sensitivity = "internal";
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
        /// A policy file, in the place of a preset.
        guarded path: Option<PathBuf> = "";
    }
    /// The model that answers.
    model: Model {
        /// The provider's address, with or without `/v1`; `script:PATH` answers from a file.
        guarded url: Option<ModelUrl> = "";
        /// How it is spoken to: `chat`, `responses` or `anthropic`.
        guarded dialect: Dialect = "chat";
        /// The model's name, as its provider spells it.
        guarded name: Option<String> = "";
        /// Its key: `env:NAME`, `file:PATH`, or the key itself.
        guarded key: Option<SecretSource> = "";
        /// The tokens of its window, where it is not a known model.
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
    /// Who writes summaries.
    summarizer: Summarizer {
        /// `embedded` asks nobody, `model` asks a model, `model-with-fallback` asks a model and writes itself when that fails.
        guarded kind: SummarizerKind = "embedded";
        /// The provider's address; without it, the model's.
        guarded url: Option<ModelUrl> = "";
        /// How it is spoken to; without it, as the model.
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
        /// How many jobs run at once.
        free concurrency: u64 = "2" in (1, 256);
        /// Seconds after which a job that nobody hears of is taken by somebody else.
        free lease_s: u64 = "300" in (1, DAY_S);
        /// How often a job is tried.
        free attempts: u64 = "2" in (1, 100);
        /// Seconds before a job is tried again; twice as many each time.
        free backoff_s: u64 = "3" in (0, DAY_S);
    }
    /// Compaction while the agent works.
    background: Background {
        /// Whether a thread is compacted in the background before it has to be.
        free enabled: bool = "true";
        /// Seconds that a request waits for a compaction that is under way.
        free wait_s: u64 = "30" in (0, DAY_S);
    }
    /// Bringing content back by itself; without a value, the policy decides.
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
    }
    /// Searching what was compacted.
    recall: Recall {
        /// The most tokens of one answer.
        free tokens_max: Tokens = "2000" in (1, TOKENS);
    }
    /// Whom to tell.
    events: Events {
        /// A file that gets one JSON object a line.
        guarded json_lines: Option<PathBuf> = "";
        /// An OpenTelemetry collector that gets spans, such as `http://127.0.0.1:4318`.
        guarded otlp: Option<HttpUrl> = "";
    }
    /// The gateway.
    serve: Serve {
        /// Where it listens: an IP address and a port. Other than on this machine alone only with `serve.keys`.
        guarded listen: SocketAddr = "127.0.0.1:8788";
        /// Providers, each as `WHAT=URL`. WHAT is `openai`, `anthropic` or `gemini`, a path such as `/groq`, or a model such as `claude-*`.
        guarded upstreams: Vec<RoutedUrl> = "";
        /// Keys that providers are sent in the place of the client's own, each as `WHAT=SECRET`; SECRET is `env:NAME`, `file:PATH` or the key itself.
        guarded upstream_keys: Vec<RoutedSecret> = "";
        /// The most tokens of a prompt, where that is less than the model's window.
        free budget: Option<Tokens> = "" in (BUDGET_MIN, TOKENS);
        /// Whether requests get the gateway's own tools: `off` or `on`.
        free tools: Switch = "off";
        /// The same for single clients, such as `claude-code=on`.
        free tools_for: Vec<ClientSwitch> = "";
        /// Keys of the gateway's own and whose data each opens, as `TENANT=SECRET`; without any, whoever reaches it is the one tenant.
        guarded keys: Vec<TenantSecret> = "";
        /// Whether proxied requests need one of these keys too.
        guarded keys_required: bool = "false";
        /// The certificate it shows, as PEM; without it, plain HTTP.
        guarded tls_certificate: Option<PathBuf> = "";
        /// The certificate's key, as PEM.
        guarded tls_key: Option<PathBuf> = "";
        /// The largest request body in MB.
        guarded body_mb_max: u64 = "64" in (1, 4096);
        /// The most MB of request bodies that are held at once, of all requests together; what is over it is told to come back.
        guarded body_memory_mb_max: u64 = "1024" in (1, 1_048_576);
        /// The largest head of a request in KB.
        guarded head_kb_max: u64 = "64" in (8, 1024);
        /// The most requests at once.
        guarded requests_max: u64 = "4096" in (1, 1_000_000);
        /// The most MB of threads that are kept at hand.
        guarded memory_mb_max: u64 = "256" in (1, 1_048_576);
        /// Seconds that a client may take for a request's head, and may be idle between two requests.
        free head_timeout_s: u64 = "30" in (1, DAY_S);
        /// Seconds that a client may take between two pieces of its body; all of it may take ten times as long.
        free body_timeout_s: u64 = "60" in (1, DAY_S);
        /// Seconds to wait for the connection to a provider.
        free connect_timeout_s: u64 = "10" in (1, DAY_S);
        /// Seconds to wait for the head of a provider's answer.
        free first_byte_timeout_s: u64 = "600" in (1, DAY_S);
        /// Seconds to wait between two pieces of a provider's answer.
        free idle_timeout_s: u64 = "600" in (1, DAY_S);
        /// Milliseconds that one request waits for the store, all of its waits together.
        free store_patience_ms: u64 = "2000" in (1, 1000 * DAY_S);
        /// When a request's messages and its answer have to be in the store: `before-answer` (before the client gets the last byte of it) or `after-answer`.
        guarded persist: Persist = "before-answer";
        /// Seconds that answers under way may go on after it was told to stop.
        free shutdown_grace_s: u64 = "60" in (0, DAY_S);
        /// How it tells what it does: `text` tells warnings, `json` also one line for every request.
        free log: LogFormat = "text";
    }
    /// Whose data it is.
    tenant: Tenant {
        /// The tenant of whoever does not say another one.
        guarded id: TenantId = "local";
    }
}
