//! `epitome mcp` as a process: standard output is the protocol's alone.

#![allow(clippy::unwrap_used)]

mod bench;

use bench::Bench;
use serde_json::{Value, json};

/// What the server answers to these requests, by their number from 1; and what it says beside.
fn answers(bench: &Bench, words: &str, requests: &[Value]) -> (Vec<Value>, String) {
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let mut lines = vec![json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})];
    lines.push(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    lines.extend(requests.iter().zip(1..).map(|(request, id)| {
        let mut request = request.clone();
        (request["jsonrpc"], request["id"]) = (json!("2.0"), json!(id));
        request
    }));
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(bench.path("in"), lines).unwrap();
    let run = bench.shell(&format!("epitome mcp {words} < in")).ended(0);
    let mut said: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    said.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(said.len(), requests.len() + 1, "{}", run.out);
    (said.split_off(1), run.err)
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[test]
fn a_stored_thread_is_read_and_compacted_by_a_client() {
    let bench = Bench::new().with("threads/chat.json").with("sessions/codex.jsonl");
    bench.run(&["import", "chat.json", "--thread", "greenhouse"]).ended(0);
    bench.run(&["import", "codex.jsonl", "--thread", "rollout"]).ended(0);
    let requests = [
        call("read_artifact", json!({"id": "m7", "thread": "greenhouse"})),
        call("recall", json!({"query": "V-17"})),
        call("compact", json!({})),
        json!({"method": "tools/list"}),
    ];
    let (said, err) = answers(&bench, "", &requests);
    let text = |at: usize, block: usize| said[at]["result"]["content"][block]["text"].as_str().unwrap();
    assert_eq!(text(0, 0), "[m7, lines 1-1 of 1]\nerror: valve 4 timed out after 30 s (code V-17)");
    assert_eq!(text(1, 0), "[thread rollout, the one used last]");
    assert!(text(1, 1).contains("V-17"), "{}", text(1, 1));
    assert!(text(2, 1).contains("imported from a codex session"), "{}", text(2, 1));
    assert_eq!(err, "");
    let (said, _) = answers(&bench, "--thread greenhouse", &[call("compact", json!({}))]);
    assert_eq!(said[0]["result"]["structuredContent"]["plan_version"], 1, "{}", said[0]);
}

#[test]
fn what_is_wrong_at_the_start_is_a_sentence_on_standard_error() {
    let bench = Bench::new();
    for (words, code, says) in [
        (vec!["mcp", "--thread", "no name"], 2, "\"no name\" is not a name"),
        (vec!["mcp", "--store", "mysql://x"], 2, "mysql://x"),
        (vec!["mcp", "--read-tokens", "3"], 2, "the least is 200 tokens"),
        (vec!["mcp", "--store", "postgres://nobody@127.0.0.1:1/x"], 3, "127.0.0.1"),
        (vec!["mcp", "--config", "nowhere.toml"], 3, "nowhere.toml"),
    ] {
        let run = bench.run(&words).ended(code);
        assert!(run.out.is_empty() && run.err.contains(says), "{}", run.whole());
    }
}

#[test]
fn a_store_that_is_not_there_yet_is_made_and_says_that_it_is_empty() {
    let bench = Bench::new();
    let (said, err) = answers(&bench, "--store sqlite:new.db", &[call("recall", json!({"query": "x"}))]);
    assert_eq!(said[0]["result"]["content"][0]["text"], "There is no thread yet.");
    assert_eq!((said[0]["result"]["isError"].clone(), err.as_str()), (json!(true), ""));
}
