//! Performing a compaction: plan, ask for a summary, store what leaves the prompt, commit.
//!
//! Planning is pure and runs on a blocking thread. It is done once: the draft waits for the model's answer. The commit is a
//! compare-and-swap on the version that the snapshot was taken at:
//!
//! ```text
//! snapshot: version 4, 120 messages              meanwhile others append messages 121 and 122
//!     │ plan, summary, artifacts into the object store
//!     └─► apply [ CommitPlan 5 (expects 4), Index, PutArtifact…, AddEvent…, PutDocument, FinishJob (expects the lease) ]
//!           done      the thread is under plan 5; 121 and 122 stand behind it, because the plan covers 120 messages
//!           conflict  another process committed plan 5 or holds the job: nothing was written, plan again
//!           failed    the plan serves this one prompt; the thread stays under plan 4
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::plan::{Action, Artifact, Compaction, Plan, RungStep};
use epitome::planner::{Draft, Verdict};
use epitome::policy::{Rung, SummaryForm};
use epitome::summary::Dialogue;
use epitome::thread::Thread;
use futures_util::StreamExt as _;
use tracing::Instrument as _;
use uuid::Uuid;

use super::Engine;
use super::snapshot::Snapshot;
use crate::artifact::{Access, PutOptions};
use crate::event::spans::{self, CompactionOutcome};
use crate::event::{Bus, CompactionStats, Event, EventField, EventKind, Strategy};
use crate::ids::{Moment, ThreadKey};
use crate::log::{ArtifactHint, NewDocument, StoredPlan, place_runs};
use crate::model::Usage;
use crate::recall::index_rows;
use crate::store::{DocumentKind, JobEnd, JobId, PlanRow, Sensitivity, StoreError, Write};
use crate::summarize::{ModelSummarizer, NoSummary, Prose, QuestionForm, RequestFrame, SummaryUsage, cache_name};

/// The most artifacts that a thread remembers names of; older ones are still read by their id.
const HINTS_MAX: usize = 500;

const PUTS_AT_ONCE: usize = 8;

/// The caller's choices for one compaction.
#[derive(Clone, Debug, Default)]
pub(super) struct CompactOptions {
    /// Code alone writes the summary, whichever summarizer is configured.
    pub embedded_only: bool,
    /// The agent's own request, where it is known.
    pub frame: Option<RequestFrame>,
    /// The job that the compaction is made for, and the token of its lease.
    pub job: Option<(JobId, Uuid)>,
    /// Serve one prompt and commit nothing.
    pub uncommitted: bool,
    /// The caller asked for it; the size of the prompt did not.
    pub is_manual: bool,
}

/// A thread under a new compaction.
#[derive(Clone, Debug)]
pub(super) struct CompactedThread {
    /// The version of the newest committed plan.
    pub version: u64,
    pub compaction: Arc<Compaction>,
    /// The messages that stay loaded, as far as the compaction covers them.
    pub thread: Arc<Thread>,
    pub hints: Vec<ArtifactHint>,
    pub stats: CompactionStats,
    /// Why the compaction is not in the store; it serves this prompt alone then.
    pub saved: Result<(), NotSaved>,
}

/// The reasons for which a compaction that was made is not in the store.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NotSaved {
    /// It was made for a state that the store does not have.
    #[error("messages wait for the store, or others are faster")]
    Behind,
    #[error(transparent)]
    Store(StoreError),
}

/// The reasons for which there is no compaction.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NotCompacted {
    /// The prompt fits, or nothing can shrink.
    #[error("{reason}")]
    NothingToDo { reason: String },
    /// Another process committed first, or holds the job by now.
    #[error("another compaction was committed first")]
    Lost,
    /// The model did not write a usable summary, and nothing may stand in for it.
    #[error("there is no summary: {}", .0.details)]
    NoSummary(NoSummary),
    #[error("the planner panicked")]
    PlannerPanicked,
}

