//! A hundred rounds: each replaces the one before it. Numbers go on, nothing piles up or freezes, every era stays represented,
//! and what the user said once, plainly, is in the last prompt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::plan::{Compaction, Room};
use epitome::planner::PlanOptions;
use epitome::summary::StructuredSummary;
use epitome::thread::Thread;
use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::claims::words;
use crate::world::{PRESETS, Under, World, compact, prompt};

const DIALECT: Dialect = Dialect::Chat;
const ROUNDS: usize = 100;
/// The last prompt must tell of each of these many parts of the thread.
const ERAS: usize = 5;
/// Said by the user in the first turn, without a word that makes them rules.
const FACTS: [&str; 2] = ["I prefer Python.", "My budget is $1000."];
/// Decided by the agent in the first turn.
const DECISION: &str = "I decided to keep the wire format at version 3 because old clients still read it.";

fn beginning() -> Vec<Value> {
    vec![
        json!({"role": "user", "content": "Help me with the quarry."}),
        json!({"role": "assistant", "content": DECISION}),
        json!({"role": "user", "content": format!("{} {}", FACTS[0], FACTS[1])}),
        json!({"role": "assistant", "content": "Noted."}),
    ]
}

/// The work between two compactions. Each thing in it has a name of its own: `quarry_ROUND_STEP`.
fn work(round: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": format!("Now dig quarry_{round}_0.")})];
    for step in 0..4 {
        let (id, item) = (format!("call_{round}_{step}"), format!("quarry_{round}_{step}"));
        let (tool, arguments, result) = match step {
            0 => (
                "write",
                json!({"path": format!("pits/{item}.txt"), "content": format!("{item} is open\n")}),
                "The file was written.".to_owned(),
            ),
            _ => {
                let lines = (0..10).map(|line| format!("{item} layer {line} holds {} stones\n", round + line));
                ("bash", json!({"command": format!("dig {item}")}), lines.collect())
            }
        };
        let call =
            json!({"id": id, "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}});
        messages.push(json!({"role": "assistant", "content": format!("I dig {item}."), "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
    }
    messages
        .push(json!({"role": "assistant", "content": format!("quarry_{round}_3 gave {} stones in all.", 40 + round)}));
    messages
}

/// The names of things in a text.
fn items(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("quarry_")).map(str::to_owned).collect()
}

/// The numbers of messages in a line.
fn numbers(line: &str) -> Vec<usize> {
    let words = line.split(|c: char| !c.is_alphanumeric());
    words.filter_map(|word| word.strip_prefix('m')?.parse().ok()).collect()
}

/// Every number in a summary is a message of the log; where its line names things, the message or its answer names one of them.
fn numbers_read_back(what: &str, text: &str, log: &[Value]) {
    for line in text.lines() {
        let (numbers, named) = (numbers(line), items(line));
        for number in &numbers {
            assert!((1..=log.len()).contains(number), "{what}: m{number} of {} in {line:?}", log.len());
        }
        let [number] = numbers[..] else { continue };
        let told: String = log[number - 1..log.len().min(number + 1)].iter().map(Value::to_string).collect();
        let is_told = named.is_empty() || named.iter().any(|item| items(&told).contains(item));
        assert!(is_told, "{what}: m{number} is not what is told in {line:?}, but {told}");
    }
}

/// No line that says something stands twice.
fn nothing_twice(what: &str, text: &str) {
    let mut seen = BTreeMap::new();
    for line in text.lines().filter(|line| !items(line).is_empty()) {
        *seen.entry(line).or_insert(0) += 1;
    }
    let twice: Vec<&&str> = seen.iter().filter(|(_, times)| **times > 1).map(|(line, _)| line).collect();
    assert!(twice.is_empty(), "{what}: {twice:#?}\n{text}");
}

/// The last prompt names something of every era.
fn every_era_is_told(what: &str, said: &str, rounds: usize) {
    let round_of = |item: &String| item.split('_').nth(1).and_then(|round| round.parse::<usize>().ok());
    let told: BTreeSet<usize> =
        items(said).iter().filter_map(round_of).map(|round| (round - 1) * ERAS / rounds).collect();
    let missing: Vec<usize> = (0..ERAS).filter(|era| !told.contains(era)).collect();
    assert!(missing.is_empty(), "{what}: nothing of the parts {missing:?}\n{said}");
}

/// The turns that a title names.
fn titled_turns(text: &str) -> Option<(u32, u32)> {
    let (_, rest) = text.lines().next()?.split_once("Turns ")?;
    let (first, last) = rest.trim_end_matches(']').split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The decision and the file of the first era are in the items; of a file, a policy that lists other tools tells nothing.
fn is_carried(items: &StructuredSummary, under: &Under) -> bool {
    let wrote = |path: &str| items.files.iter().any(|file| file.path.ends_with(path) && file.written.is_some());
    let is_listed = under.policy.tools.is_summarized("write");
    items.decisions.iter().any(|decision| decision.decision.contains("wire format"))
        && (wrote("quarry_1_0.txt") || !is_listed)
}

fn a_hundred_rounds(under: &Under) {
    let preset = &under.policy.name;
    let size = Tokens::new(3200);
    let room = Room { trigger: size, target: size.share(under.policy.target.low_water), limit: size.scaled(1.1) };
    let meter = under.meter(DIALECT);
    let (mut thread, mut log) = (Thread::new(), Vec::new());
    let append = |thread: &mut Thread, log: &mut Vec<Value>, messages: Vec<Value>| {
        let world = World::read(Value::Array(messages.clone()).to_string(), DIALECT, under);
        thread.extend(world.document.messages(), &meter);
        log.extend(messages);
    };
    append(&mut thread, &mut log, beginning());
    let (mut previous, mut before, mut turns) = (None::<Compaction>, String::new(), 0);
    let mut round = 0;
    for at in 1.. {
        assert!(at < 10 * ROUNDS, "{preset}: {round} rounds in {at} pieces of work");
        append(&mut thread, &mut log, work(at));
        let options = PlanOptions { previous: previous.clone().map(Arc::new), force: true, ..PlanOptions::default() };
        let Some(compaction) = compact(&thread, room, under, DIALECT, &options) else { continue };
        round += 1;
        let what = format!("{preset}, round {round}");
        assert_eq!(compaction.plan.round as usize, round, "{what}");
        assert_eq!(compaction.plan.shortfall, None, "{what}");
        let summary = compaction.summaries.first().unwrap_or_else(|| panic!("{what}: no summary"));
        assert_ne!(summary.text, before, "{what}: the summary is the one before it");
        numbers_read_back(&what, &summary.text, &log);
        nothing_twice(&what, &summary.text);
        if let Some((first, last)) = titled_turns(&summary.text) {
            assert!(
                first == 1 && last >= turns && last as usize <= at + 2,
                "{what}: turns {first} to {last} of {}",
                at + 2
            );
            turns = last;
        }
        let said = words(&prompt(&thread, Some(&compaction), under, DIALECT), &thread);
        for fact in FACTS {
            assert!(said.contains(fact), "{what}: {fact}\n{said}");
        }
        if round == ROUNDS {
            every_era_is_told(&what, &said, at);
            assert!(is_carried(&summary.items, under), "{what}: {:#?}", summary.items.decisions);
            assert!(said.contains(DECISION), "{what}: {DECISION}\n{said}");
            return;
        }
        before.clone_from(&summary.text);
        (thread, previous) = match compaction.evict(&thread) {
            Some((small, moved)) => (small, Some(moved)),
            None => (thread, Some(compaction)),
        };
    }
}

#[test]
fn a_hundred_rounds_replace_each_other_in_every_preset() {
    // Every preset is looked at before the first failure ends the test.
    let failed: Vec<&str> = PRESETS
        .iter()
        .filter(|under| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a_hundred_rounds(under))).is_err())
        .map(|under| under.policy.name.as_str())
        .collect();
    assert_eq!(failed, [""; 0]);
}
