//! Every verb on fixtures: what it prints, what it writes, what it answers to programs.

#![allow(clippy::unwrap_used)]

mod bench;

use bench::Bench;
use insta::assert_snapshot;
use serde_json::{Value, json};

const THREADS: [&str; 5] = ["chat.json", "chat.jsonl", "responses.json", "anthropic.json", "ai-sdk.json"];
const SESSIONS: [&str; 3] = ["pi-events.jsonl", "pi-tree.jsonl", "codex.jsonl"];

fn keys(value: &Value) -> String {
    value.as_object().unwrap().keys().map(String::as_str).collect::<Vec<&str>>().join(" ")
}

fn threads() -> Bench {
    THREADS.iter().fold(Bench::new(), |bench, name| bench.with(&format!("threads/{name}")))
}

fn sessions() -> Bench {
    SESSIONS.iter().fold(Bench::new(), |bench, name| bench.with(&format!("sessions/{name}")))
}

#[test]
fn help_of_every_verb_has_an_example() {
    let bench = Bench::new();
    let on_files = ["compact", "show", "plan", "diff", "read", "branch", "check", "count", "policy"];
    let on_stores = [
        "config", "import", "export", "threads", "log", "ledger", "recall", "notes", "store", "work", "mock", "mcp",
        "serve",
    ];
    for verb in on_files.iter().chain(&on_stores) {
        let help = bench.run(&[verb, "--help"]).ended(0).out;
        assert!(help.contains(&format!("epitome {verb}")) && help.contains("Example"), "{help}");
        assert!(help.contains("--json"), "{help}");
    }
    let below = [("policy", "list"), ("policy", "show"), ("policy", "check"), ("config", "show"), ("config", "trust")];
    let store = ["check", "migrate", "vacuum", "rotate"].map(|verb| ("store", verb));
    for (above, verb) in below.into_iter().chain(store) {
        assert!(bench.run(&[above, verb, "--help"]).ended(0).out.contains("Example"), "{above} {verb}");
    }
    assert_snapshot!(bench.run(&["--help"]).whole());
}

#[test]
fn examples_and_exit_codes_in_help_fit_80_columns() {
    let bench = Bench::new();
    let verbs = [
        "",
        "compact",
        "show",
        "plan",
        "diff",
        "read",
        "branch",
        "check",
        "count",
        "policy list",
        "policy show",
        "policy check",
        "config show",
        "config trust",
        "import",
        "export",
        "threads",
        "log",
        "ledger",
        "models",
        "models reset",
        "recall",
        "notes",
        "store check",
        "store migrate",
        "store vacuum",
        "store rotate",
        "serve",
        "work",
        "mcp",
        "mock",
    ];
    for verb in verbs {
        let help = bench.shell(&format!("epitome {verb} --help")).ended(0).out;
        let end = ["Exit codes:", "Headers of a request:", "ID is one of", "Example"];
        let end = end.iter().filter_map(|title| help.find(&format!("\n{title}"))).min().unwrap();
        let wide = help[end..].lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "epitome {verb} --help");
    }
}

#[test]
fn a_session_is_compacted_in_place_and_keeps_every_line_it_had() {
    let bench = Bench::new().with("sample/session.jsonl");
    let before = bench.text("session.jsonl");
    let run = bench.run(&["compact", "session.jsonl", "--budget", "12000"]).ended(0);
    assert_snapshot!(run.outline());
    let after = bench.text("session.jsonl");
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert_eq!(bench.names(), [".epitome", "session.jsonl"]);
    bench.run(&["check", "session.jsonl"]).ended(0);
    let count = bench.run(&["count", "session.jsonl", "--json"]).ended(0).json();
    assert!(count["tokens"].as_u64().unwrap() <= 12_000, "{count}");
}

