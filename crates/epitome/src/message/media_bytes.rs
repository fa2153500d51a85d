//! The bytes of media: the type, size, pages or length that they state of themselves.
//!
//! It reads headers, never pixels, and fetches nothing: what an address stands for has no known extent.

use memchr::memmem;

use super::media::{Extent, ImageSize, MediaKind};

/// How much of an image's text is decoded to find its size; a JPEG may hold a thumbnail before it.
const HEADER_BYTES: usize = 256 * 1024;

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

/// The shortest text without a blank that is taken for base64 and not for words.
pub(crate) const BASE64_CHARS_MIN: usize = 1024;

/// Whether a text is data in base64: long, and of nothing but its signs.
pub(crate) fn is_base64(text: &str) -> bool {
    let text = text.trim_end();
    let body = text.trim_end_matches('=');
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_\r\n".contains(&byte);
    text.len() >= BASE64_CHARS_MIN && text.len() - body.len() <= 2 && body.bytes().all(is_sign)
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

impl ImageSize {
    /// The size of an image in base64, with or without `data:…;base64,` before it.
    pub(crate) fn of_base64(text: &str) -> Option<ImageSize> {
        let data = text.find(";base64,").map_or(text, |at| &text[at + ";base64,".len()..]);
        ImageSize::of_bytes(&decode_base64(data, HEADER_BYTES))
    }

    /// The size that a PNG, GIF, WebP or JPEG states in its first bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<ImageSize> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => size(u32_be(bytes, 16)?, u32_be(bytes, 20)?),
            [b'G', b'I', b'F', b'8', ..] => size(u16_le(bytes, 6)?, u16_le(bytes, 8)?),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp(bytes),
            [0xFF, 0xD8, ..] => jpeg(bytes),
            _ => None,
        }
    }
}

fn size(width: u32, height: u32) -> Option<ImageSize> {
    (width > 0 && height > 0).then_some(ImageSize { width, height })
}

fn webp(bytes: &[u8]) -> Option<ImageSize> {
    match bytes.get(12..16)? {
        b"VP8X" => size(u24_le(bytes, 24)? + 1, u24_le(bytes, 27)? + 1),
        b"VP8 " => size(u16_le(bytes, 26)? & 0x3FFF, u16_le(bytes, 28)? & 0x3FFF),
        b"VP8L" => {
            let bits = u16_le(bytes, 21)? | u16_le(bytes, 23)? << 16;
            size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        }
        _ => None,
    }
}

/// Walks the segments of a JPEG up to the one that starts a frame.
fn jpeg(bytes: &[u8]) -> Option<ImageSize> {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        if marker == 0xFF {
            at += 1;
        } else if starts_frame(marker) {
            return size(u16_be(bytes, at + 7)?, u16_be(bytes, at + 5)?);
        } else {
            at += 2 + u16_be(bytes, at + 2)? as usize;
        }
    }
}

fn starts_frame(marker: u8) -> bool {
    matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC)
}

fn u16_be(bytes: &[u8], at: usize) -> Option<u32> {
    let [high, low] = *bytes.get(at..at + 2)?.first_chunk()?;
    Some(u32::from(u16::from_be_bytes([high, low])))
}

fn u16_le(bytes: &[u8], at: usize) -> Option<u32> {
    let [low, high] = *bytes.get(at..at + 2)?.first_chunk()?;
    Some(u32::from(u16::from_le_bytes([low, high])))
}

fn u24_le(bytes: &[u8], at: usize) -> Option<u32> {
    let [low, middle, high] = *bytes.get(at..at + 3)?.first_chunk()?;
    Some(u32::from_le_bytes([low, middle, high, 0]))
}

fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// The first bytes that a base64 text stands for; it ends at the first sign that is not base64.
pub(crate) fn decode_base64(text: &str, max_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut bits = 0u32;
    let mut held = 0;
    for value in text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map_while(base64_value) {
        bits = bits << 6 | value;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
        if bytes.len() == max_bytes {
            break;
        }
    }
    bytes
}

fn base64_value(sign: u8) -> Option<u32> {
    Some(u32::from(match sign {
        b'A'..=b'Z' => sign - b'A',
        b'a'..=b'z' => sign - b'a' + 26,
        b'0'..=b'9' => sign - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of images of 300 by 200 that Pillow wrote.
    const FILES: [(&str, &str); 6] = [
        ("png", "iVBORw0KGgoAAAANSUhEUgAAASwAAADICAAAAAB3tIOJAAAA"),
        ("gif", "R0lGODdhLAHIAIEAAAAAAAAAAAAAAAAAACwAAAAALAHIAEAI"),
        (
            "jpeg",
            "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP///////////////////////////////////////////////////////////////////////////\
             ///////////wAALCADIASwBAREA/8QAHwAA",
        ),
        ("webp lossless", "UklGRiIAAABXRUJQVlA4TBYAAAAvK8ExAAcQEf0PACjS//8U"),
        ("webp lossy", "UklGRqYAAABXRUJQVlA4IJoAAABwEACdASosAcgAP83m8XO/"),
        ("webp extended", "UklGRs4AAABXRUJQVlA4WAoAAAAIAAAAKwEAxwAAVlA4IJoA"),
    ];

    #[test]
    fn the_size_of_an_image_is_read_from_its_first_bytes() {
        for (format, data) in FILES {
            let size = Some(ImageSize { width: 300, height: 200 });
            assert_eq!(ImageSize::of_base64(data), size, "{format}");
            assert_eq!(ImageSize::of_base64(&format!("data:image/x;base64,{data}")), size, "{format}");
        }
    }

    #[test]
    fn an_image_cut_anywhere_has_its_size_or_none() {
        for (format, data) in FILES {
            let bytes = decode_base64(data, HEADER_BYTES);
            for end in 0..bytes.len() {
                let size = ImageSize::of_bytes(&bytes[..end]);
                assert!(size.is_none_or(|size| size == ImageSize { width: 300, height: 200 }), "{format} at {end}");
            }
        }
    }

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
