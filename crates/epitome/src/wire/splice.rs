//! Splicing: changing one place of a JSON text and no other byte of it.
//!
//! A request that is sent on must be the client's own, byte for byte, wherever nothing was decided about it: a provider's
//! prompt cache compares bytes, and a field that nobody here knows must not be lost. No crate edits JSON like that, so it
//! is done here and nowhere else. Values are found by a JSON reader and then cut out of the text they were read from.
//!
//! What holds of every function of this module:
//!
//! - **Bytes.** Everything outside the change is kept as it was written: white space, the order of fields, the spelling
//!   of names and numbers. A field that goes takes one comma with it; one
//!   that is added at the end takes the place of the white space before the brace.
//! - **Spelling.** Names are compared as JSON means them: `"\u0063ache"` is `"cache"`. A name inside a string, or in an
//!   object further down, is not a field of this one.
//! - **Duplicates.** Of fields with the same name the last counts, as it does for JSON readers. [`set_field`] sets that
//!   one. [`without_field`] takes all of them, since the one before would count otherwise.
//! - **Depth.** Values are skipped, not descended into: neither memory nor stack grows with how deep a text nests.
//! - **What is not JSON** is given back as it came. Nothing here panics or makes JSON of what was none. A `value`, `with`
//!   or `more` that is put in must be JSON; that is the caller's part.

use std::ops::Range;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::offset_range;

/// The fields of an object, borrowed from its text.
#[derive(Debug)]
pub struct RawFields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> RawFields<'a> {
    /// Reads the fields of an object; `None` of anything else.
    pub fn of(object: &'a str) -> Option<RawFields<'a>> {
        serde_json::from_str(object).ok()
    }

    /// The last field of a name, as JSON readers see it.
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// All fields, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl<'de: 'a, 'a> serde::Deserialize<'de> for RawFields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> serde::de::Visitor<'de> for Fields<'a> {
            type Value = RawFields<'a>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    fields.push(entry);
                }
                Ok(RawFields(fields))
            }
        }
        deserializer.deserialize_map(Fields(std::marker::PhantomData))
    }
}
pub(super) fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// `outer` with `inner`, borrowed from it, exchanged. Any other `inner` panics.
pub fn splice(outer: &str, inner: &str, with: &str) -> String {
    let range = offset_range(outer, inner);
    format!("{}{with}{}", &outer[..range.start], &outer[range.end..])
}

/// An object's text with one field set: in its place where it has it, at the end where it has not.
pub fn set_field(object: &str, key: &str, value: &str) -> String {
    let Some(fields) = RawFields::of(object) else { return object.to_owned() };
    match fields.get(key) {
        Some(old) => splice(object, old.get(), value),
        None => {
            let end = object.rfind('}').unwrap_or(object.len());
            let comma = if fields.iter().next().is_some() { "," } else { "" };
            format!("{}{comma}{}:{value}{}", object[..end].trim_end(), quoted(key), &object[end..])
        }
    }
}

/// An object's text without the fields of a name.
pub fn without_field(object: &str, key: &str) -> String {
    match RawFields::of(object) {
        Some(fields) => around(object, field_ranges(object, &fields, |name| name == key)).concat(),
        None => object.to_owned(),
    }
}

/// A list's text with more elements, parted by commas, at its end.
pub fn extend_list(list: &str, more: &str) -> String {
    let Some(inside) = list.trim_end().strip_suffix(']').map(str::trim_end) else { return list.to_owned() };
    let comma = if inside.ends_with('[') || more.is_empty() { "" } else { "," };
    format!("{inside}{comma}{more}{}", &list[inside.len()..])
}

/// A text without some ranges of it, in pieces. The ranges do not overlap and come in any order.
pub(super) fn around(text: &str, mut ranges: Vec<Range<usize>>) -> Vec<&str> {
    ranges.sort_by_key(|range| range.start);
    let mut pieces = Vec::with_capacity(ranges.len() + 1);
    let mut from = 0;
    for range in ranges {
        pieces.push(&text[from..range.start]);
        from = range.end;
    }
    pieces.push(&text[from..]);
    pieces
}

/// Where the fields of certain names stand in an object's text, each run of them with the comma that parts it from the
/// others: the one before it or, where no field stays before it, the one behind.
pub(super) fn field_ranges(object: &str, fields: &RawFields<'_>, goes: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut run = None;
    let mut some_stay = false;
    // Between two values there are a comma, white space and a name: its quote is the first.
    let mut end = object.find('{').map_or(0, |at| at + 1);
    for (name, value) in fields.iter() {
        let behind = |what: char| object[end..].find(what).map_or(end, |at| end + at);
        if goes(name) {
            run.get_or_insert_with(|| if some_stay { behind(',') } else { end });
        } else {
            ranges.extend(run.take().map(|start| start..if some_stay { end } else { behind('"') }));
            some_stay = true;
        }
        end = offset_range(object, value.get()).end;
    }
    ranges.extend(run.map(|start| {
        let closing = object[end..].find('}').map_or(end, |at| end + at);
        start..if some_stay { end } else { closing }
    }));
    ranges
}

