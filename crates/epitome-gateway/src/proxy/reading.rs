//! Reading: who sends a request, under which policy, and which thread it belongs to.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use epitome::budget::Tokens;
use epitome::policy::{Policy, ReadBy};
use epitome::wire::Dialect;
use epitome_runtime::engine::{Engine, StepRequest};
use epitome_runtime::ids::Moment;
use epitome_runtime::model::ServedModel;
use epitome_runtime::store::StoreWait;

use super::asked::Asked;
use super::beside::Pledge;
use super::relay::Settling;
use super::turn::Turn;
use super::way::{Head, Way};
use super::wishes::Wishes;
use super::{Inner, prompt};
use crate::caller::Caller;
use crate::fail_open::FailOpenReason;
use crate::identity::{Client, Relation, Scope, ThreadMatch, ThreadQuery, fingerprints, message_ids};
use crate::refusal::Refusal;

/// The most engines for different policies and models at hand.
const ENGINES_MAX: usize = 256;

/// The engine for a policy and a model.
#[derive(Debug)]
pub(super) struct Tuned {
    policy: String,
    model: String,
    has_tools: bool,
    engine: Engine,
}

/// A request of which everything is known but its thread.
pub(super) struct Read {
    caller: Caller,
    client: Client,
    wishes: Wishes,
    original: Bytes,
    asked: Arc<Asked>,
    has_tools: bool,
    engine: Engine,
    served: ServedModel,
    scope: Scope,
    store_wait: Arc<StoreWait>,
}

/// A turn that is under way.
pub(super) struct UnderWay {
    pub turn: Arc<Turn>,
    /// What came on its way into the log, where it is not there.
    pub settling: Option<Settling>,
    /// That it gets there.
    pub pledge: Pledge,
}

impl Read {
    fn fingerprints(&self) -> Arc<[blake3::Hash]> {
        fingerprints(&self.scope, self.asked.messages()).into()
    }

    /// What its thread is looked for with; labels are for one that is new.
    fn wanted<'a>(&'a self, prints: &'a [blake3::Hash], labels: serde_json::Value) -> ThreadQuery<'a> {
        ThreadQuery { scope: &self.scope, messages: self.asked.messages(), prints, labels, frame: self.asked.frame() }
    }

    fn placed(self, placed: ThreadMatch, prints: Arc<[blake3::Hash]>) -> Turn {
        let Read { caller, client, wishes, original, asked, has_tools, engine, served, scope, store_wait } = self;
        placed.thread.state().pin(&wishes.pins);
        let at = Moment::now();
        Turn {
            at,
            caller,
            client,
            wishes,
            original,
            asked,
            scope,
            prints,
            placed,
            own_line: std::sync::OnceLock::new(),
            engine,
            has_tools,
            served,
            store_wait,
        }
    }
}

impl Inner {
    /// Understands a request as far as that can be done at once.
    pub(super) fn read(&self, asked: Arc<Asked>, original: &Bytes, way: &Way) -> Option<Read> {
        let Head { caller, wishes, .. } = &*way.head;
        let policy = match &wishes.policy {
            None => None,
            Some(name) => Some((name.as_str(), self.policy(name).ok()?)),
        };
        let client = way.head.client(&asked.named());
        let has_tools = self.gives_tools(&client, wishes, &asked);
        let engine = self.engine_for(policy, asked.model(), has_tools);
        let served = way.onward.upstream.served(&caller.tenant, asked.model());
        let scope = way.head.scope(&client)?;
        let (caller, wishes, original) = (caller.clone(), wishes.clone(), original.clone());
        let store_wait = StoreWait::new(self.settings.serve.store_patience_ms.0);
        Some(Read { caller, client, wishes, original, asked, has_tools, engine, served, scope, store_wait })
    }

    /// A request with its thread, on its way into the log.
    pub(super) async fn found(self: &Arc<Self>, read: Read) -> Result<UnderWay, FailOpenReason> {
        let relay = Arc::clone(self);
        // In a task of its own: what came gets into the log even if the client leaves meanwhile.
        let found = async move { relay.turn(read).await.map(|turn| relay.pledged(turn)) };
        let (turn, pledge) = tokio::spawn(found).await.map_err(|_| FailOpenReason::Broken)??;
        let has_news = turn.known_tokens().is_none() || !turn.wishes.pins.is_empty();
        let settling = (has_news && !self.store_rests()).then(|| self.settling(&turn));
        Ok(UnderWay { turn, settling, pledge })
    }

    /// A turn that gets into the log, whoever waits for it.
    fn pledged(self: &Arc<Self>, turn: Turn) -> (Arc<Turn>, Pledge) {
        let turn = Arc::new(turn);
        let pledge = Pledge::of(self, &turn);
        (turn, pledge)
    }

