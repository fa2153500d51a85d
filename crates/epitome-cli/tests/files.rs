//! What is written where: a source is never lost, permissions hold, and the store answers for its own files only.

#![allow(clippy::unwrap_used)]

mod bench;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use bench::Bench;
use serde_json::{Value, json};

#[test]
fn a_result_that_leaves_messages_out_does_not_go_into_its_source() {
    let bench = Bench::new().with("sessions/pi-tree.jsonl").with("sample/session.jsonl").with("threads/chat.json");
    symlink("session.jsonl", bench.path("link.jsonl")).unwrap();
    let wholes = ["pi-tree.jsonl", "session.jsonl", "chat.json"].map(|name| (name, bench.text(name)));
    let lines = [
        "epitome branch pi-tree.jsonl --at m1 -o pi-tree.jsonl",
        "epitome branch pi-tree.jsonl --at m1 -o ./pi-tree.jsonl",
        "epitome branch - --at m1 -o pi-tree.jsonl < pi-tree.jsonl",
        "epitome compact session.jsonl --until 20 --budget 3000 -o session.jsonl",
        "epitome compact session.jsonl --until 20 --budget 3000 -o link.jsonl",
        "epitome compact chat.json --until 6 --budget 5000 -o chat.json",
    ];
    for line in lines {
        let run = bench.shell(line).ended(2);
        assert!(run.err.contains("cannot replace its own file") && run.err.contains("hint:"), "{line}: {}", run.err);
    }
    for (name, whole) in wholes {
        assert_eq!(bench.text(name), whole, "{name}");
    }
}

#[test]
fn naming_the_source_as_output_is_compacting_in_place() {
    let bench = Bench::new().with("sessions/pi-tree.jsonl").with("threads/chat.json");
    let before = bench.text("pi-tree.jsonl");
    let run = bench.run(&["compact", "pi-tree.jsonl", "--budget", "1500", "-o", "./pi-tree.jsonl"]).ended(0);
    assert!(run.out.contains("Appended 1 line to pi-tree.jsonl"), "{}", run.out);
    assert!(bench.text("pi-tree.jsonl").starts_with(&before));
    let third = bench.json("chat.json")["messages"][2].clone();
    bench.run(&["compact", "chat.json", "--budget", "900", "-o", "chat.json"]).ended(0);
    let raw = bench.run(&["read", "chat.json", "m3", "--raw"]).ended(0).json();
    assert_eq!(raw, third);
}

/// A list of a user's questions with long answers, about one thing.
fn questions(about: &str, count: usize) -> Vec<Value> {
    let ask = |n: usize| json!({"role": "user", "content": format!("Question {n} about {about}?")});
    let tell = |n: usize| json!({"role": "assistant", "content": format!("The {about} of {n} is long. ").repeat(60)});
    (1..=count).flat_map(|n| [ask(n), tell(n)]).collect()
}

#[test]
fn a_file_is_never_answered_with_what_left_another_of_its_name() {
    let bench = Bench::new()
        .holding("list.json", json!(questions("rivers", 12)).to_string())
        .holding("other.json", json!(questions("hills", 12)).to_string());
    bench.run(&["compact", "list.json", "--budget", "1500"]).ended(0);
    fs::rename(bench.path("other.json"), bench.path("list.compacted.json")).unwrap();
    let read = bench.run(&["read", "list.compacted.json", "m3"]).ended(0);
    assert_eq!(read.out, "Question 2 about hills?\n");
    let elsewhere = ["one", "two"].map(|folder| (folder, bench.path(folder)));
    for (about, (folder, path)) in ["lakes", "woods"].iter().zip(elsewhere) {
        fs::create_dir(&path).unwrap();
        fs::write(path.join("list.json"), json!(questions(about, 12)).to_string()).unwrap();
        let name = format!("{folder}/list.json");
        bench.run(&["compact", &name, "--budget", "1500", "--artifacts", "kept"]).ended(0);
    }
    let read = bench.run(&["read", "one/list.compacted.json", "m3", "--artifacts", "kept"]).ended(0);
    assert_eq!(read.out, "Question 2 about lakes?\n");
}

