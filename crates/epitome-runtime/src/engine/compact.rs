//! Performing a compaction: plan, ask for a summary, keep what leaves, commit.
//!
//! Planning is pure and runs on a blocking thread. It is done once: the draft waits for the model's answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::plan::{Action, Artifact, Compaction, Plan, Step as RungStep};
use epitome::planner::{Draft, Verdict};
use epitome::policy::{Rung, SummaryForm};
use epitome::summary::{Dialogue, StateCaps, StructuredSummary, WorkstreamState};
use epitome::thread::Thread;
use futures_util::StreamExt as _;
use tracing::Instrument as _;
use uuid::Uuid;

use super::Engine;
use super::snapshot::Snapshot;
use super::transaction::{Commit, CompactionTransaction};
use crate::artifact::{Access, PutOptions};
use crate::event::spans::{self, Outcome};
use crate::event::{Event, EventKind, Stats};
use crate::ids::Moment;
use crate::log::{Document, Hint, StoredPlan};
use crate::model::Usage;
use crate::recall::index_rows;
use crate::store::{DocumentKind, JobId, PlanRow, StoreError, Write};
use crate::summarize::{Frame, ModelSummarizer, NoSummary, Prose, Put, Spent, cache_name};

/// The most artifacts that a thread remembers names of; older ones are still read by their id.
const HINTS_MAX: usize = 500;

/// How many artifacts are written at once.
const PUTS_AT_ONCE: usize = 8;

/// How a compaction is made.
#[derive(Clone, Debug, Default)]
pub(super) struct How {
    /// Whether code alone writes the summary, whoever is configured.
    pub embedded_only: bool,
    /// The agent's own request, where it is known.
    pub frame: Option<Frame>,
    /// The job that it is made by.
    pub job: Option<(JobId, Uuid)>,
    /// Whether it serves one prompt alone.
    pub unsaved: bool,
}

/// A compaction that was made.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its version.
    pub version: u64,
    /// The compaction, for the thread as it is loaded now.
    pub compaction: Arc<Compaction>,
    /// The thread as it is loaded now, as far as the compaction covers it.
    pub thread: Arc<Thread>,
    /// What its artifacts may be asked for by.
    pub hints: Vec<Hint>,
    /// What it did.
    pub stats: Stats,
    /// Whether it is in the store; one that is not serves this prompt alone.
    pub saved: Result<(), String>,
}

/// Why there is no compaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCompacted {
    /// The prompt fits, or nothing can shrink.
    #[error("{reason}")]
    NothingToDo {
        /// In words.
        reason: String,
    },
    /// Somebody else committed first, or has the job by now.
    #[error("another compaction was committed first")]
    Lost,
    /// The model did not write a usable summary, and nothing may stand in for it.
    #[error("there is no summary: {reason}")]
    NoSummary {
        /// Why not.
        reason: String,
    },
    /// Planning broke off.
    #[error("planning broke off")]
    Broken,
}

/// Everything that a finished compaction leads to.
struct Finished {
    compaction: Compaction,
    stored: StoredPlan,
    thread: Thread,
    compacted: Vec<(u64, u64)>,
    index: Vec<Write>,
    contents: Vec<(String, String, Tokens)>,
}

impl Finished {
    fn stats(&self, thread: &Thread) -> Stats {
        stats(&self.compaction.plan, thread, self.compaction.summaries.len())
    }

    fn committed(self, version: u64, stats: Stats, saved: Result<(), String>) -> Committed {
        Committed {
            version,
            compaction: Arc::new(self.stored.compaction),
            thread: Arc::new(self.thread),
            hints: self.stored.hints,
            stats,
            saved,
        }
    }
}

impl Engine {
    /// Compacts a snapshot and commits it.
    pub(super) async fn compact(
        &self,
        access: &Access,
        snapshot: Snapshot,
        how: How,
    ) -> Result<Committed, NotCompacted> {
        let span = spans::compaction(&snapshot.key, &snapshot.policy.label(), snapshot.tokens().get());
        let outcome = self.plan_and_commit(access, snapshot, how).instrument(span.clone()).await;
        let (stats, ended) = match &outcome {
            Ok(made) if made.saved.is_ok() => (made.stats, Outcome::Committed),
            Ok(made) => (made.stats, Outcome::Failed),
            Err(NotCompacted::NothingToDo { .. }) => (Stats::default(), Outcome::Nothing),
            Err(NotCompacted::Lost) => (Stats::default(), Outcome::Conflict),
            Err(_) => (Stats::default(), Outcome::Failed),
        };
        spans::record_compaction(&span, &stats, ended);
        outcome
    }