#[test]
fn every_format_is_compacted_into_something_its_provider_takes() {
    let bench = threads();
    for name in THREADS {
        bench.run(&["compact", name, "--budget", "1500", "-o", "small", "--overwrite"]).ended(0);
        bench.run(&["check", "small"]).ended(0);
        let count = bench.run(&["count", "small", "--json"]).ended(0).json();
        // With no call left in it, a list of words is the same in Chat and in the AI SDK.
        let format = bench.run(&["count", name, "--json"]).json()["format"].clone();
        assert!(count["format"] == format || !bench.text("small").contains("tool-call"), "{name}: {count}");
        let system = count["roles"].as_array().unwrap().iter().find(|role| role["role"] == "system");
        let system = system.map_or(0, |role| role["tokens"].as_u64().unwrap());
        assert!(count["tokens"].as_u64().unwrap() - system <= 1500, "{name}: {count}");
    }
    let bench = sessions();
    for name in SESSIONS {
        let before = bench.text(name);
        bench.run(&["compact", name, "--budget", "1500"]).ended(0);
        assert!(bench.text(name).starts_with(&before));
        bench.run(&["check", name]).ended(0);
        let count = bench.run(&["count", name, "--json"]).ended(0).json();
        assert!(count["tokens"].as_u64().unwrap() <= 1500, "{name}: {count}");
    }
}

#[test]
fn a_list_goes_beside_the_file_unless_a_place_is_named() {
    let bench = threads();
    bench.run(&["compact", "chat.json", "--budget", "1500"]).ended(0);
    assert!(bench.names().contains(&"chat.compacted.json".to_owned()));
    let piped = bench.run(&["compact", "chat.json", "--budget", "1500", "-o", "-"]).ended(0);
    assert_eq!(piped.out, bench.text("chat.compacted.json"));
    assert!(piped.err.contains("before"));
    let stdin = bench.shell("epitome compact - --budget 1500 --artifacts kept < chat.json").ended(0);
    assert_eq!(stdin.out, piped.out);
}

#[test]
fn what_fits_comes_out_byte_for_byte() {
    let bench = threads().with("sample/session.jsonl");
    for name in THREADS {
        bench.run(&["compact", name, "-o", "copy", "--overwrite"]).ended(0);
        assert_eq!(bench.text("copy"), bench.text(name));
    }
    let before = bench.text("session.jsonl");
    let run = bench.run(&["compact", "session.jsonl"]).ended(0);
    assert!(run.out.contains("Nothing to do: "), "{}", run.out);
    assert_eq!(bench.text("session.jsonl"), before);
    assert!(!bench.names().contains(&".epitome".to_owned()));
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = Bench::new().with("sample/session.jsonl");
    let before = bench.text("session.jsonl");
    let run = bench.run(&["compact", "session.jsonl", "--budget", "9000", "--dry-run"]).ended(0);
    assert!(run.out.contains("dry run"));
    assert_eq!((bench.text("session.jsonl"), bench.names()), (before, vec!["session.jsonl".to_owned()]));
}

#[test]
fn the_same_thing_twice_is_the_same_bytes() {
    let (one, other) = (Bench::new().with("sample/session.jsonl"), Bench::new().with("sample/session.jsonl"));
    for bench in [&one, &other] {
        bench.run(&["compact", "session.jsonl", "--budget", "12000"]).ended(0);
    }
    assert_eq!(one.text("session.jsonl"), other.text("session.jsonl"));
}

#[test]
fn pins_are_in_the_compacted_context_and_in_the_one_after_it() {
    let bench = Bench::new().with("sample/session.jsonl");
    let pin = "The harbor master's number is 4471.";
    bench.run(&["compact", "session.jsonl", "--budget", "12000", "--pin", pin]).ended(0);
    bench.run(&["compact", "session.jsonl", "--budget", "6000"]).ended(0);
    let diff = bench.run(&["diff", "session.jsonl", "--full"]).ended(0);
    let last = bench.text("session.jsonl").lines().rev().take(40).collect::<Vec<_>>().join("\n");
    assert!(diff.out.contains(pin) && last.contains(pin));
}

#[test]
fn until_leaves_later_messages_out() {
    let bench = threads().with("sample/session.jsonl");
    bench.run(&["compact", "chat.jsonl", "--until", "6", "--budget", "5000", "-o", "six.jsonl"]).ended(0);
    assert_eq!(
        bench.text("six.jsonl").trim_end(),
        bench.text("chat.jsonl").lines().take(6).collect::<Vec<_>>().join("\n")
    );
    let refused = bench.run(&["compact", "session.jsonl", "--until", "100", "--budget", "9000"]).ended(2);
    assert_snapshot!(refused.whole());
    bench.run(&["compact", "session.jsonl", "--until", "100", "--budget", "9000", "-o", "early.jsonl"]).ended(0);
    let begins: Vec<String> = bench.text("early.jsonl").lines().take(100).map(str::to_owned).collect();
    assert_eq!(begins, bench.text("session.jsonl").lines().take(100).collect::<Vec<_>>());
}

