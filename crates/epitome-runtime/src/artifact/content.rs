//! Content that was read, and parts of it: lines, what follows a place, lines that hold a text.
//!
//! What is given out never costs more tokens than it may, and says where to go on. Nothing here decides who may read.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use epitome::budget::{TokenCounter, Tokens, truncate};

use crate::store::ArtifactRow;

/// The most characters of a line that are shown around what was looked for.
const HIT_CHARS_MAX: usize = 400;

/// An artifact with its content. What is printed of it for debugging does not show the content.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    metadata: ArtifactRow,
    text: String,
}

/// A text of which parts are given out.
#[derive(Clone, Copy)]
pub struct Text<'a>(&'a str);

/// A limit on the tokens of an excerpt.
#[derive(Clone, Copy)]
pub struct ExcerptLimit<'a> {
    /// The counter.
    pub counter: &'a dyn TokenCounter,
    /// The most tokens.
    pub max: Tokens,
}

/// A part of some content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// The part.
    pub text: String,
    /// Its lines, from 1; the last one may be cut.
    pub lines: RangeInclusive<usize>,
    /// Its bytes within the content; reading continues at the end.
    pub bytes: Range<usize>,
    /// True if it is all that was asked for.
    pub is_whole: bool,
}

/// A line that holds what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextMatch {
    /// The line, from 1.
    pub line: usize,
    /// The byte at which the text was found.
    pub byte: usize,
    /// The line, or the part of a long one that is around what was found.
    pub text: String,
}

/// The lines that hold what was looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hits {
    /// As many as may be shown.
    pub shown: Vec<TextMatch>,
    /// The number of lines.
    pub total: usize,
}

impl Hits {
    /// The hits as text: a line's number, a colon, and the line.
    pub fn text(&self) -> String {
        self.shown.iter().map(TextMatch::numbered).collect()
    }
}

impl TextMatch {
    fn numbered(&self) -> String {
        format!("{}: {}\n", self.line, self.text)
    }
}

impl Content {
    pub(crate) fn new(metadata: ArtifactRow, bytes: Vec<u8>) -> Self {
        // What was said is text; anything else is shown as well as it can be.
        let text =
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Content { metadata, text }
    }

    /// Returns its metadata.
    pub fn metadata(&self) -> &ArtifactRow {
        &self.metadata
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All of it, without what is known of it.
    pub fn into_text(self) -> String {
        self.text
    }

    /// It as a text of which parts are given out.
    pub fn parts(&self) -> Text<'_> {
        Text(&self.text)
    }

    /// Returns the number of lines.
    pub fn line_count(&self) -> usize {
        self.parts().line_count()
    }

    /// These lines, from 1, as far as the limit allows. Lines that are not there are left out.
    pub fn lines(&self, lines: RangeInclusive<usize>, limit: ExcerptLimit<'_>) -> Excerpt {
        self.parts().lines(lines, limit)
    }

    /// Returns the content from a byte on, as far as the limit allows: the way through lines that are too long.
    pub fn from_byte(&self, byte: usize, limit: ExcerptLimit<'_>) -> Excerpt {
        self.parts().from_byte(byte, limit)
    }

    /// The lines that hold this text, in any case, as far as the limit allows.
    pub fn grep(&self, text: &str, limit: ExcerptLimit<'_>) -> Hits {
        self.parts().grep(text, limit)
    }
}

impl<'a> Text<'a> {
    /// A text.
    pub fn new(text: &'a str) -> Self {
        Text(text)
    }

    /// Returns the number of lines.
    pub fn line_count(self) -> usize {
        self.0.lines().count()
    }

    /// These lines, from 1, as far as the limit allows. Lines that are not there are left out.
    pub fn lines(self, lines: RangeInclusive<usize>, limit: ExcerptLimit<'_>) -> Excerpt {
        let start = self.start_of_line(*lines.start());
        let end = self.start_of_line(lines.end().saturating_add(1)).max(start);
        self.excerpt(start..end, limit)
    }

    /// Returns the content from a byte on, as far as the limit allows: the way through lines that are too long.
    pub fn from_byte(self, byte: usize, limit: ExcerptLimit<'_>) -> Excerpt {
        let start = self.0.floor_char_boundary(byte.min(self.0.len()));
        self.excerpt(start..self.0.len(), limit)
    }