    async fn plan_and_commit(&self, access: &Access, snapshot: Snapshot, how: How) -> Result<Committed, NotCompacted> {
        let snapshot = Arc::new(snapshot);
        let state = self.state(&snapshot).await;
        let draft = Arc::new(self.draft(&snapshot).await?);
        self.tell_planned(&snapshot, draft.plan());
        let prose = self.summary(&snapshot, &draft, &how, &state).await?;
        let before = stats(draft.plan(), &snapshot.thread, 0);
        self.inner.bus.before(&snapshot.key, &before).await;
        let finished = self.finish(&snapshot, draft, prose.as_ref().map(|prose| prose.summary.clone())).await?;
        self.commit(access, &snapshot, how, state, prose, finished).await
    }

    /// Plans a snapshot.
    async fn draft(&self, snapshot: &Arc<Snapshot>) -> Result<Draft, NotCompacted> {
        let snapshot = Arc::clone(snapshot);
        match run_blocking(move || snapshot.planner().decide()).await? {
            Verdict::Act(draft) => Ok(*draft),
            Verdict::Fits { tokens } => Err(NotCompacted::NothingToDo { reason: format!("{tokens} tokens fit") }),
            Verdict::Wait { reason, .. } => Err(NotCompacted::NothingToDo { reason }),
        }
    }

    /// Asks the model for a draft's summary, with smaller questions while they turn out too long. `None` where code is to
    /// write it.
    async fn summary(
        &self,
        snapshot: &Arc<Snapshot>,
        draft: &Arc<Draft>,
        how: &How,
        state: &Option<(WorkstreamState, u64)>,
    ) -> Result<Option<Prose>, NotCompacted> {
        let Some(model) = self.inner.summarizer.model().filter(|_| !how.embedded_only) else { return Ok(None) };
        let mut smaller = 0;
        loop {
            let state = state.as_ref().map(|(state, _)| state.clone());
            let (planned, draft, frame) = (Arc::clone(snapshot), Arc::clone(draft), how.frame.clone());
            let asking = model.clone();
            let question =
                run_blocking(move || question(&planned, &draft, &asking, frame, state.as_ref(), smaller)).await?;
            let Some((dialogue, put)) = question else { return Ok(None) };
            match self.prose(snapshot, model, dialogue, &put).await {
                Ok(prose) => return Ok(Some(prose)),
                Err(no) if model.may_ask_smaller(&no, smaller) => smaller += 1,
                Err(no) => return self.fall_back(snapshot, &no).await.map(|()| None),
            }
        }
    }

    fn tell_planned(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut event = self.event(snapshot, EventKind::CompactionProposalGenerated);
        (event.tokens_before, event.tokens_after) = (plan.before.get(), plan.after.get());
        self.inner.bus.emit(&event.with("records", plan.records.len()).with("policy", plan.policy.clone()));
    }

    async fn fall_back(&self, snapshot: &Snapshot, no: &NoSummary) -> Result<(), NotCompacted> {
        let falls = self.inner.summarizer.may_fall_back();
        let event = self.event(snapshot, EventKind::SummaryFellBack);
        let event = event.with("reason", no.reason.name()).with("details", no.details.clone()).with("embedded", falls);
        self.inner.bus.emit(&event);
        if let Err(error) = self.inner.log.apply(&[self.inner.log.add_event(&event)]).await {
            tracing::warn!(%error, "an event could not be kept");
        }
        match falls {
            true => Ok(()),
            false => Err(NotCompacted::NoSummary { reason: no.details.clone() }),
        }
    }

    /// A model's prose: from the cache, or asked for.
    async fn prose(
        &self,
        snapshot: &Snapshot,
        model: &ModelSummarizer,
        dialogue: Dialogue,
        put: &Put,
    ) -> Result<Prose, NoSummary> {
        let name = cache_name(&dialogue, put);
        let tenant = &snapshot.key.tenant;
        if let Ok(Some(prose)) =
            self.inner.log.unexpired::<Prose>(tenant, DocumentKind::Summary, &name, Moment::now()).await
        {
            let event = self.event(snapshot, EventKind::SummaryCached);
            self.inner.bus.emit(&event.with("model", model.id()));
            return Ok(prose);
        }
        let spent = Spent::default();
        let prose = model.ask(tenant, dialogue, put, &*snapshot.counter, &spent).await;
        if spent.total() != Usage::default() {
            let event = self.event(snapshot, EventKind::SummaryAsked).with("model", model.id());
            self.inner.bus.emit(&event.with("usage", serde_json::to_value(spent.total()).unwrap_or_default()));
        }
        let prose = prose?;
        let at = Moment::now();
        let expires = Some(at.after(self.settings().summary_cache));
        let document =
            Document { tenant, kind: DocumentKind::Summary, name: &name, value: &prose, expected: None, at, expires };
        if let Err(error) = self.inner.log.apply(&[self.inner.log.put_document(&document)]).await {
            tracing::warn!(%error, "a summary could not be cached");
        }
        Ok(prose)
    }