/// The elements of a list. That it is JSON is known, so that only strings and brackets need to be looked at.
pub(super) fn elements(list: &RawValue) -> Vec<&str> {
    let (text, bytes) = (list.get(), list.get().as_bytes());
    let (mut found, mut depth, mut from, mut at) = (Vec::new(), 0, 1, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at + 1),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        let is_last = depth == 0;
        if is_last || (depth == 1 && bytes[at] == b',') {
            let element = text[from..at].trim_ascii();
            if !(is_last && element.is_empty()) {
                found.push(element);
            }
            from = at + 1;
        }
        at += 1;
    }
    found
}

/// Where the quote stands that ends a string.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(next) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        if bytes[at + next] == b'"' {
            return at + next;
        }
        at += next + 2;
    }
    bytes.len() - 1
}

/// Reads on in a list, from behind one of its elements: where the later elements stand, and where the list ends. `None`
/// where what follows is not the rest of a list.
pub(super) fn rest_of_list(text: &str, from: usize) -> Option<(Vec<Range<usize>>, usize)> {
    /// Stands for the part that was read before.
    const BEGINNING: &str = "[0";
    let list = format!("{BEGINNING}{}", &text[from..]);
    let mut lists = serde_json::Deserializer::from_str(&list).into_iter::<Vec<&RawValue>>();
    let read = lists.next()?.ok()?;
    let place = |at: usize| from + at - BEGINNING.len();
    let later = read.iter().skip(1).map(|element| {
        let range = offset_range(&list, element.get());
        place(range.start)..place(range.end)
    });
    Some((later.collect(), place(lists.byte_offset())))
}