    /// From how many tokens on something is done to a request; where dialects differ, the fewest.
    pub(super) fn trigger_of(
        &self,
        engine: &Engine,
        max_output: Option<Tokens>,
        wishes: &Wishes,
        served: &ServedModel,
    ) -> Tokens {
        let step = StepRequest {
            served: Some(served.clone()),
            max_output,
            window: self.suspicions.window(served),
            budget: wishes.budget.or(self.settings.serve.budget),
            ..StepRequest::default()
        };
        engine.room_for(&step, Dialect::Anthropic).trigger
    }

    /// A request with its thread. Why not, where that cannot be told now.
    async fn turn(&self, read: Read) -> Result<Turn, FailOpenReason> {
        let asked = self.completed(&read.engine, &read.scope, read.asked, &read.store_wait).await?;
        let read = Read { asked, ..read };
        if read.asked.is_hidden() {
            return Err(FailOpenReason::Hidden);
        }
        let prints = read.fingerprints();
        let placed = match self.lines.lookup(&read.wanted(&prints, serde_json::Value::Null)) {
            Some(placed) => placed,
            None => self.sought(&read, &prints).await?,
        };
        Ok(read.placed(placed, prints))
    }

    /// The thread of a history that is not at hand: in the store, or new.
    async fn sought(&self, read: &Read, prints: &[blake3::Hash]) -> Result<ThreadMatch, FailOpenReason> {
        if self.store_rests() {
            return Err(FailOpenReason::Store);
        }
        let Read { caller, client, asked, engine, scope, .. } = read;
        let ids = {
            let asked = Arc::clone(asked);
            let ids = tokio::task::spawn_blocking(move || message_ids(asked.dialect(), asked.messages()));
            ids.await.map_err(|_| FailOpenReason::Broken)?
        };
        let sought = async {
            let earlier = self.earlier(engine, caller, scope).await;
            let wanted = read.wanted(prints, prompt::labels(client, asked.model(), earlier.as_deref()));
            self.lines.find_or_begin(engine, &wanted, &ids).await
        };
        match read.store_wait.wait(sought).await {
            Some(Ok(placed)) => {
                if placed.relation == Relation::New && scope.is_named() {
                    self.note_scope(scope, &placed.thread.key().thread);
                }
                Ok(placed)
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "failed to look up a thread in the store");
                self.store_failed();
                Err(FailOpenReason::Store)
            }
            None => {
                tracing::warn!("the store did not answer in time");
                self.store_failed();
                Err(FailOpenReason::Store)
            }
        }
    }

    /// Whether a history is one of a thread at hand that has a plan.
    pub(super) fn is_known_with_a_plan(&self, head: &Head, asked: &Asked) -> bool {
        let Some(scope) = head.scope(&head.client(&asked.named())) else { return false };
        let line = self.lines.get(&fingerprints(&scope, asked.messages()));
        line.is_some_and(|line| line.state().version > 0)
    }

    pub(super) fn policy(&self, name: &str) -> Result<&Policy, Refusal> {
        self.policies.get(name).ok_or_else(|| {
            let known: Vec<String> = self.policies.keys().cloned().collect();
            Refusal::Unclear { reason: Wishes::no_policy(name, &known).to_string() }
        })
    }

    /// Whether a request gets the gateway's own tools.
    fn gives_tools(&self, client: &Client, wishes: &Wishes, asked: &Asked) -> bool {
        // Who has no tools at all is not given ours unless they ask for them: titles and summaries are such requests.
        let is_list_of_some = |tools: &str| {
            serde_json::from_str::<Vec<serde::de::IgnoredAny>>(tools).map_or(true, |tools| !tools.is_empty())
        };
        let has_any = asked.document.tools().is_some_and(|tools| is_list_of_some(tools.as_str()));
        wishes.tools.unwrap_or_else(|| has_any && self.settings.serve.gives_tools_to(client.program))
    }

    /// The engine for a policy and a model. A prompt without our tools does not speak of them.
    pub(super) fn engine_for(&self, policy: Option<(&str, &Policy)>, model: &str, has_tools: bool) -> Engine {
        let name = policy.map_or("", |(name, _)| name);
        let is_it = |tuned: &&Tuned| tuned.model == model && tuned.policy == name && tuned.has_tools == has_tools;
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tuned) = engines.iter().find(is_it) {
            return tuned.engine.clone();
        }
        if engines.len() >= ENGINES_MAX {
            engines.clear();
        }
        let mut policy = policy.map_or_else(|| self.engine.settings().policy.clone(), |(_, policy)| policy.clone());
        if !has_tools {
            policy.externalize.by = ReadBy::Nobody;
        }
        let engine = self.engine.under(Some(&policy), Some(model).filter(|model| !model.is_empty()));
        engines.push(Tuned { policy: name.to_owned(), model: model.to_owned(), has_tools, engine: engine.clone() });
        engine
    }
}