    async fn finish(
        &self,
        snapshot: &Arc<Snapshot>,
        draft: Arc<Draft>,
        written: Option<StructuredSummary>,
    ) -> Result<Finished, NotCompacted> {
        let (engine, snapshot) = (self.clone(), Arc::clone(snapshot));
        run_blocking(move || {
            let compaction = snapshot.planner().finish(Arc::unwrap_or_clone(draft), written);
            engine.finished(&snapshot, compaction)
        })
        .await
    }

    fn finished(&self, snapshot: &Snapshot, compaction: Compaction) -> Finished {
        let thread = &snapshot.thread;
        let known = snapshot.compaction().map(|known| touched(&known.plan, thread)).unwrap_or_default();
        let fresh: Vec<usize> =
            touched(&compaction.plan, thread).into_iter().filter(|place| !known.contains(place)).collect();
        let index = self.index(snapshot, &fresh);
        let artifacts = compaction.artifacts(thread);
        let mut hints = snapshot.hints.clone();
        for artifact in &artifacts {
            if hints.iter().all(|hint| hint.id != artifact.id.as_str()) {
                let expires = self.settings().kept.ttl.map(|ttl| Moment::now().after(ttl));
                hints.push(Hint { expires, ..hint(artifact, snapshot) });
            }
        }
        hints.drain(..hints.len().saturating_sub(HINTS_MAX));
        let contents = artifacts.iter().map(|artifact| content(artifact, snapshot)).collect();
        let places: Vec<u64> = fresh.iter().map(|place| thread.message(*place).log_place() as u64).collect();
        let (stored, small) = StoredPlan::of(&compaction, thread, snapshot.length, self.counter_label(), hints);
        Finished { compaction, stored, thread: small, compacted: runs(&places), index, contents }
    }

    fn index(&self, snapshot: &Snapshot, places: &[usize]) -> Vec<Write> {
        let vault = self.inner.log.vault();
        let mut rows = Vec::new();
        for place in places {
            let message = snapshot.thread.message(*place);
            let words = crate::log::words_of(message.parts());
            rows.extend(index_rows(vault, &snapshot.key.tenant, message.log_place() as u64, &words));
        }
        match rows.is_empty() {
            true => Vec::new(),
            false => vec![Write::Index { key: snapshot.key.clone(), rows }],
        }
    }

    async fn commit(
        &self,
        access: &Access,
        snapshot: &Snapshot,
        how: How,
        state: Option<(WorkstreamState, u64)>,
        prose: Option<Prose>,
        finished: Finished,
    ) -> Result<Committed, NotCompacted> {
        if how.unsaved {
            let stats = finished.stats(&snapshot.thread);
            return Ok(finished.committed(
                snapshot.version,
                stats,
                Err("messages wait for the store, or others are faster".to_owned()),
            ));
        }
        let at = Moment::now();
        let version = snapshot.version + 1;
        let mut finished = finished;
        let mut along = std::mem::take(&mut finished.index);
        let contents = std::mem::take(&mut finished.contents);
        along.extend(self.put_contents(access, snapshot, contents, at).await);
        let mut events = self.told(snapshot, &finished.compaction, at);
        events.extend(indexed(snapshot, &along, at));
        along.extend(events.iter().map(|event| self.inner.log.add_event(event)));
        along.extend(state.and_then(|state| self.merged(snapshot, state, prose, at)));
        let plan = &finished.compaction.plan;
        let row = PlanRow {
            version,
            at,
            covers: snapshot.length,
            live_from: finished.stored.live_from,
            policy: plan.policy.clone(),
            before: plan.before.get(),
            after: plan.after.get(),
            compacted: finished.compacted.clone(),
            body: self.inner.log.seal_plan(&snapshot.key, version, &finished.stored),
        };
        let transaction = CompactionTransaction {
            key: snapshot.key.clone(),
            expected_version: snapshot.version,
            plan: row,
            along,
            job: how.job,
        };
        let saved = match transaction.commit(&self.inner.log).await {
            Ok(Commit::Done) => Ok(()),
            Ok(Commit::Lost) => {
                self.inner.bus.emit(&self.event(snapshot, EventKind::CompactionConflict));
                return Err(NotCompacted::Lost);
            }
            Err(error) => Err(self.not_saved(snapshot, &error)),
        };
        let stats = finished.stats(&snapshot.thread);
        if saved.is_ok() {
            events.iter().for_each(|event| self.inner.bus.emit(event));
            self.inner.bell.notify_waiters();
            self.inner.bus.after(&snapshot.key, &stats).await;
        }
        let version = if saved.is_ok() { version } else { snapshot.version };
        Ok(finished.committed(version, stats, saved))
    }

