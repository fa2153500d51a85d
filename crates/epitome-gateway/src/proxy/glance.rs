//! A glance: what can be told of a body without reading it.
//!
//! It only ever says that nothing needs to be done. A wrong guess costs one refused request, which is then read and made
//! smaller like any other.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// What a request may have in it so that it has to be read before it goes: an image weighs more than its bytes, and these
/// fields stand for a history that is elsewhere.
static TELLING: LazyLock<[Finder<'static>; 4]> =
    LazyLock::new(|| ["image", "\"previous_response_id\"", "\"conversation\"", super::compact::OURS].map(Finder::new));

static MODEL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"model\""));
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"error\""));

/// Whether a request may be anything but the messages that stand in it.
pub(super) fn is_telling(body: &[u8]) -> bool {
    TELLING.iter().any(|words| words.find(body).is_some())
}

/// The model that a request seems to be for.
pub(super) fn model(body: &[u8]) -> &str {
    let value = after(body, &MODEL).and_then(|rest| rest.strip_prefix(b"\""));
    let name = value.and_then(|value| Some(&value[..memchr::memchr2(b'"', b'\\', value)?]));
    name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
}

/// Whether an answer may be an error: one that is null is none.
pub(super) fn may_be_an_error(body: &[u8]) -> bool {
    ERROR.find_iter(body).any(|at| after(&body[at..], &ERROR).is_none_or(|value| !value.starts_with(b"null")))
}

/// What stands behind a key and its colon.
fn after<'a>(body: &'a [u8], key: &Finder<'_>) -> Option<&'a [u8]> {
    let rest = body[key.find(body)? + key.needle().len()..].trim_ascii_start();
    Some(rest.strip_prefix(b":")?.trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_sees_the_model_and_what_stands_for_more() {
        assert_eq!(model(br#"{"messages":[],"model" : "gpt-4.1"}"#), "gpt-4.1");
        assert_eq!(model(br#"{"model":{"id":"x"}}"#), "");
        assert_eq!(model(br#"{"model":"a"#), "");
        assert!(is_telling(br#"{"previous_response_id":"r"}"#) && is_telling(br#"{"type":"input_image"}"#));
        assert!(!is_telling(br#"{"messages":[{"role":"user","content":"say \"conversation\""}]}"#));
    }

    #[test]
    fn an_error_that_is_null_is_none() {
        assert!(!may_be_an_error(br#"{"error":null,"output":[]}"#));
        assert!(may_be_an_error(br#"{"error": null, "x": {"error":"no"}}"#));
        assert!(may_be_an_error(br#"{"error"}"#));
    }
}
