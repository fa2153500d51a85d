//! Messages: the log of a thread as it came, numbered from 1.

use axum::Json;
use axum::extract::State;
use epitome_runtime::log::LogEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::extract::{ApiCaller, LIMIT, LIMIT_MAX, Ordinal, PathParams, QueryParams};
use super::{Api, ApiError};

/// A message of a thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Message {
    /// Its number in the thread, from 1: prompts and receipts call it `m` and this number.
    number: u64,
    /// Its id: a hash of everything before it and its own meaning.
    id: String,
    /// Its turn.
    turn: u32,
    /// The role.
    role: String,
    /// Its tokens.
    tokens: u64,
    /// When it was appended.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The message as it came.
    #[schemars(with = "serde_json::Value")]
    message: Box<RawValue>,
}

/// Messages, and where the next ones are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Messages {
    /// The messages, in order.
    messages: Vec<Message>,
    /// The number of messages in the thread.
    total: u64,
    /// The value of `from` for the next page; absent at the end.
    next: Option<u64>,
}

/// The range of messages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageRange {
    from: Option<Ordinal>,
    to: Option<Ordinal>,
}

pub(super) async fn list(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<MessageRange>,
) -> Result<Json<Messages>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let first = asked.from.map_or(0, |from| from.get() - 1);
    let end = asked.to.map_or(first.saturating_add(LIMIT), Ordinal::get);
    let end = end.min(first.saturating_add(LIMIT_MAX)).min(row.length);
    let entries = api.log().read(&row, first.min(end)..end).await?;
    let messages = entries.into_iter().map(view).collect::<Result<_, _>>()?;
    Ok(Json(Messages { messages, total: row.length, next: (end < row.length).then_some(end + 1) }))
}

fn view(entry: LogEntry) -> Result<Message, ApiError> {
    let raw = entry.message.raw.as_str();
    Ok(Message {
        number: entry.place + 1,
        id: entry.id.to_string(),
        turn: entry.turn,
        role: entry.message.role.name().to_owned(),
        tokens: entry.part_tokens.iter().map(|tokens| tokens.get()).sum(),
        at: entry.at.to_string(),
        message: RawValue::from_string(raw.to_owned()).map_err(|_| ApiError::Unreadable)?,
    })
}
