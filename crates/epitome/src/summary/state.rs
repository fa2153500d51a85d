//! The workstream state: short lists of what matters now, kept under caps next to a summary.
//!
//! A model that summarizes also answers with a delta, and code merges it. With a cap of three tasks:
//!
//! ```text
//! state                           delta                 merged
//! [open]  T1: port the parser     [done] T1             [doing] fix the build
//! [open]  write the docs          [open] measure it     [open]  measure it
//! [doing] fix the build           [open] release it     [open]  release it
//!
//! 1. T1 is known: the new entry replaces it, takes over its words, and goes to the end. The other two are new.
//! 2. Five entries are two too many. The finished T1 leaves first, then the oldest, "write the docs".
//! ```
//!
//! Entries that a cap pushes out are returned. A delta cannot remove a constraint: it was written by a model that has read tool output,
//! and such a model may not take back what a person demanded.

use serde::{Deserialize, Serialize};

use super::clip::one_line;
use super::constraint::gives_reason;
use super::structured::StructuredSummary;

/// The current state of the work, in short lists.
///
/// The runtime keeps one per thread, under presets with the `workstream` form. It shows it to the model with each request for a
/// summary, merges the deltas of the answer in their order, and stores the result under the version that it read. A merge that
/// lost that race is dropped with its compaction; merging the same delta twice would change nothing but the order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkstreamState {
    /// Decisions, oldest first, as in every list here.
    pub decisions: Vec<KeyDecision>,
    /// Constraints on the work.
    pub constraints: Vec<String>,
    /// Tasks, and those that were finished lately.
    pub tasks: Vec<StateTask>,
    /// Open questions, and those that were answered lately.
    pub questions: Vec<StateQuestion>,
    /// Risks.
    pub risks: Vec<String>,
    /// Things that were made.
    pub artifacts: Vec<MadeArtifact>,
    /// Contributions of several agents.
    pub contributions: Vec<AgentContribution>,
}

/// New and changed entries: lists as in [`WorkstreamState`].
pub type StateDelta = WorkstreamState;

/// A decision that later work rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyDecision {
    /// The decision.
    pub text: String,
    /// The reason.
    pub reason: String,
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateTask {
    /// Its id, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The work.
    pub text: String,
    /// Its status.
    pub status: TaskStatus,
}

/// The status of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Somebody is at it.
    #[serde(alias = "in_progress", alias = "in-progress")]
    Doing,
    /// It waits for something.
    Blocked,
    /// It is finished.
    #[serde(alias = "completed", alias = "complete")]
    Done,
    /// It will not be done.
    #[serde(alias = "cancelled")]
    Dropped,
    /// Nobody has begun, or a word we do not know.
    #[default]
    #[serde(other)]
    Open,
}

impl TaskStatus {
    /// Returns the status that an agent's own word means.
    fn named(word: &str) -> TaskStatus {
        match word {
            "in_progress" | "in-progress" | "doing" => TaskStatus::Doing,
            "blocked" => TaskStatus::Blocked,
            "completed" | "complete" | "done" => TaskStatus::Done,
            "cancelled" | "deleted" | "dropped" => TaskStatus::Dropped,
            _ => TaskStatus::Open,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            TaskStatus::Open => "open",
            TaskStatus::Doing => "doing",
            TaskStatus::Blocked => "blocked",
            TaskStatus::Done => "done",
            TaskStatus::Dropped => "dropped",
        }
    }
}

/// The longest id that is told from words when a state is read back: `#3`, `T1`, `PROJ-142`.
const ID_BYTES_MAX: usize = 16;

impl StateTask {
    /// Parses `[doing] #3: port the parser`.
    fn parse(line: &str) -> Option<StateTask> {
        let (status, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let is_id =
            |id: &str| id.len() <= ID_BYTES_MAX && !id.contains(' ') && id.ends_with(|c: char| c.is_ascii_digit());
        let with_id = rest.split_once(": ").filter(|(id, _)| is_id(id));
        let (id, text) = with_id.map_or((None, rest), |(id, text)| (Some(id.to_owned()), text));
        Some(StateTask { id, text: text.to_owned(), status: TaskStatus::named(status) })
    }
}

/// A question and, once there is one, its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateQuestion {
    /// The question.
    pub text: String,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// A thing that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MadeArtifact {
    /// Its name, path or id.
    pub name: String,
    /// A description.
    pub note: String,
}

/// The work of one of several agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentContribution {
    /// The agent.
    pub agent: String,
    /// The work.
    pub text: String,
}

// The most entries of each list.
const DECISIONS_MAX: usize = 8;
const CONSTRAINTS_MAX: usize = 6;
const TASKS_MAX: usize = 10;
const QUESTIONS_MAX: usize = 5;
const RISKS_MAX: usize = 5;
const ARTIFACTS_MAX: usize = 10;
const CONTRIBUTIONS_MAX: usize = 6;

