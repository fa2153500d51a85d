//! The catalog of faults: every way a provider reports an overflow, errors that look like one and are none, and broken
//! answers.
//!
//! A fault is found by its name. Its words are in `shapes.rs`; this file holds the types and the lookup.

mod catalog;
mod shapes;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::encode::SseFrame;
use super::endpoint::ProviderProtocol;
use super::request::AnswerSeed;
use catalog::CATALOG;

/// One way in which a provider fails, by its name in the catalog.
#[derive(Clone, Copy, PartialEq)]
pub struct ProviderFault {
    row: &'static CatalogEntry,
    argument: Option<u64>,
}

/// The class of a fault, as a client should treat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request is too long for the window.
    Overflow,
    /// It speaks of sizes, but a shorter context is not what is asked for: a rate, a quota, a field.
    LooksLikeOverflow,
    /// The answer breaks.
    Broken,
}

/// A row of the catalog.
struct CatalogEntry {
    name: &'static str,
    kind: FaultKind,
    /// True if the provider counts the reserved output against the window.
    counts_output: bool,
    /// One line for `epitome mock --list`.
    summary: &'static str,
    act: FaultAction,
}

impl PartialEq for CatalogEntry {
    fn eq(&self, other: &CatalogEntry) -> bool {
        self.name == other.name
    }
}

/// The effect of a fault.
#[derive(Clone, Copy)]
enum FaultAction {
    /// Sends an error instead of the answer.
    Tell(fn(&RequestFacts<'_>) -> FaultResponse),
    /// Answers with status 200 and hides that the prompt did not fit.
    Pretend(HiddenOverflow),
    /// Answers, and disturbs the delivery.
    Deliver(fn(Option<u64>) -> Delivery),
}

/// An overflow that no status and no error reveals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenOverflow {
    /// The oldest messages were left out.
    Truncated,
    /// The answer stops because the window is full.
    WindowFull,
    /// There is nothing in it.
    Empty,
}

/// The way in which an answer's bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    /// The connection is cut after so many events.
    CutAfter(u64),
    /// Nothing more comes after so many events.
    StallAfter(u64),
    /// The head of the answer does not come.
    StallBeforeHead,
    /// So many milliseconds between events.
    Drip(u64),
}

/// The numbers and names of a request that error messages quote.
pub(super) struct RequestFacts<'a> {
    pub(super) protocol: ProviderProtocol,
    pub(super) model: &'a str,
    pub(super) stream: bool,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) window: u64,
    pub(super) body_bytes: usize,
    pub(super) seed: &'a AnswerSeed,
}

/// An error response, ready to be sent.
pub(super) struct FaultResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) content: FaultBody,
}

/// The body of an error response.
pub(super) enum FaultBody {
    Json(Value),
    Text(String),
    Stream(Vec<SseFrame>),
}

/// The effect of a fault on one request.
pub(super) enum FaultOutcome {
    Respond(FaultResponse),
    Pretend(HiddenOverflow),
    Deliver(Delivery),
}

impl ProviderFault {
    /// Returns every fault, in the order of the catalog.
    pub fn all() -> impl Iterator<Item = ProviderFault> {
        CATALOG.iter().map(|row| ProviderFault { row, argument: None })
    }

    /// Finds a fault by its name, which may end in `=N`: the number of events or milliseconds.
    pub fn named(name: &str) -> Option<ProviderFault> {
        let (name, argument) = match name.split_once('=') {
            Some((name, argument)) => (name, Some(argument.trim().parse().ok()?)),
            None => (name, None),
        };
        let row = CATALOG.iter().find(|row| row.name == name.trim())?;
        Some(ProviderFault { row, argument })
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// Returns its class.
    pub fn kind(&self) -> FaultKind {
        self.row.kind
    }

    /// Returns one line about it.
    pub fn summary(&self) -> &'static str {
        self.row.summary
    }

    /// Returns true if the provider counts the reserved output against the window.
    pub fn counts_output(&self) -> bool {
        self.row.counts_output
    }

    /// Returns the overflow as the protocol's own provider reports it.
    pub(super) fn of(protocol: ProviderProtocol) -> ProviderFault {
        let name = match protocol {
            ProviderProtocol::Chat => "openai",
            ProviderProtocol::Responses => "responses-400",
            ProviderProtocol::Anthropic => "anthropic",
            ProviderProtocol::Gemini => "gemini",
        };
        ProviderFault::named(name).expect("the catalog has it; a test looks")
    }

    /// Returns its effect on a request.
    pub(super) fn outcome(&self, facts: &RequestFacts<'_>) -> FaultOutcome {
        match self.row.act {
            FaultAction::Tell(tell) => FaultOutcome::Respond(tell(facts)),
            FaultAction::Pretend(hidden) => FaultOutcome::Pretend(hidden),
            FaultAction::Deliver(delivery) => FaultOutcome::Deliver(delivery(self.argument)),
        }
    }
}

impl RequestFacts<'_> {
    /// Raises the numbers above the window, for an overflow that is forced on a request that fits.
    pub(super) fn forced(mut self, fault: &ProviderFault) -> Self {
        if fault.counts_output() && self.input < self.window {
            self.output = self.output.max(self.window - self.input + 1);
        } else if self.input <= self.window {
            self.input = self.window + self.window / 5;
        }
        self
    }

    /// Returns input and reserved output together.
    pub(super) fn total(&self) -> u64 {
        self.input + self.output
    }
}

impl fmt::Debug for ProviderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({})", self.name())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FaultKind::Overflow => "overflow",
            FaultKind::LooksLikeOverflow => "no overflow",
            FaultKind::Broken => "broken",
        })
    }
}

impl FromStr for ProviderFault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        ProviderFault::named(name)
            .ok_or_else(|| format!("`{name}` is not in the catalog; `epitome mock --list` shows it"))
    }
}
