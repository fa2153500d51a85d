//! The store behind the program: what goes in comes out, is found, and is looked after.

#![allow(clippy::unwrap_used)]

mod bench;

use std::fs;
use std::path::{Path, PathBuf};

use bench::Bench;
use insta::assert_snapshot;
use serde_json::Value;

const FIXTURES: [&str; 9] = [
    "threads/chat.json",
    "threads/chat.jsonl",
    "threads/responses.json",
    "threads/anthropic.json",
    "threads/ai-sdk.json",
    "sessions/pi-events.jsonl",
    "sessions/pi-tree.jsonl",
    "sessions/codex.jsonl",
    "sample/session.jsonl",
];

fn name(fixture: &str) -> &str {
    fixture.rsplit('/').next().unwrap()
}

fn fixtures() -> Bench {
    FIXTURES.iter().fold(Bench::new(), |bench, fixture| bench.with(fixture))
}

/// Files of `../shared/data`, where there are any: the first of each folder.
fn recordings() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let files = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
        files.sort();
        files
    };
    let folders = fs::read_dir(&data).into_iter().flatten().flatten().map(|entry| entry.path());
    let inner = folders.flat_map(|folder| {
        let deeper = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        deeper.filter(|path| path.is_dir()).chain([folder.clone()]).collect::<Vec<_>>()
    });
    inner.flat_map(|folder| files(folder).into_iter().take(3)).collect()
}

fn thread_of(imported: &Value) -> String {
    imported["imported"][0]["thread"].as_str().unwrap().to_owned()
}

#[test]
fn what_was_imported_is_exported_byte_for_byte() {
    let bench = fixtures();
    for fixture in FIXTURES {
        let file = name(fixture);
        let id = file.replace('.', "_");
        bench.run(&["import", file, "--thread", &id]).ended(0);
        bench.run(&["export", &id, "-o", "back", "--overwrite"]).ended(0);
        assert!(bench.text(file) == bench.text("back"), "{file}");
        assert!(bench.run(&["export", &id]).ended(0).out == bench.text(file), "{file}");
    }
    for (at, path) in recordings().iter().enumerate() {
        let (id, path) = (format!("recording-{at}"), path.to_str().unwrap());
        // Not every file there is a session.
        if bench.run(&["count", path]).code == 0 {
            bench.run(&["import", path, "--thread", &id]).ended(0);
            bench.run(&["export", &id, "-o", "back", "--overwrite"]).ended(0);
            assert!(fs::read(path).unwrap() == fs::read(bench.path("back")).unwrap(), "{path}");
        }
    }
}

#[test]
fn a_file_that_is_too_large_for_a_document_is_an_artifact_and_comes_back_whole() {
    let message = |at: usize| format!("{{\"role\":\"user\",\"content\":\"{at} {}\"}}", "zebra ".repeat(400));
    let lines: String = (0..600).map(|at| message(at) + "\n").collect();
    assert!(lines.len() > 1 << 20);
    let bench = Bench::new().holding("large.jsonl", &lines);
    bench.run(&["import", "large.jsonl"]).ended(0);
    assert!(bench.run(&["export", "large"]).ended(0).out == lines);
    let kept = bench.shell("find .local/share/epitome/artifacts -type f | wc -l").ended(0).out;
    assert_eq!(kept.trim(), "1");
}

