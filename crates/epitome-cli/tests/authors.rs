//! Who writes the summary: a model where one is named, code where it does not answer, and the receipt says which.

#![allow(clippy::unwrap_used)]

mod bench;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use bench::{Bench, Run};

const WORDS: &str = "The kiln was fired at cone six, and nothing cracked.";

fn script(answer: &str) -> String {
    format!("model = \"scribe-1\"\n\n[[answer]]\nfor = \"summary\"\nrepeat = true\n{answer}\n")
}

fn good() -> String {
    script(&format!(
        "[answer.json]\ngoal = \"Fire the kiln.\"\nprogress = [{{ text = \"{WORDS}\", message = 2 }}]\ndecisions = []\nopen_items = []\nnext = []\nuser_words = []\nturn_progress = []"
    ))
}

fn bench(script: &str) -> Bench {
    Bench::new().with("sample/session.jsonl").holding("script.toml", script)
}

const COMPACT: [&str; 4] = ["compact", "session.jsonl", "--budget", "12000"];

fn compact(bench: &Bench, more: &[&str]) -> Run {
    bench.run(&[&COMPACT[..], more].concat())
}

#[test]
fn a_model_that_is_named_writes_the_summary_and_the_receipt_says_so() {
    let bench = bench(&good());
    let run = compact(&bench, &["--model-url", "script:script.toml"]).ended(0);
    assert!(run.out.contains("; summary by scribe-1 at script:"), "{}", run.out);
    assert!(bench.text("session.jsonl").contains(WORDS));
    bench.run(&["check", "session.jsonl"]).ended(0);
}

#[test]
fn without_a_model_code_writes_and_the_receipt_says_so() {
    let bench = bench("");
    let json = compact(&bench, &["--json"]).ended(0).json();
    assert_eq!(json["summary"]["by"], "embedded");
    assert!(json["summary"].get("reason").is_none());
}

#[test]
fn a_model_is_taken_from_the_configuration_and_a_flag_counts_before_it() {
    let toml = "[summarizer]\nkind = \"model\"\nurl = \"script:script.toml\"\n";
    let bench = bench(&good()).holding("epitome.toml", toml);
    bench.run(&["config", "trust"]).ended(0);
    let to = ["-o", "out.jsonl", "--overwrite", "--json"];
    let json = compact(&bench, &to).ended(0).json();
    assert_eq!((json["summary"]["by"].as_str(), json["summary"]["model"].as_str()), (Some("model"), Some("scribe-1")));
    let json = compact(&bench, &[&to[..], &["--summarizer", "embedded"]].concat()).ended(0).json();
    assert_eq!(json["summary"]["by"], "embedded");
    assert!(json["summary"].get("model").is_none());
}

#[test]
fn a_bad_summary_gives_way_to_code_unless_only_the_model_may_write() {
    let bad = [
        ("text = \"I cannot.\"", "refused"),
        ("text = \"Here is what I think.\"", "bad"),
        ("text = \"\"", "empty"),
        ("text = \"{\\\"goal\\\": \\\"x\"\nfinish = \"length\"", "cut"),
        ("error = { kind = \"status\", status = 401, message = \"who are you\" }", "rejected"),
        ("delay_ms = 30000\ntext = \"late\"", "late"),
    ];
    for (answer, reason) in bad {
        let bench = bench(&script(answer));
        let before = bench.text("session.jsonl");
        let named = ["--model-url", "script:script.toml", "--summarizer-timeout", "1"];
        let refused = compact(&bench, &[&named[..], &["--summarizer", "model", "--json"]].concat()).ended(4).json();
        assert_eq!(refused["error"]["facts"]["reason"], reason, "{refused}");
        assert!(bench.text("session.jsonl") == before, "{reason}");
        assert_eq!(bench.names(), ["script.toml", "session.jsonl"], "{reason}");
        let json = compact(&bench, &[&named[..], &["--json"]].concat()).ended(0).json();
        assert_eq!(
            (json["summary"]["by"].as_str(), json["summary"]["reason"].as_str()),
            (Some("embedded"), Some(reason))
        );
        assert!(json["after"].as_u64().unwrap() <= 12_000);
    }
    let bench = bench(&script("text = \"I cannot.\""));
    let run = compact(&bench, &["--model-url", "script:script.toml"]).ended(0);
    assert!(run.out.contains("summary by epitome itself, not by scribe-1 at script:"), "{}", run.out);
    assert!(run.out.contains("The summary of scribe-1 at script:"), "{}", run.out);
}

#[test]
fn a_model_with_a_small_window_is_asked_in_smaller_pieces() {
    let small = good().replacen('\n', "\nwindow = 9000\n", 1);
    let bench = bench(&small);
    let json =
        compact(&bench, &["--model-url", "script:script.toml", "--summarizer", "model", "--json"]).ended(0).json();
    assert_eq!(json["summary"]["by"], "model", "{json}");
}

