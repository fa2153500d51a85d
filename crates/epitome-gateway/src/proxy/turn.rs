//! A turn of the proxy: everything that is known of one request to a model.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use epitome::budget::{Tokens, Window};
use epitome::wire::Dialect;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, StepRequest};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::model::{ModelError, ServedModel};
use epitome_runtime::store::StoreWait;

use super::asked::Asked;
use super::wishes::Wishes;
use crate::caller::Caller;
use crate::fail_open::FailOpenReason;
use crate::identity::{CachedThread, Client, Counted, Relation, Scope, ThreadMatch};

/// The largest request of which nothing is suspected; plain text of that size has fewer tokens than any window.
const SMALL_BYTES: usize = 6 * 1024;

/// One request to a model.
#[derive(Clone, Debug)]
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
    pub asked: Arc<Asked>,
    /// Where its thread is looked for.
    pub scope: Scope,
    /// Its fingerprints, up to each message.
    pub prints: Arc<[blake3::Hash]>,
    pub placed: ThreadMatch,
    /// The thread that it has for itself since the other one went on without it.
    pub own_line: OnceLock<Arc<CachedThread>>,
    /// Whether it gets the gateway's own tools.
    pub has_tools: bool,
    /// The engine for its policy and its model.
    pub engine: Engine,
    /// Its model: two providers may serve another window under one name.
    pub served: ServedModel,
    /// How long it may still wait for the store.
    pub store_wait: Arc<StoreWait>,
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
    /// The window that the provider named.
    pub named: Option<Tokens>,
    /// The most tokens of the answer that still fit.
    pub output: Option<Tokens>,
    /// What stands behind it: what the gateway's own tools were asked, and said.
    pub beside: Tokens,
    /// Whether nothing is to be done to it.
    pub as_it_came: bool,
    /// How often it was sent again.
    pub retries: u8,
}

/// What is told of a request, in headers and in the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
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
    /// How many messages that the policy protects gave way.
    pub gave_way: usize,
    /// How often the thread was compacted.
    pub rounds: u32,
    /// What a person should know of that.
    pub warning: Option<String>,
    /// How often it was sent again.
    pub retries: u8,
    /// Why it went out as it came although something was to be done.
    pub failed_open: Option<FailOpenReason>,
    /// How long its pins hold, where it has any.
    pub pins: Option<PinsHold>,
}

epitome_runtime::named_enum! {
    /// How long the pins of a request hold.
    pub enum PinsHold {
        /// For every later prompt of its conversation or its user.
        Kept = "kept",
        /// For this request: nobody can tell whose the next one with the same words is.
        ThisRequest = "this-request",
    }
}

impl PinsHold {
    fn of(turn: &Turn) -> Option<PinsHold> {
        let hold = if turn.scope.keeps_pins() { PinsHold::Kept } else { PinsHold::ThisRequest };
        (!turn.wishes.pins.is_empty()).then_some(hold)
    }
}

impl Told {
    /// What is told of a turn to which nothing is done.
    pub fn of(turn: &Turn) -> Told {
        Told {
            thread: Some(turn.line().key().thread),
            relation: Some(turn.own_line.get().map_or(turn.placed.relation, |_| Relation::Fork)),
            pins: PinsHold::of(turn),
            ..Told::default()
        }
    }
}

impl Turn {
    /// The line that its prompt is made of.
    pub fn line(&self) -> &Arc<CachedThread> {
        self.own_line.get().unwrap_or(&self.placed.thread)
    }

    /// Leaves a line that went on without it: what came later is not for its prompt, nor for its model to read.
    pub fn leave_line(&self) -> &Arc<CachedThread> {
        self.own_line.get_or_init(|| Arc::new(self.placed.thread.fork(self.asked.messages().len())))
    }

    /// The window of its model.
    pub fn window(&self) -> Tokens {
        match self.engine.window_of(&self.served) {
            Window::Listed(tokens) | Window::Learned(tokens) => tokens,
            Window::Fallback(_) => self.engine.settings().policy.trigger.window,
        }
    }

    /// Whether it is so small that nobody's window is too small for it, whatever its answer looks like.
    pub fn is_small(&self) -> bool {
        self.asked.document.source().len() <= SMALL_BYTES
    }

    /// Whether its answer may be gone on from by its name alone, so that everything before it has to be found.
    pub fn is_kept_by_name(&self) -> bool {
        let is_stored = || self.asked.document.field("store").is_none_or(|store| store.as_str() != "false");
        self.asked.dialect() == Dialect::Responses && is_stored()
    }

    /// The most tokens that it can have, as far as that is known without counting: no token has less than a byte, but for
    /// those of media.
    pub fn tokens_at_most(&self) -> Option<Tokens> {
        let messages = self.asked.messages();
        let counted = self.placed.thread.state().counted.filter(|counted| counted.messages <= messages.len());
        let (known, tokens) = counted.map_or((0, Tokens::ZERO), |counted| (counted.messages, counted.tokens));
        let known_bytes: usize = messages[..known].iter().map(epitome::thread::Raw::len).sum();
        let unknown = self.asked.document.source().len().saturating_sub(known_bytes);
        (!self.asked.has_media_from(known)).then(|| tokens + Tokens::new(unknown as u64))
    }

    /// The tokens of a request that has nothing new in it, as it was counted before.
    pub fn known_tokens(&self) -> Option<Tokens> {
        let facts = self.placed.thread.state();
        let is_settled = facts.pending.is_empty() && facts.version == 0;
        let is_same =
            |counted: &Counted| counted.messages == self.asked.messages().len() && counted.frame == self.asked.frame();
        let counted = facts.counted.filter(|counted| is_settled && is_same(counted))?;
        Some(counted.tokens + counted.fixed)
    }

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
            served: Some(self.served.clone()),
            system: self.asked.system(),
            tools: document.tools().map(ToString::to_string),
            // An output that is lowered to what is left takes nothing away from the prompt.
            max_output: document.max_output().map(Tokens::new).filter(|_| pressure.output.is_none()),
            window: smaller(pressure.named, smaller(pressure.window, suspected)),
            budget: own,
            beside: pressure.beside,
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
