//! Cache marks (`cache_control`): where they stand and how long they last.
//!
//! They are read as JSON, never matched as text: a client may write `"ttl": "1h"`, put `ttl` first, or spell a name with
//! escapes, and a field of a tool's arguments that is called the same is no mark. Marks stand on tools, on blocks of the
//! system prompt, on blocks of messages and of tool results, and on the request itself.

use std::ops::Range;

use serde_json::value::RawValue;

use super::splice::{RawFields, around, field_ranges, may_spell};
use crate::message::offset_range;

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
        collect(json, DEPTH_MAX, &mut |_, fields| {
            marks.extend(fields.get(MARK).and_then(|value| MarkLifetime::of(value.get())));
        });
    }
    marks
}

/// A message's text without its cache marks, in pieces: the same however often and wherever it is marked.
pub fn unmarked(json: &str) -> Vec<&str> {
    if !NAMES.iter().any(|name| may_spell(json, name)) {
        return vec![json];
    }
    let mut marks: Vec<Range<usize>> = Vec::new();
    collect(json, DEPTH_MAX, &mut |object, fields| {
        let start = offset_range(json, object).start;
        let own = field_ranges(object, fields, |name| NAMES.contains(&name));
        marks.extend(own.into_iter().map(|range| start + range.start..start + range.end));
    });
    around(json, marks)
}

/// Gives out the objects that may carry marks, as text and as fields: what stands in an object's lists, then the object itself.
fn collect<'a>(json: &'a str, depth: usize, give: &mut dyn FnMut(&'a str, &RawFields<'a>)) {
    if depth == 0 || !NAMES.iter().any(|name| may_spell(json, name)) {
        return;
    }
    let Some(fields) = RawFields::of(json) else { return };
    for list in LISTS.into_iter().filter_map(|name| fields.get(name)) {
        for element in serde_json::from_str::<Vec<&'a RawValue>>(list.get()).unwrap_or_default() {
            collect(element.get(), depth - 1, give);
        }
    }
    give(json, &fields);
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
            assert_eq!(cache_marks(json), [], "{json}");
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
        let twice = r#"{"content":[{"cache_control":{},"cache_control":{},"type":"text"}],"cache_control":1}"#;
        assert_eq!(unmarked(twice).concat(), r#"{"content":[{"type":"text"}]}"#);
        assert_eq!(unmarked(r#"[{"cache_control":{}}]"#).concat(), r#"[{"cache_control":{}}]"#, "no message");
    }
}
