//! Ears: an answer that passes by is understood without being touched.
//!
//! What is kept of an answer to understand it is bounded, whatever a provider sends: a whole answer and a single event by
//! [`WHOLE_BYTES_MAX`], what a stream has said by the same, what a packed stream becomes at once by [`UNPACKED_BYTES_MAX`].
//! Beyond that the bytes still go to the client as they came; they are only not understood any more.

use std::borrow::Cow;
use std::io::Write;
use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use epitome::wire::{Dialect, may_spell};
use epitome_runtime::model::{AnswerReader, ModelAnswer, ModelError, Usage};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde_json::Value;

use super::answer::Said;
use super::body::{PIECE_BYTES, unpacked};
use crate::sse::{Event, Framer};

/// The most bytes that are kept of an answer: of a whole one, of one event, and of what events have said.
pub const WHOLE_BYTES_MAX: usize = 8 << 20;

/// The most bytes that [`PIECE_BYTES`] of a packed stream may become. Nothing honest becomes a thousand times as large.
const UNPACKED_BYTES_MAX: usize = 8 << 20;

/// The most bytes of a first event that are kept besides.
const OPENING_BYTES_MAX: usize = 64 << 10;

/// How an answer ends that was cut because the window was full.
const WINDOW_FULL: &str = "model_context_window_exceeded";

/// Listens to one answer.
#[derive(Debug)]
pub struct Ear {
    hears: Hears,
    headers: HeaderMap,
    dialect: Dialect,
    /// What was read of a whole answer: it is asked for more than once, and read once.
    read: OnceLock<Option<Result<ModelAnswer, ModelError>>>,
    /// The bytes of what the model has said in events.
    said: usize,
    /// Whether the model has said anything.
    pub has_spoken: bool,
    /// Whether an event says that the window was full.
    has_filled: bool,
    /// What the answer turned out to be instead.
    pub error: Option<ModelError>,
}

#[derive(Debug)]
enum Hears {
    Events(Box<EventStream>),
    Whole(BytesMut),
    Nothing,
}

/// A stream of events, as far as it was understood.
#[derive(Debug)]
struct EventStream {
    framer: Framer,
    unpacking: Unpacking,
    reader: AnswerReader,
    /// The bytes of the events that the reader has heard, and keeps at most.
    kept: usize,
    /// The first event, by its name and data: a reader that begins in the middle needs it to read the usage.
    opening: Option<(String, String)>,
    /// What readers before it heard of the usage, where there was too much to keep: then there is no answer at the end.
    earlier: Option<Option<Usage>>,
}

impl EventStream {
    /// Begins anew where more would be kept than may be. What was said is forgotten; what it took is not.
    fn make_room(&mut self, bytes: usize, dialect: Dialect) {
        self.kept += bytes;
        if self.kept > WHOLE_BYTES_MAX
            && let Some(mut reader) = AnswerReader::new(dialect)
        {
            if let Some((name, data)) = &self.opening {
                let _ = reader.hear(name, data, &mut |_| {});
            }
            let usage = self.usage();
            (self.reader, self.kept, self.earlier) = (reader, 0, Some(usage));
        }
    }

    fn is_cut(&self) -> bool {
        self.earlier.is_some()
    }

    /// What the provider has said of what it took.
    fn usage(&self) -> Option<Usage> {
        match (self.earlier.flatten(), self.reader.usage()) {
            (Some(earlier), Some(now)) => Some(largest(earlier, now)),
            (earlier, now) => now.or(earlier),
        }
    }
}

/// How the events of a stream are packed.
enum Unpacking {
    Plain,
    Brotli(Box<brotli_decompressor::DecompressorWriter<Capped>>),
    Gzip(Box<flate2::write::MultiGzDecoder<Capped>>),
    Deflate(Box<flate2::write::ZlibDecoder<Capped>>),
}

/// What was unpacked and not taken yet; it takes no more than so much.
#[derive(Default)]
struct Capped(Vec<u8>);

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > UNPACKED_BYTES_MAX {
            return Err(std::io::Error::other("it becomes too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Unpacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacking")
    }
}

