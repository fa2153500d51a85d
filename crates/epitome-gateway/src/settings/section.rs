//! The `serve` section: every setting of the gateway, once.
//!
//! Code reads a setting from here, by the name that it has in the file. A time is a [`Seconds`] or [`Milliseconds`], a size a
//! [`Megabytes`] or [`Kilobytes`]; their value is a `Duration` or a number of bytes.

use std::net::SocketAddr;
use std::path::PathBuf;

use epitome::budget::Tokens;
use epitome_runtime::config::{Kilobytes, Loaded, Megabytes, Milliseconds, Seconds, sections};

use super::values::{ClientSwitch, LogFormat, Persist, RoutedSecret, RoutedUrl, Switch, TenantSecret};
use crate::identity::Program;

const DAY_S: u64 = 86_400;
const TOKENS: u64 = 10_000_000;
/// A prompt below this has no room for a summary and an answer's worth of messages.
const BUDGET_MIN: u64 = 500;

sections! {
    /// The settings of the gateway.
    pub struct GatewayConfig;

    /// The gateway.
    serve: Serve {
        /// The IP address and port to listen on. An address that other machines can reach needs `serve.keys`.
        guarded listen: SocketAddr = "127.0.0.1:8788";
        /// Providers, each as `WHAT=URL`. WHAT is `openai`, `anthropic` or `gemini`, a path such as `/groq`, or a model such as `claude-*`.
        guarded upstreams: Vec<RoutedUrl> = "";
        /// Keys to send to providers instead of the client's own, each as `WHAT=SECRET`; SECRET is `env:NAME`, `file:PATH` or the key itself.
        guarded upstream_keys: Vec<RoutedSecret> = "";
        /// The most tokens of a prompt, if that is less than the model's window.
        free budget: Option<Tokens> = "" in (BUDGET_MIN, TOKENS);
        /// Adds the gateway's own tools to requests: `off` or `on`.
        free tools: Switch = "off";
        /// The same for single clients, such as `claude-code=on`.
        free tools_for: Vec<ClientSwitch> = "";
        /// The gateway's own keys, each as `TENANT=SECRET`; a key gives access to that tenant's data. Without any, every client is the one tenant.
        guarded keys: Vec<TenantSecret> = "";
        /// Requires one of these keys for proxied requests too.
        guarded keys_required: bool = "false";
        /// The TLS certificate, a PEM file; without it, plain HTTP.
        guarded tls_certificate: Option<PathBuf> = "";
        /// The certificate's private key, a PEM file.
        guarded tls_key: Option<PathBuf> = "";
        /// The largest request body in MB.
        guarded body_mb_max: Megabytes = "64" in (1, 4096);
        /// The most MB of request bodies in memory, of all requests together; a request beyond it gets a 503 with `retry-after`.
        guarded body_memory_mb_max: Megabytes = "1024" in (1, 1_048_576);
        /// The largest request head in KB.
        guarded head_kb_max: Kilobytes = "64" in (8, 1024);
        /// The most requests at once.
        guarded requests_max: u64 = "4096" in (1, 1_000_000);
        /// The most MB of threads to cache in memory.
        guarded memory_mb_max: Megabytes = "256" in (1, 1_048_576);
        /// Seconds that a client may take to send a request's head, and may be idle between two requests.
        free head_timeout_s: Seconds = "30" in (1, DAY_S);
        /// Seconds that a client may take between two chunks of its body; the whole body may take ten times as long.
        free body_timeout_s: Seconds = "60" in (1, DAY_S);
        /// Seconds to wait for a connection to a provider.
        free connect_timeout_s: Seconds = "10" in (1, DAY_S);
        /// Seconds to wait for the head of a provider's answer.
        free first_byte_timeout_s: Seconds = "600" in (1, DAY_S);
        /// Seconds to wait between two chunks of a provider's answer.
        free idle_timeout_s: Seconds = "600" in (1, DAY_S);
        /// Milliseconds that one request waits for the store, in total.
        free store_patience_ms: Milliseconds = "2000" in (1, 1000 * DAY_S);
        /// When a request's messages and its answer must be in the store: `before-answer` (before the client gets its last byte) or `after-answer`.
        guarded persist: Persist = "before-answer";
        /// Seconds that open requests may take to finish after the gateway was told to stop.
        free shutdown_grace_s: Seconds = "60" in (0, DAY_S);
        /// The log's format: `text` writes warnings, `json` also one line for each request.
        free log: LogFormat = "text";
    }
}

impl Default for Serve {
    fn default() -> Self {
        Loaded::<GatewayConfig>::defaults().expect("every default is allowed").config.serve
    }
}

impl Serve {
    /// True if a program gets the gateway's own tools without asking for them.
    pub fn gives_tools_to(&self, program: Program) -> bool {
        let by_client = self.tools_for.iter().find(|rule| rule.client == program.name());
        by_client.map_or(self.tools, |rule| rule.switch) == Switch::On
    }

    /// True if some client gets the gateway's own tools without asking for them.
    pub fn gives_tools(&self) -> bool {
        self.tools == Switch::On || self.tools_for.iter().any(|rule| rule.switch == Switch::On)
    }
}