// The headings of the lists.
const DECISIONS: &str = "Key decisions";
const CONSTRAINTS: &str = "Active constraints";
const TASKS: &str = "Tasks";
const QUESTIONS: &str = "Open questions";
const RISKS: &str = "Risks";
const ARTIFACTS: &str = "Artifacts";
const CONTRIBUTIONS: &str = "Agent contributions";

impl WorkstreamState {
    /// Merges a delta: an entry that says the same as an old one replaces it, and the newest come last. Over a cap, finished
    /// tasks and answered questions leave first, then the oldest entries. Returns the lines of what left.
    #[must_use = "evicted entries are lost unless they are reported"]
    pub fn merge(&mut self, delta: StateDelta) -> Vec<String> {
        let mut evicted = merge(&mut self.decisions, delta.decisions, DECISIONS_MAX);
        evicted.extend(merge(&mut self.constraints, delta.constraints, CONSTRAINTS_MAX));
        evicted.extend(merge(&mut self.tasks, delta.tasks, TASKS_MAX));
        evicted.extend(merge(&mut self.questions, delta.questions, QUESTIONS_MAX));
        evicted.extend(merge(&mut self.risks, delta.risks, RISKS_MAX));
        evicted.extend(merge(&mut self.artifacts, delta.artifacts, ARTIFACTS_MAX));
        evicted.extend(merge(&mut self.contributions, delta.contributions, CONTRIBUTIONS_MAX));
        evicted
    }

    /// Tells whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        *self == WorkstreamState::default()
    }

    /// Renders the state as text: a heading for each list that has entries, an entry to a line.
    pub fn render(&self) -> String {
        let lists = [
            section(DECISIONS, &self.decisions),
            section(CONSTRAINTS, &self.constraints),
            section(TASKS, &self.tasks),
            section(QUESTIONS, &self.questions),
            section(RISKS, &self.risks),
            section(ARTIFACTS, &self.artifacts),
            section(CONTRIBUTIONS, &self.contributions),
        ];
        lists.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Returns what code can tell of the state, without a model: decisions with a reason, constraints, the to-do list, and the
    /// files that were made or changed.
    pub(super) fn of(items: &StructuredSummary) -> StateDelta {
        let decisions = items.decisions.iter().filter(|own| !own.rationale.is_empty() || gives_reason(&own.decision));
        let tasks = items.current_plan.iter().map(|item| {
            let id = item.number().map(str::to_owned);
            let text = id.as_ref().map_or(item.text.as_str(), |id| item.text[id.len()..].trim());
            StateTask { id, text: text.to_owned(), status: TaskStatus::named(&item.state) }
        });
        let made = items.files.iter().filter(|file| file.written.is_some() || file.patched.is_some());
        let note = |place: usize, action: &str| format!("{action}, m{}", place + 1);
        StateDelta {
            decisions: decisions
                .map(|own| KeyDecision { text: own.decision.clone(), reason: own.rationale.clone() })
                .collect(),
            constraints: items.constraints.iter().map(|quote| quote.text.clone()).collect(),
            tasks: tasks.collect(),
            artifacts: made
                .map(|file| MadeArtifact {
                    name: file.path.clone(),
                    note: note(file.last_touched(), file.last_action()),
                })
                .collect(),
            ..StateDelta::default()
        }
    }

    /// Reads back what [`render`](WorkstreamState::render) wrote.
    pub(super) fn parse(text: &str) -> WorkstreamState {
        let mut state = WorkstreamState::default();
        let mut heading = "";
        for line in text.lines() {
            let Some(entry) = line.strip_prefix("- ") else {
                heading = line.trim_end_matches(':');
                continue;
            };
            let (words, note) = entry.strip_suffix(')').and_then(|own| own.rsplit_once(" (")).unwrap_or((entry, ""));
            let (words, note) = (words.to_owned(), note.to_owned());
            match heading {
                DECISIONS => state.decisions.push(KeyDecision { text: words, reason: note }),
                CONSTRAINTS => state.constraints.push(entry.to_owned()),
                TASKS => state.tasks.extend(StateTask::parse(entry)),
                QUESTIONS => {
                    let (text, answer) = entry.split_once(" → ").map_or((entry, None), |(text, own)| (text, Some(own)));
                    state.questions.push(StateQuestion { text: text.to_owned(), answer: answer.map(str::to_owned) });
                }
                RISKS => state.risks.push(entry.to_owned()),
                ARTIFACTS => state.artifacts.push(MadeArtifact { name: words, note }),
                CONTRIBUTIONS => {
                    let (agent, text) = entry.split_once(": ").unwrap_or(("", entry));
                    state.contributions.push(AgentContribution { agent: agent.to_owned(), text: text.to_owned() });
                }
                _ => {}
            }
        }
        state
    }

    /// Removes the entries whose text `allows` rejects, and returns their texts.
    pub(super) fn retain(&mut self, allows: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut removed = retain(&mut self.decisions, allows);
        removed.extend(retain(&mut self.constraints, allows));
        removed.extend(retain(&mut self.tasks, allows));
        removed.extend(retain(&mut self.questions, allows));
        removed.extend(retain(&mut self.risks, allows));
        removed.extend(retain(&mut self.artifacts, allows));
        removed.extend(retain(&mut self.contributions, allows));
        removed
    }
}