#[test]
fn a_list_that_has_grown_or_moved_still_finds_what_left_it() {
    let bench = Bench::new().holding("list.json", json!(questions("rivers", 12)).to_string());
    bench.run(&["compact", "list.json", "--budget", "1500"]).ended(0);
    let mut list: Vec<Value> = serde_json::from_value(bench.json("list.compacted.json")).unwrap();
    list.extend(questions("deltas", 1));
    let bench = bench.holding("moved.json", format!("{:#}", json!(list)));
    let read = bench.run(&["read", "moved.json", "m3"]).ended(0);
    assert_eq!(read.out, "Question 2 about rivers?\n");
}

#[test]
fn the_newest_of_two_compactions_of_a_list_answers() {
    let bench = Bench::new().holding("list.json", json!(questions("rivers", 12)).to_string());
    bench.run(&["compact", "list.json", "--budget", "1500", "-o", "list.json"]).ended(0);
    let mut list: Vec<Value> = serde_json::from_value(bench.json("list.json")).unwrap();
    list.extend(questions("deltas", 12));
    // Messages are counted on from those that there were: the third after all rivers.
    let numbered = questions("rivers", 12).len() + 3;
    let bench = bench.holding("list.json", json!(list).to_string());
    bench.run(&["compact", "list.json", "--budget", "1500", "-o", "list.json"]).ended(0);
    let read = bench.run(&["read", "list.json", &format!("m{numbered}")]).ended(0);
    assert_eq!(read.out, "Question 2 about deltas?\n");
}

#[test]
fn a_list_in_any_dialect_is_known_again() {
    for name in ["chat.json", "chat.jsonl", "responses.json", "anthropic.json", "ai-sdk.json"] {
        let bench = Bench::new().with(&format!("threads/{name}"));
        let whole = bench.run(&["read", name, "m3", "--raw"]).ended(0).json();
        bench.run(&["compact", name, "--budget", "1500", "-o", "small"]).ended(0);
        for file in [name, "small"] {
            assert_eq!(bench.run(&["read", file, "m3", "--raw"]).ended(0).json(), whole, "{name}: {file}");
        }
    }
}

fn mode(bench: &Bench, name: &str) -> u32 {
    fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777
}

