//! What an image costs, by each provider's rule. What other media costs is told in `media.rs`.

use serde::{Deserialize, Serialize};

use super::tokens::Tokens;
use crate::message::{ImageDetail, ImageSize};

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

#[cfg(test)]
mod tests {
    use super::*;

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
