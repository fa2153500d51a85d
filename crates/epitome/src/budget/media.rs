//! What media costs: its extent read from its bytes, and each provider's rule. The length of its base64 says nothing.
//!
//! Nothing is rendered, unpacked or fetched: what an address or a file id stands for has no known size, and a common one
//! is assumed. A count says whether it follows from a published rule and a measured extent, or is an estimate.

use std::borrow::Cow;

use memchr::memmem;
use serde_json::Value;

use super::image::{ImageRule, ImageSize, decode_base64};
use super::tokens::{Count, CountSource, TokenCounter, Tokens};
use crate::thread::{Extent, Media, MediaKind, MediaSource};

/// The bytes of a page of a PDF that hides its page objects in compressed streams.
const PAGE_BYTES: usize = 32 * 1024;
/// The pages of a document of unknown size.
const PAGES_UNKNOWN: u64 = 5;
/// The most pages that a size is taken for; providers take no more.
const PAGES_MAX: u64 = 100;
/// The tokens of the words of a file's `PAGE_BYTES` where nothing else is known of it.
const WORDS_PER_PAGE: u64 = 1_500;
/// The length of a recording of unknown size.
const MILLISECONDS_UNKNOWN: u64 = 30_000;
/// A file that only a provider's tool reads takes its name in the prompt.
const UPLOAD_TOKENS: u64 = 16;
/// How much of a file is decoded to find its pages.
const PDF_BYTES_MAX: usize = 24 * 1024 * 1024;

