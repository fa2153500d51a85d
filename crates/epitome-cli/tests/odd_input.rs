//! Odd input is carried and reported; bad input gets a sentence, an exit code, and an untouched file.

#![allow(clippy::unwrap_used)]

mod bench;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use bench::Bench;
use insta::assert_snapshot;
use serde_json::json;

const BUDGET: [&str; 2] = ["--budget", "1500"];

fn pi(name: &str) -> Bench {
    Bench::new().with(&format!("sessions/{name}"))
}

fn compact(bench: &Bench, name: &str) -> bench::Run {
    bench.run(&[&["compact", name], &BUDGET[..]].concat())
}

#[test]
fn a_half_written_last_line_is_carried_and_reported() {
    let bench = pi("pi-events.jsonl");
    let text = bench.text("pi-events.jsonl") + r#"{"type":"message","timest"#;
    let bench = bench.holding("pi-events.jsonl", &text);
    let run = compact(&bench, "pi-events.jsonl").ended(0);
    assert!(run.out.contains("Line 19 is half-written"), "{}", run.out);
    assert!(bench.text("pi-events.jsonl").starts_with(&text));
    assert!(bench.run(&["show", "pi-events.jsonl"]).ended(0).out.contains("compactions"));
}

#[test]
fn what_is_odd_is_named_and_kept() {
    let bench = pi("pi-tree.jsonl");
    let odd = [
        json!({"type": "telemetry", "id": "ab0000f0", "parentId": "ab000010", "data": [1, 2]}),
        json!({"type": "message", "id": "ab0000f1", "parentId": "ab0000f0", "message": {"role": "oracle", "content": "beware"}}),
        json!({"type": "message", "id": "ab0000f1", "parentId": "ab0000f0", "message": {"role": "user", "content": "go on"}}),
        json!({"type": "message", "id": "ab0000f2", "parentId": "ab0000f1", "message": {"role": "toolResult", "toolCallId": "nobody", "toolName": "x", "content": [], "isError": false}}),
        json!({"type": "message", "id": "ab0000f3", "parentId": "ab0000f2", "message": {"role": "assistant", "content": []}}),
        json!({"type": "message", "id": "ab0000f4", "parentId": "ab0000f3", "message": {"role": "assistant", "content": [{"type": "toolCall", "id": "open", "name": "wait", "arguments": {}}]}}),
    ];
    let text = bench.text("pi-tree.jsonl") + &odd.map(|line| format!("{line}\n")).concat();
    let bench = bench.holding("pi-tree.jsonl", &text);
    assert_snapshot!(bench.run(&["count", "pi-tree.jsonl"]).ended(0).outline());
    compact(&bench, "pi-tree.jsonl").ended(0);
    assert!(bench.text("pi-tree.jsonl").starts_with(&text));
}

