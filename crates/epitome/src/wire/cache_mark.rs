//! Cache marks (`cache_control`): where they stand and how long they last.
//!
//! They are read as JSON, never matched as text: a client may write `"ttl": "1h"`, put `ttl` first, or spell a name with
//! escapes, and a field of a tool's arguments that is called the same is no mark. Marks stand on tools, on blocks of the
//! system prompt, on blocks of messages and of tool results, and on the request itself.

use std::ops::Range;

use serde_json::value::RawValue;

use super::decode::RawFields;
use crate::thread::offset_range;

/// The field that is a mark, and the one that other providers have for it.
const NAMES: [&str; 2] = [MARK, "prompt_cache_breakpoint"];
const MARK: &str = "cache_control";
/// The lists whose elements carry marks, in the order in which a provider reads them.
const LISTS: [&str; 4] = ["tools", "system", "messages", "content"];
/// How deep marks stand at most: a request, its messages, their blocks, the blocks of a result.
const DEPTH_MAX: usize = 4;

/// How long what a mark caches lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkLifetime {
    /// Five minutes.
    Short,
    /// An hour. A provider takes none of these behind one of five minutes.
    Long,
}

impl MarkLifetime {
    /// The mark, as JSON.
    pub(super) fn json(self) -> &'static str {
        match self {
            MarkLifetime::Short => r#"{"type":"ephemeral"}"#,
            MarkLifetime::Long => r#"{"type":"ephemeral","ttl":"1h"}"#,
        }
    }

    /// The lifetime that the value of a mark says; `None` where it is null.
    pub(super) fn of(value: &str) -> Option<MarkLifetime> {
        let value: serde_json::Value = serde_json::from_str(value).unwrap_or_default();
        let is_long = value.get("ttl").and_then(|ttl| ttl.as_str()) == Some("1h");
        (!value.is_null()).then_some(if is_long { MarkLifetime::Long } else { MarkLifetime::Short })
    }
}

/// The marks of a message, or of a whole request, in the order in which a provider reads them.
pub fn cache_marks(json: &str) -> Vec<MarkLifetime> {
    let mut marks = Vec::new();
    if may_spell(json, MARK) {
        collect(json, DEPTH_MAX, &mut |fields| {
            marks.extend(fields.get(MARK).and_then(|value| MarkLifetime::of(value.get())));
        });
    }
    marks
}

/// How many cache marks a message, or a whole request, carries.
pub fn count_marks(json: &str) -> usize {
    cache_marks(json).len()
}

/// A message's text without its cache marks, in pieces: the same however often and wherever it is marked.
pub fn unmarked(json: &str) -> Vec<&str> {
    if !NAMES.iter().any(|name| may_spell(json, name)) {
        return vec![json];
    }
    let mut fields: Vec<Range<usize>> = Vec::new();
    collect(json, DEPTH_MAX, &mut |object| {
        let marks = object.iter().filter(|(name, _)| NAMES.contains(name));
        fields.extend(marks.map(|(_, value)| field_range(json, offset_range(json, value.get()))));
    });
    fields.sort_by_key(|field| field.start);
    let mut pieces = Vec::with_capacity(fields.len() + 1);
    let mut from = 0;
    for field in fields.into_iter().filter(|field| !field.is_empty()) {
        if field.start >= from {
            pieces.push(&json[from..field.start]);
            from = field.end;
        }
    }
    pieces.push(&json[from..]);
    pieces
}

/// Whether a JSON text may have this word in it, as a name or in a string. It may say so of a text that has not, and never
/// the other way round, however the word is spelled. The word has letters and underscores alone.
pub fn may_spell(json: &str, word: &str) -> bool {
    memchr::memmem::find(json.as_bytes(), word.as_bytes()).is_some() || has_letter_escapes(json.as_bytes())
}

/// Whether a JSON text spells letters or underscores of ASCII by their numbers: `\u0063`.
pub fn has_letter_escapes(json: &[u8]) -> bool {
    let letters = |at: usize| matches!(json.get(at + 4), Some(b'4'..=b'7'));
    memchr::memmem::find_iter(json, b"\\u00").any(letters)
}

/// Gives out the objects that may carry marks: what stands in an object's lists, then the object itself.
fn collect<'a>(json: &'a str, depth: usize, give: &mut dyn FnMut(&RawFields<'a>)) {
    if depth == 0 || !NAMES.iter().any(|name| may_spell(json, name)) {
        return;
    }
    let Ok(fields) = serde_json::from_str::<RawFields<'a>>(json) else { return };
    for list in LISTS.into_iter().filter_map(|name| fields.get(name)) {
        for element in serde_json::from_str::<Vec<&'a RawValue>>(list.get()).unwrap_or_default() {
            collect(element.get(), depth - 1, give);
        }
    }
    give(&fields);
}