/// An entry of any list.
trait StateEntry {
    /// Tells whether two entries are about the same thing.
    fn is_same(&self, other: &Self) -> bool;

    /// Renders the entry.
    fn line(&self) -> String;

    /// Takes over from an older entry what the newer one leaves out.
    fn inherit(&mut self, _older: Self)
    where
        Self: Sized,
    {
    }

    /// Finished tasks and answered questions are closed: they leave before others.
    fn is_closed(&self) -> bool {
        false
    }
}

fn merge<T: StateEntry>(old: &mut Vec<T>, new: Vec<T>, max: usize) -> Vec<String> {
    for mut entry in new.into_iter().filter(|entry| !entry.line().trim().is_empty()) {
        if let Some(at) = old.iter().position(|other| other.is_same(&entry)) {
            entry.inherit(old.remove(at));
        }
        old.push(entry);
    }
    let mut evicted = Vec::new();
    while old.len() > max {
        let at = old.iter().position(StateEntry::is_closed).unwrap_or(0);
        evicted.push(old.remove(at).line());
    }
    evicted
}

fn section<T: StateEntry>(heading: &str, list: &[T]) -> Option<String> {
    let lines: Vec<String> = list.iter().map(|entry| format!("- {}", one_line(&entry.line(), usize::MAX))).collect();
    (!lines.is_empty()).then(|| format!("{heading}:\n{}\n", lines.join("\n")))
}

fn retain<T: StateEntry>(list: &mut Vec<T>, allows: &dyn Fn(&str) -> bool) -> Vec<String> {
    list.extract_if(.., |entry| !allows(&entry.line())).map(|entry| entry.line()).collect()
}

/// Normalizes a text for comparison: letters and digits of any script in lower case; signs only where there is nothing else.
fn normalize(text: &str) -> String {
    let letters: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if letters.is_empty() { text.trim().to_owned() } else { letters }
}

fn same(one: &str, other: &str) -> bool {
    normalize(one) == normalize(other)
}

fn with_note(text: &str, note: &str) -> String {
    if note.trim().is_empty() { text.to_owned() } else { format!("{text} ({note})") }
}

impl StateEntry for String {
    fn is_same(&self, other: &Self) -> bool {
        same(self, other)
    }

    fn line(&self) -> String {
        self.clone()
    }
}

impl StateEntry for KeyDecision {
    fn is_same(&self, other: &Self) -> bool {
        same(&self.text, &other.text)
    }

    fn line(&self) -> String {
        with_note(&self.text, &self.reason)
    }

    fn inherit(&mut self, older: Self) {
        if self.reason.trim().is_empty() {
            self.reason = older.reason;
        }
    }
}

impl StateEntry for StateTask {
    fn is_same(&self, other: &Self) -> bool {
        match (&self.id, &other.id) {
            (Some(one), Some(other)) => one == other,
            _ => same(&self.text, &other.text),
        }
    }

    fn line(&self) -> String {
        match (self.id.as_deref(), self.text.trim()) {
            (None, "") => String::new(),
            (id, text) => {
                format!("[{}] {}{text}", self.status.name(), id.map(|id| format!("{id}: ")).unwrap_or_default())
            }
        }
    }

    fn inherit(&mut self, older: Self) {
        self.id = self.id.take().or(older.id);
        if self.text.trim().is_empty() {
            self.text = older.text;
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.status, TaskStatus::Done | TaskStatus::Dropped)
    }
}

impl StateEntry for StateQuestion {
    fn is_same(&self, other: &Self) -> bool {
        same(&self.text, &other.text)
    }

    fn line(&self) -> String {
        match &self.answer {
            Some(answer) => format!("{} → {answer}", self.text),
            None => self.text.clone(),
        }
    }

    fn inherit(&mut self, older: Self) {
        self.answer = self.answer.take().or(older.answer);
    }

    fn is_closed(&self) -> bool {
        self.answer.is_some()
    }
}

