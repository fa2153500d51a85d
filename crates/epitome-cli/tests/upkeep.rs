//! Looking after the store: damage is found and named, keys are changed and nothing is left in the open.

#![allow(clippy::unwrap_used)]

mod bench;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use bench::{Bench, Run};
use serde_json::Value;

const CANARY: &str = "quetzalcoatlus";
const DB: &str = ".local/share/epitome/epitome.db";

/// A thread of a store that is not sealed, a large one whose file is an artifact, and a compaction's plan in neither.
fn plain() -> Bench {
    let small = format!("[{{\"role\":\"user\",\"content\":\"the {CANARY} flies\"}}]");
    let line = |at: usize| format!("{{\"role\":\"user\",\"content\":\"{at} {}\"}}\n", format!("{CANARY} ").repeat(120));
    let large: String = (0..700).map(line).collect();
    assert!(large.len() > 1 << 20);
    let bench = Bench::new().holding("small.json", small).holding("large.jsonl", large);
    bench.run(&["import", "small.json", "large.jsonl"]).ended(0);
    bench
}

fn keyed(bench: Bench) -> Bench {
    let key = |name: &str, digit: &str| format!("{name}:{}\n", digit.repeat(64));
    bench.holding("one.key", key("one", "1")).holding("two.key", key("two", "2"))
}

const ONE: [(&str, &str); 1] = [("EPITOME_KEYS_CURRENT", "file:one.key")];
const BOTH: [(&str, &str); 2] = [("EPITOME_KEYS_CURRENT", "file:two.key"), ("EPITOME_KEYS_OLDER", "file:one.key")];
const TWO: [(&str, &str); 1] = [("EPITOME_KEYS_CURRENT", "file:two.key")];

/// The files of the store that hold a word.
fn holding(bench: &Bench, word: &str) -> Vec<String> {
    fn walk(folder: &Path, word: &[u8], found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, word, found);
            } else if fs::read(&path).unwrap().windows(word.len()).any(|window| window == word) {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(&bench.path(".local/share/epitome"), word.as_bytes(), &mut found);
    found
}

fn opens(bench: &Bench, variables: &[(&str, &str)]) {
    let file = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    assert!(bench.run_with(variables, &["export", "small"]).ended(0).out == file("small.json"));
    assert!(bench.run_with(variables, &["export", "large"]).ended(0).out == file("large.jsonl"));
    let lines = bench.run_with(variables, &["export", "large", "--format", "jsonl"]).ended(0).out;
    assert_eq!(lines.lines().count(), 700);
}

fn still_there(bench: &Bench, variables: &[(&str, &str)]) {
    opens(bench, variables);
    let found = bench.run_with(variables, &["recall", "small", CANARY, "--json"]).ended(0).json();
    assert_eq!(found["found"]["hits"][0]["reference"], "m1", "{found}");
    let checked = bench.run_with(variables, &["store", "check"]).ended(0);
    assert!(checked.out.contains("No errors found."), "{}", checked.out);
}

#[test]
fn after_a_rotation_nothing_that_was_said_is_in_the_open_and_the_old_key_is_not_needed() {
    let bench = keyed(plain());
    assert!(holding(&bench, CANARY).len() >= 2, "the store was not sealed");
    let run = bench.run_with(&ONE, &["store", "rotate"]).ended(0);
    assert!(run.out.starts_with("Sealed with the key one: 701 messages,"), "{}", run.out);
    assert_eq!(holding(&bench, CANARY), [""; 0]);
    still_there(&bench, &ONE);
    bench.run_with(&BOTH, &["store", "rotate"]).ended(0);
    still_there(&bench, &TWO);
    assert_eq!(holding(&bench, CANARY), [""; 0]);
    let closed = bench.run_with(&ONE, &["export", "small"]).ended(3);
    assert!(closed.err.contains("the key two, which is not configured"), "{}", closed.err);
    let again = bench.run_with(&TWO, &["store", "rotate", "--json"]).ended(0).json();
    for what in ["messages", "documents", "artifacts", "indexed"] {
        assert_eq!(again[what], 0, "{what} of {again}");
    }
}

