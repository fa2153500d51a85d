//! Handoffs: what a new thread needs of an old one to reach a goal. Nothing is stored.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::extract::{ApiCaller, NoParams, PathParams, QueryParams};
use super::{Api, ApiError};
use crate::tools::{HANDOFF, HandoffRequest};

/// What a new thread begins with.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Handoff {
    /// The goal, as it was given.
    goal: String,
    /// The text to begin with.
    text: String,
    /// The same as a list of messages, for a request.
    messages: Value,
    /// Its tokens.
    tokens: u64,
    /// The model that wrote a part of it; null if code alone did.
    model: Option<String>,
}

pub(super) async fn write(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
    request: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Handoff>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let Json(request) = request.map_err(|error| ApiError::Body(error.body_text()))?;
    let request: HandoffRequest = serde_json::from_value(request).map_err(|error| ApiError::Body(error.to_string()))?;
    let open = api.engine().resume(&access, row.key.thread).await?;
    let epitome_runtime::engine::Handoff { goal, text, tokens, model } =
        open.handoff(&request.goal, request.tokens()).await?;
    let messages = json!([{"role": "user", "content": text}]);
    Ok(Json(Handoff { goal, text, messages, tokens: tokens.get(), model }))
}

/// The body of a request, as JSON schema.
pub(super) fn request_schema() -> Value {
    serde_json::from_str(HANDOFF.parameters).unwrap_or_default()
}
