//! A provider's refusal, read: was it too long, by how much, and what does that teach?
//!
//! There is no standard. Some thirty servers say it in their own words, in an object, a string, an array, JSON inside a
//! string, or an event of a stream; some answer 200. A refusal is an overflow when its status may be one, nothing in it
//! speaks of a rate or a quota, and a code or a sentence of `data/overflow.toml` is found. Numbers of bytes and characters are
//! never taken for tokens. This file retries nothing.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::phrase::{Captured, Phrase};
use super::tokens::Tokens;
use crate::table::{LowerList, WordList};

/// How deep errors wrapped in errors are followed.
const DEPTH_MAX: usize = 8;

/// How much of a text is read; what says more than this is not an error message.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The words of `data/overflow.toml`, which says what each list is for.
static WORDS: LazyLock<OverflowWords> = LazyLock::new(|| crate::embedded_table!("overflow.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverflowWords {
    wrappers: WordList,
    codes: LowerList,
    vetoes: LowerList,
    /// The most telling come first.
    sentences: Vec<Phrase>,
}

/// What a refusal means for the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Something else is wrong, or nothing.
    NotOverflow,
    /// The input does not fit.
    InputTooLong {
        /// The input as the provider counted it.
        used: Option<Tokens>,
        /// What it takes.
        limit: Option<Tokens>,
    },
    /// The input fits, but not together with the output that was asked for: ask for less output, compact nothing.
    OutputBudget {
        /// The input as the provider counted it.
        input: Tokens,
        /// The output that was asked for.
        max_tokens: Tokens,
        /// What both may be together.
        limit: Tokens,
    },
}

/// Reads a response. A stream's error event is given as its data, with the status of the stream.
///
/// An empty body with 400 or 413 is an overflow (Cerebras), and so is an empty body with 200 (llama-cpp-python ends its
/// stream without an event).
pub fn classify(status: u16, body: &str) -> Overflow {
    if !matches!(status, 200 | 400 | 413 | 422) {
        return Overflow::NotOverflow;
    }
    if body.trim().is_empty() {
        return if status == 422 { Overflow::NotOverflow } else { Overflow::UNSAID };
    }
    Refusal::read(status, body).classify()
}

/// Whether an overflow is told in quotes only. Providers quote values of the request that they refuse, so the words may be
/// the caller's own: a prompt may be made smaller for them, but they say nothing of the model.
pub fn is_quoted(status: u16, body: &str) -> bool {
    Refusal::read(status, body).is_quoted()
}

impl Overflow {
    /// Too long, without a number.
    const UNSAID: Overflow = Overflow::InputTooLong { used: None, limit: None };

    /// The window that the provider named.
    pub fn limit(&self) -> Option<Tokens> {
        match *self {
            Overflow::NotOverflow => None,
            Overflow::InputTooLong { limit, .. } => limit,
            Overflow::OutputBudget { limit, .. } => Some(limit),
        }
    }

    /// The output that still fits beside the input, less a margin; nothing when the input is what is too long.
    pub fn output_that_fits(&self, margin: Tokens) -> Option<Tokens> {
        match *self {
            Overflow::OutputBudget { input, limit, .. } => Some(limit - input - margin),
            _ => None,
        }
    }
}

/// Everything in a response that may say what went wrong.
#[derive(Default)]
struct Refusal {
    codes: Vec<String>,
    texts: Vec<String>,
    used: Option<Tokens>,
    limit: Option<Tokens>,
}

