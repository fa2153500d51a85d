//! The prompt: what the model sees now, piece by piece. NoParams is decided or compacted by looking.

use axum::Json;
use axum::extract::State;
use epitome::budget::Meter;
use epitome::plan::Compaction;
use epitome::render::render;
use epitome::thread::Thread;
use epitome::wire::PromptMessage;
use epitome_runtime::engine::OpenThread;
use epitome_runtime::log::wire_dialect;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::extract::{ApiCaller, NoParams, PathParams, QueryParams};
use super::{Api, ApiError};
use crate::policy::of_plan;

/// The number of tries when plans are committed meanwhile.
const LOOKS_MAX: usize = 5;

/// The kind of a piece of a prompt.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PieceKind {
    /// A message as it came.
    Kept,
    /// A message with something in it exchanged.
    Edited,
    /// A summary.
    Summary,
    /// Something else that was written.
    Note,
}

/// A piece of a prompt.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PromptPiece {
    /// Its kind.
    kind: PieceKind,
    /// The number of the message that it is, where it is one.
    number: Option<u64>,
    /// It as the model gets it.
    #[schemars(with = "serde_json::Value")]
    message: Box<RawValue>,
}

/// The prompt that the model sees now.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Prompt {
    /// Its dialect.
    dialect: String,
    /// The version of the plan that it is rendered under; 0 without one.
    version: u64,
    /// Its tokens.
    tokens: u64,
    /// The number of messages in the thread.
    messages: u64,
    /// Its pieces, in order.
    pieces: Vec<PromptPiece>,
}

pub(super) async fn show(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Json<Prompt>, ApiError> {
    let row = api.thread(&access, &name).await?;
    for _ in 0..LOOKS_MAX {
        let open = api.engine().resume(&access, row.key.thread.clone()).await?;
        let plan = match open.row().version {
            0 => None,
            version => api.log().plan(&row.key, Some(version)).await?.map(|(_, stored)| stored.compaction),
        };
        if plan.is_some() == (open.row().version > 0) {
            return rendered(&api, &open, plan.as_ref()).map(Json);
        }
    }
    Err(ApiError::Unavailable)
}

fn rendered(api: &Api, open: &OpenThread, plan: Option<&Compaction>) -> Result<Prompt, ApiError> {
    let (thread, row) = (open.thread(), open.row());
    let dialect = wire_dialect(row).ok_or(ApiError::NoPrompt)?;
    let meter = Meter::new(&**api.engine().counter(), dialect);
    // A request may have named another policy than the engine's.
    let usual = &api.engine().settings().policy;
    let other = plan.map(|plan| &*plan.plan.policy).filter(|label| *label != usual.label());
    let own = other.and_then(of_plan);
    let prompt = render(thread, plan, own.as_ref().unwrap_or(usual), meter, &[]);
    let tokens = prompt.tokens(thread, meter).get();
    let pieces = prompt.messages.iter().zip(prompt.to_json(thread)).map(|(message, json)| view(thread, message, json));
    let pieces = pieces.collect::<Result<_, _>>()?;
    Ok(Prompt { dialect: dialect.name().to_owned(), version: row.version, tokens, messages: row.length, pieces })
}

fn view(thread: &Thread, message: &PromptMessage, json: String) -> Result<PromptPiece, ApiError> {
    let number = |place: usize| Some(thread.message(place).number() as u64);
    let (kind, number) = match message {
        PromptMessage::Kept(place) => (PieceKind::Kept, number(*place)),
        PromptMessage::Edited { place, .. } => (PieceKind::Edited, number(*place)),
        PromptMessage::Written { summary: true, .. } => (PieceKind::Summary, None),
        PromptMessage::Written { .. } => (PieceKind::Note, None),
    };
    let message = RawValue::from_string(json).map_err(|_| ApiError::Unreadable)?;
    Ok(PromptPiece { kind, number, message })
}
