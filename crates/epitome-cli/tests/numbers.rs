//! `m41` is one message, or an error: through every round, in every format, with and without what was kept.

#![allow(clippy::unwrap_used)]

mod bench;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;

use bench::{Bench, Run};
use serde_json::{Value, json};

const ROUNDS: usize = 5;

/// One round of work as Chat messages; no two messages of any rounds are alike.
fn chat(round: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": format!("Now build the items of round {round}.")})];
    for step in 0..8 {
        let (id, item) = (format!("call_{round}_{step}"), format!("item_{round}_{step}"));
        let arguments = json!({"command": format!("make {item}")}).to_string();
        messages.push(json!({"role": "assistant", "content": format!("I make {item}."), "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}}]}));
        let body: String = (0..25).map(|n| format!("cc -o {item}_{n}.o {item}_{n}.c\n")).collect();
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": body}));
    }
    messages.push(json!({"role": "assistant", "content": format!("Round {round} is built.")}));
    messages
}

/// The numbers that a text mentions.
fn mentions(text: &str) -> Vec<usize> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter_map(|word| word.strip_prefix('m'));
    let mut numbers: Vec<usize> = words.filter_map(|digits| digits.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn read(bench: &Bench, file: &str, number: usize, more: &[&str]) -> Run {
    bench.run(&[&["read", file, &format!("m{number}"), "--raw"], more].concat())
}

/// A list that goes through some rounds; every message that was ever in it, by its number from 1.
fn rounds(bench: &Bench, preset: &str, count: usize, check: &mut dyn FnMut(&Bench, usize, &[Value])) -> Vec<Value> {
    let mut all: Vec<Value> = vec![json!({"role": "user", "content": "Never push to main."})];
    let mut list = all.clone();
    for round in 1..=count {
        list.extend(chat(round));
        all.extend(chat(round));
        std::fs::write(bench.path("l.json"), Value::from(list.clone()).to_string()).unwrap();
        bench.run(&["compact", "l.json", "--policy", preset, "--budget", "2200", "-o", "l.json"]).ended(0);
        list = bench.json("l.json").as_array().unwrap().clone();
        check(bench, round, &all);
    }
    all
}

#[test]
fn every_number_in_the_prompt_of_a_list_reads_back_the_message_that_was_meant() {
    for preset in ["ladder", "layer", "pi", "claude-code", "timeline"] {
        let bench = Bench::new();
        let mut read_back = 0;
        rounds(&bench, preset, ROUNDS, &mut |bench, round, all| {
            for number in mentions(&bench.text("l.json")) {
                let run = read(bench, "l.json", number, &[]).ended(0);
                let message: Value = serde_json::from_str(&run.out).unwrap();
                assert_eq!(message, all[number - 1], "{preset}, round {round}, m{number}");
                read_back += 1;
            }
            assert!(!bench.text("l.json").contains("m0"), "{preset}, round {round}");
        });
        assert!(read_back >= ROUNDS, "{preset} mentions too little to be a test: {read_back}");
    }
}

#[test]
fn every_message_that_a_list_ever_had_can_be_read_by_its_number_and_no_other() {
    let bench = Bench::new();
    let all = rounds(&bench, "ladder", ROUNDS, &mut |_, _, _| {});
    for (at, message) in all.iter().enumerate().step_by(3) {
        let run = read(&bench, "l.json", at + 1, &[]).ended(0);
        assert_eq!(&serde_json::from_str::<Value>(&run.out).unwrap(), message, "m{}", at + 1);
    }
    for number in [0, all.len() + 1, all.len() + 40] {
        read(&bench, "l.json", number, &[]).ended(2);
    }
}

#[test]
fn a_copy_without_what_was_kept_is_an_error_for_every_number_and_says_what_is_missing() {
    let bench = Bench::new();
    for count in [1, 4] {
        let all = rounds(&bench, "ladder", count, &mut |_, _, _| {});
        std::fs::create_dir_all(bench.path("e")).unwrap();
        std::fs::copy(bench.path("l.json"), bench.path("e/copy.json")).unwrap();
        for number in 1..=all.len() + 3 {
            let run = read(&bench, "e/copy.json", number, &[]);
            assert_eq!((run.code, run.out.as_str()), (3, ""), "m{number}");
            assert!(run.err.contains("e/.epitome") && run.err.contains("--artifacts"), "{}", run.err);
        }
        let branch = bench.run(&["branch", "e/copy.json", "--at", "m2", "-o", "b.json"]).ended(3);
        assert!(branch.err.contains("--artifacts"), "{}", branch.err);
        let run = read(&bench, "e/copy.json", 2, &["--artifacts", ".epitome"]).ended(0);
        assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap(), all[1]);
        // What `show` calls a message finds it all the same.
        let shown = bench.run(&["show", "e/copy.json", "--json"]).ended(0).json();
        for largest in shown["largest"].as_array().unwrap() {
            bench.run(&["read", "e/copy.json", largest["id"].as_str().unwrap()]).ended(0);
        }
    }
}

#[test]
fn records_without_an_index_are_found_and_indexed_with_the_next_one() {
    let bench = Bench::new();
    let all = rounds(&bench, "ladder", 5, &mut |bench, round, all| match round {
        // As a folder was before there was an index.
        2 | 3 => std::fs::remove_dir_all(bench.path(".epitome/tips")).unwrap(),
        _ => {
            let numbers = (1..=all.len()).step_by(7);
            numbers.for_each(|number| _ = read(bench, "l.json", number, &[]).ended(0));
        }
    });
    let count = |folder: &str| std::fs::read_dir(bench.path(folder)).unwrap().count();
    assert_eq!((count(".epitome/compactions"), count(".epitome/tips")), (5, 5), "{}", all.len());
}

#[test]
fn with_some_of_the_records_gone_a_number_is_the_right_message_or_an_error() {
    let bench = Bench::new();
    let all = rounds(&bench, "ladder", 4, &mut |_, _, _| {});
    let mut records: Vec<_> =
        std::fs::read_dir(bench.path(".epitome/compactions")).unwrap().map(|entry| entry.unwrap().path()).collect();
    records.sort();
    for gone in records {
        let record = std::fs::read(&gone).unwrap();
        std::fs::remove_file(&gone).unwrap();
        for number in (1..=all.len() + 2).step_by(4) {
            let run = read(&bench, "l.json", number, &[]);
            match run.code {
                0 => assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap(), all[number - 1], "m{number}"),
                code => assert!(code == 3 || number > all.len(), "m{number}: {}", run.whole()),
            }
        }
        std::fs::write(&gone, record).unwrap();
    }
}

#[test]
fn a_list_that_is_compacted_again_without_its_record_does_not_mix_two_numberings() {
    let bench = Bench::new();
    rounds(&bench, "ladder", 2, &mut |_, _, _| {});
    std::fs::rename(bench.path(".epitome"), bench.path("old")).unwrap();
    let before = bench.json("l.json").as_array().unwrap().clone();
    let mut list = before.clone();
    list.extend(chat(3));
    std::fs::write(bench.path("l.json"), Value::from(list.clone()).to_string()).unwrap();
    bench.run(&["compact", "l.json", "--budget", "2200", "-o", "l.json"]).ended(0);
    for number in mentions(&bench.text("l.json")) {
        let run = read(&bench, "l.json", number, &[]);
        if run.code == 0 {
            let message: Value = serde_json::from_str(&run.out).unwrap();
            assert!(list.contains(&message), "m{number} is a message of this round: {message}");
            let made = bench.text("l.json").lines().any(|line| line.contains(&format!("m{number} $ make item_1")));
            assert!(!made, "m{number} was of the first round");
        } else {
            assert_eq!(run.code, 3, "{}", run.whole());
            assert!(run.err.contains("--artifacts"), "{}", run.err);
        }
    }
}

#[test]
fn a_branch_leaves_a_compacted_list_at_the_message_of_that_number_or_not_at_all() {
    let bench = Bench::new();
    let mut all = rounds(&bench, "ladder", 2, &mut |_, _, _| {});
    let mut list = bench.json("l.json").as_array().unwrap().clone();
    let request = json!({"role": "user", "content": "And now something else entirely."});
    list.extend([request.clone(), json!({"role": "assistant", "content": "Gladly."})]);
    all.push(request.clone());
    std::fs::write(bench.path("l.json"), Value::from(list).to_string()).unwrap();
    let at = format!("m{}", all.len());
    let points = bench.run(&["branch", "l.json"]).ended(0);
    assert!(points.out.lines().any(|line| line.contains(&at) && line.contains("something else")), "{}", points.out);
    bench.run(&["branch", "l.json", "--at", &at, "-o", "b.json"]).ended(0);
    assert_eq!(bench.json("b.json").as_array().unwrap().last().unwrap(), &request);
    let left = bench.run(&["branch", "l.json", "--at", "m2", "-o", "c.json"]).ended(2);
    assert!(left.err.contains("A compaction removed m2 from l.json"), "{}", left.err);
}

/// `mN $ make item_X` of a text.
fn commands(text: &str) -> BTreeMap<usize, String> {
    let text = text.replace("\\n", "\n");
    let marks = text.split(['\n', '"']).filter_map(|line| {
        let (number, command) = line.trim().trim_start_matches("- ").strip_prefix('m')?.split_once(" $ ")?;
        let item = command.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| word.starts_with("item_"))?;
        Some((number.parse().ok()?, item.to_owned()))
    });
    marks.collect()
}

fn append(bench: &Bench, name: &str, lines: &[Value]) {
    let mut file = OpenOptions::new().append(true).create(true).open(bench.path(name)).unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
}

fn pi(round: usize, _: &str) -> Vec<Value> {
    let message =
        |message: Value| json!({"type": "message", "timestamp": "2026-01-01T00:00:00.000Z", "message": message});
    let mut lines = Vec::new();
    if round == 1 {
        lines.push(json!({"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/home/mara"}));
    }
    lines
        .push(message(json!({"role": "user", "content": [{"type": "text", "text": format!("Build round {round}.")}]})));
    for step in 0..8 {
        let (id, item) = (format!("call_{round}_{step}"), format!("item_{round}_{step}"));
        lines.push(message(json!({"role": "assistant", "content": [
            {"type": "toolCall", "id": id, "name": "bash", "arguments": {"command": format!("make {item}")}}]})));
        let body: String = (0..25).map(|n| format!("cc -o {item}_{n}.o\n")).collect();
        lines.push(message(json!({"role": "toolResult", "toolCallId": id, "toolName": "bash", "content": [{"type": "text", "text": body}], "isError": false})));
    }
    lines
}

fn claude(round: usize, text: &str) -> Vec<Value> {
    let last = text
        .lines()
        .rev()
        .find_map(|line| serde_json::from_str::<Value>(line).ok()?["uuid"].as_str().map(str::to_owned));
    let mut parent = last.map_or(Value::Null, Value::from);
    let mut lines = Vec::new();
    let mut push = |kind: &str, name: String, message: Value| {
        lines.push(json!({"parentUuid": parent, "isSidechain": false, "type": kind, "uuid": name, "sessionId": "s",
            "timestamp": "2026-01-01T00:00:00.000Z", "message": message}));
        parent = Value::from(name);
    };
    push("user", format!("u-{round}"), json!({"role": "user", "content": format!("Build round {round}.")}));
    for step in 0..8 {
        let (id, item) = (format!("toolu_{round}_{step}"), format!("item_{round}_{step}"));
        push(
            "assistant",
            format!("a-{round}-{step}"),
            json!({"id": format!("msg_{round}_{step}"), "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": format!("make {item}")}}]}),
        );
        let body: String = (0..25).map(|n| format!("cc -o {item}_{n}.o\n")).collect();
        push(
            "user",
            format!("r-{round}-{step}"),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": body}]}),
        );
    }
    lines
}

