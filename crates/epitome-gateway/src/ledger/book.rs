//! The book: entries and totals in the store.
//!
//! ```text
//! ledger           THREAD/MOMENT-REQUEST   one entry; removed by `vacuum` after a while
//! ledger-day       DAY/GATEWAY             what one gateway process has summed up on one day
//! ledger-previous  THREAD                  the thread's previous request, for the next one's counterfactual
//! ```
//!
//! One batch writes all three. A day's document has one writer, so no two gateways ever wait for each other there, and
//! reading sums them up; a thread's previous request is written by compare-and-swap, because any gateway may have had it.
//! No request waits for the ledger or fails because of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use epitome_runtime::event::{Bus, Event, EventField, EventKind};
use epitome_runtime::ids::{Moment, TenantId, ThreadKey};
use epitome_runtime::log::{Log, LogError, NewDocument};
use epitome_runtime::store::{DocumentKind, StoreError, Write};
use serde::de::DeserializeOwned;
use tokio::sync::broadcast;
use uuid::Uuid;

use super::day::Day;
use super::entry::{Charge, Entry, Extra, ExtraKind, Request};
use super::previous::Previous;
use super::price::PriceList;
use super::totals::Totals;

/// The kinds of documents.
pub(super) const ENTRY: DocumentKind = DocumentKind::Ledger;
pub(super) const DAY: DocumentKind = DocumentKind::LedgerDay;
const PREVIOUS: DocumentKind = DocumentKind::LedgerPrevious;

/// The most pending entries; older ones are dropped and counted.
const WAITING_MAX: usize = 512;
/// The most entries of one batch.
const BATCH_MAX: usize = 64;
/// The number of tries when another gateway writes first.
const ATTEMPTS_MAX: usize = 8;
/// The most documents in the cache.
const CACHED_MAX: usize = 1024;

/// The time limit of a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

/// The ledger of one gateway process, over the store that all gateways share.
///
/// A request is *pending* from [`note`](Ledger::note) until a batch has stored it. The task that holds `cache` writes all pending
/// entries, those of others included; a failed batch puts its entries back in front, so that a thread's entries stay in
/// order: each is priced against the request before it. More than `WAITING_MAX` pending entries are dropped, oldest first,
/// and counted in the day's totals as lost. A batch whose answer got lost may have been stored; it is made again with the
/// same entry names, which the store then has, so nothing is counted twice.
#[derive(Debug)]
pub struct Ledger {
    log: Log,
    prices: PriceList,
    /// This process, among those that write to the store.
    process: String,
    waiting: Mutex<PendingEntries>,
    /// The calls made for threads since their last request.
    unbilled: Mutex<UnbilledCalls>,
    /// One task at a time writes.
    cache: tokio::sync::Mutex<DocumentCache>,
}

/// The entries that are not in the store yet.
#[derive(Debug, Default)]
struct PendingEntries {
    notes: VecDeque<PendingEntry>,
    lost: u64,
}

#[derive(Debug)]
struct PendingEntry {
    name: String,
    charge: Charge,
}

impl Ledger {
    /// The ledger of this process.
    pub fn new(log: Log, prices: PriceList) -> Ledger {
        let process = Uuid::now_v7().to_string();
        let (waiting, unbilled) = (Mutex::default(), Mutex::default());
        Ledger { log, prices, process, waiting, unbilled, cache: tokio::sync::Mutex::default() }
    }

    /// Adds the summaries that models write, which this bus reports, to the next request of their thread.
    #[must_use]
    pub fn with_summaries_from(self, bus: &Bus) -> Ledger {
        self.unbilled().events = Some(bus.subscribe());
        self
    }

    fn unbilled(&self) -> MutexGuard<'_, UnbilledCalls> {
        self.unbilled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records requests. It waits for the store, so spawn it; what cannot be stored stays pending for the next call.
    pub async fn note(&self, charges: impl IntoIterator<Item = Charge>) {
        for mut charge in charges {
            charge.request.extra.extend(self.unbilled().take(&charge.request.key));
            self.push(PendingEntry::new(charge));
        }
        // A task that is writing already sees them before it ends.
        while !self.waiting().notes.is_empty() {
            let Ok(mut cache) = self.cache.try_lock() else { return };
            if let Err(error) = self.write_all(&mut cache).await {
                tracing::warn!(%error, waiting = self.waiting().notes.len(), "failed to write the ledger");
                return;
            }
        }
    }

    /// Stores all pending entries; call it before the process ends.
    pub async fn flush(&self) -> Result<(), LogError> {
        let mut cache = self.cache.lock().await;
        self.write_all(&mut cache).await
    }