/// A finished compaction with everything that has to be written for it.
struct FinishedPlan {
    compaction: Compaction,
    stored: StoredPlan,
    /// The thread without the messages that the summary stands for.
    thread: Thread,
    /// The runs of log places that left the prompt.
    compacted: Vec<(u64, u64)>,
    /// The passages for recall.
    index: Option<Write>,
    contents: Vec<ArtifactContent>,
}

/// The bytes of one artifact on their way into the object store.
struct ArtifactContent {
    id: String,
    text: String,
    tokens: Tokens,
    sensitivity: Sensitivity,
}

impl Engine {
    /// Compacts a snapshot and commits it.
    pub(super) async fn compact(
        &self,
        access: &Access,
        snapshot: Snapshot,
        options: CompactOptions,
    ) -> Result<CompactedThread, NotCompacted> {
        let span = spans::compaction(&snapshot.key, &snapshot.policy.label(), snapshot.tokens().get());
        let result = self.plan_and_commit(access, snapshot, options).instrument(span.clone()).await;
        let (stats, outcome) = match &result {
            Ok(compacted) if compacted.saved.is_ok() => (compacted.stats, CompactionOutcome::Committed),
            Ok(compacted) => (compacted.stats, CompactionOutcome::Failed),
            Err(NotCompacted::NothingToDo { .. }) => (CompactionStats::default(), CompactionOutcome::Nothing),
            Err(NotCompacted::Lost) => (CompactionStats::default(), CompactionOutcome::Conflict),
            Err(_) => (CompactionStats::default(), CompactionOutcome::Failed),
        };
        spans::record_compaction(&span, &stats, outcome);
        result
    }

    async fn plan_and_commit(
        &self,
        access: &Access,
        snapshot: Snapshot,
        options: CompactOptions,
    ) -> Result<CompactedThread, NotCompacted> {
        let mut snapshot = snapshot;
        let state_version = self.read_workstream_state(&mut snapshot).await;
        let snapshot = Arc::new(snapshot);
        let draft = Arc::new(self.draft(&snapshot).await?);
        self.emit_proposal(&snapshot, draft.plan());
        // A model may take a minute: whoever shows that a compaction is under way hears of it before.
        let planned = stats(draft.plan(), &snapshot.thread, 0);
        let unchanged = CompactionStats { tokens_after: planned.tokens_before, compacted_blocks: 0, ..planned };
        let ending = HookEnding::new(&self.inner.bus, &snapshot.key, unchanged);
        self.inner.bus.before(&snapshot.key, &planned).await;
        let result = self.finish_and_commit(access, &snapshot, draft, state_version, options).await;
        ending.tell(result.as_ref().ok().map(|compacted| compacted.stats)).await;
        result
    }

    /// Asks for the summary that a draft needs, finishes it and commits it.
    async fn finish_and_commit(
        &self,
        access: &Access,
        snapshot: &Arc<Snapshot>,
        draft: Arc<Draft>,
        state_version: Option<u64>,
        options: CompactOptions,
    ) -> Result<CompactedThread, NotCompacted> {
        let prose = self.ask_for_summary(snapshot, &draft, &options).await?;
        let finished = {
            let (engine, snapshot) = (self.clone(), Arc::clone(snapshot));
            let written = prose.map(|prose| prose.summary);
            run_blocking(move || {
                let compaction = snapshot.planner().finish(Arc::unwrap_or_clone(draft), written);
                engine.prepare_commit(&snapshot, compaction)
            })
            .await?
        };
        let stats = stats(&finished.compaction.plan, &snapshot.thread, finished.compaction.summaries.len());
        let FinishedPlan { compaction, stored, thread, compacted, index, contents } = finished;
        let saved = if options.uncommitted {
            Err(NotSaved::Behind)
        } else {
            let at = Moment::now();
            let mut writes = vec![self.commit_plan(snapshot, &compaction, &stored, compacted, at)];
            let mut events = completion_events(snapshot, &compaction, options.is_manual, at);
            events.extend(index.as_ref().and_then(|index| indexed_event(snapshot, index, at)));
            writes.extend(index.as_ref().and_then(|_| self.embedding_job(&snapshot.key)));
            writes.extend(index);
            writes.extend(self.store_artifacts(access, snapshot, contents, at).await);
            writes.extend(events.iter().map(|event| self.inner.log.add_event(event)));
            writes.extend(
                state_version.and_then(|version| self.put_workstream_state(snapshot, &compaction, version, at)),
            );
            let done = |(job, token)| Write::FinishJob { job, token, end: JobEnd::Done };
            writes.extend(options.job.map(done));
            self.commit(snapshot, &writes, &events).await?
        };
        Ok(CompactedThread {
            version: snapshot.version + u64::from(saved.is_ok()),
            compaction: Arc::new(stored.compaction),
            thread: Arc::new(thread),
            hints: stored.hints,
            stats,
            saved,
        })
    }