#[test]
fn a_rotation_that_is_killed_goes_on_where_it_stopped() {
    let bench = keyed(plain());
    for wait_ms in [5, 20, 60, 150] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_epitome"))
            .args(["store", "rotate"])
            .current_dir(bench.path(""))
            .env("HOME", bench.path(""))
            .env("EPITOME_KEYS_CURRENT", "file:one.key")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        // What was indexed in the open is found again when its thread has been sealed.
        opens(&bench, &ONE);
    }
    bench.run_with(&ONE, &["store", "rotate"]).ended(0);
    still_there(&bench, &ONE);
    assert_eq!(holding(&bench, CANARY), [""; 0]);
}

#[test]
fn rotation_without_a_key_is_a_usage_error() {
    let run = plain().run(&["store", "rotate"]).ended(2);
    assert!(run.err.contains("No key is configured") && run.err.contains("keys.current"), "{}", run.err);
}

#[test]
fn with_a_key_from_the_start_nothing_is_ever_in_the_open() {
    let content = format!("[{{\"role\":\"user\",\"content\":\"the {CANARY} flies\"}}]");
    let bench = keyed(Bench::new().holding("small.json", content));
    bench.run_with(&ONE, &["import", "small.json"]).ended(0);
    assert_eq!(holding(&bench, CANARY), [""; 0]);
}

/// Runs SQL on the store, behind its back.
fn damage(bench: &Bench, sql: &str) {
    let script = format!(
        "import sqlite3\nc = sqlite3.connect('{}')\nc.execute(\"\"\"{sql}\"\"\")\nc.commit()\nc.close()\n",
        bench.path(DB).display()
    );
    let done = std::process::Command::new("python3").args(["-c", &script]).status();
    assert!(done.unwrap().success(), "{sql}");
}

