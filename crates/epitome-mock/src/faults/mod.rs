//! The catalog of faults: every way in which a provider says that a request is too long, what looks like one and is
//! none, and how an answer can break.
//!
//! A fault is found by its name. What it says is in `shapes.rs`; this file says when a size is too much for it.

mod catalog;
mod shapes;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::encode::SseFrame;
use super::endpoint::ProviderProtocol;
use super::request::AnswerSeed;
use catalog::CATALOG;

/// A way to fail.
#[derive(Clone, Copy, PartialEq)]
pub struct ProviderFault {
    row: &'static CatalogEntry,
    argument: Option<u64>,
}

/// What a fault is to a client.
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
    /// Whether the reserved output is counted.
    counts_output: bool,
    /// What comes, for people.
    summary: &'static str,
    act: FaultAction,
}

impl PartialEq for CatalogEntry {
    fn eq(&self, other: &CatalogEntry) -> bool {
        self.name == other.name
    }
}

/// What a fault does.
#[derive(Clone, Copy)]
enum FaultAction {
    /// Answers something else.
    Tell(fn(&RequestFacts<'_>) -> FaultResponse),
    /// Answers as if nothing were wrong.
    Pretend(HiddenOverflow),
    /// Answers, and does not deliver it whole.
    Deliver(fn(Option<u64>) -> Delivery),
}

/// How an answer hides that the request was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenOverflow {
    /// The oldest messages were left out.
    Truncated,
    /// The answer stops because the window is full.
    WindowFull,
    /// There is nothing in it.
    Empty,
}

/// How an answer is delivered.
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

/// What a fault is to be about.
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

/// An answer that is none.
pub(super) struct FaultResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) content: FaultBody,
}

/// What is in it.
pub(super) enum FaultBody {
    Json(Value),
    Text(String),
    Stream(Vec<SseFrame>),
}

/// What comes of a fault.
pub(super) enum FaultOutcome {
    Respond(FaultResponse),
    Pretend(HiddenOverflow),
    Deliver(Delivery),
}

impl ProviderFault {
    /// Every fault, in the order of the catalog.
    pub fn all() -> impl Iterator<Item = ProviderFault> {
        CATALOG.iter().map(|row| ProviderFault { row, argument: None })
    }

    /// The fault with this name; `=N` behind it is a number for it.
    pub fn named(name: &str) -> Option<ProviderFault> {
        let (name, argument) = match name.split_once('=') {
            Some((name, argument)) => (name, Some(argument.trim().parse().ok()?)),
            None => (name, None),
        };
        let row = CATALOG.iter().find(|row| row.name == name.trim())?;
        Some(ProviderFault { row, argument })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// What it is to a client.
    pub fn kind(&self) -> FaultKind {
        self.row.kind
    }

    /// What comes, in one sentence.
    pub fn summary(&self) -> &'static str {
        self.row.summary
    }

    /// Whether it counts the output that a request reserves.
    pub fn counts_output(&self) -> bool {
        self.row.counts_output
    }

    /// How a protocol's own provider tells an overflow.
    pub(super) fn of(protocol: ProviderProtocol) -> ProviderFault {
        let name = match protocol {
            ProviderProtocol::Chat => "openai",
            ProviderProtocol::Responses => "responses-400",
            ProviderProtocol::Anthropic => "anthropic",
            ProviderProtocol::Gemini => "gemini",
        };
        ProviderFault::named(name).expect("the catalog has it; a test looks")
    }

    /// What comes of it.
    pub(super) fn outcome(&self, facts: &RequestFacts<'_>) -> FaultOutcome {
        match self.row.act {
            FaultAction::Tell(tell) => FaultOutcome::Respond(tell(facts)),
            FaultAction::Pretend(hidden) => FaultOutcome::Pretend(hidden),
            FaultAction::Deliver(delivery) => FaultOutcome::Deliver(delivery(self.argument)),
        }
    }
}

impl RequestFacts<'_> {
    /// The same with numbers that are too much, for a fault that is forced on a request that would fit.
    pub(super) fn forced(mut self, fault: &ProviderFault) -> Self {
        if fault.counts_output() && self.input < self.window {
            self.output = self.output.max(self.window - self.input + 1);
        } else if self.input <= self.window {
            self.input = self.window + self.window / 5;
        }
        self
    }

    /// Input and output together.
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