    /// Plans a snapshot.
    pub(super) async fn draft(&self, snapshot: &Arc<Snapshot>) -> Result<Draft, NotCompacted> {
        let snapshot = Arc::clone(snapshot);
        match run_blocking(move || snapshot.planner().decide()).await? {
            Verdict::Act(draft) => Ok(*draft),
            Verdict::Fits { tokens } => Err(NotCompacted::NothingToDo { reason: format!("{tokens} tokens fit") }),
            Verdict::Wait { reason, .. } => Err(NotCompacted::NothingToDo { reason }),
        }
    }

    /// Asks the model for a draft's summary, with smaller questions while they turn out too long. `None` where code is to
    /// write it.
    pub(super) async fn ask_for_summary(
        &self,
        snapshot: &Arc<Snapshot>,
        draft: &Arc<Draft>,
        options: &CompactOptions,
    ) -> Result<Option<Prose>, NotCompacted> {
        let Some(model) = self.inner.summarizer.model().filter(|_| !options.embedded_only) else { return Ok(None) };
        let mut smaller = 0;
        loop {
            let (planned, draft, asked) = (Arc::clone(snapshot), Arc::clone(draft), model.clone());
            let frame = options.frame.clone();
            let question = run_blocking(move || question(&planned, &draft, &asked, frame, smaller)).await?;
            let Some((dialogue, put)) = question else { return Ok(None) };
            match self.find_or_ask(snapshot, model, dialogue, &put).await {
                Ok(prose) => return Ok(Some(prose)),
                Err(no) if model.may_ask_smaller(&no, smaller) => smaller += 1,
                Err(no) => return self.fall_back(snapshot, no).await.map(|()| None),
            }
        }
    }

    fn emit_proposal(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut event = snapshot.event(EventKind::CompactionProposalGenerated);
        (event.tokens_before, event.tokens_after) = (plan.before.get(), plan.after.get());
        let event = event.with(EventField::Records, plan.records.len()).with(EventField::Policy, plan.policy.clone());
        self.inner.bus.emit(&event);
    }

    /// Reports that the model wrote no usable summary; fails unless code may write it.
    async fn fall_back(&self, snapshot: &Snapshot, no: NoSummary) -> Result<(), NotCompacted> {
        let may_fall_back = self.inner.summarizer.may_fall_back();
        let event = snapshot.event(EventKind::SummaryFellBack).with(EventField::Reason, no.reason.name());
        let event = event.with(EventField::Details, no.details.clone()).with(EventField::Embedded, may_fall_back);
        self.record_event(&event).await;
        if may_fall_back { Ok(()) } else { Err(NotCompacted::NoSummary(no)) }
    }

