//! Round after round on one growing file: what must stay is in every later context, verbatim.

#![allow(clippy::unwrap_used)]

mod bench;

use std::fs::OpenOptions;
use std::io::Write;

use bench::Bench;
use serde_json::{Value, json};

const PIN: &str = "The release is called Kestrel.";
const CONSTRAINTS: [&str; 3] =
    ["Never touch anything under vendor/.", "Bitte niemals auf main pushen.", "绝对不要删除生产数据。"];

/// Said by the user once, plainly.
const FACTS: [&str; 2] = ["I prefer Python.", "My budget is $1000."];

/// Twenty-odd messages of work in pi's event format, unlike those of any other round.
fn work(round: usize) -> String {
    let mut lines: Vec<Value> = vec![
        json!({"role": "user", "content": [{"type": "text", "text": format!("Now task {round}: go on with module_{round}.")}]}),
    ];
    for step in 0..10 {
        let id = format!("call_{round}_{step}");
        let path = format!("src/module_{round}/part_{step}.rs");
        lines.push(json!({"role": "assistant", "content": [
            {"type": "text", "text": format!("Step {step} of task {round}: I look at part_{step}.")},
            {"type": "toolCall", "id": id, "name": "read", "arguments": {"path": path}}]}));
        let body: String = (0..30).map(|n| format!("fn item_{round}_{step}_{n}() -> usize {{ {n} }}\n")).collect();
        lines.push(json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": [{"type": "text", "text": body}], "isError": false}));
    }
    lines.push(json!({"role": "assistant", "content": [{"type": "text", "text": format!("Task {round} is done.")}]}));
    lines
        .iter()
        .map(|message| {
            format!("{}\n", json!({"type": "message", "timestamp": "2026-01-01T00:00:00.000Z", "message": message}))
        })
        .collect()
}

#[test]
fn a_hundred_rounds_on_a_growing_file_keep_every_pin_constraint_and_fact_verbatim() {
    let header = json!({"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/home/mara"});
    let first = json!({"type": "message", "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": [{"type": "text", "text": CONSTRAINTS.join(" ")}]}});
    let facts = json!({"type": "message", "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": [{"type": "text", "text": FACTS.join(" ")}]}});
    let bench = Bench::new().holding("s.jsonl", format!("{header}\n{first}\n{facts}\n"));
    for round in 1..=100 {
        let mut file = OpenOptions::new().append(true).open(bench.path("s.jsonl")).unwrap();
        file.write_all(work(round).as_bytes()).unwrap();
        let mut words = vec!["compact", "s.jsonl", "--budget", "2500"];
        if round == 1 {
            words.extend(["--pin", PIN]);
        }
        bench.run(&words).ended(0);
        let text = bench.text("s.jsonl");
        let newest: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(newest["type"], "compaction", "round {round}");
        let summary = newest["summary"].as_str().unwrap();
        for words in CONSTRAINTS.iter().chain([&PIN]).chain(&FACTS) {
            assert!(summary.contains(words), "round {round} lost {words:?}:\n{summary}");
        }
    }
}

/// The same work as Chat messages.
fn chat(round: usize) -> Vec<Value> {
    let mut messages =
        vec![json!({"role": "user", "content": format!("Now task {round}: go on with module_{round}.")})];
    for step in 0..10 {
        let id = format!("call_{round}_{step}");
        let arguments = json!({"path": format!("src/module_{round}/part_{step}.rs")}).to_string();
        let body: String = (0..30).map(|n| format!("fn item_{round}_{step}_{n}() -> usize {{ {n} }}\n")).collect();
        messages.push(json!({"role": "assistant", "content": format!("Step {step} of task {round}."), "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": body}));
    }
    messages.push(json!({"role": "assistant", "content": format!("Task {round} is done.")}));
    messages
}

#[test]
fn a_list_that_was_compacted_before_keeps_every_pin_constraint_and_fact_under_every_preset() {
    let presets = ["ladder", "timeline", "pi", "codex", "claude-code", "opencode", "amp", "layer", "workstream"];
    for preset in presets {
        let rounds = if preset == "ladder" { 20 } else { 6 };
        let mut messages = vec![
            json!({"role": "user", "content": CONSTRAINTS.join(" ")}),
            json!({"role": "assistant", "content": "Understood."}),
            json!({"role": "user", "content": FACTS.join(" ")}),
        ];
        let bench = Bench::new();
        for round in 1..=rounds {
            messages.extend(chat(round));
            std::fs::write(bench.path("l.json"), Value::from(messages.clone()).to_string()).unwrap();
            let mut words = vec!["compact", "l.json", "--policy", preset, "--budget", "2500", "-o", "l.json"];
            if round == 1 {
                words.extend(["--pin", PIN]);
            }
            let run = bench.run(&words).ended(0);
            let is_warned = run.out.contains(&format!("This thread was compacted {round} times."));
            assert_eq!(is_warned, round % 5 == 0, "{preset}, round {round}: {}", run.out);
            messages = bench.json("l.json").as_array().unwrap().clone();
            let prompt = messages.iter().map(|message| message["content"].as_str().unwrap_or_default());
            let prompt = prompt.collect::<Vec<&str>>().join("\n");
            for words in CONSTRAINTS.iter().chain([&PIN]).chain(&FACTS) {
                assert!(prompt.contains(words), "{preset}, round {round} lost {words:?}:\n{prompt}");
            }
            assert_eq!(prompt.matches("[Context Summary").count().max(1), 1, "{preset}, round {round}:\n{prompt}");
        }
    }
}

#[test]
fn what_left_in_the_first_of_two_rounds_can_be_read_back_from_the_list() {
    let mut messages = vec![json!({"role": "user", "content": "The first words of all."})];
    messages.extend((1..=6).flat_map(chat));
    let bench = Bench::new().holding("l.json", Value::from(messages.clone()).to_string());
    bench.run(&["compact", "l.json", "--budget", "6000", "-o", "l.json"]).ended(0);
    let mut grown = bench.json("l.json").as_array().unwrap().clone();
    let stayed = grown.len();
    grown.extend(chat(7));
    std::fs::write(bench.path("l.json"), Value::from(grown).to_string()).unwrap();
    bench.run(&["compact", "l.json", "--budget", "3000", "-o", "l.json"]).ended(0);
    // A number that the list of the second round did not have is one of the first.
    let number = stayed + chat(7).len() + 5;
    let read = bench.run(&["read", "l.json", &format!("m{number}")]).ended(0);
    let original = messages[number - 1]["content"].as_str().unwrap();
    assert!(read.out.contains(original.trim()), "m{number}: {}", read.out);
}
