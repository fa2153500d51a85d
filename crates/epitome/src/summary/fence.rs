//! Fences: text of others put between our tags, so that it can be told from what we say.
//!
//! A fence changes only what could be taken for one of our tags. It does not judge the text, and it removes nothing.

/// Every tag of ours begins like this; no other text may.
const FAMILY: &str = "epitome-";

/// A text between an opening and a closing tag of ours, with look-alikes inside made harmless.
pub(super) fn fenced(tag: &str, text: &str) -> String {
    format!("<{FAMILY}{tag}>\n{}\n</{FAMILY}{tag}>", defused(text.trim_end()))
}

/// A text in which nothing can be taken for a tag of ours: the bracket of each look-alike is spelled `&lt;`.
pub(super) fn defused(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        safe.push_str(before);
        safe.push_str(if is_ours(from) { "&lt;" } else { "<" });
        rest = &from[1..];
    }
    safe.push_str(rest);
    safe
}

/// Whether a text that begins with a bracket begins with a tag of ours, however it is spaced or cased.
fn is_ours(text: &str) -> bool {
    let name = text[1..].trim_start_matches(|c: char| c == '/' || c.is_whitespace() || c.is_control());
    name.get(..FAMILY.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAMILY))
}

/// A text of at most so many characters: whole, or its head and its tail with a mark between that says how much left.
pub(super) fn clipped(text: &str, chars_max: usize) -> String {
    let chars = text.chars().count();
    if chars <= chars_max {
        return text.to_owned();
    }
    let mark = format!("\n[… of {chars} characters, the middle is left out …]\n");
    let room = chars_max.saturating_sub(mark.chars().count());
    let head = room - room / 3;
    let tail = room - head;
    let kept_head = &text[..offset(text, head)];
    let kept_tail = &text[offset(text, chars - tail)..];
    if room == 0 { text[..offset(text, chars_max)].to_owned() } else { format!("{kept_head}{mark}{kept_tail}") }
}

/// A text on one line, of at most so many characters, with `…` where it goes on.
pub(super) fn one_line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    let kept = &line[..offset(&line, chars_max.saturating_sub(1))];
    if chars_max == 0 { String::new() } else { format!("{}…", kept.trim_end()) }
}

/// The byte offset of the n-th character.
fn offset(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{clipped, defused, fenced, one_line};

    #[test]
    fn no_text_can_close_its_own_fence() {
        let cases = [
            ("</epitome-transcript>", "&lt;/epitome-transcript>"),
            ("< / EPITOME-wishes >", "&lt; / EPITOME-wishes >"),
            ("<<epitome-x", "<&lt;epitome-x"),
            ("<\n/epitome-x", "&lt;\n/epitome-x"),
            ("a < b && <b>bold</b>", "a < b && <b>bold</b>"),
            ("末尾 <", "末尾 <"),
            ("<epitomé", "<epitomé"),
        ];
        for (text, expected) in cases {
            assert_eq!(defused(text), expected);
            assert_eq!(fenced("t", text).matches("<epitome-").count(), 1, "{text}");
            assert_eq!(fenced("t", text).matches("</epitome-").count(), 1, "{text}");
        }
    }

    #[test]
    fn a_clipped_text_keeps_both_ends_and_its_bound_in_any_script() {
        for text in ["0123456789".repeat(40), "日本語のテキスト".repeat(50), "🙂é".repeat(200)] {
            for chars_max in [0, 1, 30, 100, 399, 10_000] {
                let clip = clipped(&text, chars_max);
                assert!(clip.chars().count() <= chars_max, "{chars_max}");
                assert!(one_line(&text, chars_max).chars().count() <= chars_max);
            }
            let clip = clipped(&text, 100);
            assert!(clip.contains("of 400 characters") && clip.chars().next() == text.chars().next());
            assert_eq!(clip.chars().last(), text.chars().last());
        }
    }

    proptest! {
        #[test]
        fn whatever_is_fenced_has_one_opening_and_one_closing_tag(pieces in prop::collection::vec("[<>/ \\n]{0,3}(epitome-|EPITOME-|\\PC)?", 0..40)) {
            let text = fenced("t", &pieces.concat()).to_lowercase();
            prop_assert_eq!((text.matches("<epitome-").count(), text.matches("</epitome-").count()), (1, 1));
        }
    }
}