/// What the first bytes of a file say it is.
const MAGIC: [(&[u8], &str); 11] = [
    (b"%PDF", "application/pdf"),
    (b"\x89PNG", "image/png"),
    (b"\xFF\xD8\xFF", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xFF\xFB", "audio/mpeg"),
    (b"\xFF\xF3", "audio/mpeg"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1A\x45\xDF\xA3", "video/webm"),
];

impl ImageRule {
    /// The tokens of media, and how they are known.
    pub fn count(self, media: &Media, counter: &dyn TokenCounter) -> Count {
        match media.kind {
            MediaKind::Image => self.image(media),
            MediaKind::Document => self.document(media, counter),
            MediaKind::Audio => self.audio(media),
            MediaKind::Video => estimated(self.video_per_second() * milliseconds(media).div_ceil(1000)),
            MediaKind::File => self.file(media, counter),
        }
    }

    fn image(self, media: &Media) -> Count {
        match media.extent {
            Some(Extent::Pixels(size)) => exact(self.tokens(Some(size), media.detail)),
            _ => estimated(self.tokens(None, media.detail).get()),
        }
    }

    fn document(self, media: &Media, counter: &dyn TokenCounter) -> Count {
        if let Some(words) = words_of(media) {
            return Count { tokens: counter.count(&words), source: counter.source() };
        }
        estimated(pages(media) * self.tokens_per_page())
    }

    fn file(self, media: &Media, counter: &dyn TokenCounter) -> Count {
        match (&media.source, words_of(media)) {
            (MediaSource::FileId(_), _) => estimated(UPLOAD_TOKENS),
            (_, Some(words)) => Count { tokens: counter.count(&words), source: counter.source() },
            (_, None) => estimated(pages(media) * WORDS_PER_PAGE),
        }
    }

    fn audio(self, media: &Media) -> Count {
        let said_by_model = &*media.shape == "audio";
        let per_second = match self {
            ImageRule::Gemini => 32,
            ImageRule::OpenAi | ImageRule::Anthropic if said_by_model => 20,
            ImageRule::OpenAi | ImageRule::Anthropic => 10,
        };
        let tokens = (per_second * milliseconds(media)).div_ceil(1000).max(1);
        match (media.extent, self) {
            (Some(Extent::Milliseconds(_)), ImageRule::OpenAi | ImageRule::Gemini) => exact(Tokens::new(tokens)),
            _ => estimated(tokens),
        }
    }

    /// A page is read twice, as its words and as a picture. A little high for plain text, about right for tables.
    fn tokens_per_page(self) -> u64 {
        match self {
            ImageRule::OpenAi => 1_700,
            ImageRule::Anthropic => 2_500,
            ImageRule::Gemini => 600,
        }
    }

    fn video_per_second(self) -> u64 {
        if self == ImageRule::Gemini { 295 } else { 765 }
    }
}

fn exact(tokens: Tokens) -> Count {
    Count { tokens, source: CountSource::Exact }
}

fn estimated(tokens: u64) -> Count {
    Count { tokens: Tokens::new(tokens), source: CountSource::Estimated }
}

/// The words that a provider would read: those that stand there, or those of a text file in base64.
fn words_of(media: &Media) -> Option<Cow<'_, str>> {
    match &media.source {
        MediaSource::Words(words) => Some(Cow::Borrowed(words)),
        MediaSource::Base64(data) if media.media_type.as_deref().is_some_and(is_text) => {
            String::from_utf8(decode_base64(data, usize::MAX)).ok().map(Cow::Owned)
        }
        _ => None,
    }
}

fn is_text(media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default();
    media_type.starts_with("text/") || ["application/json", "application/xml", "application/yaml"].contains(&media_type)
}

fn pages(media: &Media) -> u64 {
    match (media.extent, media.bytes()) {
        (Some(Extent::Pages(pages)), _) => u64::from(pages).max(1),
        (_, Some(bytes)) => (bytes.div_ceil(PAGE_BYTES) as u64).clamp(1, PAGES_MAX),
        (_, None) => PAGES_UNKNOWN,
    }
}

fn milliseconds(media: &Media) -> u64 {
    match (media.extent, media.bytes()) {
        (Some(Extent::Milliseconds(length)), _) => length,
        (_, Some(bytes)) => bytes as u64 * 1000 / bytes_per_second(media.media_type.as_deref().unwrap_or_default()),
        (_, None) => MILLISECONDS_UNKNOWN,
    }
}

/// The rate of a recording whose header does not tell it: rather a low one, so that its length is not taken for less.
fn bytes_per_second(media_type: &str) -> u64 {
    let is_any = |names: &[&str]| names.iter().any(|name| media_type.contains(name));
    match media_type {
        _ if is_any(&["wav", "pcm", "l16"]) => 32_000,
        _ if is_any(&["flac"]) => 40_000,
        _ if is_any(&["ogg", "opus", "webm"]) => 4_000,
        _ if media_type.starts_with("video/") => 64_000,
        _ => 8_000,
    }
}

/// The shortest text without a blank that is taken for base64 and not for words.
const BASE64_CHARS_MIN: usize = 1024;

/// Whether a text is data in base64: long, and of nothing but its signs.
pub(crate) fn is_base64(text: &str) -> bool {
    let text = text.trim_end();
    let body = text.trim_end_matches('=');
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_\r\n".contains(&byte);
    text.len() >= BASE64_CHARS_MIN && text.len() - body.len() <= 2 && body.bytes().all(is_sign)
}

/// The tokens of JSON that is not understood. What a provider sealed in it is words again when it is opened: a token for
/// each four bytes.
pub(super) fn opaque_tokens(json: &str, counter: &dyn TokenCounter) -> Tokens {
    let mut sealed = 0;
    let mut value = match serde_json::from_str::<Value>(json) {
        Ok(value) if json.len() >= BASE64_CHARS_MIN => value,
        _ => return counter.count(json),
    };
    take_sealed(&mut value, &mut sealed);
    match sealed {
        0 => counter.count(json),
        _ => counter.count(&value.to_string()) + Tokens::new((sealed as u64 * 3 / 4).div_ceil(4)),
    }
}

/// The tokens of what a provider's own tool answered: lines of JSON and of words.
pub(super) fn fixed_tokens(text: &str, counter: &dyn TokenCounter) -> Tokens {
    match text.lines().any(|line| line.len() >= BASE64_CHARS_MIN) {
        true => text.lines().map(|line| opaque_tokens(line, counter)).sum(),
        false => counter.count(text),
    }
}

fn take_sealed(value: &mut Value, sealed: &mut usize) {
    match value {
        Value::String(text) if is_base64(text) => {
            *sealed += text.len();
            text.clear();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| take_sealed(item, sealed)),
        Value::Object(fields) => fields.values_mut().for_each(|item| take_sealed(item, sealed)),
        _ => {}
    }
}

/// The media type that the first bytes of base64 data tell.
pub(crate) fn media_type_of(data: &str) -> Option<&'static str> {
    let head = decode_base64(data, 16);
    if let Some((_, known)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some(known);
    }
    match (head.get(..4)?, head.get(4..8)?, head.get(8..12)?) {
        (b"RIFF", _, b"WEBP") => Some("image/webp"),
        (b"RIFF", _, b"WAVE") => Some("audio/wav"),
        (_, b"ftyp", b"M4A ") => Some("audio/mp4"),
        (_, b"ftyp", _) => Some("video/mp4"),
        _ => None,
    }
}

/// The extent that base64 data tells of itself.
pub(crate) fn extent_of(kind: MediaKind, data: &str) -> Option<Extent> {
    match kind {
        MediaKind::Image => ImageSize::of_base64(data).map(Extent::Pixels),
        MediaKind::Document if media_type_of(data) == Some("application/pdf") => {
            pdf_pages(&decode_base64(data, PDF_BYTES_MAX)).map(Extent::Pages)
        }
        MediaKind::Audio => {
            let bytes = data.trim_end_matches('=').len() * 3 / 4;
            wav_milliseconds(&decode_base64(data, 64 * 1024), bytes as u64).map(Extent::Milliseconds)
        }
        _ => None,
    }
}

