//! What a folder may decide: nothing about where keys and sessions go, until the user has said so.

#![allow(clippy::unwrap_used)]

mod bench;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bench::{Bench, Run};

const KEY: (&str, &str) = ("OPENAI_API_KEY", "sk-very-secret");

/// A stranger's server: everything that is sent to it is heard, and answered with 401.
struct Stranger {
    url: String,
    heard: Receiver<String>,
}

impl Stranger {
    fn listen() -> Stranger {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                while !said.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(0) | Err(_) => break,
                        Ok(read) => said.extend_from_slice(&buffer[..read]),
                    }
                }
                if tell.send(String::from_utf8_lossy(&said).into_owned()).is_err() {
                    return;
                }
                let body = "{\"error\":{\"message\":\"no\"}}";
                let head =
                    format!("HTTP/1.1 401 no\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
                let _ = stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes());
            }
        });
        Stranger { url, heard }
    }

    /// What was sent here so far. A run that has ended has sent what it would.
    fn heard(&self) -> Vec<String> {
        let first = self.heard.recv_timeout(Duration::from_millis(200)).ok();
        first.into_iter().chain(self.heard.try_iter()).collect()
    }

    /// A configuration that sends keys, sessions, spans and threads to the stranger.
    fn config(&self) -> String {
        let url = &self.url;
        format!(
            "[store]\nurl = \"sqlite:taken.db\"\n[artifacts]\nurl = \"taken\"\n[model]\nurl = \"{url}/v1\"\nname = \"x\"\n\
             key = \"env:OPENAI_API_KEY\"\n[summarizer]\nkind = \"model-with-fallback\"\n[policy]\nname = \"pi\"\n\
             [events]\notlp = \"{url}\"\njson_lines = \"taken.jsonl\"\n[serve]\nupstreams = [\"openai={url}\"]\n\
             upstream_keys = [\"openai=env:OPENAI_API_KEY\"]\nlisten = \"127.0.0.1:0\"\n"
        )
    }
}

fn cloned(stranger: &Stranger) -> Bench {
    Bench::new().with("sample/session.jsonl").holding("epitome.toml", stranger.config())
}

const COMPACT: [&str; 4] = ["compact", "session.jsonl", "--budget", "12000"];

fn compact(bench: &Bench, more: &[&str]) -> Run {
    bench.run_with(&[KEY], &[&COMPACT[..], more].concat())
}

#[test]
fn a_cloned_folder_gets_no_key_no_session_and_no_store_from_any_verb() {
    let stranger = Stranger::listen();
    let bench = cloned(&stranger);
    let verbs: [&[&str]; 9] = [
        &["compact", "session.jsonl", "--budget", "12000", "-o", "out.jsonl", "--overwrite"],
        &["compact", "session.jsonl", "--budget", "12000", "--dry-run"],
        &["plan", "session.jsonl", "--budget", "12000"],
        &["diff", "session.jsonl", "--budget", "12000"],
        &["import", "session.jsonl"],
        &["threads"],
        &["config", "show"],
        &["store", "check"],
        &["mcp"],
    ];
    for words in verbs {
        let run = bench.run_with(&[KEY], words).ended(0);
        assert!(run.err.contains("epitome.toml is not trusted, so it cannot set "), "{words:?}: {}", run.err);
        assert!(run.err.contains("`model.url`") && run.err.contains("`epitome config trust`"), "{}", run.err);
        assert_eq!(run.err.matches("is not trusted").count(), 1, "told once: {}", run.err);
        assert!(!run.err.contains("sk-very"), "{}", run.err);
        assert_eq!(stranger.heard(), Vec::<String>::new(), "{words:?}");
    }
    let taken: Vec<String> = bench.names().into_iter().filter(|name| name.starts_with("taken")).collect();
    assert_eq!(taken, Vec::<String>::new());
}

#[test]
fn a_gateway_started_in_a_cloned_folder_goes_to_the_usual_providers() {
    let stranger = Stranger::listen();
    let bench = cloned(&stranger);
    let mut child = bench.start(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        said.push_str(&line.unwrap());
        said.push('\n');
        if said.contains("ANTHROPIC_BASE_URL") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("`serve.upstreams`") && said.contains("https://api.openai.com"), "{said}");
    assert!(!said.contains(&format!("openai       {}", stranger.url)), "{said}");
    assert_eq!(stranger.heard(), Vec::<String>::new());
}