    /// Returns a model's prose: from the cache, or asked for.
    async fn find_or_ask(
        &self,
        snapshot: &Snapshot,
        model: &ModelSummarizer,
        dialogue: Dialogue,
        put: &QuestionForm,
    ) -> Result<Prose, NoSummary> {
        let log = &self.inner.log;
        let (tenant, name) = (&snapshot.key.tenant, cache_name(&dialogue, put));
        if let Ok(Some(prose)) = log.unexpired::<Prose>(tenant, DocumentKind::Summary, &name, Moment::now()).await {
            self.inner.bus.emit(&snapshot.event(EventKind::SummaryCached).with(EventField::Model, model.id()));
            return Ok(prose);
        }
        let spent = SummaryUsage::default();
        let prose = model.ask(tenant, dialogue, put, &*snapshot.counter, &spent).await;
        if spent.total() != Usage::default() {
            let usage = serde_json::to_value(spent.total()).unwrap_or_default();
            let event = snapshot.event(EventKind::SummaryAsked).with(EventField::Model, model.id());
            self.inner.bus.emit(&event.with(EventField::Usage, usage));
        }
        let prose = prose?;
        let expires = Moment::now().after(self.settings().summary_cache);
        let document = NewDocument::new(tenant, DocumentKind::Summary, &name, &prose).expires(expires);
        if let Err(error) = log.apply(&[log.put_document(document)]).await {
            tracing::warn!(%error, "failed to cache a summary");
        }
        Ok(prose)
    }

