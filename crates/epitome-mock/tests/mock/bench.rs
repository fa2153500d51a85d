//! A mock that is running, and the door to it.

use std::time::Duration;

use epitome_mock::{MockServer, MockSettings};
use serde_json::{Value, json};

/// A mock and a client of it.
pub struct Bench {
    pub mock: MockServer,
    client: reqwest::Client,
    key: String,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Got {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub bytes: Vec<u8>,
}

impl Bench {
    /// A mock with these settings.
    pub fn over(settings: MockSettings) -> Bench {
        let mock = MockServer::start(settings).unwrap();
        let client = client();
        Bench { mock, client, key: "sk-test".into() }
    }

    /// A mock as it comes.
    pub fn new() -> Bench {
        Bench::over(MockSettings::default())
    }

    /// Sends a body, with a key and a version.
    pub async fn post(&self, path: &str, body: &Value) -> Got {
        self.send(path, &[], body.to_string().into_bytes()).await
    }

    /// Sends a body with more headers.
    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Got {
        self.send(path, headers, body.to_string().into_bytes()).await
    }

    /// Sends bytes.
    pub async fn send(&self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Got {
        let mut request = self.client.post(format!("{}{path}", self.mock.url())).body(body);
        request = request.header("x-api-key", &self.key).header("anthropic-version", "2023-06-01");
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Got::of(request.send().await.unwrap()).await
    }

    /// Sends nothing but what is given.
    pub async fn bare(&self, method: reqwest::Method, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        let mut request = self.client.request(method, format!("{}{path}", self.mock.url())).body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Got::of(request.send().await.unwrap()).await
    }
}

impl Got {
    async fn of(mut response: reqwest::Response) -> Got {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut bytes = Vec::new();
        // A cut stream ends in an error; what came before it counts.
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes.extend_from_slice(&chunk);
        }
        Got { status, headers, bytes }
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The message of an error, whoever's it is.
    pub fn message(&self) -> String {
        self.json().pointer("/error/message").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The data of every event of a stream, but for the end mark.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The types of the events, runs of one type written once.
    pub fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> =
            self.events().iter().map(|event| event["type"].as_str().unwrap_or("chunk").to_owned()).collect();
        kinds.dedup();
        kinds
    }

    /// It went well.
    #[track_caller]
    pub fn fine(self) -> Got {
        assert_eq!(self.status, 200, "{}", self.text());
        self
    }
}

/// A client; reqwest wants to know who encrypts, even where nothing is encrypted.
pub fn client() -> reqwest::Client {
    // Another test may have said so already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap()
}

/// A text of about so many tokens.
pub fn long(tokens: usize) -> String {
    (0..tokens / 3).map(|at| format!("word {}", at % 10)).collect::<Vec<_>>().join(" ")
}

/// A chat request of about so many tokens.
pub fn chat(tokens: usize) -> Value {
    json!({"model": "mock", "messages": [{"role": "user", "content": long(tokens)}]})
}

/// A Responses request of about so many tokens.
pub fn responses(tokens: usize) -> Value {
    json!({"model": "mock", "input": [{"role": "user", "content": long(tokens)}]})
}

/// A Messages request of about so many tokens.
pub fn messages(tokens: usize) -> Value {
    json!({"model": "mock", "max_tokens": 100, "messages": [{"role": "user", "content": long(tokens)}]})
}

/// A Gemini request of about so many tokens.
pub fn gemini(tokens: usize) -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": long(tokens)}]}]})
}

/// A request with these fields as well.
pub fn with(mut request: Value, fields: Value) -> Value {
    if let (Some(request), Value::Object(fields)) = (request.as_object_mut(), fields) {
        request.extend(fields);
    }
    request
}