    /// The lines that hold this text, in any case, as far as the limit allows.
    pub fn grep(self, text: &str, limit: ExcerptLimit<'_>) -> Hits {
        let wanted = text.to_lowercase();
        let mut hits = Hits::default();
        let mut left = limit.max.get();
        let mut start = 0;
        for (index, line) in self.0.split_inclusive('\n').enumerate() {
            let text = line.trim_end_matches(['\n', '\r']);
            if let Some(at) = find_in_any_case(text, &wanted) {
                let hit = TextMatch { line: index + 1, byte: start + at, text: around(text, at).to_owned() };
                hits.total += 1;
                let cost = limit.counter.count(&hit.numbered()).get();
                // Once one does not fit, none is shown: a gap would look like a part that holds nothing.
                left = left.checked_sub(cost).map_or(0, |left| {
                    hits.shown.push(hit);
                    left
                });
            }
            start += line.len();
        }
        // Counts do not add up, so what is shown is counted once more as a whole.
        while limit.counter.count(&hits.text()) > limit.max && hits.shown.pop().is_some() {}
        hits
    }

    fn excerpt(self, asked: Range<usize>, limit: ExcerptLimit<'_>) -> Excerpt {
        let given = truncate(limit.counter, &self.0[asked.clone()], limit.max);
        let given = whole_lines(given, asked.len());
        let bytes = asked.start..asked.start + given.len();
        let first = 1 + newlines(&self.0[..bytes.start]);
        let last = first + newlines(given.strip_suffix('\n').unwrap_or(given));
        Excerpt { text: given.to_owned(), lines: first..=last, is_whole: bytes.end == asked.end, bytes }
    }

