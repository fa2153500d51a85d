//! The book: entries and totals, kept in the store.
//!
//! ```text
//! ledger           THREAD/MOMENT-REQUEST   one entry; removed by `vacuum` after a while
//! ledger-day       DAY/GATEWAY             what one gateway process has summed up on one day
//! ledger-previous  THREAD                  the thread's previous request, for the next one's counterfactual
//! ```
//!
//! One batch writes all three. A day's document has one writer, so no two gateways ever wait for each other there, and
//! reading sums them up; a thread's previous request is written by compare-and-swap, because any gateway may have had it.
//! No request waits for any of this, and none fails of it: what cannot be written is written with the next one.

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

/// The most requests that wait to be written down; older ones are lost, and counted.
const WAITING_MAX: usize = 512;
/// The most that are written at once.
const BATCH_MAX: usize = 64;
/// How often a batch is made again when another gateway was faster.
const ATTEMPTS_MAX: usize = 8;
/// The most documents that are kept at hand.
const KNOWN_MAX: usize = 1024;

/// How long a batch may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The ledger of one gateway process, over the store that all share.
#[derive(Debug)]
pub struct Ledger {
    log: Log,
    prices: PriceList,
    /// This process, among those that write to the store.
    process: String,
    waiting: Mutex<Waiting>,
    /// What was spent on threads since their last request.
    owed: Mutex<Owed>,
    /// One task at a time writes.
    known: tokio::sync::Mutex<Known>,
}

/// What is not written down yet.
#[derive(Debug, Default)]
struct Waiting {
    notes: VecDeque<Note>,
    lost: u64,
}

#[derive(Debug)]
struct Note {
    /// The name of its entry.
    name: String,
    charge: Charge,
}

impl Ledger {
    /// The ledger of this process.
    pub fn new(log: Log, prices: PriceList) -> Ledger {
        let process = Uuid::now_v7().to_string();
        let (waiting, owed) = (Mutex::default(), Mutex::default());
        Ledger { log, prices, process, waiting, owed, known: tokio::sync::Mutex::default() }
    }

