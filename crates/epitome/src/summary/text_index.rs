//! The text index: answers thousands of times whether some words are in a prompt, without reading the prompt each time.
//!
//! An anchor is a place whose eight bytes hash to a value that begins with two zero bits, so about every fourth place is one,
//! and the same words have the same anchors wherever they are. A search takes an anchor of the words, looks up the places of
//! the texts with the same hash, and compares the words there. Words without an anchor, which are short, are searched for
//! plainly. Answers are exact.

use memchr::memmem::Finder;

/// The bytes that make an anchor.
const WINDOW_BYTES: usize = 8;
/// The most anchors of the words that are tried to find a rare one.
const TRIES_MAX: usize = 4;

/// Texts in which words are looked up.
pub(crate) struct TextIndex<'t> {
    texts: Vec<&'t str>,
    /// The offset of each text, were they one.
    starts: Vec<usize>,
    /// The anchors, sorted: hash, and offset among all texts.
    anchors: Vec<(u32, u32)>,
}

impl<'t> TextIndex<'t> {
    pub(crate) fn new(texts: impl IntoIterator<Item = &'t str>) -> TextIndex<'t> {
        let texts: Vec<&str> = texts.into_iter().collect();
        let (mut anchors, mut starts, mut start) = (Vec::new(), Vec::with_capacity(texts.len()), 0);
        for text in &texts {
            anchors.extend(anchors_of(text).map(|(hash, at)| (hash, (start + at) as u32)));
            starts.push(start);
            start += text.len();
        }
        assert!(u32::try_from(start).is_ok(), "a prompt is smaller than four gigabytes");
        anchors.sort_unstable();
        TextIndex { texts, starts, anchors }
    }

    /// Tells whether one of the texts contains some words.
    pub(crate) fn contains(&self, words: &str) -> bool {
        self.find(words, |_, _| true)
    }

    /// Tells whether one of the texts contains some words at a place that is accepted, by text and offset.
    pub(crate) fn find(&self, words: &str, accepts: impl Fn(&str, usize) -> bool) -> bool {
        let tried = anchors_of(words).take(TRIES_MAX).map(|(hash, at)| (self.anchors_with(hash), at));
        match tried.min_by_key(|(anchors, _)| anchors.len()) {
            Some((anchors, at)) => {
                let mut places = anchors.iter().filter_map(|(_, offset)| self.start_of(words, at, *offset as usize));
                places.any(|(text, start)| accepts(text, start))
            }
            None => {
                let finder = Finder::new(words);
                let accepted = |text: &&str| finder.find_iter(text.as_bytes()).any(|start| accepts(text, start));
                self.texts.iter().any(accepted)
            }
        }
    }

    fn anchors_with(&self, hash: u32) -> &[(u32, u32)] {
        let from = self.anchors.partition_point(|(known, _)| *known < hash);
        let len = self.anchors[from..].partition_point(|(known, _)| *known == hash);
        &self.anchors[from..from + len]
    }

    /// Returns the text with the words and where they begin in it, if they are where their byte `at` falls on an anchor.
    fn start_of(&self, words: &str, at: usize, offset: usize) -> Option<(&'t str, usize)> {
        let text = self.starts.partition_point(|start| *start <= offset) - 1;
        let start = (offset - self.starts[text]).checked_sub(at)?;
        let text = self.texts[text];
        text.as_bytes()[start..].starts_with(words.as_bytes()).then_some((text, start))
    }
}

fn anchors_of(text: &str) -> impl Iterator<Item = (u32, usize)> {
    text.as_bytes().windows(WINDOW_BYTES).enumerate().filter_map(|(at, window)| {
        let bytes: [u8; WINDOW_BYTES] = window.try_into().ok()?;
        let mixed = u64::from_le_bytes(bytes).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 62 == 0).then_some(((mixed >> 28) as u32, at))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::TextIndex;

    proptest! {
        #[test]
        fn it_answers_as_a_plain_search_does(
            texts in prop::collection::vec("[ab]{0,400}|[a-d é世]{0,300}", 0..4),
            words in "[ab]{0,40}|[a-d é世]{0,12}",
            (text, from, len) in (0usize..4, 0usize..300, 0usize..120),
        ) {
            let index = TextIndex::new(texts.iter().map(String::as_str));
            let piece: String = texts.get(text).map(|text| text.chars().skip(from).take(len).collect()).unwrap_or_default();
            for words in [words, piece.clone(), format!("{piece}b")] {
                let plainly = texts.iter().any(|text| text.contains(&words));
                prop_assert_eq!(index.contains(&words), plainly, "{:?}", words);
            }
        }
    }
}