/// Reads on in an object, from behind one of its fields to the end of the text: the names of the later fields and where
/// their values stand. `None` where what follows is not the rest of an object.
pub(super) fn rest_of_object(text: &str, from: usize) -> Option<Vec<(Box<str>, Range<usize>)>> {
    /// Stands for the part that was read before.
    const BEGINNING: &str = "{\"\":0";
    let object = format!("{BEGINNING}{}", &text[from..]);
    let fields = RawFields::of(&object)?;
    let place = |at: usize| from + at - BEGINNING.len();
    let later = fields.iter().skip(1).map(|(name, value)| {
        let range = offset_range(&object, value.get());
        (name.into(), place(range.start)..place(range.end))
    });
    Some(later.collect())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_field_goes_with_one_comma_and_nothing_else() {
        for (object, expected) in [
            (r#"{"k":1}"#, "{}"),
            (r#"{ "k" : 1 }"#, "{}"),
            (r#"{"k":1,"b":2}"#, r#"{"b":2}"#),
            (r#"{ "k": 1, "b": 2 }"#, r#"{"b": 2 }"#),
            (r#"{"a":1,"k":2}"#, r#"{"a":1}"#),
            ("{\n  \"a\": 1,\n  \"k\": 2\n}", "{\n  \"a\": 1\n}"),
            (r#"{"a": 1, "k": 2, "b": 3}"#, r#"{"a": 1, "b": 3}"#),
            (r#"{"a":1 , "k" : [{"k":2}] ,"b":3}"#, r#"{"a":1  ,"b":3}"#),
            (r#"{"\u006b":1,"b":"\u0041"}"#, r#"{"b":"\u0041"}"#),
            (r#"{"a\"k":1,"k":2,"x\"":3}"#, r#"{"a\"k":1,"x\"":3}"#),
            (r#"{"k":1,"k":2}"#, "{}"),
            (r#"{"k":1,"k":2,"b":3,"k":4,"k":5}"#, r#"{"b":3}"#),
            (r#"{"a":1,"k":2,"k":3,"b":4}"#, r#"{"a":1,"b":4}"#),
            (r#" {"k":1,"b":2} "#, r#" {"b":2} "#),
            (r#"{"b":{"k":1},"c":"\"k\":1"}"#, r#"{"b":{"k":1},"c":"\"k\":1"}"#),
            (r#"[{"k":1}]"#, r#"[{"k":1}]"#),
            (r#"{"k":1"#, r#"{"k":1"#),
            ("", ""),
        ] {
            assert_eq!(without_field(object, "k"), expected, "{object}");
        }
    }

    #[test]
    fn a_name_with_quotes_in_it_is_a_name_like_any_other() {
        let object = r#"{"a":1,"\"k\"":2,"b":3}"#;
        assert_eq!(without_field(object, "\"k\""), r#"{"a":1,"b":3}"#);
        assert_eq!(set_field(object, "\"k\"", "4"), r#"{"a":1,"\"k\"":4,"b":3}"#);
    }

    #[test]
    fn a_field_is_set_where_it_stands_or_at_the_end() {
        for (object, expected) in [
            ("{}", r#"{"k":0}"#),
            ("{ }", r#"{"k":0}"#),
            (r#"{"a":1}"#, r#"{"a":1,"k":0}"#),
            ("{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\"k\":0}\n"),
            (r#"{"k": {"k":"}"} , "b":1}"#, r#"{"k": 0 , "b":1}"#),
            (r#"{"\u006B":1}"#, r#"{"\u006B":0}"#),
            (r#"{"k":1,"k":2}"#, r#"{"k":1,"k":0}"#),
            ("[]", "[]"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(set_field(object, "k", "0"), expected, "{object}");
        }
    }

    #[test]
    fn a_list_gets_more_behind_what_it_has() {
        for (list, expected) in
            [("[]", "[9]"), ("[ ]", "[9 ]"), ("[1]", "[1,9]"), ("[1\n]\n", "[1,9\n]\n"), ("{}", "{}")]
        {
            assert_eq!(extend_list(list, "9"), expected, "{list}");
        }
        assert_eq!(extend_list("[1]", ""), "[1]");
    }

    #[test]
    fn a_text_that_nests_without_end_is_edited_like_any_other() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let object = format!(r#"{{"a":{deep},"k":{deep},"b":{deep}}}"#);
        assert_eq!(without_field(&object, "k"), format!(r#"{{"a":{deep},"b":{deep}}}"#));
        assert_eq!(set_field(&object, "k", "0"), format!(r#"{{"a":{deep},"k":0,"b":{deep}}}"#));
    }

    #[test]
    fn a_list_is_taken_apart_as_its_reader_would() {
        for text in [
            "[]",
            "[ ]",
            "[1]",
            r#"[ {"a":[1,{"b":"],[\"\\"}]} , "x,\\" , null,[[],[ ]] , "" ]"#,
            r#"["\\\"",{"k]":"v}"},-1.5e3,true,"\u005d\ud83d\ude00 é"]"#,
        ] {
            let list: &RawValue = serde_json::from_str(text).unwrap();
            let read: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            assert_eq!(elements(list), read.iter().map(|one| one.get()).collect::<Vec<_>>(), "{text}");
        }
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

    /// An object's text: names that repeat and are spelled in several ways, values that look like names and brackets.
    fn object() -> impl Strategy<Value = (String, Vec<(String, String)>)> {
        let name =
            prop::sample::select(vec![("k", "k"), (r"\u006b", "k"), ("a", "a"), (r#"\"k\""#, "\"k\""), ("é", "é")]);
        let value = prop::sample::select(vec![
            "1",
            "null",
            r#""k""#,
            r#""\"k\":1,""#,
            r#"{"k":[1,{"k":2}]}"#,
            "[ ]",
            r#""}]\\""#,
        ]);
        let space = || prop::sample::select(vec!["", " ", "\n\t"]);
        prop::collection::vec((name, value, space(), space()), 0..6).prop_map(|fields| {
            let written = fields
                .iter()
                .map(|((spelled, _), value, one, other)| format!("{one}\"{spelled}\"{other}:{one}{value}{other}"));
            let text = format!("{{{}}}", written.collect::<Vec<_>>().join(","));
            (text, fields.iter().map(|((_, name), value, ..)| ((*name).to_owned(), (*value).to_owned())).collect())
        })
    }

    fn read(object: &str) -> Vec<(String, String)> {
        let fields = RawFields::of(object).unwrap_or_else(|| panic!("{object}"));
        fields.iter().map(|(name, value)| (name.to_owned(), value.get().to_owned())).collect()
    }

    proptest! {
        #[test]
        fn what_is_not_changed_is_what_it_was((object, mut fields) in object()) {
            let without = without_field(&object, "k");
            let kept: Vec<_> = fields.iter().filter(|(name, _)| name != "k").cloned().collect();
            prop_assert_eq!(read(&without), kept, "{}", without);
            if kept_all(&fields) {
                prop_assert_eq!(&without, &object);
            }
            prop_assert_eq!(without_field(&without, "k"), without.clone());
            let set = set_field(&object, "k", "[7]");
            match fields.iter_mut().rev().find(|(name, _)| name == "k") {
                Some((_, value)) => *value = "[7]".to_owned(),
                None => fields.push(("k".to_owned(), "[7]".to_owned())),
            }
            prop_assert_eq!(read(&set), fields, "{}", set);
            let shared = object.bytes().zip(set.bytes()).take_while(|(one, other)| one == other).count();
            let behind = object.bytes().rev().zip(set.bytes().rev()).take_while(|(one, other)| one == other).count();
            let changed = object.len().saturating_sub(shared + behind);
            prop_assert!(changed <= r#"{"k":[1,{"k":2}]}"#.len() + 2, "{} became {}", object, set);
        }
    }

    fn kept_all(fields: &[(String, String)]) -> bool {
        fields.iter().all(|(name, _)| name != "k")
    }
}
