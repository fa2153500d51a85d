//! A model over HTTP: any provider that speaks Chat Completions, Responses or Messages.
//!
//! Nothing outlives a call: dropping its future closes the connection. It follows no redirect, since a key is meant for
//! one host, and asks again only while nobody has heard a piece of the answer.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use epitome::wire::Dialect;
use eventsource_stream::{EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt, pin_mut, stream};
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response, Url, redirect};
use tokio::time::timeout;

use super::assembly::{self, Assembly, Ears, Flow, StreamEvent};
use super::body::{self, OutputField};
use super::breaker::{CircuitBreaker, EndpointHealth};
use super::endpoint::{Endpoint, EndpointError, Timeouts};
use super::protocol::Protocol;
use super::refusal::refused;
use super::retry::{RetrySchedule, asked_wait};
use super::{Hear, Model, ModelAnswer, ModelError, ModelPrompt};

/// The most bytes read of an answer.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The most bytes read of an error.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// A model behind an endpoint. Clones share its connections and its breaker.
#[derive(Clone)]
pub struct HttpModel {
    client: Client,
    url: Url,
    upstream: String,
    headers: HeaderMap,
    protocol: Protocol,
    endpoint: Arc<Endpoint>,
    breaker: CircuitBreaker,
}

impl HttpModel {
    /// A client for an endpoint. Nothing is connected yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        let url = endpoint.address()?;
        Ok(HttpModel {
            client: client(&url, &endpoint.timeouts)?,
            upstream: endpoint.upstream()?,
            headers: endpoint.header_map()?,
            protocol: endpoint.protocol()?,
            breaker: CircuitBreaker::new(endpoint.trip),
            endpoint: Arc::new(endpoint),
            url,
        })
    }

    async fn attempt(&self, body: &str, stream: bool, ears: &mut Ears<'_, '_>) -> Result<ModelAnswer, ModelError> {
        let whole = self.endpoint.timeouts.whole;
        guarded(&self.endpoint, whole, &self.breaker, self.exchange(body, stream, ears)).await
    }

    async fn exchange(&self, body: &str, stream: bool, ears: &mut Ears<'_, '_>) -> Result<ModelAnswer, ModelError> {
        let response = self.send(body, stream).await?;
        match () {
            () if !response.status().is_success() => Err(refusal(response).await),
            () if stream && !has_media(&response, "application/json") => self.listen(response, ears).await,
            () => {
                let text = text(response, ANSWER_BYTES_MAX).await?;
                let answer = assembly::whole(self.protocol, &text)?;
                if stream {
                    ears.whole(&answer);
                }
                Ok(answer)
            }
        }
    }

    /// Sends a request. The head of an answer that comes whole comes when it is done, so only a stream's is awaited less.
    async fn send(&self, body: &str, stream: bool) -> Result<Response, ModelError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body.to_owned());
        let within = self.endpoint.timeouts.first_byte;
        let response = if stream { timeout(within, request.send()).await } else { Ok(request.send().await) };
        match response {
            Ok(response) => response.map_err(|error| broken(&self.endpoint, error)),
            Err(_) => Err(ModelError::TimedOut("begin to answer", within)),
        }
    }

    async fn listen(&self, response: Response, ears: &mut Ears<'_, '_>) -> Result<ModelAnswer, ModelError> {
        let not_a_stream = || ModelError::Garbled("it is not a stream of events".into());
        let is_stream = has_media(&response, "text/event-stream");
        let mut assembly = Assembly::new(self.protocol);
        let events = paced(response, self.endpoint.timeouts).eventsource();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let event = StreamEvent { name: &event.event, data: &event.data };
                    if assembly.take(event, ears)? == Flow::Done {
                        break;
                    }
                }
                // What is lost after the end of an answer is at most its usage.
                Err(_) if assembly.is_whole() => break,
                Err(EventStreamError::Transport(error)) => return Err(error),
                Err(_) => return Err(not_a_stream()),
            }
        }
        // A page of some other server holds no event either, and must not be taken for an overflow.
        if assembly.is_empty() && !is_stream { Err(not_a_stream()) } else { assembly.finish() }
    }
}

/// Makes one attempt, unless the breaker is open: within the time for a whole answer, and with no secret in its error.
pub(super) async fn guarded<T>(
    endpoint: &Endpoint,
    whole: Duration,
    breaker: &CircuitBreaker,
    exchange: impl Future<Output = Result<T, ModelError>>,
) -> Result<T, ModelError> {
    let pass = breaker.ask(Instant::now())?;
    let outcome = match timeout(whole, exchange).await {
        Ok(outcome) => outcome.map_err(|error| without_secrets(endpoint, error)),
        Err(_) => Err(ModelError::TimedOut("finish its answer", whole)),
    };
    pass.tell(EndpointHealth::by(&outcome), Instant::now());
    outcome
}

