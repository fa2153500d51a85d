//! A step: what the model is sent next, and what was done for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use epitome::budget::{Meter, Tokens};
use epitome::plan::{Compaction, Room, Shortfall};
use epitome::planner::{Cache, PlanOptions, Planner, open_media_shortfall};
use epitome::render::Rehydrated;
use epitome::thread::{Determinism, Raw};
use epitome::wire::PromptMessage;

use super::compact::{Committed, How, NotCompacted};
use super::error::EngineError;
use super::room::fixed;
use super::settings::Background;
use super::snapshot::Snapshot;
use super::thread::{OpenThread, Saved};
use super::Engine;
use crate::artifact::Permission;
use crate::event::{Event, EventKind, Stats};
use crate::ids::Moment;
use crate::log::{Document, LogError};
use crate::model::{ModelPrompt, ServedModel};
use crate::rehydrate::{Allowance, called_for};
use crate::store::{DocumentKind, JobId, JobKind, JobState, NewJob, Write};
use crate::summarize::Frame;

/// How often a lost race is run again.
const RACES_MAX: usize = 8;
/// How often a waiting request looks whether its compaction is there.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// A job that no worker has taken after this long is not waited for.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// A job that came to nothing is queued again once the prompt has grown by this share of its target.
const GROWTH: f64 = 0.05;

/// What a prompt is wanted for.
#[derive(Clone, Debug, Default)]
pub struct StepRequest {
    /// The model, where it is not the engine's.
    pub model: Option<String>,
    /// Who serves the model; without it, what is learned of the model is learned for the thread's tenant under its name.
    pub served: Option<ServedModel>,
    /// The system prompt beside the messages, as JSON of the dialect.
    pub system: Option<String>,
    /// The tools, as a JSON list of the dialect.
    pub tools: Option<String>,
    /// Every other setting of the request.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// The most tokens of the answer.
    pub max_output: Option<Tokens>,
    /// The window, where it is neither the model's nor the engine's.
    pub window: Option<Tokens>,
    /// The most tokens of the whole prompt, where that is less than the window leaves. It is a wish: half of it is there for
    /// messages, whatever else the prompt has.
    pub budget: Option<Tokens>,
    /// The tokens that stand behind the messages in this prompt alone.
    pub beside: Tokens,
    /// Compacts even what fits.
    pub force: bool,
    /// How often the provider refused this prompt already: aims lower each time.
    pub harder: u8,
    /// Words that every later prompt must hold.
    pub pins: Vec<String>,
    /// What a summary should look at.
    pub instructions: Option<String>,
    /// The state of tool results' sources now, by call id.
    pub current: BTreeMap<String, Determinism>,
    /// Whether the memory block goes along.
    pub with_memory: bool,
}

/// What the model is sent next.
#[derive(Clone, Debug)]
pub struct Step {
    /// The messages, each as JSON of the dialect. They share their text with the thread.
    pub messages: Vec<Raw>,
    /// Their tokens, by our count, without what came back for this step alone.
    pub tokens: Tokens,
    /// The tokens that came back for this step alone.
    pub rehydrated_tokens: Tokens,
    /// The tokens of the system prompt and the tools.
    pub fixed: Tokens,
    /// The room they have.
    pub room: Room,
    /// The version of the plan they are under; 0 without one.
    pub version: u64,
    /// What was compacted for this step.
    pub compacted: Option<Stats>,
    /// By how much they do not fit, and why.
    pub shortfall: Option<Shortfall>,
    /// What came back for this step alone.
    pub rehydrated: Vec<Rehydrated>,
    /// Whether a compaction is under way in the background.
    pub is_compacting: bool,
    /// Whether every message is in the store.
    pub saved: Saved,
    /// What did not go as it should, in sentences.
    pub warnings: Vec<String>,
    request: StepRequest,
    snapshot: Snapshot,
}

impl Step {
    /// What the whole prompt was counted as, with what came back and what is in every request.
    pub fn counted(&self) -> Tokens {
        self.tokens + self.rehydrated_tokens + self.fixed
    }

    /// The tokens of all messages, those that left the prompt included.
    pub fn whole(&self) -> Tokens {
        self.snapshot.thread.total()
    }

    /// By how much the messages are larger than their room; nothing while they fit.
    pub fn over(&self) -> Tokens {
        self.tokens - self.room.limit
    }

