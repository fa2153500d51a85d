//! The settings of a mock.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use epitome::budget::Tokens;

use super::faults::ProviderFault;

/// The settings of a mock; the default listens on a free local port and has every rule.
#[derive(Clone, Debug)]
pub struct MockSettings {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The window of every model that names none itself (`-32k`); without one, that of the library's list.
    pub window: Option<Tokens>,
    /// The shape of overflow errors; without one, the protocol's own.
    pub overflow: Option<ProviderFault>,
    /// True if reserved output counts against the window; without it, the overflow's shape decides.
    pub counts_output: Option<bool>,
    /// Enforces rules that only some back-ends have, for every model.
    pub pedantic: bool,
    /// Skips rules, counts, cache and records: reads the body and answers, for measurements.
    pub lax: bool,
    /// The tool calls it makes an agent work through.
    pub work: MockWork,
    /// The pace of answers.
    pub timing: Timing,
    /// The rules of the prefix cache.
    pub cache: CacheRules,
    /// The prices of tokens.
    pub prices: TokenPrices,
    /// The largest request body.
    pub body_bytes_max: usize,
    /// The most requests that are remembered; the oldest are forgotten first.
    pub records_max: usize,
}

/// The tool calls a mock makes an agent work through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockWork {
    /// The number of turns with tool calls that each key gets; 0 means text only.
    pub turns: u64,
    /// About how many bytes each call puts out.
    pub bytes: usize,
    /// The file that reading tools are pointed at, where there is no tool that runs commands.
    pub file: Option<PathBuf>,
    /// Calls the gateway's own tools now and then.
    pub gateway_tools: bool,
}

/// The pace of a mock's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the request to the first token.
    pub first_token: Duration,
    /// From one token to the next.
    pub between_tokens: Duration,
    /// The tokens of a plain answer; 0: a short sentence.
    pub answer_tokens: usize,
}

/// The rules of the prefix cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// The shortest prefix that is cached.
    pub tokens_min: u64,
    /// The lifetime of a prefix after its last use; twelve times this if the mark says an hour.
    pub ttl: Duration,
    /// The number of blocks before a mark that are searched for a known prefix.
    pub blocks_back: usize,
}

/// Prices of tokens, as multiples of one uncached input token.
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
