//! The store in memory: the reference that the others are compared with, and the store of tests and short runs.
//!
//! Nothing is written anywhere, and nothing is copied to be atomic: a write that succeeded leaves behind how to undo it,
//! and the undoing is done backwards when a later one of the same batch fails.

use epitome::thread::MessageId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use uuid::Uuid;

use super::rule::{self, not_at};
use super::{
    ArtifactRow, Candidate, DocumentKey, DocumentRow, EventRow, Found, IndexRow, JobId, JobKind, JobRow, JobState,
    Lease, MessageRow, NewJob, PlanRow, Result, SearchOrder, Segment, Store, StoreError, ThreadRow, VectorRow, Write,
};
use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};

/// A store that lasts as long as the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    /// Every clone sees a write at once, without waiting.
    fn is_shared(&self) -> bool {
        true
    }

    async fn apply(&self, writes: &[Write]) -> Result<()> {
        self.state().apply(writes)
    }

    async fn thread(&self, key: &ThreadKey) -> Result<Option<ThreadRow>> {
        Ok(self.state().threads.get(key).map(|thread| thread.row.clone()))
    }

    async fn threads(&self, tenant: &TenantId, after: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
        let state = self.state();
        let rows = state.threads.values().map(|thread| &thread.row).filter(|row| row.key.tenant == *tenant);
        Ok(rows.filter(|row| after.is_none_or(|after| row.key.thread > *after)).take(limit).cloned().collect())
    }

    async fn messages(&self, key: &ThreadKey, places: Range<u64>) -> Result<Vec<MessageRow>> {
        let state = self.state();
        let held = state.threads.get(key).map_or(&[][..], |thread| &thread.messages);
        let first = held.partition_point(|message| message.place < places.start);
        Ok(held[first..].iter().take_while(|message| message.place < places.end).cloned().collect())
    }

    async fn messages_at(&self, key: &ThreadKey, places: &[u64]) -> Result<Vec<MessageRow>> {
        let state = self.state();
        let held = state.threads.get(key).map_or(&[][..], |thread| &thread.messages);
        let places: BTreeSet<u64> = places.iter().copied().collect();
        let at = |place: u64| held.binary_search_by_key(&place, |message| message.place).ok();
        Ok(places.into_iter().filter_map(at).map(|at| held[at].clone()).collect())
    }

    async fn find(&self, tenant: &TenantId, scope: &str, ids: &[MessageId]) -> Result<Option<Found>> {
        let state = self.state();
        let own = |thread: &&Thread| thread.row.key.tenant == *tenant && thread.row.scope == scope;
        let holds = |thread: &Thread, id| thread.messages.iter().find(|held| held.id == id).map(|held| held.place);
        Ok(ids.iter().find_map(|id| {
            let holding = state.threads.values().filter(own).filter_map(|thread| Some((holds(thread, *id)?, thread)));
            let (place, thread) = holding.max_by_key(|(_, thread)| thread.row.updated)?;
            Some(Found { thread: thread.row.key.thread.clone(), place })
        }))
    }

    async fn plan(&self, key: &ThreadKey, version: Option<u64>) -> Result<Option<PlanRow>> {
        let state = self.state();
        let Some(thread) = state.threads.get(key) else { return Ok(None) };
        let wanted = version.unwrap_or(thread.row.version);
        Ok(thread.plans.iter().rfind(|plan| plan.version == wanted).cloned())
    }

    async fn document(&self, key: &DocumentKey) -> Result<Option<DocumentRow>> {
        Ok(self.state().documents.get(key).cloned())
    }

    async fn all_documents(
        &self,
        tenant: &TenantId,
        after: Option<&DocumentKey>,
        limit: usize,
    ) -> Result<Vec<(DocumentKey, DocumentRow)>> {
        let state = self.state();
        let own = state.documents.iter().filter(|(key, _)| key.tenant == *tenant);
        let later =
            own.filter(|(key, _)| after.is_none_or(|after| (&key.kind, &key.name) > (&after.kind, &after.name)));
        Ok(later.take(limit).map(|(key, row)| (key.clone(), row.clone())).collect())
    }

    async fn artifact(&self, id: &str) -> Result<Option<ArtifactRow>> {
        Ok(self.state().artifacts.get(id).cloned())
    }

    async fn artifacts(&self, tenant: &TenantId, after: Option<&str>, limit: usize) -> Result<Vec<ArtifactRow>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.state();
        let later = state.artifacts.range::<str, _>((from, Bound::Unbounded)).map(|(_, row)| row);
        Ok(later.filter(|row| row.tenant == *tenant).take(limit).cloned().collect())
    }

    async fn events(&self, key: &ThreadKey, after: u64, limit: usize) -> Result<Vec<EventRow>> {
        let state = self.state();
        let held = state.threads.get(key).map_or(&[][..], |thread| &thread.events);
        let first = held.partition_point(|event| event.number <= after);
        Ok(held[first..].iter().take(limit).cloned().collect())
    }

    async fn search(
        &self,
        tenant: &TenantId,
        segments: &[Segment],
        terms: &[String],
        order: SearchOrder,
        limit: usize,
    ) -> Result<Vec<Candidate>> {
        let state = self.state();
        let mut passages = Vec::new();
        for segment in segments {
            let key = ThreadKey::new(tenant.clone(), segment.thread.clone());
            let index = state.threads.get(&key).into_iter().flat_map(|thread| thread.index.range(..(segment.until, 0)));
            passages.extend(index.map(|(_, row)| (&segment.thread, row)));
        }
        Ok(ranked(&passages, terms, order, limit))
    }

    async fn vectors(&self, key: &ThreadKey, before: (u64, u32), limit: usize) -> Result<Vec<VectorRow>> {
        let state = self.state();
        let held = state.threads.get(key).into_iter().flat_map(|thread| thread.vectors.range(..before).rev());
        Ok(held.take(limit).map(|(_, row)| row.clone()).collect())
    }

    async fn unembedded(&self, key: &ThreadKey, space: &str, limit: usize) -> Result<Vec<(u64, u32)>> {
        let state = self.state();
        let Some(thread) = state.threads.get(key) else { return Ok(Vec::new()) };
        let is_open = |at: &&(u64, u32)| thread.vectors.get(at).is_none_or(|row| row.space != space);
        Ok(thread.index.keys().rev().filter(is_open).take(limit).copied().collect())
    }

    async fn claim(&self, kind: &JobKind, lease: &Lease, now: Moment) -> Result<Option<JobRow>> {
        Ok(self.state().claim(kind, lease, now))
    }

    async fn job(&self, key: &ThreadKey, kind: &JobKind) -> Result<Option<JobRow>> {
        let state = self.state();
        let of_kind = state.jobs.values().filter(|job| job.key == *key && job.kind == *kind);
        Ok(of_kind.max_by_key(|job| (job.queued, job.id)).cloned())
    }

    async fn tenants(&self) -> Result<Vec<TenantId>> {
        let state = self.state();
        let threads = state.threads.keys().map(|key| &key.tenant);
        let others = state.documents.keys().map(|key| &key.tenant);
        let more =
            state.artifacts.values().map(|row| &row.tenant).chain(state.jobs.values().map(|job| &job.key.tenant));
        let all: BTreeSet<&TenantId> = threads.chain(others).chain(more).collect();
        Ok(all.into_iter().cloned().collect())
    }

    async fn check(&self) -> Result<Vec<String>> {
        let state = self.state();
        let gapped = state.threads.values().filter(|thread| thread.has_gap());
        Ok(gapped.map(|thread| format!("Thread {} does not hold all of its messages.", thread.row.key)).collect())
    }

    async fn vacuum(&self, before: Moment) -> Result<u64> {
        let mut state = self.state();
        let had = state.documents.len() + state.jobs.len();
        state.documents.retain(|_, row| row.expires.is_none_or(|expires| expires >= before));
        state.jobs.retain(|_, job| job.state.is_pending() || job.queued >= before);
        Ok((had - state.documents.len() - state.jobs.len()) as u64)
    }

    async fn scrub(&self) -> Result<()> {
        Ok(())
    }
}

