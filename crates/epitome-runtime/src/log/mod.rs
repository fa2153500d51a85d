//! The log: threads, plans and documents as typed values, sealed on their way into the store and opened on their way out.
//!
//! It decides nothing: what a compaction is and when one is due is up to the engine.

mod annotations;
mod body;
mod error;
mod load;
mod names;
mod plan;
mod reseal;
mod vector;

pub use annotations::Annotations;
pub use body::{Envelope, LogEntry, part_words, words_of};
pub use error::LogError;
pub(crate) use error::Result;
pub use load::LoadedThread;
pub use plan::{ArtifactHint, StoredPlan, place_runs};

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::thread::{Message, MessageId};
use epitome::wire::Dialect;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::Event;
use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};
use crate::store::{
    DocumentKey, DocumentKind, DocumentRow, EventRow, MessageRow, PlanRow, Segment, Store, StoreError, StoredKind,
    ThreadRow, Write,
};
use crate::vault::{Sealing, Vault};

const FIND_FIRST: usize = 16;

/// Typed, sealed access to a store. A clone is the same log.
///
/// It has no state of its own: the store holds the rows, the vault the keys. Every body that goes through it is sealed for
/// its tenant, kind and place, so that a row that was moved or swapped does not open; every name that a client or a model
/// chose is blinded. Both happen here and nowhere else. Code that writes to the store around the log writes plain text.
#[derive(Clone, Debug)]
pub struct Log {
    store: Arc<dyn Store>,
    vault: Vault,
}

/// A thread to be created.
#[derive(Clone, Debug)]
pub struct NewThread {
    /// Which.
    pub key: ThreadKey,
    /// The name of the dialect or session format that its messages are written in.
    pub dialect: String,
    /// The counter that its messages are counted with.
    pub counter: String,
    /// When.
    pub at: Moment,
    /// Among whose threads it is looked for by its messages, in parts with slashes between them; empty where nobody looks.
    pub scope: String,
    /// The caller's own labels.
    pub labels: serde_json::Value,
}

impl Log {
    /// A log over a store.
    pub fn new(store: Arc<dyn Store>, vault: Vault) -> Self {
        Log { store, vault }
    }

    /// The store beneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the vault.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The thread, if there is one.
    pub async fn thread(&self, key: &ThreadKey) -> Result<Option<ThreadRow>> {
        Ok(self.store.thread(key).await?)
    }

    /// Makes a thread; one that is there already is answered as it is.
    pub async fn create(&self, new: NewThread) -> Result<ThreadRow> {
        let row = ThreadRow {
            created: new.at,
            updated: new.at,
            length: 0,
            tip: MessageId::ROOT,
            turn: 0,
            tokens: 0,
            version: 0,
            dialect: new.dialect,
            counter: self.stored_counter(&new.key.tenant, &new.counter),
            shared: Vec::new(),
            scope: self.stored_scope(&new.key.tenant, &new.scope),
            labels: self.seal_json(&new.key.tenant, Sealing::Label, new.key.thread.as_str(), &new.labels),
            key: new.key,
        };
        self.put_new(row).await
    }

    /// Makes a thread that shares the first `at` messages with another. No message is copied. The plan goes along when
    /// it was made for messages that are shared.
    pub async fn fork(&self, from: &ThreadKey, at: u64, new: ThreadId, now: Moment) -> Result<ThreadRow> {
        let parent = self.thread(from).await?.ok_or_else(|| LogError::no_thread(from))?;
        if at > parent.length {
            return Err(LogError::Beyond { thread: from.thread.clone(), place: at, length: parent.length });
        }
        let newest = match at {
            0 => None,
            _ => self.read(&parent, at - 1..at).await?.pop(),
        };
        let tokens = self.tokens_before(&parent, at).await?;
        let labels = self.labels(&parent)?;
        let key = ThreadKey::new(from.tenant.clone(), new);
        let row = ThreadRow {
            created: now,
            updated: now,
            length: at,
            tip: newest.as_ref().map_or(MessageId::ROOT, |entry| self.vault.blind_id(&from.tenant, entry.id)),
            turn: newest.as_ref().map_or(0, |entry| entry.turn),
            tokens,
            version: 0,
            shared: shared_before(&parent, at),
            labels: self.seal_json(&key.tenant, Sealing::Label, key.thread.as_str(), &labels),
            key,
            ..parent.clone()
        };
        self.put_fork(row, self.newest_plan_within(&parent, at).await?).await
    }

