//! The ledger: what requests cost, and what they would have cost without the gateway.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::extract::{ApiCaller, PageQuery, PathParams, QueryParams};
use super::{Api, ApiError};
use crate::ledger::{Day, DayTotals, Totals, entries, totals};

/// The totals of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LedgerTotals {
    /// All days together: requests, tokens, and what was paid and saved.
    total: Map<String, Value>,
    /// Each day, oldest first.
    days: Vec<Map<String, Value>>,
}

/// Entries of a thread, and where the next ones are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LedgerEntries {
    /// The requests, oldest first: what each took, what was paid, and what was saved.
    entries: Vec<Map<String, Value>>,
    /// The value of `after` for the next page; absent at the end.
    next: Option<String>,
}

/// From which day on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SinceQuery {
    since: Option<String>,
}

pub(super) async fn all(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    QueryParams(asked): QueryParams<SinceQuery>,
) -> Result<Json<LedgerTotals>, ApiError> {
    let wrong = || ApiError::Query("`since` is a day such as 2026-11-16".to_owned());
    let since: Option<Day> = asked.since.as_deref().map(|day| day.parse().map_err(|_| wrong())).transpose()?;
    let days = totals(api.log(), &access.tenant, since).await?;
    let total = days.iter().fold(Totals::default(), |mut total, day| {
        total += &day.totals;
        total
    });
    let days = days.iter().map(told::<DayTotals>).collect::<Result<_, _>>()?;
    Ok(Json(LedgerTotals { total: told(&total)?, days }))
}

pub(super) async fn of_thread(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<PageQuery>,
) -> Result<Json<LedgerEntries>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let limit = asked.limit();
    let page = entries(api.log(), &access.tenant, &row.key.thread, asked.after.as_deref(), limit).await?;
    let entries = page.entries.iter().map(told).collect::<Result<_, _>>()?;
    Ok(Json(LedgerEntries { entries, next: page.next }))
}

fn told<T: Serialize>(value: &T) -> Result<Map<String, Value>, ApiError> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(ApiError::Unreadable),
    }
}