/// The error with no secret in it, even where the provider repeats one.
fn without_secrets(endpoint: &Endpoint, mut error: ModelError) -> ModelError {
    let (ModelError::Overflow { message: words, .. }
    | ModelError::Throttled { message: words, .. }
    | ModelError::Refused(_, words)
    | ModelError::Failed(_, words)
    | ModelError::Unreachable(words)
    | ModelError::Garbled(words)) = &mut error
    else {
        return error;
    };
    *words = endpoint.secrets().fold(std::mem::take(words), |words, secret| secret.struck_from(&words));
    error
}

/// The error of a request that could not be sent.
pub(super) fn broken(endpoint: &Endpoint, error: reqwest::Error) -> ModelError {
    if error.is_timeout() && error.is_connect() {
        return ModelError::TimedOut("accept a connection", endpoint.timeouts.connect);
    }
    unreachable(error)
}

#[async_trait]
impl Model for HttpModel {
    fn id(&self) -> &str {
        &self.endpoint.model
    }

    fn upstream(&self) -> &str {
        &self.upstream
    }

    fn dialect(&self) -> Dialect {
        self.protocol.dialect()
    }

    async fn answer(&self, prompt: &ModelPrompt, hear: &mut Hear<'_>) -> Result<ModelAnswer, ModelError> {
        let output = OutputField::of_host(self.url.host_str().unwrap_or_default());
        let body = body::write(self.protocol, &self.endpoint.model, output, prompt)?;
        let mut schedule = RetrySchedule::new(self.endpoint.retry);
        let started = Instant::now();
        let mut last = None;
        loop {
            let mut ears = Ears::new(hear);
            let error = match self.attempt(&body, prompt.stream, &mut ears).await {
                Ok(answer) => return Ok(answer),
                // The failure that opened the breaker says more than that it is open.
                Err(error @ ModelError::Open(..)) => return Err(last.unwrap_or(error)),
                Err(error) => error,
            };
            let wait = if ears.heard() { None } else { schedule.wait(&error, started.elapsed()) };
            let Some(wait) = wait else { return Err(error) };
            tracing::debug!(model = self.endpoint.model, %error, ?wait, "the model is asked again");
            last = Some(error);
            tokio::time::sleep(wait).await;
        }
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").field("endpoint", &self.endpoint).field("breaker", &self.breaker).finish()
    }
}

pub(super) fn client(url: &Url, timeouts: &Timeouts) -> Result<Client, EndpointError> {
    crate::tls::install_provider();
    let builder = Client::builder().redirect(redirect::Policy::none()).connect_timeout(timeouts.connect);
    // A proxy cannot reach what is on this machine.
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| EndpointError::Client(chain(&error.without_url())))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn has_media(response: &Response, media: &str) -> bool {
    let named = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    named.trim_start().to_ascii_lowercase().starts_with(media)
}

pub(super) async fn refusal(response: Response) -> ModelError {
    let status = response.status().as_u16();
    let asked = asked_wait(response.headers(), Timestamp::now());
    match text(response, ERROR_BYTES_MAX).await {
        Ok(body) => refused(status, asked, &body),
        Err(_) => refused(status, asked, "it broke off while it said why"),
    }
}

/// The body as text, as far as it may go.
pub(super) async fn text(mut response: Response, bytes_max: usize) -> Result<String, ModelError> {
    let mut bytes = Vec::new();
    while bytes.len() < bytes_max {
        match response.chunk().await.map_err(unreachable)? {
            Some(chunk) => bytes.extend_from_slice(&chunk),
            None => break,
        }
    }
    bytes.truncate(bytes_max);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes of a stream, each awaited no longer than is allowed.
fn paced(response: Response, timeouts: Timeouts) -> impl Stream<Item = Result<impl AsRef<[u8]>, ModelError>> {
    struct Pace {
        response: Response,
        bound: (&'static str, Duration),
        left: usize,
    }
    let pace = Pace { response, bound: ("begin its stream", timeouts.first_byte), left: ANSWER_BYTES_MAX };
    stream::try_unfold(pace, move |mut pace| async move {
        let (what, within) = pace.bound;
        let chunk = match timeout(within, pace.response.chunk()).await {
            Ok(chunk) => chunk.map_err(unreachable)?,
            Err(_) => return Err(ModelError::TimedOut(what, within)),
        };
        let Some(chunk) = chunk else { return Ok(None) };
        pace.bound = ("go on with its stream", timeouts.idle);
        match pace.left.checked_sub(chunk.len()) {
            Some(left) => pace.left = left,
            None => return Err(ModelError::Garbled(format!("it is longer than {ANSWER_BYTES_MAX} bytes"))),
        }
        Ok(Some((chunk, pace)))
    })
}

fn unreachable(error: reqwest::Error) -> ModelError {
    ModelError::Unreachable(chain(&error.without_url()))
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
