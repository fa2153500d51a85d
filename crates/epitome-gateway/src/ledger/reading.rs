//! Reading the ledger: the totals of days, and the entries of a thread.

use std::collections::BTreeMap;

use epitome_runtime::ids::{TenantId, ThreadId};
use epitome_runtime::log::{Log, LogError};
use serde::{Deserialize, Serialize};

use super::book::{DAY, ENTRY};
use super::day::Day;
use super::entry::Entry;
use super::totals::{DayTotals, Totals};

/// Documents are asked for so many at once.
const PAGE: usize = 256;

/// Entries, and where the next ones are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// The next page; absent at the end.
    pub next: Option<String>,
}

/// The totals of each day from `since` on, oldest first; of all days without one. Every gateway's are in them.
pub async fn totals(log: &Log, tenant: &TenantId, since: Option<Day>) -> Result<Vec<DayTotals>, LogError> {
    let mut days: BTreeMap<Day, Totals> = BTreeMap::new();
    let mut after = since.map(|day| day.to_string());
    loop {
        let page: Vec<(String, Totals)> = log.documents(tenant, DAY, after.as_deref(), PAGE).await?;
        for (name, totals) in &page {
            if let Some(day) = name.split('/').next().and_then(|day| day.parse().ok()) {
                *days.entry(day).or_default() += totals;
            }
        }
        if page.len() < PAGE {
            return Ok(days.into_iter().map(|(day, totals)| DayTotals { day, totals }).collect());
        }
        after = page.into_iter().next_back().map(|(name, _)| name);
    }
}

/// The entries of a thread, oldest first, from the one after `after` on, `limit` at most.
pub async fn entries(
    log: &Log,
    tenant: &TenantId,
    thread: &ThreadId,
    after: Option<&str>,
    limit: usize,
) -> Result<Page, LogError> {
    let own = format!("{thread}/");
    let from = format!("{own}{}", after.unwrap_or_default());
    let mut found: Vec<(String, Entry)> = log.documents(tenant, ENTRY, Some(&from), limit).await?;
    found.retain(|(name, _)| name.starts_with(&own));
    let last = found.last().filter(|_| found.len() == limit);
    let next = last.map(|(name, _)| name[own.len()..].to_owned());
    Ok(Page { entries: found.into_iter().map(|(_, entry)| entry).collect(), next })
}
