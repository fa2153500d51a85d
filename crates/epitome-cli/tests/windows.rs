//! Which policy and which window count: what was said, what is configured, what the file proves, what the model is known for.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod bench;

use bench::Bench;
use serde_json::{Value, json};

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// A Claude Code session that was compacted at some size, and whose newest answer reports another.
fn claude(trigger: &str, compacted_at: u64, reported: u64) -> String {
    let entry = |kind: &str, uuid: &str, parent: &str, message: Value| {
        json!({"parentUuid": if parent.is_empty() { Value::Null } else { parent.into() }, "isSidechain": false, "type": kind,
            "uuid": uuid, "sessionId": "s", "timestamp": "2026-01-01T00:00:00.000Z", "message": message})
    };
    let answer = |id: &str, usage: Value| {
        json!({"id": id, "type": "message", "role": "assistant", "model": "claude-opus-4-6", "usage": usage,
            "content": [{"type": "text", "text": "It is done. ".repeat(400)}]})
    };
    let used = |input: u64| json!({"input_tokens": 3, "cache_read_input_tokens": input - 3, "output_tokens": 0});
    let mut values = vec![
        entry("user", "u1", "", json!({"role": "user", "content": "Begin."})),
        entry("assistant", "a1", "u1", answer("m1", used(compacted_at))),
        json!({"parentUuid": null, "logicalParentUuid": "a1", "isSidechain": false, "type": "system", "subtype": "compact_boundary",
            "uuid": "b1", "sessionId": "s", "timestamp": "2026-01-01T00:00:00.000Z", "content": "Conversation compacted",
            "compactMetadata": {"trigger": trigger, "preTokens": compacted_at}}),
    ];
    let mut summary = entry("user", "s1", "b1", json!({"role": "user", "content": "The work began."}));
    summary["isCompactSummary"] = json!(true);
    values.push(summary);
    let mut parent = "s1".to_owned();
    for n in 0..20 {
        let (user, assistant) = (format!("u2-{n}"), format!("a2-{n}"));
        values.push(entry("user", &user, &parent, json!({"role": "user", "content": format!("Go on with part {n}.")})));
        let usage = used(reported - 100 * (19 - n));
        values.push(entry("assistant", &assistant, &user, answer(&format!("m2-{n}"), usage)));
        parent = assistant;
    }
    lines(&values)
}