    fn not_saved(&self, snapshot: &Snapshot, error: &StoreError) -> String {
        let event = self.event(snapshot, EventKind::CompactionFailed).with("reason", error.to_string());
        self.inner.bus.emit(&event);
        error.to_string()
    }

    /// Keeps the content that leaves; what cannot be kept just now is still in the log, and is read from there.
    async fn put_contents(
        &self,
        access: &Access,
        snapshot: &Snapshot,
        contents: Vec<(String, String, Tokens)>,
        at: Moment,
    ) -> Vec<Write> {
        let kept = self.settings().kept;
        let put = |(id, content, tokens): (String, String, Tokens)| async move {
            let options = PutOptions { sensitivity: kept.sensitivity, ttl: kept.ttl, tokens, at };
            let written = self.inner.artifacts.put(access, &snapshot.key.thread, content.as_bytes(), options).await;
            written.inspect_err(|error| tracing::warn!(artifact = id, %error, "an artifact could not be kept apart"))
        };
        // One deadline for all of them: none is worth a request.
        let deadline = tokio::time::sleep(self.settings().object_timeout);
        let puts = futures_util::stream::iter(contents).map(put).buffer_unordered(PUTS_AT_ONCE).take_until(deadline);
        puts.filter_map(|written| async move { written.ok() }).collect().await
    }

    /// The workstream state, where the policy keeps one.
    async fn state(&self, snapshot: &Snapshot) -> Option<(WorkstreamState, u64)> {
        if snapshot.policy.summarize.form != SummaryForm::Workstream {
            return None;
        }
        let found =
            self.inner.log.document(&snapshot.key.tenant, DocumentKind::State, snapshot.key.thread.as_str()).await;
        match found {
            Ok((state, version)) => Some((state.unwrap_or_default(), version)),
            Err(error) => {
                tracing::warn!(%error, "the workstream state cannot be read");
                None
            }
        }
    }

    fn merged(
        &self,
        snapshot: &Snapshot,
        state: (WorkstreamState, u64),
        prose: Option<Prose>,
        at: Moment,
    ) -> Option<Write> {
        let (mut state, version) = state;
        let deltas = prose.map(|prose| prose.deltas).filter(|deltas| !deltas.is_empty())?;
        for delta in deltas {
            let fallen = state.merge(delta, &StateCaps::default());
            tracing::debug!(count = fallen.len(), "entries left the workstream state");
        }
        let name = snapshot.key.thread.as_str();
        let (tenant, kind) = (&snapshot.key.tenant, DocumentKind::State);
        let document = Document { tenant, kind, name, value: &state, expected: Some(version), at, expires: None };
        Some(self.inner.log.put_document(&document))
    }

    fn told(&self, snapshot: &Snapshot, compaction: &Compaction, at: Moment) -> Vec<Event> {
        let plan = &compaction.plan;
        let limit = snapshot.room.limit.get();
        let mut events = Vec::new();
        let mut left = plan.before.get();
        for step in plan.steps.iter().filter(|step| step.touched > 0) {
            let mut event = Event::new(at, snapshot.key.clone(), rung_event(step));
            (event.tokens_before, event.tokens_after) = (left, step.after.get());
            (event.tokens_freed, event.budget_limit) = (step.freed.get(), limit);
            event.strategy = Some(step.rung.map_or("own", Rung::name).to_owned());
            event.span = span_of(plan, step, &snapshot.thread);
            left = step.after.get();
            events.push(event.with("touched", step.touched));
        }
        let mut done = Event::new(at, snapshot.key.clone(), EventKind::CompactionCompleted);
        (done.tokens_before, done.tokens_after) = (plan.before.get(), plan.after.get());
        (done.tokens_freed, done.budget_limit) = (plan.before.get().saturating_sub(plan.after.get()), limit);
        let author = compaction.summaries.first().map(|summary| serde_json::json!(summary.author));
        let done = done.with("policy", plan.policy.clone()).with("round", plan.round).with("covers", snapshot.length);
        let done = done.with("author", author.unwrap_or_default()).with("version", snapshot.version + 1);
        events.push(match &plan.shortfall {
            Some(short) => done.with("over", short.over.get()).with("floor", short.floor.get()),
            None => done,
        });
        events
    }

