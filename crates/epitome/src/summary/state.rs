//! The workstream state: short lists of what matters now, kept under caps beside a summary.
//!
//! Merging is done by code and the same way every time. What a cap pushes out is handed back, never silently lost. A
//! delta cannot lift a constraint: a delta is written by a model that has read tool output, and such a model may not take
//! back what a person demanded.

use serde::{Deserialize, Serialize};

use super::fence::one_line;

/// What matters now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkstreamState {
    /// What was decided, oldest first, as in every list here.
    pub decisions: Vec<KeyDecision>,
    /// What the work must keep to.
    pub constraints: Vec<String>,
    /// What is to be done.
    pub tasks: Vec<StateTask>,
    /// What nobody has answered yet, and what was answered lately.
    pub questions: Vec<StateQuestion>,
    /// What could go wrong.
    pub risks: Vec<String>,
    /// What was made.
    pub artifacts: Vec<MadeArtifact>,
    /// Who of several agents did what.
    pub contributions: Vec<AgentContribution>,
}

/// What a summarizer found new or changed: lists as in [`WorkstreamState`], each entry an addition or an update.
pub type StateDelta = WorkstreamState;

/// A decision that later work rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyDecision {
    /// What was decided.
    pub text: String,
    /// Why.
    pub reason: String,
}

/// Something to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateTask {
    /// Its id, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What.
    pub text: String,
    /// How far it is.
    pub status: TaskStatus,
}

/// How far a task is.
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
    /// Its name.
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

/// Something that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MadeArtifact {
    /// Its name, path or id.
    pub name: String,
    /// What it is.
    pub note: String,
}

/// What one of several agents did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentContribution {
    /// Who.
    pub agent: String,
    /// What.
    pub text: String,
}

/// How long each list may get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateCaps {
    /// Decisions.
    pub decisions_max: usize,
    /// Constraints.
    pub constraints_max: usize,
    /// Tasks.
    pub tasks_max: usize,
    /// Questions.
    pub questions_max: usize,
    /// Risks.
    pub risks_max: usize,
    /// Things made.
    pub artifacts_max: usize,
    /// Contributions.
    pub contributions_max: usize,
}

impl Default for StateCaps {
    fn default() -> Self {
        StateCaps {
            decisions_max: 8,
            constraints_max: 6,
            tasks_max: 10,
            questions_max: 5,
            risks_max: 5,
            artifacts_max: 10,
            contributions_max: 6,
        }
    }
}

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateList {
    /// Decisions.
    Decisions,
    /// Constraints.
    Constraints,
    /// Tasks.
    Tasks,
    /// Questions.
    Questions,
    /// Risks.
    Risks,
    /// Things made.
    Artifacts,
    /// Contributions.
    Contributions,
}

/// An entry that its list's cap pushed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictedEntry {
    /// Which list it was in.
    pub list: StateList,
    /// The entry, as it is rendered.
    pub text: String,
}

impl WorkstreamState {
    /// Takes in what is new: an entry that says the same as an old one replaces it, and the newest stand last. Over a
    /// cap, finished tasks and answered questions leave first, then the oldest. What left is returned.
    #[must_use = "what fell out is lost unless it is reported"]
    pub fn merge(&mut self, delta: StateDelta, caps: &StateCaps) -> Vec<EvictedEntry> {
        let mut fallen = merge(StateList::Decisions, &mut self.decisions, delta.decisions, caps.decisions_max);
        fallen.extend(merge(StateList::Constraints, &mut self.constraints, delta.constraints, caps.constraints_max));
        fallen.extend(merge(StateList::Tasks, &mut self.tasks, delta.tasks, caps.tasks_max));
        fallen.extend(merge(StateList::Questions, &mut self.questions, delta.questions, caps.questions_max));
        fallen.extend(merge(StateList::Risks, &mut self.risks, delta.risks, caps.risks_max));
        fallen.extend(merge(StateList::Artifacts, &mut self.artifacts, delta.artifacts, caps.artifacts_max));
        fallen.extend(merge(
            StateList::Contributions,
            &mut self.contributions,
            delta.contributions,
            caps.contributions_max,
        ));
        fallen
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        *self == WorkstreamState::default()
    }

    /// The state as text: a heading for each list that has entries, an entry to a line.
    pub fn render(&self) -> String {
        let lists = [
            section("Key decisions", &self.decisions),
            section("Active constraints", &self.constraints),
            section("Tasks", &self.tasks),
            section("Open questions", &self.questions),
            section("Risks", &self.risks),
            section("Artifacts", &self.artifacts),
            section("Agent contributions", &self.contributions),
        ];
        lists.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Keeps only what a test of each entry's text allows; the texts of the others are returned.
    pub(super) fn retain(&mut self, allows: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut gone = retain(&mut self.decisions, allows);
        gone.extend(retain(&mut self.constraints, allows));
        gone.extend(retain(&mut self.tasks, allows));
        gone.extend(retain(&mut self.questions, allows));
        gone.extend(retain(&mut self.risks, allows));
        gone.extend(retain(&mut self.artifacts, allows));
        gone.extend(retain(&mut self.contributions, allows));
        gone
    }
}

/// What the lists have in common.
trait StateEntry {
    /// Whether two entries speak of the same thing.
    fn is_same(&self, other: &Self) -> bool;

    /// The entry on one line.
    fn line(&self) -> String;

    /// Takes over from an older entry what a newer one leaves unsaid.
    fn inherit(&mut self, _older: Self)
    where
        Self: Sized,
    {
    }

