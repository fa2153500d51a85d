//! Checking: every message is the one that its id stands for, every plan names messages that there are, nothing is
//! left over, and everything opens.

use std::collections::HashSet;

use epitome::thread::{Chain, MessageId};

use super::tally::{SealedRow, Tally};
use super::{PAGE, ProgressReporter, Result, TenantDocuments, ThreadVectors, threads};
use crate::artifact::Artifacts;
use crate::ids::{TenantId, ThreadId, ThreadKey};
use crate::log::{Log, LogEntry, LogError, wire_dialect};
use crate::sentence;
use crate::store::{DocumentKey, DocumentRow, Owner, PlanRow, StoreError, ThreadRow};

/// The most findings of one thread; one damage may show in every message after it.
const FINDINGS_OF_THREAD_MAX: usize = 20;

/// The counts and findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The number of tenants.
    pub tenants: u64,
    /// The number of threads.
    pub threads: u64,
    /// The number of messages; shared ones count once for each fork.
    pub messages: u64,
    /// The number of plans.
    pub plans: u64,
    /// The number of documents.
    pub documents: u64,
    /// The findings, in sentences.
    pub findings: Vec<String>,
}

/// Checks everything that a store holds.
pub async fn check(log: &Log, artifacts: &Artifacts, said: &mut ProgressReporter<'_>) -> Result<CheckReport> {
    said("Checking the store itself".to_owned());
    let mut checked = CheckReport { findings: log.store().check().await?, ..CheckReport::default() };
    let mut stale = Stale::default();
    for tenant in log.store().tenants().await? {
        checked.tenants += 1;
        let rows = threads(log, &tenant).await?;
        let ids: HashSet<ThreadId> = rows.iter().map(|row| row.key.thread.clone()).collect();
        for (at, row) in rows.iter().enumerate() {
            said(format!("Checking thread {} of {} of {tenant}", at + 1, rows.len()));
            checked.thread(log, row).await?;
            stale.thread(log, row).await?;
        }
        said(format!("Checking the documents of {tenant}"));
        checked.documents(log, &tenant, &ids, &mut stale).await?;
        said(format!("Checking the artifacts of {tenant}"));
        let found = artifacts.check(&tenant).await?;
        checked.findings.extend(found.iter().map(sentence));
        stale.artifacts(log, &tenant).await?;
    }
    checked.findings.extend(stale.told(log));
    Ok(checked)
}

impl CheckReport {
    async fn thread(&mut self, log: &Log, row: &ThreadRow) -> Result<()> {
        self.threads += 1;
        let mut found = segments(log, row).await?;
        if let Err(error) = log.labels(row) {
            found.push(format!("The labels of thread {}: {error}.", row.key));
        }
        let walk = Walk::along(log, row).await?;
        self.messages += walk.ids.len() as u64;
        found.extend(walk.found);
        for version in 1..=row.version {
            self.plans += 1;
            found.extend(plan(log, row, version, &walk.ids).await?);
        }
        found.extend(events(log, &row.key).await?);
        found.extend(vectors(log, &row.key).await?);
        let over = found.len().saturating_sub(FINDINGS_OF_THREAD_MAX);
        found.truncate(FINDINGS_OF_THREAD_MAX);
        found.extend((over > 0).then(|| format!("There is more of the kind in thread {}: {over} findings.", row.key)));
        self.findings.extend(found);
        Ok(())
    }

    async fn documents(
        &mut self,
        log: &Log,
        tenant: &TenantId,
        threads: &HashSet<ThreadId>,
        stale: &mut Stale,
    ) -> Result<()> {
        let mut documents = TenantDocuments::of(log, tenant);
        while let Some((key, row)) = documents.next().await? {
            self.documents += 1;
            stale.document(log, &key, &row);
            let name = format!("The {} document {} of {tenant}", key.kind, key.name);
            if let Err(error) = log.open_document(&key, &row) {
                self.findings.push(sentence(&error));
            }
            let Some(kind) = key.kind.known() else {
                self.findings.push(format!("{name} is of a kind that this version does not know."));
                continue;
            };
            let is_lost = || kind.thread_in(&key.name).is_none_or(|thread| !threads.contains(&thread));
            if kind.owner() == Owner::Thread && is_lost() {
                self.findings.push(format!("{name} belongs to a thread that is not there."));
            }
        }
        Ok(())
    }
}