/// The pages of a PDF: its page objects, or the number that its page tree or its linearization states. `None` where all
/// of that is compressed.
fn pdf_pages(bytes: &[u8]) -> Option<u32> {
    let objects = memmem::find_iter(bytes, b"/Type").filter(|at| is_page(&bytes[at + b"/Type".len()..])).count();
    let stated = || memmem::find_iter(bytes, b"/Count").filter_map(|at| number(&bytes[at + b"/Count".len()..])).max();
    let linearized = || {
        let at = memmem::find(bytes, b"/Linearized")?;
        let dictionary = &bytes[at..(at + 256).min(bytes.len())];
        number(&dictionary[memmem::find(dictionary, b"/N ")? + b"/N".len()..])
    };
    let objects = u32::try_from(objects).ok().filter(|pages| *pages > 0);
    objects.or_else(stated).or_else(linearized).filter(|pages| (1..=10_000).contains(pages))
}

/// Whether what follows `/Type` says that an object is a page.
fn is_page(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    rest.strip_prefix(b"/Page").is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
}

fn number(text: &[u8]) -> Option<u32> {
    let digits: Vec<u8> = text.trim_ascii_start().iter().copied().take_while(u8::is_ascii_digit).collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// The length of a WAV recording of so many bytes, by its header.
fn wav_milliseconds(head: &[u8], bytes: u64) -> Option<u64> {
    if !(head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WAVE")) {
        return None;
    }
    let (mut at, mut bytes_per_second) = (12, 0u64);
    loop {
        let name = head.get(at..at + 4)?;
        let size = u32::from_le_bytes(*head.get(at + 4..at + 8)?.first_chunk()?);
        match name {
            b"fmt " => bytes_per_second = u64::from(u32::from_le_bytes(*head.get(at + 16..at + 20)?.first_chunk()?)),
            b"data" if bytes_per_second == 0 => return None,
            // A recording that was streamed does not know its size: it goes on to the end.
            b"data" => return Some(u64::from(size).min(bytes.saturating_sub(at as u64 + 8)) * 1000 / bytes_per_second),
            _ => {}
        }
        at += 8 + size as usize + size as usize % 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A WAV header that states a rate and a size.
    fn wav(bytes_per_second: u32, data: u32) -> Vec<u8> {
        let mut head = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3E\0\0".to_vec();
        head.extend(bytes_per_second.to_le_bytes());
        head.extend(b"\x02\0\x10\0LIST\x02\0\0\0xxdata");
        head.extend(data.to_le_bytes());
        head
    }

    #[test]
    fn the_length_of_a_wav_is_read_from_its_header() {
        let head = wav(32_000, 64_000);
        assert_eq!(wav_milliseconds(&head, head.len() as u64 + 64_000), Some(2_000));
        let streamed = wav(32_000, u32::MAX);
        assert_eq!(wav_milliseconds(&streamed, streamed.len() as u64 + 16_000), Some(500));
        for end in 0..head.len() {
            assert_eq!(wav_milliseconds(&head[..end], 64_000), None, "cut at {end}");
        }
    }

    #[test]
    fn the_pages_of_a_pdf_are_its_page_objects_or_what_it_states() {
        for (claim, pdf, pages) in [
            ("objects, not the tree", "%PDF <</Type/Pages/Count 9>> <</Type /Page>> <</Type/Page/Parent 1>>", Some(2)),
            ("the tree alone", "%PDF <</Type /Pages /Kids[] /Count 12>>", Some(12)),
            ("linearized", "%PDF <</Linearized 1/L 3/N 7/T 4>> stream", Some(7)),
            ("all compressed", "%PDF-1.7 <</Type/ObjStm/N 40>>", None),
            ("nonsense", "%PDF /Count 0", None),
        ] {
            assert_eq!(pdf_pages(pdf.as_bytes()), pages, "{claim}");
        }
    }

    #[test]
    fn first_bytes_tell_the_type_cut_anywhere_they_tell_it_or_nothing() {
        for (data, known) in [
            ("JVBERi0xLjcK", Some("application/pdf")),
            ("iVBORw0KGgo=", Some("image/png")),
            ("UklGRgAAAABXQVZFZm10IA==", Some("audio/wav")),
            ("UklGRgAAAABXRUJQVlA4IA==", Some("image/webp")),
            ("aGVsbG8gd29ybGQ=", None),
            ("", None),
        ] {
            assert_eq!(media_type_of(data), known, "{data}");
            for end in 0..data.len() {
                let cut = media_type_of(&data[..end]);
                assert!(cut.is_none() || cut == known, "{data} at {end}");
            }
        }
    }
}
