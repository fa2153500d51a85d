//! A gateway and a provider, both running, and the door to them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use epitome::budget::Tokens;
use epitome_gateway::RunningGateway;
use epitome_gateway::serve::{Gateway, Listening, Openness};
use epitome_gateway::settings::{Provider, Settings, Switch, Upstream, UpstreamRoute};
use epitome_mock::{MockServer, MockSettings, RecordedRequest};
use epitome_runtime::engine::{Engine, EngineParts};
use epitome_runtime::store::{MemoryStore, SqliteStore, Store};
use epitome_runtime::summarize::Summarizer;
use epitome_runtime::vault::Keys;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::net::TcpStream;

/// How long anything may take that should be quick.
pub const SOON: Duration = Duration::from_secs(20);

/// What a world is to be like.
pub struct Plan {
    mock: MockSettings,
    settings: Settings,
    engine: epitome_runtime::engine::EngineSettings,
    store: Arc<dyn Store>,
    objects: Arc<dyn object_store::ObjectStore>,
    summarizer: Summarizer,
    keys: Keys,
}

/// A gateway and a provider.
pub struct World {
    pub mock: MockServer,
    pub gate: Gate,
}

/// A gateway that serves.
pub struct Gate {
    pub address: SocketAddr,
    /// Whoever talks to it, on connections that are kept.
    pub client: reqwest::Client,
    pub running: RunningGateway,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Got {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
    /// Whether it came to its end.
    pub is_whole: bool,
}

impl Plan {
    pub fn new() -> Plan {
        Plan {
            mock: MockSettings::default(),
            settings: Settings::default(),
            engine: epitome_runtime::engine::EngineSettings::default(),
            store: Arc::new(MemoryStore::new()),
            objects: Arc::new(object_store::memory::InMemory::new()),
            summarizer: Summarizer::Embedded,
            keys: Keys::none(),
        }
    }

    /// A provider with this window.
    pub fn window(self, tokens: u64) -> Plan {
        self.mock(|mock| mock.window = Some(Tokens::new(tokens)))
    }

    /// A gateway with this budget.
    pub fn budget(self, tokens: u64) -> Plan {
        self.settings(|settings| settings.serve.budget = Some(Tokens::new(tokens)))
    }

    /// A gateway that gives its own tools to everybody.
    pub fn with_tools(self) -> Plan {
        self.settings(|settings| settings.serve.tools = Switch::On)
    }

    pub fn store(mut self, store: Arc<dyn Store>) -> Plan {
        self.store = store;
        self
    }

    pub fn objects(mut self, objects: Arc<dyn object_store::ObjectStore>) -> Plan {
        self.objects = objects;
        self
    }

    /// A store that is sealed with these keys.
    pub fn keys(mut self, keys: Keys) -> Plan {
        self.keys = keys;
        self
    }

    pub fn summarizer(mut self, summarizer: Summarizer) -> Plan {
        self.summarizer = summarizer;
        self
    }

    pub fn mock(mut self, change: impl FnOnce(&mut MockSettings)) -> Plan {
        change(&mut self.mock);
        self
    }

    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Plan {
        change(&mut self.settings);
        self
    }

    pub fn engine(mut self, change: impl FnOnce(&mut epitome_runtime::engine::EngineSettings)) -> Plan {
        change(&mut self.engine);
        self
    }

    /// Starts both.
    pub async fn start(self) -> World {
        let mock = MockServer::start(self.mock.clone()).unwrap();
        let gate = self.gate(&mock.url()).await;
        World { mock, gate }
    }

    /// Starts a gateway before a provider that is there already.
    pub async fn gate(self, upstream: &str) -> Gate {
        let routes = Provider::ALL.map(UpstreamRoute::Provider);
        let upstream = |route| Upstream { route, url: upstream.parse().unwrap(), key: None };
        let mut settings = self.settings;
        settings.serve.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        settings.upstreams = routes.map(upstream).into();
        let parts = EngineParts {
            store: self.store,
            objects: self.objects,
            summarizer: self.summarizer,
            keys: self.keys,
            ..EngineParts::in_memory(epitome_runtime::engine::EngineSettings {
                store_timeout: settings.serve.store_patience_ms.0,
                ..self.engine
            })
        };
        Gate::of(settings, Engine::new(parts).await.unwrap()).await
    }
}

impl Gate {
    /// Serves what an engine keeps, as these settings say.
    pub async fn of(settings: Settings, engine: Engine) -> Gate {
        let listening = Listening::on(&settings, Openness::Local).await.unwrap();
        let address = listening.address();
        let compactions = Arc::new(epitome_runtime::event::CompactionMetrics::new());
        let running = Gateway::start(Arc::new(settings), engine, compactions, listening);
        Gate { address, client: client(), running }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends bytes with these headers and no others of ours.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Got {
        Got::of(request(&self.client, method, &self.url(path), headers, body).send().await.unwrap()).await
    }

    /// Posts bytes with a key and a version.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Got {
        self.send("POST", path, &keyed(path, headers), body.into()).await
    }