    /// The compaction that the messages are under.
    pub fn compaction(&self) -> Option<&Compaction> {
        self.snapshot.options.previous.as_deref()
    }

    /// The messages as they are written now, by their places in the log: what the plan leaves alone is kept byte for
    /// byte, and what it changes is changed in this writing. Places are places in the log. Also tells whether the newest
    /// message is among them.
    pub fn messages_on(&self, written: &[Raw]) -> (Vec<PromptMessage>, bool) {
        let thread = self.snapshot.thread.rewritten(self.snapshot.dialect, &|place| written.get(place).cloned());
        let planner = Planner { thread: &thread, ..self.snapshot.planner() };
        let prompt = planner.render(self.compaction(), &self.rehydrated);
        let in_log = |message| match message {
            PromptMessage::Kept(place) => {
                let (place, raw) = (thread.message(place).log_place(), thread.message(place).raw());
                match written.get(place) {
                    Some(same) if same.as_str() == raw.as_str() => PromptMessage::Kept(place),
                    _ => PromptMessage::Edited { place, json: raw.to_string() },
                }
            }
            PromptMessage::Edited { place, json } => {
                PromptMessage::Edited { place: thread.message(place).log_place(), json }
            }
            new => new,
        };
        let newest = thread.len().checked_sub(1);
        let has_newest = newest.is_some() && prompt.messages.iter().any(|message| message.place() == newest);
        (prompt.marked_messages(&thread).into_iter().map(in_log).collect(), has_newest)
    }

    /// The prompt, ready to be asked.
    pub fn prompt(&self) -> ModelPrompt {
        ModelPrompt {
            system: self.request.system.clone(),
            messages: self.messages.iter().map(ToString::to_string).collect(),
            tools: self.request.tools.clone(),
            max_output: self.request.max_output,
            settings: self.request.settings.clone(),
            stream: false,
        }
    }
}

impl OpenThread {
    /// Prepares the next prompt: decides, performs what must be done now, queues what can wait.
    pub async fn prepare_step(&mut self, request: &StepRequest) -> Result<Step, EngineError> {
        let mut warnings = Vec::new();
        if !self.is_up_to_date() {
            self.catch_up(&mut warnings).await;
        }
        self.may(Permission::WriteThread)?;
        self.engine.refresh_lessons(&self.key.tenant).await;
        let request = &StepRequest { served: self.served(request), ..request.clone() };
        let (room, reserve) = self.engine.room(request, self.dialect, self.suspected_window(request.served.as_ref()));
        self.turn.enter(self.state.thread.turn(), self.engine.settings().policy.rehydrate.cooldown_turns);
        let rehydrated = self.rehydrate(request, room, reserve).await;
        let mut snapshot = self.snapshot(request, room);
        let mut made = Made::Nothing;
        if !snapshot.is_below_the_soft_mark() {
            self.engine.inner.bus.emit(&self.engine.event(&snapshot, EventKind::CompactionCheckStarted));
            self.catch_up(&mut warnings).await;
            made = self.make_room(request, room, &mut warnings).await;
            snapshot = self.snapshot(request, room);
        }
        let compacted = match &made {
            Made::Nothing | Made::Queued => None,
            Made::Compacted(stats) => Some(*stats),
            Made::ForOnce(once) => {
                snapshot.thread = Arc::clone(&once.thread);
                snapshot.options.previous = Some(Arc::clone(&once.compaction));
                Some(once.stats)
            }
        };
        if compacted.is_some() {
            warnings.extend(snapshot.compaction().iter().flat_map(|made| made.plan.warnings.clone()));
        }
        let messages = snapshot.messages(&rehydrated);
        Ok(Step {
            messages,
            tokens: snapshot.tokens(),
            rehydrated_tokens: Tokens::new(
                rehydrated.iter().map(|back| self.engine.counter().count(&back.content).get()).sum(),
            ),
            fixed: fixed(request, Meter::new(&**self.engine.counter(), self.dialect)),
            room,
            version: self.state.row.version,
            compacted,
            shortfall: shortfall(&snapshot),
            rehydrated,
            is_compacting: matches!(made, Made::Queued),
            saved: self.saved(),
            warnings,
            request: request.clone(),
            snapshot,
        })
    }

