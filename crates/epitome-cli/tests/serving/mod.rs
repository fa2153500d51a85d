//! A gateway as a process of its own, with a provider behind it.

#![allow(dead_code)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use epitome_mock::{MockServer, MockSettings};
use serde_json::Value;

use crate::bench::Bench;

/// How long anything may take that should not take for ever.
pub const LONG: Duration = Duration::from_secs(60);

/// A gateway that runs until it is dropped.
pub struct Serving {
    child: Child,
    address: String,
    pub said: Arc<Mutex<String>>,
    /// What answers behind it.
    _runtime: tokio::runtime::Runtime,
    _mock: MockServer,
}

impl Serving {
    /// Serves on a store, with artifacts in memory.
    pub fn start(bench: &Bench, store: &str) -> Serving {
        let mut program = Command::new(env!("CARGO_BIN_EXE_epitome"));
        program.env("EPITOME_ARTIFACTS_URL", "memory:");
        Serving::launch(bench, program, &["--store", store])
    }

    /// Serves with these flags, started by a command that takes what follows the program's name.
    pub fn launch(bench: &Bench, mut program: Command, flags: &[&str]) -> Serving {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mock = {
            let _inside = runtime.enter();
            MockServer::start(MockSettings::default()).unwrap()
        };
        let mut child = program
            .args(["serve", "--listen", "127.0.0.1:0", "--upstream", &format!("openai={}", mock.url())])
            .args(flags)
            .current_dir(bench.path("."))
            .env("HOME", bench.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let address = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended: {}", said.lock().unwrap());
            said.lock().unwrap().push_str(&line);
            if let Some(rest) = line.strip_prefix("Listening on http://") {
                break rest.split(';').next().unwrap().to_owned();
            }
        };
        let more = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                more.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Serving { child, address, said, _runtime: runtime, _mock: mock }
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer k");
        write!(stream, "{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Says something; the answer, which always comes.
    pub fn talk(&self, messages: &[&str]) -> String {
        let messages: Vec<Value> = messages
            .iter()
            .enumerate()
            .map(|(at, words)| serde_json::json!({"role": (["user", "assistant"][at % 2]), "content": words}))
            .collect();
        let body = serde_json::json!({"model": "gpt-4o", "messages": messages}).to_string();
        let answer = self.ask("POST", "/v1/chat/completions", &body);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer
    }

    /// What it says of its store: the status, whether it is well, and how it is.
    pub fn readiness(&self) -> (String, bool, String) {
        self.readiness_of("store")
    }

    /// What it says of its store or of its artifacts.
    pub fn readiness_of(&self, name: &str) -> (String, bool, String) {
        let answer = self.ask("GET", "/readyz", "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "it stays in service: {answer}");
        let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        let check = body["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&body["status"]), check["ok"].as_bool().unwrap(), text(&check["detail"]))
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&Serving) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(
                began.elapsed() < LONG,
                "{what} does not come: {:?} {}",
                self.readiness(),
                self.said.lock().unwrap()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// It keeps what is said to it, in a thread that can be read.
    #[track_caller]
    pub fn keeps(&self, words: &str) {
        self.wait_until("a thread that is kept", |serving| {
            let answer = serving.talk(&[words]);
            let Some(thread) = answer.lines().find_map(|line| line.strip_prefix("x-epitome-thread: ")) else {
                return false;
            };
            assert!(!answer.contains("x-epitome-failed-open"), "{answer}");
            serving.ask("GET", &format!("/api/threads/{thread}/messages"), "").contains(words)
        });
        // What a probe found is good for a second.
        let is_ready = ("ready".to_owned(), true, "answers".to_owned());
        self.wait_until("that it is ready", |serving| serving.readiness() == is_ready);
    }

    pub fn end(mut self) -> Option<i32> {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