fn codex(window: Option<u64>, tokens: usize) -> String {
    let line =
        |kind: &str, payload: Value| json!({"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload});
    let text = |role: &str, kind: &str, text: String| {
        line("response_item", json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}))
    };
    let mut values = vec![
        line("session_meta", json!({"id": "00000000-0000-7000-8000-000000000000"})),
        line("turn_context", json!({"model": "gpt-5-codex"})),
    ];
    for n in 0..20 {
        values.push(text("user", "input_text", format!("Part {n}.")));
        values.push(text("assistant", "output_text", "word ".repeat(tokens / 20)));
    }
    if let Some(window) = window {
        let usage = json!({"input_tokens": 500, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": 510});
        let info = json!({"total_token_usage": usage, "last_token_usage": usage, "model_context_window": window});
        values.push(line("event_msg", json!({"type": "token_count", "info": info})));
    }
    lines(&values)
}

/// The window of a file, as every verb that has one tells it.
fn window(bench: &Bench, file: &str, more: &[&str]) -> (u64, String) {
    let plan = bench.run(&[&["plan", file, "--json"], more].concat()).json();
    let compact = bench.run(&[&["compact", file, "--dry-run", "--json"], more].concat()).json();
    assert_eq!(plan["window"], compact["window"]);
    assert_eq!(plan["room"], compact["room"]);
    if !more.contains(&"--window") {
        assert_eq!(bench.run(&[&["show", file, "--json"], more].concat()).json()["window"], plan["window"]);
    }
    (plan["window"]["tokens"].as_u64().unwrap(), plan["window"]["from"].as_str().unwrap().to_owned())
}

#[test]
fn an_automatic_compaction_proves_the_window_it_ran_into() {
    let bench = Bench::new()
        .holding("auto.jsonl", claude("auto", 170_431, 163_827))
        .holding("by-hand.jsonl", claude("manual", 90_000, 60_000))
        .holding("grown.jsonl", claude("auto", 170_431, 300_000));
    let (tokens, from) = window(&bench, "auto.jsonl", &[]);
    assert_eq!((tokens, from.as_str()), (200_000, "from the session's own compaction at 170431"));
    assert_eq!(window(&bench, "by-hand.jsonl", &[]).0, 1_000_000, "a compaction by hand proves nothing");
    assert_eq!(window(&bench, "grown.jsonl", &[]).0, 1_000_000, "a larger prompt was answered since");
    assert_eq!(window(&bench, "auto.jsonl", &["--window", "190000"]), (190_000, "as you said".to_owned()));
    assert_eq!(window(&bench, "auto.jsonl", &["--model", "gpt-5-codex"]).0, 272_000);
}

#[test]
fn a_compaction_of_ours_says_whether_it_was_asked_for_and_proves_no_window() {
    let bench = || {
        Bench::new()
            .holding("claude.jsonl", claude("manual", 90_000, 60_000))
            .holding("codex.jsonl", codex(None, 20_000))
            .with("sessions/pi-tree.jsonl")
            .with("sessions/pi-events.jsonl")
    };
    for (flag, trigger) in [("--force", "manual"), ("--auto", "auto")] {
        let bench = bench();
        for file in ["claude.jsonl", "codex.jsonl", "pi-tree.jsonl", "pi-events.jsonl"] {
            let before = window(&bench, file, &[]);
            bench.run(&["compact", file, "--budget", "1500", flag]).ended(0);
            let shown = bench.run(&["show", file, "--json"]).ended(0).json();
            let newest = shown["compactions"].as_array().unwrap().last().unwrap();
            assert_eq!(
                (&newest["trigger"], &newest["by_epitome"]),
                (&json!(trigger), &json!(true)),
                "{file}: {newest}"
            );
            assert_eq!(window(&bench, file, &[]), before, "{file}");
        }
    }
    // A context of ninety thousand tokens, which the agent itself would have compacted only in a window of 100 000.
    let large = Bench::new().holding("s.jsonl", claude("manual", 90_000, 95_000));
    let before = window(&large, "s.jsonl", &[]);
    large.run(&["compact", "s.jsonl", "--budget", "1500", "--auto"]).ended(0);
    assert_eq!(window(&large, "s.jsonl", &[]), before);
}

#[test]
fn a_nearly_full_session_is_compacted_by_the_plain_command() {
    let bench = Bench::new().holding("s.jsonl", claude("auto", 170_431, 163_827));
    let shown = bench.run(&["show", "s.jsonl", "--json"]).ended(0).json();
    assert_eq!(shown["reported"], 163_827);
    let run = bench.run(&["compact", "s.jsonl"]).ended(0);
    assert!(run.out.contains("Appended"), "{}", run.out);
    assert!(run.out.contains("window 200000, from the session's own compaction at 170431"), "{}", run.out);
}

#[test]
fn the_window_that_codex_recorded_counts_and_else_the_input_limit_of_the_model() {
    let bench = Bench::new()
        .holding("small.jsonl", codex(Some(30_400), 2000))
        .holding("listed.jsonl", codex(None, 2000))
        .holding(
            "list.json",
            json!({"model": "gpt-5-codex", "messages": [{"role": "user", "content": "Hello."}]}).to_string(),
        )
        .holding("unknown.json", json!([{"role": "user", "content": "Hello."}]).to_string());
    assert_eq!(window(&bench, "small.jsonl", &[]), (30_400, "as the session records it".to_owned()));
    assert_eq!(window(&bench, "listed.jsonl", &[]), (272_000, "the input limit of gpt-5-codex".to_owned()));
    assert_eq!(window(&bench, "list.json", &[]).0, 272_000);
    assert!(window(&bench, "unknown.json", &[]).1.contains("default"));
}

#[test]
fn an_answer_that_was_broken_off_says_nothing_of_the_size() {
    let message =
        |message: Value| json!({"type": "message", "timestamp": "2026-01-01T00:00:00.000Z", "message": message});
    let answer = |stop: &str, input: u64| {
        let usage = json!({"input": input, "output": 7, "cacheRead": 0, "cacheWrite": 0});
        message(
            json!({"role": "assistant", "content": [{"type": "text", "text": "Well."}], "stopReason": stop, "usage": usage}),
        )
    };
    let user = || message(json!({"role": "user", "content": [{"type": "text", "text": "Go on."}]}));
    let header = json!({"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w"});
    let all =
        [header, user(), answer("stop", 5000), user(), answer("aborted", 90_000), user(), answer("error", 80_000)];
    let bench = Bench::new().holding("s.jsonl", lines(&all));
    let reported = bench.run(&["show", "s.jsonl", "--json"]).ended(0).json()["reported"].as_u64().unwrap();
    assert!((5007..5200).contains(&reported), "{reported}");
}

#[test]
fn a_session_that_fits_says_by_which_window_and_how_to_go_on() {
    let bench = Bench::new().holding("s.jsonl", codex(None, 4000));
    let run = bench.run(&["compact", "s.jsonl"]).ended(0);
    for words in [
        "Nothing to do: ",
        "window 272000, the input limit of gpt-5-codex",
        "target ",
        "hard limit ",
        "`--budget ",
        "`--window N` or `--force`",
    ] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    let forced = bench.run(&["compact", "s.jsonl", "--force", "--json"]).ended(0).json();
    assert_eq!(forced["compacted"], true);
    assert!(forced["after"].as_u64() < forced["before"].as_u64(), "{forced}");
}

#[test]
fn force_compacts_what_is_small_or_says_why_not() {
    let mut messages = vec![json!({"role": "user", "content": "Count to thirty, please."})];
    messages.extend((0..30).map(|n| json!({"role": "assistant", "content": format!("That was number {n}, and the next one follows. ").repeat(6)})));
    let bench = Bench::new()
        .holding("small.json", Value::from(messages).to_string())
        .holding("tiny.json", json!([{"role": "user", "content": "Hello."}]).to_string());
    let run = bench.run(&["compact", "small.json", "--force", "--json"]).ended(0).json();
    assert_eq!(run["compacted"], true, "{run}");
    let run = bench.run(&["compact", "tiny.json", "--force"]).ended(0);
    assert!(run.out.contains("no compaction of these") && !run.out.contains("To compact anyway"), "{}", run.out);
}

#[test]
fn a_policy_that_acts_only_when_asked_is_asked_by_the_command() {
    let mut messages = vec![json!({"role": "user", "content": "Count to thirty, please."})];
    messages.extend((0..30).map(|n| json!({"role": "assistant", "content": format!("That was number {n}, and the next one follows. ").repeat(6)})));
    let text = Value::from(messages).to_string();
    for (policy, variables, compacted) in [
        ("amp", &[][..], true),
        ("timeline", &[], false),
        // The switch is about what happens without being asked.
        ("timeline", &[("EPITOME_POLICY_AUTO", "off")], false),
    ] {
        let bench = Bench::new().holding("small.json", &*text);
        let run = bench.run_with(variables, &["compact", "small.json", "--policy", policy, "--json"]).ended(0).json();
        assert_eq!(run["compacted"], compacted, "{policy}: {run}");
    }
}

#[test]
fn the_configured_policy_and_window_count_in_every_verb_and_the_closer_word_first() {
    let bench = Bench::new()
        .with("sample/session.jsonl")
        .holding("epitome.toml", "[policy]\nname = \"timeline\"\n[model]\nwindow = 64000\n");
    let own = bench.run(&["policy", "show", "amp"]).ended(0).out.replacen("amp", "mine", 1);
    std::fs::write(bench.path("mine.toml"), own).unwrap();
    std::fs::write(bench.path("other.toml"), "[policy]\npath = \"mine.toml\"\n").unwrap();
    let policy = |verb: &str, variables: &[(&str, &str)], more: &[&str]| {
        let dry: &[&str] = if verb == "compact" { &["--dry-run"] } else { &[] };
        let run = bench.run_with(variables, &[&[verb, "session.jsonl", "--json"], dry, more].concat()).ended(0).json();
        (run["policy"].as_str().unwrap_or_default().to_owned(), run["window"]["tokens"].as_u64())
    };
    for verb in ["compact", "plan"] {
        assert_eq!(policy(verb, &[], &[]), ("timeline@1".to_owned(), Some(64_000)), "{verb}");
        let variables = [("EPITOME_POLICY_NAME", "pi"), ("EPITOME_MODEL_WINDOW", "50000")];
        assert_eq!(policy(verb, &variables, &[]), ("pi@1".to_owned(), Some(50_000)), "{verb}");
        assert_eq!(
            policy(verb, &variables, &["--policy", "codex", "--window", "60000"]),
            ("codex@1".to_owned(), Some(60_000)),
            "{verb}"
        );
        assert!(policy(verb, &[], &["--config", "other.toml", "--window", "60000"]).0.starts_with("mine"), "{verb}");
    }
    let layout = |variables: &[(&str, &str)]| {
        bench.run_with(variables, &["diff", "session.jsonl", "--budget", "9000"]).ended(0).out
    };
    assert_ne!(layout(&[]), layout(&[("EPITOME_POLICY_NAME", "pi")]), "diff goes by the policy too");
}

#[test]
fn a_recorded_session_that_was_compacted_at_its_window_is_compacted_again() {
    // Recorded sessions are not part of this repository; they may lie beside the checkout.
    let recorded =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/sessions/claude-code/with-compaction.jsonl");
    let Ok(session) = std::fs::read(recorded) else {
        eprintln!("skipped: there are no recorded sessions beside this checkout");
        return;
    };
    let bench = Bench::new().holding("s.jsonl", session);
    assert_eq!(window(&bench, "s.jsonl", &[]).0, 200_000);
    let run = bench.run(&["compact", "s.jsonl", "--json"]).ended(0).json();
    assert_eq!((&run["compacted"], &run["reported"]), (&json!(true), &json!(163_829)));
}

/// A session of pi that was held in a folder.
fn pi_in(bench: &Bench, fixture: &str, folder: &str) {
    let text =
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(fixture))
            .unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    header["cwd"] = json!(bench.path(folder));
    std::fs::write(bench.path("s.jsonl"), format!("{header}\n{rest}")).unwrap();
}

#[test]
fn pis_own_settings_hold_for_its_sessions_under_its_own_policy_and_say_where_they_are_from() {
    for fixture in ["sessions/pi-tree.jsonl", "sessions/pi-events.jsonl"] {
        let bench = Bench::new();
        for folder in [".pi/agent", "project/.pi"] {
            std::fs::create_dir_all(bench.path(folder)).unwrap();
        }
        pi_in(&bench, fixture, "project");
        let plan =
            |policy: &str| bench.run(&["plan", "s.jsonl", "--policy", policy, "--window", "200000", "--json"]).json();
        let trigger = |plan: &Value| plan["room"]["trigger"].as_u64().unwrap();
        let (pi, ladder) = (plan("pi"), plan("ladder"));
        assert_eq!(pi["pi_settings"], json!({}), "{fixture}: no file says anything");
        assert!(ladder.get("pi_settings").is_none());
        let own =
            json!({"theme": "dark", "compaction": {"reserveTokens": 50_000, "keepRecentTokens": 700, "enabled": true}});
        std::fs::write(bench.path(".pi/agent/settings.json"), own.to_string()).unwrap();
        let project = json!({"compaction": {"reserveTokens": 40_000}, "baseUrl": "http://127.0.0.1:1"});
        std::fs::write(bench.path("project/.pi/settings.json"), project.to_string()).unwrap();
        let set = plan("pi");
        assert_eq!(trigger(&pi) - trigger(&set), 40_000 - 16_384, "{fixture}");
        let from = |name: &str| set["pi_settings"][name]["from"].as_str().unwrap().to_owned();
        assert!(from("reserveTokens").ends_with("project/.pi/settings.json"), "{fixture}: {set}");
        assert!(
            from("keepRecentTokens").ends_with(".pi/agent/settings.json")
                && set["pi_settings"]["keepRecentTokens"]["value"] == 700
        );
        assert_eq!(plan("ladder")["room"], ladder["room"], "another policy is not pi's");
        let told = bench.run(&["compact", "s.jsonl", "--policy", "pi", "--dry-run", "--force"]);
        assert!(told.out.contains("compaction.reserveTokens = 40000, from "), "{fixture}: {}", told.out);
        // Turned off, it is off for hooks and scripts; a person may compact all the same.
        std::fs::write(bench.path("project/.pi/settings.json"), json!({"compaction": {"enabled": false}}).to_string())
            .unwrap();
        let before = bench.text("s.jsonl");
        let run = bench.run(&["compact", "s.jsonl", "--policy", "pi", "--budget", "1500", "--auto"]).ended(0);
        assert!(run.out.contains("turns pi's automatic compaction off"), "{fixture}: {}", run.out);
        assert_eq!(bench.text("s.jsonl"), before);
        bench.run(&["compact", "s.jsonl", "--policy", "pi", "--budget", "1500"]).ended(0);
        assert_ne!(bench.text("s.jsonl"), before);
        std::fs::write(bench.path("project/.pi/settings.json"), "{\"compaction\": {\"reserveTokens\": \"many\"}}")
            .unwrap();
        let run = bench.run(&["plan", "s.jsonl", "--policy", "pi"]);
        assert!(
            run.out.contains("project/.pi/settings.json cannot be read and do not count"),
            "{fixture}: {}",
            run.out
        );
    }
}