    /// Derives from a compaction everything that has to be written for it.
    fn prepare_commit(&self, snapshot: &Snapshot, compaction: Compaction) -> FinishedPlan {
        let thread = &snapshot.thread;
        let known = snapshot.compaction().map(|known| touched(&known.plan, thread)).unwrap_or_default();
        let fresh: Vec<usize> =
            touched(&compaction.plan, thread).into_iter().filter(|place| !known.contains(place)).collect();
        let artifacts = compaction.artifacts(thread);
        let mut hints = snapshot.hints.clone();
        for artifact in &artifacts {
            let (mut new, tool) = hint(artifact, snapshot);
            let sensitivity =
                self.settings().sensitivity_of(new.names.iter().map(String::as_str).chain([tool.as_str()]));
            match hints.iter_mut().find(|hint| hint.id == new.id) {
                // The same content may come from another place, where it is more sensitive.
                Some(known) => known.sensitivity = known.sensitivity.max(Some(sensitivity)),
                None => {
                    new.expires = self.settings().retention.ttl.map(|ttl| Moment::now().after(ttl));
                    new.sensitivity = Some(sensitivity);
                    hints.push(new);
                }
            }
        }
        hints.drain(..hints.len().saturating_sub(HINTS_MAX));
        let sensitivity = |artifact: &Artifact<'_>| {
            let known = hints.iter().find(|hint| hint.id == artifact.id.as_str()).and_then(|hint| hint.sensitivity);
            known.unwrap_or(self.settings().retention.sensitivity)
        };
        let contents =
            artifacts.iter().map(|artifact| artifact_content(artifact, snapshot, sensitivity(artifact))).collect();
        let places: Vec<u64> = fresh.iter().map(|place| thread.message(*place).log_place() as u64).collect();
        let index = self.index(snapshot, &fresh);
        let (stored, small) = StoredPlan::of(&compaction, thread, snapshot.length, self.counter_label(), hints);
        FinishedPlan { compaction, stored, thread: small, compacted: place_runs(places), index, contents }
    }

    fn index(&self, snapshot: &Snapshot, places: &[usize]) -> Option<Write> {
        let vault = self.inner.log.vault();
        let mut rows = Vec::new();
        for place in places {
            let message = snapshot.thread.message(*place);
            let words = crate::log::words_of(message.parts());
            rows.extend(index_rows(vault, &snapshot.key.tenant, message.log_place() as u64, &words));
        }
        (!rows.is_empty()).then(|| Write::Index { key: snapshot.key.clone(), rows })
    }

    fn commit_plan(
        &self,
        snapshot: &Snapshot,
        compaction: &Compaction,
        stored: &StoredPlan,
        compacted: Vec<(u64, u64)>,
        at: Moment,
    ) -> Write {
        let version = snapshot.version + 1;
        let plan = PlanRow {
            version,
            at,
            covers: snapshot.length,
            live_from: stored.live_from,
            policy: compaction.plan.policy.clone(),
            before: compaction.plan.before.get(),
            after: compaction.plan.after.get(),
            compacted,
            body: self.inner.log.seal_plan(&snapshot.key, version, stored),
        };
        Write::CommitPlan { key: snapshot.key.clone(), plan: Box::new(plan) }
    }

    /// Applies the batch of one compaction and tells what became of it. A lost race is [`NotCompacted::Lost`]; a store that
    /// does not take it is no error, because the plan can still serve this prompt.
    async fn commit(
        &self,
        snapshot: &Snapshot,
        writes: &[Write],
        events: &[Event],
    ) -> Result<Result<(), NotSaved>, NotCompacted> {
        match self.inner.log.apply(writes).await {
            Ok(()) => {
                events.iter().for_each(|event| self.inner.bus.emit(event));
                self.inner.job_changed.notify_waiters();
                Ok(Ok(()))
            }
            Err(error) if error.is_conflict() => {
                self.inner.bus.emit(&snapshot.event(EventKind::CompactionConflict));
                Err(NotCompacted::Lost)
            }
            Err(error) => {
                let event = snapshot.event(EventKind::CompactionFailed).with(EventField::Reason, error.to_string());
                self.inner.bus.emit(&event);
                Ok(Err(NotSaved::Store(error)))
            }
        }
    }

    /// Writes the content that leaves the prompt to the object store and returns its metadata. Content that cannot be
    /// written now is still in the log, and is read from there.
    async fn store_artifacts(
        &self,
        access: &Access,
        snapshot: &Snapshot,
        contents: Vec<ArtifactContent>,
        at: Moment,
    ) -> Vec<Write> {
        let retention = self.settings().retention;
        let put = |ArtifactContent { id, text, tokens, sensitivity }: ArtifactContent| async move {
            let options = PutOptions { sensitivity, ttl: retention.ttl, tokens, at };
            let written = self.inner.artifacts.put(access, &snapshot.key.thread, text.as_bytes(), options).await;
            written.inspect_err(|error| tracing::warn!(artifact = id, %error, "failed to store an artifact"))
        };
        // One deadline for all of them: none is worth a request.
        let deadline = tokio::time::sleep(self.settings().object_timeout);
        let puts = futures_util::stream::iter(contents).map(put).buffer_unordered(PUTS_AT_ONCE).take_until(deadline);
        puts.filter_map(|written| async move { written.ok() }).collect().await
    }

    /// Fills the workstream state into the options, where the policy keeps one. Returns the state's version.
    async fn read_workstream_state(&self, snapshot: &mut Snapshot) -> Option<u64> {
        if snapshot.policy.summarize.form != SummaryForm::Workstream {
            return None;
        }
        let (tenant, name) = (&snapshot.key.tenant, snapshot.key.thread.as_str());
        match self.inner.log.document(tenant, DocumentKind::State, name).await {
            Ok((state, version)) => {
                snapshot.options.workstream = state;
                Some(version)
            }
            Err(error) => {
                tracing::warn!(%error, "failed to read the workstream state");
                None
            }
        }
    }

    /// Stores the workstream state as the summary has it.
    fn put_workstream_state(
        &self,
        snapshot: &Snapshot,
        compaction: &Compaction,
        version: u64,
        at: Moment,
    ) -> Option<Write> {
        let state = compaction.summaries.first()?.items.workstream.as_ref()?;
        if snapshot.options.workstream.as_ref() == Some(state) {
            return None;
        }
        let (tenant, name) = (&snapshot.key.tenant, snapshot.key.thread.as_str());
        let document = NewDocument::new(tenant, DocumentKind::State, name, state).expecting(version).at(at);
        Some(self.inner.log.put_document(document))
    }
}

/// Calls the hooks after a compaction, whatever became of it: committed, lost, failed, or left because its caller went away. A
/// status that a hook set before would never be taken back otherwise.
struct HookEnding {
    bus: Bus,
    key: ThreadKey,
    /// What is told where nothing was compacted.
    unchanged: CompactionStats,
    is_told: bool,
}

impl HookEnding {
    fn new(bus: &Bus, key: &ThreadKey, unchanged: CompactionStats) -> Self {
        HookEnding { bus: bus.clone(), key: key.clone(), unchanged, is_told: false }
    }