    /// Whether it can leave before others.
    fn is_settled(&self) -> bool {
        false
    }
}

fn merge<T: StateEntry>(list: StateList, old: &mut Vec<T>, new: Vec<T>, max: usize) -> Vec<EvictedEntry> {
    for mut entry in new.into_iter().filter(|entry| !entry.line().trim().is_empty()) {
        if let Some(at) = old.iter().position(|other| other.is_same(&entry)) {
            entry.inherit(old.remove(at));
        }
        old.push(entry);
    }
    let mut fallen = Vec::new();
    while old.len() > max {
        let at = old.iter().position(StateEntry::is_settled).unwrap_or(0);
        fallen.push(EvictedEntry { list, text: old.remove(at).line() });
    }
    fallen
}

fn section<T: StateEntry>(heading: &str, list: &[T]) -> Option<String> {
    let lines: Vec<String> = list.iter().map(|entry| format!("- {}", one_line(&entry.line(), usize::MAX))).collect();
    (!lines.is_empty()).then(|| format!("{heading}:\n{}\n", lines.join("\n")))
}

fn retain<T: StateEntry>(list: &mut Vec<T>, allows: &dyn Fn(&str) -> bool) -> Vec<String> {
    list.extract_if(.., |entry| !allows(&entry.line())).map(|entry| entry.line()).collect()
}

/// A text as it is compared: letters and digits of any script in lower case; marks only where there is nothing else.
fn normal(text: &str) -> String {
    let letters: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if letters.is_empty() { text.trim().to_owned() } else { letters }
}

fn same(one: &str, other: &str) -> bool {
    normal(one) == normal(other)
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

    fn is_settled(&self) -> bool {
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

    fn is_settled(&self) -> bool {
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
    use super::{StateCaps, StateDelta, StateList, StateQuestion, StateTask, TaskStatus, WorkstreamState};

    fn task(id: &str, text: &str, status: TaskStatus) -> StateTask {
        StateTask { id: (!id.is_empty()).then(|| id.into()), text: text.into(), status }
    }

    fn tasks(list: Vec<StateTask>) -> StateDelta {
        StateDelta { tasks: list, ..StateDelta::default() }
    }

    fn fallen(state: &mut WorkstreamState, delta: StateDelta) -> Vec<String> {
        state.merge(delta, &StateCaps::default()).into_iter().map(|fallen| fallen.text).collect()
    }

    #[test]
    fn the_same_thing_said_again_is_one_entry_and_the_newest_wins() {
        let mut state = WorkstreamState::default();
        let first = tasks(vec![task("", "Écrire les tests", TaskStatus::Open), task("T1", "部署", TaskStatus::Open)]);
        let again = tasks(vec![task("T1", "", TaskStatus::Doing), task("", "écrire  les tests!", TaskStatus::Done)]);
        assert!(fallen(&mut state, first).is_empty() && fallen(&mut state, again).is_empty());
        assert_eq!(state.render(), "Tasks:\n- [doing] T1: 部署\n- [done] écrire les tests!\n");
    }

    #[test]
    fn finished_tasks_and_answered_questions_leave_before_open_ones() {
        let mut state = WorkstreamState::default();
        let mut list: Vec<StateTask> = (0..10).map(|n| task("", &format!("task {n}"), TaskStatus::Open)).collect();
        list[4].status = TaskStatus::Done;
        assert!(fallen(&mut state, tasks(list)).is_empty());
        let more = tasks(vec![task("", "new 1", TaskStatus::Open), task("", "new 2", TaskStatus::Open)]);
        assert_eq!(fallen(&mut state, more), ["[done] task 4", "[open] task 0"]);
        let question = |n: usize| StateQuestion { text: format!("why {n}?"), answer: (n == 2).then(|| "so".into()) };
        let questions = StateDelta { questions: (0..6).map(question).collect(), ..StateDelta::default() };
        assert_eq!(fallen(&mut state, questions), ["why 2? → so"]);
    }

    #[test]
    fn no_list_outgrows_its_cap_and_nothing_leaves_unreported() {
        let mut state = WorkstreamState::default();
        let texts = |name: &str| (0..20).map(|n| format!("{name} {n}")).collect::<Vec<_>>();
        let delta = StateDelta { constraints: texts("規則"), risks: texts("risk"), ..StateDelta::default() };
        let gone = state.merge(delta, &StateCaps::default());
        assert_eq!((state.constraints.len(), state.risks.len(), gone.len()), (6, 5, 14 + 15));
        assert_eq!(gone.iter().filter(|fallen| fallen.list == StateList::Constraints).count(), 14);
        assert_eq!(state.constraints[0], "規則 14");
    }

    #[test]
    fn a_delta_with_nothing_in_it_changes_nothing() {
        let mut state = WorkstreamState { constraints: vec!["No network.".into()], ..WorkstreamState::default() };
        let before = state.clone();
        let empty: StateDelta =
            serde_json::from_str(r#"{"constraints":[" "],"tasks":[{"status":"done"}],"unheard":1}"#).unwrap();
        assert!(fallen(&mut state, empty).is_empty());
        assert_eq!(state, before);
    }

    #[test]
    fn a_status_nobody_knows_reads_as_open() {
        let delta: StateDelta = serde_json::from_str(r#"{"tasks":[{"text":"a","status":"pondered"}]}"#).unwrap();
        assert_eq!(delta.tasks[0].status, TaskStatus::Open);
    }
}
