//! Work: what makes a real agent run tools turn after turn.
//!
//! Each key has one job. A turn with tools answers the next calls of it; the same body again gets the same answer, so a
//! retry is no progress. Requests without a tool that can be run (titles, summaries) get text and cost no turn.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::asked::{Asked, Seed};
use super::offered::Offered;
use super::reply::{Call, CallKind, Part, Reply, Stop};
use super::settings::Work;

/// The jobs of all keys.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: HashMap<String, Job>,
}

#[derive(Default)]
struct Job {
    turn: u64,
    told: bool,
    after_gateway: bool,
    given: HashMap<Seed, Step>,
}

/// What a request of a job is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The calls of a turn.
    Calls(u64),
    /// One of the gateway's own tools.
    Gateway(u64),
    /// The end.
    Done,
    /// There is nothing left to do.
    Idle,
}

impl Jobs {
    /// The answer of a job; nothing if there is none.
    pub(crate) fn answer(&mut self, asked: &Asked, work: &Work) -> Option<Reply> {
        if work.turns == 0 {
            return None;
        }
        let tools = Offered::all(asked);
        if !tools.iter().any(|tool| tool.runs() || tool.reads()) {
            return None;
        }
        let job = self.jobs.entry(asked.key.clone()).or_default();
        let step = job.step(asked, work, has_gateway_tools(&tools));
        match step {
            Step::Calls(turn) => Some(calls(asked, work, &tools, turn)),
            Step::Gateway(turn) => Some(gateway_call(asked, &tools, turn)),
            Step::Done => Some(Reply::text(format!("WORK DONE after {} calls", work.turns))),
            Step::Idle => None,
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }

    /// How many turns of a key's job were answered.
    pub(crate) fn turns(&self, key: &str) -> u64 {
        self.jobs.get(key).map_or(0, |job| job.turn)
    }
}

impl Job {
    fn step(&mut self, asked: &Asked, work: &Work, gateway: bool) -> Step {
        if let Some(step) = self.given.get(&asked.seed) {
            return *step;
        }
        let step = self.next(work, gateway);
        if step != Step::Idle {
            self.given.insert(asked.seed, step);
        }
        step
    }

    fn next(&mut self, work: &Work, gateway: bool) -> Step {
        let asks_gateway = work.gateway_tools && gateway && !self.after_gateway && self.turn % 4 == 3;
        if asks_gateway {
            self.after_gateway = true;
            return Step::Gateway(self.turn);
        }
        if self.turn < work.turns {
            self.turn += 1;
            self.after_gateway = false;
            return Step::Calls(self.turn);
        }
        if self.told {
            return Step::Idle;
        }
        self.told = true;
        Step::Done
    }
}

/// Every third turn makes two calls at once.
fn calls_of(turn: u64) -> u64 {
    if turn.is_multiple_of(3) { 2 } else { 1 }
}

fn calls(asked: &Asked, work: &Work, tools: &[Offered], turn: u64) -> Reply {
    let single = asked.field("parallel_tool_calls") == Some(&Value::Bool(false))
        || asked.body.pointer("/tool_choice/disable_parallel_tool_use") == Some(&Value::Bool(true));
    let count = if single { 1 } else { calls_of(turn) };
    let mut parts = vec![Part::Text(format!("Step {turn} of {}.", work.turns))];
    for at in 0..count {
        parts.extend(call(asked, work, tools, turn, at).map(Part::Call));
    }
    Reply { parts, stop: Stop::Tools }
}

fn call(asked: &Asked, work: &Work, tools: &[Offered], turn: u64, at: u64) -> Option<Call> {
    let (tool, input) = match tools.iter().find(|tool| tool.runs()) {
        Some(runner) => (runner, runner.running(&command(turn, at, work.bytes))),
        None => {
            let reader = tools.iter().find(|tool| tool.reads())?;
            let file = work.file.as_ref().map_or_else(|| "README.md".into(), |file| file.display().to_string());
            (reader, reader.reading(&file))
        }
    };
    Some(Call { id: call_id(asked, at as usize), name: tool.name.clone(), input, kind: tool.kind })
}

/// An id of the kind that the provider gives.
pub(crate) fn call_id(asked: &Asked, at: usize) -> String {
    use super::endpoint::Protocol;
    match asked.protocol() {
        Protocol::Anthropic => asked.seed.id("toolu_01", at, 22),
        Protocol::Chat if asked.model().contains("stral") => asked.seed.id("", at, 9),
        Protocol::Chat | Protocol::Responses => asked.seed.id("call_", at, 24),
        Protocol::Gemini => asked.seed.id("", at, 8),
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

fn has_gateway_tools(tools: &[Offered]) -> bool {
    tools.iter().any(|tool| GATEWAY_TOOLS.contains(&tool.name.as_str()))
}

/// A call of one of the gateway's own tools: an artifact that the prompt names, or a search.
fn gateway_call(asked: &Asked, tools: &[Offered], turn: u64) -> Reply {
    let named = |name: &str| tools.iter().find(|tool| tool.name == name);
    let artifact = named_artifact(&asked.body.to_string());
    let (tool, values) = match (named("read_artifact"), artifact, named("recall")) {
        (Some(tool), Some(id), _) => (tool, json!({"id": id})),
        (_, _, Some(tool)) => (tool, json!({"query": format!("step {turn} line")})),
        (Some(tool), None, None) => (tool, json!({"id": "0000000000000000"})),
        (None, _, None) => return Reply::text("There is nothing to look up."),
    };
    let values: Map<String, Value> = values.as_object().cloned().unwrap_or_default();
    let call =
        Call { id: call_id(asked, 0), name: tool.name.clone(), input: tool.filled(values), kind: CallKind::Function };
    Reply { parts: vec![Part::Call(call)], stop: Stop::Tools }
}

/// The last artifact that a prompt names.
fn named_artifact(prompt: &str) -> Option<String> {
    let ids = prompt.match_indices("artifact:").map(|(at, word)| {
        let rest = &prompt[at + word.len()..];
        rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>()
    });
    ids.filter(|id| id.len() >= 8).last()
}