    async fn tell(mut self, stats: Option<CompactionStats>) {
        self.is_told = true;
        self.bus.after(&self.key, &stats.unwrap_or(self.unchanged)).await;
    }
}

impl Drop for HookEnding {
    fn drop(&mut self) {
        let Some(runtime) = tokio::runtime::Handle::try_current().ok().filter(|_| !self.is_told) else { return };
        let (bus, key, stats) = (self.bus.clone(), self.key.clone(), self.unchanged);
        runtime.spawn(async move { bus.after(&key, &stats).await });
    }
}

/// Returns the events of a committed compaction: one for each rung that did something, then the completion.
fn completion_events(snapshot: &Snapshot, compaction: &Compaction, is_manual: bool, at: Moment) -> Vec<Event> {
    let plan = &compaction.plan;
    let limit = snapshot.room.limit.get();
    let mut events = Vec::new();
    let mut left = plan.before.get();
    for step in plan.steps.iter().filter(|step| step.touched > 0) {
        let mut event = Event::new(at, snapshot.key.clone(), rung_event(step));
        (event.tokens_before, event.tokens_after) = (left, step.after.get());
        (event.tokens_freed, event.budget_limit) = (step.freed.get(), limit);
        event.strategy = Some(step.rung.map_or(Strategy::OwnRung, Strategy::Rung));
        event.span = span_of(plan, step, &snapshot.thread);
        left = step.after.get();
        events.push(event.with(EventField::Touched, step.touched));
    }
    let mut done = Event::new(at, snapshot.key.clone(), EventKind::CompactionCompleted);
    (done.tokens_before, done.tokens_after) = (plan.before.get(), plan.after.get());
    (done.tokens_freed, done.budget_limit) = (plan.before.get().saturating_sub(plan.after.get()), limit);
    let author = compaction.summaries.first().map(|summary| serde_json::json!(summary.author));
    done = done
        .with(EventField::Policy, plan.policy.clone())
        .with(EventField::Round, plan.round)
        .with(EventField::Trigger, if is_manual { "manual" } else { "auto" })
        .with(EventField::Covers, snapshot.length)
        .with(EventField::Author, author.unwrap_or_default())
        .with(EventField::Version, snapshot.version + 1);
    if let Some(short) = &plan.shortfall {
        done = done.with(EventField::Over, short.over.get()).with(EventField::Floor, short.floor.get());
    }
    events.push(done);
    events
}

/// Runs planning on a blocking thread: it takes milliseconds of CPU.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotCompacted> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "the planner panicked");
        NotCompacted::PlannerPanicked
    })
}

/// Returns the question for a draft's summary, and how it is put: at the end of the agent's own request where that fits, so
/// that the provider's cache pays for it. `None` when the draft needs no summary.
fn question(
    snapshot: &Snapshot,
    draft: &Draft,
    model: &ModelSummarizer,
    frame: Option<RequestFrame>,
    smaller: u32,
) -> Option<(Dialogue, QuestionForm)> {
    let pending = draft.pending()?;
    // A call that waits for its result cannot be followed by a question.
    let is_open = snapshot.thread.in_flight().is_some();
    let fits =
        |frame: &RequestFrame| !is_open && model.can_append(frame, snapshot.dialect, snapshot.tokens(), pending.limit);
    let put = match frame.filter(|frame| smaller == 0 && fits(frame)) {
        Some(frame) => {
            let messages = snapshot.messages(&[]).iter().map(ToString::to_string).collect();
            QuestionForm::Appended { frame, messages }
        }
        None => QuestionForm::Transcript,
    };
    let dialogue = model.dialogue(&snapshot.planner(), draft, &put, smaller)?;
    Some((dialogue, put))
}

/// Returns the places of the loaded messages that a plan changes or removes.
fn touched(plan: &Plan, thread: &Thread) -> BTreeSet<usize> {
    let evicted = thread.evicted().map(|evicted| evicted.at);
    let mut places = BTreeSet::new();
    for record in &plan.records {
        match (&record.action, record.part) {
            (_, Some(part)) => {
                places.insert(part.place);
            }
            (Action::Summarize { kept, .. }, None) => {
                places.extend(record.span.range().filter(|place| !kept.contains(&thread.message(*place).id())));
            }
            (_, None) => places.extend(record.span.range()),
        }
    }
    places.retain(|place| Some(*place) != evicted);
    places
}