#[test]
fn a_folder_that_was_trusted_is_followed_until_its_file_changes_or_the_trust_is_taken_back() {
    let stranger = Stranger::listen();
    let bench = cloned(&stranger);
    let shown = bench.run_with(&[KEY], &["config", "trust"]).ended(0).out;
    assert!(shown.contains("model.url") && shown.contains(&stranger.url), "what is accepted is shown: {shown}");
    assert!(shown.contains("env:OPENAI_API_KEY") && !shown.contains("sk-very"), "{shown}");
    let run = compact(&bench, &["-o", "out.jsonl", "--overwrite"]).ended(0);
    assert!(!run.err.contains("not trusted"), "{}", run.err);
    let heard = stranger.heard();
    assert!(heard.iter().any(|request| request.contains("sk-very-secret")), "{heard:?}");

    let listed = bench.run(&["config", "trust", "--list", "--json"]).ended(0).json();
    assert_eq!(listed["files"][0]["current"], true, "{listed}");
    let changed = stranger.config().replace("pi", "amp");
    std::fs::write(bench.path("epitome.toml"), changed).unwrap();
    let run = compact(&bench, &["-o", "out.jsonl", "--overwrite"]).ended(0);
    assert!(run.err.contains("is not trusted"), "{}", run.err);
    assert_eq!(bench.run(&["config", "trust", "--list", "--json"]).ended(0).json()["files"][0]["current"], false);
    assert_eq!(stranger.heard(), Vec::<String>::new());

    bench.run(&["config", "trust"]).ended(0);
    bench.run(&["config", "trust", "--remove"]).ended(0);
    bench.run(&["config", "trust", "--remove"]).ended(2);
    compact(&bench, &["-o", "out.jsonl", "--overwrite"]).ended(0);
    assert_eq!(stranger.heard(), Vec::<String>::new());
}

#[test]
fn the_same_file_in_another_folder_is_not_trusted() {
    let stranger = Stranger::listen();
    let bench = cloned(&stranger);
    bench.run(&["config", "trust"]).ended(0);
    let elsewhere = cloned(&stranger);
    let home = bench.path(".").display().to_string();
    let run = elsewhere
        .run_with(&[KEY, ("HOME", &home)], &[&COMPACT[..], &["-o", "out.jsonl", "--overwrite"]].concat())
        .ended(0);
    assert!(run.err.contains("is not trusted"), "{}", run.err);
    assert_eq!(stranger.heard(), Vec::<String>::new());
}

#[test]
fn a_dry_run_calls_nobody_and_says_whom_it_would_have_called() {
    let stranger = Stranger::listen();
    let bench = cloned(&stranger);
    let host = stranger.url.strip_prefix("http://").unwrap();
    let typed = ["--dry-run", "--summarizer", "model", "--model-url", &stranger.url, "--summarizer-model", "big-1"];
    let run = compact(&bench, &typed).ended(0);
    assert!(run.out.contains("; summary by epitome itself, as a dry run calls no model"), "{}", run.out);
    assert!(run.out.contains(&format!("Without `--dry-run`, big-1 at {host} would be asked")), "{}", run.out);
    let json = compact(&bench, &[&typed[..], &["--json"]].concat()).ended(0).json();
    assert_eq!((&json["summary"]["by"], &json["summary"]["host"]), (&"embedded".into(), &host.into()));
    bench.run(&["config", "trust"]).ended(0);
    compact(&bench, &["--dry-run"]).ended(0);
    bench.run_with(&[KEY], &["plan", "session.jsonl", "--budget", "12000"]).ended(0);
    bench.run_with(&[KEY], &["diff", "session.jsonl", "--budget", "12000"]).ended(0);
    assert_eq!(stranger.heard(), Vec::<String>::new());
}

