//! Sends an answer: whole or as a stream, at its pace, compressed, or disturbed on the way.

use std::io::{self, Write};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

use super::encode::SseFrame;
use super::faults::Delivery;
use super::settings::Timing;

/// An HTTP response that is about to be sent.
pub(crate) struct OutgoingResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content: ResponseBody,
    pub(crate) delivery: Delivery,
    pub(crate) packed: bool,
    pub(crate) timing: Timing,
}

/// The body of a response.
pub(crate) enum ResponseBody {
    Whole(Bytes, &'static str),
    Events(Vec<SseFrame>),
}

const JSON: &str = "application/json";

/// The time for which a stalled answer stays open.
const STALL: Duration = Duration::from_secs(3600);

impl OutgoingResponse {
    /// A JSON answer.
    pub(crate) fn json(status: u16, body: &Value) -> OutgoingResponse {
        OutgoingResponse::of(status, ResponseBody::Whole(Bytes::from(body.to_string()), JSON))
    }

    /// A text.
    pub(crate) fn text(status: u16, body: String) -> OutgoingResponse {
        OutgoingResponse::of(status, ResponseBody::Whole(Bytes::from(body), "text/html"))
    }

    /// A stream.
    pub(crate) fn events(frames: Vec<SseFrame>) -> OutgoingResponse {
        OutgoingResponse::of(200, ResponseBody::Events(frames))
    }

    fn of(status: u16, content: ResponseBody) -> OutgoingResponse {
        let timing = Timing::default();
        OutgoingResponse { status, headers: Vec::new(), content, delivery: Delivery::Whole, packed: false, timing }
    }

    /// Sends it.
    pub(crate) async fn send(mut self) -> Response {
        if self.delivery == Delivery::StallBeforeHead {
            tokio::time::sleep(STALL).await;
        }
        let kind = match &self.content {
            ResponseBody::Whole(_, kind) => kind,
            ResponseBody::Events(_) => "text/event-stream; charset=utf-8",
        };
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert("content-type", HeaderValue::from_static(kind));
        if let ResponseBody::Events(_) = self.content {
            headers.insert("cache-control", HeaderValue::from_static("no-cache"));
        }
        if self.packed {
            headers.insert("content-encoding", HeaderValue::from_static("gzip"));
        }
        for (name, value) in std::mem::take(&mut self.headers) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        *response.body_mut() = self.body().await;
        response
    }

    async fn body(self) -> Body {
        match self.content {
            ResponseBody::Whole(bytes, _) => {
                wait(self.timing.first_token + self.timing.between_tokens * self.timing.answer_tokens as u32).await;
                let bytes = if self.packed { packed(&bytes) } else { bytes };
                match self.delivery {
                    Delivery::Whole => Body::from(bytes),
                    delivery => pieces(halves(&bytes), delivery, Timing::default()),
                }
            }
            ResponseBody::Events(frames) => {
                let frames = if self.packed { packed_frames(frames) } else { unpacked_frames(frames) };
                pieces(frames, self.delivery, self.timing)
            }
        }
    }
}

/// Bytes of a body; true if they carry a token and wait for its time.
type TimedBytes = (Bytes, bool);

fn halves(bytes: &Bytes) -> Vec<TimedBytes> {
    let middle = bytes.len() / 2;
    vec![(bytes.slice(..middle), false), (bytes.slice(middle..), false)]
}

fn unpacked_frames(frames: Vec<SseFrame>) -> Vec<TimedBytes> {
    frames.into_iter().map(|frame| (Bytes::from(frame.text), frame.is_token)).collect()
}

fn packed(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().map(Bytes::from).unwrap_or_default()
}

/// Each event packed and flushed, so that it can be read when it comes.
fn packed_frames(frames: Vec<SseFrame>) -> Vec<TimedBytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut chunks = Vec::new();
    for frame in frames {
        let _ = encoder.write_all(frame.text.as_bytes());
        let _ = encoder.flush();
        chunks.push((Bytes::from(std::mem::take(encoder.get_mut())), frame.is_token));
    }
    let end = encoder.finish().unwrap_or_default();
    chunks.push((Bytes::from(end), false));
    chunks
}

/// Builds a body that is sent in pieces.
fn pieces(chunks: Vec<TimedBytes>, delivery: Delivery, timing: Timing) -> Body {
    let is_instant = timing == Timing { answer_tokens: timing.answer_tokens, ..Timing::default() };
    if delivery == Delivery::Whole && is_instant {
        let chunks = chunks.into_iter().map(|(bytes, _)| Ok::<_, io::Error>(bytes));
        return Body::from_stream(stream::iter(chunks));
    }
    let pace = PacedBody { chunks: chunks.into_iter(), delivery, timing, sent: 0, has_token: false };
    Body::from_stream(stream::unfold(pace, PacedBody::next))
}

/// A body that is sent slowly, stalls or is cut.
struct PacedBody {
    chunks: std::vec::IntoIter<TimedBytes>,
    delivery: Delivery,
    timing: Timing,
    sent: u64,
    has_token: bool,
}

impl PacedBody {
    async fn next(mut self) -> Option<(io::Result<Bytes>, PacedBody)> {
        match self.delivery {
            Delivery::CutAfter(events) if self.sent == events => {
                self.chunks = Vec::new().into_iter();
                // Gives the bytes before the cut time to arrive.
                wait(Duration::from_millis(20)).await;
                self.sent += 1;
                return Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), self));
            }
            Delivery::StallAfter(events) if self.sent == events => wait(STALL).await,
            Delivery::Drip(millis) if self.sent > 0 => wait(Duration::from_millis(millis)).await,
            _ => {}
        }
        let (bytes, is_token) = self.chunks.next()?;
        if is_token {
            let pause = if self.has_token { self.timing.between_tokens } else { self.timing.first_token };
            wait(pause).await;
            self.has_token = true;
        }
        self.sent += 1;
        Some((Ok(bytes), self))
    }
}

async fn wait(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}
