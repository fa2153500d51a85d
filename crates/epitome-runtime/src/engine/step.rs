//! A step: what the model is sent next, and what was done for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use epitome::budget::{Meter, Tokens};
use epitome::plan::{Compaction, Room, Shortfall};
use epitome::planner::{CacheState, PlanOptions, Planner, open_media_shortfall};
use epitome::render::Rehydrated;
use epitome::thread::{Determinism, Raw};
use epitome::wire::PromptMessage;

use super::Engine;
use super::compact::{CompactOptions, CompactedThread, NotCompacted};
use super::error::Result;
use super::room::fixed;
use super::settings::Background;
use super::snapshot::Snapshot;
use super::thread::{OpenThread, Saved};
use crate::artifact::Permission;
use crate::event::{CompactionStats, Event, EventField, EventKind};
use crate::log::NewDocument;
use crate::model::{ModelPrompt, ServedModel};
use crate::rehydrate::{RehydrationAllowance, called_for};
use crate::store::{DocumentKind, JobKind, JobState, Write};
use crate::summarize::RequestFrame;

const RACES_MAX: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// A job that no worker has taken after this long is not waited for.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);

/// A request for the next prompt.
#[derive(Clone, Debug, Default)]
pub struct StepRequest {
    /// The model, where it is not the engine's.
    pub model: Option<String>,
    /// The model as the tenant reaches it. Without it, lessons are kept for the thread's tenant under the model's name.
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
    /// The number of times that the provider refused this prompt: the target is lower each time.
    pub harder: u8,
    /// Words that every later prompt must hold.
    pub pins: Vec<String>,
    /// The caller's instructions for the summary.
    pub instructions: Option<String>,
    /// The state of tool results' sources now, by call id.
    pub current: BTreeMap<String, Determinism>,
    /// Adds the memory block to the prompt. A thread whose block is known to have entries has it in any case.
    pub with_memory: bool,
}

impl StepRequest {
    /// Tells whether the prompt is compacted even if it fits: the caller wants it, or the provider refused it.
    fn is_forced(&self) -> bool {
        self.force || self.harder > 0
    }
}

/// The next prompt, with its counts and everything that was done for it.
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
    /// The compaction that was made for this step.
    pub compacted: Option<CompactionStats>,
    /// By how much they do not fit, and why.
    pub shortfall: Option<Shortfall>,
    /// The content that came back for this step alone.
    pub rehydrated: Vec<Rehydrated>,
    /// True if a compaction is under way in the background.
    pub is_compacting: bool,
    /// The state of the thread's messages in the store.
    pub saved: Saved,
    /// Sentences about what went wrong on the way.
    pub warnings: Vec<String>,
    request: StepRequest,
    snapshot: Snapshot,
}

impl Step {
    /// Returns the tokens of the whole prompt, rehydrated content, system prompt and tools included.
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

