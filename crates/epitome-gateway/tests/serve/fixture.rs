//! A gateway that serves on a port of its own, with a proxy that does what the path says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use epitome_gateway::serve::{Call, Ended, Gateway, Listening, Metrics, Openness, Proxy, Stop, Stopper};
use epitome_gateway::settings::{Serve, Settings};
use epitome_runtime::engine::{Engine, EngineParts};
use futures_util::StreamExt as _;
use http::{HeaderName, Request, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// How long anything may take that should be quick.
pub const SOON: Duration = Duration::from_secs(10);
/// Between two pieces of a stream.
pub const PAUSE: Duration = Duration::from_millis(30);

/// A gateway that serves.
pub struct Running {
    pub address: SocketAddr,
    pub engine: Engine,
    pub stopper: Stopper,
    pub task: JoinHandle<Ended>,
}

impl Running {
    /// Serves under these settings, on any port, over these parts.
    pub async fn over(settings: Settings, parts: EngineParts) -> Running {
        let engine = Engine::new(parts).await.expect("an engine");
        Running::of(settings, engine).await
    }

    /// Serves under these settings, with everything in memory.
    pub async fn new(settings: Settings) -> Running {
        Running::over(settings, EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default())).await
    }

    /// Serves what an engine keeps.
    pub async fn of(mut settings: Settings, engine: Engine) -> Running {
        settings.serve.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let listening = Listening::on(&settings, Openness::Local).await.expect("a port");
        let (address, (stopper, stop)) = (listening.address(), Stop::pair());
        let gateway = Gateway {
            settings: Arc::new(settings),
            engine: engine.clone(),
            proxy: Obedient,
            metrics: Arc::new(Metrics::new()),
            compactions: Arc::new(epitome_runtime::event::CompactionMetrics::new()),
            mcp: None,
        };
        let task = tokio::spawn(gateway.serve(listening, stop));
        Running { address, engine, stopper, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let request =
            headers.iter().fold(client().get(self.url(path)), |request, (name, value)| request.header(*name, *value));
        request.send().await.expect("an answer")
    }

    pub async fn json(&self, path: &str, headers: &[(&str, &str)]) -> (u16, serde_json::Value) {
        let response = self.get(path, headers).await;
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {text:?} is not JSON")))
    }

    /// How many requests are under way, the one that asks not counted.
    pub async fn in_flight(&self) -> u64 {
        let text = self.get("/metrics", &[]).await.text().await.expect("numbers");
        let count = text.lines().find_map(|line| line.strip_prefix("epitome_gateway_requests_in_flight "));
        count.and_then(|count| count.parse::<u64>().ok()).expect("a number").saturating_sub(1)
    }

    /// A connection on which bytes are written as they are.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Waits until it has ended.
    pub async fn ended(self) -> Ended {
        tokio::time::timeout(SOON, self.task).await.expect("it ends soon").expect("it ends well")
    }
}

pub fn client() -> reqwest::Client {
    // The client asks for one even where nothing is sealed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// What a connection says until it is closed.
pub async fn rest_of(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    let read = stream.read_to_end(&mut said);
    let _ = tokio::time::timeout(SOON, read).await.expect("it is closed soon");
    String::from_utf8_lossy(&said).into_owned()
}

/// What is answered to bytes after which the connection is to be closed.
pub async fn said_to(running: &Running, bytes: &str) -> String {
    let mut stream = running.connect().await;
    stream.write_all(bytes.as_bytes()).await.expect("they are sent");
    rest_of(&mut stream).await
}

pub fn with_limits(change: impl FnOnce(&mut Serve)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.serve);
    settings
}

/// A proxy that does what the path says: `/echo`, `/stream/COUNT`, `/endless`, `/never`.
pub struct Obedient;

impl Proxy for Obedient {
    type Body = Body;

    async fn answer(&self, request: Request<Incoming>, call: Call) -> Response<Body> {
        let path = request.uri().path().to_owned();
        match path.split('/').nth(1).unwrap_or_default() {
            "stream" => Response::new(pieces(path.rsplit('/').next().and_then(|count| count.parse().ok()))),
            "endless" => Response::new(pieces(None)),
            "never" => std::future::pending().await,
            _ => echo(request, &call),
        }
    }
}

/// An answer with the request's own headers, spelled as they came.
fn echo(request: Request<Incoming>, call: &Call) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let mut response = Response::new(Body::from(call.id.to_string()));
    *response.extensions_mut() = parts.extensions;
    let odd = HeaderName::from_static("x-weird-name");
    if let Some(value) = parts.headers.get(&odd) {
        response.headers_mut().insert(odd, value.clone());
    }
    response
}

fn pieces(count: Option<usize>) -> Body {
    let numbers = futures_util::stream::iter(0..count.unwrap_or(usize::MAX));
    let pieces = numbers.then(|number| async move {
        tokio::time::sleep(PAUSE).await;
        Ok::<_, Infallible>(Bytes::from(format!("{number}\n")))
    });
    Body::from_stream(pieces)
}
