//! `epitome models`: windows are listed with where they are from, and what was learned is forgotten on request.

#![allow(clippy::unwrap_used)]

mod bench;

use std::sync::Arc;

use bench::Bench;
use epitome::budget::Tokens;
use epitome_runtime::engine::{Clock, Engine, EngineParts, EngineSettings};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::model::{ServedModel, Usage};
use epitome_runtime::store::SqliteStore;
use serde_json::{Value, json};

const STORE: [&str; 2] = ["--store", "sqlite:threads.db"];

/// A store in which two tenants' requests taught something of two models.
fn taught() -> Bench {
    let bench = Bench::new();
    let store = Arc::new(SqliteStore::open(bench.path("threads.db")).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let parts = EngineParts { store, ..EngineParts::in_memory(EngineSettings::default()) };
        let now = Moment::now();
        let engine = Engine::new(parts).await.unwrap().with_clock(Clock::new(move || now));
        for (tenant, upstream, model) in [
            ("acme", "http://127.0.0.1:4020", "local-1"),
            ("acme", "http://127.0.0.1:4021", "local-1"),
            ("bolt", "http://127.0.0.1:4020", "local-1"),
            ("bolt", "http://127.0.0.1:4020", "local-2"),
        ] {
            let served = ServedModel::new(tenant.parse().unwrap(), upstream, model);
            let thread: ThreadId = "t".parse().unwrap();
            engine.learn(&served, |lesson| lesson.hold(Tokens::new(32_000), &thread, false, now)).await;
            let usage = Usage { input: 1250, ..Usage::default() };
            engine.learn(&served, |lesson| lesson.accept(Tokens::new(1000), &usage)).await;
        }
    });
    bench
}

/// The tenant, the upstream and the model of everything that is learned.
fn learned(bench: &Bench) -> Vec<(String, String, String)> {
    let out = bench.run(&[&["models", "--json"][..], &STORE].concat()).ended(0).out;
    let list: Value = serde_json::from_str(&out).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let models = list["models"].as_array().unwrap().iter().filter(|model| model["from"] == "learned");
    let mut all: Vec<_> =
        models.map(|model| (text(&model["tenant"]), text(&model["upstream"]), text(&model["model"]))).collect();
    all.sort();
    all
}

#[test]
fn a_window_is_listed_with_where_it_is_from() {
    let bench = taught();
    let list: Value = serde_json::from_str(
        &bench.run(&[&["models", "--tenant", "acme", "--json"][..], &STORE].concat()).ended(0).out,
    )
    .unwrap();
    let models = list["models"].as_array().unwrap();
    let first = &models[0];
    assert_eq!(
        (&first["model"], &first["window"], &first["from"], &first["tenant"], &first["upstream"], &first["factor"]),
        (
            &json!("local-1"),
            &json!(32_000),
            &json!("learned"),
            &json!("acme"),
            &json!("http://127.0.0.1:4020"),
            &json!(1.25)
        )
    );
    assert!(first["learned"].as_str().unwrap() < first["until"].as_str().unwrap(), "{first}");
    assert_eq!(models.iter().filter(|model| model["from"] == "learned").count(), 2);
    let listed = models.iter().find(|model| model["model"] == "gpt-4o").unwrap();
    assert_eq!((&listed["window"], &listed["from"]), (&json!(128_000), &json!("listed")));
    let text = bench.run(&[&["models"][..], &STORE].concat()).ended(0).out;
    for words in ["Learned from answers and refusals", "local-1", "32000", "bolt", "http://127.0.0.1:4021", "gpt-4o"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn windows_are_known_without_a_store_and_a_configured_one_is_named() {
    let bench = Bench::new().holding("epitome.toml", "[model]\nname = \"mine\"\nwindow = 5000\n");
    let words = ["models", "--json", "--config", "epitome.toml", "--store", "sqlite:absent.db"];
    let list: Value = serde_json::from_str(&bench.run(&words).ended(0).out).unwrap();
    let first = &list["models"][0];
    assert_eq!(first, &json!({"model": "mine", "window": 5000, "from": "configured"}));
    assert!(!bench.path("absent.db").exists());
}

#[test]
fn a_reset_forgets_what_was_asked_for_and_nothing_else() {
    let all = learned(&taught());
    assert_eq!(all.len(), 4);
    for (words, left) in [
        (&["models", "reset"][..], &[][..]),
        (&["models", "reset", "local-2"], &[0, 1, 2]),
        (&["models", "reset", "local-1", "--tenant", "acme"], &[2, 3]),
        (&["models", "reset", "--upstream", "http://127.0.0.1:4020/"], &[1]),
        (&["models", "reset", "no-such"], &[0, 1, 2, 3]),
    ] {
        let bench = taught();
        let out = bench.run(&[words, &STORE].concat()).ended(0).out;
        let expected: Vec<_> = left.iter().map(|at: &usize| all[*at].clone()).collect();
        assert_eq!(learned(&bench), expected, "{words:?}: {out}");
        assert_eq!(out.contains("nothing was changed"), left.len() == 4, "{out}");
    }
}

#[test]
fn a_reset_of_a_store_that_is_not_there_says_so() {
    let run = Bench::new().run(&["models", "reset", "--store", "sqlite:absent.db"]).ended(3);
    assert!(run.err.contains("There is no store at"), "{}", run.err);
}