#[test]
fn everything_that_left_can_be_read_back() {
    let bench = threads();
    let whole = bench.json("chat.json");
    bench.run(&["compact", "chat.json", "--budget", "900", "-o", "small.json"]).ended(0);
    for (at, message) in whole["messages"].as_array().unwrap().iter().enumerate() {
        let raw = bench.run(&["read", "small.json", &format!("m{}", at + 1), "--raw"]).ended(0).out;
        assert_eq!(serde_json::from_str::<Value>(&raw).unwrap(), *message, "m{}", at + 1);
    }
}

#[test]
fn read_finds_by_number_line_and_id_and_takes_ranges() {
    let bench = Bench::new().with("sessions/pi-tree.jsonl").with("sample/session.jsonl");
    let by_number = bench.run(&["read", "pi-tree.jsonl", "m3", "--range", "2-3"]).ended(0);
    assert_snapshot!(by_number.whole());
    assert_eq!(bench.run(&["read", "pi-tree.jsonl", "L4", "--range", "2-3"]).out, by_number.out);
    assert_eq!(bench.run(&["read", "pi-tree.jsonl", "ab000002", "--range", "2-3"]).out, by_number.out);
    assert_snapshot!(bench.run(&["read", "pi-tree.jsonl", "m3", "--grep", "23:00 bed 6"]).whole());
    assert_snapshot!(bench.run(&["read", "pi-tree.jsonl", "m99"]).whole());
    assert_snapshot!(bench.run(&["read", "pi-tree.jsonl", "m3", "--range", "4-2"]).whole());
    let json = bench.run(&["read", "pi-tree.jsonl", "m3", "--grep", "valve open", "--json"]).ended(0).json();
    assert_snapshot!(keys(&json), @"kind role line id lines matches");
    let before = bench.run(&["read", "session.jsonl", "m41"]).out;
    bench.run(&["compact", "session.jsonl", "--budget", "9000"]).ended(0);
    assert_eq!(bench.run(&["read", "session.jsonl", "m41"]).out, before);
}

#[test]
fn several_messages_are_read_although_one_is_not_there_and_one_is_large() {
    let large = format!("begin {}end", "stamp ".repeat(4000));
    let list = json!([{"role": "user", "content": "Count the stamps."}, {"role": "assistant", "content": large}]);
    let bench = Bench::new();
    std::fs::write(bench.path("l.json"), list.to_string()).unwrap();
    let both = bench.run(&["read", "l.json", "m1,m2,m9"]).ended(0).out;
    for told in [
        "Count the stamps.",
        "begin stamp",
        "stamp end",
        "read m2 alone",
        "[m9: not there, the conversation ends with m2]",
    ] {
        assert!(both.contains(told), "{told}: {both}");
    }
    assert!(both.len() < large.len() / 2, "{}", both.len());
    assert!(bench.run(&["read", "l.json", "m2"]).ended(0).out.contains(&large));
    let json = bench.run(&["read", "l.json", "m1,m2,m9", "--json"]).ended(0).json();
    assert_eq!(json["messages"][1]["text"], large);
    assert_eq!(json["missing"], json!(["m9"]));
    bench.run(&["read", "l.json", "m8,m9"]).ended(2);
}

#[test]
fn show_tells_where_the_tokens_are() {
    let bench = threads();
    assert_snapshot!(bench.run(&["show", "chat.json", "--top", "3"]).whole());
    let json = bench.run(&["show", "chat.json", "--json"]).ended(0).json();
    assert_snapshot!(keys(&json), @"file format messages turns tokens reported counted system tools reply by_kind by_tool by_turn largest duplicates compactions notices window");
    let sum: u64 = json["by_kind"].as_object().unwrap().values().map(|tokens| tokens.as_u64().unwrap()).sum();
    assert_eq!(sum, json["tokens"].as_u64().unwrap());
}

