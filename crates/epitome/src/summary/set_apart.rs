//! Setting apart: words of others in a summary, so that the next round takes no line of them for one of ours.
//!
//! ```text
//! m3: Carry out this plan:         what the user pasted has a heading of ours,
//!     ### Pending Work             so all that stands below the label is indented
//!     - [ ] port the parser
//! m5: Begin.                       other words stay as they are
//! ```
//!
//! Lines of ours begin in the first column; a quoted line that could be taken for one of them never does. Indentation is what a
//! reader expects of a quotation, it costs nothing where nothing could be mistaken, and [`put_back`] undoes it exactly.

use std::borrow::Cow;

use memchr::memmem;

use super::excerpt::{PATHS_BELOW, WITHOUT_LINES};
use super::headings::{LAST_ACTIONS, is_closing, is_title_line, section_of};
use super::parse::{DONE_SO_FAR, LATEST_REQUEST, REQUEST_ABOVE, is_progress};

/// Four columns are a quotation in Markdown too.
const INDENT: &str = "    ";

/// Indents the lines of words that begin on a line of their own, where one of them could be taken for a line of ours.
pub(super) fn set_apart(words: &str) -> Cow<'_, str> {
    indent(words, &is_ours)
}

/// The same for words behind a label: their first line begins behind it.
pub(super) fn set_apart_rest(words: &str) -> Cow<'_, str> {
    below_first_line(words, &|rest| indent(rest, &is_ours))
}

/// The same for an item of a list, in which the next item is a line of ours too.
pub(super) fn set_apart_item(words: &str) -> Cow<'_, str> {
    below_first_line(words, &|rest| indent(rest, &is_ours_in_list))
}

/// Indents one quoted line where it could be taken for one of ours.
pub(super) fn set_apart_line(line: &str) -> Cow<'_, str> {
    if is_ours(line.trim_start()) { Cow::Owned(format!("{INDENT}{line}")) } else { Cow::Borrowed(line) }
}

/// Undoes [`set_apart`].
pub(super) fn put_back(words: &str) -> Cow<'_, str> {
    outdent(words, &is_ours)
}

/// Undoes [`set_apart_rest`].
pub(super) fn put_back_rest(words: &str) -> Cow<'_, str> {
    below_first_line(words, &|rest| outdent(rest, &is_ours))
}

/// Undoes [`set_apart_item`].
pub(super) fn put_back_item(words: &str) -> Cow<'_, str> {
    below_first_line(words, &|rest| outdent(rest, &is_ours_in_list))
}

/// Tells whether words stand in a summary, as they are or as a piece of words that are set apart.
pub(super) fn holds(summary: &str, words: &str) -> bool {
    let stands = |words: &str| memmem::find(summary.as_bytes(), words.as_bytes()).is_some();
    stands(words) || indented(words).is_some_and(|words| stands(&words))
}

/// Returns words of several lines as a piece of words that are set apart.
pub(super) fn indented(words: &str) -> Option<String> {
    words.contains('\n').then(|| words.replace('\n', &format!("\n{INDENT}")).replace(&format!("{INDENT}\n"), "\n"))
}

/// Tells whether a line that begins in the first column is one of ours.
pub(super) fn is_ours(line: &str) -> bool {
    if line.starts_with(char::is_whitespace) {
        return false;
    }
    let line = line.trim_end();
    let begins = [LATEST_REQUEST, DONE_SO_FAR, REQUEST_ABOVE, PATHS_BELOW, WITHOUT_LINES];
    section_of(line).is_some()
        || is_title_line(line)
        || is_closing(line)
        || line == LAST_ACTIONS
        || begins.iter().any(|words| line.starts_with(words))
        || is_progress(line)
        || is_label(line)
        || is_file_heading(line)
}

fn is_ours_in_list(line: &str) -> bool {
    line.starts_with("- ") || is_ours(line)
}

