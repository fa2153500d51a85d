//! TextIndex: whether words stand in some texts, asked again and again.
//!
//! About every fourth place of the texts, picked by what stands there, is remembered; words that hold such a place
//! themselves are looked up by it. Answers are exact: only the way to them is short.

/// How much of a text is looked at to remember a place.
const WINDOW_BYTES: usize = 8;
/// The most places of the words that are tried to find a rare one.
const TRIES_MAX: usize = 4;

/// Texts in which words are looked up.
pub(crate) struct TextIndex<'t> {
    texts: Vec<&'t str>,
    /// Where each text would begin if they stood one after the other.
    starts: Vec<usize>,
    /// Remembered places: a hash of what stands there, and where that is among all texts.
    places: Vec<(u32, u32)>,
}

impl<'t> TextIndex<'t> {
    /// Remembers places of these texts.
    pub(crate) fn in_texts(texts: impl IntoIterator<Item = &'t str>) -> TextIndex<'t> {
        let texts: Vec<&str> = texts.into_iter().collect();
        let (mut places, mut starts, mut start) = (Vec::new(), Vec::with_capacity(texts.len()), 0);
        for text in &texts {
            places.extend(remembered(text).map(|(hash, at)| (hash, (start + at) as u32)));
            starts.push(start);
            start += text.len();
        }
        assert!(u32::try_from(start).is_ok(), "a prompt is smaller than four gigabytes");
        places.sort_unstable();
        TextIndex { texts, starts, places }
    }

    /// Whether words stand in one of the texts.
    pub(crate) fn contains(&self, words: &str) -> bool {
        let tried = remembered(words).take(TRIES_MAX).map(|(hash, at)| (self.places_of(hash), at));
        match tried.min_by_key(|(places, _)| places.len()) {
            Some((places, at)) => places.iter().any(|(_, place)| self.stands_at(words, at, *place as usize)),
            None => self.texts.iter().any(|text| text.contains(words)),
        }
    }

    fn places_of(&self, hash: u32) -> &[(u32, u32)] {
        let from = self.places.partition_point(|(known, _)| *known < hash);
        let len = self.places[from..].partition_point(|(known, _)| *known == hash);
        &self.places[from..from + len]
    }

    /// Whether the words stand where their byte `at` falls on a remembered place.
    fn stands_at(&self, words: &str, at: usize, place: usize) -> bool {
        let text = self.starts.partition_point(|start| *start <= place) - 1;
        let Some(from) = (place - self.starts[text]).checked_sub(at) else { return false };
        self.texts[text].as_bytes()[from..].starts_with(words.as_bytes())
    }
}

/// The places of a text that are worth remembering; the same words have the same ones wherever they stand.
fn remembered(text: &str) -> impl Iterator<Item = (u32, usize)> {
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
            let said = TextIndex::in_texts(texts.iter().map(String::as_str));
            let piece: String = texts.get(text).map(|text| text.chars().skip(from).take(len).collect()).unwrap_or_default();
            for words in [words, piece.clone(), format!("{piece}b")] {
                let plainly = texts.iter().any(|text| text.contains(&words));
                prop_assert_eq!(said.contains(&words), plainly, "{:?}", words);
            }
        }
    }
}