impl Unpacking {
    /// The way back from a packing; `None` where there is none.
    fn of(packing: &str) -> Option<Unpacking> {
        match packing {
            "identity" => Some(Unpacking::Plain),
            "br" => {
                let decoder = brotli_decompressor::DecompressorWriter::new(Capped::default(), PIECE_BYTES);
                Some(Unpacking::Brotli(Box::new(decoder)))
            }
            "gzip" | "x-gzip" => Some(Unpacking::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Capped::default())))),
            "deflate" => Some(Unpacking::Deflate(Box::new(flate2::write::ZlibDecoder::new(Capped::default())))),
            _ => None,
        }
    }

    /// The pieces in which bytes are unpacked: few at once, since nobody knows what they become.
    fn pieces<'a>(&self, bytes: &'a Bytes) -> impl Iterator<Item = Bytes> + use<'a> {
        let size = if matches!(self, Unpacking::Plain) { bytes.len().max(1) } else { PIECE_BYTES };
        bytes.chunks(size).map(|piece| bytes.slice_ref(piece))
    }

    /// What can be read with these bytes that could not before; `None` where they are broken or become too much.
    fn unpacked(&mut self, bytes: &Bytes) -> Option<Bytes> {
        let out = match self {
            Unpacking::Plain => return Some(bytes.clone()),
            Unpacking::Brotli(decoder) => {
                decoder.write_all(bytes).and_then(|()| decoder.flush()).map(|()| decoder.get_mut())
            }
            Unpacking::Gzip(decoder) => {
                decoder.write_all(bytes).and_then(|()| decoder.flush()).map(|()| decoder.get_mut())
            }
            Unpacking::Deflate(decoder) => {
                decoder.write_all(bytes).and_then(|()| decoder.flush()).map(|()| decoder.get_mut())
            }
        };
        out.ok().map(|out| std::mem::take(&mut out.0).into())
    }
}

impl Ear {
    /// An ear for an answer with these headers. It is handed about, and large.
    pub fn new(dialect: Dialect, headers: &HeaderMap) -> Box<Ear> {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let packing = headers.get(CONTENT_ENCODING).and_then(|packing| packing.to_str().ok()).unwrap_or("identity");
        let hears = match (AnswerReader::new(dialect), Unpacking::of(packing)) {
            (Some(reader), Some(unpacking)) if kind.starts_with("text/event-stream") => {
                let framer = Framer::within(WHOLE_BYTES_MAX);
                Hears::Events(Box::new(EventStream {
                    framer,
                    unpacking,
                    reader,
                    kept: 0,
                    opening: None,
                    earlier: None,
                }))
            }
            (Some(_), _) if kind.starts_with("application/json") || kind.contains("json") || kind.is_empty() => {
                Hears::Whole(BytesMut::new())
            }
            _ => Hears::Nothing,
        };
        let headers = headers.get(CONTENT_ENCODING).map(|packing| (CONTENT_ENCODING, packing.clone()));
        Box::new(Ear {
            hears,
            headers: headers.into_iter().collect(),
            dialect,
            read: OnceLock::new(),
            said: 0,
            has_spoken: false,
            has_filled: false,
            error: None,
        })
    }

    /// Whether what it hears is packed.
    pub fn is_packed(&self) -> bool {
        !self.headers.is_empty()
    }

    /// The dialect that it understands.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether it hears events.
    pub fn is_of_events(&self) -> bool {
        matches!(self.hears, Hears::Events(_))
    }

    /// Whether it hears an answer that has to be there whole.
    pub fn is_of_whole(&self) -> bool {
        matches!(self.hears, Hears::Whole(_))
    }

    /// Takes the next bytes.
    pub fn hear(&mut self, bytes: &Bytes) {
        match std::mem::replace(&mut self.hears, Hears::Nothing) {
            Hears::Events(mut stream) => {
                if self.hear_events(&mut stream, bytes) {
                    self.hears = Hears::Events(stream);
                }
            }
            Hears::Whole(mut all) if all.len() + bytes.len() <= WHOLE_BYTES_MAX => {
                all.extend_from_slice(bytes);
                self.read.take();
                self.hears = Hears::Whole(all);
            }
            Hears::Whole(_) | Hears::Nothing => {}
        }
    }

    /// Takes the next bytes of a stream; whether more of it can be understood.
    fn hear_events(&mut self, stream: &mut EventStream, bytes: &Bytes) -> bool {
        for piece in stream.unpacking.pieces(bytes) {
            let Some(plain) = stream.unpacking.unpacked(&piece) else { return false };
            let events: Vec<Event> = stream.framer.push(plain).collect();
            for event in events {
                self.hear_event(stream, &event);
            }
        }
        true
    }

    fn hear_event(&mut self, stream: &mut EventStream, event: &Event) {
        let Some(data) = event.text() else { return };
        if stream.opening.is_none() && data.len() <= OPENING_BYTES_MAX {
            stream.opening = Some((event.name().to_owned(), data.to_owned()));
        }
        stream.make_room(data.len(), self.dialect);
        self.has_filled |= says_window_full(data);
        let (mut told, said) = (false, &mut self.said);
        let heard = stream.reader.hear(event.name(), data, &mut |piece| {
            told = true;
            *said += piece.bytes();
        });
        self.has_spoken |= told || !is_preamble(self.dialect, event.name(), data);
        // Whoever has not heard the beginning understands the middle in no other way.
        if let Err(error) = heard
            && !stream.is_cut()
        {
            self.error.get_or_insert(error);
        }
    }