fn codex(round: usize, _: &str) -> Vec<Value> {
    let line =
        |kind: &str, payload: Value| json!({"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload});
    let mut lines = Vec::new();
    if round == 1 {
        lines.push(line("session_meta", json!({"id": "00000000-0000-7000-8000-000000000000", "cwd": "/home/mara"})));
    }
    lines.push(line("response_item", json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": format!("Build round {round}.")}]})));
    for step in 0..8 {
        let (id, item) = (format!("call_{round}_{step}"), format!("item_{round}_{step}"));
        let arguments = json!({"command": ["bash", "-lc", format!("make {item}")]}).to_string();
        lines.push(line(
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": arguments, "call_id": id}),
        ));
        let body: String = (0..25).map(|n| format!("cc -o {item}_{n}.o\n")).collect();
        lines.push(line("response_item", json!({"type": "function_call_output", "call_id": id, "output": body})));
    }
    lines
}

/// The lines that a round of work adds to a session.
type Work = fn(usize, &str) -> Vec<Value>;

#[test]
fn every_command_in_the_prompt_of_a_session_reads_back_by_its_number() {
    let formats: [(&str, Work); 3] = [("pi", pi), ("claude", claude), ("codex", codex)];
    for (format, work) in formats {
        let bench = Bench::new();
        let mut read_back = 0;
        for round in 1..=ROUNDS {
            let text = std::fs::read_to_string(bench.path("s.jsonl")).unwrap_or_default();
            append(&bench, "s.jsonl", &work(round, &text));
            let before = bench.text("s.jsonl").len();
            bench.run(&["compact", "s.jsonl", "--budget", "1800"]).ended(0);
            for (number, item) in commands(&bench.text("s.jsonl")[before..]) {
                let run = bench.run(&["read", "s.jsonl", &format!("m{number}")]).ended(0);
                assert!(run.out.contains(&item), "{format}, round {round}: m{number} is not {item} but\n{}", run.out);
                read_back += 1;
            }
        }
        assert!(read_back >= ROUNDS, "{format}: {read_back}");
    }
}