    pub(super) fn snapshot(&self, request: &StepRequest, room: Room) -> Snapshot {
        let engine = &self.engine;
        let options = PlanOptions {
            previous: self.state.compaction.clone(),
            force: request.force || request.harder > 0,
            pins: request.pins.clone(),
            instructions: request.instructions.clone(),
            rehydrated: self.turn.should_skip_aggressive_compaction(),
            cache: self.cache(),
            artifact_key: Some(engine.inner.log.vault().artifact_key(&self.key.tenant)),
            current: request.current.clone(),
            ..PlanOptions::default()
        };
        Snapshot {
            key: self.key.clone(),
            thread: self.state.thread.clone(),
            hints: self.state.hints.clone(),
            length: self.state.row.length + self.backlog.len() as u64,
            version: self.state.row.version,
            policy: engine.policy(),
            counter: engine.counter().clone(),
            dialect: self.dialect,
            room,
            options,
        }
    }

    fn cache(&self) -> Cache {
        self.called.map_or(Cache::Cold, |then| Cache::Warm { age_s: then.elapsed().as_secs() })
    }

    /// Above the soft mark: queues a compaction, waits for one, or makes it.
    async fn make_room(&mut self, request: &StepRequest, room: Room, warnings: &mut Vec<String>) -> Made {
        let snapshot = self.snapshot(request, room);
        let before = snapshot.tokens();
        let must = request.force || request.harder > 0 || snapshot.tokens() > room.limit;
        let Background::On { wait } = self.engine.settings().background else {
            return self.compact_now(request, room, false, warnings).await;
        };
        if !must {
            return match self.engine.queue(&snapshot, request).await {
                Ok(true) => Made::Queued,
                Ok(false) => Made::Nothing,
                Err(error) => {
                    warnings.push(format!("The compaction could not be queued: {error}."));
                    Made::Nothing
                }
            };
        }
        if !request.force && request.harder == 0 && self.wait_for_job(wait).await {
            self.catch_up(warnings).await;
            let snapshot = self.snapshot(request, room);
            if snapshot.tokens() <= room.limit {
                return Made::Compacted(Stats {
                    tokens_before: before.get(),
                    tokens_after: snapshot.tokens().get(),
                    compacted_blocks: snapshot.compaction().map_or(0, |made| made.plan.records.len() as u64),
                    summary_block_count: snapshot.compaction().map_or(0, |made| made.summaries.len() as u64),
                });
            }
        }
        // Whoever asked for it has the time; whoever is stopped by it has not.
        self.compact_now(request, room, !request.force, warnings).await
    }

