//! A selection of messages by their numbers: `m41`, `m188-m193`, `m188-m193, m200`.

use std::fmt;
use std::ops::RangeInclusive;

/// The most messages of a selection.
const MESSAGES_MAX: u64 = 500;

/// Messages of a thread, by their numbers, in the order in which they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSelection(Vec<RangeInclusive<u64>>);

impl MessageSelection {
    /// Parses numbers and spans with commas or spaces between them; `None` if the text is anything else.
    pub fn parse(text: &str) -> Option<MessageSelection> {
        let text = text.replace(" - ", "-").replace("..", "-");
        let pieces = text.split([',', ' ', ';']).map(str::trim).filter(|piece| !piece.is_empty());
        let spans: Vec<RangeInclusive<u64>> = pieces.map(span).collect::<Option<_>>()?;
        let selection = MessageSelection(spans);
        let count: u64 =
            selection.0.iter().map(|span| (span.end() - span.start()).saturating_add(1)).fold(0, u64::saturating_add);
        (count > 0 && count <= MESSAGES_MAX).then_some(selection)
    }

    /// Returns the only number, if there is one only.
    pub fn single(&self) -> Option<u64> {
        match &self.0[..] {
            [span] if span.start() == span.end() => Some(*span.start()),
            _ => None,
        }
    }

    /// Returns the selection with so many messages before and after each span, up to message `last`.
    pub fn with_neighbors(&self, around: u64, last: u64) -> MessageSelection {
        let wider = |span: &RangeInclusive<u64>| {
            let first = span.start().saturating_sub(around).max(1).min(*span.start());
            first..=span.end().saturating_add(around).min(last.max(*span.end()))
        };
        MessageSelection(self.0.iter().map(wider).collect())
    }

    /// Returns the numbers, each once, in their order.
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = Vec::new();
        for number in self.0.iter().cloned().flatten() {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        numbers
    }
}

/// Parses the number of a message as doors take it: `m41`, or `41`.
pub fn message_number(text: &str) -> Option<u64> {
    number(text, false)
}

fn span(piece: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = piece.split_once(['-', '–']).unwrap_or((piece, piece));
    let first = number(first, true)?;
    let last = number(last, false)?;
    (first <= last).then_some(first..=last)
}

/// Parses `m41`; behind a dash the letter may be left out.
fn number(text: &str, needs_letter: bool) -> Option<u64> {
    let digits = text.trim().strip_prefix('m').or(Some(text.trim()).filter(|_| !needs_letter))?;
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

impl fmt::Display for MessageSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, span) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            match span.start() == span.end() {
                true => write!(f, "{comma}m{}", span.start())?,
                false => write!(f, "{comma}m{}-m{}", span.start(), span.end())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::MessageSelection;

    #[test]
    fn numbers_and_spans_are_read_as_people_and_models_write_them() {
        for (text, expected) in [
            ("m41", Some("m41")),
            ("m188-m193, m200", Some("m188-m193, m200")),
            ("m188-193", Some("m188-m193")),
            ("m1..m3", Some("m1-m3")),
            ("m5 m7", Some("m5, m7")),
            ("m1 - m3", Some("m1-m3")),
            ("m0", Some("m0")),
            ("41", None),
            ("m9-m3", None),
            ("m1-m99999", None),
            ("9f86d081884c7d65", None),
            ("m", None),
            ("", None),
        ] {
            assert_eq!(MessageSelection::parse(text).map(|found| found.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn neighbors_widen_each_span_within_the_thread_and_each_message_comes_once() {
        for (text, around, last, expected) in [
            ("m5", 0, 9, vec![5]),
            ("m5", 2, 9, vec![3, 4, 5, 6, 7]),
            ("m1", 2, 9, vec![1, 2, 3]),
            ("m9", 2, 9, vec![7, 8, 9]),
            ("m4, m5", 1, 9, vec![3, 4, 5, 6]),
        ] {
            let found = MessageSelection::parse(text).unwrap().with_neighbors(around, last).numbers();
            assert_eq!(found, expected, "{text} {around}");
        }
    }
}
