//! Plans: what each compaction took out of the prompt, and the receipts for it.

use axum::Json;
use axum::extract::State;
use epitome_runtime::log::StoredPlan;
use epitome_runtime::store::{PlanRow, ThreadRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::extract::{ApiCaller, NoParams, NumberedPageQuery, Ordinal, PathParams, QueryParams};
use super::{Api, ApiError};

/// A plan without what it says.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Plan {
    /// Its version, from 1.
    version: u64,
    /// When it was committed.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The number of messages in the thread when it was made.
    covers: u64,
    /// The policy's name and version.
    policy: String,
    /// The prompt's tokens before.
    tokens_before: u64,
    /// The prompt's tokens after.
    tokens_after: u64,
    /// The messages that it took out of the prompt, as runs: the numbers of the first and the last.
    compacted: Vec<(u64, u64)>,
}

impl Plan {
    fn of(row: &PlanRow) -> Plan {
        Plan {
            version: row.version,
            at: row.at.to_string(),
            covers: row.covers,
            policy: row.policy.clone(),
            tokens_before: row.before,
            tokens_after: row.after,
            // Places are counted from 0 and end behind the last, numbers from 1.
            compacted: row.compacted.iter().map(|(first, end)| (first + 1, *end)).collect(),
        }
    }
}

/// Plans, and where the next ones are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Plans {
    /// The plans, oldest first.
    plans: Vec<Plan>,
    /// The value of `after` for the next page; absent at the end.
    next: Option<u64>,
}

/// A plan with what it says.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PlanDetail {
    /// The plan without what it says.
    #[serde(flatten)]
    plan: Plan,
    /// Records, steps and warnings. Places are those in the thread as it was loaded.
    details: Value,
    /// The summaries.
    summaries: Value,
    /// What tools did in the messages that were summarized: `artifacts`, `writes`, `patches`, `commands`, `memory_reads` and
    /// `hidden`, each entry with its `message`, such as `m41`.
    digest: Value,
}

/// One item of a receipt.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReceiptItem {
    /// Its kind: a constraint, a file, a command.
    kind: Value,
    /// The item, shortened.
    item: String,
    /// Its outcome: `retained`, `recoverable` or `lost`.
    fate: Value,
    /// The message to read it back from, such as `m41`.
    reference: String,
}

/// The outcome of every item that a plan took out of the prompt.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Receipt {
    /// The plan's version.
    version: u64,
    /// The number of items in the prompt.
    retained: usize,
    /// The number that can be read back.
    recoverable: usize,
    /// The number that are lost.
    lost: usize,
    /// The number that a summary dropped and that were carried over verbatim.
    repaired: usize,
    /// Item by item.
    items: Vec<ReceiptItem>,
}

/// The plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionQuery {
    version: Option<Ordinal>,
}

pub(super) async fn list(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<NumberedPageQuery>,
) -> Result<Json<Plans>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let last = asked.after().saturating_add(asked.limit() as u64).min(row.version);
    let mut plans = Vec::new();
    for version in asked.after().saturating_add(1)..=last {
        plans.extend(api.log().store().plan(&row.key, Some(version)).await?.as_ref().map(Plan::of));
    }
    Ok(Json(Plans { plans, next: (last < row.version).then_some(last) }))
}

pub(super) async fn show(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams((name, version)): PathParams<(String, u64)>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Json<PlanDetail>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let (plan, stored) = found(&api, &row, Some(version)).await?;
    let json = |value: Result<Value, serde_json::Error>| value.map_err(|_| ApiError::Unreadable);
    Ok(Json(PlanDetail {
        plan: Plan::of(&plan),
        details: json(serde_json::to_value(&stored.compaction.plan))?,
        summaries: json(serde_json::to_value(&stored.compaction.summaries))?,
        digest: json(serde_json::to_value(stored.compaction.digest()))?,
    }))
}

pub(super) async fn receipt(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<VersionQuery>,
) -> Result<Json<Receipt>, ApiError> {
    use epitome::summary::Fate;
    let row = api.thread(&access, &name).await?;
    let (plan, stored) = found(&api, &row, asked.version.map(Ordinal::get)).await?;
    let receipt = &stored.compaction.receipt;
    let count = |fate: Fate| receipt.entries.iter().filter(|entry| entry.fate == fate).count();
    let items = receipt.entries.iter().map(|entry| ReceiptItem {
        kind: serde_json::to_value(entry.kind).unwrap_or_default(),
        item: entry.item.clone(),
        fate: serde_json::to_value(entry.fate).unwrap_or_default(),
        reference: entry.reference.clone(),
    });
    Ok(Json(Receipt {
        version: plan.version,
        retained: count(Fate::Retained),
        recoverable: count(Fate::Recoverable),
        lost: count(Fate::Lost),
        repaired: receipt.repaired,
        items: items.collect(),
    }))
}

/// A plan of a thread; the newest without a version.
async fn found(api: &Api, row: &ThreadRow, version: Option<u64>) -> Result<(PlanRow, StoredPlan), ApiError> {
    // Versions begin at 1, and not every store takes every number.
    let absent = || ApiError::NotFound("plan");
    if version.is_some_and(|version| !(1..=row.version).contains(&version)) {
        return Err(absent());
    }
    api.log().plan(&row.key, version).await?.ok_or_else(absent)
}