    fn start_of_line(self, line: usize) -> usize {
        match line.checked_sub(2) {
            None => 0,
            Some(before) => self.0.match_indices('\n').nth(before).map_or(self.0.len(), |(at, _)| at + 1),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// A cut text without the line that the cut went through, unless that is all there is.
fn whole_lines(given: &str, asked_bytes: usize) -> &str {
    if given.len() == asked_bytes {
        return given;
    }
    given.rfind('\n').map_or(given, |last| &given[..=last])
}

/// Finds a lower-case text in a line, in any case.
fn find_in_any_case(line: &str, wanted: &str) -> Option<usize> {
    if line.is_ascii() {
        return line.to_ascii_lowercase().find(wanted);
    }
    let at = line.to_lowercase().find(wanted)?;
    // Lower case may have another length; the place is then looked for from the start.
    let mut lower_bytes = 0;
    let place = line.char_indices().find(|(_, c)| {
        let found = lower_bytes >= at;
        lower_bytes += c.to_lowercase().map(char::len_utf8).sum::<usize>();
        found
    });
    Some(place.map_or(line.len(), |(place, _)| place))
}

/// The part of a line that is around a place in it.
fn around(line: &str, at: usize) -> &str {
    let start =
        line.floor_char_boundary(if line.len() <= HIT_CHARS_MAX { 0 } else { at.saturating_sub(HIT_CHARS_MAX / 4) });
    let end = line.floor_char_boundary((start + HIT_CHARS_MAX).min(line.len()));
    &line[start..end]
}

#[cfg(test)]
mod tests {
    use epitome::budget::{Bpe, Characters};
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{Moment, TenantId, ThreadId};
    use crate::store::Sensitivity;

    fn content(text: &str) -> Content {
        let metadata = ArtifactRow {
            id: "0123456789abcdef".to_owned(),
            tenant: TenantId::local(),
            thread: ThreadId::new(),
            at: Moment(0),
            expires: None,
            key_id: None,
            sensitivity: Sensitivity::Internal,
            bytes: text.len() as u64,
            tokens: 0,
        };
        Content::new(metadata, text.as_bytes().to_vec())
    }

    fn limit(max: u64) -> ExcerptLimit<'static> {
        ExcerptLimit { counter: &Characters::Four, max: Tokens::new(max) }
    }

    const POEM: &str = "one\ntwo\nthree\n\nfive\nsix";

    #[test]
    fn lines_are_counted_from_one_and_those_that_are_not_there_are_left_out() {
        let cases = [
            (1..=1, "one\n", 1..=1),
            (2..=3, "two\nthree\n", 2..=3),
            (4..=4, "\n", 4..=4),
            (6..=6, "six", 6..=6),
            (5..=99, "five\nsix", 5..=6),
            (1..=usize::MAX, POEM, 1..=6),
            (0..=2, "one\ntwo\n", 1..=2),
        ];
        for (asked, expected, lines) in cases {
            let excerpt = content(POEM).lines(asked.clone(), limit(100));
            assert_eq!((excerpt.text.as_str(), excerpt.lines), (expected, lines), "{asked:?}");
            assert!(excerpt.is_whole, "{asked:?}");
            assert_eq!(&POEM[excerpt.bytes], expected, "{asked:?}");
        }
        for beyond in [7..=9, 99..=99, usize::MAX..=usize::MAX, RangeInclusive::new(3, 2)] {
            assert_eq!(content(POEM).lines(beyond.clone(), limit(100)).text, "", "{beyond:?}");
        }
    }

    #[test]
    fn what_does_not_fit_ends_with_a_whole_line_and_says_where_to_go_on() {
        let text: String = (1..=100).map(|number| format!("line number {number}\n")).collect();
        let content = content(&text);
        let first = content.lines(1..=100, limit(20));
        assert!(!first.is_whole && first.text.ends_with('\n'), "{first:?}");
        let next = content.from_byte(first.bytes.end, limit(20));
        assert_eq!(*next.lines.start(), first.lines.end() + 1);
    }

    #[test]
    fn a_line_longer_than_the_limit_can_be_read_to_its_end() {
        let text = "é1234567".repeat(500);
        let content = content(&text);
        let (mut read, mut at) = (String::new(), 0);
        while at < text.len() {
            let part = content.from_byte(at, limit(100));
            assert!(part.bytes.end > at, "no way on from {at}");
            assert_eq!(part.lines, 1..=1);
            at = part.bytes.end;
            read.push_str(&part.text);
        }
        assert_eq!(read, text);
    }

    #[test]
    fn a_search_tells_the_numbers_of_lines_and_ignores_case() {
        let hits = content("Error: first\nfine\nan ERROR\r\nÜber error\n").grep("error", limit(100));
        assert_eq!(hits.text(), "1: Error: first\n3: an ERROR\n4: Über error\n");
        assert_eq!(hits.total, 3);
        assert_eq!(content("Über\n").grep("üBER", limit(100)).text(), "1: Über\n");
        assert_eq!(content("fine\n").grep("error", limit(100)), Hits::default());
    }

    #[test]
    fn a_hit_in_a_long_line_shows_what_is_around_it_and_where_it_is() {
        let text = format!("short\n{}needle{}", "İ".repeat(5000), "b".repeat(9000));
        let hits = content(&text).grep("NEEDLE", limit(1000));
        let hit = &hits.shown[0];
        assert!(hit.text.len() <= HIT_CHARS_MAX && hit.text.contains("needle"), "{}", hit.text);
        assert!(text[hit.byte..].starts_with("needle"), "{}", hit.byte);
    }

    #[test]
    fn hits_that_do_not_fit_are_counted_and_not_shown() {
        let text = "an error here\n".repeat(50);
        let hits = content(&text).grep("error", limit(40));
        assert_eq!(hits.total, 50);
        assert!(!hits.shown.is_empty() && hits.shown.len() < 12, "{}", hits.shown.len());
        let lines: Vec<usize> = hits.shown.iter().map(|hit| hit.line).collect();
        assert_eq!(lines, (1..=lines.len()).collect::<Vec<_>>());
    }

    #[test]
    fn bytes_that_are_not_text_are_shown_as_well_as_they_can_be() {
        let content = Content::new(content("").metadata, vec![b'a', 0xff, b'\n', b'b']);
        assert_eq!(content.lines(2..=2, limit(10)).text, "b");
    }

    proptest! {
        #[test]
        fn no_part_costs_more_than_it_may(
            text in "([a-zé漢]{0,30}\n){0,40}", max in 0u64..60, from in 0usize..50, byte in 0usize..1500,
        ) {
            let content = content(&text);
            let limit = ExcerptLimit { counter: &Bpe::O200k, max: Tokens::new(max) };
            let parts = [content.lines(from..=from + 9, limit).text, content.from_byte(byte, limit).text];
            for part in parts.into_iter().chain([content.grep("a", limit).text()]) {
                prop_assert!(Bpe::O200k.count(&part) <= limit.max);
            }
        }
    }
}
