//! A glance: what can be told of a body without reading it.
//!
//! It only ever says that nothing needs to be done. A wrong guess costs one refused request, which is then read and made
//! smaller like any other.

use std::sync::LazyLock;

use memchr::memmem::{Finder, FinderRev};

/// What a request may have in it so that it has to be read before it goes: an image weighs more than its bytes, and these
/// fields stand for a history that is elsewhere.
static TELLING: LazyLock<[Finder<'static>; 4]> =
    LazyLock::new(|| ["image", "\"previous_response_id\"", "\"conversation\"", super::compact::OURS].map(Finder::new));

static MODEL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"model\""));
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"error\""));
static USAGE: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new("\"usage\""));
/// What the tokens of a prompt are called in it.
static PROMPT_TOKENS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| ["\"prompt_tokens\"", "\"input_tokens\""].map(Finder::new));

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

/// The tokens of the prompt, as a whole answer seems to count them; 0 where it does not.
pub(super) fn prompt_tokens(body: &[u8]) -> u64 {
    let usage = USAGE.rfind(body).map_or(&[][..], |at| &body[at..]);
    let amount = PROMPT_TOKENS.iter().find_map(|name| after(usage, name)).unwrap_or_default();
    let digits = amount.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |amount: u64, digit| amount.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
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
    fn the_tokens_of_a_prompt_are_those_of_the_usage() {
        let chat = br#"{"choices":[{"message":{"content":"\"usage\": {\"prompt_tokens\": 7}"}}],"usage":{"completion_tokens":1,"prompt_tokens" : 1234}}"#;
        assert_eq!(prompt_tokens(chat), 1234);
        assert_eq!(prompt_tokens(br#"{"usage":{"input_tokens":9,"output_tokens":1}}"#), 9);
        assert_eq!(prompt_tokens(br#"{"usage":{"input_tokens":99999999999999999999999}}"#), u64::MAX);
        for unsaid in [&br#"{"usage":null}"#[..], br#"{"prompt_tokens":5}"#, br#"{"usage":{"prompt_tokens":"5"}}"#, b""]
        {
            assert_eq!(prompt_tokens(unsaid), 0);
        }
    }

    #[test]
    fn an_error_that_is_null_is_none() {
        assert!(!may_be_an_error(br#"{"error":null,"output":[]}"#));
        assert!(may_be_an_error(br#"{"error": null, "x": {"error":"no"}}"#));
        assert!(may_be_an_error(br#"{"error"}"#));
    }
}
