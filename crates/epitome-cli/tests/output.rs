//! What people read in a terminal: one total for one file, rows that fit, colors on demand, and files that are not lost.

#![allow(clippy::unwrap_used)]

mod bench;

use bench::{Bench, Run};
use serde_json::{Value, json};

fn tokens(run: Run, pointer: &str) -> u64 {
    let json = run.ended(0).json();
    json.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {json}"))
}

#[test]
fn a_file_has_one_total_whichever_verb_is_asked() {
    for (file, name) in [("sample/session.jsonl", "session.jsonl"), ("threads/chat.json", "chat.json")] {
        let bench = Bench::new().with(file);
        let total = tokens(bench.run(&["show", name, "--json"]), "/tokens");
        let others = [
            tokens(bench.run(&["count", name, "--json"]), "/tokens"),
            tokens(bench.run(&["plan", name, "--budget", "2000", "--json"]), "/tokens"),
            tokens(bench.run(&["compact", name, "--budget", "2000", "--dry-run", "--json"]), "/before"),
            tokens(bench.run(&["diff", name, "--budget", "2000", "--json"]), "/tokens"),
            tokens(bench.run(&["import", name, "--store", "sqlite:s.db", "--json"]), "/imported/0/tokens"),
        ];
        assert_eq!(others, [total; 5], "{name}");
    }
}

#[test]
fn a_diff_tells_the_same_before_and_after_the_compaction() {
    for (file, name) in [("sample/session.jsonl", "session.jsonl"), ("sessions/pi-tree.jsonl", "pi-tree.jsonl")] {
        let bench = Bench::new().with(file);
        let counts = |run: Run| {
            let json = run.ended(0).json();
            ["removed", "shortened", "kept", "added"].map(|kind| json[kind]["messages"].as_u64().unwrap())
        };
        let before = counts(bench.run(&["diff", name, "--budget", "3000", "--json"]));
        bench.run(&["compact", name, "--budget", "3000"]).ended(0);
        assert_eq!(counts(bench.run(&["diff", name, "--json"])), before, "{name}");
        assert!(before[0] > 0 && before[3] == 1, "{before:?}");
    }
}

#[test]
fn the_names_in_a_diff_are_those_that_read_takes() {
    let bench = Bench::new().with("sample/session.jsonl");
    bench.run(&["compact", "session.jsonl", "--budget", "9000"]).ended(0);
    let diff = bench.run(&["diff", "session.jsonl", "--json"]).ended(0).json();
    for change in diff["changes"].as_array().unwrap().iter().step_by(17) {
        bench.run(&["read", "session.jsonl", change["message"].as_str().unwrap()]).ended(0);
    }
}

#[test]
fn an_existing_file_is_not_replaced_unless_that_was_asked_for() {
    let bench = Bench::new().with("threads/chat.json").with("sessions/pi-tree.jsonl").holding("out", "precious");
    bench.run(&["import", "chat.json", "--thread", "t", "--store", "sqlite:s.db"]).ended(0);
    let commands: [&[&str]; 4] = [
        &["compact", "chat.json", "--budget", "1500", "-o", "out"],
        &["compact", "chat.json", "-o", "out"],
        &["branch", "pi-tree.jsonl", "--at", "m1", "-o", "out"],
        &["export", "t", "--store", "sqlite:s.db", "-o", "out"],
    ];
    for command in commands {
        let refused = bench.run(command).ended(5);
        assert!(refused.err.contains("out exists already.") && refused.err.contains("--overwrite"), "{}", refused.err);
        assert_eq!(bench.text("out"), "precious");
    }
    for command in commands {
        bench.run(&[command, &["--overwrite"]].concat()).ended(0);
        assert_ne!(bench.text("out"), "precious");
    }
    // The default name is no exception, an empty file holds nothing, and a dry run writes nothing. What an earlier run wrote can
    // be written again, unless the conversation went on in it.
    bench.run(&["compact", "chat.json", "--budget", "1500"]).ended(0);
    bench.run(&["compact", "chat.json", "--budget", "1400"]).ended(0);
    let mut grown = bench.json("chat.compacted.json");
    grown["messages"].as_array_mut().unwrap().push(serde_json::json!({"role": "user", "content": "And now?"}));
    let bench = bench.holding("chat.compacted.json", grown.to_string());
    bench.run(&["compact", "chat.json", "--budget", "1500"]).ended(5);
    bench.run(&["compact", "chat.json", "--budget", "1500", "--dry-run"]).ended(0);
    let bench = bench.holding("empty", "");
    bench.run(&["compact", "chat.json", "--budget", "1500", "-o", "empty"]).ended(0);
}