#[test]
fn a_megabyte_of_one_character_is_a_message_like_any_other() {
    let mut messages = vec![json!({"role": "user", "content": "What is this?"})];
    messages.push(json!({"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}]}));
    messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": "x".repeat(1 << 20)}));
    messages.push(json!({"role": "assistant", "content": "A lot of x."}));
    messages.push(json!({"role": "user", "content": "And then?"}));
    let bench = Bench::new().holding("x.json", json!(messages).to_string());
    let seconds = |bench: &Bench, name: &str| bench.cpu_seconds(&format!("compact {name} --budget 600 --overwrite"), 0);
    let one_character = seconds(&bench, "x.json");
    bench.run(&["check", "x.compacted.json"]).ended(0);
    assert!(bench.text("x.compacted.json").len() < 10_000);
    let words: String = (0..100_000).map(|n| format!("word{n} ")).collect();
    messages[2]["content"] = json!(words);
    let bench = bench.holding("words.json", json!(messages).to_string());
    let ratio = one_character / seconds(&bench, "words.json");
    assert!(ratio < 10.0, "one character takes {ratio:.1} times as long as words of the same size");
}

#[test]
fn a_tool_result_of_fifty_megabytes_is_moved_out_and_read_back() {
    let line = "2026-05-01 00:00 bed 3 moisture 44 % valve shut, nothing to report\n";
    let big = line.repeat((50 << 20) / line.len() + 1);
    let messages = json!([
        {"role": "user", "content": "Read the log."},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": big},
        {"role": "assistant", "content": "Nothing to report."},
        {"role": "user", "content": "Good. What next?"},
    ]);
    let bench = Bench::new().holding("big.json", messages.to_string());
    bench.run(&["compact", "big.json", "--model", "gpt-4o", "--budget", "2000", "-o", "small.json"]).ended(0);
    assert!(bench.text("small.json").len() < 20_000);
    let back = bench.run(&["read", "small.json", "m3"]).ended(0).out;
    assert_eq!(back.len(), big.len());
}

#[test]
fn truncated_json_is_refused_with_its_place() {
    let bench = Bench::new().with("threads/chat.json");
    let half: String = bench.text("chat.json").chars().take(2000).collect();
    let bench = bench.holding("half.json", half);
    assert_snapshot!(compact(&bench, "half.json").whole());
    assert_snapshot!(bench.run(&["compact", "half.json", "--json"]).ended(3).whole());
    assert_eq!(bench.names(), ["chat.json", "half.json"]);
}

#[test]
fn a_bad_line_in_the_middle_is_refused_with_its_number_or_skipped() {
    for name in ["sessions/pi-tree.jsonl", "threads/chat.jsonl", "sample/session.jsonl"] {
        let bench = Bench::new().with(name);
        let file = name.split('/').next_back().unwrap();
        let mut lines: Vec<String> = bench.text(file).lines().map(str::to_owned).collect();
        lines.insert(4, "{\"oops\": ".to_owned());
        let text = lines.join("\n") + "\n";
        let bench = bench.holding(file, &text);
        let refused = compact(&bench, file).ended(3);
        assert!(refused.err.contains("line 5") && refused.err.contains("--skip-bad-lines"), "{}", refused.err);
        assert_eq!(bench.text(file), text);
        let run = bench
            .run(&["compact", file, "--skip-bad-lines", "--budget", "6000", "-o", "out", "--force", "--overwrite"])
            .ended(0);
        assert!(run.out.contains("Line 5 is not JSON"), "{}", run.out);
        assert!(bench.text("out").contains("{\"oops\":"), "{name}: {}", bench.text("out"));
    }
}

#[test]
fn a_budget_below_the_floor_is_refused_with_the_floor() {
    let files = [
        "threads/chat.json",
        "threads/anthropic.json",
        "threads/responses.json",
        "threads/ai-sdk.json",
        "prompts/thinking.json",
        "prompts/long-turn.json",
        "sessions/codex.jsonl",
        "sessions/pi-events.jsonl",
        "sessions/pi-tree.jsonl",
        "sample/session.jsonl",
    ];
    for file in files {
        let bench = Bench::new().with(file);
        let name = file.rsplit('/').next().unwrap();
        let before = bench.text(name);
        let error = bench.run(&["compact", name, "--budget", "10", "--json"]).ended(4).json();
        let facts = &error["error"]["facts"];
        let floor = facts["floor"].as_u64().unwrap();
        assert!(Some(floor) > facts["limit"].as_u64(), "{error}");
        let parts = facts["parts"].as_array().unwrap().iter().map(|part| part["tokens"].as_u64().unwrap());
        let parts: u64 = parts.sum();
        assert!(parts <= floor && parts * 2 > floor, "{file}: {error}");
        let hint = error["error"]["hint"].as_str().unwrap();
        assert!(hint.contains(&format!("`--budget {floor}`")), "{file}: {error}");
        assert_eq!((bench.names(), bench.text(name)), (vec![name.to_owned()], before));
        for verb in ["plan", "diff"] {
            let said = bench.run(&[verb, name, "--budget", "10"]).ended(4);
            assert!(said.out.contains("the least is"), "{file}, {verb}: {}", said.out);
        }
        // The floor that is named can be reached.
        bench.run(&["compact", name, "--budget", &floor.to_string(), "-o", "small", "--overwrite"]).ended(0);
    }
}

#[test]
fn what_is_there_often_does_not_hide_what_is_there_once() {
    let call = |n: usize| {
        format!(
            "{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{{\"id\":\"c{n}\",\"type\":\"function\",\"function\":{{\"name\":\"ls\",\"arguments\":\"{{}}\"}}}}]}}\n"
        )
    };
    let calls: String = (0..20).map(call).collect();
    let bench =
        Bench::new().holding("l.jsonl", format!("{{\"role\":\"user\",\"content\":\"go\"}}\n{calls}{{\"role\":\"us"));
    let shown = bench.run(&["show", "l.jsonl"]).ended(0);
    assert!(shown.out.contains("Line 22 is half-written"), "{}", shown.out);
}

#[test]
fn what_cannot_be_read_gets_a_sentence() {
    let bench = Bench::new()
        .holding("latin.jsonl", b"{\"role\": \"user\",\n \"content\": \"gr\xfcn\"}")
        .holding("empty.json", "")
        .holding("prose.txt", "Dear diary,\n");
    fs::create_dir(bench.path("folder")).unwrap();
    for name in ["nowhere.jsonl", "folder", "latin.jsonl", "empty.json", "prose.txt"] {
        insta::with_settings!({snapshot_suffix => name}, {
            assert_snapshot!(bench.run(&["count", name]).ended(3).whole());
        });
    }
}

#[test]
fn what_cannot_be_written_leaves_the_file_as_it_was() {
    let bench = pi("pi-tree.jsonl");
    fs::create_dir(bench.path("folder")).unwrap();
    let before = bench.text("pi-tree.jsonl");
    for place in ["folder", "/dev/full", "no/such/folder/out.jsonl", "/proc/version/x"] {
        let run = bench.run(&["compact", "pi-tree.jsonl", "--budget", "1500", "-o", place]).ended(5);
        assert!(run.err.contains("cannot be written") && run.err.contains("hint:"), "{}", run.err);
        assert_eq!(bench.text("pi-tree.jsonl"), before);
    }
    assert_eq!(bench.shell("epitome show pi-tree.jsonl > /dev/full").code, 5);
    let store = bench.run(&["compact", "pi-tree.jsonl", "--budget", "1500", "--artifacts", "/dev/null/x"]).ended(5);
    assert!(store.err.contains("/dev/null/x cannot be written"), "{}", store.err);
    assert_eq!(bench.text("pi-tree.jsonl"), before);
}

/// A limit on file sizes stands for a full disk: the write fails half-way, with an error or with a signal.
#[test]
fn a_write_that_breaks_off_leaves_the_file_as_it_was() {
    for (trap, code) in [("trap '' XFSZ;", 5), ("", 128 + 25)] {
        let bench = Bench::new().with("sample/session.jsonl");
        bench.run(&["compact", "session.jsonl", "--budget", "9000", "-o", "elsewhere.jsonl"]).ended(0);
        let before = bench.text("session.jsonl");
        // The objects are there already; 512 blocks hold less than the session.
        let line = format!("{trap} ulimit -c 0; ulimit -f 400; epitome compact session.jsonl --budget 9000; exit $?");
        let run = bench.shell(&line);
        assert_eq!(run.code, code, "{}", run.whole());
        assert_eq!(bench.text("session.jsonl"), before);
    }
}

#[test]
fn a_killed_run_leaves_the_old_file_or_the_new_one() {
    let whole = Bench::new().with("sample/session.jsonl");
    let before = whole.text("session.jsonl");
    whole.run(&["compact", "session.jsonl", "--budget", "9000"]).ended(0);
    let after = whole.text("session.jsonl");
    for wait_ms in [0, 20, 40, 60, 80, 100, 130, 160, 200, 250, 300, 400] {
        let bench = Bench::new().with("sample/session.jsonl");
        let mut child = bench.start(&["compact", "session.jsonl", "--budget", "9000"]);
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = bench.text("session.jsonl");
        assert!(now == before || now == after, "after {wait_ms} ms: {} bytes", now.len());
    }
}

#[test]
fn links_are_followed_and_permissions_kept() {
    let bench = pi("pi-tree.jsonl");
    fs::set_permissions(bench.path("pi-tree.jsonl"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("pi-tree.jsonl", bench.path("link.jsonl")).unwrap();
    compact(&bench, "link.jsonl").ended(0);
    assert!(bench.path("link.jsonl").is_symlink());
    assert!(bench.text("pi-tree.jsonl").contains("\"compaction\""));
    assert_eq!(fs::metadata(bench.path("pi-tree.jsonl")).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_wrong_command_line_is_a_usage_error_for_people_and_programs() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["compact"]).code, 2);
    assert_snapshot!(bench.run(&["compress", "x", "--json"]).whole());
    assert_snapshot!(bench.run(&["count", "x", "--model", "gpt-4o", "--tokenizer", "o200k"]).whole());
}
