//! Work: what makes a real agent run tools turn after turn.
//!
//! Each key has one job. A turn with tools answers the next calls of it; the same body again gets the same answer, so a
//! retry is no progress. Requests without a tool that can be run (titles, summaries) get text and cost no turn.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::reply::{CallKind, ModelReply, ReplyCall, ReplyPart, StopReason};
use super::request::{AnswerSeed, MockRequest};
use super::settings::MockWork;
use super::tools::OfferedTool;

/// The jobs of all keys.
#[derive(Default)]
pub(crate) struct AgentJobs {
    jobs: HashMap<String, AgentJob>,
}

#[derive(Default)]
struct AgentJob {
    turn: u64,
    announced_end: bool,
    after_gateway: bool,
    given: HashMap<AnswerSeed, JobStep>,
}

/// The answer to one request of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobStep {
    /// The calls of a turn.
    Calls(u64),
    /// One of the gateway's own tools.
    Gateway(u64),
    /// The end.
    Done,
    /// There is nothing left to do.
    Idle,
}

impl AgentJobs {
    /// Returns the job's next answer; `None` if the request offers no tool or the job is done.
    pub(crate) fn answer(&mut self, request: &MockRequest, work: &MockWork) -> Option<ModelReply> {
        if work.turns == 0 {
            return None;
        }
        let tools = OfferedTool::all(request);
        if !tools.iter().any(|tool| tool.runs() || tool.reads()) {
            return None;
        }
        let job = self.jobs.entry(request.key.clone()).or_default();
        let step = job.step(request, work, has_gateway_tools(&tools));
        match step {
            JobStep::Calls(turn) => Some(calls(request, work, &tools, turn)),
            JobStep::Gateway(turn) => Some(gateway_call(request, &tools, turn)),
            JobStep::Done => Some(ModelReply::text(format!("WORK DONE after {} calls", work.turns))),
            JobStep::Idle => None,
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }

    /// Returns the number of turns of a key's job that were answered.
    pub(crate) fn turns(&self, key: &str) -> u64 {
        self.jobs.get(key).map_or(0, |job| job.turn)
    }
}

impl AgentJob {
    fn step(&mut self, request: &MockRequest, work: &MockWork, gateway: bool) -> JobStep {
        if let Some(step) = self.given.get(&request.seed) {
            return *step;
        }
        let step = self.next(work, gateway);
        if step != JobStep::Idle {
            self.given.insert(request.seed, step);
        }
        step
    }

    fn next(&mut self, work: &MockWork, gateway: bool) -> JobStep {
        let asks_gateway = work.gateway_tools && gateway && !self.after_gateway && self.turn % 4 == 3;
        if asks_gateway {
            self.after_gateway = true;
            return JobStep::Gateway(self.turn);
        }
        if self.turn < work.turns {
            self.turn += 1;
            self.after_gateway = false;
            return JobStep::Calls(self.turn);
        }
        if self.announced_end {
            return JobStep::Idle;
        }
        self.announced_end = true;
        JobStep::Done
    }
}

/// Every third turn makes two calls at once.
fn calls_of(turn: u64) -> u64 {
    if turn.is_multiple_of(3) { 2 } else { 1 }
}

fn calls(request: &MockRequest, work: &MockWork, tools: &[OfferedTool], turn: u64) -> ModelReply {
    let single = request.field("parallel_tool_calls") == Some(&Value::Bool(false))
        || request.body.pointer("/tool_choice/disable_parallel_tool_use") == Some(&Value::Bool(true));
    let count = if single { 1 } else { calls_of(turn) };
    let mut parts = vec![ReplyPart::Text(format!("Step {turn} of {}.", work.turns))];
    for at in 0..count {
        parts.extend(call(request, work, tools, turn, at).map(ReplyPart::Call));
    }
    ModelReply { parts, stop: StopReason::Tools }
}

fn call(request: &MockRequest, work: &MockWork, tools: &[OfferedTool], turn: u64, at: u64) -> Option<ReplyCall> {
    let (tool, input) = match tools.iter().find(|tool| tool.runs()) {
        Some(runner) => (runner, runner.running(&command(turn, at, work.bytes))),
        None => {
            let reader = tools.iter().find(|tool| tool.reads())?;
            let file = work.file.as_ref().map_or_else(|| "README.md".into(), |file| file.display().to_string());
            (reader, reader.reading(&file))
        }
    };
    Some(ReplyCall { id: call_id(request, at as usize), name: tool.name.clone(), input, kind: tool.kind })
}

/// An id of the kind that the provider gives.
pub(crate) fn call_id(request: &MockRequest, at: usize) -> String {
    use super::endpoint::ProviderProtocol;
    match request.protocol() {
        ProviderProtocol::Anthropic => request.seed.id("toolu_01", at, 22),
        ProviderProtocol::Chat if request.model().contains("stral") => request.seed.id("", at, 9),
        ProviderProtocol::Chat | ProviderProtocol::Responses => request.seed.id("call_", at, 24),
        ProviderProtocol::Gemini => request.seed.id("", at, 8),
    }
}

/// A command with about so many bytes of output, another one each time.
fn command(turn: u64, at: u64, bytes: usize) -> String {
    let first = 10_000 + (turn * 2 + at) * 1_000;
    match (turn + at) % 3 {
        0 => format!("seq {first} {}", first + (bytes as u64 / 6).max(1)),
        1 => format!("seq -f 'step {turn} line %g of the build log' {first} {}", first + (bytes as u64 / 33).max(1)),
        _ => format!("seq -f 'src/module_%g.rs: ok ({turn}.{at})' {first} {}", first + (bytes as u64 / 31).max(1)),
    }
}

const GATEWAY_TOOLS: [&str; 2] = ["read_artifact", "recall"];

fn has_gateway_tools(tools: &[OfferedTool]) -> bool {
    tools.iter().any(|tool| GATEWAY_TOOLS.contains(&tool.name.as_str()))
}

/// A call of one of the gateway's own tools: an artifact that the prompt names, or a search.
fn gateway_call(request: &MockRequest, tools: &[OfferedTool], turn: u64) -> ModelReply {
    let named = |name: &str| tools.iter().find(|tool| tool.name == name);
    let artifact = named_artifact(&request.body.to_string());
    let (tool, values) = match (named("read_artifact"), artifact, named("recall")) {
        (Some(tool), Some(id), _) => (tool, json!({"id": id})),
        (_, _, Some(tool)) => (tool, json!({"query": format!("step {turn} line")})),
        (Some(tool), None, None) => (tool, json!({"id": "0000000000000000"})),
        (None, _, None) => return ModelReply::text("There is nothing to look up."),
    };
    let values: Map<String, Value> = values.as_object().cloned().unwrap_or_default();
    let call = ReplyCall {
        id: call_id(request, 0),
        name: tool.name.clone(),
        input: tool.filled(values),
        kind: CallKind::Function,
    };
    ModelReply { parts: vec![ReplyPart::Call(call)], stop: StopReason::Tools }
}

/// The last artifact that a prompt names.
fn named_artifact(prompt: &str) -> Option<String> {
    let ids = prompt.match_indices("artifact:").map(|(at, word)| {
        let rest = &prompt[at + word.len()..];
        rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>()
    });
    ids.filter(|id| id.len() >= 8).last()
}
