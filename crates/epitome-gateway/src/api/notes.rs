//! Notes on a thread: what people hid, pinned and remembered, the workstream state, and how well the thread does. The one
//! endpoint that also changes something.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use epitome_runtime::engine::{NoteChange, ThreadNotes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::extract::{ApiCaller, NoParams, PathParams, QueryParams};
use super::{Api, ApiError};
use crate::tools::NOTE_CHANGE;

/// A hidden message.
#[derive(Debug, Serialize, JsonSchema)]
struct Hidden {
    /// The message, such as `m41`.
    message: String,
    /// The words that stand for it in prompts.
    text: String,
}

/// The memory block.
#[derive(Debug, Serialize, JsonSchema)]
struct Memory {
    /// The summary of the older entries.
    summary: String,
    /// The newer entries, oldest first.
    entries: Vec<String>,
}

/// How well the thread does after its compactions.
#[derive(Debug, Serialize, JsonSchema)]
struct Quality {
    /// The compactions of the thread.
    compactions: u64,
    /// The turns since the newest compaction.
    turns_since_compaction: u64,
    /// The times that the agent asked for something that was compacted.
    agent_asked_for_context: u64,
    /// The times that content came back into a prompt by itself.
    rehydration_requests: u64,
    /// The artifacts that the agent read.
    explicit_reads: u64,
    /// The searches of what was compacted.
    recalls: u64,
    /// True if the task was completed, false if not; null until somebody says so.
    task_completed: Option<bool>,
}

/// Everything that is noted about a thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Notes {
    /// The hidden messages, in order.
    hidden: Vec<Hidden>,
    /// Words that every later prompt must hold.
    pins: Vec<String>,
    /// The memory block, which is in every prompt of the thread.
    memory: Memory,
    /// The workstream state; null if the policy keeps none, or no model has written one.
    state: Option<Value>,
    /// The quality metrics.
    quality: Quality,
    /// True if the agent asks for what was compacted so often that the policy should keep more.
    asks_often: bool,
}

impl Notes {
    fn of(notes: ThreadNotes) -> Result<Notes, ApiError> {
        let ThreadNotes { hidden, pins, memory, state, quality, asks_often } = notes;
        let hidden = hidden.into_iter().map(|hidden| Hidden { message: hidden.message, text: hidden.text });
        let state = state.map(serde_json::to_value).transpose().map_err(|_| ApiError::Unreadable)?;
        Ok(Notes {
            hidden: hidden.collect(),
            pins,
            memory: Memory { summary: memory.summary, entries: memory.entries },
            state,
            quality: Quality {
                compactions: quality.compactions,
                turns_since_compaction: quality.turns_since_compaction,
                agent_asked_for_context: quality.agent_asked_for_context,
                rehydration_requests: quality.rehydration_requests,
                explicit_reads: quality.explicit_reads,
                recalls: quality.recalls,
                task_completed: quality.task_completed,
            },
            asks_often,
        })
    }
}

pub(super) async fn show(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Json<Notes>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let mut open = api.engine().resume(&access, row.key.thread).await?;
    Notes::of(open.notes().await?).map(Json)
}

pub(super) async fn change(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
    change: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Notes>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let Json(change) = change.map_err(|error| ApiError::Body(error.body_text()))?;
    let change = parse_change(change)?;
    let mut open = api.engine().resume(&access, row.key.thread).await?;
    Notes::of(open.annotate(&change).await?).map(Json)
}

/// The fields of any change, as the document describes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only whether a body fits is asked")]
struct ChangeFields {
    action: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    completed: bool,
}

/// Reads a change. What the document allows and no action takes, such as a `pin` that is `completed`, cannot be carried out; anything
/// else that is no change is a wrong body.
fn parse_change(body: Value) -> Result<NoteChange, ApiError> {
    let known = ["hide", "show", "pin", "unpin", "remember", "end_task"];
    let is_known = body["action"].as_str().is_some_and(|action| known.contains(&action));
    let fits = is_known && ChangeFields::deserialize(&body).is_ok();
    serde_json::from_value(body).map_err(|error| match fits {
        true => ApiError::Note(error.to_string()),
        false => ApiError::Body(error.to_string()),
    })
}

/// The body of a change, as JSON schema.
pub(super) fn change_schema() -> Value {
    serde_json::from_str(NOTE_CHANGE).unwrap_or_default()
}