    /// Whether the answer says that the window was full.
    pub fn has_filled(&self) -> bool {
        match &self.hears {
            Hears::Whole(_) => self.plain().is_some_and(|text| says_window_full(&text)),
            Hears::Events(_) | Hears::Nothing => self.has_filled,
        }
    }

    /// Whether the answer is complete, whatever becomes of the rest.
    pub fn is_whole(&self) -> bool {
        matches!(&self.hears, Hears::Events(stream) if stream.reader.is_whole())
    }

    /// Whether the last event of a whole answer holds its usage as well, so that there is nothing more to be heard.
    pub fn ends_with_its_last_event(&self) -> bool {
        self.dialect == Dialect::Responses
    }

    /// Whether nothing at all came of a stream.
    pub fn is_empty(&self) -> bool {
        matches!(&self.hears, Hears::Events(stream) if stream.reader.is_empty() && !stream.is_cut())
    }

    /// What there is of an answer that came in events, where it was begun.
    pub fn said(&self) -> Option<Said> {
        let Hears::Events(stream) = &self.hears else { return None };
        let usage = stream.usage();
        (self.has_spoken || usage.is_some()).then_some(Said { bytes: self.said, usage })
    }

    /// The answer, at its end; `None` where it was not listened to, or there was more of it than is kept.
    pub fn finish(mut self) -> Option<Result<ModelAnswer, ModelError>> {
        if let Some(error) = self.error {
            return Some(Err(error));
        }
        if let Some(read) = self.read.take() {
            return read;
        }
        match self.hears {
            Hears::Events(stream) if stream.is_cut() => None,
            Hears::Events(stream) => Some(stream.reader.finish()),
            Hears::Whole(all) => {
                let text = unpacked(&self.headers, &all.freeze(), WHOLE_BYTES_MAX)?;
                AnswerReader::read(self.dialect, std::str::from_utf8(&text).ok()?)
            }
            Hears::Nothing => None,
        }
    }

    /// The answer, where it is read whole and has come as far as it will.
    pub fn whole(&self) -> Option<&Result<ModelAnswer, ModelError>> {
        if !self.is_of_whole() {
            return None;
        }
        self.read.get_or_init(|| AnswerReader::read(self.dialect, &self.plain()?)).as_ref()
    }

    /// What has come of an answer that is read whole, unpacked.
    pub fn text(&self) -> Option<String> {
        self.plain().map(Cow::into_owned)
    }

    fn plain(&self) -> Option<Cow<'_, str>> {
        let Hears::Whole(all) = &self.hears else { return None };
        if !self.is_packed() {
            return std::str::from_utf8(all).ok().map(Cow::Borrowed);
        }
        let text = unpacked(&self.headers, &all.clone().freeze(), WHOLE_BYTES_MAX)?;
        String::from_utf8(text.into()).ok().map(Cow::Owned)
    }
}

/// The larger of each number: a provider counts on, and says some of it once only.
fn largest(one: Usage, other: Usage) -> Usage {
    Usage {
        input: one.input.max(other.input),
        cached: one.cached.max(other.cached),
        written: one.written.max(other.written),
        output: one.output.max(other.output),
    }
}

/// Whether an event, or a whole answer, ends because the window was full.
fn says_window_full(json: &str) -> bool {
    if !may_spell(json, WINDOW_FULL) {
        return false;
    }
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let is_it = |reason: Option<&Value>| reason.and_then(Value::as_str) == Some(WINDOW_FULL);
    let choices = value.get("choices").and_then(Value::as_array).into_iter().flatten();
    ["/stop_reason", "/delta/stop_reason", "/message/stop_reason", "/response/incomplete_details/reason"]
        .into_iter()
        .any(|place| is_it(value.pointer(place)))
        || choices.into_iter().any(|choice| is_it(choice.get("finish_reason")))
}

/// Whether an event only says that an answer may follow: an error may still come in its place.
fn is_preamble(dialect: Dialect, name: &str, data: &str) -> bool {
    match dialect {
        Dialect::Anthropic => matches!(name, "message_start" | "ping" | "message_delta" | "message_stop"),
        Dialect::Responses => {
            let preambles =
                ["response.created", "response.in_progress", "response.queued", "response.completed", "keepalive"];
            let kind = if name.is_empty() { kind_of(data) } else { name.to_owned() };
            preambles.contains(&kind.as_str())
        }
        // An end without a word before it says nothing either.
        _ => true,
    }
}