impl Refusal {
    fn read(status: u16, body: &str) -> Refusal {
        let mut refusal = Refusal::default();
        // In a good response only an error inside it is one; its content may speak of anything.
        let trusted = status != 200;
        match serde_json::from_str::<Value>(body) {
            Ok(value) => refusal.walk(&value, trusted, 0),
            Err(_) if body.lines().any(|line| line.starts_with("data:")) => {
                let events = body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok());
                events.for_each(|event: Value| refusal.walk(&event, trusted, 0));
            }
            Err(_) if trusted => refusal.say(body),
            Err(_) => {}
        }
        refusal
    }

    fn classify(&self) -> Overflow {
        if self.is_about_something_else() {
            return Overflow::NotOverflow;
        }
        match find_sentence(&self.texts) {
            Some(numbers) => self.overflow(numbers),
            None if self.has_code() => self.overflow(Captured::default()),
            None => Overflow::NotOverflow,
        }
    }

    fn has_code(&self) -> bool {
        self.codes.iter().any(|code| WORDS.codes.contains(code))
    }

    fn is_quoted(&self) -> bool {
        let unquoted: Vec<String> = self.texts.iter().map(|text| without_quotes(text)).collect();
        !self.has_code() && self.limit.is_none() && find_sentence(&unquoted).is_none()
    }

    fn is_about_something_else(&self) -> bool {
        let said = || self.texts.iter().chain(&self.codes);
        said().any(|text| WORDS.vetoes.occurs_in(text) || text.starts_with("throttling"))
            || self.texts.iter().any(|text| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "tpm"))
    }

    fn overflow(&self, said: Captured) -> Overflow {
        let limit = said.limit.or(self.limit);
        match (said.input, said.output, limit) {
            (Some(input), Some(max_tokens), Some(limit)) if input < limit => {
                Overflow::OutputBudget { input, max_tokens, limit }
            }
            _ => Overflow::InputTooLong { used: said.input.or(said.used).or(self.used), limit },
        }
    }

    fn walk(&mut self, value: &Value, trusted: bool, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(fields) => {
                let is_error = matches!(fields.get("type").and_then(Value::as_str), Some("error" | "response.failed"));
                for (key, value) in fields {
                    self.field(key, value, trusted || is_error || matches!(key.as_str(), "error" | "errors"), depth);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.walk(value, trusted, depth + 1)),
            Value::String(text) if trusted => self.text(text, depth),
            _ => {}
        }
    }

    /// A text, or another error written down in it.
    fn text(&mut self, text: &str, depth: usize) {
        match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => self.walk(&inner, true, depth + 1),
            _ => self.say(text),
        }
    }

    fn field(&mut self, key: &str, value: &Value, trusted: bool, depth: usize) {
        match key {
            "code" | "type" | "__type" | "error_type" if trusted => self.code(value),
            "stop_reason" | "finish_reason" => self.code(value),
            "n_prompt_tokens" => self.used = value.as_u64().map(Tokens::new),
            "n_ctx" => self.limit = value.as_u64().map(Tokens::new),
            key if WORDS.wrappers.contains(key) => self.walk(value, trusted, depth + 1),
            _ => {}
        }
    }

    fn code(&mut self, value: &Value) {
        match value {
            Value::String(code) => self.codes.push(code.to_lowercase()),
            Value::Number(code) => self.codes.push(code.to_string()),
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        self.texts.push(text.to_lowercase());
    }
}

/// The numbers of the most telling sentence that stands in any of these texts.
fn find_sentence(texts: &[String]) -> Option<Captured> {
    let texts: Vec<String> = texts.iter().map(|text| text.replace('`', "")).collect();
    WORDS.sentences.iter().find_map(|sentence| texts.iter().find_map(|text| sentence.find(text)))
}

/// A quote with fewer words is a name, such as `max_tokens`, and part of the sentence around it.
const QUOTED_WORDS_MIN: usize = 3;

/// A text without what it quotes. An apostrophe inside a word quotes nothing.
fn without_quotes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, quoted)) = next_quote(rest) {
        plain.push_str(&rest[..at]);
        plain.push('\n');
        rest = &rest[at + quoted..];
    }
    plain.push_str(rest);
    plain
}

/// The place and the bytes of the next quote of several words, its marks included.
fn next_quote(text: &str) -> Option<(usize, usize)> {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut from = 0;
    while let Some(mark) = text[from..].chars().next() {
        let (at, inside) = (from, from + mark.len_utf8());
        from = inside;
        let Some(closing) = closing_mark(mark) else { continue };
        if mark == '\'' && is_word(text[..at].chars().next_back()) {
            continue;
        }
        let after = |end: usize| text[inside + end + closing.len_utf8()..].chars().next();
        let mut ends = text[inside..].match_indices(closing).map(|(end, _)| end);
        let Some(end) = ends.find(|end| closing != '\'' || !is_word(after(*end))) else { continue };
        let quoted = &text[inside..inside + end];
        from = inside + end + closing.len_utf8();
        if quoted.split_whitespace().count() >= QUOTED_WORDS_MIN {
            return Some((at, from - at));
        }
    }
    None
}

