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
fn fifty_rounds_on_a_growing_file_keep_every_pin_and_constraint_verbatim() {
    let header = json!({"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/home/mara"});
    let first = json!({"type": "message", "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": [{"type": "text", "text": CONSTRAINTS.join(" ")}]}});
    let bench = Bench::new().holding("s.jsonl", format!("{header}\n{first}\n"));
    for round in 1..=50 {
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
        for words in CONSTRAINTS.iter().chain([&PIN]) {
            assert!(summary.contains(words), "round {round} lost {words:?}:\n{summary}");
        }
    }
}