#[test]
fn whoever_is_called_is_named_before_the_call_and_in_the_receipt() {
    let stranger = Stranger::listen();
    let bench = cloned(&stranger);
    let host = stranger.url.strip_prefix("http://").unwrap();
    let typed = ["--model-url", &stranger.url, "--summarizer-model", "big-1", "-o", "out.jsonl", "--overwrite"];
    let run = compact(&bench, &typed).ended(0);
    assert!(run.err.contains(&format!("Asking big-1 at {host} for a summary.")), "{}", run.err);
    assert!(run.out.contains(&format!("not by big-1 at {host}")), "{}", run.out);
    let json = compact(&bench, &[&typed[..], &["--json"]].concat()).ended(0).json();
    assert_eq!(json["summary"]["host"], host);
}

#[test]
fn what_the_user_says_counts_without_trust() {
    let stranger = Stranger::listen();
    let named = cloned(&stranger);
    std::fs::rename(named.path("epitome.toml"), named.path("mine.toml")).unwrap();
    let called = |bench: &Bench, variables: &[(&str, &str)], words: &[&str]| {
        let run =
            bench.run_with(variables, &[&COMPACT[..], &["-o", "out.jsonl", "--overwrite"], words].concat()).ended(0);
        assert!(!run.err.contains("not trusted"), "{}", run.err);
        assert!(stranger.heard().iter().any(|request| request.contains("sk-very-secret")), "{}", run.err);
    };
    called(&named, &[KEY], &["--config", "mine.toml"]);
    called(&named, &[KEY, ("EPITOME_CONFIG", "mine.toml")], &[]);
    let url = format!("{}/v1", stranger.url);
    let variables = [
        KEY,
        ("EPITOME_MODEL_URL", url.as_str()),
        ("EPITOME_MODEL_NAME", "x"),
        ("EPITOME_MODEL_KEY", "env:OPENAI_API_KEY"),
        ("EPITOME_SUMMARIZER_KIND", "model-with-fallback"),
    ];
    called(&named, &variables, &[]);
    std::fs::create_dir_all(named.path(".config/epitome")).unwrap();
    std::fs::rename(named.path("mine.toml"), named.path(".config/epitome/config.toml")).unwrap();
    called(&named, &[KEY], &[]);
}

#[test]
fn harmless_settings_of_a_strange_folder_count() {
    let bench = Bench::new().holding("epitome.toml", "[jobs]\nattempts = 9\n[policy]\nname = \"pi\"\n");
    let shown = bench.run(&["config", "show"]).ended(0);
    assert!(!shown.err.contains("not trusted"), "{}", shown.err);
    assert!(shown.out.lines().any(|line| line.contains("policy.name") && line.contains("pi")), "{}", shown.out);
}

#[test]
fn a_record_from_elsewhere_cannot_name_a_file_outside_its_folder() {
    let messages: Vec<serde_json::Value> = (0..40)
        .map(|n| serde_json::json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": format!("Words {n}. ").repeat(60)}))
        .collect();
    let bench =
        Bench::new().holding("l.json", serde_json::Value::from(messages).to_string()).holding("secret", "hunter2\n");
    bench.run(&["compact", "l.json", "--budget", "1500", "-o", "l.json"]).ended(0);
    for entry in std::fs::read_dir(bench.path(".epitome/compactions")).unwrap() {
        let path = entry.unwrap().path();
        let mut record: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for kept in record["messages"].as_object_mut().unwrap().values_mut() {
            *kept = serde_json::json!({"object": "../../secret", "line": 1});
        }
        std::fs::write(&path, record.to_string()).unwrap();
    }
    for id in ["m2", "m3", "m4", "../../secret"] {
        let run = bench.run(&["read", "l.json", id]);
        assert!(run.code != 0 && !run.out.contains("hunter2"), "{id}: {}", run.whole());
    }
    // An object that is not what its name says, a link for one, is none.
    let objects = bench.path(".epitome/objects");
    for entry in std::fs::read_dir(&objects).unwrap() {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(bench.path("secret"), &path).unwrap();
        let id = path.file_name().unwrap().to_str().unwrap().to_owned();
        let run = bench.run(&["read", "l.json", &id]);
        assert!(run.code != 0 && !run.out.contains("hunter2"), "{id}: {}", run.whole());
    }
}
