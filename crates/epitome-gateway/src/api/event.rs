//! Events: what happened to threads, as a list and as it happens.
//!
//! A thread's stream is read from the store, by numbers: a client that comes back with the last number it saw misses
//! nothing, whichever gateway it comes to. The stream of all threads is what happens here, from now on, without numbers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use epitome_runtime::event::Event as RuntimeEvent;
use epitome_runtime::ids::{TenantId, ThreadKey};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::extract::{ApiCaller, NoParams, Number, NumberedPageQuery, PathParams, QueryParams};
use super::{Api, ApiError};

/// The interval at which the store is asked for events of other gateways.
const POLL: Duration = Duration::from_secs(1);
/// The number of events read at once.
const READ_MAX: usize = 256;

/// Something that happened to a thread. It holds numbers, names and places, never what was said.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Event {
    /// Its number within its thread, from 1; none in the stream of all threads.
    number: Option<u64>,
    /// When.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// To which thread.
    thread: String,
    /// Its kind.
    kind: String,
    /// The prompt's tokens before.
    tokens_before: u64,
    /// The prompt's tokens after.
    tokens_after: u64,
    /// The most tokens of the prompt.
    budget_limit: u64,
    /// The tokens that it freed.
    tokens_freed: u64,
    /// The rung, or whatever else did it.
    strategy: Option<String>,
    /// The numbers of the first and the last message it is about.
    span: Option<(u64, u64)>,
    /// Everything else.
    details: BTreeMap<String, Value>,
}

impl Event {
    fn of(number: Option<u64>, event: &RuntimeEvent) -> Event {
        Event {
            number,
            at: event.at.to_string(),
            thread: event.key.thread.to_string(),
            kind: event.kind.name(),
            tokens_before: event.tokens_before,
            tokens_after: event.tokens_after,
            budget_limit: event.budget_limit,
            tokens_freed: event.tokens_freed,
            strategy: event.strategy.map(|strategy| strategy.name().to_owned()),
            span: event.span.map(|(first, end)| (first + 1, end)),
            details: event.details.clone(),
        }
    }

    fn sent(&self) -> SseEvent {
        let data = serde_json::to_string(self).unwrap_or_default();
        let event = SseEvent::default().event(&self.kind).data(data);
        match self.number {
            Some(number) => event.id(number.to_string()),
            None => event,
        }
    }
}

/// Events, and where the next ones are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Events {
    /// The events, oldest first.
    events: Vec<Event>,
    /// The value of `after` for the next page; unchanged when there were none.
    next: u64,
}

pub(super) async fn list(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<NumberedPageQuery>,
) -> Result<Json<Events>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let found = api.log().events(&row.key, asked.after(), asked.limit()).await?;
    let next = found.last().map_or(asked.after(), |(number, _)| *number);
    Ok(Json(Events { events: found.iter().map(|(number, event)| Event::of(Some(*number), event)).collect(), next }))
}

pub(super) async fn all(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let live = stream::unfold(api.engine().bus().subscribe(), |mut heard| async move {
        let event = next_of(&mut heard).await?;
        Some((event, heard))
    });
    let own = live.filter_map(move |event| std::future::ready(told(&event, &access.tenant)));
    sse(own, api)
}

pub(super) async fn of_thread(
    State(api): State<Api>,
    ApiCaller(access): ApiCaller,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, ApiError> {
    let row = api.thread(&access, &name).await?;
    let after = headers.get("last-event-id").map_or(Ok(0), last_seen)?;
    let follower = EventFollower { heard: api.engine().bus().subscribe(), api: api.clone(), key: row.key, after };
    let batches = stream::unfold(follower, |mut follower| async move {
        let batch = follower.next().await?;
        Some((stream::iter(batch), follower))
    });
    Ok(sse(batches.flatten(), api))
}

/// The number of the last event that a client saw.
fn last_seen(value: &HeaderValue) -> Result<u64, ApiError> {
    let number = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let number = number.and_then(|number| Number::try_from(number).ok());
    let reason = "it is the number of an event".to_owned();
    number.map(Number::get).ok_or(ApiError::Parameter("Last-Event-ID", reason))
}

/// Events until the gateway stops.
fn sse(
    events: impl Stream<Item = SseEvent> + Send + 'static,
    api: Api,
) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let mut stop = api.stop;
    let stopped = Box::pin(async move { stop.finishing().await });
    Sse::new(events.map(Ok).take_until(stopped)).keep_alive(KeepAlive::default())
}

/// Reads a thread's events from the store as they come.
struct EventFollower {
    api: Api,
    key: ThreadKey,
    heard: Receiver<Arc<RuntimeEvent>>,
    after: u64,
}

impl EventFollower {
    /// The next events; none when the store cannot be read any more.
    async fn next(&mut self) -> Option<Vec<SseEvent>> {
        loop {
            let found = match self.api.log().events(&self.key, self.after, READ_MAX).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "failed to follow events");
                    return None;
                }
            };
            if let Some((number, _)) = found.last() {
                self.after = *number;
                return Some(found.iter().map(|(number, event)| Event::of(Some(*number), event).sent()).collect());
            }
            self.wait().await;
        }
    }

    /// Waits until something happens to the thread here, or may have happened elsewhere.
    async fn wait(&mut self) {
        let own = async {
            while let Some(event) = next_of(&mut self.heard).await {
                if matches!(&event, BusMessage::Event(event) if event.key == self.key) {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(POLL, own).await;
    }
}

/// An event from the bus, or the news that some were missed.
enum BusMessage {
    Event(Arc<RuntimeEvent>),
    /// So many were lost because the client reads too slowly.
    Lost(u64),
}

async fn next_of(heard: &mut Receiver<Arc<RuntimeEvent>>) -> Option<BusMessage> {
    match heard.recv().await {
        Ok(event) => Some(BusMessage::Event(event)),
        Err(RecvError::Lagged(lost)) => Some(BusMessage::Lost(lost)),
        Err(RecvError::Closed) => None,
    }
}

/// Selects what a tenant sees: its own events, and that some were missed.
fn told(heard: &BusMessage, tenant: &TenantId) -> Option<SseEvent> {
    match heard {
        BusMessage::Event(event) if event.key.tenant == *tenant => Some(Event::of(None, event).sent()),
        BusMessage::Event(_) => None,
        BusMessage::Lost(lost) => Some(SseEvent::default().event("lost").data(format!("{{\"events\":{lost}}}"))),
    }
}