    /// Makes a fork together with the plan that it takes over.
    async fn put_fork(&self, mut row: ThreadRow, plan: Option<(PlanRow, StoredPlan)>) -> Result<ThreadRow> {
        let mut writes = vec![Write::CreateThread(Box::new(row.clone()))];
        if let Some((plan, stored)) = plan {
            let body = self.seal_plan(&row.key, 1, &stored);
            let plan = Box::new(PlanRow { version: 1, body, ..plan });
            writes.push(Write::CommitPlan { key: row.key.clone(), plan });
            row.version = 1;
        }
        match self.store.apply(&writes).await {
            Ok(()) => Ok(row),
            Err(error) if error.is_conflict() => Err(LogError::Taken(row.key.thread)),
            Err(error) => Err(error.into()),
        }
    }

    async fn put_new(&self, row: ThreadRow) -> Result<ThreadRow> {
        let key = row.key.clone();
        match self.store.apply(&[Write::CreateThread(Box::new(row.clone()))]).await {
            Ok(()) => Ok(row),
            Err(error) if error.is_conflict() => self.thread(&key).await?.ok_or(LogError::Store(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells whether the newest plan of a thread, if it has one, was made for its first `at` messages or fewer.
    pub async fn is_planned_within(&self, key: &ThreadKey, at: u64) -> Result<bool> {
        let Some(row) = self.thread(key).await? else { return Ok(false) };
        let within = self.newest_plan_within(&row, at).await?.map_or(0, |(plan, _)| plan.version);
        Ok(row.version == 0 || row.version == within)
    }

    /// The newest plan of a thread that was made for its first `at` messages or fewer.
    async fn newest_plan_within(&self, row: &ThreadRow, at: u64) -> Result<Option<(PlanRow, StoredPlan)>> {
        let ancestors = row.shared.iter().rev().map(|segment| segment.thread.clone());
        for thread in [row.key.thread.clone()].into_iter().chain(ancestors) {
            let key = ThreadKey::new(row.key.tenant.clone(), thread);
            let newest = self.thread(&key).await?.map_or(0, |row| row.version);
            for version in (1..=newest).rev() {
                let Some(plan) = self.store.plan(&key, Some(version)).await? else { continue };
                if plan.covers <= at && is_shared(row, &key.thread, plan.covers) {
                    let stored = self.open_plan(&key, &plan)?;
                    return Ok(Some((plan, stored)));
                }
            }
        }
        Ok(None)
    }

    async fn tokens_before(&self, row: &ThreadRow, at: u64) -> Result<u64> {
        if at == row.length {
            return Ok(row.tokens);
        }
        let mut tokens = 0;
        for rows in self.rows(row, 0..at).await? {
            tokens += rows.part_tokens.iter().map(|tokens| tokens.get()).sum::<u64>();
        }
        Ok(tokens)
    }

    /// Opens a thread's labels.
    pub fn labels(&self, row: &ThreadRow) -> Result<serde_json::Value> {
        if row.labels.is_empty() {
            return Ok(serde_json::Value::Null);
        }
        self.open_json(&row.key.tenant, Sealing::Label, row.key.thread.as_str(), &row.labels)
    }

    /// The newest of these messages, given oldest first, that a thread of the tenant holds whose scope is this.
    pub async fn find(&self, tenant: &TenantId, scope: &str, ids: &[MessageId]) -> Result<Option<crate::store::Found>> {
        let scope = &self.stored_scope(tenant, scope);
        let forms = |ids: &[MessageId]| -> Vec<MessageId> {
            ids.iter().rev().flat_map(|id| self.vault.blind_ids(tenant, *id)).collect()
        };
        // Most histories go on from where they were: the newest few are asked for before the many.
        let (rest, newest) = ids.split_at(ids.len().saturating_sub(FIND_FIRST));
        match self.store.find(tenant, scope, &forms(newest)).await? {
            None if !rest.is_empty() => Ok(self.store.find(tenant, scope, &forms(rest)).await?),
            found => Ok(found),
        }
    }

    /// The messages at these places, those that a fork shares included.
    pub async fn read(&self, row: &ThreadRow, places: Range<u64>) -> Result<Vec<LogEntry>> {
        let rows = self.rows(row, places).await?;
        rows.into_iter().map(|message| self.open_message(row, message)).collect()
    }

    /// The messages at single places, those that a fork shares included, by their places.
    pub async fn read_at(&self, row: &ThreadRow, places: &[u64]) -> Result<BTreeMap<u64, LogEntry>> {
        let mut held: BTreeMap<ThreadId, BTreeSet<u64>> = BTreeMap::new();
        for place in places {
            held.entry(holder_of(row, *place)).or_default().insert(*place);
        }
        let mut found = BTreeMap::new();
        for (thread, places) in held {
            let key = ThreadKey::new(row.key.tenant.clone(), thread);
            let places = Vec::from_iter(places);
            let rows = self.store.messages_at(&key, &places).await?;
            if rows.len() != places.len() {
                let (from, to) = (places[0], places[places.len() - 1] + 1);
                return Err(LogError::Gap { thread: key.thread, from, to, found: rows.len() });
            }
            for message in rows {
                found.insert(message.place, self.open_message(row, message)?);
            }
        }
        Ok(found)
    }

    /// The rows at these places, each with the thread that holds it.
    async fn rows(&self, row: &ThreadRow, places: Range<u64>) -> Result<Vec<MessageRow>> {
        let mut found = Vec::new();
        for (holder, range) in holders(row, places.clone()) {
            let key = ThreadKey::new(row.key.tenant.clone(), holder);
            let want = range.end - range.start;
            let rows = self.store.messages(&key, range.clone()).await?;
            if rows.len() as u64 != want {
                return Err(LogError::Gap { thread: key.thread, from: range.start, to: range.end, found: rows.len() });
            }
            found.extend(rows);
        }
        Ok(found)
    }

    fn open_message(&self, row: &ThreadRow, message: MessageRow) -> Result<LogEntry> {
        let holder = holder_of(row, message.place);
        let name = body::name(&holder, message.place);
        let plain = self
            .vault
            .open(&row.key.tenant, Sealing::Message, &name, &message.body)
            .map_err(|error| LogError::sealed(format!("message {} of {}", message.place + 1, row.key), error))?;
        LogEntry::read(message, &plain, &row.dialect)
            .ok_or_else(|| LogError::Unreadable(format!("a message of {}", row.key)))
    }

    /// The row of a message; `counter` says what it was counted with, where that is not the thread's.
    pub fn message_row(
        &self,
        key: &ThreadKey,
        message: &Message,
        envelopes: &[Envelope],
        counter: Option<&str>,
        at: Moment,
    ) -> MessageRow {
        let place = message.log_place() as u64;
        let id = self.vault.is_sealing().then(|| message.id());
        let plain = body::written(message, envelopes, counter, id);
        MessageRow {
            place,
            id: self.vault.blind_id(&key.tenant, message.id()),
            turn: message.turn(),
            part_tokens: (0..message.parts().len()).map(|part| message.part_tokens(part)).collect(),
            at,
            body: self.vault.seal(&key.tenant, Sealing::Message, &body::name(&key.thread, place), &plain),
        }
    }

    /// The row of a message that is written in a session's own format.
    pub fn foreign_row(&self, key: &ThreadKey, entry: &LogEntry) -> MessageRow {
        let plain = entry.foreign(self.vault.is_sealing());
        MessageRow {
            place: entry.place,
            id: self.vault.blind_id(&key.tenant, entry.id),
            turn: entry.turn,
            part_tokens: entry.part_tokens.clone(),
            at: entry.at,
            body: self.vault.seal(&key.tenant, Sealing::Message, &body::name(&key.thread, entry.place), &plain),
        }
    }

    /// A plan of a thread: the newest, or of a version.
    pub async fn plan(&self, key: &ThreadKey, version: Option<u64>) -> Result<Option<(PlanRow, StoredPlan)>> {
        let Some(row) = self.store.plan(key, version).await? else { return Ok(None) };
        let stored = self.open_plan(key, &row)?;
        Ok(Some((row, stored)))
    }

    fn open_plan(&self, key: &ThreadKey, row: &PlanRow) -> Result<StoredPlan> {
        self.open_json(&key.tenant, Sealing::Plan, &plan::name(key, row.version), &row.body)
    }

    /// A plan's body.
    pub fn seal_plan(&self, key: &ThreadKey, version: u64, plan: &StoredPlan) -> Vec<u8> {
        self.seal_json(&key.tenant, Sealing::Plan, &plan::name(key, version), plan)
    }

    /// A document as a value, with its version; version 0 when there is none.
    pub async fn document<T: DeserializeOwned>(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        name: &str,
    ) -> Result<(Option<T>, u64)> {
        let key = DocumentKey::new(tenant.clone(), kind, self.stored_name(tenant, kind, name));
        let Some(row) = self.store.document(&key).await? else { return Ok((None, 0)) };
        let value = self.open_json(tenant, Sealing::Document, &document_name(&key.kind, &key.name), &row.body)?;
        Ok((Some(value), row.version))
    }

    /// The documents of a kind as values, in the order of their names as they stand in the store, from the one after `after` on, `limit` at most.
    pub async fn documents<T: DeserializeOwned>(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, T)>> {
        let rows = self.store.documents(tenant, kind, after, limit).await?;
        let open = |(key, row): (DocumentKey, DocumentRow)| {
            let value = self.open_json(tenant, Sealing::Document, &document_name(&key.kind, &key.name), &row.body)?;
            Ok((key.name, value))
        };
        rows.into_iter().map(open).collect()
    }

    /// A document as a value, unless its time is over.
    pub async fn unexpired<T: DeserializeOwned>(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        name: &str,
        now: Moment,
    ) -> Result<Option<T>> {
        let key = DocumentKey::new(tenant.clone(), kind, self.stored_name(tenant, kind, name));
        match self.store.document(&key).await? {
            Some(row) if row.expires.is_none_or(|expires| now < expires) => {
                self.open_json(tenant, Sealing::Document, &document_name(&key.kind, &key.name), &row.body).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Gives a document's content to another name, unless that has one.
    pub async fn copy_document(&self, tenant: &TenantId, kind: DocumentKind, from: &str, to: &str) -> Result<()> {
        let (Some(value), _) = self.document::<serde_json::Value>(tenant, kind, from).await? else { return Ok(()) };
        let copy = NewDocument::new(tenant, kind, to, &value).expecting(0);
        match self.apply(&[self.put_document(copy)]).await {
            Err(error) if !error.is_conflict() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The change that writes a document.
    pub fn put_document<T: Serialize>(&self, document: NewDocument<'_, T>) -> Write {
        let NewDocument { tenant, kind, name, value, expected, at, expires } = document;
        let key = DocumentKey::new(tenant.clone(), kind, self.stored_name(tenant, kind, name));
        let sealed_for = document_name(&key.kind, &key.name);
        Write::PutDocument {
            key,
            expected,
            at,
            expires: expires.or_else(|| kind.retention().expiry(at)),
            body: self.seal_json(tenant, Sealing::Document, &sealed_for, value),
        }
    }

    /// The change that keeps an event.
    pub fn add_event(&self, event: &Event) -> Write {
        let name = event_name(&event.key, event.at);
        let body = self.seal_json(&event.key.tenant, Sealing::Event, &name, event);
        let row = EventRow { number: 0, at: event.at, kind: event.kind.name(), body };
        Write::AddEvent { key: event.key.clone(), event: row }
    }

    /// A thread's events after a number, each with its own.
    pub async fn events(&self, key: &ThreadKey, after: u64, limit: usize) -> Result<Vec<(u64, Event)>> {
        let rows = self.store.events(key, after, limit).await?;
        let open = |row: EventRow| {
            let event = self.open_json(&key.tenant, Sealing::Event, &event_name(key, row.at), &row.body)?;
            Ok((row.number, event))
        };
        rows.into_iter().map(open).collect()
    }

    fn seal_json<T: Serialize + ?Sized>(&self, tenant: &TenantId, what: Sealing, name: &str, value: &T) -> Vec<u8> {
        let plain = serde_json::to_vec(value).unwrap_or_default();
        self.vault.seal(tenant, what, name, &plain)
    }

    fn open_json<T: DeserializeOwned>(&self, tenant: &TenantId, what: Sealing, name: &str, sealed: &[u8]) -> Result<T> {
        let plain = self.vault.open(tenant, what, name, sealed).map_err(|error| LogError::sealed(name, error))?;
        serde_json::from_slice(&plain).map_err(|_| LogError::Unreadable(name.to_owned()))
    }

    /// Applies changes.
    pub async fn apply(&self, writes: &[Write]) -> Result<(), StoreError> {
        self.store.apply(writes).await
    }
}

/// A document to be written: any version replaced, dated now, kept as long as its kind is, unless told otherwise.
#[derive(Debug)]
pub struct NewDocument<'a, T> {
    tenant: &'a TenantId,
    kind: DocumentKind,
    name: &'a str,
    value: &'a T,
    expected: Option<u64>,
    at: Moment,
    expires: Option<Moment>,
}

impl<'a, T: Serialize> NewDocument<'a, T> {
    /// A document of this name and content.
    pub fn new(tenant: &'a TenantId, kind: DocumentKind, name: &'a str, value: &'a T) -> Self {
        NewDocument { tenant, kind, name, value, expected: None, at: Moment::now(), expires: None }
    }

    /// Fails with a conflict unless the stored document has this version; 0 stands for none.
    #[must_use]
    pub fn expecting(self, version: impl Into<Option<u64>>) -> Self {
        NewDocument { expected: version.into(), ..self }
    }

    /// Dates the document.
    #[must_use]
    pub fn at(self, at: Moment) -> Self {
        NewDocument { at, ..self }
    }

    /// Lets the document expire before its kind's retention ends.
    #[must_use]
    pub fn expires(self, at: Moment) -> Self {
        NewDocument { expires: Some(at), ..self }
    }
}

fn document_name(kind: &StoredKind, name: &str) -> String {
    format!("{kind}/{name}")
}

fn event_name(key: &ThreadKey, at: Moment) -> String {
    format!("{}@{}", key.thread, at.0)
}

/// Splits a range of places by the threads that hold them.
fn holders(row: &ThreadRow, places: Range<u64>) -> Vec<(ThreadId, Range<u64>)> {
    let own = Segment { thread: row.key.thread.clone(), until: row.length.max(places.end) };
    let mut start = 0;
    let mut found = Vec::new();
    for Segment { thread, until } in row.shared.iter().cloned().chain([own]) {
        let range = places.start.max(start)..places.end.min(until);
        if range.start < range.end {
            found.push((thread, range));
        }
        start = start.max(until);
    }
    found
}

fn holder_of(row: &ThreadRow, place: u64) -> ThreadId {
    let shared = row.shared.iter().find(|segment| place < segment.until);
    shared.map_or_else(|| row.key.thread.clone(), |segment| segment.thread.clone())
}

/// Tells whether a thread has the first `covers` messages of another in common.
fn is_shared(row: &ThreadRow, thread: &ThreadId, covers: u64) -> bool {
    let common = row.shared.iter().find(|segment| segment.thread == *thread).map(|segment| segment.until);
    *thread == row.key.thread || common.is_some_and(|until| covers <= until)
}

/// Returns the segments that hold the first `at` messages of a thread.
fn shared_before(row: &ThreadRow, at: u64) -> Vec<Segment> {
    let own = Segment { thread: row.key.thread.clone(), until: row.length };
    let mut found: Vec<Segment> = Vec::new();
    for segment in row.shared.iter().cloned().chain([own]) {
        let start = found.last().map_or(0, |before| before.until);
        let until = segment.until.min(at);
        if until > start {
            found.push(Segment { until, ..segment });
        }
    }
    found
}

/// The segments in whose index a thread's messages are found.
pub fn searched(row: &ThreadRow) -> Vec<Segment> {
    let own = Segment { thread: row.key.thread.clone(), until: row.length };
    row.shared.iter().cloned().chain([own]).collect()
}

/// The tokens of messages, as the store sums them.
pub fn total(messages: &[MessageRow]) -> u64 {
    messages.iter().flat_map(|row| &row.part_tokens).map(|tokens: &Tokens| tokens.get()).sum()
}

/// The dialect of a thread whose messages a provider can be sent.
pub fn wire_dialect(row: &ThreadRow) -> Option<Dialect> {
    row.dialect.parse().ok()
}