#[test]
fn show_tells_what_the_model_saw_around_each_compaction() {
    let bench = sessions();
    for name in SESSIONS {
        bench.run(&["compact", name, "--budget", "1500"]).ended(0);
        let json = bench.run(&["show", name, "--json"]).ended(0).json();
        let compaction = &json["compactions"][0];
        assert!(compaction["messages_before"].as_u64() > compaction["messages_after"].as_u64(), "{name}: {compaction}");
    }
}

#[test]
fn count_says_how_much_and_who_says_so() {
    let bench = threads();
    assert_snapshot!(bench.run(&["count", "anthropic.json"]).whole());
    assert_snapshot!(bench.run(&["count", "chat.jsonl", "--tokenizer", "chars/4"]).whole());
    assert_snapshot!(bench.run(&["count", "chat.jsonl", "--tokenizer", "gpt2"]).whole());
    let unknown = bench.run(&["count", "chat.jsonl", "--model", "nosuchmodel", "--json"]).ended(0).json();
    assert_eq!(unknown["counted"]["source"], "estimated", "{unknown}");
    let json = bench.run(&["count", "chat.json", "--json"]).ended(0).json();
    assert_snapshot!(keys(&json), @"file format messages turns tokens reported counted roles system tools reply total notices");
}

#[test]
fn a_tokenizer_file_counts_and_a_bad_one_is_refused() {
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": {"h": 0, "i": 1, "hi": 2, "!": 3}, "merges": ["h i"]},
    });
    let bench = Bench::new()
        .holding("hi.json", r#"[{"role":"user","content":"hi!"}]"#)
        .holding("tokenizer.json", tokenizer.to_string())
        .holding("broken.json", "{}");
    let counted = bench.run(&["count", "hi.json", "--tokenizer", "tokenizer.json", "--json"]).ended(0).json();
    let with_o200k = bench.run(&["count", "hi.json", "--tokenizer", "o200k", "--json"]).ended(0).json();
    assert_eq!(counted["tokens"], with_o200k["tokens"], "`hi` and `!`, by either");
    assert_eq!(counted["counted"]["source"], "exact");
    let refused = bench.run(&["count", "hi.json", "--tokenizer", "broken.json"]).ended(3);
    assert!(refused.err.contains("broken.json"), "{}", refused.err);
}

#[test]
fn plan_and_diff_do_nothing_and_say_what_would_be_done() {
    let bench = threads();
    let before = bench.names();
    assert_snapshot!(bench.run(&["plan", "chat.json", "--budget", "1500"]).ended(0).outline());
    assert_snapshot!(bench.run(&["diff", "chat.json", "--budget", "1500"]).ended(0).outline());
    let plan = bench.run(&["plan", "chat.json", "--budget", "1500", "--json"]).ended(0).json();
    assert_snapshot!(keys(&plan), @"file format messages turns tokens reported counted policy before after room limit window steps warnings items digest summary notices compacted plan");
    let diff = bench.run(&["diff", "chat.json", "--budget", "1500", "--json"]).ended(0).json();
    assert_snapshot!(keys(&diff), @"file format messages turns tokens reported counted removed shortened kept added changes prompt");
    assert_eq!(bench.names(), before);
}

#[test]
fn diff_shows_the_newest_compaction_of_a_session() {
    let bench = sessions();
    bench.run(&["compact", "pi-tree.jsonl", "--budget", "1500"]).ended(0);
    let json = bench.run(&["diff", "pi-tree.jsonl", "--json"]).ended(0).json();
    assert_eq!(json["line"], 19);
    assert!(json["removed"]["messages"].as_u64().unwrap() > 5 && json["added"]["messages"] == 1, "{json}");
}