    /// Waits while a job of this thread is pending, at most this long, and not for one that no worker takes. Answers
    /// whether there was one and it has ended.
    async fn wait_for_job(&self, wait: Duration) -> bool {
        let mut seen = false;
        let ended = async {
            let begun = tokio::time::Instant::now();
            loop {
                let job = self.engine.inner.log.store().job(&self.key, &JobKind::Compact).await;
                match job.ok().flatten().map(|job| job.state) {
                    Some(JobState::Running) => {}
                    Some(JobState::Ready) if begun.elapsed() < TAKEN_WITHIN => {}
                    Some(JobState::Ready) => return false,
                    _ => return seen,
                }
                seen = true;
                tokio::select! {
                    () = self.engine.inner.bell.notified() => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        };
        tokio::time::timeout(wait, ended).await.unwrap_or(false)
    }

    /// Compacts while the caller waits; a lost race is run again on the new state.
    async fn compact_now(
        &mut self,
        request: &StepRequest,
        room: Room,
        embedded_only: bool,
        warnings: &mut Vec<String>,
    ) -> Made {
        for race in 0..=RACES_MAX {
            let snapshot = self.snapshot(request, room);
            let over = snapshot.tokens() - room.limit;
            let hard = over > Tokens::ZERO;
            // Where others are faster each time, this prompt has a compaction of its own.
            let unsaved = !self.backlog.is_empty() || race == RACES_MAX;
            let embedded_only = embedded_only || unsaved;
            let how = How { embedded_only, frame: Some(self.engine.frame(request)), job: None, unsaved };
            match self.engine.compact(&self.access, snapshot, how).await {
                Ok(committed) => return self.swap_in(committed, warnings),
                Err(NotCompacted::NothingToDo { reason }) => {
                    if hard {
                        warnings.push(format!("The prompt is {over} tokens too large: {reason}."));
                    }
                    return Made::Nothing;
                }
                Err(NotCompacted::Lost) => self.catch_up(warnings).await,
                // Recovery never depends on a call that can fail.
                Err(NotCompacted::NoSummary { .. }) if hard && !embedded_only => {
                    return Box::pin(self.compact_now(request, room, true, warnings)).await;
                }
                Err(error) => {
                    warnings.push(format!("The prompt was not compacted: {error}."));
                    return Made::Nothing;
                }
            }
            if self.snapshot(request, room).is_below_the_soft_mark() {
                return Made::Nothing;
            }
        }
        Made::Nothing
    }

    /// Goes on under a compaction. Messages that were appended meanwhile stay behind it.
    fn swap_in(&mut self, committed: Committed, warnings: &mut Vec<String>) -> Made {
        if let Err(reason) = &committed.saved {
            warnings.push(format!("The compaction is not saved and serves this prompt alone: {reason}."));
            return Made::ForOnce(Box::new(committed));
        }
        self.state.row.version = committed.version;
        self.quality = self.quality.compacted();
        self.state.thread = committed.thread;
        self.state.compaction = Some(committed.compaction);
        self.state.hints = committed.hints;
        Made::Compacted(committed.stats)
    }

    /// What comes back for this step alone.
    async fn rehydrate(&mut self, request: &StepRequest, room: Room, reserve: Tokens) -> Vec<Rehydrated> {
        let engine = self.engine.clone();
        let rules = engine.settings().policy.rehydrate.clone();
        let mut back = Vec::new();
        if request.harder > 0 {
            // The provider said that it is too much already.
            return back;
        }
        let snapshot_tokens = self.snapshot(request, room).tokens();
        let mut allowance = Allowance::of(&rules, reserve + (room.limit - snapshot_tokens));
        if request.with_memory
            && let Some(block) = self.memory_block().await
        {
            let taken = allowance.take(&block.reference, &block.content, &**engine.counter());
            back.extend(taken.map(|(block, _)| block));
        }
        // What came in this turn already counts, whether it comes again or not.
        let here = self.turn.rehydrated_artifact_ids.clone();
        let mut new_left = rules.artifacts_max.saturating_sub(here.len());
        allowance.left -= Tokens::new(self.turn.rehydrated_tokens).min(allowance.left);
        let hints = self.state.hints.clone();
        let calls = called_for(&self.state.thread, &hints, &self.turn, &rules);
        let mut came = Vec::new();
        for call in calls {
            let id = &call.hint.id;
            let is_here = here.contains(id);
            if !is_here && new_left == 0 {
                continue;
            }
            if is_here {
                // It was taken into account above.
                allowance.left += self.turn.tokens_of(id);
            }
            let Some(content) = self.content_for_rehydration(id).await else { continue };
            let reference = format!("artifact:{id}");
            let Some((content, tokens)) = allowance.take(&reference, &content, &**engine.counter()) else { continue };
            new_left -= usize::from(!is_here);
            if is_here {
                back.push(content);
                continue;
            }
            let mut event = Event::new(Moment::now(), self.key.clone(), EventKind::CompactionRehydrated);
            (event.tokens_before, event.tokens_after) = (snapshot_tokens.get(), (snapshot_tokens + tokens).get());
            event.budget_limit = room.limit.get();
            event.span = Some((call.hint.place, call.hint.place + 1));
            let why = serde_json::to_value(call.why).unwrap_or_default();
            came.push(event.with("artifact", id.clone()).with("tokens", tokens.get()).with("why", why));
            self.turn.note(id, tokens.get());
            back.push(content);
        }
        for _ in &came {
            self.quality = self.quality.rehydrated();
        }
        self.note_rehydration(&came).await;
        back
    }

    async fn note_rehydration(&self, came: &[Event]) {
        if came.is_empty() {
            return;
        }
        let log = &self.engine.inner.log;
        came.iter().for_each(|event| self.engine.inner.bus.emit(event));
        let mut writes: Vec<Write> = came.iter().map(|event| log.add_event(event)).collect();
        writes.push(log.put_document(&Document {
            tenant: &self.key.tenant,
            kind: DocumentKind::Turn,
            name: self.key.thread.as_str(),
            value: &self.turn,
            expected: None,
            at: Moment::now(),
            expires: None,
        }));
        if let Err(error) = log.apply(&writes).await {
            tracing::warn!(%error, "what came back could not be noted");
        }
    }
}

/// By how much a prompt does not fit: as its plan says, or because the media of its newest request alone do not.
fn shortfall(snapshot: &Snapshot) -> Option<Shortfall> {
    let planned = snapshot.compaction().and_then(|known| known.plan.shortfall.clone());
    planned.or_else(|| open_media_shortfall(&snapshot.thread, snapshot.room, snapshot.meter()))
}

/// What was done for room.
enum Made {
    Nothing,
    Queued,
    Compacted(Stats),
    /// It could not be saved: it is for this prompt, and made again for the next.
    ForOnce(Box<Committed>),
}

impl Engine {
    pub(super) fn frame(&self, request: &StepRequest) -> Frame {
        let model = request.model.clone().or_else(|| self.settings().model.clone());
        Frame {
            model: model.unwrap_or_default(),
            system: request.system.clone(),
            tools: request.tools.clone(),
            settings: request.settings.clone(),
        }
    }

    /// Queues a compaction of a thread, unless one is pending. Answers whether one is now.
    pub(super) async fn queue(&self, snapshot: &Snapshot, request: &StepRequest) -> Result<bool, LogError> {
        let log = &self.inner.log;
        let asked = Asked { room: snapshot.room, tokens: snapshot.tokens(), version: snapshot.version };
        match log.store().job(&snapshot.key, &JobKind::Compact).await? {
            Some(job) if job.state.is_pending() => return Ok(true),
            Some(job) if !asked.is_news_since(&job.payload) => return Ok(false),
            _ => {}
        }
        let now = Moment::now();
        let errand = Errand {
            frame: self.frame(request),
            policy: Some(Box::new(self.settings().policy.clone())),
            pins: request.pins.clone(),
            instructions: request.instructions.clone(),
            current: request.current.clone(),
            rehydrated_in: snapshot.options.rehydrated.then(|| snapshot.thread.turn()),
            called: match snapshot.options.cache {
                Cache::Warm { age_s } => Some(Moment(now.0 - i64::try_from(age_s).unwrap_or(0) * 1000)),
                Cache::Cold => None,
            },
        };
        let document = Document {
            tenant: &snapshot.key.tenant,
            kind: DocumentKind::Errand,
            name: snapshot.key.thread.as_str(),
            value: &errand,
            expected: None,
            at: now,
            expires: None,
        };
        let job = NewJob {
            id: JobId::new(),
            key: snapshot.key.clone(),
            kind: JobKind::Compact,
            attempts_max: self.settings().jobs.attempts,
            due: now,
            queued: now,
            payload: serde_json::to_string(&asked).unwrap_or_default(),
        };
        let event = self.event(snapshot, EventKind::JobQueued);
        log.apply(&[log.put_document(&document), Write::Enqueue(Box::new(job)), log.add_event(&event)]).await?;
        self.inner.bus.emit(&event);
        self.inner.bell.notify_waiters();
        Ok(true)
    }
}

/// What a job was queued for: numbers alone.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Asked {
    pub room: Room,
    tokens: Tokens,
    version: u64,
}

impl Asked {
    /// Whether something has changed since an earlier job that came to nothing.
    fn is_news_since(&self, payload: &str) -> bool {
        let Ok(earlier) = serde_json::from_str::<Asked>(payload) else { return true };
        let grown = self.tokens - earlier.tokens;
        self.version != earlier.version || self.room != earlier.room || grown >= self.room.target.share(GROWTH)
    }
}

/// What a background compaction needs to know besides the thread; kept sealed.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(super) struct Errand {
    pub frame: Frame,
    /// The policy of whoever asked, where it is not the worker's own.
    pub policy: Option<Box<epitome::policy::Policy>>,
    pub pins: Vec<String>,
    pub instructions: Option<String>,
    pub current: BTreeMap<String, Determinism>,
    /// The turn in which content came back.
    pub rehydrated_in: Option<u32>,
    /// When the model was last asked.
    called: Option<Moment>,
}

impl Errand {
    /// What is known of the provider's cache by now.
    pub fn cache(&self, now: Moment) -> Cache {
        let age = self.called.map(|then| u64::try_from((now.0 - then.0) / 1000).unwrap_or(0));
        age.map_or(Cache::Cold, |age_s| Cache::Warm { age_s })
    }
}
