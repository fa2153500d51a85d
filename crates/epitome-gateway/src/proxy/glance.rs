//! A glance: what can be told of a body without reading all of it.
//!
//! It only ever says that nothing needs to be done. A wrong guess costs one refused request, which is then read and made
//! smaller like any other. Words are looked for as bytes only to rule them out, and that holds however a client spells
//! its JSON; values are read.

use std::fmt;
use std::sync::LazyLock;

use epitome::wire::has_letter_escapes;
use memchr::memmem::Finder;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Fields that stand for a history that is elsewhere: a request that has one is read before it goes.
static TELLING: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"previous_response_id\"", "\"conversation\"", super::compact::OUR_NAME].map(Finder::new));
/// The types of blocks, and the fields of them, that stand for media: it weighs more than its bytes say.
static MEDIA: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
    let types = ["\"image\"", "\"image_url\"", "\"input_image\"", "\"document\"", "\"file\"", "\"input_file\""];
    let more = ["\"input_audio\"", "\"video_url\"", "\"file_id\"", "\"file_url\"", "\"audio\""];
    types.into_iter().chain(more).map(Finder::new).collect()
});

static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"error\""));

/// Whether a request may be anything but the messages that stand in it.
pub(super) fn is_telling(body: &[u8]) -> bool {
    may_hold_media(body) || TELLING.iter().any(|words| words.find(body).is_some())
}

/// Whether a text may have media in it.
pub(super) fn may_hold_media(body: &[u8]) -> bool {
    MEDIA.iter().any(|words| words.find(body).is_some()) || has_letter_escapes(body)
}

/// The model that a request is for; empty where it names none. It is read up to there and no further.
pub(super) fn model(body: &[u8]) -> String {
    struct Model<'m>(&'m mut String);
    impl<'de> Visitor<'de> for Model<'_> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a request")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<String>()? {
                if name == "model" {
                    *self.0 = map.next_value()?;
                    // The rest does not matter.
                    return Err(A::Error::custom("it is known"));
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let mut model = String::new();
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(Model(&mut model));
    model
}

/// Whether an answer may be an error: one that is null is none.
pub(super) fn may_be_an_error(body: &[u8]) -> bool {
    let is_one = |at: usize| after(&body[at..], &ERROR).is_none_or(|value| !value.starts_with(b"null"));
    ERROR.find_iter(body).any(is_one) || has_letter_escapes(body)
}

/// The tokens of the prompt, as a whole answer counts them; 0 where it does not.
pub(super) fn prompt_tokens(body: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct Answer {
        usage: Option<Value>,
    }
    let usage = serde_json::from_slice::<Answer>(body).ok().and_then(|answer| answer.usage).unwrap_or_default();
    let amount = ["prompt_tokens", "input_tokens"].iter().find_map(|name| usage.get(name));
    amount.and_then(Value::as_u64).unwrap_or(0)
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
        assert_eq!(model(br#"{"tools":[{"model":"no"}],"messages":[{"model":"no"}],"\u006dodel":"yes"}"#), "yes");
        assert!(is_telling(br#"{"previous_response_id":"r"}"#) && is_telling(br#"{"type":"input_image"}"#));
        assert!(is_telling(br#"{"\u0070revious_response_id":"r"}"#) && is_telling(br#"{"type":"input\u005fimage"}"#));
        for media in ["image_url", "file_id", "document", "input_audio", "video_url"] {
            assert!(is_telling(format!(r#"[{{"type":"{media}"}}]"#).as_bytes()), "{media}");
        }
        assert!(!is_telling(br#"{"content":"Read the file, and its documentation, and profile it."}"#));
        assert!(!is_telling(br#"{"messages":[{"role":"user","content":"say \"conversation\""}]}"#));
    }

    #[test]
    fn the_tokens_of_a_prompt_are_those_of_the_usage() {
        let chat = br#"{"choices":[{"message":{"content":"\"usage\": {\"prompt_tokens\": 7}"}}],"usage":{"completion_tokens":1,"prompt_tokens" : 1234}}"#;
        assert_eq!(prompt_tokens(chat), 1234);
        assert_eq!(prompt_tokens(br#"{"usage":{"input_tokens":9,"output_tokens":1}}"#), 9);
        assert_eq!(
            prompt_tokens(br#"{"content":[{"input":{"usage":{"input_tokens":7}}}],"usage":{"input\u005ftokens":9}}"#),
            9
        );
        assert_eq!(
            prompt_tokens(br#"{"usage":{"input_tokens":9},"content":[{"input":{"usage":{"input_tokens":7}}}]}"#),
            9
        );
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
        assert!(may_be_an_error(br#"{"\u0065rror":{}}"#));
    }
}