fn artifact_content(artifact: &Artifact<'_>, snapshot: &Snapshot, sensitivity: Sensitivity) -> ArtifactContent {
    let message = snapshot.thread.message(artifact.place);
    let is_text = message.parts()[artifact.part].media().is_empty();
    let tokens = if is_text { snapshot.counter.count(artifact.content) } else { message.part_tokens(artifact.part) };
    ArtifactContent { id: artifact.id.as_str().to_owned(), text: artifact.content.to_owned(), tokens, sensitivity }
}

/// Returns the names that a question may use for an artifact: the paths, commands and addresses of the call that it
/// answers; and the name of its tool.
fn hint(artifact: &Artifact<'_>, snapshot: &Snapshot) -> (ArtifactHint, String) {
    let thread = &snapshot.thread;
    let message = thread.message(artifact.place);
    let mut names = Vec::new();
    let mut tool = String::new();
    let media = message.parts()[artifact.part].media();
    names.extend(media.iter().filter_map(|media| media.name.as_deref().map(str::to_owned)));
    for (_, result) in message.results().filter(|(part, _)| *part == artifact.part) {
        tool = result.tool.to_string();
        let calls = thread.messages().iter().take(artifact.place + 1).rev().flat_map(|message| message.calls());
        if let Some(call) = calls.into_iter().find(|call| call.id == result.call_id) {
            let meaning = snapshot.policy.tools.meaning(call);
            names.extend(meaning.paths);
            names.extend(crate::rehydrate::named_in(&call.arguments));
        }
    }
    names.dedup();
    let reference = thread.reference(artifact.place);
    let what = names.first().cloned().unwrap_or_else(|| tool.clone());
    let hint = format!("read it when the full text of {what} ({reference}) is needed");
    let id = artifact.id.as_str().to_owned();
    let (place, is_media) = (message.log_place() as u64, !media.is_empty());
    (ArtifactHint { id, place, hint, names, expires: None, sensitivity: None, is_media }, tool)
}

fn stats(plan: &Plan, thread: &Thread, summaries: usize) -> CompactionStats {
    CompactionStats {
        tokens_before: plan.before.get(),
        tokens_after: plan.after.get(),
        compacted_blocks: touched(plan, thread).len() as u64,
        summary_block_count: summaries as u64,
    }
}

/// Tells that passages went to the index. The event keeps the name that the design gives it, `compaction_retrieved`.
fn indexed_event(snapshot: &Snapshot, index: &Write, at: Moment) -> Option<Event> {
    let Write::Index { rows, .. } = index else { return None };
    let event = Event::new(at, snapshot.key.clone(), EventKind::CompactionIndexed);
    Some(event.with(EventField::Passages, rows.len()))
}

fn rung_event(step: &RungStep) -> EventKind {
    match step.rung {
        Some(Rung::Deduplicate) => EventKind::CompactionDeduplicated,
        Some(Rung::Supersede) => EventKind::CompactionSuperseded,
        Some(Rung::Externalize) => EventKind::CompactionExternalized,
        Some(Rung::Summarize) => EventKind::CompactionSummarized,
        Some(Rung::Drop) => EventKind::CompactionDropped,
        Some(Rung::Trim) => EventKind::CompactionTrimmed,
        Some(Rung::Clear) | None => EventKind::CompactionCleared,
    }
}

/// Returns the log places that a rung touched, from the first to the last.
fn span_of(plan: &Plan, step: &RungStep, thread: &Thread) -> Option<(u64, u64)> {
    let own = plan.records.iter().filter(|record| Some(record.rung) == step.rung);
    let places: Vec<u64> =
        own.flat_map(|record| record.span.range()).map(|place| thread.message(place).log_place() as u64).collect();
    Some((*places.iter().min()?, places.iter().max()? + 1))
}