type Undo = Box<dyn FnOnce(&mut State)>;

#[derive(Debug, Default)]
struct State {
    threads: BTreeMap<ThreadKey, Thread>,
    documents: BTreeMap<DocumentKey, DocumentRow>,
    artifacts: BTreeMap<String, ArtifactRow>,
    jobs: BTreeMap<JobId, JobRow>,
}

#[derive(Debug)]
struct Thread {
    row: ThreadRow,
    messages: Vec<MessageRow>,
    plans: Vec<PlanRow>,
    events: Vec<EventRow>,
    index: BTreeMap<(u64, u32), IndexRow>,
    vectors: BTreeMap<(u64, u32), VectorRow>,
}

impl Thread {
    fn new(row: ThreadRow) -> Self {
        Thread {
            row,
            messages: Vec::new(),
            plans: Vec::new(),
            events: Vec::new(),
            index: BTreeMap::new(),
            vectors: BTreeMap::new(),
        }
    }

    fn has_gap(&self) -> bool {
        let shared = self.row.shared.last().map_or(0, |segment| segment.until);
        let places = self.messages.iter().map(|message| message.place);
        !places.eq(shared..self.row.length)
    }
}

impl State {
    fn apply(&mut self, writes: &[Write]) -> Result<()> {
        let mut done = Vec::with_capacity(writes.len());
        for write in writes {
            match self.write(write) {
                Ok(undo) => done.push(undo),
                Err(error) => {
                    done.into_iter().rev().for_each(|undo| undo(self));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, write: &Write) -> Result<Undo> {
        match write {
            Write::CreateThread(row) => self.create(row),
            Write::Append { key, messages, tokens } => self.append(key, messages, *tokens),
            Write::CommitPlan { key, plan } => self.commit(key, plan),
            Write::Index { key, rows } => self.index(key, rows),
            Write::PutVectors { key, rows } => self.put_vectors(key, rows),
            Write::Label { key, labels } => {
                let before = std::mem::replace(&mut self.held(key)?.row.labels, labels.clone());
                Ok(undo(key, move |thread| thread.row.labels = before))
            }
            Write::NameThread { key, scope, counter } => {
                let row = &mut self.held(key)?.row;
                let scope = std::mem::replace(&mut row.scope, scope.clone());
                let counter = std::mem::replace(&mut row.counter, counter.clone());
                Ok(undo(key, move |thread| (thread.row.scope, thread.row.counter) = (scope, counter)))
            }
            Write::PutDocument { key, expected, at, expires, body } => {
                let row = DocumentRow { version: 1, at: *at, expires: *expires, body: body.clone() };
                self.put_document(key, *expected, row)
            }
            Write::DeleteDocument(key) => Ok(self.set_document(key, None)),
            Write::PutArtifact(row) => self.put_artifact(row),
            Write::DeleteArtifact { tenant, id } => {
                let foreign = self.artifacts.get(id).filter(|row| row.tenant != *tenant).cloned();
                Ok(self.set_artifact(id.clone(), foreign))
            }
            Write::AddEvent { key, event } => self.add_event(key, event),
            Write::Enqueue(job) => self.enqueue(job),
            Write::ExtendLease { job: id, token, until } => {
                let mut job = self.running(*id, *token)?;
                job.lease = job.lease.map(|lease| Lease { until: *until, ..lease });
                Ok(self.set_job(*id, Some(job)))
            }
            Write::FinishJob { job: id, token, end } => {
                let mut job = self.running(*id, *token)?;
                rule::ended(&mut job, end);
                Ok(self.set_job(*id, Some(job)))
            }
            Write::Reseal { key, place, id, body } => self.reseal_message(key, *place, *id, body),
            Write::ResealPlan { key, version, body } => self.reseal(Sealed::Plan(key.clone(), *version), body.clone()),
            Write::ResealEvent { key, number, body } => self.reseal(Sealed::Event(key.clone(), *number), body.clone()),
            Write::DropIndex(key) => {
                let index =
                    self.threads.get_mut(key).map(|thread| std::mem::take(&mut thread.index)).unwrap_or_default();
                Ok(undo(key, move |thread| thread.index = index))
            }
        }
    }

    fn held(&mut self, key: &ThreadKey) -> Result<&mut Thread> {
        self.threads.get_mut(key).ok_or_else(|| not_at(key, "the existence"))
    }

    fn create(&mut self, row: &ThreadRow) -> Result<Undo> {
        let key = row.key.clone();
        if self.threads.contains_key(&key) {
            return Err(not_at(&key, "the absence"));
        }
        self.threads.insert(key.clone(), Thread::new(row.clone()));
        Ok(Box::new(move |state| drop(state.threads.remove(&key))))
    }

    fn append(&mut self, key: &ThreadKey, messages: &[MessageRow], tokens: u64) -> Result<Undo> {
        let (first, last) = rule::ends(messages)?;
        let thread = self.held(key)?;
        if thread.row.length != first.place {
            return Err(not_at(key, "the length"));
        }
        let (before, held) = (thread.row.clone(), thread.messages.len());
        thread.messages.extend_from_slice(messages);
        thread.row.length = last.place + 1;
        thread.row.tip = last.id;
        thread.row.turn = last.turn;
        thread.row.updated = last.at;
        thread.row.tokens = thread.row.tokens.saturating_add(tokens);
        Ok(undo(key, move |thread| {
            thread.messages.truncate(held);
            thread.row = before;
        }))
    }

    fn commit(&mut self, key: &ThreadKey, plan: &PlanRow) -> Result<Undo> {
        let thread = self.held(key)?;
        if thread.row.version.checked_add(1) != Some(plan.version) {
            return Err(not_at(key, "the newest plan"));
        }
        let (version, updated) = (thread.row.version, thread.row.updated);
        thread.plans.push(plan.clone());
        thread.row.version = plan.version;
        thread.row.updated = plan.at;
        Ok(undo(key, move |thread| {
            thread.plans.pop();
            thread.row.version = version;
            thread.row.updated = updated;
        }))
    }

    fn index(&mut self, key: &ThreadKey, rows: &[IndexRow]) -> Result<Undo> {
        let thread = self.held(key)?;
        let mut added = Vec::new();
        for row in rows {
            let at = (row.place, row.passage);
            if let std::collections::btree_map::Entry::Vacant(slot) = thread.index.entry(at) {
                slot.insert(row.clone());
                added.push(at);
            }
        }
        Ok(undo(key, move |thread| added.iter().for_each(|at| drop(thread.index.remove(at)))))
    }

    fn put_vectors(&mut self, key: &ThreadKey, rows: &[VectorRow]) -> Result<Undo> {
        let thread = self.held(key)?;
        let mut before = Vec::new();
        for row in rows {
            let at = (row.place, row.passage);
            before.push((at, thread.vectors.insert(at, row.clone())));
        }
        Ok(undo(key, move |thread| {
            for (at, row) in before.into_iter().rev() {
                set(&mut thread.vectors, at, row);
            }
        }))
    }

    fn put_document(&mut self, key: &DocumentKey, expected: Option<u64>, row: DocumentRow) -> Result<Undo> {
        let version = self.documents.get(key).map_or(0, |row| row.version);
        if expected.is_some_and(|expected| expected != version) {
            return Err(StoreError::conflict(format!("the {} document {}", key.kind, key.name)));
        }
        Ok(self.set_document(key, Some(DocumentRow { version: version + 1, ..row })))
    }

    fn set_document(&mut self, key: &DocumentKey, row: Option<DocumentRow>) -> Undo {
        let before = set(&mut self.documents, key.clone(), row);
        let key = key.clone();
        Box::new(move |state| drop(set(&mut state.documents, key, before)))
    }

    fn put_artifact(&mut self, row: &ArtifactRow) -> Result<Undo> {
        let row = match self.artifacts.get(&row.id) {
            Some(old) => rule::merged(old.clone(), row.clone())?,
            None => row.clone(),
        };
        Ok(self.set_artifact(row.id.clone(), Some(row)))
    }

    fn set_artifact(&mut self, id: String, row: Option<ArtifactRow>) -> Undo {
        let before = set(&mut self.artifacts, id.clone(), row);
        Box::new(move |state| drop(set(&mut state.artifacts, id, before)))
    }

    fn add_event(&mut self, key: &ThreadKey, event: &EventRow) -> Result<Undo> {
        let events = &mut self.held(key)?.events;
        let number = events.last().map_or(0, |event| event.number) + 1;
        events.push(EventRow { number, ..event.clone() });
        Ok(undo(key, |thread| drop(thread.events.pop())))
    }

    fn enqueue(&mut self, new: &NewJob) -> Result<Undo> {
        if self.jobs.values().any(|job| job.key == new.key && job.kind == new.kind && job.state.is_pending()) {
            return Ok(Box::new(|_| ()));
        }
        if self.jobs.contains_key(&new.id) {
            return Err(StoreError::conflict(format!("job {}", new.id.0)));
        }
        Ok(self.set_job(new.id, Some(queued(new))))
    }

    fn set_job(&mut self, id: JobId, job: Option<JobRow>) -> Undo {
        let before = set(&mut self.jobs, id, job);
        Box::new(move |state| drop(set(&mut state.jobs, id, before)))
    }

    fn running(&self, id: JobId, token: Uuid) -> Result<JobRow> {
        let held = self.jobs.get(&id).filter(|job| job.lease.as_ref().is_some_and(|lease| lease.token == token));
        held.cloned().ok_or_else(|| StoreError::conflict(format!("the lease of job {}", id.0)))
    }

    fn reseal_message(&mut self, key: &ThreadKey, place: u64, id: MessageId, body: &[u8]) -> Result<Undo> {
        let undo_body = self.reseal(Sealed::Message(key.clone(), place), body.to_vec())?;
        let before = self.name_message(key, place, id);
        let key = key.clone();
        Ok(Box::new(move |state| {
            if let Some(before) = before {
                state.name_message(&key, place, before);
            }
            undo_body(state);
        }))
    }

    /// Gives a message another id, and its thread the same tip if it is the newest. Answers the id it had.
    fn name_message(&mut self, key: &ThreadKey, place: u64, id: MessageId) -> Option<MessageId> {
        let thread = self.threads.get_mut(key)?;
        let at = thread.messages.binary_search_by_key(&place, |message| message.place).ok()?;
        if thread.row.length == place + 1 {
            thread.row.tip = id;
        }
        Some(std::mem::replace(&mut thread.messages[at].id, id))
    }

    fn reseal(&mut self, what: Sealed, body: Vec<u8>) -> Result<Undo> {
        let held = self.body(&what).ok_or_else(|| StoreError::conflict(what.name()))?;
        let before = std::mem::replace(held, body);
        Ok(Box::new(move |state| state.body(&what).into_iter().for_each(|held| held.clone_from(&before))))
    }

    fn body(&mut self, what: &Sealed) -> Option<&mut Vec<u8>> {
        match what {
            Sealed::Message(key, place) => {
                let messages = &mut self.threads.get_mut(key)?.messages;
                let at = messages.binary_search_by_key(place, |message| message.place).ok()?;
                Some(&mut messages[at].body)
            }
            Sealed::Plan(key, version) => {
                let plans = &mut self.threads.get_mut(key)?.plans;
                plans.iter_mut().find(|plan| plan.version == *version).map(|plan| &mut plan.body)
            }
            Sealed::Event(key, number) => {
                let events = &mut self.threads.get_mut(key)?.events;
                events.iter_mut().find(|event| event.number == *number).map(|event| &mut event.body)
            }
        }
    }

    fn claim(&mut self, kind: &JobKind, lease: &Lease, now: Moment) -> Option<JobRow> {
        self.bury(kind, now);
        let held = self.jobs.values().filter(|job| rule::is_held(job, now)).map(|job| &job.key);
        let busy: BTreeSet<&ThreadKey> = held.collect();
        let due = self.jobs.values().filter(|job| job.kind == *kind && rule::is_due(job, now));
        let free = due.filter(|job| !busy.contains(&job.key));
        let id = free.min_by_key(|job| (job.queued, job.id))?.id;
        let job = self.jobs.get_mut(&id)?;
        job.state = JobState::Running;
        job.attempts += 1;
        job.lease = Some(lease.clone());
        Some(job.clone())
    }

    fn bury(&mut self, kind: &JobKind, now: Moment) {
        let due = self.jobs.values_mut().filter(|job| job.kind == *kind && rule::is_due(job, now));
        for job in due.filter(|job| job.attempts >= job.attempts_max) {
            job.state = JobState::Dead;
            job.lease = None;
            job.error = Some(rule::LAPSED.to_owned());
        }
    }
}

/// A body that can be sealed anew.
enum Sealed {
    Message(ThreadKey, u64),
    Plan(ThreadKey, u64),
    Event(ThreadKey, u64),
}

impl Sealed {
    fn name(&self) -> String {
        match self {
            Sealed::Message(key, place) => format!("message {place} of thread {key}"),
            Sealed::Plan(key, version) => format!("plan {version} of thread {key}"),
            Sealed::Event(key, number) => format!("event {number} of thread {key}"),
        }
    }
}

fn undo(key: &ThreadKey, back: impl FnOnce(&mut Thread) + 'static) -> Undo {
    let key = key.clone();
    Box::new(move |state| {
        if let Some(thread) = state.threads.get_mut(&key) {
            back(thread);
        }
    })
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}

fn queued(new: &NewJob) -> JobRow {
    JobRow {
        id: new.id,
        key: new.key.clone(),
        kind: new.kind.clone(),
        state: JobState::Ready,
        attempts: 0,
        attempts_max: new.attempts_max,
        due: new.due,
        queued: new.queued,
        lease: None,
        payload: new.payload.clone(),
        error: None,
    }
}

/// Ranks by BM25 with the usual constants.
fn ranked(passages: &[(&ThreadId, &IndexRow)], terms: &[String], order: SearchOrder, limit: usize) -> Vec<Candidate> {
    let terms: BTreeSet<&str> = terms.iter().map(String::as_str).collect();
    let hits: Vec<HashMap<&str, f64>> = passages.iter().map(|(_, row)| counted(row, &terms)).collect();
    let length_mean =
        passages.iter().map(|(_, row)| row.terms.len() as f64).sum::<f64>() / passages.len().max(1) as f64;
    let rarity = |term: &str| {
        let holding = hits.iter().filter(|counts| counts.contains_key(term)).count() as f64;
        (1.0 + (passages.len() as f64 - holding + 0.5) / (holding + 0.5)).ln()
    };
    let rarities: HashMap<&str, f64> = terms.iter().map(|term| (*term, rarity(term))).collect();
    let mut found: Vec<Candidate> = Vec::new();
    for ((thread, row), counts) in passages.iter().zip(&hits).filter(|(_, counts)| !counts.is_empty()) {
        let length = 0.25 + 0.75 * row.terms.len() as f64 / length_mean.max(1.0);
        let score = counts.iter().map(|(term, count)| rarities[term] * count * 2.2 / (count + 1.2 * length)).sum();
        found.push(candidate(thread, row, score));
    }
    found.sort_by(|one, other| {
        let by_place = (one.place, one.passage).cmp(&(other.place, other.passage));
        match order {
            SearchOrder::Best => other.score.total_cmp(&one.score).then(by_place),
            SearchOrder::Newest => by_place.reverse(),
        }
    });
    found.truncate(limit);
    found
}

fn counted<'a>(row: &IndexRow, terms: &BTreeSet<&'a str>) -> HashMap<&'a str, f64> {
    let mut counts = HashMap::new();
    for term in row.terms.iter().filter_map(|term| terms.get(term.as_str())) {
        *counts.entry(*term).or_default() += 1.0;
    }
    counts
}

fn candidate(thread: &ThreadId, row: &IndexRow, score: f64) -> Candidate {
    Candidate {
        thread: thread.clone(),
        place: row.place,
        passage: row.passage,
        first_line: row.first_line,
        last_line: row.last_line,
        score,
    }
}
