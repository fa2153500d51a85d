//! Task continuation: agents that can go on only with what the compacted prompt says.
//!
//! A scripted agent is a function of the prompt's words. It takes a step if it finds what the step needs, and it is never told
//! anything else: a summary that loses a value, or tells a withdrawn order as standing, ends in another step or in none. With
//! the summary emptied the same agents fail, in every preset, so none of these steps is found by luck.

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::plan::{Compaction, Room};
use epitome::planner::PlanOptions;
use epitome::thread::Thread;
use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::claims::words;
use crate::world::{PRESETS, Under, World, compact, prompt};

const DIALECT: Dialect = Dialect::Chat;

/// One step that an agent takes next.
struct Task {
    name: &'static str,
    /// What it does, by the prompt alone.
    act: fn(&str) -> Option<String>,
    /// What it does if the prompt says what it must.
    right: &'static str,
    /// True if what it needs stands in the user's words, which some presets keep beside the summary.
    is_said_by_user: bool,
}

const TASKS: [Task; 8] = [
    Task {
        name: "a constraint",
        act: |prompt| Some(format!("deploy --region {}", after(prompt, "only to the region ")?)),
        right: "deploy --region eu-west-3",
        is_said_by_user: true,
    },
    Task {
        name: "a preference, said once and plainly",
        act: |prompt| Some(format!("new script.{}", if prompt.contains("prefer Python") { "py" } else { "sh" })),
        right: "new script.py",
        is_said_by_user: true,
    },
    Task {
        name: "a number, said once and plainly",
        act: |prompt| Some(format!("order --up-to {}", after(prompt, "budget is ")?)),
        right: "order --up-to $1000",
        is_said_by_user: true,
    },
    Task {
        name: "a decision that the user changed",
        act: |prompt| Some(format!("init --store {}", standing_store(prompt)?)),
        right: "init --store SQLite",
        is_said_by_user: true,
    },
    Task {
        name: "a value that a tool gave",
        act: |prompt| Some(format!("release --build {}", after(prompt, "build id ")?)),
        right: "release --build 7f3a91c2",
        is_said_by_user: false,
    },
    Task {
        name: "the state of the tests",
        act: |prompt| {
            let failed = prompt.lines().find(|line| line.contains("cargo test") && line.contains("FAILED"))?;
            let name = failed.split_whitespace().find(|word| word.contains("::"))?;
            Some(format!("fix {name}"))
        },
        right: "fix totals::rounding",
        is_said_by_user: false,
    },
    Task {
        name: "a decision with its reason",
        act: |prompt| Some(format!("write --format {}", after(prompt, "keep the wire format at version ")?)),
        right: "write --format 3",
        is_said_by_user: false,
    },
    Task {
        name: "the next open task",
        act: |prompt| {
            let marks = ["[ ] ", "[open] "];
            let of = |line: &'_ str| marks.iter().find_map(|mark| Some(line.split_once(mark)?.1.to_owned()));
            let open = prompt.lines().find_map(of)?;
            Some(open.split(" (").next()?.to_owned())
        },
        right: "Add the rollback script",
        is_said_by_user: false,
    },
];

/// `workstream` lists the tools whose parts a summary tells of, and the one that ran the tests is none of them.
const UNSEEN: (&str, &str) = ("workstream", "the state of the tests");

/// The word behind some words.
fn after(text: &str, words: &str) -> Option<String> {
    let (_, rest) = text.split_once(words)?;
    let word = rest.split(|c: char| c.is_whitespace() || "`\"',;:)".contains(c)).next()?;
    Some(word.trim_end_matches('.').to_owned())
}