    pub(super) fn event(&self, snapshot: &Snapshot, kind: EventKind) -> Event {
        let mut event = Event::new(Moment::now(), snapshot.key.clone(), kind);
        (event.tokens_before, event.budget_limit) = (snapshot.tokens().get(), snapshot.room.limit.get());
        event.tokens_after = event.tokens_before;
        event
    }
}

/// Runs planning on a blocking thread: it takes milliseconds of CPU.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotCompacted> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "the planner panicked");
        NotCompacted::Broken
    })
}

/// Returns the question for a draft's summary, and how it is put: at the end of the agent's own request where that fits, so
/// that the provider's cache pays for it. `None` when the draft needs no summary.
fn question(
    snapshot: &Snapshot,
    draft: &Draft,
    model: &ModelSummarizer,
    frame: Option<Frame>,
    state: Option<&WorkstreamState>,
    smaller: u32,
) -> Option<(Dialogue, Put)> {
    let pending = draft.pending()?;
    // A call that waits for its result cannot be followed by a question.
    let is_open = snapshot.thread.in_flight().is_some();
    let fits = |frame: &Frame| !is_open && model.can_append(frame, snapshot.dialect, snapshot.tokens(), pending.limit);
    let put = match frame.filter(|frame| smaller == 0 && fits(frame)) {
        Some(frame) => {
            let messages = snapshot.messages(&[]).iter().map(ToString::to_string).collect();
            Put::Appended { frame, messages }
        }
        None => Put::Transcript,
    };
    let dialogue = model.dialogue(&snapshot.planner(), draft, &put, state, smaller)?;
    Some((dialogue, put))
}

/// The places of the loaded messages that a plan takes something of.
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

fn runs(places: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some((_, end)) if *end == *place => *end += 1,
            _ => runs.push((*place, place + 1)),
        }
    }
    runs
}

fn content(artifact: &Artifact<'_>, snapshot: &Snapshot) -> (String, String, Tokens) {
    let message = snapshot.thread.message(artifact.place);
    let tokens = match message.parts()[artifact.part].media().is_empty() {
        true => snapshot.counter.count(artifact.content),
        false => message.part_tokens(artifact.part),
    };
    (artifact.id.as_str().to_owned(), artifact.content.to_owned(), tokens)
}

/// What a message's artifact may be asked for by: the paths, commands and addresses of the call that it answers.
fn hint(artifact: &Artifact<'_>, snapshot: &Snapshot) -> Hint {
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
    Hint { id, place: message.log_place() as u64, hint, names, expires: None, is_media: !media.is_empty() }
}

/// What a plan did to a thread.
fn stats(plan: &Plan, thread: &Thread, summaries: usize) -> Stats {
    Stats {
        tokens_before: plan.before.get(),
        tokens_after: plan.after.get(),
        compacted_blocks: touched(plan, thread).len() as u64,
        summary_block_count: summaries as u64,
    }
}

/// That passages went to the index.
fn indexed(snapshot: &Snapshot, writes: &[Write], at: Moment) -> Option<Event> {
    let passages = writes.iter().find_map(|write| match write {
        Write::Index { rows, .. } => Some(rows.len()),
        _ => None,
    })?;
    let event = Event::new(at, snapshot.key.clone(), EventKind::CompactionRetrieved);
    Some(event.with("passages", passages))
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

/// The log places that a rung touched, from the first to the last.
fn span_of(plan: &Plan, step: &RungStep, thread: &Thread) -> Option<(u64, u64)> {
    let own = plan.records.iter().filter(|record| Some(record.rung) == step.rung);
    let places: Vec<u64> =
        own.flat_map(|record| record.span.range()).map(|place| thread.message(place).log_place() as u64).collect();
    Some((*places.iter().min()?, places.iter().max()? + 1))
}
