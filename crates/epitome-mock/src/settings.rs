//! What a mock is told once.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use epitome::budget::Tokens;

use super::faults::ProviderFault;

/// What a mock is told once.
#[derive(Clone, Debug)]
pub struct MockSettings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The window of every model that names none itself (`-32k`); without one, that of the library's list.
    pub window: Option<Tokens>,
    /// How an overflow is told, in the place of the protocol's own way.
    pub overflow: Option<ProviderFault>,
    /// Whether the output that a request reserves counts against the window; without one, the shape of the overflow
    /// decides.
    pub counts_output: Option<bool>,
    /// Whether rules that only some back-ends have are enforced for every model.
    pub pedantic: bool,
    /// Skips rules, counts, cache and records: reads the body and answers, for measurements.
    pub lax: bool,
    /// The tool calls it makes an agent work through.
    pub work: MockWork,
    /// How fast it answers.
    pub timing: Timing,
    /// How the prefix cache works.
    pub cache: CacheRules,
    /// What tokens cost.
    pub prices: TokenPrices,
    /// The largest request body.
    pub body_bytes_max: usize,
    /// The most requests that are remembered; the oldest are forgotten first.
    pub records_max: usize,
}

/// The tool calls a mock makes an agent work through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockWork {
    /// How many turns with tool calls each key gets; none: only text.
    pub turns: u64,
    /// About how many bytes each call puts out.
    pub bytes: usize,
    /// The file that reading tools are pointed at, where there is no tool that runs commands.
    pub file: Option<PathBuf>,
    /// Whether the gateway's own tools are called now and then.
    pub gateway_tools: bool,
}

/// How fast a mock answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the request to the first token.
    pub first_token: Duration,
    /// From one token to the next.
    pub between_tokens: Duration,
    /// The tokens of a plain answer; 0: a short sentence.
    pub answer_tokens: usize,
}

/// How the prefix cache works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// The shortest prefix that is cached.
    pub tokens_min: u64,
    /// How long a prefix lives after its last use; twelve times as long where the mark says an hour.
    pub ttl: Duration,
    /// How many blocks before a mark are looked at.
    pub blocks_back: usize,
}

/// What tokens cost, as a multiple of one uncached input token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrices {
    /// A token read from the cache.
    pub cache_read: f64,
    /// A token written to the cache for five minutes, where the client asked for it.
    pub cache_write: f64,
    /// A token written to the cache for an hour.
    pub cache_write_long: f64,
    /// An output token.
    pub output: f64,
}

impl Default for MockSettings {
    fn default() -> Self {
        MockSettings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            window: None,
            overflow: None,
            counts_output: None,
            pedantic: false,
            lax: false,
            work: MockWork::default(),
            timing: Timing::default(),
            cache: CacheRules::default(),
            prices: TokenPrices::default(),
            body_bytes_max: 32 << 20,
            records_max: 10_000,
        }
    }
}

impl Default for MockWork {
    fn default() -> Self {
        MockWork { turns: 0, bytes: 6_000, file: None, gateway_tools: false }
    }
}

impl Default for CacheRules {
    fn default() -> Self {
        CacheRules { tokens_min: 1_024, ttl: Duration::from_secs(300), blocks_back: 20 }
    }
}

impl Default for TokenPrices {
    fn default() -> Self {
        TokenPrices { cache_read: 0.1, cache_write: 1.25, cache_write_long: 2.0, output: 5.0 }
    }
}