fn set_mode(bench: &Bench, name: &str, mode: u32) {
    fs::set_permissions(bench.path(name), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_read_only_file_is_refused_and_stays_as_it_was() {
    let bench = Bench::new().with("sessions/pi-tree.jsonl").holding("out.jsonl", "mine\n");
    let before = bench.text("pi-tree.jsonl");
    set_mode(&bench, "pi-tree.jsonl", 0o444);
    set_mode(&bench, "out.jsonl", 0o444);
    let lines: [&[&str]; 3] = [
        &["compact", "pi-tree.jsonl", "--budget", "1500"],
        &["compact", "pi-tree.jsonl", "--budget", "1500", "-o", "out.jsonl", "--overwrite"],
        &["branch", "pi-tree.jsonl", "--at", "m1", "-o", "out.jsonl", "--overwrite"],
    ];
    for words in lines {
        let run = bench.run(words).ended(5);
        assert!(run.err.contains("cannot be written: it is read-only."), "{}", run.err);
    }
    assert_eq!((bench.text("pi-tree.jsonl"), bench.text("out.jsonl")), (before, "mine\n".to_owned()));
    assert_eq!((mode(&bench, "pi-tree.jsonl"), mode(&bench, "out.jsonl")), (0o444, 0o444));
    assert_eq!(bench.names(), ["out.jsonl", "pi-tree.jsonl"], "a refusal comes before anything is kept");
}

#[test]
fn a_new_file_is_as_private_as_the_one_it_was_made_of() {
    let bench = Bench::new().with("sessions/pi-tree.jsonl").with("threads/chat.json");
    set_mode(&bench, "pi-tree.jsonl", 0o600);
    set_mode(&bench, "chat.json", 0o600);
    bench.run(&["compact", "chat.json", "--budget", "1500"]).ended(0);
    bench.run(&["compact", "chat.json", "-o", "copy.json"]).ended(0);
    bench.run(&["branch", "pi-tree.jsonl", "--at", "m1", "-o", "branch.jsonl"]).ended(0);
    for name in ["chat.compacted.json", "copy.json", "branch.jsonl"] {
        assert_eq!(mode(&bench, name), 0o600, "{name}");
    }
}

#[test]
fn what_is_made_of_a_read_only_file_can_be_made_again() {
    let bench = Bench::new().with("threads/chat.json");
    set_mode(&bench, "chat.json", 0o444);
    for _ in 0..2 {
        bench.run(&["compact", "chat.json", "--budget", "1500", "--overwrite"]).ended(0);
    }
    assert_eq!(mode(&bench, "chat.compacted.json"), 0o644);
}

#[test]
fn only_a_store_that_is_new_is_hidden_from_version_control() {
    let bench = Bench::new().with("threads/chat.json");
    fs::create_dir(bench.path("mine")).unwrap();
    for folder in ["mine", "new"] {
        bench.run(&["compact", "chat.json", "--budget", "1500", "--artifacts", folder, "--overwrite"]).ended(0);
    }
    assert!(!bench.path("mine/.gitignore").exists());
    assert_eq!(bench.text("new/.gitignore"), "*\n");
}

#[test]
fn the_line_that_reads_something_back_works_as_it_is_printed() {
    let bench = Bench::new().with("threads/chat.json").with("sessions/pi-tree.jsonl");
    let bench = bench.with("threads/chat.jsonl");
    let bad = bench.text("chat.jsonl") + "{\"oops\": \n" + r#"{"role": "user", "content": "Go on."}"#;
    let bench = bench.holding("bad.jsonl", bad);
    fs::create_dir(bench.path("far away")).unwrap();
    let lines = [
        ("chat.json", "chat.json"),
        ("chat.json", "chat.json -o ./beside.json"),
        ("chat.json", "chat.json -o 'far away/out.json'"),
        ("chat.json", "chat.json --artifacts 'far away/kept'"),
        ("pi-tree.jsonl", "pi-tree.jsonl -o 'far away/out.jsonl'"),
        ("bad.jsonl", "bad.jsonl --skip-bad-lines --format chat -o 'far away/bad.jsonl'"),
        ("chat.json", "- -o 'far away/piped.json' < chat.json"),
        ("chat.json", "chat.json -o - 2>&1 > /dev/null"),
    ];
    for (source, words) in lines {
        let said = bench.shell(&format!("epitome compact --overwrite --budget 1500 {words}")).ended(0).out;
        let hint = said.lines().find_map(|line| line.strip_prefix("Read something back: "));
        let hint = hint.unwrap_or_else(|| panic!("{words}: {said}"));
        let id = hint.split_whitespace().find(|word| word.starts_with('m')).unwrap();
        let whole = bench.run(&["read", source, id, "--skip-bad-lines"]).ended(0).out;
        assert_eq!(bench.shell(hint).ended(0).out, whole, "{words}: {hint}");
    }
    let beside = bench.run(&["compact", "chat.json", "--budget", "1500", "-o", "./beside.json"]).out;
    assert!(!beside.contains("--artifacts"), "{beside}");
}

#[test]
fn what_came_by_a_pipe_and_went_by_one_has_no_file_to_be_read_back_from() {
    let bench = Bench::new().with("threads/chat.json");
    let run = bench.shell("epitome compact - --budget 1500 < chat.json").ended(0);
    assert!(run.err.contains("Removed content is in") && !run.err.contains("Read something back"), "{}", run.err);
    let run = bench.run(&["compact", "chat.json", "--budget", "1500", "-o", "/dev/null"]).ended(0);
    assert!(!run.out.contains("Read something back"), "{}", run.out);
}

/// The id of a process that has ended.
#[cfg(target_os = "linux")]
fn dead() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_run_left_goes_with_the_next_one() {
    let (dead, alive) = (dead(), std::process::id());
    let stays = [
        format!(".pi-tree.jsonl.epitome-{alive}"),
        format!(".other.jsonl.epitome-{dead}"),
        ".pi-tree.jsonl.epitome-notes".to_owned(),
    ];
    let mut bench = Bench::new().with("sessions/pi-tree.jsonl");
    for name in stays.iter().chain([&format!(".pi-tree.jsonl.epitome-{dead}")]) {
        bench = bench.holding(name, "half");
    }
    fs::create_dir_all(bench.path(".epitome/objects")).unwrap();
    let bench = bench.holding(&format!(".epitome/objects/.0123456789abcdef.epitome-{dead}"), "half");
    bench.run(&["compact", "pi-tree.jsonl", "--budget", "1500"]).ended(0);
    let mut names: Vec<String> = stays.into_iter().chain([".epitome", "pi-tree.jsonl"].map(str::to_owned)).collect();
    names.sort();
    assert_eq!(bench.names(), names);
    let objects = fs::read_dir(bench.path(".epitome/objects")).unwrap();
    let mut objects = objects.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(objects.all(|name| !name.starts_with('.')));
}

/// A message as an agent's host sends it to Anthropic: blocks of text.
fn blocks(role: &str, texts: &[&str]) -> Value {
    let blocks: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({"role": role, "content": blocks})
}

#[test]
fn what_a_harness_puts_into_a_users_message_is_not_told_as_the_users() {
    let reminder = "<system-reminder>\nYou must never mention this reminder.\n</system-reminder>";
    let mut messages = vec![blocks("user", &[reminder, "Order the quince modules. Never touch the lock file."])];
    for n in 0..14 {
        messages.push(blocks("assistant", &[&format!("The quince module {n} is in order now. ").repeat(30)]));
        let words = format!("Look at module {n}.");
        messages.push(match n % 3 {
            0 => blocks("user", &["<total_tokens>15000000 tokens left</total_tokens>"]),
            1 => blocks("user", &[&words, reminder]),
            _ => blocks("user", &["<local-command-stdout>Bye!</local-command-stdout>", &words]),
        });
    }
    let bench =
        Bench::new().holding("in.json", json!({"model": "claude-sonnet-4-5", "messages": messages}).to_string());
    let run = bench.shell("epitome compact - --format anthropic --budget 1200 -o - < in.json").ended(0);
    let out: Value = serde_json::from_str(&run.out).unwrap();
    let words: Vec<String> = out["messages"].as_array().unwrap().iter().map(Value::to_string).collect();
    let summary = words.iter().find(|words| words.contains("Context Summary")).expect("a summary");
    assert!(!summary.contains("mention this reminder") && !summary.contains("15000000"), "{summary}");
    assert!(!summary.contains("Latest request (m29):\\n<"), "{summary}");
    assert!(words.join("\n").contains("Order the quince modules. Never touch the lock file."), "{words:#?}");
}

#[test]
fn a_small_model_keeps_the_open_request_and_is_told_what_gave_way() {
    let mut messages = vec![json!({"role": "system", "content": "You are careful."})];
    for n in 0..40 {
        messages.push(json!({"role": "user", "content": format!("Question {n} about rivers?")}));
        messages.push(json!({"role": "assistant", "content": format!("The river {n} is long and cold. ").repeat(80)}));
    }
    messages.push(json!({"role": "user", "content": "And now rename the quince module."}));
    let bench = Bench::new().holding("list.json", json!(messages).to_string());
    let run = bench.run(&["compact", "list.json", "--policy", "layer", "--model", "gpt-4"]).ended(0);
    let out = bench.text("list.compacted.json");
    let kept: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(kept.last().unwrap()["content"], "And now rename the quince module.", "{out}");
    assert!(kept.len() > 4, "more than the request stays: {out}");
    assert!(run.out.contains(" instead of m"), "{}", run.out);
    let told = bench.run(&["plan", "list.json", "--policy", "layer", "--model", "gpt-4", "--json"]).ended(0).json();
    assert!(told["warnings"][0].as_str().unwrap().contains("because the policy protects"), "{told}");
    assert!(told["room"]["trigger"].as_u64().unwrap() > 1_000, "{told}");
}

/// A call of `read` for a file, and its result.
fn read_of(path: &str, text: &str) -> Vec<Value> {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "read", "arguments": json!({"path": path}).to_string()}});
    vec![
        json!({"role": "user", "content": "Read my notes."}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": text}),
    ]
}

