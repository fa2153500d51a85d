//! A store that is locked, damaged, gone or not there: verbs say so and end, and a gateway serves without it and recovers.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]
#![cfg(unix)]

mod bench;
mod serving;

use std::time::Instant;

use bench::Bench;
use rusqlite::Connection;
use serving::{LONG, Serving};

/// How another process has the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// Nobody else may write.
    Writes,
    /// Nobody else may do anything.
    All,
}

/// Locks a store until it is dropped.
fn lock(bench: &Bench, lock: Lock) -> Connection {
    let conn = Connection::open(bench.path("threads.db")).unwrap();
    if lock == Lock::All {
        conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
    }
    conn.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS theirs (x); INSERT INTO theirs VALUES (1);")
        .unwrap();
    conn
}

fn with_store() -> Bench {
    let bench = Bench::new().holding("talk.json", r#"[{"role":"user","content":"Where is my order?"}]"#);
    bench.run(&["import", "talk.json", "--store", "sqlite:threads.db"]).ended(0);
    bench
}

#[test]
fn every_verb_on_a_locked_store_ends_with_a_sentence_or_does_what_needs_no_lock() {
    let reading: [&[&str]; 6] = [
        &["threads"],
        &["log", "talk"],
        &["export", "talk"],
        &["ledger"],
        &["recall", "talk", "order"],
        &["store", "check"],
    ];
    let writing: [&[&str]; 2] = [&["import", "talk.json", "--thread", "other"], &["store", "vacuum"]];
    for kind in [Lock::Writes, Lock::All] {
        let bench = with_store();
        let _locked = lock(&bench, kind);
        std::thread::scope(|scope| {
            for verb in reading.iter().chain(&writing) {
                let (bench, needs_lock) = (&bench, kind == Lock::All || writing.contains(verb));
                scope.spawn(move || {
                    let words = [*verb, &["--store", "sqlite:threads.db"]].concat();
                    let began = Instant::now();
                    let run = bench.run(&words);
                    assert!(began.elapsed() < LONG, "{words:?} took {:?}", began.elapsed());
                    if needs_lock {
                        assert!([3, 5].contains(&run.code), "{words:?}: {}", run.whole());
                        assert!(run.err.contains("locked by another process"), "{words:?}: {}", run.whole());
                        assert!(run.err.contains("hint: "), "{words:?}: {}", run.whole());
                    } else {
                        assert!(!run.err.contains("locked"), "{words:?}: {}", run.whole());
                    }
                });
            }
        });
    }
}

#[test]
fn a_database_that_refuses_or_says_nothing_is_told_of_and_not_waited_for() {
    let bench = Bench::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("postgres://u@{}/x", silent.local_addr().unwrap());
    for url in ["postgres://u@127.0.0.1:1/x", silent.as_str()] {
        let began = Instant::now();
        let run = bench.run(&["threads", "--store", url]).ended(3);
        assert!(began.elapsed() < LONG, "{url} took {:?}", began.elapsed());
        assert!(run.err.contains("cannot be opened") && run.err.contains("hint: "), "{}", run.err);
    }
}

#[test]
fn a_gateway_serves_on_a_store_that_is_locked_from_the_start_and_recovers_when_it_is_let_go() {
    let bench = with_store();
    let locked = lock(&bench, Lock::All);
    let serving = Serving::start(&bench, "sqlite:threads.db");
    for _ in 0..3 {
        let answer = serving.talk(&["Is anybody there?"]);
        assert!(answer.contains("x-epitome-failed-open: store"), "{answer}");
    }
    let is_locked = ("degraded".to_owned(), false, "is locked by another process".to_owned());
    serving.wait_until("that it is locked", |serving| serving.readiness() == is_locked);
    serving.wait_until("a warning", |serving| serving.said.lock().unwrap().contains("failed to open the store"));
    drop(locked);
    serving.keeps("Now somebody is.");
    assert!(serving.said.lock().unwrap().contains("the store is open again"), "{}", serving.said.lock().unwrap());
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn a_gateway_whose_store_takes_no_writes_says_so_and_writes_down_later_what_came() {
    let bench = with_store();
    let serving = Serving::start(&bench, "sqlite:threads.db");
    serving.keeps("Before.");
    let locked = lock(&bench, Lock::Writes);
    let words = "While nobody may write.";
    let answer = serving.talk(&[words]);
    let thread = answer.lines().find_map(|line| line.strip_prefix("x-epitome-thread: ")).map(str::to_owned);
    let is_locked = ("degraded".to_owned(), false, "is locked by another process".to_owned());
    serving.wait_until("that it is locked", |serving| serving.readiness() == is_locked);
    drop(locked);
    if let Some(thread) = thread {
        let path = format!("/api/threads/{thread}/messages");
        serving.wait_until("what came meanwhile", |serving| serving.ask("GET", &path, "").contains(words));
    }
    serving.keeps("Afterwards.");
}

#[test]
fn a_gateway_serves_without_a_store_that_cannot_be_opened_and_says_what_is_wrong() {
    let damaged = Bench::new().holding("threads.db", "This is not a database. ".repeat(100));
    let newer = with_store();
    Connection::open(newer.path("threads.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let no_folder = Bench::new().holding("file", "not a folder");
    let cases = [
        (&damaged, "sqlite:threads.db", "is damaged"),
        (&newer, "sqlite:threads.db", "was written by a newer version of this program"),
        (&no_folder, "sqlite:file/threads.db", "cannot be reached"),
        (&no_folder, "postgres://u@127.0.0.1:1/x", "cannot be reached"),
    ];
    for (bench, store, detail) in cases {
        let serving = Serving::start(bench, store);
        let answer = serving.talk(&["Is anybody there?"]);
        assert!(answer.contains("x-epitome-failed-open: store"), "{store}: {answer}");
        serving.wait_until(detail, |serving| serving.readiness() == ("degraded".to_owned(), false, detail.to_owned()));
        let warnings = |serving: &Serving| serving.said.lock().unwrap().matches("failed to open the store").count();
        serving.wait_until("a warning", |serving| warnings(serving) > 0);
        assert_eq!(warnings(&serving), 1, "{store}: {}", serving.said.lock().unwrap());
        assert!(serving.ask("GET", "/api/threads", "").starts_with("HTTP/1.1 5"), "{store}");
        assert_eq!(serving.end(), Some(0), "{store}");
    }
    // One that is made well is used without a word to the gateway.
    let serving = Serving::start(&damaged, "sqlite:threads.db");
    std::fs::remove_file(damaged.path("threads.db")).unwrap();
    serving.keeps("A store at last.");
}

#[test]
fn a_store_whose_file_is_deleted_is_noticed_and_everything_is_written_to_a_new_one() {
    let bench = Bench::new();
    let serving = Serving::start(&bench, "sqlite:threads.db");
    serving.keeps("Before.");
    for name in ["threads.db", "threads.db-wal", "threads.db-shm"] {
        let _ = std::fs::remove_file(bench.path(name));
    }
    serving.talk(&["Before.", "Yes?", "After."]);
    serving.keeps("Another one.");
    let said = serving.said.lock().unwrap().clone();
    assert!(said.contains("was deleted or replaced") && said.contains("the store is open again"), "{said}");
    let last = ["Before.", "Yes?", "After.", "Well?", "The end."];
    serving.talk(&last);
    assert_eq!(serving.readiness(), ("ready".to_owned(), true, "answers".to_owned()));
    assert_eq!(serving.end(), Some(0));
    let run = bench.run(&["threads", "--json", "--store", "sqlite:threads.db"]).ended(0).json();
    let threads = run["threads"].as_array().unwrap().iter().map(|thread| thread["thread"].as_str().unwrap());
    let exported: Vec<String> =
        threads.map(|thread| bench.run(&["export", thread, "--store", "sqlite:threads.db"]).ended(0).out).collect();
    assert!(exported.iter().any(|out| last.iter().all(|words| out.contains(words))), "{exported:#?}");
}

#[test]
fn a_store_that_is_sealed_with_a_key_that_is_not_configured_is_refused_and_not_served_without() {
    let bench = Bench::new().holding("talk.json", r#"[{"role":"user","content":"Where is my order?"}]"#);
    let key = format!("spring:{}", "1".repeat(64));
    let sealed =
        [("EPITOME_STORE_URL", "sqlite:threads.db"), ("EPITOME_KEYS_CURRENT", "env:KEY"), ("KEY", key.as_str())];
    bench.run_with(&sealed, &["import", "talk.json"]).ended(0);
    let run = bench.run_with(&sealed[..1], &["serve", "--listen", "127.0.0.1:0"]).ended(3);
    assert!(run.err.contains("spring") && run.err.contains("keys.current"), "{}", run.whole());
}

#[test]
fn what_is_wrong_with_the_configuration_is_still_said_before_it_listens() {
    let bench = Bench::new().holding("threads.db", "This is not a database. ".repeat(100));
    let store = ("EPITOME_STORE_URL", "sqlite:threads.db");
    let cases = [
        (("EPITOME_STORE_URL", "postgres://u@127.0.0.1/x?sslmode=odd"), "the address is wrong"),
        (("EPITOME_KEYS_CURRENT", "env:NONE"), "the environment variable NONE"),
        (("EPITOME_SERVE_PERSIST", "sometimes"), "before-answer"),
        (("EPITOME_POLICY_PATH", "none.toml"), "none.toml"),
    ];
    for (variable, expected) in cases {
        let run = bench.run_with(&[store, variable], &["serve", "--listen", "127.0.0.1:0"]);
        assert!(run.code != 0 && run.err.contains(expected), "{variable:?}: {}", run.whole());
    }
}