/// The rows that a rotation would change: those under an older key, and those with readable names.
#[derive(Default)]
struct Stale {
    /// Rows that are not under the current key.
    unsealed: Tally,
    /// Threads and documents whose names tell what they are about.
    named: u64,
}

impl Stale {
    fn body(&mut self, log: &Log, what: SealedRow, body: &[u8]) {
        self.unsealed.add(what, u64::from(log.vault().is_stale(body)));
    }

    async fn thread(&mut self, log: &Log, row: &ThreadRow) -> Result<(), StoreError> {
        self.named += u64::from(log.rename_thread(row).is_some());
        if !log.vault().is_sealing() {
            return Ok(());
        }
        if !row.labels.is_empty() {
            self.body(log, SealedRow::Label, &row.labels);
        }
        let mut start = row.shared.last().map_or(0, |shared| shared.until);
        while start < row.length {
            let end = (start + PAGE as u64).min(row.length);
            for message in log.store().messages(&row.key, start..end).await? {
                self.body(log, SealedRow::Message, &message.body);
            }
            start = end;
        }
        for version in 1..=row.version {
            if let Some(plan) = log.store().plan(&row.key, Some(version)).await? {
                self.body(log, SealedRow::Plan, &plan.body);
            }
        }
        let mut pages = ThreadVectors::of(log, &row.key);
        while let Some(page) = pages.next().await? {
            let stale = page.iter().filter(|row| log.is_stale_vector(row)).count();
            self.unsealed.add(SealedRow::Vector, stale as u64);
        }
        let mut after = 0;
        loop {
            let page = log.store().events(&row.key, after, PAGE).await?;
            page.iter().for_each(|event| self.body(log, SealedRow::Event, &event.body));
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.number,
                _ => return Ok(()),
            }
        }
    }

    fn document(&mut self, log: &Log, key: &DocumentKey, row: &DocumentRow) {
        self.body(log, SealedRow::Document, &row.body);
        self.named += u64::from(!log.is_well_named(key));
    }

    async fn artifacts(&mut self, log: &Log, tenant: &TenantId) -> Result<(), StoreError> {
        let Some(current) = log.vault().current_key_id() else { return Ok(()) };
        let mut after: Option<String> = None;
        loop {
            let page = log.store().artifacts(tenant, after.as_deref(), PAGE).await?;
            let under_others = page.iter().filter(|row| row.key_id.as_deref() != Some(current)).count();
            self.unsealed.add(SealedRow::Artifact, under_others as u64);
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    fn told(&self, log: &Log) -> Vec<String> {
        let key = log.vault().current_key_id().unwrap_or_default();
        let rotate = "`epitome store rotate` changes that.";
        let unsealed = format!("Not sealed with the key {key}: {}. {rotate}", self.unsealed.words());
        let named = format!("Kept under names that tell what was said: {} rows. {rotate}", self.named);
        let unsealed = Some(unsealed).filter(|_| !self.unsealed.is_empty());
        unsealed.into_iter().chain(Some(named).filter(|_| self.named > 0)).collect()
    }
}

/// Tells whether those who hold a fork's shared messages hold them.
async fn segments(log: &Log, row: &ThreadRow) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let mut start = 0;
    for segment in &row.shared {
        let key = ThreadKey::new(row.key.tenant.clone(), segment.thread.clone());
        let Some(holder) = log.store().thread(&key).await? else {
            found.push(format!("Thread {} shares messages of {}, which is not there.", row.key, segment.thread));
            continue;
        };
        if holder.length < segment.until {
            let (shared, held) = (segment.until, holder.length);
            found.push(format!("Thread {} shares {shared} messages of {}, which has {held}.", row.key, segment.thread));
        }
        if segment.until <= start || segment.until > row.length {
            found.push(format!("The shared messages of thread {} do not follow each other.", row.key));
        }
        start = segment.until;
    }
    Ok(found)
}

/// A walk along the messages of a thread.
struct Walk {
    ids: HashSet<MessageId>,
    found: Vec<String>,
    /// The ids as they have to be; `None` from where they no longer can be made out.
    chain: Option<Chain>,
    tip: MessageId,
    tokens: u64,
    is_whole: bool,
}

impl Walk {
    async fn along(log: &Log, row: &ThreadRow) -> Result<Walk, StoreError> {
        let chain = wire_dialect(row).map(|_| Chain::from(MessageId::ROOT));
        let (ids, tip) = (HashSet::new(), MessageId::ROOT);
        let mut walk = Walk { ids, found: Vec::new(), chain, tip, tokens: 0, is_whole: true };
        let mut start = 0;
        while start < row.length {
            let end = (start + PAGE as u64).min(row.length);
            walk.page(log, row, start, end).await?;
            start = end;
        }
        walk.arrive(row);
        Ok(walk)
    }

