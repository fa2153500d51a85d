//! What an image costs: its size read from its first bytes, and each provider's rule.
//!
//! It decodes headers, never pixels, and fetches nothing: an image given by address has no known size. What other media
//! costs is told in `media.rs`.

use serde::{Deserialize, Serialize};

use super::tokens::Tokens;

/// How much of an image's text is decoded to find its size; a JPEG may hold a thumbnail before it.
const HEADER_BYTES: usize = 256 * 1024;

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

/// How closely a model is asked to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ImageDetail {
    /// A small copy at a fixed price.
    Low,
    /// In tiles.
    #[default]
    High,
}

/// A provider's way to count images and other media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageRule {
    /// 85, and 170 for each tile of 512 after fitting into 2048 and 768.
    OpenAi,
    /// An area of 750 pixels for each token after fitting into 1568, at most 1600.
    Anthropic,
    /// 258 for each tile of 768, one for a small image.
    Gemini,
}

impl ImageRule {
    /// The tokens of an image; of a common large one where the size is unknown.
    pub fn tokens(self, size: Option<ImageSize>, detail: ImageDetail) -> Tokens {
        Tokens::new(match (self, size, detail) {
            (ImageRule::OpenAi, _, ImageDetail::Low) => 85,
            (ImageRule::OpenAi, Some(size), ImageDetail::High) => {
                85 + 170 * size.within(2048).with_short_side(768).tiles(512)
            }
            (ImageRule::OpenAi, None, ImageDetail::High) => 85 + 170 * 6,
            (ImageRule::Anthropic, Some(size), _) => size.within(1568).area().div_ceil(750).min(1600),
            (ImageRule::Anthropic, None, _) => 1600,
            (ImageRule::Gemini, Some(size), _) if size.width.max(size.height) <= 384 => 258,
            (ImageRule::Gemini, Some(size), _) => 258 * size.tiles(768),
            (ImageRule::Gemini, None, _) => 258 * 4,
        })
    }
}

impl ImageSize {
    /// The size of an image in base64, with or without `data:…;base64,` before it.
    pub fn of_base64(text: &str) -> Option<ImageSize> {
        let data = text.find(";base64,").map_or(text, |at| &text[at + ";base64,".len()..]);
        ImageSize::of_bytes(&decode_base64(data, HEADER_BYTES))
    }

    /// The size that a PNG, GIF, WebP or JPEG states in its first bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<ImageSize> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => size(u32_be(bytes, 16)?, u32_be(bytes, 20)?),
            [b'G', b'I', b'F', b'8', ..] => size(u16_le(bytes, 6)?, u16_le(bytes, 8)?),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp(bytes),
            [0xFF, 0xD8, ..] => jpeg(bytes),
            _ => None,
        }
    }

    fn area(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    fn tiles(self, side: u32) -> u64 {
        u64::from(self.width.div_ceil(side)) * u64::from(self.height.div_ceil(side))
    }

    /// Made smaller until neither side is longer than this.
    fn within(self, longest: u32) -> ImageSize {
        self.times(f64::from(longest) / f64::from(self.width.max(self.height)))
    }

    /// Made smaller until the shorter side is this.
    fn with_short_side(self, shortest: u32) -> ImageSize {
        self.times(f64::from(shortest) / f64::from(self.width.min(self.height)))
    }

    fn times(self, scale: f64) -> ImageSize {
        let side = |pixels: u32| (f64::from(pixels) * scale.min(1.0)).round().max(1.0) as u32;
        ImageSize { width: side(self.width), height: side(self.height) }
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
pub(super) fn decode_base64(text: &str, max_bytes: usize) -> Vec<u8> {
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

    #[test]
    fn each_provider_counts_an_image_its_own_way() {
        use ImageDetail::{High, Low};
        for (rule, size, detail, tokens) in [
            (ImageRule::OpenAi, Some((1024, 1024)), High, 765),
            (ImageRule::OpenAi, Some((2048, 4096)), High, 1_105),
            (ImageRule::OpenAi, Some((300, 200)), High, 255),
            (ImageRule::OpenAi, Some((4096, 8192)), Low, 85),
            (ImageRule::OpenAi, None, High, 1_105),
            (ImageRule::Anthropic, Some((200, 200)), High, 54),
            (ImageRule::Anthropic, Some((1000, 1000)), High, 1_334),
            (ImageRule::Anthropic, Some((9000, 9000)), High, 1_600),
            (ImageRule::Anthropic, None, High, 1_600),
            (ImageRule::Gemini, Some((384, 384)), High, 258),
            (ImageRule::Gemini, Some((1000, 500)), High, 516),
            (ImageRule::Gemini, None, High, 1_032),
        ] {
            let size = size.map(|(width, height)| ImageSize { width, height });
            assert_eq!(rule.tokens(size, detail), Tokens::new(tokens), "{rule:?} {size:?} {detail:?}");
        }
    }
}