#[test]
fn a_model_without_an_address_or_a_name_is_a_usage_error_with_a_hint() {
    let bench = bench("").holding("list.json", r#"[{"role":"user","content":"hello"}]"#);
    for more in [&["--summarizer", "model"][..], &["--model-url", "gopher://x"]] {
        let run = compact(&bench, more).ended(2);
        assert!(run.err.contains("hint: "), "{}", run.err);
    }
    let nameless = ["compact", "list.json", "--force", "--model-url", "http://127.0.0.1:9"];
    assert!(bench.run(&nameless).ended(2).err.contains("hint: "));
    compact(&bench, &["--model-url", "script:none.toml"]).ended(2);
}

#[test]
fn without_a_name_the_sessions_own_model_is_asked() {
    let run = compact(&bench(""), &["--model-url", "http://127.0.0.1:9"]).ended(0);
    assert!(run.out.contains("not by claude-sonnet-4-5 at 127.0.0.1:9"), "{}", run.out);
}

#[test]
fn the_same_summary_is_asked_for_once() {
    let bench = bench(&good());
    let to = |out| ["--model-url", "script:script.toml", "--summarizer", "model", "-o", out, "--json"];
    assert_eq!(compact(&bench, &to("one.jsonl")).ended(0).json()["summary"]["by"], "model");
    let bench = bench.holding("script.toml", script("text = \"I cannot.\""));
    assert_eq!(compact(&bench, &to("two.jsonl")).ended(0).json()["summary"]["by"], "model");
    let other = [&to("three.jsonl")[..], &["--instructions", "dwell on the fares"]].concat();
    compact(&bench, &other).ended(4);
}

#[test]
fn a_handoff_begins_with_the_goal_and_leaves_the_session_alone() {
    let bench = bench("");
    let before = bench.text("session.jsonl");
    let run = bench.run(&["handoff", "session.jsonl", "Write the release notes"]).ended(0);
    assert!(run.out.contains("## Goal\nWrite the release notes\n"), "{}", run.out);
    assert!(run.out.contains("epitome read session.jsonl m12"), "{}", run.out);
    bench.run(&["handoff", "session.jsonl", "Write the release notes", "-o", "next.json"]).ended(0);
    bench.run(&["check", "next.json"]).ended(0);
    assert!(bench.text("session.jsonl") == before);
}

#[test]
fn an_interrupted_run_writes_nothing() {
    let bench = bench(&script("delay_ms = 60000\ntext = \"late\""));
    let before = bench.text("session.jsonl");
    let mut child = bench.start(&[&COMPACT[..], &["--model-url", "script:script.toml"]].concat());
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "it waits for the model");
    let stopped = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success() && !child.wait().unwrap().success());
    assert!(bench.text("session.jsonl") == before);
    assert_eq!(bench.names(), ["script.toml", "session.jsonl"]);
}

/// Answers one request with 401 and gives back what was asked.
fn refusing() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = stream.read(&mut buffer).unwrap();
            heard.extend_from_slice(&buffer[..read]);
        }
        let body = "{\"error\":{\"message\":\"no\"}}";
        let head = format!("HTTP/1.1 401 no\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
        stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        let _ = stream.read(&mut buffer);
        String::from_utf8_lossy(&heard).into_owned()
    });
    (url, heard)
}

#[test]
fn a_key_goes_only_where_it_was_meant_to_go() {
    let toml = "[summarizer]\nkey = \"sk-configured\"\nname = \"m\"\n";
    let bench = bench("").holding("epitome.toml", toml);
    bench.run(&["config", "trust"]).ended(0);
    let asked = |variables: &[(&str, &str)], more: &[&str]| {
        let (url, heard) = refusing();
        let words = [&COMPACT[..], &["--summarizer", "model", "--model-url", &url], more].concat();
        let run = bench.run_with(variables, &words).ended(4);
        assert!(!run.err.contains("sk-"), "{}", run.err);
        heard.join().unwrap().to_lowercase()
    };
    let none = asked(&[], &[]);
    assert!(!none.contains("authorization") && !none.contains("sk-configured"), "{none}");
    let usual = asked(&[("OPENAI_API_KEY", "sk-usual")], &[]);
    assert!(usual.contains("authorization: bearer sk-usual"), "{usual}");
    let named = [("OPENAI_API_KEY", "sk-usual"), ("MINE", "sk-mine")];
    let own = asked(&named, &["--summarizer-key-env", "MINE"]);
    assert!(own.contains("authorization: bearer sk-mine"), "{own}");
    let anthropic = asked(&[("ANTHROPIC_API_KEY", "sk-ant")], &["--summarizer-dialect", "anthropic"]);
    assert!(anthropic.contains("x-api-key: sk-ant"), "{anthropic}");
}
