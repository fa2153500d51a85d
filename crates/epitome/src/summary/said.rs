//! Said: whether words stand in some texts, asked again and again.
//!
//! About every sixteenth place of the texts, picked by what stands there, is remembered; words that hold such a place
//! themselves are looked up by it. Answers are exact: only the way to them is short.

/// How much of a text is looked at to remember a place.
const WINDOW_BYTES: usize = 8;
/// The most places of the words that are tried to find a rare one.
const TRIES_MAX: usize = 4;

/// Texts in which words are looked up.
pub(crate) struct Said<'t> {
    texts: Vec<&'t str>,
    /// Remembered places: what stands there, in which text, where.
    places: Vec<(u64, u32, u32)>,
}

impl<'t> Said<'t> {
    /// Remembers places of these texts.
    pub(crate) fn in_texts(texts: impl IntoIterator<Item = &'t str>) -> Said<'t> {
        let texts: Vec<&str> = texts.into_iter().collect();
        let mut places = Vec::new();
        for (text, words) in texts.iter().enumerate() {
            places.extend(remembered(words).map(|(window, at)| (window, text as u32, at as u32)));
        }
        places.sort_unstable();
        Said { texts, places }
    }

    /// Whether words stand in one of the texts.
    pub(crate) fn contains(&self, words: &str) -> bool {
        let tried = remembered(words).take(TRIES_MAX).map(|(window, at)| (self.places_of(window), at));
        match tried.min_by_key(|(places, _)| places.len()) {
            Some((places, at)) => places.iter().any(|place| self.stands_at(words, at, place)),
            None => self.texts.iter().any(|text| text.contains(words)),
        }
    }

    fn places_of(&self, window: u64) -> &[(u64, u32, u32)] {
        let from = self.places.partition_point(|(known, ..)| *known < window);
        let len = self.places[from..].partition_point(|(known, ..)| *known == window);
        &self.places[from..from + len]
    }

    /// Whether the words stand where their byte `at` falls on a remembered place.
    fn stands_at(&self, words: &str, at: usize, &(_, text, place): &(u64, u32, u32)) -> bool {
        let Some(start) = (place as usize).checked_sub(at) else { return false };
        self.texts[text as usize].as_bytes()[start..].starts_with(words.as_bytes())
    }
}

/// The places of a text that are worth remembering; the same words have the same ones wherever they stand.
fn remembered(text: &str) -> impl Iterator<Item = (u64, usize)> {
    text.as_bytes().windows(WINDOW_BYTES).enumerate().filter_map(|(at, window)| {
        let bytes: [u8; WINDOW_BYTES] = window.try_into().ok()?;
        let mixed = u64::from_le_bytes(bytes).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 60 == 0).then_some((mixed, at))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Said;

    proptest! {
        #[test]
        fn it_answers_as_a_plain_search_does(
            texts in prop::collection::vec("[ab]{0,400}|[a-d é世]{0,300}", 0..4),
            words in "[ab]{0,40}|[a-d é世]{0,12}",
            (text, from, len) in (0usize..4, 0usize..300, 0usize..120),
        ) {
            let said = Said::in_texts(texts.iter().map(String::as_str));
            let piece: String = texts.get(text).map(|text| text.chars().skip(from).take(len).collect()).unwrap_or_default();
            for words in [words, piece.clone(), format!("{piece}b")] {
                let plainly = texts.iter().any(|text| text.contains(&words));
                prop_assert_eq!(said.contains(&words), plainly, "{:?}", words);
            }
        }
    }
}
