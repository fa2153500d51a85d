//! Spans to an OpenTelemetry collector, over HTTP.
//!
//! Only the spans of [`spans`] leave the process: no log lines, and no spans of any library. They are sent
//! in batches from a thread with a runtime of its own, so that a collector that hangs holds up nothing, and the last
//! batch is sent whatever becomes of the program's runtime.

use std::collections::HashMap;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tokio::runtime::Runtime;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::spans;

const EXPORT_LIMIT: Duration = Duration::from_secs(10);

const FLUSH_LIMIT: Duration = Duration::from_secs(5);

const PATH: &str = "/v1/traces";

/// Spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be exported to {endpoint}: {reason}")]
pub struct ExporterError {
    endpoint: String,
    reason: String,
}

/// A layer for the subscriber of the program.
pub type SpanLayer<S> = Box<dyn Layer<S> + Send + Sync>;

/// Sends spans to a collector as long as it is kept; what is left is sent when it goes.
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// Starts to send spans to the collector at `endpoint`, such as `http://127.0.0.1:4318`, under a service's name.
    pub fn start<S>(
        endpoint: &str,
        headers: HashMap<String, String>,
        service: &str,
    ) -> Result<(SpanLayer<S>, Exporter), ExporterError>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let sender =
            Sender::new(endpoint, headers).map_err(|reason| ExporterError { endpoint: endpoint.to_owned(), reason })?;
        let resource = Resource::builder_empty().with_service_name(service.to_owned()).build();
        let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(sender).build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer(env!("CARGO_PKG_NAME")))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == spans::TARGET));
        Ok((Box::new(layer), Exporter { provider }))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_LIMIT) {
            tracing::warn!("the last spans were not sent: {error}");
        }
    }
}

/// Sends batches on a runtime of its own: the batch thread that calls it has none.
#[derive(Debug)]
struct Sender {
    inner: opentelemetry_otlp::SpanExporter,
    runtime: Option<Runtime>,
}

impl Sender {
    fn new(endpoint: &str, headers: HashMap<String, String>) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let inner = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(traces_at(endpoint))
            .with_timeout(EXPORT_LIMIT)
            .with_headers(headers)
            .with_http_client(client(endpoint)?)
            .build();
        Ok(Sender {
            inner: inner.map_err(|error| error.to_string())?,
            runtime: Some(runtime.map_err(|error| error.to_string())?),
        })
    }
}

impl SpanExporter for Sender {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        match &self.runtime {
            Some(runtime) => runtime.block_on(self.inner.export(batch)),
            None => Ok(()),
        }
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // A runtime that is dropped where another one runs would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn traces_at(endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    if endpoint.ends_with(PATH) { endpoint.to_owned() } else { format!("{endpoint}{PATH}") }
}

fn client(endpoint: &str) -> Result<reqwest::Client, String> {
    crate::tls::install_provider();
    let url = reqwest::Url::parse(endpoint).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("it must begin with http:// or https://, not {}:", url.scheme()));
    }
    // Between two batches the runtime stands still and would not notice that a kept connection was closed.
    let builder = reqwest::Client::builder().timeout(EXPORT_LIMIT).pool_max_idle_per_host(0);
    let builder = if is_loopback(&url) { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| error.to_string())
}

fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use epitome::summary::Finish;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::event::CompactionStats;
    use crate::ids::{TenantId, ThreadKey};
    use crate::model::{ModelAnswer, ModelError, Usage};

    const CANARY: &str = "hunter2-canary";

    /// Takes one request whole and answers it as a collector does.
    async fn take_one(mut stream: TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !is_whole(&bytes) {
            let mut some = [0; 4096];
            let count = stream.read(&mut some).await.expect("a request");
            assert!(count > 0, "the request broke off");
            bytes.extend(&some[..count]);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.expect("it listens");
        bytes
    }

    fn is_whole(bytes: &[u8]) -> bool {
        let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        bytes.len() >= head + 4 + length.expect("a length")
    }

    fn holds(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// One turn of a program with everything in it that must not leave the process.
    fn speak() {
        let key = ThreadKey::new(TenantId::local(), "thread-7".parse().expect("a name"));
        let compaction = spans::compaction(&key, "coding@3", 9000);
        compaction.in_scope(|| {
            let chat = spans::chat(spans::CallPurpose::Summary, "openai", "gpt-x", Some(&key.thread));
            chat.in_scope(|| tracing::warn!(said = CANARY, "a log line with {CANARY}"));
            let answer = ModelAnswer {
                messages: vec![CANARY.to_owned()],
                text: CANARY.to_owned(),
                calls: Vec::new(),
                finish: Finish::Length,
                usage: Some(Usage { input: 900, output: 90, ..Usage::default() }),
                id: None,
            };
            spans::record_answer(&chat, &answer);
            let refused = spans::chat(spans::CallPurpose::Turn, "anthropic", "claude-x", None);
            spans::record_error(&refused, &ModelError::Refused(401, CANARY.to_owned()));
            tracing::info_span!("of another library", body = CANARY).in_scope(|| ());
        });
        let stats = CompactionStats { tokens_after: 2500, ..CompactionStats::default() };
        spans::record_compaction(&compaction, &stats, spans::CompactionOutcome::Committed);
    }

    async fn what_arrives() -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let collector = std::thread::spawn(move || {
            let listener = listener.into_std().expect("a listener");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let accepted = tokio::time::timeout(Duration::from_secs(30), listener.accept()).await;
                take_one(accepted.expect("nobody called").expect("a caller").0).await
            })
        });
        let headers = HashMap::from([("x-key".to_owned(), "a-key".to_owned())]);
        let (layer, exporter) = Exporter::start(&endpoint, headers, "the-service").expect("an exporter");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), speak);
        drop(exporter);
        collector.join().expect("a request")
    }

    fn check(request: &[u8]) {
        assert!(request.starts_with(b"POST /v1/traces HTTP/1.1\r\n"));
        let expected = [
            "x-key: a-key",
            "the-service",
            "epitome compaction",
            "chat gpt-x",
            "chat claude-x",
            "thread-7",
            "coding@3",
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.conversation.id",
            "gen_ai.response.finish_reasons",
            "length",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "error.type",
            "refused",
            "epitome.purpose",
            "epitome.tokens.before",
            "epitome.tokens.after",
            "epitome.outcome",
            "committed",
        ];
        for text in expected {
            assert!(holds(request, text), "{text} is not in {}", String::from_utf8_lossy(request));
        }
        let unwanted = [CANARY, "of another library", "code.", "thread.id", "/src/"];
        for text in unwanted {
            assert!(!holds(request, text), "{text} is in {}", String::from_utf8_lossy(request));
        }
    }

    #[tokio::test]
    async fn the_last_spans_arrive_without_what_was_said_on_a_runtime_of_one_thread() {
        check(&what_arrives().await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_last_spans_arrive_without_what_was_said_on_a_runtime_of_many_threads() {
        check(&what_arrives().await);
    }

    #[test]
    fn an_endpoint_may_come_with_or_without_the_path_of_the_signal() {
        let cases = [
            ("http://c:4318", "http://c:4318/v1/traces"),
            ("http://c:4318/", "http://c:4318/v1/traces"),
            ("https://c/otlp", "https://c/otlp/v1/traces"),
            ("https://c/v1/traces", "https://c/v1/traces"),
        ];
        for (endpoint, expected) in cases {
            assert_eq!(traces_at(endpoint), expected);
        }
    }

    #[test]
    fn an_endpoint_that_is_no_url_is_refused_in_words() {
        let start = |endpoint| {
            let started = Exporter::start::<tracing_subscriber::Registry>(endpoint, HashMap::new(), "s");
            started.map(|_| ()).expect_err("not a URL").to_string()
        };
        assert_eq!(
            start("ftp://c"),
            "spans cannot be exported to ftp://c: it must begin with http:// or https://, not ftp:"
        );
        assert!(start("collector").starts_with("spans cannot be exported to collector: "));
    }
}
