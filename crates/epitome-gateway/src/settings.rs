//! What a gateway is told once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use epitome::budget::Tokens;
use epitome_runtime::ids::TenantId;
use epitome_runtime::model::Secret;

/// What a gateway is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who answers which request; the first that fits does.
    pub upstreams: Vec<Upstream>,
    /// The most tokens of a prompt, where that is less than the model's window.
    pub budget: Option<Tokens>,
    /// Whose requests get the gateway's own tools.
    pub tools: ToolRules,
    /// Who may use the gateway's own endpoints, and whose data they see; empty: whoever reaches it, as the one tenant.
    pub keys: Vec<ApiKey>,
    /// Whether a request without one of these keys is turned away, the proxied ones included.
    pub keys_required: bool,
    /// Whose data it is where no key says otherwise.
    pub tenant: TenantId,
    /// How much of anything it takes.
    pub limits: Limits,
    /// The certificate it shows; plain HTTP without one.
    pub tls: Option<TlsFiles>,
}

/// A provider.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Which requests it gets.
    pub takes: Takes,
    /// Its address: scheme, host, and a path that the request's own path comes behind.
    pub url: http::Uri,
    /// The key it is sent in the place of the client's own.
    pub key: Option<Secret>,
}

/// Which requests an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Those under a path, which is taken off: `/groq`.
    Path(String),
    /// Those for models with such a name: `claude-*`.
    Model(String),
    /// Those that speak as this provider does.
    Family(Family),
}

/// Whose endpoints a path belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `/v1/chat/completions`, `/v1/responses`, and whatever is nobody else's.
    OpenAi,
    /// `/v1/messages`, and requests with an `anthropic-version`.
    Anthropic,
    /// `/v1beta/…`.
    Gemini,
}

/// Whose requests get the gateway's own tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Those of clients that are not named below.
    pub others: bool,
    /// Clients by name, such as `claude-code` or `codex`, and whether theirs do.
    pub clients: Vec<(String, bool)>,
}

/// A key of the gateway's own.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Whose data it opens.
    pub tenant: TenantId,
    /// The key.
    pub secret: Secret,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, as PEM.
    pub certificate: PathBuf,
    /// The key, as PEM.
    pub key: PathBuf,
}

/// How much of anything a gateway takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body, as it comes and unpacked.
    pub body_bytes_max: usize,
    /// The most bytes of a request's head.
    pub head_bytes_max: usize,
    /// The most requests at once.
    pub requests_max: usize,
    /// The most bytes of threads that are kept at hand.
    pub memory_bytes_max: usize,
    /// How long a client may take for its head.
    pub head_timeout: Duration,
    /// How long a client may take between two pieces of its body.
    pub body_timeout: Duration,
    /// How long an upstream may take to connect.
    pub connect_timeout: Duration,
    /// How long an upstream may take for the head of its answer.
    pub first_byte_timeout: Duration,
    /// How long an upstream may take between two pieces of its answer.
    pub idle_timeout: Duration,
    /// How long the store may keep a request from going out.
    pub store_patience: Duration,
    /// How long streams may go on after the gateway was told to stop.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes_max: 64 << 20,
            head_bytes_max: 64 << 10,
            requests_max: 4096,
            memory_bytes_max: 256 << 20,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(600),
            store_patience: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(60),
        }
    }
}
