//! The records that tests read: requests as they came, rules they broke, usage and cost by key.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::Serialize;

use super::cache::InputUsage;
use super::settings::TokenPrices;

/// The most broken rules that are remembered.
const BROKEN_MAX: usize = 10_000;

/// A request that the mock received.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Its method.
    pub method: Method,
    /// Its path, with the query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, byte for byte as it came.
    pub body: Bytes,
    /// The status it was answered with.
    pub status: u16,
    /// The tokens of its prompt, where they were counted.
    pub prompt_tokens: Option<u64>,
}

impl RecordedRequest {
    /// Its body as JSON.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// A rule that a request broke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleViolation {
    /// The rule: `A1`, `auth`, `schema`.
    pub rule: String,
    /// The message that the client got.
    pub message: String,
    /// The path of the request.
    pub path: String,
}

/// The usage and the cost of one API key.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KeyAccount {
    /// Requests that the model answered.
    pub answered: u64,
    /// Requests that were refused for a rule.
    pub refused: u64,
    /// Requests that were too long.
    pub overflowed: u64,
    /// Requests that got a fault.
    pub faulted: u64,
    /// Input tokens, however they were served.
    pub input_tokens: u64,
    /// Of these, read from the cache.
    pub cache_read_tokens: u64,
    /// Of these, written to the cache.
    pub cache_write_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// The cost of everything, in uncached input tokens.
    pub cost: f64,
}

impl KeyAccount {
    pub(crate) fn bill(&mut self, served: &InputUsage, output: u64, prices: &TokenPrices) {
        self.answered += 1;
        self.input_tokens += served.input;
        self.cache_read_tokens += served.read;
        self.cache_write_tokens += served.written + served.written_long;
        self.output_tokens += output;
        self.cost += served.cost(output, prices);
    }
}

/// All records of one mock.
#[derive(Default)]
pub(crate) struct RequestRecords {
    /// The number of requests, including those that are forgotten by now.
    pub(crate) count: u64,
    pub(crate) requests: VecDeque<RecordedRequest>,
    pub(crate) broken: Vec<RuleViolation>,
    pub(crate) accounts: BTreeMap<String, KeyAccount>,
}

impl RequestRecords {
    pub(crate) fn add(&mut self, recorded: RecordedRequest, records_max: usize) {
        self.count += 1;
        if self.requests.len() >= records_max {
            self.requests.pop_front();
        }
        if records_max > 0 {
            self.requests.push_back(recorded);
        }
    }

    /// Notes a broken rule.
    pub(crate) fn note(&mut self, broken: RuleViolation, key: &str) {
        self.account(key).refused += 1;
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(broken);
        }
    }

    pub(crate) fn account(&mut self, key: &str) -> &mut KeyAccount {
        self.accounts.entry(key.to_owned()).or_default()
    }
}
