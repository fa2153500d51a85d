//! Reading back: what left a thread's prompts, by search or by name. The parameters are those of the tools `recall` and
//! `read_artifact`, and so are their answers as text.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use epitome::budget::Tokens;
use epitome_runtime::recall::{LeftOut as RecallLeftOut, LeftOutReason, RecallHit, SearchByMeaning};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::extract::{ApiCaller, PathParams, QueryParams};
use super::{Api, ApiError};
use crate::tools::{Call, OpenedThread, READ_ARTIFACT, RECALL, Tool, read};

/// The most tokens of one answer.
const TOKENS_MAX: Tokens = Tokens::new(1_000_000);

/// Lines of a file that are not in it any more.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Outdated {
    /// The first line.
    from: u32,
    /// The last line.
    to: u32,
    /// The message since which they are not in the file.
    by: String,
}

/// A passage that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Hit {
    /// Its message, such as m41.
    reference: String,
    /// Who said it: user, assistant, tool or other.
    role: String,
    /// The tool that was called or answered.
    tool: Option<String>,
    /// The file that it shows, changes or names.
    file: Option<String>,
    /// True if it is the result of a call that failed.
    failed: bool,
    /// The function, type or section that it belongs to, unless that is among its lines.
    home: Option<String>,
    /// The first of its lines.
    from: u32,
    /// The last of its lines.
    to: u32,
    /// Its lines.
    text: String,
    /// Those of its lines that are not in the file any more.
    outdated: Vec<Outdated>,
}

/// The reasons for which a passage is not shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum NotShown {
    /// There was no room for it.
    NoRoom,
    /// Its lines stand in the prompt.
    InPrompt,
    /// A passage that is shown has the same lines.
    Repeated,
}

/// A passage that was found and is not shown.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LeftOut {
    /// Its message, such as m41.
    reference: String,
    /// Who said it: user, assistant, tool or other.
    role: String,
    /// The line that was found.
    line: String,
    /// Why it is not shown.
    reason: NotShown,
}

/// What became of the search by meaning.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ByMeaning {
    /// There was none: no embedding endpoint is configured, or there was no word to search for.
    Off,
    /// All passages were compared.
    Done,
    /// Some passages were not compared, because they have no vector yet or are too many; they were searched by words alone.
    Partly,
    /// The endpoint gave no vector of the words; all passages were searched by words alone.
    Failed,
}

/// The result of a search.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Recalled {
    /// The thread.
    thread: String,
    /// The passages, in the order in which they are worth reading.
    hits: Vec<Hit>,
    /// The number of passages that are not shown.
    left_out: usize,
    /// The first of those.
    others: Vec<LeftOut>,
    /// What became of the search by meaning, beside that by words.
    by_meaning: ByMeaning,
    /// The result as a model reads it.
    text: String,
}

/// Content that was read back.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReadBack {
    /// The thread.
    thread: String,
    /// What was read: an artifact, messages or a file.
    name: String,
    /// The content as a model reads it, under a line that says what it is.
    text: String,
}

pub(super) async fn recall(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<Vec<(String, String)>>,
) -> Result<Json<Recalled>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let Call::Recall(request) = call(&RECALL, &asked)? else { return Err(ApiError::NoRoute) };
    let mut opened = OpenedThread::load(api.engine(), &access, row.key.thread).await?;
    let found = opened.reader().recall(&request).await?;
    Ok(Json(Recalled {
        thread: name,
        text: found.render(),
        left_out: found.left_out,
        by_meaning: by_meaning(found.by_meaning),
        hits: found.hits.into_iter().map(hit).collect(),
        others: found.others.into_iter().map(left_out).collect(),
    }))
}

pub(super) async fn show(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<Vec<(String, String)>>,
) -> Result<Json<ReadBack>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let Call::ReadArtifact(request) = call(&READ_ARTIFACT, &asked)? else { return Err(ApiError::NoRoute) };
    let mut opened = OpenedThread::load(api.engine(), &access, row.key.thread).await?;
    let outcome = read(api.engine(), &mut opened.reader(), TOKENS_MAX, &request).await?;
    if outcome.is_error {
        return Err(ApiError::Nothing(outcome.text));
    }
    Ok(Json(ReadBack { thread: name, name: request.name(), text: outcome.text }))
}

/// The parameters that are whole numbers.
const NUMBERS: [&str; 6] = ["limit", "from", "to", "context", "byte", "around"];

/// Reads a query as the arguments of a tool.
fn call(tool: &Tool, asked: &[(String, String)]) -> Result<Call, ApiError> {
    let parameters: Value = serde_json::from_str(tool.parameters).unwrap_or_default();
    for (at, (name, value)) in asked.iter().enumerate() {
        if parameters["properties"].get(name).is_none() {
            return Err(ApiError::Query(format!("there is no parameter `{name}`")));
        }
        if asked[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(ApiError::Query(format!("`{name}` is given twice")));
        }
        if NUMBERS.contains(&name.as_str()) && value.parse::<u64>().is_err() {
            return Err(ApiError::Query(format!("`{name}` is no whole number: {value}")));
        }
        if name == "newest" && !["true", "false"].contains(&value.as_str()) {
            return Err(ApiError::Query(format!("`newest` is true or false, and not {value}")));
        }
    }
    let asked: BTreeMap<&str, &str> = asked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Call::parse(tool.name, &json!(asked).to_string()).map_err(|outcome| ApiError::Nothing(outcome.text))
}

fn hit(hit: RecallHit) -> Hit {
    let outdated = hit.outdated.into_iter();
    Hit {
        reference: hit.reference,
        role: hit.role,
        tool: hit.tool,
        file: hit.file,
        failed: hit.failed,
        home: hit.home,
        from: *hit.lines.start(),
        to: *hit.lines.end(),
        text: hit.text,
        outdated: outdated.map(|old| Outdated { from: *old.lines.start(), to: *old.lines.end(), by: old.by }).collect(),
    }
}

fn by_meaning(outcome: SearchByMeaning) -> ByMeaning {
    match outcome {
        SearchByMeaning::Off => ByMeaning::Off,
        SearchByMeaning::Done => ByMeaning::Done,
        SearchByMeaning::Partly => ByMeaning::Partly,
        SearchByMeaning::Failed => ByMeaning::Failed,
    }
}

fn left_out(one: RecallLeftOut) -> LeftOut {
    let reason = match one.reason {
        LeftOutReason::NoRoom => NotShown::NoRoom,
        LeftOutReason::InPrompt => NotShown::InPrompt,
        LeftOutReason::Repeats(_) => NotShown::Repeated,
    };
    LeftOut { reference: one.reference, role: one.role, line: one.line, reason }
}
