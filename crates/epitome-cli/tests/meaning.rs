//! Search by meaning through every door: the command line on files and threads, MCP, and the gateway's API.

#![allow(clippy::unwrap_used)]

mod bench;
mod serving;

use std::process::Command;
use std::time::Instant;

use bench::Bench;
use epitome_mock::{MockServer, MockSettings};
use serde_json::{Value, json};
use serving::{LONG, Serving};

/// No message holds this word; one holds a part of it, which is near to the mock.
const WORDS: &str = "harbormasters";
const ANSWER: &str = "Harbormaster: Ingrid.";

fn talk() -> String {
    let others = (0..6).map(|at| json!({"role": "user", "content": format!("Note {at}: soup, bread and salt.")}));
    let messages: Vec<Value> = others.chain([json!({"role": "assistant", "content": ANSWER})]).collect();
    json!(messages).to_string()
}

/// An embedding endpoint, and the variables that name it.
fn endpoint(url: &str) -> [(&'static str, String); 3] {
    [
        ("EPITOME_EMBEDDINGS_URL", url.to_owned()),
        ("EPITOME_EMBEDDINGS_NAME", "mock-embedding".to_owned()),
        ("EPITOME_EMBEDDINGS_KEY", "sk-test".to_owned()),
    ]
}

fn as_pairs<'a>(variables: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

#[test]
fn a_file_and_a_thread_are_searched_by_meaning_through_every_door_and_by_words_without_an_endpoint() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mock = {
        let _inside = runtime.enter();
        MockServer::start(MockSettings::default()).unwrap()
    };
    let variables = endpoint(&mock.url());
    let bench = Bench::new().holding("talk.json", talk());
    bench.run(&["import", "talk.json"]).ended(0);
    for source in ["talk.json", "talk"] {
        let run = bench.run_with(&as_pairs(&variables), &["recall", source, WORDS]).ended(0);
        assert!(run.out.contains(ANSWER) && !run.out.contains("soup"), "{source}: {}", run.out);
        let run = bench.run_with(&as_pairs(&variables), &["recall", source, WORDS, "--json"]).ended(0);
        assert_eq!(run.json()["found"]["by_meaning"], "done", "{source}");
        let run = bench.run(&["recall", source, WORDS]).ended(0);
        assert!(!run.out.contains(ANSWER), "{source}: {}", run.out);
        // Nobody listens on the first port.
        let away = endpoint("http://127.0.0.1:1");
        let run = bench.run_with(&as_pairs(&away), &["recall", source, "ingrid"]).ended(0);
        let note = "[searched by words alone: the embedding endpoint gave no answer]";
        assert!(run.out.contains(ANSWER) && run.out.contains(note), "{source}: {}", run.out);
    }

    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let call = json!({"name": "recall", "arguments": {"query": WORDS, "thread": "talk"}});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}),
    ];
    std::fs::write(bench.path("in"), lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let exports: String = variables.iter().map(|(name, value)| format!("export {name}={value}; ")).collect();
    let run = bench.shell(&format!("{exports}epitome mcp < in")).ended(0);
    // An imported list that can be continued is in its prompt, and the answer is found there.
    assert!(run.out.contains("[in the prompt already: m7]"), "{}", run.out);

    // A thread that nobody has searched yet gets its vectors from the gateway's worker.
    bench.run(&["import", "talk.json", "--thread", "fresh"]).ended(0);
    let mut program = Command::new(env!("CARGO_BIN_EXE_epitome"));
    program.envs(variables.iter().map(|(name, value)| (*name, value.as_str()))).env("EPITOME_ARTIFACTS_URL", "memory:");
    let gateway = Serving::launch(&bench, program, &[]);
    let started = Instant::now();
    let answer = loop {
        let answer = gateway.ask("GET", &format!("/api/threads/fresh/recall?query={WORDS}"), "");
        let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        if body["by_meaning"] == "done" {
            break body;
        }
        assert!(body["by_meaning"] == "partly" && started.elapsed() < LONG, "{answer}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!(answer["text"], "[in the prompt already: m7]", "{answer}");
    let metrics = gateway.ask("GET", "/metrics", "");
    assert!(metrics.contains("epitome_passages_embedded_total 7"), "{metrics}");
    drop(gateway);

    // Vectors are sealed with the rest, and the sealed ones are searched.
    let key = format!("one:{}", "1".repeat(64));
    let mut sealed = as_pairs(&variables);
    sealed.push(("EPITOME_KEYS_CURRENT", &key));
    let run = bench.run_with(&sealed, &["store", "rotate"]).ended(0);
    assert!(run.out.contains(" and 14 vectors."), "{}", run.out);
    let run = bench.run_with(&sealed, &["recall", "fresh", WORDS]).ended(0);
    assert!(run.out.contains(ANSWER), "{}", run.out);
}

#[test]
fn a_folder_that_is_not_trusted_cannot_send_content_to_an_endpoint() {
    let bench = Bench::new().holding("talk.json", talk()).holding(
        "epitome.toml",
        "[embeddings]\nurl = \"http://127.0.0.1:1\"\nname = \"theirs\"\nsearch_timeout_s = 9\n",
    );
    let run = bench.run(&["recall", "talk.json", WORDS]);
    assert!(!run.out.contains("embedding endpoint"), "{}", run.whole());
    let shown = bench.run(&["config", "show", "--json"]).ended(0);
    let settings = shown.json();
    let find = |name: &str| settings.to_string().contains(name);
    assert!(find("embeddings.url") && !find("theirs"), "{settings}");
}