    async fn write_all(&self, cache: &mut DocumentCache) -> Result<(), LogError> {
        loop {
            let (notes, lost) = self.take();
            if notes.is_empty() {
                return Ok(());
            }
            let written = tokio::time::timeout(BATCH_TIMEOUT, self.write(cache, &notes, lost)).await;
            if let Err(error) = written.unwrap_or_else(|_| Err(timed_out())) {
                self.give_back(notes, lost);
                return Err(error);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, PendingEntries> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, note: PendingEntry) {
        let mut waiting = self.waiting();
        waiting.notes.push_back(note);
        waiting.drop_oldest();
    }

    fn take(&self) -> (Vec<PendingEntry>, u64) {
        let mut waiting = self.waiting();
        let count = waiting.notes.len().min(BATCH_MAX);
        let notes = waiting.notes.drain(..count).collect();
        (notes, std::mem::take(&mut waiting.lost))
    }

    fn give_back(&self, notes: Vec<PendingEntry>, lost: u64) {
        let mut waiting = self.waiting();
        notes.into_iter().rev().for_each(|note| waiting.notes.push_front(note));
        waiting.lost += lost;
        waiting.drop_oldest();
    }

    /// Stores entries in one batch. If another gateway wrote one of the threads first, or the batch was stored and its answer
    /// got lost, the batch is made again from what the store has.
    async fn write(&self, cache: &mut DocumentCache, notes: &[PendingEntry], lost: u64) -> Result<(), LogError> {
        for attempt in 0.. {
            let mut batch = Batch { ledger: self, cache, entries: Vec::new(), made: DocumentCache::default() };
            batch.lose(notes, lost).await?;
            for note in notes {
                batch.add(note, attempt > 0).await?;
            }
            let (writes, made) = batch.done();
            match self.log.apply(&writes).await {
                Ok(()) => {
                    cache.extend(made);
                    break;
                }
                Err(error) if error.is_conflict() && attempt < ATTEMPTS_MAX => cache.previous.clear(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn stored<T: DeserializeOwned + Default>(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        name: &str,
    ) -> Result<Stored<T>, LogError> {
        match self.log.document(tenant, kind, name).await {
            Ok((value, version)) => Ok(Stored { value: Option::unwrap_or_default(value), version: Some(version) }),
            Err(LogError::Store(error)) => Err(LogError::Store(error)),
            // It cannot be opened, and never will be: it counts as absent.
            Err(_) => Ok(Stored { value: T::default(), version: None }),
        }
    }

    /// A thread's previous request: the parent's for a fork that has none.
    async fn previous(&self, request: &Request) -> Result<Stored<Previous>, LogError> {
        let tenant = &request.key.tenant;
        let own = self.stored(tenant, PREVIOUS, request.key.thread.as_str()).await?;
        match &request.forked_from {
            Some(parent) if own.version == Some(0) => {
                let parent: Stored<Previous> = self.stored(tenant, PREVIOUS, parent.as_str()).await?;
                Ok(Stored { value: parent.value, ..own })
            }
            _ => Ok(own),
        }
    }

    fn day_name(&self, day: Day) -> String {
        format!("{day}/{}", self.process)
    }
}

/// The calls made for threads beside their requests.
#[derive(Debug, Default)]
struct UnbilledCalls {
    events: Option<broadcast::Receiver<Arc<Event>>>,
    by_thread: BTreeMap<ThreadKey, Vec<Extra>>,
}

impl UnbilledCalls {
    /// Takes a thread's calls.
    fn take(&mut self, key: &ThreadKey) -> Vec<Extra> {
        while let Some(event) = self.next() {
            if event.kind == EventKind::SummaryAsked
                && let Some(extra) = summary(&event)
            {
                self.by_thread.entry(event.key.clone()).or_default().push(extra);
            }
        }
        self.by_thread.remove(key).unwrap_or_default()
    }

    fn next(&mut self) -> Option<Arc<Event>> {
        let events = self.events.as_mut()?;
        loop {
            match events.try_recv() {
                Ok(event) => return Some(event),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return None,
            }
        }
    }
}

fn summary(event: &Event) -> Option<Extra> {
    let model = event.detail(EventField::Model)?.as_str()?.to_owned();
    let usage = serde_json::from_value(event.detail(EventField::Usage)?.clone()).ok()?;
    Some(Extra { kind: ExtraKind::Summary, model, usage })
}

impl PendingEntry {
    fn new(charge: Charge) -> PendingEntry {
        let Request { key, at, .. } = &charge.request;
        let name = format!("{}/{:014}-{}", key.thread, at.0, Uuid::now_v7().simple());
        PendingEntry { name, charge }
    }
}

impl PendingEntries {
    fn drop_oldest(&mut self) {
        while self.notes.len() > WAITING_MAX {
            self.notes.pop_front();
            self.lost += 1;
        }
    }
}

fn timed_out() -> LogError {
    StoreError::Unavailable(format!("no answer within {} s", BATCH_TIMEOUT.as_secs())).into()
}

/// Documents as they are stored.
#[derive(Debug, Default)]
struct DocumentCache {
    previous: BTreeMap<ThreadKey, Stored<Previous>>,
    /// This process is the only one that writes them.
    days: BTreeMap<(TenantId, Day), Totals>,
}

/// A document's content and version; without a version, any stored one is replaced.
#[derive(Clone, Debug)]
struct Stored<T> {
    value: T,
    version: Option<u64>,
}

impl DocumentCache {
    /// Adds the documents that a batch has stored.
    fn extend(&mut self, made: DocumentCache) {
        if self.previous.len() + self.days.len() > CACHED_MAX {
            *self = DocumentCache::default();
        }
        self.days.extend(made.days);
        for (key, Stored { value, version }) in made.previous {
            match version {
                Some(version) => drop(self.previous.insert(key, Stored { value, version: Some(version + 1) })),
                None => drop(self.previous.remove(&key)),
            }
        }
    }
}

/// Entries on their way into the store.
struct Batch<'a> {
    ledger: &'a Ledger,
    cache: &'a DocumentCache,
    entries: Vec<Write>,
    /// The new documents of the batch, with the versions that it expects to find.
    made: DocumentCache,
}

impl Batch<'_> {
    /// Counts requests that were lost on the day of the first one after them.
    async fn lose(&mut self, notes: &[PendingEntry], lost: u64) -> Result<(), LogError> {
        if let Some(note) = notes.first().filter(|_| lost > 0) {
            self.day(&note.charge.request).await?.lost += lost;
        }
        Ok(())
    }

    /// Charges a request. Its entry may have been stored before: then it stays as it is.
    async fn add(&mut self, note: &PendingEntry, again: bool) -> Result<(), LogError> {
        let PendingEntry { name, charge } = note;
        let request = &charge.request;
        let (log, tenant, at) = (&self.ledger.log, &request.key.tenant, request.at);
        if again && let (Some(entry), _) = log.document::<Entry>(tenant, ENTRY, name).await? {
            self.day(request).await?.add(&entry);
            return Ok(());
        }
        let entry = charge.entry(&self.ledger.prices, &mut self.previous(request).await?.value);
        self.day(request).await?.add(&entry);
        let document = NewDocument::new(tenant, ENTRY, name, &entry).expecting(0).at(at);
        self.entries.push(self.ledger.log.put_document(document));
        Ok(())
    }

    /// The totals that a request counts in.
    async fn day(&mut self, request: &Request) -> Result<&mut Totals, LogError> {
        let key = (request.key.tenant.clone(), Day::of(request.at));
        if !self.made.days.contains_key(&key) {
            let totals = match self.cache.days.get(&key) {
                Some(totals) => totals.clone(),
                None => self.ledger.stored(&key.0, DAY, &self.ledger.day_name(key.1)).await?.value,
            };
            self.made.days.insert(key.clone(), totals);
        }
        Ok(self.made.days.entry(key).or_default())
    }

    /// The thread's previous request.
    async fn previous(&mut self, request: &Request) -> Result<&mut Stored<Previous>, LogError> {
        let key = &request.key;
        let found = match self.made.previous.remove(key).or_else(|| self.cache.previous.get(key).cloned()) {
            Some(found) => found,
            None => self.ledger.previous(request).await?,
        };
        Ok(self.made.previous.entry(key.clone()).or_insert(found))
    }

    fn done(self) -> (Vec<Write>, DocumentCache) {
        let Batch { ledger, entries: mut writes, made, .. } = self;
        let at = Moment::now();
        for (key, Stored { value, version }) in &made.previous {
            let (tenant, name) = (&key.tenant, key.thread.as_str());
            let document = NewDocument::new(tenant, PREVIOUS, name, value).expecting(*version).at(at);
            writes.push(ledger.log.put_document(document));
        }
        for ((tenant, day), value) in &made.days {
            let name = &ledger.day_name(*day);
            let document = NewDocument::new(tenant, DAY, name, value).at(at);
            writes.push(ledger.log.put_document(document));
        }
        (writes, made)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Ledger, WAITING_MAX};
    use crate::ledger::{Charge, Marks, Original, PriceList, Request, entries, totals};
    use epitome::budget::Tokens;
    use epitome::thread::MessageId;
    use epitome_runtime::ids::{Moment, TenantId, ThreadKey};
    use epitome_runtime::log::Log;
    use epitome_runtime::model::Usage;
    use epitome_runtime::store::{MemoryStore, Store};
    use epitome_runtime::vault::{Keys, Vault};
    use epitome_testkit::{FaultyStore, StoreFault};

    const NOON: i64 = 1_794_830_400_000;
    const MINUTE: i64 = 60_000;
    const DAY: i64 = 24 * 60 * MINUTE;

    fn log(store: Arc<dyn Store>) -> Log {
        Log::new(store, Vault::new(Keys::none(), [7; 32]))
    }

    /// A request of so many messages, a thousand tokens each, sent as it is or as ten thousand tokens.
    fn request(thread: &str, at: i64, messages: usize, changed: bool) -> Charge {
        let id = |place: usize| MessageId::from_bytes([place as u8 + 1; 32]);
        let messages = (0..messages).map(|place| (id(place), Tokens::new(1000))).collect();
        let original = Original { head: 1, head_tokens: Tokens::ZERO, messages };
        let sent = if changed { 10_000 } else { original.tokens().get() };
        let request = Request {
            at: Moment(at),
            key: ThreadKey::new(TenantId::local(), thread.parse().expect("a name")),
            forked_from: None,
            id: "the-same".to_owned(),
            model: "claude-opus-5".to_owned(),
            window: Tokens::new(200_000),
            original,
            marks: Marks::Short,
            sent: Tokens::new(sent),
            changed,
            extra: Vec::new(),
        };
        let usage = Usage { input: sent, cached: 0, written: sent, output: 0 };
        Charge { request, usage, is_estimated: false }
    }

    async fn note(ledger: &Ledger, thread: &str, at: i64, messages: usize, changed: bool) {
        ledger.note([request(thread, at, messages, changed)]).await;
    }

    /// The cost without the gateway, by entry of a thread.
    async fn without(log: &Log, thread: &str) -> Vec<i64> {
        let thread = thread.parse().expect("a name");
        let page = entries(log, &TenantId::local(), &thread, None, 1000).await.expect("the memory");
        page.entries.iter().map(|entry| entry.without.round() as i64).collect()
    }

    async fn days(log: &Log) -> Vec<(String, u64, i64)> {
        let days = totals(log, &TenantId::local(), None).await.expect("the memory");
        let line = |day: &crate::ledger::DayTotals| {
            (day.day.to_string(), day.totals.requests, day.totals.input_tokens.without.round() as i64)
        };
        days.iter().map(line).collect()
    }

    #[tokio::test]
    async fn two_gateways_on_one_store_keep_one_ledger() {
        let log = log(Arc::new(MemoryStore::new()));
        let here = Ledger::new(log.clone(), PriceList::shipped());
        let there = Ledger::new(log.clone(), PriceList::shipped());
        note(&here, "a", NOON, 60, false).await;
        note(&there, "a", NOON + MINUTE, 62, true).await;
        note(&here, "a", NOON + 2 * MINUTE, 64, true).await;
        assert_eq!(without(&log, "a").await, [75_000, 8_500, 8_700]);
        assert_eq!(days(&log).await, [("2026-11-16".to_owned(), 3, 92_200)]);
    }

    #[tokio::test]
    async fn requests_of_one_thread_at_once_are_each_counted_once() {
        let log = log(Arc::new(MemoryStore::new()));
        let ledgers: Vec<Arc<Ledger>> =
            (0..4).map(|_| Arc::new(Ledger::new(log.clone(), PriceList::shipped()))).collect();
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..100 {
            let ledger = ledgers[at as usize % 4].clone();
            tasks.spawn(async move { note(&ledger, "a", NOON + at, 60, true).await });
        }
        tasks.join_all().await;
        for ledger in ledgers {
            ledger.flush().await.expect("the memory");
        }
        assert_eq!(without(&log, "a").await.len(), 100);
        assert_eq!(days(&log).await[0].1, 100);
    }

    #[tokio::test]
    async fn a_restart_changes_nothing_and_every_day_has_its_line() {
        let log = log(Arc::new(MemoryStore::new()));
        for (at, messages) in [(0, 60), (MINUTE, 62), (DAY, 64), (MINUTE * 2, 66)] {
            let ledger = Ledger::new(log.clone(), PriceList::shipped());
            note(&ledger, "a", NOON + at, messages, messages > 60).await;
        }
        let days = days(&log).await;
        assert_eq!(
            days.iter().map(|day| (day.0.as_str(), day.1)).collect::<Vec<_>>(),
            [("2026-11-16", 3), ("2026-11-17", 1)]
        );
        let since = totals(&log, &TenantId::local(), "2026-11-17".parse().ok()).await.expect("the memory");
        assert_eq!(since.len(), 1);
    }

    #[tokio::test]
    async fn a_fork_begins_with_its_parents_cache() {
        let log = log(Arc::new(MemoryStore::new()));
        let ledger = Ledger::new(log.clone(), PriceList::shipped());
        note(&ledger, "a", NOON, 60, false).await;
        let mut forked = request("b", NOON + MINUTE, 62, true);
        forked.request.forked_from = "a".parse().ok();
        ledger.note([forked]).await;
        assert_eq!(without(&log, "b").await, [8_500]);
    }

    #[tokio::test]
    async fn threads_whose_names_begin_alike_are_told_apart_and_pages_go_on() {
        let log = log(Arc::new(MemoryStore::new()));
        let ledger = Ledger::new(log.clone(), PriceList::shipped());
        for (thread, at) in [("a", 0), ("a-b", 1), ("a.b", 2), ("a", 3), ("ab", 4), ("a", 5)] {
            note(&ledger, thread, NOON + at, 10, false).await;
        }
        let (thread, tenant) = ("a".parse().expect("a name"), TenantId::local());
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = entries(&log, &tenant, &thread, after.as_deref(), 2).await.expect("the memory");
            seen.extend(page.entries.iter().map(|entry| entry.at.0 - NOON));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, [0, 3, 5]);
    }

    #[tokio::test]
    async fn what_a_broken_store_does_not_take_is_written_with_the_next_one_up_to_a_bound() {
        let faulty = FaultyStore::new(Arc::new(MemoryStore::new()));
        let log = log(Arc::new(faulty.clone()));
        let ledger = Ledger::new(log.clone(), PriceList::shipped());
        faulty.fail(0, usize::MAX, StoreFault::Refused);
        for at in 0..WAITING_MAX as i64 + 9 {
            note(&ledger, "a", NOON + at, 10, false).await;
        }
        faulty.heal();
        note(&ledger, "a", NOON + 5000, 10, false).await;
        let days = totals(&log, &TenantId::local(), None).await.expect("the memory");
        assert_eq!((days[0].totals.requests, days[0].totals.lost), (WAITING_MAX as u64, 10));
        assert_eq!(without(&log, "a").await.len(), WAITING_MAX);
    }

    #[tokio::test]
    async fn a_write_whose_answer_got_lost_is_counted_once() {
        for calls_before in 0..3 {
            let faulty = FaultyStore::new(Arc::new(MemoryStore::new()));
            let log = log(Arc::new(faulty.clone()));
            let ledger = Ledger::new(log.clone(), PriceList::shipped());
            note(&ledger, "a", NOON, 60, false).await;
            faulty.fail(calls_before, 1, StoreFault::Dropped);
            note(&ledger, "a", NOON + MINUTE, 62, true).await;
            faulty.heal();
            note(&ledger, "a", NOON + 2 * MINUTE, 64, true).await;
            assert_eq!(without(&log, "a").await, [75_000, 8_500, 8_700], "after {calls_before} calls");
            assert_eq!(days(&log).await, [("2026-11-16".to_owned(), 3, 92_200)], "after {calls_before} calls");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_holds_one_writer_up_and_nobody_else() {
        let faulty = FaultyStore::new(Arc::new(MemoryStore::new()));
        let log = log(Arc::new(faulty.clone()));
        let ledger = Arc::new(Ledger::new(log.clone(), PriceList::shipped()));
        faulty.fail(0, usize::MAX, StoreFault::Hung);
        let first = tokio::spawn({
            let ledger = ledger.clone();
            async move { note(&ledger, "a", NOON, 10, false).await }
        });
        tokio::task::yield_now().await;
        let started = tokio::time::Instant::now();
        note(&ledger, "a", NOON + 1, 10, false).await;
        assert!(started.elapsed().is_zero(), "the second does not wait for the first");
        first.await.expect("it gives up");
        faulty.heal();
        ledger.flush().await.expect("the memory");
        assert_eq!(days(&log).await[0].1, 2);
    }
}
