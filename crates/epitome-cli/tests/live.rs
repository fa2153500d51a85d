//! Threads that an agent goes on with: what the program shows and writes of them, and `work` on what they queued.

#![allow(clippy::unwrap_used)]

mod bench;

use std::io::Read as _;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::Bench;
use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::Dialect;
use epitome_runtime::artifact::{Access, open_url};
use epitome_runtime::engine::{Background, Engine, EngineParts, EngineSettings, OpenThread, StepRequest};
use epitome_runtime::ids::TenantId;
use epitome_runtime::store::SqliteStore;
use serde_json::{Value, json};

/// An engine on the bench's own store, as an agent has it.
async fn engine(bench: &Bench) -> Engine {
    let settings = EngineSettings {
        window: Some(Tokens::new(6000)),
        background: Background::On { wait: Duration::from_millis(1) },
        ..EngineSettings::new(preset("ladder").unwrap())
    };
    let data = bench.path(".local/share/epitome");
    let parts = EngineParts {
        store: Arc::new(SqliteStore::open(data.join("epitome.db")).unwrap()),
        objects: open_url(data.join("artifacts").to_str().unwrap()).unwrap(),
        ..EngineParts::in_memory(settings)
    };
    Engine::new(parts).await.unwrap()
}

fn owner() -> Access {
    Access::owner(TenantId::local(), "test")
}

/// Turns of work until a compaction is queued.
async fn until_queued(thread: &mut OpenThread) {
    for at in 0..60 {
        let words = format!("module_{at} computes value_{at}, says the zephyr. ").repeat(12);
        thread
            .append([json!({"role": "user", "content": format!("Request {at}: {words}")}).to_string()])
            .await
            .unwrap();
        thread.prepare_step(&StepRequest::default()).await.unwrap();
        thread.append([json!({"role": "assistant", "content": format!("Answer {at}.")}).to_string()]).await.unwrap();
        if thread.is_compacting().await.unwrap() {
            return;
        }
    }
    panic!("nothing was queued");
}

#[tokio::test]
async fn a_thread_that_has_grown_is_exported_with_what_was_added() {
    let bench = Bench::new().with("threads/chat.json").with("threads/anthropic.json");
    bench.run(&["import", "chat.json", "anthropic.json"]).ended(0);
    let new = r#"{"role": "user",  "content": "And the weather?"}"#;
    for (name, dialect) in [("chat", Dialect::Chat), ("anthropic", Dialect::Anthropic)] {
        let engine = engine(&bench).await;
        engine.open(&owner(), name.parse().unwrap(), dialect).await.unwrap().append([new]).await.unwrap();
        drop(engine);
        let out = bench.run(&["export", name]).ended(0).out;
        let before: Value = serde_json::from_str(&bench.text(&format!("{name}.json"))).unwrap();
        let mut after: Value = serde_json::from_str(&out).unwrap();
        assert!(out.contains(new), "{name}: it is there byte for byte");
        let messages = after.get_mut("messages").map_or_else(|| panic!("{name} is a request"), Value::as_array_mut);
        assert_eq!(messages.unwrap().pop().unwrap()["content"], "And the weather?");
        assert_eq!(before["messages"], after["messages"], "{name}");
        let again = bench.run(&["import", &format!("{name}.json")]).ended(0).out;
        assert!(again.contains("already"), "{again}");
    }
    bench.run(&["store", "check"]).ended(0);
}

#[tokio::test]
async fn a_thread_of_no_file_is_exported_as_a_list() {
    let bench = Bench::new();
    let engine = engine(&bench).await;
    let mut thread = engine.open(&owner(), "t".parse().unwrap(), Dialect::Chat).await.unwrap();
    thread.append([r#"{"role":"user","content":"one"}"#, r#"{"role":"assistant","content":"two"}"#]).await.unwrap();
    drop((thread, engine));
    let out = bench.run(&["export", "t", "-o", "t.json"]).ended(0);
    assert!(out.out.contains("a message list"), "{}", out.out);
    bench.run(&["check", "t.json"]).ended(0);
    assert_eq!(bench.json("t.json"), json!([{"role":"user","content":"one"}, {"role":"assistant","content":"two"}]));
}

#[tokio::test]
async fn work_carries_out_what_was_queued_and_stops_when_told() {
    let bench = Bench::new();
    let engine = engine(&bench).await;
    let mut thread = engine.open(&owner(), "busy".parse().unwrap(), Dialect::Chat).await.unwrap();
    until_queued(&mut thread).await;
    drop((thread, engine));
    let listed = bench.run(&["threads", "--json"]).ended(0).json();
    assert_eq!((&listed["threads"][0]["compacting"], &listed["threads"][0]["plans"]), (&json!(true), &json!(0)));

    let mut worker = bench.start(&["work", "--json"]);
    let begun = Instant::now();
    while bench.run(&["threads", "--json"]).ended(0).json()["threads"][0]["plans"] == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no plan was made");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(Command::new("kill").args(["-INT", &worker.id().to_string()]).status().unwrap().success());
    assert!(worker.wait().unwrap().success());
    let (mut out, mut err) = (String::new(), String::new());
    worker.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    worker.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let done: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&done["done"], &done["failed"]), (&json!(1), &json!(0)), "{err}");
    let kinds: Vec<Value> =
        err.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone()).collect();
    assert!(kinds.contains(&json!("job_started")) && kinds.contains(&json!("compaction_completed")), "{err}");

    let plans = bench.run(&["log", "busy", "--plans"]).ended(0).out;
    assert!(plans.contains("ladder@1") && plans.contains("m2 to m"), "{plans}");
    let events = bench.run(&["log", "busy", "--events"]).ended(0).out;
    assert!(events.contains("compaction_completed"), "{events}");
    let log = bench.run(&["log", "busy", "--json"]).ended(0).json();
    assert_eq!(log["messages"][1]["left"], true, "{log}");
    let last = log["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["left"], false, "{log}");
    let found = bench.run(&["recall", "busy", "Request 0 module_0", "--json"]).ended(0).json();
    assert!(found["found"]["hits"][0]["reference"].as_str().unwrap().starts_with('m'), "{found}");
    bench.run(&["store", "check"]).ended(0);
}

#[test]
fn an_import_that_was_killed_goes_on_where_it_stopped() {
    let line =
        |at: usize| json!({"role": "user", "content": format!("{at} {}", "words of a story ".repeat(60))}).to_string();
    let lines: String = (0..3000).map(|at| line(at) + "\n").collect();
    let bench = Bench::new().holding("story.jsonl", &lines);
    for wait_ms in [50, 200, 400, 800] {
        let mut child = bench.start(&["import", "story.jsonl"]);
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    bench.run(&["import", "story.jsonl"]).ended(0);
    assert!(bench.run(&["export", "story"]).ended(0).out == lines);
    let listed = bench.run(&["threads", "--json"]).ended(0).json();
    assert_eq!(listed["threads"][0]["messages"], 3000);
    bench.run(&["store", "check"]).ended(0);
}