/// Where a field begins and ends, with the comma that parts it from the others; its value stands here.
fn field_range(json: &str, value: Range<usize>) -> Range<usize> {
    // The names of marks have no quotes in them, however they are spelled.
    let Some(name) = json[..value.start].rfind('"').and_then(|end| json[..end].rfind('"')) else { return 0..0 };
    let (before, after) = (json[..name].trim_end(), &json[value.end..]);
    match (before.strip_suffix(','), after.trim_start().strip_prefix(',')) {
        (Some(before), _) => before.len()..value.end,
        // It is the first of its object: the comma behind it goes.
        (None, Some(after)) => before.len()..json.len() - after.trim_start().len(),
        (None, None) => before.len()..json.len() - after.trim_start().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One message, marked with `control` where the second argument says, in several spellings of JSON.
    fn spelled(control: &str) -> Vec<String> {
        let message = |mark: &str| {
            format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":[{{"type":"text","text":"r"{mark}}}]}},{{"type":"text","text":"\"cache_control\":{{\"ttl\":\"1h\"}}"}}]}}"#
            )
        };
        let compact = message(&format!(r#","cache_control":{control}"#));
        let value: serde_json::Value = serde_json::from_str(&compact).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let spaced = compact.replace("\":", "\": ").replace(",\"", ", \"");
        vec![
            compact.clone(),
            pretty,
            spaced,
            message(&format!(",\n\t\"cache_control\"\n:\t{control} ")),
            message(&format!(r#","\u0063ache\u005fcontrol":{control}"#)),
            compact.replace("ttl", "\\u0074tl").replace("1h", "\\u0031h"),
        ]
    }

    #[test]
    fn a_mark_is_read_however_it_is_written() {
        for (control, expected) in [
            (r#"{"type":"ephemeral"}"#, &[MarkLifetime::Short][..]),
            (r#"{"type":"ephemeral","ttl":"5m"}"#, &[MarkLifetime::Short]),
            (r#"{"type":"ephemeral","ttl":"1h"}"#, &[MarkLifetime::Long]),
            (r#"{"ttl":"1h","type":"ephemeral"}"#, &[MarkLifetime::Long]),
            ("null", &[]),
        ] {
            for json in spelled(control) {
                assert_eq!(cache_marks(&json), expected, "{json}");
            }
        }
    }

    #[test]
    fn what_is_only_called_like_a_mark_is_none() {
        for json in [
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{"cache_control":{"ttl":"1h"}}}]}"#,
            r#"{"tools":[{"name":"n","input_schema":{"properties":{"cache_control":{"type":"string"}}}}],"messages":[]}"#,
            r#"{"role":"user","content":"\"cache_control\":{}"}"#,
            "not json: \"cache_control\":{}",
        ] {
            assert_eq!(count_marks(json), 0, "{json}");
            assert_eq!(unmarked(json).concat(), json);
        }
    }

    #[test]
    fn the_marks_of_a_request_come_in_the_order_of_its_reader() {
        let request = r#"{"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{}}]}],
            "system":[{"type":"text","text":"s","cache_control":{"ttl":"1h"}}],"tools":[{"name":"f","cache_control":{"ttl":"1h"}}]}"#;
        use MarkLifetime::{Long, Short};
        assert_eq!(cache_marks(request), [Long, Long, Short, Short]);
    }

    #[test]
    fn a_message_without_its_marks_is_the_same_however_it_was_marked() {
        let block = r#"{"type": "text", "text": "a"}"#;
        let plain = format!(r#"{{"role": "user", "content": [{block}]}}"#);
        for control in ["null", "{}", r#"{"type": "ephemeral", "ttl": "1h"}"#, r#"{"a": {"b": [1]}}"#] {
            for name in ["cache_control", "\\u0063ache_control", "cache\\u005Fcontrol", "prompt_cache_breakpoint"] {
                for marked in [
                    format!(r#"{{"type": "text", "text": "a", "{name}": {control}}}"#),
                    format!(r#"{{"{name}" : {control} , "type": "text", "text": "a"}}"#),
                    format!(r#"{{"type": "text", "{name}": {control}, "text": "a"}}"#),
                ] {
                    let marked = plain.replace(block, &marked);
                    assert_eq!(unmarked(&marked).concat(), plain, "{marked}");
                }
            }
        }
        assert_eq!(unmarked(r#"[{"cache_control":{}}]"#).concat(), r#"[{"cache_control":{}}]"#, "no message");
    }

    #[test]
    fn a_text_that_cannot_have_a_word_is_told_from_one_that_may() {
        for may in [r#"{"image":1}"#, r#"{"\u0069mage":1}"#, r#"{"im\u0061ge":1}"#, r#"{"imag\u0065":1}"#] {
            assert!(may_spell(may, "image"), "{may}");
        }
        for not in [r#"{"x":"\u00e9\u001b\u003c"}"#, "{}", r#"{"x":"\u00"#, r#"{"x":"imag e"}"#] {
            assert!(!may_spell(not, "image"), "{not}");
        }
    }
}
