//! Ears: an answer that passes by is understood without being touched.

use std::io::Write as _;
use std::sync::{LazyLock, OnceLock};

use bytes::{Bytes, BytesMut};
use epitome::wire::Dialect;
use epitome_runtime::model::{AnswerReader, ModelAnswer, ModelError};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use memchr::memmem::Finder;

use super::answer::Said;
use super::body::{PIECE_BYTES, unpacked};
use crate::sse::Framer;

/// The most bytes of an answer that is read whole.
pub const WHOLE_BYTES_MAX: usize = 8 << 20;

/// The most bytes that pass by before they are listened to.
const PASSED_BYTES_MAX: usize = 16 << 10;

/// How an answer ends that was cut because the window was full.
static WINDOW_FULL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"model_context_window_exceeded\""));

/// Listens to one answer.
#[derive(Debug)]
pub struct Ear {
    hears: Hears,
    headers: HeaderMap,
    dialect: Dialect,
    /// What was read of a whole answer: it is asked for more than once, and read once.
    read: OnceLock<Option<Result<ModelAnswer, ModelError>>>,
    /// What passed by and was not listened to yet. It is a copy: a piece keeps all that was read with it.
    passed: BytesMut,
    /// The bytes of what the model has said in events.
    said: usize,
    /// Whether the model has said anything.
    pub has_spoken: bool,
    /// Whether it says that the window was full.
    pub has_filled: bool,
    /// What the answer turned out to be instead.
    pub error: Option<ModelError>,
}

#[derive(Debug)]
enum Hears {
    Events { framer: Framer, reader: Box<AnswerReader>, unpacking: Box<Unpacking> },
    Whole(BytesMut),
    Nothing,
}

/// How the events of a stream are packed.
enum Unpacking {
    Plain,
    Brotli(Box<brotli_decompressor::DecompressorWriter<Vec<u8>>>),
    Gzip(flate2::write::MultiGzDecoder<Vec<u8>>),
    Deflate(flate2::write::ZlibDecoder<Vec<u8>>),
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
                let decoder = brotli_decompressor::DecompressorWriter::new(Vec::new(), PIECE_BYTES);
                Some(Unpacking::Brotli(Box::new(decoder)))
            }
            "gzip" | "x-gzip" => Some(Unpacking::Gzip(flate2::write::MultiGzDecoder::new(Vec::new()))),
            "deflate" => Some(Unpacking::Deflate(flate2::write::ZlibDecoder::new(Vec::new()))),
            _ => None,
        }
    }

    /// What can be read with these bytes that could not before.
    fn unpacked(&mut self, bytes: &Bytes) -> Bytes {
        let out = match self {
            Unpacking::Plain => return bytes.clone(),
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
        out.map(|out| std::mem::take(out).into()).unwrap_or_default()
    }
}