/// Tells whether a line begins with the number of a message, as `m12: words` and `m7 $ command` do.
fn is_label(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('m') else { return false };
    let rest_at = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest_at > 0 && (rest.len() == rest_at || rest[rest_at..].starts_with([':', ' ']))
}

/// Tells whether a line is the heading of a file, as `src/cart.rs (edited m41):` is.
fn is_file_heading(line: &str) -> bool {
    line.ends_with("):") && (line.contains(" (edited m") || line.contains(" (read m"))
}

fn indent<'w>(words: &'w str, is_ours: &dyn Fn(&str) -> bool) -> Cow<'w, str> {
    if !words.lines().any(|line| is_ours(line.trim_start())) {
        return Cow::Borrowed(words);
    }
    let indented = |line: &str| if line.is_empty() { String::new() } else { format!("{INDENT}{line}") };
    Cow::Owned(words.split('\n').map(indented).collect::<Vec<_>>().join("\n"))
}

fn outdent<'w>(words: &'w str, is_ours: &dyn Fn(&str) -> bool) -> Cow<'w, str> {
    if !words.lines().any(|line| is_ours(line.trim_start())) {
        return Cow::Borrowed(words);
    }
    let lines = words.split('\n').map(|line| line.strip_prefix(INDENT).unwrap_or(line));
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

