//! An embedding endpoint of a few lines: it knows which words mean the same, and can be told to fail.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use epitome::wire::Dialect;
use epitome_runtime::model::{BreakerSettings, EmbeddingSettings, Embeddings, Endpoint, Retry};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Words that mean the same; every other word means itself.
const MEANINGS: [&[&str]; 4] = [
    &["car", "automobile", "vehicle", "sedan"],
    &["slow", "sluggish", "latency", "crawls"],
    &["password", "credentials", "login"],
    &["cat", "feline", "kitten"],
];
const NUMBERS: usize = 256;

/// The endpoint, for as long as it is held.
pub struct Embedder {
    url: String,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    is_down: AtomicBool,
    /// After so many requests it is down; 0 is never.
    down_after: AtomicUsize,
    /// Texts with this word are refused.
    refused: Mutex<Option<String>>,
    texts: Mutex<Vec<String>>,
    requests: AtomicUsize,
}

impl Embedder {
    pub async fn start() -> Embedder {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Embedder { url, state, task }
    }

    /// A client for it: batches of eight, no retries, a breaker that stays closed.
    pub fn client(&self) -> Embeddings {
        let endpoint = Endpoint {
            key: Some("sk-hidden".into()),
            retry: Retry::never(),
            trip: BreakerSettings { failures: u32::MAX, ..BreakerSettings::default() },
            ..Endpoint::new(&self.url, Dialect::Chat, "concepts")
        };
        let settings = EmbeddingSettings { batch: 8, search_timeout: Duration::from_secs(20), ..Default::default() };
        Embeddings::new(endpoint, settings).unwrap()
    }

    pub fn is_down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::SeqCst);
        self.state.down_after.store(0, Ordering::SeqCst);
    }

    pub fn goes_down_after(&self, requests: usize) {
        self.state.down_after.store(self.state.requests.load(Ordering::SeqCst) + requests, Ordering::SeqCst);
    }

    pub fn refuses(&self, word: &str) {
        *self.state.refused.lock().unwrap() = Some(word.to_owned());
    }

    /// The texts that got a vector so far.
    pub fn texts(&self) -> Vec<String> {
        self.state.texts.lock().unwrap().clone()
    }
}

impl Drop for Embedder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut bytes = Vec::new();
    while let Some(request) = read(&mut stream, &mut bytes).await {
        let (status, answer) = respond(&request, &state);
        let body = answer.to_string();
        let head =
            format!("HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all((head + &body).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The next request's head and body.
async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, Value)> {
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let named = |line: &str| line.to_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok();
            let size = head.lines().find_map(named).unwrap_or(0);
            if bytes.len() >= end + 4 + size {
                let body = serde_json::from_slice(&bytes[end + 4..end + 4 + size]).unwrap_or_default();
                bytes.drain(..end + 4 + size);
                return Some((head, body));
            }
        }
        let mut more = [0; 16 * 1024];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&more[..count]),
        }
    }
}

fn respond((head, body): &(String, Value), state: &State) -> (u16, Value) {
    let number = state.requests.fetch_add(1, Ordering::SeqCst);
    let error = |status, message: &str| (status, json!({"error": {"message": message}}));
    let down_after = state.down_after.load(Ordering::SeqCst);
    if state.is_down.load(Ordering::SeqCst) || down_after > 0 && number >= down_after {
        return error(500, "the embedding model is being loaded");
    }
    if !head.starts_with("POST /v1/embeddings ") || !head.to_lowercase().contains("authorization: bearer sk-hidden") {
        return error(404, "no such endpoint, or no key");
    }
    let texts: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
    let refused = state.refused.lock().unwrap().clone();
    if refused.is_some_and(|word| texts.iter().any(|text| text.contains(&word))) {
        return error(400, "this input is too long for the model");
    }
    let data: Vec<Value> =
        texts.iter().enumerate().map(|(index, text)| json!({"index": index, "embedding": vector(text)})).collect();
    state.texts.lock().unwrap().extend(texts);
    (200, json!({"object": "list", "data": data, "model": body["model"]}))
}

/// Each meaning has a number of its own; a word of no other meaning has one by its letters.
fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; NUMBERS];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        match MEANINGS.iter().position(|meaning| meaning.contains(&word)) {
            Some(meaning) => vector[meaning] += 4.0,
            None => {
                let hash = word.bytes().fold(7_usize, |hash, byte| (hash * 31 + usize::from(byte)) % 1_000_003);
                vector[MEANINGS.len() + hash % (NUMBERS - MEANINGS.len())] += 0.2;
            }
        }
    }
    vector
}
