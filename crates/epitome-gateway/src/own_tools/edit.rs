//! Editing what a provider sent: an event with other data, a field with another value. Everything else stays as it was.

use bytes::Bytes;
use epitome::wire::{RawFields, set_field, splice};
use serde_json::value::RawValue;

use crate::sse::Event;

/// The event with this data in the place of its own.
pub(super) fn with_data(event: &Event, data: &str) -> Bytes {
    let own = event.data.as_deref().and_then(|own| Some((own, place_of(&event.raw, own)?)));
    match own {
        Some((own, at)) => [&event.raw[..at], data.as_bytes(), &event.raw[at + own.len()..]].concat().into(),
        None => new_event(event.name(), data),
    }
}

pub(super) fn new_event(name: &str, data: &str) -> Bytes {
    match name {
        "" => format!("data: {data}\n\n").into(),
        name => format!("event: {name}\ndata: {data}\n\n").into(),
    }
}

/// Finds data that came on one line in its event.
fn place_of(raw: &Bytes, data: &[u8]) -> Option<usize> {
    let at = (data.as_ptr() as usize).checked_sub(raw.as_ptr() as usize)?;
    (at + data.len() <= raw.len()).then_some(at)
}

/// The fields of an object; none of anything else.
pub(super) fn fields(object: &str) -> Option<RawFields<'_>> {
    RawFields::of(object)
}

/// The elements of a list; none of anything else.
pub(super) fn elements(list: &str) -> Vec<&RawValue> {
    serde_json::from_str(list).unwrap_or_default()
}

pub(super) fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str(json.get()).ok()
}

/// The text of a field.
pub(super) fn text_at(object: &str, key: &str) -> Option<String> {
    text(fields(object)?.get(key)?)
}

/// An object with a field set, if it has that field.
pub(super) fn replace_field(object: &str, key: &str, value: &str) -> String {
    match fields(object).and_then(|fields| fields.get(key)) {
        Some(old) => splice(object, old.get(), value),
        None => object.to_owned(),
    }
}

pub(super) fn edit_field(object: &str, key: &str, edit: impl FnOnce(&str) -> String) -> String {
    match fields(object).and_then(|fields| fields.get(key)) {
        Some(inner) => splice(object, inner.get(), &edit(inner.get())),
        None => object.to_owned(),
    }
}

pub(super) fn list<T: AsRef<str>>(elements: &[T]) -> String {
    format!("[{}]", elements.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(","))
}

/// An object with a field set to a list.
pub(super) fn with_list<T: AsRef<str>>(object: &str, key: &str, elements: &[T]) -> String {
    set_field(object, key, &list(elements))
}