fn below_first_line<'w>(words: &'w str, change: &dyn Fn(&'w str) -> Cow<'w, str>) -> Cow<'w, str> {
    let Some((first, rest)) = words.split_once('\n') else { return Cow::Borrowed(words) };
    match change(rest) {
        Cow::Borrowed(_) => Cow::Borrowed(words),
        Cow::Owned(rest) => Cow::Owned(format!("{first}\n{rest}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::headings::lines_of_ours;
    use super::{
        holds, is_ours, is_ours_in_list, put_back, put_back_item, put_back_rest, set_apart, set_apart_item,
        set_apart_line, set_apart_rest,
    };
    use crate::Limit;
    use crate::policy::{Policy, Preset};
    use crate::summary::StructuredSummary;

    #[test]
    fn only_words_with_a_line_of_ours_are_indented() {
        let cases = [
            ("Fix it.\n\n- and test it", None),
            ("# Plan of mine\n1. port it", None),
            ("m3 is a motorway", Some("    m3 is a motorway")),
            ("## Plan\n\n- port it", Some("    ## Plan\n\n    - port it")),
            ("first\n  ### Pending Work", Some("    first\n      ### Pending Work")),
            ("[Still holds]", Some("    [Still holds]")),
            ("- ran it (m12)", Some("    - ran it (m12)")),
        ];
        for (words, expected) in cases {
            assert_eq!(set_apart(words), expected.unwrap_or(words), "{words:?}");
        }
    }

    #[test]
    fn a_piece_of_words_that_are_set_apart_is_found() {
        let summary = format!("m3: {}", set_apart_rest("Do this:\n## Plan\n- port\n- test"));
        assert!(holds(&summary, "- port\n- test") && holds(&summary, "Do this:\n## Plan"), "{summary}");
        assert!(!holds(&summary, "- test\n- port"));
    }

    /// Words of a user with lines that a summary has, in any form: a few in each message, and something that they say themselves.
    fn words_with_lines_of_ours() -> Vec<String> {
        let labels = [
            "m1: their first words",
            "m7 (supersedes m1, binds): their second",
            "Latest request (m9):",
            "Done so far for m9:",
            "- edited theirs.rs (m9)",
            "Request: m9",
            "(paths are below /theirs/)",
            "theirs.rs (edited m9):",
            "m9 $ make theirs",
            "Without lines: their_tax.rs (read m5)",
            "- Tests: `make theirs` passed (m9)",
            "- their task is open (m9)",
        ];
        let lines: Vec<String> = lines_of_ours().into_iter().chain(labels.map(str::to_owned)).collect();
        let words = |(at, lines): (usize, &[String])| {
            format!("Their note {at} says this\n{}\n  - [ ] theirs too\nand quince {at} never falls.", lines.join("\n"))
        };
        lines.chunks(3).enumerate().map(words).collect()
    }

    /// Tells what of the words of others has become an item of ours.
    fn moved(items: &StructuredSummary) -> Vec<&str> {
        let mut told: Vec<&str> = items.pins.iter().map(String::as_str).collect();
        told.extend(items.facts.iter().chain(&items.media).map(|quote| quote.text.as_str()));
        told.extend(items.current_plan.iter().map(|item| item.text.as_str()));
        told.extend(items.open_items.iter().map(|item| item.description.as_str()));
        told.extend(items.decisions.iter().map(|decision| decision.decision.as_str()));
        told.extend(items.errors.iter().map(|error| error.line.as_str()));
        told.extend(items.state.iter().map(|line| line.line.as_str()));
        told.extend(items.requests.iter().map(|request| request.text.as_str()).filter(|text| !text.contains("quince")));
        told.retain(|text| text.contains("their"));
        told
    }

    /// Compacts a list of twenty rounds in which a user said some words at the beginning.
    fn check_rounds(policy: &Policy, words: &[String]) {
        let mut messages = vec![json!({"role": "user", "content": "Sort the orchard."})];
        for words in words {
            messages.push(json!({"role": "assistant", "content": "Go on."}));
            messages.push(json!({"role": "user", "content": words}));
        }
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (mut round, mut tree) = (0, 0);
        while round < 20 {
            tree += 1;
            assert!(tree < 800, "{}: {round} rounds", policy.name);
            messages.push(json!({"role": "assistant", "content": format!("Tree {tree} bears pears. ").repeat(150)}));
            messages.push(json!({"role": "user", "content": format!("Look at tree {tree}.")}));
            let list = Value::Array(messages.clone()).to_string();
            let made = crate::compact(&list, policy, Limit::budget(2_500)).unwrap();
            let Some(compaction) = made.compaction else { continue };
            round += 1;
            messages = serde_json::from_str(&made.text).unwrap();
            let said: Vec<&str> = messages.iter().filter_map(|message| message["content"].as_str()).collect();
            let said = said.join("\n");
            let what = format!("{}, round {round}", policy.name);
            for words in words {
                assert_eq!(plain(&said).matches(&plain(words)).count(), 1, "{what}: {words}\n---\n{said}");
            }
            assert_eq!(moved(&compaction.summaries[0].items), [""; 0], "{what}\n{said}");
        }
    }

    #[test]
    fn quoted_lines_of_ours_stay_the_users_words_over_twenty_rounds_in_every_preset() {
        for preset in Preset::ALL {
            for words in words_with_lines_of_ours().chunks(5) {
                check_rounds(&preset.policy(), words);
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_set_apart_has_no_line_of_ours_and_is_put_back_as_it_was(
            lines in prop::collection::vec(
                "[ ]{0,6}(## Plan|### Pending Work|OPEN THREADS:|m[0-9]{1,3}: x|- y \\(m4\\)|- z|Latest request \\(m3\\):|\\[Summary v1\\.0\\]|[a-c# -]{0,6})?",
                0..12,
            ),
        ) {
            let words = lines.join("\n");
            let apart = set_apart(&words);
            prop_assert!(!apart.lines().any(is_ours), "{:?}", apart);
            prop_assert_eq!(put_back(&apart), words.as_str());
            let rest = set_apart_rest(&words);
            prop_assert!(!rest.lines().skip(1).any(is_ours), "{:?}", rest);
            prop_assert_eq!(put_back_rest(&rest), words.as_str());
            let item = set_apart_item(&words);
            prop_assert!(!item.lines().skip(1).any(is_ours_in_list), "{:?}", item);
            prop_assert_eq!(put_back_item(&item), words.as_str());
            for line in &lines {
                prop_assert!(!is_ours(&set_apart_line(line)), "{:?}", line);
            }
        }
    }
}