impl StateEntry for MadeArtifact {
    fn is_same(&self, other: &Self) -> bool {
        self.name.trim() == other.name.trim()
    }

    fn line(&self) -> String {
        with_note(&self.name, &self.note)
    }

    fn inherit(&mut self, older: Self) {
        if self.note.trim().is_empty() {
            self.note = older.note;
        }
    }
}

impl StateEntry for AgentContribution {
    fn is_same(&self, other: &Self) -> bool {
        same(&self.agent, &other.agent) && same(&self.text, &other.text)
    }

    fn line(&self) -> String {
        if self.text.trim().is_empty() { String::new() } else { format!("{}: {}", self.agent, self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::{StateDelta, StateQuestion, StateTask, TaskStatus, WorkstreamState};

    fn task(id: &str, text: &str, status: TaskStatus) -> StateTask {
        StateTask { id: (!id.is_empty()).then(|| id.into()), text: text.into(), status }
    }

    fn tasks(list: Vec<StateTask>) -> StateDelta {
        StateDelta { tasks: list, ..StateDelta::default() }
    }

    #[test]
    fn the_same_thing_said_again_is_one_entry_and_the_newest_wins() {
        let mut state = WorkstreamState::default();
        let first = tasks(vec![task("", "Écrire les tests", TaskStatus::Open), task("T1", "部署", TaskStatus::Open)]);
        let again = tasks(vec![task("T1", "", TaskStatus::Doing), task("", "écrire  les tests!", TaskStatus::Done)]);
        assert!(state.merge(first).is_empty() && state.merge(again).is_empty());
        assert_eq!(state.render(), "Tasks:\n- [doing] T1: 部署\n- [done] écrire les tests!\n");
    }

    #[test]
    fn finished_tasks_and_answered_questions_leave_before_open_ones() {
        let mut state = WorkstreamState::default();
        let mut list: Vec<StateTask> = (0..10).map(|n| task("", &format!("task {n}"), TaskStatus::Open)).collect();
        list[4].status = TaskStatus::Done;
        assert!(state.merge(tasks(list)).is_empty());
        let more = tasks(vec![task("", "new 1", TaskStatus::Open), task("", "new 2", TaskStatus::Open)]);
        assert_eq!(state.merge(more), ["[done] task 4", "[open] task 0"]);
        let question = |n: usize| StateQuestion { text: format!("why {n}?"), answer: (n == 2).then(|| "so".into()) };
        let questions = StateDelta { questions: (0..6).map(question).collect(), ..StateDelta::default() };
        assert_eq!(state.merge(questions), ["why 2? → so"]);
    }

    #[test]
    fn no_list_outgrows_its_cap_and_nothing_leaves_unreported() {
        let mut state = WorkstreamState::default();
        let texts = |name: &str| (0..20).map(|n| format!("{name} {n}")).collect::<Vec<_>>();
        let delta = StateDelta { constraints: texts("規則"), risks: texts("risk"), ..StateDelta::default() };
        let gone = state.merge(delta);
        assert_eq!((state.constraints.len(), state.risks.len(), gone.len()), (6, 5, 14 + 15));
        assert_eq!(gone.iter().filter(|line| line.starts_with("規則")).count(), 14);
        assert_eq!(state.constraints[0], "規則 14");
    }

    #[test]
    fn a_delta_with_nothing_in_it_changes_nothing() {
        let mut state = WorkstreamState { constraints: vec!["No network.".into()], ..WorkstreamState::default() };
        let before = state.clone();
        let empty: StateDelta =
            serde_json::from_str(r#"{"constraints":[" "],"tasks":[{"status":"done"}],"unheard":1}"#).unwrap();
        assert!(state.merge(empty).is_empty());
        assert_eq!(state, before);
    }

    #[test]
    fn a_rendered_state_is_read_back() {
        let json = r##"{"decisions":[{"text":"Use Rust","reason":"speed"},{"text":"No tabs"}],"constraints":["Never push (ever)"],
            "tasks":[{"id":"#3","text":"port it","status":"doing"},{"text":"test: all of it","status":"done"}],
            "questions":[{"text":"Why?","answer":"So"},{"text":"When?"}],"risks":["slow"],
            "artifacts":[{"name":"a.rs","note":"edited, m4"}],"contributions":[{"agent":"scout","text":"found it"}]}"##;
        let state: WorkstreamState = serde_json::from_str(json).unwrap();
        assert_eq!(WorkstreamState::parse(&state.render()), state);
    }

    #[test]
    fn a_status_nobody_knows_reads_as_open() {
        let delta: StateDelta = serde_json::from_str(r#"{"tasks":[{"text":"a","status":"pondered"}]}"#).unwrap();
        assert_eq!(delta.tasks[0].status, TaskStatus::Open);
    }
}
