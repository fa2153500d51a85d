//! What media costs, by each provider's rule. The length of its base64 says nothing.
//!
//! Nothing is rendered, unpacked or fetched: what an address or a file id stands for has no known size, and a common one
//! is assumed. A count says whether it follows from a published rule and a measured extent, or is an estimate.

use std::borrow::Cow;

use serde_json::Value;

use super::image::ImageRule;
use super::tokens::{Count, CountSource, TokenCounter, Tokens};
use crate::message::{BASE64_CHARS_MIN, Extent, Media, MediaKind, MediaSource, decode_base64, is_base64};

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
impl ImageRule {
    /// The tokens of media, and how they are known.
    pub fn count(self, media: &Media, counter: &dyn TokenCounter) -> Count {
        match media.kind {
            MediaKind::Image => self.image(media),
            MediaKind::Document => match words_of(media) {
                Some(words) => Count { tokens: counter.count(&words), source: counter.source() },
                None => estimated(pages(media) * self.tokens_per_page()),
            },
            MediaKind::Audio => self.audio(media),
            MediaKind::Video => {
                let per_second = if self == ImageRule::Gemini { 295 } else { 765 };
                estimated(per_second * milliseconds(media).div_ceil(1000))
            }
            MediaKind::File => self.file(media, counter),
        }
    }

    fn image(self, media: &Media) -> Count {
        match media.extent {
            Some(Extent::Pixels(size)) => exact(self.tokens(Some(size), media.detail)),
            _ => estimated(self.tokens(None, media.detail).get()),
        }
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