#[test]
fn amounts_are_typed_as_people_write_them() {
    let bench = Bench::new().with("sample/session.jsonl");
    let limit = |amount: &str| {
        tokens(bench.run(&["compact", "session.jsonl", "--budget", amount, "--dry-run", "--json"]), "/limit")
    };
    for amount in ["12000", "12k", "12_000", "12,000", "0.012m"] {
        assert_eq!(limit(amount), limit("12000"), "{amount}");
    }
    let refused = bench.run(&["plan", "session.jsonl", "--window", "12 000"]).ended(2);
    assert!(refused.err.contains("12000, 12k, 1.5m, 12_000 or 12,000"), "{}", refused.err);
    let configured = bench.run_with(&[("EPITOME_MODEL_WINDOW", "1.5m")], &["config", "show", "--json"]).ended(0);
    assert!(configured.out.contains("1500000"), "{}", configured.out);
    let wrong = bench.run_with(&[("EPITOME_SERVE_BUDGET", "lots")], &["config", "show"]).ended(2);
    assert!(wrong.err.contains("12k"), "{}", wrong.err);
    let small = bench.run_with(&[("EPITOME_SERVE_BUDGET", "10")], &["config", "show"]).ended(2);
    assert!(small.err.contains("from 500"), "{}", small.err);
}

#[test]
fn a_mistyped_model_is_refused_and_an_unknown_one_is_told_of() {
    let bench = Bench::new().with("threads/chat.json");
    let bench = {
        let text = bench.text("chat.json");
        bench.holding("threads.json", text)
    };
    for verb in ["show", "plan", "count", "diff", "compact"] {
        let refused = bench.run(&[verb, "chat.json", "--model", "gtp-4o"]).ended(2);
        assert!(refused.err.contains("did you mean `gpt-4o`?"), "{}", refused.err);
        let told = bench.run(&[verb, "chat.json", "--model", "our-own-model"]).ended(0);
        assert!(told.err.contains("unknown model `our-own-model`: assuming a window of"), "{verb}: {}", told.err);
        assert_eq!(told.err.lines().count(), 1, "{}", told.err);
        assert_eq!(bench.run(&[verb, "threads.json", "--model", "gpt-4o"]).ended(0).err, "");
    }
    let named = bench.run(&["plan", "chat.json", "--model", "gtp-4o", "--window", "64k"]).ended(0);
    assert!(named.out.contains("window 64000") && named.err.is_empty(), "{}", named.whole());
}

#[test]
fn a_mistyped_policy_is_refused_with_the_nearest_name() {
    let bench = Bench::new().with("threads/chat.json");
    for command in
        [&["plan", "chat.json", "--policy", "laddr"][..], &["serve", "--policy", "laddr", "--store", "memory:"]]
    {
        let refused = bench.run(command).ended(2);
        assert!(refused.err.contains("Did you mean `ladder`?"), "{}", refused.err);
    }
}

#[test]
fn rows_fit_the_width_that_is_asked_for_and_a_pipe_gets_everything() {
    let bench = Bench::new().with("sample/session.jsonl").with("threads/chat.json");
    for file in ["session.jsonl", "chat.json"] {
        bench.run(&["import", file, "--store", "sqlite:s.db"]).ended(0);
    }
    let commands: [&[&str]; 5] = [
        &["show", "session.jsonl"],
        &["diff", "session.jsonl", "--budget", "9000"],
        &["threads", "--store", "sqlite:s.db"],
        &["log", "chat", "--store", "sqlite:s.db"],
        &["config", "show"],
    ];
    for command in commands {
        let whole = bench.run(command).ended(0).out;
        assert!(!whole.contains('\u{1b}'), "{command:?}");
        assert!(whole.lines().any(|line| line.chars().count() > 60), "{command:?} needs cutting");
        let cut = bench.run(&[command, &["--width", "60"]].concat()).ended(0).out;
        let rows = cut.lines().filter(|line| line.starts_with("  "));
        for row in rows {
            assert!(row.chars().count() <= 60, "{command:?}: {row}");
        }
        assert!(cut.contains('…'), "{command:?}");
    }
    bench.run(&["show", "session.jsonl", "--width", "3"]).ended(2);
}

#[test]
fn colors_come_when_asked_for_and_never_otherwise() {
    let bench = Bench::new().with("threads/chat.json");
    let diff = ["diff", "chat.json", "--budget", "1500"];
    let colored = |variables: &[(&str, &str)], color: &[&str]| {
        bench.run_with(variables, &[&diff[..], color].concat()).ended(0).out.contains("\u{1b}[31m")
    };
    let forced = ("CLICOLOR_FORCE", "1");
    assert!(!colored(&[], &[]) && colored(&[], &["--color", "always"]) && colored(&[forced], &[]));
    assert!(!colored(&[forced], &["--color=never"]) && !colored(&[forced, ("NO_COLOR", "1")], &[]));
    let plain = bench.run(&diff).ended(0).out;
    let lines = |text: &str| text.lines().count();
    assert_eq!(lines(&bench.run(&[&diff[..], &["--color", "always"]].concat()).out), lines(&plain));
    bench.run(&["show", "chat.json", "--color", "sometimes"]).ended(2);
}