#[test]
fn a_file_is_imported_once_and_another_one_does_not_take_its_thread() {
    let bench = Bench::new().with("threads/chat.json").with("threads/chat.jsonl");
    bench.run(&["import", "chat.json"]).ended(0);
    let again = bench.run(&["import", "chat.json"]).ended(0);
    assert_snapshot!(again.out, @"chat.json is in the store already, as thread chat; nothing to do.
");
    assert_snapshot!(bench.run(&["import", "chat.jsonl"]).whole(), @r"
    exit 4
    --- stdout
    --- stderr
    error: chat.jsonl: thread chat exists already, with other content.
    hint: Choose another id with `--thread`.
    ");
    bench.run(&["import", "chat.jsonl", "--thread", "lines"]).ended(0);
    let listed = bench.run(&["threads", "--json"]).ended(0).json();
    assert_eq!(listed["count"], 2);
}

#[test]
fn recall_finds_passages_of_an_imported_thread_with_their_numbers() {
    let bench = Bench::new().with("sample/session.jsonl");
    let id = thread_of(&bench.run(&["import", "session.jsonl", "--json"]).ended(0).json());
    let log = bench.run(&["log", &id, "--limit", "1", "--json"]).ended(0).json();
    let said = log["messages"][0]["text"].as_str().unwrap();
    let found = bench.run(&["recall", &id, said, "--json"]).ended(0).json();
    assert_eq!(found["found"]["hits"][0]["reference"], "m1", "{found}");
    let few = bench.run(&["recall", &id, said, "--tokens", "60", "--json"]).ended(0).json();
    assert!(few["found"]["tokens"].as_u64().unwrap() <= 60, "{few}");
    let none = bench.run(&["recall", &id, "xylophone"]).ended(0);
    assert!(none.out.starts_with("No indexed message"), "{}", none.out);
}

#[test]
fn a_thread_is_shown_by_lines_and_as_json_lines() {
    let bench = Bench::new().with("threads/chat.json");
    bench.run(&["import", "chat.json"]).ended(0);
    assert_snapshot!(bench.run(&["log", "chat", "--from", "m2", "--limit", "3"]).whole());
    assert_snapshot!(bench.run(&["log", "chat", "--plans"]).ended(0).out);
    let lines = bench.run(&["export", "chat", "--format", "jsonl"]).ended(0).out;
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((first["place"].as_u64(), first["role"].as_str()), (Some(0), Some("system")));
    assert!(bench.text("chat.json").contains(first["raw"].as_str().unwrap()));
    assert_eq!(lines.lines().count(), 18);
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_looking() {
    let bench = Bench::new();
    for words in [&["threads"][..], &["log", "x"], &["recall", "x", "y"], &["export", "x"]] {
        let run = bench.run(&[words, &["--store", "sqlite:none.db"]].concat()).ended(3);
        assert!(run.err.contains("There is no store at") && run.err.contains("hint:"), "{}", run.err);
    }
    assert!(bench.names().is_empty(), "{:?}", bench.names());
    bench.run(&["import", "none.json", "--store", "nosuch:x"]).ended(2);
}

#[test]
fn tenants_do_not_see_each_other() {
    let bench = Bench::new().with("threads/chat.json");
    bench.run(&["import", "chat.json", "--tenant", "acme"]).ended(0);
    assert_eq!(bench.run(&["threads", "--json"]).ended(0).json()["count"], 0);
    bench.run(&["export", "chat"]).ended(2);
    assert_eq!(bench.run(&["threads", "--tenant", "acme", "--json"]).ended(0).json()["count"], 1);
}

#[test]
fn config_show_says_where_each_value_came_from_and_no_secret() {
    let toml = "[model]\nkey = \"sk-hidden\"\n\n[jobs]\nlease_s = 60\n";
    let bench = Bench::new().holding("epitome.toml", toml);
    bench.run(&["config", "trust"]).ended(0);
    let variables = [("EPITOME_JOBS_ATTEMPTS", "7")];
    let shown = bench.run_with(&variables, &["config", "show"]).ended(0);
    assert!(!shown.out.contains("sk-hidden"));
    let json = bench.run_with(&variables, &["config", "show", "--json"]).ended(0).json();
    let from = |key: &str| {
        let settings = json["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["setting"] == key).unwrap();
        (found["value"].clone(), found["from"].clone())
    };
    assert_eq!(from("jobs.lease_s").0, "60");
    assert_eq!(from("jobs.lease_s").1["line"], 5);
    assert_eq!(from("jobs.attempts").1["variable"], "EPITOME_JOBS_ATTEMPTS");
    assert_eq!(from("model.key").0, "***");
    assert_eq!(from("policy.name"), ("ladder".into(), "default".into()));
}

#[test]
fn a_wrong_setting_is_named_with_its_file_and_line() {
    let bench = Bench::new().holding("other.toml", "[store]\n\n[jobs]\nleas_s = 60\n");
    let run = bench.run(&["config", "show", "--config", "other.toml"]).ended(2);
    assert!(run.err.contains("other.toml, line 4") && run.err.contains("jobs.leas_s"), "{}", run.err);
    assert!(run.err.contains("did you mean `jobs.lease_s`?"), "{}", run.err);
    bench.run(&["threads", "--config", "nowhere.toml"]).ended(3);
}
