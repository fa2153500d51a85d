//! Fences: the text of others between our tags, so that a model can tell it from our words.
//!
//! A fence changes only what could be taken for one of our tags. It does not judge the text, and it removes nothing.

/// Every tag of ours begins like this; no other text may.
const FAMILY: &str = "epitome-";

/// Puts a text between an opening and a closing tag of ours.
pub(super) fn fence(tag: &str, text: &str) -> String {
    format!("<{FAMILY}{tag}>\n{}\n</{FAMILY}{tag}>", escape_tags(text.trim_end()))
}

/// Spells the bracket of each look-alike of our tags `&lt;`: without this, a tool's output could close its own fence and go
/// on as if it were our words.
pub(super) fn escape_tags(text: &str) -> String {
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

/// Tells whether a text that begins with a bracket begins with a tag of ours, in any spacing and case.
fn is_ours(text: &str) -> bool {
    let name = text[1..].trim_start_matches(|c: char| c == '/' || c.is_whitespace() || c.is_control());
    name.get(..FAMILY.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAMILY))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{escape_tags, fence};

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
            assert_eq!(escape_tags(text), expected);
            assert_eq!(fence("t", text).matches("<epitome-").count(), 1, "{text}");
            assert_eq!(fence("t", text).matches("</epitome-").count(), 1, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_fenced_has_one_opening_and_one_closing_tag(pieces in prop::collection::vec("[<>/ \\n]{0,3}(epitome-|EPITOME-|\\PC)?", 0..40)) {
            let text = fence("t", &pieces.concat()).to_lowercase();
            prop_assert_eq!((text.matches("<epitome-").count(), text.matches("</epitome-").count()), (1, 1));
        }
    }
}