    /// A page at once; one by one where something is wrong in it.
    async fn page(&mut self, log: &Log, row: &ThreadRow, start: u64, end: u64) -> Result<(), StoreError> {
        match log.read(row, start..end).await {
            Ok(entries) => entries.iter().for_each(|entry| self.step(row, entry)),
            Err(LogError::Store(error)) => return Err(error),
            Err(_) => {
                for place in start..end {
                    match log.read(row, place..place + 1).await {
                        Ok(entries) => entries.iter().for_each(|entry| self.step(row, entry)),
                        Err(LogError::Store(error)) => return Err(error),
                        Err(error) => {
                            (self.chain, self.is_whole) = (None, false);
                            self.found.push(sentence(&error));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, row: &ThreadRow, entry: &LogEntry) {
        let is_own = row.shared.last().is_none_or(|shared| entry.place >= shared.until);
        if self.chain.as_mut().is_some_and(|chain| chain.push(&entry.message) != entry.id) {
            self.chain = None;
            // What is wrong with a shared message is told of who holds it.
            if is_own {
                let number = entry.place + 1;
                self.found.push(format!("Message {number} of {} is not the one that its id stands for.", row.key));
            }
        }
        self.ids.insert(entry.id);
        self.tip = entry.stored;
        self.tokens += entry.part_tokens.iter().map(|tokens| tokens.get()).sum::<u64>();
    }

    fn arrive(&mut self, row: &ThreadRow) {
        if !self.is_whole {
            return;
        }
        // The tip of a fork that has nothing of its own is named as it was when it was made.
        let has_own = row.shared.last().is_none_or(|shared| shared.until < row.length);
        if has_own && self.tip != row.tip {
            self.found.push(format!("Thread {} does not end with the message that it names as its last.", row.key));
        }
        if self.tokens != row.tokens {
            let (counted, kept) = (self.tokens, row.tokens);
            self.found.push(format!("The messages of thread {} have {counted} tokens, and it says {kept}.", row.key));
        }
    }
}

async fn plan(log: &Log, row: &ThreadRow, version: u64, ids: &HashSet<MessageId>) -> Result<Option<String>> {
    let (plan, stored) = match log.plan(&row.key, Some(version)).await {
        Ok(Some(plan)) => plan,
        Ok(None) => return Ok(Some(format!("Thread {} has no plan {version} of {}.", row.key, row.version))),
        Err(LogError::Store(error)) => return Err(error.into()),
        Err(error) => return Ok(Some(format!("Plan {version} of thread {}: {error}.", row.key))),
    };
    let records = &stored.compaction.plan.records;
    let unknown = records.iter().flat_map(|record| record.span.messages()).filter(|id| !ids.contains(id)).count();
    Ok(match () {
        () if unknown > 0 => {
            Some(format!("Plan {version} of thread {} names {unknown} messages that are not there.", row.key))
        }
        () if !is_within(&plan, row) => {
            Some(format!("Plan {version} of thread {} is for more messages than there are.", row.key))
        }
        () => None,
    })
}

fn is_within(plan: &PlanRow, row: &ThreadRow) -> bool {
    let ends = plan.compacted.iter().map(|(_, end)| *end);
    plan.live_from <= plan.covers && ends.chain([plan.covers]).all(|end| end <= row.length)
}

/// Opens the vectors of a thread.
async fn vectors(log: &Log, key: &ThreadKey) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let mut pages = ThreadVectors::of(log, key);
    while let Some(page) = pages.next().await? {
        found.extend(page.iter().filter_map(|row| log.open_vector(key, row).err()).map(|error| sentence(&error)));
    }
    Ok(found)
}

async fn events(log: &Log, key: &ThreadKey) -> Result<Option<String>> {
    let mut after = 0;
    loop {
        match log.events(key, after, PAGE).await {
            Ok(page) if page.len() == PAGE => after = page.last().map_or(after, |(number, _)| *number),
            Ok(_) => return Ok(None),
            Err(LogError::Store(error)) => return Err(error.into()),
            Err(error) => return Ok(Some(format!("An event of thread {key} after number {after}: {error}."))),
        }
    }
}