#[test]
fn what_holds_no_message_is_unreadable_for_every_verb() {
    let bench =
        Bench::new().with("sample/session.jsonl").holding("object.json", r#"{"a":1}"#).holding("list.json", "[]");
    for verb in ["show", "count", "plan", "compact", "diff", "import"] {
        for file in ["object.json", "list.json"] {
            let refused = bench.run(&[verb, file]).ended(3);
            assert!(refused.err.contains(&format!("{file} holds no message")), "{verb}: {}", refused.err);
        }
    }
    let other = bench.run(&["show", "session.jsonl", "--format", "codex"]).ended(3);
    assert!(other.err.contains("It looks like a Claude Code transcript"), "{}", other.err);
}

#[test]
fn a_thread_is_found_by_the_beginning_of_its_id_and_missed_alike_by_every_verb() {
    let bench = Bench::new().with("threads/chat.json").with("sample/session.jsonl");
    let store = ["--store", "sqlite:s.db"];
    let run = |words: &[&str]| bench.run(&[words, &store].concat());
    run(&["import", "chat.json", "--thread", "greenhouse-1"]).ended(0);
    run(&["import", "session.jsonl", "--thread", "greenhouse-2"]).ended(0);
    for verb in ["log", "ledger", "export"] {
        assert!(run(&[verb, "NOPE"]).ended(2).err.contains("NOPE"), "{verb}");
        assert!(run(&[verb, "green"]).ended(2).err.contains("The ids of 2 threads begin with `green`"), "{verb}");
    }
    run(&["log", "greenhouse-"]).ended(2);
    assert_eq!(run(&["export", "greenhouse-1"]).ended(0).out, bench.text("chat.json"));
    assert!(run(&["threads"]).ended(0).out.contains("Bed 4 is drying out."));
    run(&["threads", "--limit", "0"]).ended(2);
}

#[test]
fn the_digest_of_what_tools_did_is_data_in_every_door_of_the_command_line() {
    let bench = Bench::new().with("prompts/tools.json");
    let with = |verb| [verb, "tools.json", "--policy", "timeline", "--budget", "2000", "--json"];
    let planned = bench.run(&with("plan")).ended(0).json();
    let run = bench.run(&with("compact")).ended(0).json();
    let digest = &run["digest"];
    assert_eq!(&planned["digest"], digest);
    let record = bench.json(&format!(".epitome/compactions/{}.json", run["record"].as_str().unwrap()));
    assert_eq!(&record["digest"], digest);
    let commands = digest["commands"].as_array().unwrap();
    assert!(!commands.is_empty(), "{digest}");
    for command in commands {
        let read = bench.run(&["read", "tools.compacted.json", command["message"].as_str().unwrap()]);
        read.ended(0);
    }
    let keys: Vec<&str> = digest.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["artifacts", "writes", "patches", "commands", "memory_reads", "hidden"]);
}

#[test]
fn how_a_command_ended_is_told_only_where_something_tells() {
    let cases = [
        ("cargo test", "test result: ok. 3 passed; 0 failed", "succeeded"),
        ("make all", "cc main.c\nld main.o", "unknown"),
        ("./deploy", "", "unknown"),
        (
            "npm run dev",
            "Command running in background with ID: bash_1. Output is being written to: out.log",
            "running",
        ),
        ("serve", "Chunk ID: 6f\nWall time: 0.1 seconds\nProcess running with session ID 1234\nOutput:\n", "running"),
        ("watch", "{\"status\":\"running\",\"session\":7}", "running"),
        ("./check", "Exit code: 0", "succeeded"),
        ("./fails", "Exit code: 3\nno", "failed"),
    ];
    let mut messages = vec![json!({"role": "user", "content": "Build it."})];
    for (at, (command, output, _)) in cases.iter().enumerate() {
        let arguments = json!({"command": command}).to_string();
        let call =
            json!({"id": format!("c{at}"), "type": "function", "function": {"name": "bash", "arguments": arguments}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": output}));
    }
    let bench = Bench::new().holding("list.json", Value::from(messages).to_string());
    let facts = bench.run(&["facts", "list.json", "--kind", "command", "--json"]).ended(0).json();
    let told: Vec<(&str, &str)> = facts["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| (fact["quote"].as_str().unwrap(), fact["status"].as_str().unwrap()))
        .collect();
    assert_eq!(told, cases.map(|(command, _, status)| (command, status)));
    let state = bench.run(&["facts", "list.json", "--kind", "state", "--json"]).ended(0).json().to_string();
    assert!(state.contains("`make all` ran; the output does not say how it ended"), "{state}");
}