impl Ear {
    /// An ear for an answer with these headers. It is handed about, and large.
    pub fn new(dialect: Dialect, headers: &HeaderMap) -> Box<Ear> {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let packing = headers.get(CONTENT_ENCODING).and_then(|packing| packing.to_str().ok()).unwrap_or("identity");
        let hears = match (AnswerReader::new(dialect), Unpacking::of(packing)) {
            (Some(reader), Some(unpacking)) if kind.starts_with("text/event-stream") => {
                Hears::Events { framer: Framer::default(), reader: Box::new(reader), unpacking: Box::new(unpacking) }
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
            passed: BytesMut::new(),
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
        matches!(self.hears, Hears::Events { .. })
    }

    /// Whether it hears an answer that has to be there whole.
    pub fn is_of_whole(&self) -> bool {
        matches!(self.hears, Hears::Whole(_))
    }

    /// Takes bytes that go on at once. They are listened to at the end, or when they have become many, unless somebody may ask
    /// for what they say as soon as they are gone.
    pub fn pass(&mut self, bytes: &Bytes) {
        let has_time = self.is_of_events() && self.dialect != Dialect::Responses;
        if has_time && self.passed.len() + bytes.len() <= PASSED_BYTES_MAX {
            return self.passed.extend_from_slice(bytes);
        }
        self.catch_up();
        self.hear(bytes);
    }

    /// Listens to what has passed by.
    pub fn catch_up(&mut self) {
        if !self.passed.is_empty() {
            let passed = std::mem::take(&mut self.passed).freeze();
            self.hear(&passed);
        }
    }

    /// Takes the next bytes.
    pub fn hear(&mut self, bytes: &Bytes) {
        match &mut self.hears {
            Hears::Events { framer, reader, unpacking } => {
                for event in framer.push(unpacking.unpacked(bytes)) {
                    let Some(data) = event.data.as_deref().and_then(|data| std::str::from_utf8(data).ok()) else {
                        continue;
                    };
                    self.has_filled |= WINDOW_FULL.find(data.as_bytes()).is_some();
                    let (mut told, said) = (false, &mut self.said);
                    let heard = reader.hear(event.name(), data, &mut |piece| {
                        told = true;
                        *said += piece.bytes();
                    });
                    self.has_spoken |= told || !is_preamble(self.dialect, event.name(), data);
                    if let Err(error) = heard {
                        self.error.get_or_insert(error);
                    }
                }
            }
            Hears::Whole(all) if all.len() + bytes.len() <= WHOLE_BYTES_MAX => {
                all.extend_from_slice(bytes);
                self.read.take();
                self.has_filled |= WINDOW_FULL.find(bytes).is_some();
            }
            Hears::Whole(_) => self.hears = Hears::Nothing,
            Hears::Nothing => {}
        }
    }

    /// Whether the answer is complete, whatever becomes of the rest.
    pub fn is_whole(&self) -> bool {
        matches!(&self.hears, Hears::Events { reader, .. } if reader.is_whole())
    }

    /// Whether the last event of a whole answer holds its usage as well, so that there is nothing more to be heard.
    pub fn ends_with_its_last_event(&self) -> bool {
        self.dialect == Dialect::Responses
    }

    /// Whether nothing at all came of a stream.
    pub fn is_empty(&self) -> bool {
        matches!(&self.hears, Hears::Events { reader, .. } if reader.is_empty())
    }

    /// What there is of an answer that came in events, where it was begun.
    pub fn said(&self) -> Option<Said> {
        let Hears::Events { reader, .. } = &self.hears else { return None };
        let usage = reader.usage();
        (self.has_spoken || usage.is_some()).then_some(Said { bytes: self.said, usage })
    }

    /// The answer, at its end; `None` where it was not listened to.
    pub fn finish(mut self) -> Option<Result<ModelAnswer, ModelError>> {
        if let Some(error) = self.error {
            return Some(Err(error));
        }
        if let Some(read) = self.read.take() {
            return read;
        }
        match self.hears {
            Hears::Events { reader, .. } => Some(reader.finish()),
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
        self.read.get_or_init(|| AnswerReader::read(self.dialect, &self.text()?)).as_ref()
    }

    /// What has come of an answer that is read whole, unpacked.
    pub fn text(&self) -> Option<String> {
        let Hears::Whole(all) = &self.hears else { return None };
        let text = unpacked(&self.headers, &all.clone().freeze(), WHOLE_BYTES_MAX)?;
        String::from_utf8(text.into()).ok()
    }
}

/// Whether an event only says that an answer may follow: an error may still come in its place.
fn is_preamble(dialect: Dialect, name: &str, data: &str) -> bool {
    match dialect {
        Dialect::Anthropic => matches!(name, "message_start" | "ping" | "message_delta" | "message_stop"),
        Dialect::Responses => {
            ["response.created", "response.in_progress", "response.queued", "response.completed", "keepalive"]
                .contains(&name)
                || name.is_empty() && data.contains("\"response.created\"")
        }
        // An end without a word before it says nothing either.
        _ => true,
    }
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
    fn an_error_inside_a_stream_is_heard() {
        let mut ear = ear(Dialect::Responses);
        ear.hear(&Bytes::from_static(b"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"Your input exceeds the context window of this model.\"}}}\n\n"));
        assert!(matches!(ear.error, Some(ModelError::Overflow { .. })), "{:?}", ear.error);
    }
}
