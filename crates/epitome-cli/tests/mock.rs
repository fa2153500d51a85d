//! `epitome mock`: its catalog, its life as a process, and a port that is taken.

#![allow(clippy::unwrap_used)]

mod bench;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};

use bench::Bench;

#[test]
fn the_catalog_says_what_is_an_overflow_and_what_only_looks_like_one() {
    let out = Bench::new().run(&["mock", "--list"]).ended(0).out;
    let kind = |name: &str| {
        let line = out.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_default();
        line.get(25..37).unwrap_or_default().trim().to_owned()
    };
    for (name, expected) in
        [("anthropic", "overflow"), ("tpm-429", "no overflow"), ("groq-tpm-413", "no overflow"), ("garbage", "broken")]
    {
        assert_eq!(kind(name), expected, "{out}");
    }
    let json = Bench::new().run(&["mock", "--list", "--json"]).ended(0).json();
    assert_eq!(json["faults"].as_array().unwrap().len(), out.lines().count());
}

#[test]
fn a_shape_that_nobody_knows_and_a_port_that_is_taken_are_told() {
    let run = Bench::new().run(&["mock", "--overflow", "nothing"]).ended(2);
    assert!(run.err.contains("`nothing` is not in the catalog; `epitome mock --list` shows it"), "{}", run.err);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = Bench::new().run(&["mock", "--port", &port]).ended(4);
    assert!(run.err.contains(&format!("The mock cannot listen on 127.0.0.1:{port}")), "{}", run.err);
    assert!(run.err.contains("`--port 0` takes a free port."), "{}", run.err);
}

/// A mock as a process, with its address.
fn started(bench: &Bench, words: &[&str]) -> (Child, String) {
    let mut child = bench.start(&[&["mock", "--port", "0"], words].concat());
    let mut first = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut first).unwrap();
    let address = first.split("http://").nth(1).and_then(|rest| rest.split(';').next()).unwrap().to_owned();
    (child, address)
}

/// What comes back for a body.
fn posted(address: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer k\r\ncontent-length: {length}\r\nconnection: \
         close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_answers_until_it_is_interrupted_and_then_tells_which_rules_were_broken() {
    let bench = Bench::new();
    let (mut child, address) = started(&bench, &["--window", "100", "--overflow", "groq"]);
    let path = "/v1/chat/completions";
    let fine = posted(&address, path, r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    assert!(fine.contains("I saw 1 messages."), "{fine}");
    let long = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#, "word ".repeat(200));
    let refused = posted(&address, path, &long);
    assert!(refused.contains("Please reduce the length of the messages or completion."), "{refused}");
    posted(&address, path, r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"r"}]}"#);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let mut out = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success());
    let told = "1 violation.\nC2     /v1/chat/completions: Invalid parameter: messages with role 'tool' must be a response to \
                a preceeding message with 'tool_calls'.\n";
    assert_eq!(out, told);
}
