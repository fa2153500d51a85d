//! `epitome serve` on SQLite, killed at any moment: what a client has the answer to is in the store.
//!
//! Several clients talk to one gateway, in every dialect, whole and streamed, with and without the gateway's own tools.
//! Then the process is killed, and the store is opened and looked at. `KILL_ROUNDS` says how often (`just kill`), and
//! `KILL_PERSIST` sets `serve.persist`: with `after-answer` it fails, as it should.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "this is a test")]
#![cfg(unix)]

mod bench;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::Bench;
use epitome_mock::{MockServer, MockSettings};
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings};
use epitome_runtime::ids::TenantId;
use epitome_runtime::store::{DocumentKind, SqliteStore};
use serde_json::{Value, json};

const CLIENTS: usize = 6;
const TURNS: usize = 3;

/// How a request is asked.
#[derive(Clone, Copy, Debug)]
struct Way {
    path: &'static str,
    streams: bool,
    has_tools: bool,
    /// Whether the client goes as soon as it has the last event, or waits for the end of the body.
    leaves_at_last_event: bool,
}

/// What a client has seen the end of.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "all of it is shown where it is lost")]
struct Answered {
    words: String,
    way: Way,
    thread: String,
    messages: usize,
    /// Whether the end of the body was seen, not only the last event.
    saw_the_end: bool,
}

struct Gateway {
    child: Child,
    address: String,
}

impl Gateway {
    fn start(bench: &Bench, provider: &str) -> Gateway {
        let upstreams = format!("openai={provider},anthropic={provider}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_epitome"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:threads.db"])
            .env("EPITOME_SERVE_UPSTREAMS", upstreams)
            .env("EPITOME_SERVE_PERSIST", std::env::var("KILL_PERSIST").unwrap_or("before-answer".to_owned()))
            .current_dir(bench.path("."))
            .env("HOME", bench.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.strip_prefix("Listening on http://").and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("it said {line}")).to_owned();
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Gateway { child, address }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Way {
    fn of(number: usize) -> Way {
        let path = ["/v1/chat/completions", "/v1/messages", "/v1/responses"][number % 3];
        Way {
            path,
            streams: number.is_multiple_of(2),
            has_tools: number.is_multiple_of(5),
            leaves_at_last_event: number % 4 < 2,
        }
    }

    fn body(self, messages: &[Value]) -> String {
        let list = if self.path == "/v1/responses" { "input" } else { "messages" };
        let model = if self.path == "/v1/messages" { "claude-sonnet-4-5" } else { "gpt-4o" };
        let mut body = json!({"model": model, list: messages, "stream": self.streams});
        if self.path == "/v1/messages" {
            body["max_tokens"] = json!(100);
        }
        if self.has_tools {
            let schema = json!({"type": "object", "properties": {}});
            body["tools"] = match self.path {
                "/v1/messages" => json!([{"name": "look", "input_schema": schema}]),
                "/v1/responses" => json!([{"type": "function", "name": "look", "parameters": schema}]),
                _ => json!([{"type": "function", "function": {"name": "look", "parameters": schema}}]),
            };
        }
        body.to_string()
    }

    /// What the last event of a stream holds.
    fn last_event(self) -> &'static str {
        match self.path {
            "/v1/messages" => "message_stop",
            "/v1/responses" => "response.completed",
            _ => "[DONE]",
        }
    }

    /// Asks; the head of the answer once the last of it is there, and whether its end was seen.
    fn ask(self, address: &str, messages: &[Value]) -> Option<(String, bool)> {
        let mut stream = TcpStream::connect(address).ok()?;
        let body = self.body(messages);
        let tools = if self.has_tools { "x-epitome-tools: on\r\n" } else { "" };
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer k\r\nx-api-key: k\r\n\
             anthropic-version: 2023-06-01\r\n{tools}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.path,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()?;
        let (mut got, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut piece).ok()?;
            got.extend_from_slice(&piece[..count]);
            let text = String::from_utf8_lossy(&got);
            let has_last_event = self.streams && text.contains(self.last_event());
            if count == 0 || (has_last_event && self.leaves_at_last_event) {
                let (head, rest) = text.split_once("\r\n\r\n")?;
                assert!(head.starts_with("HTTP/1.1 200 "), "{self:?}: {text}");
                let is_whole =
                    if self.streams { has_last_event } else { rest.trim_end().ends_with('}') || is_chunked_end(rest) };
                return is_whole.then(|| (head.to_ascii_lowercase(), count == 0 && ends(head, rest)));
            }
        }
    }
}

fn is_chunked_end(rest: &str) -> bool {
    rest.ends_with("\r\n0\r\n\r\n")
}

/// Whether a body came to its end, as its head says how long it is.
fn ends(head: &str, rest: &str) -> bool {
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    length.map_or_else(|| is_chunked_end(rest), |length: usize| rest.len() == length)
}

/// Talks until nobody answers any more.
fn talk(
    address: &str,
    client: usize,
    round: usize,
    answered: &Mutex<Vec<Answered>>,
    seen: &AtomicUsize,
    stop: &AtomicBool,
) {
    for conversation in 0.. {
        let way = Way::of(client + conversation * CLIENTS + round);
        let mut messages = Vec::new();
        for turn in 0..TURNS {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let words = format!("round {round} client {client} conversation {conversation} turn {turn}");
            messages.push(json!({"role": "user", "content": words}));
            let Some((head, saw_the_end)) = way.ask(address, &messages) else { return };
            let thread = head.lines().find_map(|line| line.strip_prefix("x-epitome-thread: ")).unwrap_or("").to_owned();
            answered.lock().unwrap().push(Answered { words, way, thread, messages: messages.len(), saw_the_end });
            seen.fetch_add(1, Ordering::Relaxed);
            messages.push(json!({"role": "assistant", "content": format!("answer {turn}")}));
        }
    }
}

/// Everything that users said, and the answers that are kept, each by its thread and the length of it.
fn held(path: &Path) -> (BTreeSet<String>, BTreeSet<(String, u64)>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(path).unwrap());
        let engine =
            Engine::new(EngineParts { store, ..EngineParts::in_memory(EngineSettings::default()) }).await.unwrap();
        let (log, tenant) = (engine.log(), TenantId::local());
        let mut words = BTreeSet::new();
        for row in log.store().threads(&tenant, None, usize::MAX >> 1).await.unwrap() {
            for entry in log.read(&row, 0..row.length).await.unwrap() {
                let message: Value = serde_json::from_str(entry.message.raw.as_str()).unwrap();
                words.insert(message["content"].as_str().unwrap_or_default().to_owned());
            }
        }
        let answers = log.documents::<Value>(&tenant, DocumentKind::Answer, None, usize::MAX >> 1).await.unwrap();
        let answers = answers
            .into_iter()
            .map(|(_, kept)| (kept["thread"].as_str().unwrap().to_owned(), kept["length"].as_u64().unwrap()));
        (words, answers.collect())
    })
}