#[test]
fn a_branch_before_a_compaction_undoes_it_and_one_after_it_keeps_it() {
    let bench = sessions();
    bench.run(&["compact", "pi-events.jsonl", "--budget", "1500"]).ended(0);
    let later =
        r#"{"type":"message","timestamp":"2026-05-08T08:00:00.000Z","message":{"role":"user","content":"And bed 5?"}}"#;
    let text = bench.text("pi-events.jsonl") + later + "\n";
    let bench = bench.holding("pi-events.jsonl", text);
    assert_snapshot!(bench.run(&["branch", "pi-events.jsonl"]).whole());
    assert_snapshot!(bench.run(&["branch", "pi-events.jsonl", "--at", "L9"]).whole());
    assert_snapshot!(bench.run(&["branch", "pi-events.jsonl", "--at", "L20", "-o", "after.jsonl"]).whole());
    assert!(!bench.text("pi-events.branch.jsonl").contains("\"compaction\""));
    assert!(bench.text("after.jsonl").contains("\"compaction\""));
    assert_snapshot!(bench.run(&["branch", "pi-events.jsonl", "--at", "L3"]).whole());
    let json = bench.run(&["branch", "pi-events.jsonl", "--at", "L9", "--json"]).ended(0).json();
    assert_snapshot!(keys(&json), @"line messages compactions undone written");
}

#[test]
fn check_names_rule_line_and_place() {
    let request = "{\"messages\": [\n  {\"role\": \"user\", \"content\": \"hi\"},\n  {\"role\": \"tool\", \"tool_call_id\": \"c9\", \"content\": \"x\"},\n  {\"role\": \"assistant\", \"content\": null}\n]}\n";
    let bench = Bench::new().holding("bad.json", request);
    assert_snapshot!(bench.run(&["check", "bad.json"]).whole());
    let json = bench.run(&["check", "bad.json", "--json"]).ended(1).json();
    assert_snapshot!(keys(&json), @"file format dialect errors advice violations notices");
    assert_eq!(json["violations"][0]["line"], 3);
    assert_snapshot!(bench.run(&["check", "--rules", "--dialect", "ai-sdk"]).whole());
}

#[test]
fn policies_are_listed_shown_and_checked() {
    let bench = Bench::new();
    assert_snapshot!(bench.run(&["policy", "list"]).whole());
    let shown = bench.run(&["policy", "show", "ladder"]).ended(0).out;
    let bench =
        bench.holding("mine.toml", &shown).holding("bad.toml", shown.replace("low_water = 0.5", "low_water = 5.0"));
    assert_snapshot!(bench.run(&["policy", "check", "mine.toml"]).whole());
    assert_snapshot!(bench.run(&["policy", "check", "bad.toml"]).whole());
    assert_snapshot!(bench.run(&["policy", "show", "nosuch"]).whole());
    let json = bench.run(&["policy", "list", "--json"]).ended(0).json();
    assert_eq!(json["default"], "ladder");
    let bench = bench.with("threads/chat.json");
    bench.run(&["compact", "chat.json", "--policy", "mine.toml", "--budget", "1500", "--dry-run"]).ended(0);
    bench.run(&["compact", "chat.json", "--policy", "bad.toml", "--budget", "1500"]).ended(2);
}

#[test]
fn every_preset_compacts_the_sample() {
    let bench = Bench::new().with("sample/session.jsonl").with("sessions/pi-tree.jsonl");
    let list = bench.run(&["policy", "list", "--json"]).json();
    for policy in list["policies"].as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        bench
            .run(&["compact", "session.jsonl", "--policy", name, "--window", "60000", "-o", "out.jsonl", "--overwrite"])
            .ended(0);
        bench.run(&["check", "out.jsonl"]).ended(0);
        bench
            .run(&["compact", "pi-tree.jsonl", "--policy", name, "--budget", "3000", "-o", "out.jsonl", "--overwrite"])
            .ended(0);
    }
}

#[test]
fn json_of_a_compaction_has_the_receipt() {
    let bench = threads();
    let json = bench.run(&["compact", "chat.json", "--budget", "1500", "--json"]).ended(0).json();
    assert_snapshot!(keys(&json), @"file format messages turns tokens reported counted policy before after room limit window steps warnings items digest summary notices compacted dry_run trigger record written artifacts");
    assert_snapshot!(keys(&json["items"]), @"retained recoverable lost entries");
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let bench = Bench::new().with("sample/session.jsonl");
    let run = bench.shell("{ epitome show session.jsonl --json --top 500; echo $? >&2; } | head -c 10").ended(0);
    assert_eq!(run.err, "0\n");
}
