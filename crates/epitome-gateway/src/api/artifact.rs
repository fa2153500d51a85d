//! Artifacts: what left a thread's prompts, and how to read it back.

use axum::Json;
use axum::extract::State;
use epitome::budget::Tokens;
use epitome_runtime::artifact::{Content, ExcerptLimit as ContentLimit};
use epitome_runtime::ids::Moment;
use epitome_runtime::log::ArtifactHint;
use epitome_runtime::store::ArtifactRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{ApiCaller, NumberedPageQuery, Ordinal, PathParams, QueryParams};
use super::{Api, ApiError};

/// The most tokens of one answer.
const TOKENS_MAX: u64 = 1_000_000;

/// The metadata of an artifact.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Artifact {
    /// Its id.
    id: String,
    /// The thread it came from first.
    thread: String,
    /// When it was stored.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// When it expires.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    /// Its sensitivity.
    sensitivity: String,
    /// The size of its content.
    bytes: u64,
    /// The tokens of its content.
    tokens: u64,
}

impl Artifact {
    fn of(row: &ArtifactRow) -> Artifact {
        Artifact {
            id: row.id.clone(),
            thread: row.thread.to_string(),
            at: row.at.to_string(),
            expires: row.expires.map(|expires| expires.to_string()),
            sensitivity: row.sensitivity.name().to_owned(),
            bytes: row.bytes,
            tokens: row.tokens,
        }
    }
}

/// An artifact of a thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ThreadArtifact {
    /// Its id.
    id: String,
    /// The number of the message it came from.
    number: u64,
    /// When to read it again, in words.
    hint: String,
    /// The names that a question may use for it: paths, commands, addresses.
    names: Vec<String>,
    /// Its metadata; absent if it has expired or the caller may not read it.
    artifact: Option<Artifact>,
}

/// Artifacts of a thread, and where the next ones are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ThreadArtifacts {
    /// The artifacts, oldest first.
    artifacts: Vec<ThreadArtifact>,
    /// The value of `after` for the next page; absent at the end.
    next: Option<u64>,
}

/// A line that holds what was looked for.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FoundLine {
    /// Its number, from 1.
    line: usize,
    /// The line, or the part of a long one that is around what was found.
    text: String,
}

/// An artifact with its content.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ArtifactContent {
    /// Its metadata.
    #[serde(flatten)]
    artifact: Artifact,
    /// The number of its lines.
    lines: usize,
    /// The first line of the text, from 1.
    from: usize,
    /// The last line of the text.
    to: usize,
    /// True if the text is all that was asked for.
    complete: bool,
    /// The content, or the lines that were asked for; nothing when something was looked for.
    text: Option<String>,
    /// The lines that hold what was looked for.
    found: Option<Vec<FoundLine>>,
}

/// The part of an artifact.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartQuery {
    from: Option<Ordinal>,
    to: Option<Ordinal>,
    grep: Option<String>,
}

pub(super) async fn list(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<NumberedPageQuery>,
) -> Result<Json<ThreadArtifacts>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let plan = if row.version == 0 { None } else { api.log().plan(&row.key, None).await? };
    let hints = plan.map(|(_, stored)| stored.hints).unwrap_or_default();
    let start = usize::try_from(asked.after()).unwrap_or(usize::MAX).min(hints.len());
    let end = start.saturating_add(asked.limit()).min(hints.len());
    let mut artifacts = Vec::new();
    for hint in &hints[start..end] {
        let known = api.engine().artifacts().metadata(&access, &hint.id).await;
        let known = match known {
            Err(denied) if denied.is_passing() => return Err(denied.into()),
            known => known.ok(),
        };
        artifacts.push(view(hint, known.as_ref()));
    }
    Ok(Json(ThreadArtifacts { artifacts, next: (end < hints.len()).then_some(end as u64) }))
}

fn view(hint: &ArtifactHint, row: Option<&ArtifactRow>) -> ThreadArtifact {
    ThreadArtifact {
        id: hint.id.clone(),
        number: hint.place + 1,
        hint: hint.hint.clone(),
        names: hint.names.clone(),
        artifact: row.map(Artifact::of),
    }
}

pub(super) async fn read(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(id): PathParams<String>,
    QueryParams(asked): QueryParams<PartQuery>,
) -> Result<Json<ArtifactContent>, ApiError> {
    let content = api.engine().artifacts().read(&access, &id, Moment::now()).await?;
    let limit = ContentLimit { counter: &**api.engine().counter(), max: Tokens::new(TOKENS_MAX) };
    Ok(Json(part(&content, &asked, limit)))
}

fn part(content: &Content, asked: &PartQuery, limit: ContentLimit<'_>) -> ArtifactContent {
    let (artifact, lines) = (Artifact::of(content.metadata()), content.line_count());
    let (from, to) = (asked.from.map_or(1, Ordinal::count), asked.to.map_or(lines, Ordinal::count));
    match &asked.grep {
        Some(words) => {
            let hits = content.grep(words, limit);
            let complete = hits.shown.len() == hits.total;
            let within = hits.shown.into_iter().filter(|hit| (from..=to).contains(&hit.line));
            let found = within.map(|hit| FoundLine { line: hit.line, text: hit.text }).collect();
            ArtifactContent { artifact, lines, from, to, complete, text: None, found: Some(found) }
        }
        None => {
            let excerpt = content.lines(from..=to, limit);
            let (from, to) = (*excerpt.lines.start(), (*excerpt.lines.end()).min(lines));
            let (complete, text) = (excerpt.is_whole, Some(excerpt.text));
            ArtifactContent { artifact, lines, from, to, complete, text, found: None }
        }
    }
}
