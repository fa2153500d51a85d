//! `epitome serve`, as a process: it says where it is, shows a compaction, and stops well.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]
#![cfg(unix)]

mod bench;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use bench::Bench;

/// A gateway that runs until it is dropped.
struct Serving {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Serving {
    fn demo(bench: &Bench) -> Serving {
        let mut child = Command::new(env!("CARGO_BIN_EXE_epitome"))
            .args(["serve", "--demo", "--listen", "127.0.0.1:0"])
            .current_dir(bench.path("."))
            .env("HOME", bench.path("."))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.strip_prefix("Listening on http://").and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("it said {line}")).to_owned();
        Serving { child, said, address }
    }

    /// The answer to a request, head and body.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer demo");
        let head = match path {
            "/v1/messages" => format!("{head}\r\nanthropic-version: 2023-06-01\r\nx-api-key: demo"),
            _ => head,
        };
        write!(stream, "{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends it as a supervisor does; its exit code and everything else that it said.
    fn end(mut self) -> (Option<i32>, String) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        (code, said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_demonstration_shows_a_compaction_and_ends_well() {
    let bench = Bench::new();
    let serving = Serving::demo(&bench);
    assert!(serving.ask("GET", "/readyz", "").starts_with("HTTP/1.1 200 "));
    let mut messages = vec![r#"{"role":"system","content":"Be brief."}"#.to_owned()];
    let numbers: String = (0..300).map(|number| format!("{number} ")).collect();
    let mut plans = Vec::new();
    for step in 0..8 {
        messages.push(format!(r#"{{"role":"user","content":"Step {step}. {numbers}"}}"#));
        let body = format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, messages.join(","));
        let answer = serving.ask("POST", "/v1/chat/completions", &body);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let content = answer.split(r#""content":""#).nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        messages.push(format!(r#"{{"role":"assistant","content":"{content}"}}"#));
        plans.extend(answer.lines().find_map(|line| line.strip_prefix("x-epitome-plan: ")?.parse::<u64>().ok()));
    }
    assert!(plans.last().is_some_and(|plan| *plan > 0), "{plans:?}");
    assert!(serving.ask("GET", "/api/threads", "").contains("\"client\""));
    let (code, said) = serving.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("OPENAI_BASE_URL=http://127.0.0.1:") && said.contains("All requests completed."), "{said}");
}

/// Requests of three dialects, with and without tools, system prompts and images.
fn requests() -> [(&'static str, &'static str); 8] {
    const CLAUDE: &str = "/v1/messages";
    const CHAT: &str = "/v1/chat/completions";
    const RESPONSES: &str = "/v1/responses";
    [
        (
            CLAUDE,
            r#"{"model":"claude-sonnet-4-5","max_tokens":50,"messages":[{"role":"user","content":"Which files are there?"}]}"#,
        ),
        (
            CLAUDE,
            r#"{"model":"claude-sonnet-4-5","max_tokens":50,"system":"Be brief.","tools":[{"name":"read","description":"Reads.","input_schema":{"type":"object","properties":{}}},
            {"name":"list","description":"Lists.","input_schema":{"type":"object","properties":{}}}],"messages":[{"role":"user","content":"Which files are there?"}]}"#,
        ),
        (
            CLAUDE,
            r#"{"model":"claude-sonnet-4-5","max_tokens":50,"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"Be kind."}],
            "messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"A valve leaks."}},{"type":"text","text":"What is it?"}]}]}"#,
        ),
        (CHAT, r#"{"model":"gpt-4o","messages":[{"role":"user","content":"Which files are there?"}]}"#),
        (
            CHAT,
            r#"{"model":"gpt-4o","tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}],
            "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAASwAAADICAAAAAB3tIOJAAAA"}},{"type":"text","text":"What is it?"}]}]}"#,
        ),
        (RESPONSES, r#"{"model":"gpt-5","input":[{"role":"user","content":"Which files are there?"}]}"#),
        (
            RESPONSES,
            r#"{"model":"gpt-5","instructions":"Be brief.","tools":[{"type":"function","name":"read","parameters":{"type":"object"}}],
            "input":[{"role":"developer","content":"Be kind."},{"role":"user","content":[{"type":"input_text","text":"What is it?"}]}]}"#,
        ),
        (CHAT, r#"{"model":"of-nobody","messages":[{"role":"user","content":"Which files are there?"}]}"#),
    ]
}

#[test]
fn a_request_has_one_size_for_count_and_for_the_gateway() {
    let bench = Bench::new();
    let serving = Serving::demo(&bench);
    for (path, body) in requests() {
        std::fs::write(bench.path("request.json"), body).unwrap();
        // The gateway knows the dialect by the path; a short request may look like one of another.
        let format = match path {
            "/v1/messages" => "anthropic",
            "/v1/responses" => "responses",
            _ => "chat",
        };
        let run = bench.run(&["count", "request.json", "--format", format, "--json"]);
        let counted: serde_json::Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}", run.err));
        let answer = serving.ask("POST", path, body);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let told = answer.lines().find_map(|line| line.strip_prefix("x-epitome-tokens-before: "));
        assert_eq!(told.unwrap_or("nothing").trim(), counted["total"].to_string(), "{body}");
    }
}

#[test]
fn what_is_wrong_is_said_before_it_listens() {
    let bench = Bench::new();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--listen", "0.0.0.0:0"], 2, "without `serve.keys`"),
        (&["--listen", "8788"], 2, "`serve.listen = \"8788\"` is invalid"),
        (&["--upstream", "opnai=http://127.0.0.1:1"], 2, "a model such as"),
        (&["--tls-certificate", "c.pem"], 2, "`serve.tls_key` is not"),
        (&["--tls-certificate", "c.pem", "--tls-key", "k.pem"], 3, "c.pem cannot be used for TLS"),
    ];
    for (args, code, words) in cases {
        let run = bench.run(&[&["serve", "--store", "memory:"], args].concat());
        assert_eq!(run.code, code, "{args:?}: {}", run.err);
        assert!(run.err.contains(words) && run.err.contains("hint: "), "{args:?}: {}", run.err);
    }
}