/// The type that an event names in its data.
fn kind_of(data: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Typed {
        r#type: String,
    }
    serde_json::from_str::<Typed>(data).map(|typed| typed.r#type).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ear(dialect: Dialect) -> Box<Ear> {
        Ear::new(dialect, &HeaderMap::from_iter([(CONTENT_TYPE, "text/event-stream".parse().unwrap())]))
    }

    #[test]
    fn a_stream_that_only_announces_itself_has_not_spoken() {
        for (dialect, event, spoken) in [
            (
                Dialect::Chat,
                r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
                false,
            ),
            (Dialect::Chat, r#"data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}"#, true),
            (Dialect::Anthropic, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}", false),
            (
                Dialect::Anthropic,
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
                true,
            ),
            (
                Dialect::Responses,
                "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}",
                false,
            ),
        ] {
            let mut ear = ear(dialect);
            ear.hear(&Bytes::from(format!("{event}\n\n")));
            assert_eq!(ear.has_spoken, spoken, "{event}");
            assert!(ear.error.is_none(), "{event}");
        }
    }

    #[test]
    fn a_stream_that_is_asked_for_the_whole_is_understood_at_its_end() {
        let mut ear = ear(Dialect::Chat);
        let event = r#"data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
        ear.hear(&Bytes::from(format!("{event}\n\ndata: [DONE]\n\n")));
        assert!(ear.whole().is_none());
        assert_eq!(ear.finish().unwrap().unwrap().text, "x");
    }

    #[test]
    fn a_packed_stream_is_heard_as_it_comes() {
        let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(event.as_bytes()).unwrap();
        gzip.flush().unwrap();
        // `data: {"choices":[{"delta":{"content":"one "}}]}`, flushed.
        let brotli = [
            0x8b, 0x18, 0x00, 0x60, 0x8d, 0xc3, 0xb8, 0xe1, 0x5b, 0xda, 0x54, 0x2e, 0x5a, 0xfc, 0x19, 0x23, 0x54, 0x7a,
            0x8b, 0xe8, 0x6c, 0xed, 0xed, 0x3e, 0x85, 0x2e, 0x90, 0xb0, 0x01, 0x07, 0xec, 0x89, 0x87, 0xd1, 0x76, 0x58,
            0x1a, 0x94, 0x52, 0xd5, 0x50, 0xbb, 0xdc, 0xa6, 0x9d, 0xcd, 0xe9, 0x98, 0xf2, 0x13, 0xff, 0xb8, 0x32, 0x00,
        ];
        for (packing, first) in [("gzip", &gzip.get_ref()[..]), ("br", &brotli)] {
            let headers = [(CONTENT_TYPE, "text/event-stream"), (CONTENT_ENCODING, packing)];
            let headers = headers.map(|(name, value)| (name, value.parse().unwrap()));
            let mut ear = Ear::new(Dialect::Chat, &HeaderMap::from_iter(headers));
            first.chunks(7).for_each(|chunk| ear.hear(&Bytes::copy_from_slice(chunk)));
            assert!(ear.has_spoken, "{packing}");
        }
    }

    #[test]
    fn the_end_of_a_window_is_read_and_not_looked_for() {
        for (event, is_full) in [
            (r#"{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}"#, true),
            (r#"{"type": "message_delta", "delta": {"stop_reason" : "\u006dodel_context_window_exceeded"}}"#, true),
            (r#"{"stop_reason":"model_context_window_exceeded"}"#, true),
            (r#"{"content":[{"input":{"a":"model_context_window_exceeded"}}],"stop_reason":"end_turn"}"#, false),
            (r#"{"delta":{"text":"model_context_window_exceeded"}}"#, false),
        ] {
            assert_eq!(says_window_full(event), is_full, "{event}");
        }
        let mut ear = Ear::new(Dialect::Anthropic, &HeaderMap::new());
        for piece in [r#"{"stop_reason":"model_context_"#, r#"window_exceeded"}"#] {
            ear.hear(&Bytes::from_static(piece.as_bytes()));
        }
        assert!(ear.has_filled(), "in two pieces");
    }

    #[test]
    fn what_is_more_than_is_kept_is_counted_and_forgotten() {
        let word = "x".repeat(1 << 20);
        let start = r#"data: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}"#;
        let end = r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}"#;
        let mut ear = ear(Dialect::Anthropic);
        ear.hear(&Bytes::from(format!("event: message_start\n{start}\n\n")));
        let delta = format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}}}\n\n"
        );
        for _ in 0..20 {
            ear.hear(&Bytes::from(delta.clone()));
        }
        ear.hear(&Bytes::from(format!("event: message_delta\n{end}\n\n")));
        let said = ear.said().unwrap();
        assert_eq!(said.usage.map(|usage| (usage.input, usage.output)), Some((7, 9)));
        assert!(ear.error.is_none() && ear.finish().is_none());
    }

    #[test]
    fn an_error_inside_a_stream_is_heard() {
        let mut ear = ear(Dialect::Responses);
        ear.hear(&Bytes::from_static(b"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"Your input exceeds the context window of this model.\"}}}\n\n"));
        assert!(matches!(ear.error, Some(ModelError::Overflow { .. })), "{:?}", ear.error);
    }
}