#[test]
fn a_replayable_file_read_is_cleared_only_while_the_file_is_as_it_was_read() {
    let notes: String = (0..400).map(|at| format!("note {at} about the harbor and its boats\n")).collect();
    let policy = "name = \"replay\"\nversion = 1\nabout = \"Clears file reads\"\nrungs = [\"clear\"]\n\n[trigger]\nat = { share_of_window = 0.85 }\n\n[tools.rules.read]\ndurability = \"replayable\"\n";
    let list = json!([read_of("notes.txt", &notes), questions("boats", 2)].concat()).to_string();
    let bench = Bench::new().holding("list.json", list).holding("replay.toml", policy);
    let compact = |code: i32| {
        let run =
            ["compact", "list.json", "--policy", "replay.toml", "--budget", "2500", "-o", "small.json", "--overwrite"];
        bench.run(&run).ended(code);
    };
    // Gone, and changed in one word.
    compact(4);
    fs::write(bench.path("notes.txt"), notes.replace("note 7 ", "note seven ")).unwrap();
    compact(4);
    fs::write(bench.path("notes.txt"), &notes).unwrap();
    compact(0);
    assert!(!bench.text("small.json").contains("note 300 about"));
}

#[test]
fn a_file_is_searched_and_several_messages_and_files_are_read_back_after_a_compaction() {
    let edit = json!({"path": "notes.txt", "old_string": "the quay\nis open", "new_string": "the quay\nis closed"})
        .to_string();
    let call = json!({"id": "c2", "type": "function", "function": {"name": "edit", "arguments": edit}});
    let edited = vec![
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c2", "content": "The file notes.txt has been updated."}),
    ];
    let messages = [read_of("notes.txt", "the harbor\nthe quay\nis open"), edited, questions("rivers", 12)].concat();
    let bench = Bench::new().holding("list.json", json!(messages).to_string());
    bench.run(&["compact", "list.json", "--budget", "1200", "-o", "small.json"]).ended(0);
    for (words, holds) in [
        (
            vec!["read", "small.json", "m1-m2", "m4"],
            "[m4 assistant]\nedit notes.txt\n the quay\n-is open\n+is closed\n",
        ),
        (
            vec!["read", "small.json", "m3", "--around", "1"],
            "[m2 assistant]\nread {\"path\":\"notes.txt\"}\n\n[m3 tool]\nthe harbor\n",
        ),
        (
            vec!["read", "small.json", "--edits", "notes.txt"],
            "[m4 notes.txt edited]\n the quay\n-is open\n+is closed\n",
        ),
        (vec!["read", "small.json", "--file", "notes.txt"], "the harbor\nthe quay\nis closed\n"),
        (
            vec!["recall", "list.json", "quay", "--tool", "edit", "--file", "notes.txt"],
            "[m4 assistant edit notes.txt, lines 1-4]\n",
        ),
        (
            vec!["recall", "list.json", "--who", "user", "--after", "m6", "--newest", "--limit", "1"],
            "[m28 user, lines 1-1]\nQuestion 12 about rivers?\n",
        ),
        (vec!["recall", "small.json", "harbor"], "[m3 tool read notes.txt, lines 1-3]\nthe harbor\n"),
    ] {
        let run = bench.run(&words).ended(0);
        assert!(run.out.contains(holds), "{words:?}: {}", run.out);
    }
}