/// The store that was asked for last, in words that no later ones took back.
fn standing_store(prompt: &str) -> Option<String> {
    let mut asked = prompt.lines().filter(|line| line.contains("invoices in ") && !line.contains("superseded by"));
    after(asked.next_back()?, "invoices in ")
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// A call with its result.
fn step(id: &str, words: &str, tool: &str, arguments: &Value, result: &str) -> [Value; 2] {
    let call = json!({"id": id, "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}});
    [
        json!({"role": "assistant", "content": words, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": id, "content": result}),
    ]
}

/// The beginning, with everything that the agents will need.
fn beginning() -> Vec<Value> {
    let todo = |name: &str, status: &str| json!({"content": name, "status": status, "activeForm": name});
    let todos =
        json!({"todos": [todo("Write the migration", "completed"), todo("Add the rollback script", "pending")]});
    let tests = "running 3 tests\ntest totals::rounding ... FAILED\ntest totals::sum ... ok\n\n\
                 test result: FAILED. 2 passed; 1 failed\nExit code: 101";
    let mut messages = vec![
        user("Help me to ship the billing service."),
        assistant("Gladly. What should I know?"),
        user("I prefer Python for scripts. My budget is $1000. Deploy only to the region eu-west-3."),
        assistant("Understood."),
        user("Store the invoices in PostgreSQL."),
        assistant("I will."),
        user("Forget PostgreSQL, store the invoices in SQLite instead."),
        assistant("Then I decided to keep the wire format at version 3 because old clients still read it."),
        user("Good. Now begin."),
    ];
    messages.extend(step("todo", "I write down what there is to do.", "TodoWrite", &todos, "The list was updated."));
    let release = json!({"command": "make release"});
    let built = "compiling 14 files\nrelease written, build id 7f3a91c2\ndone";
    messages.extend(step("release", "I build the release.", "bash", &release, built));
    let run = json!({"command": "cargo test -p billing"});
    messages.extend(step("tests", "I run the tests.", "bash", &run, tests));
    messages.push(assistant(
        "The release has the build id 7f3a91c2. One test of billing fails; I look around before I fix it.",
    ));
    messages
}

/// Some work of a round that has nothing to do with any of it.
fn work(round: usize, steps: usize) -> Vec<Value> {
    let mut messages = vec![user(&format!("Now look through drawer {round}."))];
    for at in 0..steps {
        let (id, path) = (format!("call_{round}_{at}"), format!("drawers/{round}/sheet_{at}.txt"));
        let text: String =
            (0..14).map(|line| format!("sheet {round}.{at}.{line} holds {} stamps\n", line + at)).collect();
        let words = format!("I open sheet {at} of drawer {round}.");
        messages.extend(step(&id, &words, "read", &json!({"path": path}), &text));
    }
    messages.push(assistant(&format!("Drawer {round} is in order.")));
    messages
}

/// A compaction whose summaries say nothing.
fn emptied(compaction: &Compaction) -> Compaction {
    let mut emptied = compaction.clone();
    emptied.summaries.iter_mut().for_each(|summary| summary.text = "[...]".to_owned());
    emptied.plan.carried.clear();
    emptied
}

/// Compacts the same job round after round, loaded from the last compaction onward as a store does it, and hands the prompt of
/// some rounds to the agents.
fn continue_for(rounds: usize, under: &Under) -> Vec<String> {
    let preset = &under.policy.name;
    let size = Tokens::new(12_000);
    let room = Room { trigger: size, target: size.share(under.policy.target.low_water), limit: size.scaled(1.1) };
    let meter = under.meter(DIALECT);
    let mut thread = Thread::new();
    let extend = |thread: &mut Thread, messages: Vec<Value>| {
        let world = World::read(Value::Array(messages).to_string(), DIALECT, under);
        thread.extend(world.document.messages(), &meter);
    };
    extend(&mut thread, beginning());
    let mut previous: Option<Compaction> = None;
    let (mut round, mut wrong) = (0, Vec::new());
    for drawer in 1.. {
        assert!(drawer < 40 * rounds, "{preset}: {round} rounds in {drawer} drawers");
        extend(&mut thread, work(drawer, 6));
        let options = PlanOptions {
            previous: previous.clone().map(Arc::new),
            force: !under.policy.trigger.auto && thread.total() > size,
            ..PlanOptions::default()
        };
        let Some(compaction) = compact(&thread, room, under, DIALECT, &options) else { continue };
        round += 1;
        if round == 1 || round == rounds {
            wrong.extend(agents_go_on(&thread, &compaction, under, round));
        }
        if round == rounds {
            break;
        }
        (thread, previous) = match compaction.evict(&thread) {
            Some((small, moved)) => (small, Some(moved)),
            None => (thread, Some(compaction)),
        };
    }
    wrong
}

/// Returns what the agents get wrong, and what they get right although the summary says nothing.
fn agents_go_on(thread: &Thread, compaction: &Compaction, under: &Under, round: usize) -> Vec<String> {
    let at = format!("{}, round {round}", under.policy.name);
    let said = words(&prompt(thread, Some(compaction), under, DIALECT), thread);
    let mut wrong = Vec::new();
    for task in &TASKS {
        let step = (task.act)(&said);
        let case = (under.policy.name.as_str(), task.name);
        if step.as_deref() != Some(task.right) && case != UNSEEN {
            let summary = compaction.summaries.first().map_or("", |summary| summary.text.as_str());
            wrong.push(format!("{at}: {}: {step:?}, from\n{summary}\n", task.name));
        }
    }
    let empty = emptied(compaction);
    let said = words(&prompt(thread, Some(&empty), under, DIALECT), thread);
    let keeps_user = under.policy.summarize.user_messages > Tokens::ZERO;
    for task in TASKS.iter().filter(|task| !(keeps_user && task.is_said_by_user)) {
        if (task.act)(&said).as_deref() == Some(task.right) {
            wrong.push(format!("{at}: {} is found without a summary", task.name));
        }
    }
    wrong
}

fn every_preset_continues_for(rounds: usize) {
    let wrong: Vec<String> = PRESETS.iter().flat_map(|under| continue_for(rounds, under)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn agents_go_on_from_one_compaction_in_every_preset_and_not_from_an_empty_summary() {
    every_preset_continues_for(1);
}

#[test]
fn agents_go_on_after_twenty_compactions_in_every_preset_and_not_from_an_empty_summary() {
    every_preset_continues_for(20);
}