fn findings(run: &Run) -> Vec<String> {
    let json: Value = run.json();
    json["findings"].as_array().unwrap().iter().map(|finding| finding.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_damage_is_found_and_named() {
    let chat = "(SELECT no << 32 FROM threads WHERE thread = 'chat')";
    let cases = [
        (
            format!(
                "UPDATE messages SET body = CAST(replace(CAST(body AS TEXT), 'drying', 'frying') AS BLOB) WHERE slot = {chat} + 1"
            ),
            "Message 2 of local/chat is not the one that its id stands for.",
        ),
        (
            format!("UPDATE messages SET body = x'ff' WHERE slot = {chat} + 4"),
            "Message 5 of local/chat cannot be opened",
        ),
        (
            format!("DELETE FROM messages WHERE slot = {chat} + 7"),
            "Thread local/chat does not hold all of its messages.",
        ),
        (
            "UPDATE threads SET tip = zeroblob(32) WHERE thread = 'chat'".to_owned(),
            "Thread local/chat does not end with the message that it names as its last.",
        ),
        ("UPDATE threads SET tokens = tokens + 1 WHERE thread = 'chat'".to_owned(), "and it says"),
        ("UPDATE threads SET version = 1 WHERE thread = 'chat'".to_owned(), "Thread local/chat has no plan 1 of 1."),
        (
            "UPDATE documents SET name = 'gone' WHERE name = 'chat'".to_owned(),
            "The source document gone of local belongs to a thread that is not there.",
        ),
        ("UPDATE documents SET body = x'' WHERE name = 'chat'".to_owned(), "The source document chat of local"),
        (
            r#"UPDATE threads SET shared = '[{\"thread\":\"lost\",\"until\":3}]' WHERE thread = 'chat'"#.to_owned(),
            "Thread local/chat shares messages of lost, which is not there.",
        ),
    ];
    for (sql, expected) in cases {
        let bench = Bench::new().with("threads/chat.json").with("sessions/codex.jsonl");
        bench.run(&["import", "chat.json", "codex.jsonl"]).ended(0);
        bench.run(&["store", "check"]).ended(0);
        damage(&bench, &sql);
        let run = bench.run(&["store", "check", "--json"]).ended(1);
        let found = findings(&run);
        assert!(found.iter().any(|finding| finding.contains(expected)), "{sql}: {found:#?}");
    }
}

#[test]
fn artifacts_without_bytes_and_bytes_without_artifacts_are_found() {
    let bench = plain();
    let kept = bench.shell("find .local/share/epitome/artifacts -type f").ended(0).out;
    let kept = kept.trim();
    let other = kept.rsplit_once('/').unwrap().0.to_owned() + "/0123456789abcd";
    fs::rename(bench.path(kept), bench.path(&other)).unwrap();
    let found = findings(&bench.run(&["store", "check", "--json"]).ended(1));
    assert!(found.iter().any(|finding| finding.contains("its content is gone")), "{found:?}");
    assert!(found.iter().any(|finding| finding.contains("belongs to no artifact")), "{found:?}");
}

#[test]
fn migrate_says_from_which_schema_to_which() {
    let bench = Bench::new();
    let made = bench.run(&["store", "migrate", "--json"]).ended(0).json();
    assert_eq!((made["from"].as_u64(), made["to"].as_u64()), (Some(0), Some(4)));
    let again = bench.run(&["store", "migrate"]).ended(0).out;
    assert!(again.contains("is up to date: schema 4"), "{again}");
    damage(&bench, "PRAGMA user_version = 99");
    let newer = bench.run(&["threads"]).ended(3);
    assert!(newer.err.contains("has schema 99"), "{}", newer.err);
}

#[test]
fn vacuum_removes_what_has_expired_and_nothing_else() {
    let bench = plain();
    damage(
        &bench,
        "INSERT INTO documents (tenant, kind, name, version, at, expires, body) VALUES ('local', 'summary', 'old', 1, 1, 2, x'00')",
    );
    let json = bench.run(&["store", "vacuum", "--json"]).ended(0).json();
    assert_eq!((json["removed"].as_u64(), json["expired_artifacts"].as_u64()), (Some(1), Some(0)), "{json}");
    still_there(&bench, &[]);
}

#[test]
fn a_key_that_is_configured_and_not_used_yet_is_told_by_a_check() {
    let bench = keyed(plain());
    for (variables, key) in [(&ONE[..], "one"), (&BOTH[..], "two")] {
        let found = findings(&bench.run_with(variables, &["store", "check", "--json"]).ended(1));
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert!(finding.starts_with(&format!("Not sealed with the key {key}: 701 messages, ")), "{finding}");
        assert!(finding.contains("`epitome store rotate`"), "{finding}");
        bench.run_with(variables, &["store", "rotate"]).ended(0);
        assert_eq!(findings(&bench.run_with(variables, &["store", "check", "--json"]).ended(0)), [""; 0]);
    }
}

#[test]
fn a_missing_or_a_wrong_key_is_one_sentence() {
    let bench = keyed(plain());
    bench.run_with(&ONE, &["store", "rotate"]).ended(0);
    let bench = bench.holding("other.key", format!("one:{}\n", "7".repeat(64)));
    let other = [("EPITOME_KEYS_CURRENT", "file:other.key")];
    let missing = "The store cannot be opened: it was sealed with the key one, which is not configured.";
    let wrong = "The store cannot be opened: it was sealed with another key of the same name.";
    for (variables, sentence) in [(&[][..], missing), (&TWO[..], missing), (&other[..], wrong)] {
        for verb in [&["store", "rotate"][..], &["store", "check"], &["threads"], &["serve", "--listen", "127.0.0.1:0"]]
        {
            let run = bench.run_with(variables, verb).ended(3);
            assert!(run.err.contains(sentence) && run.err.lines().count() <= 2, "{verb:?}: {}", run.err);
            assert!(run.err.contains("hint: Name the key it was sealed with"), "{verb:?}: {}", run.err);
            assert_eq!(run.out, "", "{verb:?}");
        }
    }
    assert_eq!(holding(&bench, CANARY), [""; 0]);
    still_there(&bench, &ONE);
}

#[test]
fn what_is_kept_beside_a_threads_messages_can_be_exported() {
    let bench = plain();
    let lines = bench.run(&["export", "small", "--format", "documents"]).ended(0).out;
    let documents: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [source] = &documents[..] else { panic!("{lines}") };
    assert_eq!((source["kind"].as_str(), source["name"].as_str()), (Some("source"), Some("small")));
    assert!(source["content"].to_string().contains(CANARY), "{source}");
}
