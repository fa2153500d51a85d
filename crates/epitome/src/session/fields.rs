//! The fields of one line's object, read only as far as they are asked for.
//!
//! A field of another type than expected counts as absent: a strange line is carried, not refused.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Raw;
use crate::wire::RawFields;

/// An object's fields, borrowed from its text.
pub(super) struct Fields<'a> {
    fields: RawFields<'a>,
}

impl<'a> Fields<'a> {
    /// The fields of an object; `None` for anything else.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok().map(|fields| Fields { fields })
    }

    /// The JSON text of a field; `None` also for `null`.
    pub(super) fn raw(&self, key: &str) -> Option<&'a str> {
        self.fields.get(key).map(RawValue::get).filter(|value| *value != "null")
    }

    /// The JSON text of a field as a piece of the text it was parsed from.
    pub(super) fn piece(&self, key: &str, whole: &Raw) -> Option<Raw> {
        self.raw(key).map(|value| whole.piece(value))
    }

    /// Whether the field is there, `null` or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.get(key).is_some()
    }
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.value(key)
    }
    pub(super) fn id(&self, key: &str) -> Option<Box<str>> {
        self.text(key).map(Into::into)
    }

    /// A whole number that is not negative.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.value(key)
    }

    /// Whether a field is `true`.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.raw(key) == Some("true")
    }
    pub(super) fn inner(&self, key: &str) -> Option<Fields<'a>> {
        Fields::parse(self.raw(key)?)
    }

    /// All fields with their JSON text, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.fields.iter().map(|(key, value)| (key, value.get()))
    }

    fn value<T: Deserialize<'a>>(&self, key: &str) -> Option<T> {
        serde_json::from_str(self.raw(key)?).ok()
    }
}

/// An object with some of its fields exchanged: what is not named stays byte for byte, `None` takes a field out, and
/// fields it did not have come last.
pub(super) fn with_fields(object: &str, changes: &[(&str, Option<String>)]) -> String {
    let Some(fields) = Fields::parse(object) else { return object.to_owned() };
    let change = |key: &str| changes.iter().find(|(name, _)| *name == key);
    let mut out: Vec<String> = Vec::new();
    for (key, value) in fields.iter() {
        match change(key) {
            None => out.push(member(key, value)),
            Some((_, Some(new))) => out.push(member(key, new)),
            Some((_, None)) => {}
        }
    }
    let missing = changes.iter().filter(|(key, _)| !fields.has(key));
    out.extend(missing.filter_map(|(key, new)| Some(member(key, new.as_ref()?))));
    format!("{{{}}}", out.join(","))
}

fn member(key: &str, value: &str) -> String {
    format!("{}:{value}", quoted(key))
}
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