fn closing_mark(mark: char) -> Option<char> {
    match mark {
        '"' | '\'' | '`' => Some(mark),
        '“' => Some('”'),
        '«' => Some('»'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refusal of `testdata`, and what it is.
    #[derive(Deserialize)]
    struct Case {
        server: String,
        status: u16,
        is: Is,
        body: String,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Is {
        Output {
            input: Tokens,
            output: Tokens,
            limit: Tokens,
        },
        Long {
            used: Option<Tokens>,
            limit: Option<Tokens>,
        },
        /// About something else.
        Other(#[expect(dead_code, reason = "says to readers what it is")] String),
    }

    impl Is {
        fn overflow(&self) -> Overflow {
            match *self {
                Is::Output { input, output, limit } => Overflow::OutputBudget { input, max_tokens: output, limit },
                Is::Long { used, limit } => Overflow::InputTooLong { used, limit },
                Is::Other(_) => Overflow::NotOverflow,
            }
        }
    }

    fn cases() -> impl Iterator<Item = Case> {
        let refusals = include_str!("../../../../testdata/refusals.jsonl").lines();
        let answers = include_str!("../../../../testdata/refusals-in-answers.jsonl").lines();
        refusals.chain(answers).map(|line| serde_json::from_str(line).unwrap())
    }

    #[test]
    fn every_refusal_of_the_list_is_understood() {
        for Case { server, status, is, body } in cases() {
            assert_eq!(classify(status, &body), is.overflow(), "{server}: {body}");
        }
    }

    #[test]
    fn an_error_wrapped_eight_times_is_read_and_a_deeper_one_is_left() {
        let wrapped = |times| {
            (0..times).fold(String::from("\"prompt is too long\""), |inner, _| format!("{{\"error\":{inner}}}"))
        };
        for (times, overflow) in [(8, Overflow::UNSAID), (9, Overflow::NotOverflow), (9_000, Overflow::NotOverflow)] {
            assert_eq!(classify(400, &wrapped(times)), overflow, "{times}");
        }
    }

    #[test]
    fn too_much_output_asked_for_is_answered_by_asking_for_less() {
        let overflow = Overflow::OutputBudget {
            input: Tokens::new(199_759),
            max_tokens: Tokens::new(8_192),
            limit: Tokens::new(200_000),
        };
        assert_eq!(overflow.output_that_fits(Tokens::new(100)), Some(Tokens::new(141)));
    }

    #[test]
    fn what_a_provider_quotes_is_not_its_own_word() {
        let echo = "maximum context length is 1200 tokens";
        for body in [
            format!(r#"{{"error":{{"message":"Invalid value: '{echo}'. Supported values are: 'a' and 'b'."}}}}"#),
            format!(r#"{{"error":{{"message":"Invalid value: \"my {echo}.\""}}}}"#),
            format!(r#"{{"error":{{"message":"The model `{echo}` does not exist"}}}}"#),
            format!("“{echo}” is not known"),
        ] {
            assert!(is_quoted(400, &body), "{body}");
            assert_eq!(classify(400, &body).limit(), Some(Tokens::new(1200)), "{body}");
        }
        for body in [
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, the user's messages resulted in 9000 tokens."}}"#,
            r#"{"error":{"message":"`inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1000 `inputs` tokens and 600 `max_new_tokens`"}}"#,
            r#"{"error":{"message":"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease `max_tokens`"}}"#,
            r#"{"error":{"message":"'a long value that is echoed' is refused","code":"context_length_exceeded"}}"#,
            r#"{"type":"error","error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#,
        ] {
            assert!(!is_quoted(400, body), "{body}");
        }
    }
}
