//! A plan as it is kept: the compaction for what is loaded, and what must be loaded for it.

use epitome::plan::Compaction;
use epitome::summary::StructuredSummary;
use epitome::thread::{EvictedRun, Thread};
use serde::{Deserialize, Serialize};

use super::Log;
use crate::ids::{Moment, ThreadKey};
use crate::store::{Sensitivity, ThreadRow};

/// The most items of a kind that a plan hands on to the next one. More than a summary has room for; without a limit
/// every plan would hold the whole past once more, in the store and in the memory of whoever opens the thread.
const ITEMS_MAX: usize = 400;

/// A committed compaction, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPlan {
    /// The compaction; places in it are those of the loaded thread.
    pub compaction: Compaction,
    /// The entry that stands for the messages that need not be loaded.
    pub evicted: Option<EvictedRun>,
    /// Runs of places before `live_from` that must be loaded: first, and the one after the last.
    pub loaded: Vec<(u64, u64)>,
    /// From this place on every message must be loaded.
    pub live_from: u64,
    /// The counter that it was made with.
    #[serde(default)]
    pub counter: String,
    /// Every artifact that the thread's plans made, newest last, and what it may be asked for by.
    #[serde(default)]
    pub hints: Vec<ArtifactHint>,
}

/// The names by which a question may refer to an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactHint {
    /// The artifact.
    pub id: String,
    /// The message it came from.
    pub place: u64,
    /// When to read it again, in words.
    pub hint: String,
    /// The names that a question may use for it: paths, commands, addresses.
    pub names: Vec<String>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Moment>,
    /// Its sensitivity, where a rule gave it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Sensitivity>,
    /// True if it is media: it is read on purpose, and never comes back as words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_media: bool,
}

impl StoredPlan {
    /// A compaction of a loaded thread, as it is kept: without the messages that its summary stands for.
    pub fn of(
        compaction: &Compaction,
        thread: &Thread,
        length: u64,
        counter: &str,
        hints: Vec<ArtifactHint>,
    ) -> (StoredPlan, Thread) {
        let (thread, mut compaction) = match compaction.evict(thread) {
            Some((small, moved)) => (small, moved),
            None => (thread.clone(), compaction.clone()),
        };
        compaction.summaries.iter_mut().for_each(|summary| hand_on(&mut summary.items));
        let (loaded, live_from) = runs(&thread, length);
        let evicted = thread.evicted().cloned();
        (StoredPlan { compaction, evicted, loaded, live_from, counter: counter.to_owned(), hints }, thread)
    }
}

impl Log {
    /// Returns two sentences about a thread that was compacted: what it is about, and how things stand. `None` where they cannot be
    /// read, as in a sealed thread.
    pub async fn display_summary(&self, row: &ThreadRow) -> Option<String> {
        if row.version == 0 {
            return None;
        }
        let (_, plan) = self.plan(&row.key, None).await.ok()??;
        let display = plan.compaction.summaries.first()?.items.display();
        (!display.is_empty()).then_some(display)
    }
}

/// Leaves the oldest items behind: the receipts of earlier plans account for them, and the log holds them. What must be in
/// every prompt stays, and so does the first request.
fn hand_on(items: &mut StructuredSummary) {
    leave_oldest(&mut items.requests, 1);
    leave_oldest(&mut items.facts, 0);
    leave_oldest(&mut items.files, 0);
    leave_oldest(&mut items.commands, 0);
    leave_oldest(&mut items.artifacts, 0);
    leave_oldest(&mut items.memory_reads, 0);
    leave_oldest(&mut items.errors, 0);
    leave_oldest(&mut items.values, 0);
    leave_oldest(&mut items.urls, 0);
    leave_oldest(&mut items.hidden, 0);
    leave_oldest(&mut items.media, 0);
    thin_older(&mut items.decisions);
    thin_older(&mut items.conclusions);
}

fn leave_oldest<T>(list: &mut Vec<T>, first: usize) {
    let excess = list.len().saturating_sub(ITEMS_MAX);
    list.drain(first.min(excess)..first.min(excess) + excess);
}

/// Leaves every second item of the older half behind, so that each part of a long thread is still told of.
fn thin_older<T>(list: &mut Vec<T>) {
    while list.len() > ITEMS_MAX {
        let (older, mut at) = (list.len() / 2, 0);
        list.retain(|_| {
            at += 1;
            at > older || at % 2 == 1
        });
    }
}

/// The runs of log places that a thread holds, and where the last one that reaches its end begins.
fn runs(thread: &Thread, length: u64) -> (Vec<(u64, u64)>, u64) {
    let evicted = thread.evicted().map(|evicted| evicted.at);
    let messages = thread.messages().iter().enumerate().filter(|(at, _)| Some(*at) != evicted);
    let mut runs = place_runs(messages.map(|(_, message)| message.log_place() as u64));
    match runs.last() {
        Some(&(start, end)) if end == length => {
            runs.pop();
            (runs, start)
        }
        _ => (runs, length),
    }
}

/// Joins ascending places into runs: the first place of each, and the one after its last.
pub fn place_runs(places: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some((_, end)) if *end == place => *end += 1,
            _ => runs.push((place, place + 1)),
        }
    }
    runs
}

/// The name under which a plan is sealed.
pub(super) fn name(key: &ThreadKey, version: u64) -> String {
    format!("{}@{version}", key.thread)
}

#[cfg(test)]
mod tests {
    use epitome::summary::{Quote, RequestState, StructuredSummary, UserRequest};

    use super::{ITEMS_MAX, hand_on};

    #[test]
    fn a_plan_hands_on_what_must_stay_the_first_request_and_the_newest_of_the_rest() {
        let quotes = |count| (0..count).map(|place| Quote { text: format!("{place}"), place }).collect::<Vec<_>>();
        let request = |place| UserRequest {
            text: format!("{place}"),
            place,
            turn: 1,
            state: RequestState::Answered,
            context: None,
            supersedes: None,
        };
        for count in [0, 1, ITEMS_MAX, ITEMS_MAX + 1, 5 * ITEMS_MAX] {
            let mut items = StructuredSummary {
                conclusions: quotes(count),
                constraints: quotes(count),
                pins: vec!["p".to_owned(); count],
                values: quotes(count),
                requests: (0..count).map(request).collect(),
                ..StructuredSummary::default()
            };
            hand_on(&mut items);
            assert_eq!((items.constraints.len(), items.pins.len()), (count, count));
            let values: Vec<usize> = items.values.iter().map(|value| value.place).collect();
            assert_eq!(values, (count.saturating_sub(ITEMS_MAX)..count).collect::<Vec<_>>());
            let eras = items.conclusions.chunk_by(|a, b| a.place * 5 / count == b.place * 5 / count).count();
            assert!(items.conclusions.len() <= ITEMS_MAX && eras == count.min(5), "{count}: {eras}");
            let requests: Vec<usize> = items.requests.iter().map(|request| request.place).collect();
            let newest = count.saturating_sub(ITEMS_MAX - 1).max(1)..count;
            assert_eq!(requests, (0..count.min(1)).chain(newest).collect::<Vec<_>>());
        }
    }
}