    /// The ledger with what models take for summaries: they are told on this bus, and stand with the next request of their
    /// thread.
    #[must_use]
    pub fn hearing(self, bus: &Bus) -> Ledger {
        self.owed().told = Some(bus.subscribe());
        self
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes requests down. To be spawned: it waits for the store. What the store does not take waits for the next ones.
    pub async fn note(&self, charges: impl IntoIterator<Item = Charge>) {
        for mut charge in charges {
            charge.request.extra.extend(self.owed().taken(&charge.request.key));
            self.wait_with(Note::new(charge));
        }
        // Whoever writes already sees them before it goes.
        while !self.waiting().notes.is_empty() {
            let Ok(mut known) = self.known.try_lock() else { return };
            if let Err(error) = self.write_all(&mut known).await {
                tracing::warn!(%error, waiting = self.waiting().notes.len(), "the ledger cannot be written");
                return;
            }
        }
    }

    /// Writes down what waits; to be called before the process ends.
    pub async fn flush(&self) -> Result<(), LogError> {
        let mut known = self.known.lock().await;
        self.write_all(&mut known).await
    }

    async fn write_all(&self, known: &mut Known) -> Result<(), LogError> {
        loop {
            let (notes, lost) = self.take();
            if notes.is_empty() {
                return Ok(());
            }
            let written = tokio::time::timeout(PATIENCE, self.write(known, &notes, lost)).await;
            if let Err(error) = written.unwrap_or_else(|_| Err(slow())) {
                self.give_back(notes, lost);
                return Err(error);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_with(&self, note: Note) {
        let mut waiting = self.waiting();
        waiting.notes.push_back(note);
        waiting.forget();
    }

    fn take(&self) -> (Vec<Note>, u64) {
        let mut waiting = self.waiting();
        let count = waiting.notes.len().min(BATCH_MAX);
        let notes = waiting.notes.drain(..count).collect();
        (notes, std::mem::take(&mut waiting.lost))
    }

    fn give_back(&self, notes: Vec<Note>, lost: u64) {
        let mut waiting = self.waiting();
        notes.into_iter().rev().for_each(|note| waiting.notes.push_front(note));
        waiting.lost += lost;
        waiting.forget();
    }

    /// Writes notes in one batch. Another gateway may have been faster with one of the threads, or the batch was stored
    /// and its answer got lost: then it is made again from what the store has.
    async fn write(&self, known: &mut Known, notes: &[Note], lost: u64) -> Result<(), LogError> {
        for attempt in 0.. {
            let mut batch = Batch { ledger: self, known, entries: Vec::new(), made: Known::default() };
            batch.lose(notes, lost).await?;
            for note in notes {
                batch.add(note, attempt > 0).await?;
            }
            let (writes, made) = batch.done();
            match self.log.apply(&writes).await {
                Ok(()) => {
                    known.extend(made);
                    break;
                }
                Err(error) if error.is_conflict() && attempt < ATTEMPTS_MAX => known.previous.clear(),
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
            // It cannot be opened, and never will be: there is none.
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

/// What was spent on threads beside their requests.
#[derive(Debug, Default)]
struct Owed {
    told: Option<broadcast::Receiver<Arc<Event>>>,
    by_thread: BTreeMap<ThreadKey, Vec<Extra>>,
}

impl Owed {
    /// What a thread owes; nothing any more.
    fn taken(&mut self, key: &ThreadKey) -> Vec<Extra> {
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
        let told = self.told.as_mut()?;
        loop {
            match told.try_recv() {
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

impl Note {
    fn new(charge: Charge) -> Note {
        let Request { key, at, .. } = &charge.request;
        let name = format!("{}/{:014}-{}", key.thread, at.0, Uuid::now_v7().simple());
        Note { name, charge }
    }
}

impl Waiting {
    fn forget(&mut self) {
        while self.notes.len() > WAITING_MAX {
            self.notes.pop_front();
            self.lost += 1;
        }
    }
}

fn slow() -> LogError {
    StoreError::Unavailable { reason: format!("no answer within {} s", PATIENCE.as_secs()) }.into()
}

/// Documents at hand, as they are stored.
#[derive(Debug, Default)]
struct Known {
    previous: BTreeMap<ThreadKey, Stored<Previous>>,
    /// This process is the only one that writes them.
    days: BTreeMap<(TenantId, Day), Totals>,
}

/// A document's content, and the version it has; `None`: whatever is there is replaced.
#[derive(Clone, Debug)]
struct Stored<T> {
    value: T,
    version: Option<u64>,
}

impl Known {
    /// Takes in what a batch has stored.
    fn extend(&mut self, made: Known) {
        if self.previous.len() + self.days.len() > KNOWN_MAX {
            *self = Known::default();
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

/// Notes on their way into the store.
struct Batch<'a> {
    ledger: &'a Ledger,
    known: &'a Known,
    entries: Vec<Write>,
    /// What the batch makes of the documents that it touches; versions are those it expects to find.
    made: Known,
}

impl Batch<'_> {
    /// Counts requests that were lost on the day of the first one after them.
    async fn lose(&mut self, notes: &[Note], lost: u64) -> Result<(), LogError> {
        if let Some(note) = notes.first().filter(|_| lost > 0) {
            self.day(&note.charge.request).await?.lost += lost;
        }
        Ok(())
    }

    /// Charges a request. Its entry may have been stored before: then it stays as it is.
    async fn add(&mut self, note: &Note, again: bool) -> Result<(), LogError> {
        let Note { name, charge } = note;
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
            let totals = match self.known.days.get(&key) {
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
        let found = match self.made.previous.remove(key).or_else(|| self.known.previous.get(key).cloned()) {
            Some(found) => found,
            None => self.ledger.previous(request).await?,
        };
        Ok(self.made.previous.entry(key.clone()).or_insert(found))
    }

    fn done(self) -> (Vec<Write>, Known) {
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
    use epitome_runtime::store::{Memory, Store};
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

    /// What each entry of a thread says would have been paid.
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
        let log = log(Arc::new(Memory::new()));
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
        let log = log(Arc::new(Memory::new()));
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
        let log = log(Arc::new(Memory::new()));
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
        let log = log(Arc::new(Memory::new()));
        let ledger = Ledger::new(log.clone(), PriceList::shipped());
        note(&ledger, "a", NOON, 60, false).await;
        let mut forked = request("b", NOON + MINUTE, 62, true);
        forked.request.forked_from = "a".parse().ok();
        ledger.note([forked]).await;
        assert_eq!(without(&log, "b").await, [8_500]);
    }

    #[tokio::test]
    async fn threads_whose_names_begin_alike_are_told_apart_and_pages_go_on() {
        let log = log(Arc::new(Memory::new()));
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
        let faulty = FaultyStore::new(Arc::new(Memory::new()));
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
            let faulty = FaultyStore::new(Arc::new(Memory::new()));
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
        let faulty = FaultyStore::new(Arc::new(Memory::new()));
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
