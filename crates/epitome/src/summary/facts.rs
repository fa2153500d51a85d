//! Facts: everything that extraction took from a thread, one by one, for people and programs to look at.
//!
//! The same extraction feeds summaries. What is listed here is what a summary may draw on; what is missing here, no summary without a
//! model can hold.

use serde::{Deserialize, Serialize};

use super::extract::{extract, first_line};
use super::speech::{approval, constraints, corrections};
use super::structured::{CommandEnding, PlanItem, RequestContext, RequestState, StructuredSummary, UserRequest};
use crate::policy::Tools;
use crate::thread::Thread;

/// A fact, with the message that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its kind.
    pub kind: FactKind,
    /// The exact words.
    pub quote: String,
    /// The message, such as `m41`.
    pub message: String,
    /// Its status.
    pub status: FactStatus,
    /// What the words answer or reject, where they do not say so themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactKind {
    /// Words of the user.
    Request,
    /// A sentence of the user that binds.
    Constraint,
    /// A sentence of the user that corrects what was said or done.
    Correction,
    /// A short answer of the user that approves, declines or chooses.
    Approval,
    /// A decision of the agent.
    Decision,
    /// An entry of the agent's task list.
    Task,
    /// A file, with what was done to it last.
    File,
    /// A command.
    Command,
    /// An error.
    Error,
    /// A number with its name, or an id.
    Value,
    /// The state of the work: tests, builds, commits.
    State,
}

impl FactKind {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [FactKind; 11] = [
        FactKind::Request,
        FactKind::Constraint,
        FactKind::Correction,
        FactKind::Approval,
        FactKind::Decision,
        FactKind::Task,
        FactKind::State,
        FactKind::File,
        FactKind::Command,
        FactKind::Error,
        FactKind::Value,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            FactKind::Request => "request",
            FactKind::Constraint => "constraint",
            FactKind::Correction => "correction",
            FactKind::Approval => "approval",
            FactKind::Decision => "decision",
            FactKind::Task => "task",
            FactKind::File => "file",
            FactKind::Command => "command",
            FactKind::Error => "error",
            FactKind::Value => "value",
            FactKind::State => "state",
        }
    }
}

/// The status of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactStatus {
    /// It holds.
    Standing,
    /// It is not done, or not fixed.
    Open,
    /// The agent finished its turn on it.
    Answered,
    /// The user took it back later.
    Superseded,
    /// It is done.
    Done,
    /// It was fixed later.
    Fixed,
    /// It ended well.
    Succeeded,
    /// It failed.
    Failed,
    /// It still runs in the background.
    Running,
    /// Nothing tells how it ended.
    Unknown,
    /// The file was written.
    Written,
    /// The file was edited.
    Edited,
    /// The file was read.
    Read,
}

impl FactStatus {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            FactStatus::Standing => "standing",
            FactStatus::Open => "open",
            FactStatus::Answered => "answered",
            FactStatus::Superseded => "superseded",
            FactStatus::Done => "done",
            FactStatus::Fixed => "fixed",
            FactStatus::Succeeded => "succeeded",
            FactStatus::Failed => "failed",
            FactStatus::Running => "running",
            FactStatus::Unknown => "unknown",
            FactStatus::Written => "written",
            FactStatus::Edited => "edited",
            FactStatus::Read => "read",
        }
    }
}

/// Returns the facts of a thread's messages, kind by kind and oldest first.
pub fn facts(thread: &Thread, tools: &Tools) -> Vec<Fact> {
    let items = extract(thread, 0..thread.len(), tools);
    // What another harness retold is in the log, and no exact quote of anybody.
    let said: Vec<&UserRequest> =
        items.requests.iter().filter(|request| request.context != Some(RequestContext::Retold)).collect();
    let mut facts: Vec<Fact> = said.iter().map(|request| request_fact(request)).collect();
    let standing = items.constraints.iter();
    facts.extend(standing.map(|quote| fact(FactKind::Constraint, &quote.text, quote.place, FactStatus::Standing)));
    for request in said.iter().filter(|request| request.state == RequestState::Superseded) {
        let gone = constraints(&request.text).filter(|text| items.constraints.iter().all(|quote| quote.text != *text));
        facts.extend(gone.map(|text| fact(FactKind::Constraint, text, request.place, FactStatus::Superseded)));
    }
    // The first words of a thread can neither correct nor approve anything.
    for request in said.iter().skip(1) {
        let marked = corrections(&request.text).map(|sentence| (FactKind::Correction, sentence));
        let marked = marked.chain(approval(&request.text).map(|sentence| (FactKind::Approval, sentence)));
        facts.extend(marked.map(|(kind, words)| fact(kind, words, request.place, FactStatus::Standing)));
    }
    add_work(&mut facts, &items);
    facts.sort_by_key(|fact| fact.kind);
    facts
}

/// Adds what was done: decisions, tasks, state, files, commands, errors and values.
fn add_work(facts: &mut Vec<Fact>, items: &StructuredSummary) {
    let decisions = items.decisions.iter();
    facts.extend(decisions.map(|own| fact(FactKind::Decision, &own.decision, own.place, FactStatus::Standing)));
    facts.extend(items.current_plan.iter().map(|item| fact(FactKind::Task, &item.text, item.place, task_status(item))));
    facts.extend(items.state.iter().map(|line| fact(FactKind::State, &line.text(), line.place, FactStatus::Standing)));
    facts.extend(items.files.iter().map(|file| {
        let status = match file.last_action() {
            "written" => FactStatus::Written,
            "edited" => FactStatus::Edited,
            _ => FactStatus::Read,
        };
        fact(FactKind::File, &file.path, file.last_touched(), status)
    }));
    facts.extend(items.commands.iter().map(|command| {
        let status = match command.ending {
            _ if command.failed => FactStatus::Failed,
            CommandEnding::Failed => FactStatus::Failed,
            CommandEnding::Succeeded => FactStatus::Succeeded,
            CommandEnding::Running => FactStatus::Running,
            CommandEnding::Unknown => FactStatus::Unknown,
        };
        fact(FactKind::Command, first_line(&command.command), command.place, status)
    }));
    facts.extend(items.errors.iter().map(|error| {
        let status = if error.fixed.is_some() { FactStatus::Fixed } else { FactStatus::Open };
        let about = Some(error.about.clone()).filter(|about| !about.is_empty());
        Fact { about, ..fact(FactKind::Error, &error.line, error.place, status) }
    }));
    let values = items.values.iter().chain(&items.urls);
    facts.extend(values.map(|value| fact(FactKind::Value, &value.text, value.place, FactStatus::Standing)));
}

fn request_fact(request: &UserRequest) -> Fact {
    let status = match request.state {
        RequestState::Open => FactStatus::Open,
        RequestState::Answered => FactStatus::Answered,
        RequestState::Superseded => FactStatus::Superseded,
    };
    let about = match &request.context {
        Some(RequestContext::Answers(question)) => Some(question.clone()),
        Some(RequestContext::LeavesOpen(question)) => Some(format!("leaves open: {question}")),
        Some(RequestContext::Rejects(call)) => Some(format!("rejects {call}")),
        Some(RequestContext::Retold) | None => None,
    };
    Fact { about, ..fact(FactKind::Request, &request.text, request.place, status) }
}

fn task_status(item: &PlanItem) -> FactStatus {
    if item.is_done() { FactStatus::Done } else { FactStatus::Open }
}

fn fact(kind: FactKind, quote: &str, place: usize, status: FactStatus) -> Fact {
    Fact { kind, quote: quote.to_owned(), message: format!("m{}", place + 1), status, about: None }
}