    /// An answer that is still on its way.
    pub async fn begin(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> reqwest::Response {
        let headers = keyed(path, headers);
        request(&self.client, "POST", &self.url(path), &headers, body.into()).send().await.unwrap()
    }

    /// What the gateway's own endpoints say.
    pub async fn ask(&self, path: &str) -> Value {
        let got = self.send("GET", path, &[], Vec::new()).await;
        assert_eq!(got.status, 200, "{path}: {}", got.text());
        got.json()
    }

    /// The messages that the log has of a thread, once there are as many.
    pub async fn logged(&self, thread: &str, count: usize) -> Vec<Value> {
        let began = Instant::now();
        loop {
            let got = self.send("GET", &format!("/api/threads/{thread}/messages"), &[], Vec::new()).await;
            let messages = match got.status {
                200 => got.json()["messages"].as_array().unwrap().clone(),
                _ => Vec::new(),
            };
            if messages.len() >= count {
                return messages.iter().map(|entry| entry["message"].clone()).collect();
            }
            assert!(began.elapsed() < SOON, "{thread} has {} of {count} messages", messages.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A connection on which bytes are written as they are.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// How many requests are under way, the one that asks not counted.
    pub async fn in_flight(&self) -> u64 {
        let text = self.send("GET", "/metrics", &[], Vec::new()).await.text();
        let line = text.lines().find(|line| line.starts_with("epitome_gateway_requests_in_flight "));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap().saturating_sub(1)
    }

    /// Waits until everything is written down that is known of the requests so far.
    pub async fn flush(&self) {
        assert!(self.running.relay().flush(SOON).await, "what is known of requests is not written down");
    }

    /// Stops it, and waits until what is under way beside requests is done.
    pub async fn stop(self) {
        let report = tokio::time::timeout(SOON * 2, self.running.stop(SOON)).await.expect("it ends");
        assert!(report.is_log_complete, "what came is not in the log");
        report.ledger.unwrap();
    }
}

impl World {
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Got {
        self.gate.post(path, headers, body).await
    }

    /// What the provider was last sent.
    pub fn newest(&self) -> RecordedRequest {
        self.mock.requests().pop().expect("the provider was asked")
    }

    /// Nothing that the provider was sent broke a rule of its.
    #[track_caller]
    pub fn assert_lawful(&self) {
        assert_eq!(self.mock.violations(), []);
    }
}

impl Got {
    pub async fn of(mut response: reqwest::Response) -> Got {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut bytes = Vec::new();
        let is_whole = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        Got { status, headers, bytes, is_whole }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// What the gateway tells of it.
    pub fn told(&self, name: &str) -> Option<&str> {
        self.headers.get(format!("x-epitome-{name}"))?.to_str().ok()
    }

    /// The version of the plan it was under.
    pub fn plan(&self) -> u64 {
        self.told("plan").and_then(|plan| plan.parse().ok()).unwrap_or(0)
    }

    /// Its thread and how it relates to it.
    #[track_caller]
    pub fn placed(&self) -> (String, String) {
        let told = |name| self.told(name).unwrap_or_else(|| panic!("no {name}: {self:?}")).to_owned();
        (told("thread"), told("relation"))
    }

    /// It went well.
    #[track_caller]
    pub fn fine(self) -> Got {
        assert_eq!(self.status, 200, "{}", self.text());
        assert!(self.is_whole, "it broke off: {}", self.text());
        self
    }
}

/// A store in a folder that goes away with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("epitome-proxy-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.join("epitome.db")).unwrap())
    }

    pub fn objects(&self) -> Arc<dyn object_store::ObjectStore> {
        let objects = self.0.join("objects");
        std::fs::create_dir_all(&objects).unwrap();
        Arc::new(object_store::local::LocalFileSystem::new_with_prefix(objects).unwrap())
    }

    /// The files that hold these bytes, in their content or in their name.
    pub fn files_holding(&self, bytes: &[u8]) -> Vec<String> {
        let finder = memchr::memmem::Finder::new(bytes);
        let holds = |(name, content): &(String, Vec<u8>)| {
            finder.find(name.as_bytes()).is_some() || finder.find(content).is_some()
        };
        self.files().iter().filter(|file| holds(file)).map(|(name, _)| name.clone()).collect()
    }

    /// All files, with their names below the folder.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let (mut folders, mut files) = (vec![self.0.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&self.0).unwrap().display().to_string();
                // A journal may go away while it is looked at.
                files.extend(std::fs::read(&path).ok().map(|content| (name, content)));
            }
        }
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Posts bytes with a key and a version.
pub async fn post(url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Got {
    send("POST", url, &keyed(url, headers), body).await
}

/// Sends bytes.
pub async fn send(method: &str, url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Got {
    Got::of(request(&client(), method, url, headers, body).send().await.unwrap()).await
}

fn request(
    client: &reqwest::Client,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> reqwest::RequestBuilder {
    let request = client.request(method.parse().unwrap(), url).body(body);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

/// A key, a version and a type, unless they are given.
fn keyed<'a>(url: &str, headers: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [("x-api-key", "sk-test"), ("anthropic-version", "2023-06-01"), ("content-type", "application/json")];
    let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
    let fits = |name: &str| name != "anthropic-version" || url.contains("/v1/messages");
    let usual = usual.into_iter().filter(|(name, _)| !given(name) && fits(name));
    usual.chain(headers.iter().copied()).collect()
}

pub fn client() -> reqwest::Client {
    // The client asks for one even where nothing is sealed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().unwrap()
}
