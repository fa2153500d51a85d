//! The numbers of a compacted list's messages: `m41` means one message, however often the list is compacted.
//!
//! A list holds no log. Its summary and its stand-ins name messages by the numbers they had when they left, so the messages
//! that are still there must not be counted from 1 again: `m2` would mean two things in one prompt. Where the record of the
//! compaction is at hand, messages keep their numbers ([`Session::renumber`](super::Session::renumber)); without it they are
//! counted on from the largest number that the list names.

use super::LogMessage;
use crate::message::{NewMessage, Part, Role};
use crate::render::is_stand_in;
use crate::summary::{is_rendered, titled_turns};

/// Longer numbers are somebody's words, not ours.
const DIGITS_MAX: usize = 7;

/// The numbers of a list that was compacted before, by place; `None` where nothing says that it was.
pub(super) fn after_compaction(log: &[LogMessage]) -> Option<Vec<usize>> {
    let left: Vec<&str> = log.iter().flat_map(|logged| texts_of_compaction(&logged.message)).collect();
    if left.is_empty() {
        return None;
    }
    let mut last = left.into_iter().flat_map(mentions).max().unwrap_or(0);
    let opening = opening_messages(log);
    let number = |(at, logged): (usize, &LogMessage)| {
        if logged.message.summary {
            return 0;
        }
        if at < opening {
            return at + 1;
        }
        last += 1;
        last
    };
    Some(log.iter().enumerate().map(number).collect())
}

/// Counts the messages that stand before the first summary and have always been first: system messages and the first request, in
/// front of a summary whose title says that it begins with the first turn.
fn opening_messages(log: &[LogMessage]) -> usize {
    let Some(at) = log.iter().position(|logged| logged.message.summary) else { return 0 };
    let mut texts = log[at].message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        _ => None,
    });
    let begins = texts.any(|text| titled_turns(text).is_some_and(|turns| turns.0 <= 1));
    let requests = log[..at].iter().filter(|logged| logged.message.role == Role::User).count();
    let others = log[..at].iter().filter(|logged| !matches!(logged.message.role, Role::User | Role::System)).count();
    if begins && requests <= 1 && others == 0 { at } else { 0 }
}

/// Whether a text is a summary or a stand-in of a compaction that names the message of this number. In a log that begins
/// with such a text, the number is not one of the log's own.
pub fn is_named_by_compaction(text: &str, number: usize) -> bool {
    (is_rendered(text, "") || is_stand_in(text)) && mentions(text).any(|mentioned| mentioned == number)
}

/// The texts of a message that a compaction wrote.
fn texts_of_compaction(message: &NewMessage) -> impl Iterator<Item = &str> {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        Part::ToolResult(result) => Some(&*result.text),
        _ => None,
    });
    texts.filter(|text| message.summary || is_stand_in(text))
}

/// The numbers in the references of a text: `m41`.
fn mentions(text: &str) -> impl Iterator<Item = usize> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let digits = words.filter_map(|word| word.strip_prefix('m'));
    digits.filter(|digits| digits.len() <= DIGITS_MAX).filter_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use crate::session::{ReadOptions, Session};

    fn numbers(list: &str) -> Vec<String> {
        let session = Session::read(list, &ReadOptions::default()).expect("a list");
        session.context().iter().map(|seen| session.reference(seen)).collect()
    }

    #[test]
    fn a_list_that_was_compacted_counts_on_from_the_largest_number_it_names() {
        let plain = r#"[{"role":"user","content":"see m9"},{"role":"assistant","content":"yes"}]"#;
        assert_eq!(numbers(plain), ["m1", "m2"]);
        let compacted = r#"[{"role":"user","content":"[Context Summary - Turns 1-9]\nm3: Add tests. (m17)"},
{"role":"user","content":"go on"},
{"role":"assistant","content":"[... the middle is left out; whole: m21 ...]"}]"#;
        assert_eq!(numbers(compacted), ["L1", "m22", "m23"]);
    }

    #[test]
    fn a_list_whose_record_is_known_keeps_its_numbers() {
        let list = r#"[{"role":"user","content":"[Context Summary - Turns 1-9]\nm3: Add tests."},{"role":"user","content":"go on"}]"#;
        let mut session = Session::read(list, &ReadOptions::default()).expect("a list");
        session.renumber(vec![0, 41]);
        assert_eq!(session.messages().iter().map(|message| message.number).collect::<Vec<_>>(), [Some(0), Some(41)]);
    }
}
