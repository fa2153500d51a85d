//! A turn of the proxy: everything that is known of one request to a model.

use bytes::Bytes;
use epitome::budget::Tokens;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, StepRequest};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::model::ModelError;

use super::asked::Asked;
use super::wishes::Wishes;
use crate::caller::Caller;
use crate::identity::{Client, Placed, Relation, Scope};

/// One request to a model.
#[derive(Debug)]
pub struct Turn {
    /// When it came.
    pub at: Moment,
    /// Whose it is.
    pub caller: Caller,
    /// Which program sent it.
    pub client: Client,
    /// What it asks of the gateway.
    pub wishes: Wishes,
    /// What came, unpacked.
    pub original: Bytes,
    /// What it asks of the model.
    pub asked: Asked,
    /// Where its thread is looked for.
    pub scope: Scope,
    /// Its fingerprints, up to each message.
    pub prints: Vec<blake3::Hash>,
    /// Its thread.
    pub placed: Placed,
    /// Whether it gets the gateway's own tools.
    pub has_tools: bool,
    /// The engine for its policy and its model.
    pub engine: Engine,
}

/// How hard a prompt is to be pressed.
#[derive(Clone, Debug, Default)]
pub struct Pressure {
    /// How often the provider refused it.
    pub harder: u8,
    /// What it said last, and what it was counted as then.
    pub refused: Option<(ModelError, Tokens)>,
    /// The window, where the provider only said that it is smaller.
    pub window: Option<Tokens>,
    /// The most tokens of the answer that still fit.
    pub output: Option<Tokens>,
    /// Whether nothing is to be done to it.
    pub as_it_came: bool,
}

/// What is told of a request, in headers and in the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Its thread.
    pub thread: Option<ThreadId>,
    /// How it relates to it.
    pub relation: Option<Relation>,
    /// The version of the plan that the prompt is under.
    pub plan: u64,
    /// The tokens of what came.
    pub before: Option<Tokens>,
    /// The tokens of what was sent.
    pub after: Option<Tokens>,
    /// Whether the plan is new with this request, so that the provider's cache has to be filled again.
    pub is_rewritten: bool,
    /// The receipt's numbers: retained, recoverable, lost.
    pub receipt: Option<[usize; 3]>,
    /// How often it was sent again.
    pub retries: u8,
    /// Why it went out as it came although something was to be done.
    pub failed_open: Option<&'static str>,
}

impl Turn {
    /// What the runtime is told of who asks.
    pub fn access(&self) -> Access {
        self.caller.access()
    }

    /// What the engine is asked for.
    pub fn step(&self, pressure: &Pressure, budget: Option<Tokens>, suspected: Option<Tokens>) -> StepRequest {
        let document = &self.asked.document;
        let own = self.wishes.budget.or(budget);
        StepRequest {
            model: Some(self.asked.model().to_owned()).filter(|model| !model.is_empty()),
            system: self.asked.system(),
            tools: document.tools().map(ToString::to_string),
            // An output that is lowered to what is left takes nothing away from the prompt.
            max_output: document.max_output().map(Tokens::new).filter(|_| pressure.output.is_none()),
            window: smaller(pressure.window, suspected),
            budget: own,
            harder: pressure.harder,
            instructions: self.wishes.instructions.clone(),
            ..StepRequest::default()
        }
    }
}

fn smaller(one: Option<Tokens>, other: Option<Tokens>) -> Option<Tokens> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