    /// Tells whether the messages are others than those of the log even without a compaction: one of them is hidden.
    pub fn has_hidden(&self) -> bool {
        self.snapshot.thread.all_hidden().next().is_some()
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
    pub async fn prepare_step(&mut self, request: &StepRequest) -> Result<Step> {
        self.warnings.clear();
        if !self.is_up_to_date() || self.has_old_annotations() {
            self.catch_up().await;
        }
        self.require(Permission::WriteThread)?;
        self.engine.refresh_lessons(&self.key.tenant).await;
        let request = &StepRequest { served: self.served(request), ..request.clone() };
        let (room, reserve) = self.engine.room(request, self.dialect, self.suspected_window(request.served.as_ref()));
        self.turn.enter(self.state.thread.turn(), self.engine.settings().policy.rehydrate.cooldown_turns);
        let rehydrated = self.rehydrate(request, room, reserve).await;
        let mut preparation = Preparation::Unchanged;
        if !self.is_below_soft_mark(request, room) {
            let tokens = self.prompt_tokens();
            let started = Event::of_prompt(&self.key, EventKind::CompactionCheckStarted, tokens, room.limit);
            self.engine.inner.bus.emit(&started);
            self.catch_up().await;
            preparation = self.make_room(request, room).await;
        }
        let mut snapshot = self.snapshot(request, room);
        let compacted = match &preparation {
            Preparation::Unchanged | Preparation::Queued => None,
            Preparation::Compacted(stats) => Some(*stats),
            Preparation::Uncommitted(once) => {
                snapshot.thread = Arc::clone(&once.thread);
                snapshot.options.previous = Some(Arc::clone(&once.compaction));
                Some(once.stats)
            }
        };
        let mut warnings = std::mem::take(&mut self.warnings);
        if compacted.is_some() {
            warnings.extend(snapshot.compaction().iter().flat_map(|compaction| compaction.plan.warnings.clone()));
        }
        let counter = self.engine.counter();
        Ok(Step {
            messages: snapshot.messages(&rehydrated),
            tokens: snapshot.tokens(),
            rehydrated_tokens: rehydrated.iter().map(|back| counter.count(&back.content)).sum(),
            fixed: fixed(request, Meter::new(&**counter, self.dialect)),
            room,
            version: self.state.row.version,
            compacted,
            shortfall: shortfall(&snapshot),
            rehydrated,
            is_compacting: matches!(preparation, Preparation::Queued),
            saved: self.saved(),
            warnings,
            request: request.clone(),
            snapshot,
        })
    }

    fn snapshot(&self, request: &StepRequest, room: Room) -> Snapshot {
        let options = PlanOptions {
            force: request.is_forced(),
            pins: request.pins.clone(),
            instructions: request.instructions.clone(),
            rehydrated: self.turn.should_skip_aggressive_compaction(),
            cache: self.last_call.map_or(CacheState::Cold, |then| CacheState::Warm { age_s: then.elapsed().as_secs() }),
            current: request.current.clone(),
            ..PlanOptions::default()
        };
        let snapshot =
            Snapshot::new(&self.engine, &self.state, (self.dialect, request.tools.as_deref()), room, options);
        Snapshot { length: self.length(), ..snapshot }
    }

    /// Returns the tokens of the prompt as the model would get it now.
    pub(super) fn prompt_tokens(&self) -> Tokens {
        match &self.state.compaction {
            Some(compaction) => compaction.prompt_tokens(&self.state.thread),
            None => self.state.thread.total(),
        }
    }

    /// Tells that there is nothing to decide.
    fn is_below_soft_mark(&self, request: &StepRequest, room: Room) -> bool {
        let policy = &self.engine.settings().policy;
        !request.is_forced() && (!policy.trigger.auto || !policy.clear.eager && self.prompt_tokens() <= room.trigger)
    }

    /// Above the soft mark: queues a compaction, waits for one, or makes it.
    async fn make_room(&mut self, request: &StepRequest, room: Room) -> Preparation {
        let before = self.prompt_tokens();
        let Background::On { wait } = self.engine.settings().background else {
            return self.compact_now(request, room, false).await;
        };
        if !request.is_forced() && before <= room.limit {
            return match self.queue_compaction(request, room).await {
                Ok(true) => Preparation::Queued,
                Ok(false) => Preparation::Unchanged,
                Err(error) => {
                    self.warnings.push(format!("The compaction could not be queued: {error}."));
                    Preparation::Unchanged
                }
            };
        }
        if !request.is_forced() && self.wait_for_job(wait).await {
            self.catch_up().await;
            let after = self.prompt_tokens();
            if after <= room.limit {
                let compaction = self.state.compaction.as_ref();
                return Preparation::Compacted(CompactionStats {
                    tokens_before: before.get(),
                    tokens_after: after.get(),
                    compacted_blocks: compaction.map_or(0, |compaction| compaction.plan.records.len() as u64),
                    summary_block_count: compaction.map_or(0, |compaction| compaction.summaries.len() as u64),
                });
            }
        }
        // A caller who asked for a compaction has the time for a model; a request that is stopped by one has not.
        self.compact_now(request, room, !request.force).await
    }

    /// Waits while a job of this thread is pending, at most this long, and not for one that no worker takes. Returns
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
                    () = self.engine.inner.job_changed.notified() => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        };
        tokio::time::timeout(wait, ended).await.unwrap_or(false)
    }

    /// Compacts while the caller waits; a lost race is run again on the new state.
    async fn compact_now(&mut self, request: &StepRequest, room: Room, embedded_only: bool) -> Preparation {
        let mut embedded_only = embedded_only;
        for race in 0..=RACES_MAX {
            let snapshot = self.snapshot(request, room);
            let over = snapshot.tokens() - room.limit;
            let is_too_large = over > Tokens::ZERO;
            // Where others are faster each time, this prompt has a compaction of its own.
            let uncommitted = !self.backlog.is_empty() || race == RACES_MAX;
            let options = CompactOptions {
                embedded_only: embedded_only || uncommitted,
                frame: Some(self.engine.frame(request)),
                uncommitted,
                job: None,
                is_manual: request.force,
            };
            let may_ask_model = !options.embedded_only;
            match self.engine.compact(&self.access, snapshot, options).await {
                Ok(compacted) => return self.swap_in(compacted),
                Err(NotCompacted::NothingToDo { reason }) => {
                    if is_too_large {
                        self.warnings.push(format!("The prompt is {over} tokens too large: {reason}."));
                    }
                    return Preparation::Unchanged;
                }
                Err(NotCompacted::Lost) => self.catch_up().await,
                // Recovery never depends on a call that can fail.
                Err(NotCompacted::NoSummary(_)) if is_too_large && may_ask_model => {
                    embedded_only = true;
                    continue;
                }
                Err(error) => {
                    self.warnings.push(format!("The prompt was not compacted: {error}."));
                    return Preparation::Unchanged;
                }
            }
            if self.is_below_soft_mark(request, room) {
                return Preparation::Unchanged;
            }
        }
        Preparation::Unchanged
    }

    /// Puts the thread under a new compaction. Messages that were appended meanwhile stay behind it.
    fn swap_in(&mut self, compacted: CompactedThread) -> Preparation {
        if let Err(reason) = &compacted.saved {
            self.warnings.push(format!("The compaction is not saved and serves this prompt alone: {reason}."));
            return Preparation::Uncommitted(Box::new(compacted));
        }
        self.state.row.version = compacted.version;
        self.quality = self.quality.compacted();
        self.state.thread = compacted.thread;
        self.state.compaction = Some(compacted.compaction);
        self.state.hints = compacted.hints;
        Preparation::Compacted(compacted.stats)
    }

    /// Reads back the content that the newest messages call for, for this step alone.
    async fn rehydrate(&mut self, request: &StepRequest, room: Room, reserve: Tokens) -> Vec<Rehydrated> {
        let engine = self.engine.clone();
        let rules = engine.settings().policy.rehydrate.clone();
        let mut back = Vec::new();
        if request.harder > 0 {
            // The provider said that it is too much already.
            return back;
        }
        let prompt_tokens = self.prompt_tokens();
        let mut allowance = RehydrationAllowance::of(&rules, reserve + (room.limit - prompt_tokens));
        if let Some(pins) = self.new_pins() {
            back.push(pins);
        }
        if (request.with_memory || self.state.annotations.has_memory)
            && let Some(block) = self.memory_block().await
        {
            let taken = allowance.take(&block.reference, &block.content, &**engine.counter());
            back.extend(taken.map(|(block, _)| block));
        }
        // Content that came in this turn counts already, whether it comes again or not.
        let here = self.turn.rehydrated_artifact_ids.clone();
        let mut new_left = rules.artifacts_max.saturating_sub(here.len());
        allowance.left -= Tokens::new(self.turn.rehydrated_tokens).min(allowance.left);
        let hints = self.state.hints.clone();
        let calls = called_for(&self.state.thread, &hints, &self.turn, &rules);
        let mut events = Vec::new();
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
            back.push(content);
            if is_here {
                continue;
            }
            new_left -= 1;
            let mut event = Event::of_prompt(&self.key, EventKind::CompactionRehydrated, prompt_tokens, room.limit);
            event.tokens_after += tokens.get();
            event.span = Some((call.hint.place, call.hint.place + 1));
            let why = serde_json::to_value(call.why).unwrap_or_default();
            let event = event.with(EventField::Artifact, id.clone()).with(EventField::Tokens, tokens.get());
            events.push(event.with(EventField::Why, why));
            self.turn.note(id, tokens.get());
            self.quality = self.quality.rehydrated();
        }
        self.record_rehydration(&events).await;
        back
    }

    async fn record_rehydration(&self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let log = &self.engine.inner.log;
        events.iter().for_each(|event| self.engine.inner.bus.emit(event));
        let mut writes: Vec<Write> = events.iter().map(|event| log.add_event(event)).collect();
        let name = self.key.thread.as_str();
        writes.push(log.put_document(NewDocument::new(&self.key.tenant, DocumentKind::Turn, name, &self.turn)));
        if let Err(error) = log.apply(&writes).await {
            tracing::warn!(%error, "failed to record rehydrated content");
        }
    }
}

/// Returns by how much a prompt does not fit: as its plan says, or because the media of its newest request alone do not.
fn shortfall(snapshot: &Snapshot) -> Option<Shortfall> {
    let planned = snapshot.compaction().and_then(|known| known.plan.shortfall.clone());
    planned.or_else(|| open_media_shortfall(&snapshot.thread, snapshot.room, snapshot.meter()))
}

/// The result of [`OpenThread::make_room`].
enum Preparation {
    Unchanged,
    Queued,
    Compacted(CompactionStats),
    /// The compaction could not be saved: it serves this prompt, and is made again for the next.
    Uncommitted(Box<CompactedThread>),
}

impl Engine {
    pub(super) fn frame(&self, request: &StepRequest) -> RequestFrame {
        let model = request.model.clone().or_else(|| self.settings().model.clone());
        RequestFrame {
            model: model.unwrap_or_default(),
            system: request.system.clone(),
            tools: request.tools.clone(),
            settings: request.settings.clone(),
        }
    }
}