/// One gateway, killed at some moment of its life.
fn round(number: usize, mock: &MockServer) -> usize {
    let bench = Bench::new();
    let gateway = Gateway::start(&bench, &mock.url());
    let (answered, seen, stop) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicBool::new(false));
    let at_least = 5 + number * 7 % 60;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (address, answered, seen, stop) = (gateway.address.clone(), &answered, &seen, &stop);
            scope.spawn(move || talk(&address, client, number, answered, seen, stop));
        }
        let began = Instant::now();
        while seen.load(Ordering::Relaxed) < at_least && began.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        gateway.kill();
        stop.store(true, Ordering::Relaxed);
    });
    let answered = answered.into_inner().unwrap();
    assert!(answered.len() >= at_least, "round {number}: only {} answers came", answered.len());
    let (words, answers) = held(&bench.path("threads.db"));
    let lost: Vec<&Answered> = answered.iter().filter(|answered| !words.contains(&answered.words)).collect();
    assert!(lost.is_empty(), "round {number}: {} of {} are lost: {lost:#?}", lost.len(), answered.len());
    let is_kept = |one: &&Answered| answers.contains(&(one.thread.clone(), one.messages as u64));
    let unkept: Vec<&Answered> = answered.iter().filter(|one| one.saw_the_end && !is_kept(one)).collect();
    assert!(unkept.is_empty(), "round {number}: {} answers are not kept: {unkept:#?}", unkept.len());
    answered.len()
}

#[test]
fn what_a_client_has_the_answer_to_survives_a_kill_at_any_moment() {
    let rounds = std::env::var("KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let mock = MockServer::start(MockSettings { lax: true, ..MockSettings::default() }).unwrap();
    let answered: usize = (0..rounds).map(|number| round(number, &mock)).sum();
    println!("{rounds} kills, {answered} answers, none of them lost");
}
