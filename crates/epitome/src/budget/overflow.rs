//! A provider's refusal, read: was it too long, by how much, and what does that teach?
//!
//! There is no standard. Some thirty servers say it in their own words, in an object, a string, an array, JSON inside a
//! string, or an event of a stream; some answer 200. A refusal is an overflow when its status may be one, nothing in it
//! speaks of a rate or a quota, and a code or a sentence of [`SENTENCES`] is found. Numbers of bytes and characters are
//! never taken for tokens. This file retries nothing.

use serde_json::Value;

use super::phrase::{Captured, Phrase};
use super::tokens::Tokens;

/// How deep errors wrapped in errors are followed.
const DEPTH_MAX: usize = 8;

/// How much of a text is read; what says more than this is not an error message.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The share of a limit that a retry aims for.
const RETRY_SHARE: f64 = 0.9;

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

    /// What a retry should cost by our own count, given what the refused request cost by it.
    ///
    /// Nine tenths of the limit, translated from the provider's tokens to ours.
    pub fn retry_target(&self, estimated: Tokens) -> Option<Tokens> {
        let Overflow::InputTooLong { used, limit: Some(limit) } = *self else {
            return None;
        };
        let ours_for_theirs = match used {
            Some(used) if used > Tokens::ZERO && estimated > Tokens::ZERO => estimated.get() as f64 / used.get() as f64,
            _ => 1.0,
        };
        Some(limit.share(RETRY_SHARE * ours_for_theirs))
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
        self.codes.iter().any(|code| CODES.contains(&code.as_str()))
    }

    fn is_quoted(&self) -> bool {
        let unquoted: Vec<String> = self.texts.iter().map(|text| without_quotes(text)).collect();
        !self.has_code() && self.limit.is_none() && find_sentence(&unquoted).is_none()
    }

    fn is_about_something_else(&self) -> bool {
        let said = || self.texts.iter().chain(&self.codes);
        said().any(|text| VETOES.iter().any(|veto| text.contains(veto)) || text.starts_with("throttling"))
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
            key if WRAPPERS.contains(&key) => self.walk(value, trusted, depth + 1),
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
    SENTENCES.iter().find_map(|sentence| {
        let phrase = Phrase::parse(sentence);
        texts.iter().find_map(|text| phrase.find(text))
    })
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

/// Keys under which an error, its text, or another error stands. Others may echo the request.
const WRAPPERS: [&str; 15] = [
    "error",
    "errors",
    "message",
    "msg",
    "detail",
    "details",
    "metadata",
    "raw",
    "response",
    "body",
    "reason",
    "cause",
    "choices",
    "delta",
    "description",
];

/// Codes that mean too long, whatever the text says.
const CODES: [&str; 7] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "request_too_large",
    "model_max_prompt_tokens_exceeded",
    "3051",
    "1261",
];

/// Words that mean a rate, a quota or a single field, where "too many tokens" is not about the window.
const VETOES: [&str; 15] = [
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "too many requests",
    "per minute",
    "per_minute",
    "per-minute",
    "per day",
    "per_day",
    "per-day",
    "tokens per min",
    "quota",
    "string_above_max_length",
    "please wait before trying",
];

/// How servers say it, in lower case and without backticks; the first that is found counts, so the telling come first.
/// `{…}` is a number and what it is, `…` any words; a second `{input}` is added to the first.
const SENTENCES: [&str; 58] = [
    // vLLM: the bound of a prompt that was never tokenized is not its size.
    "maximum context length is {limit} tokens…characters (more than",
    "maximum context length is {limit} tokens…you requested {output} output tokens and your prompt contains…{input} input tokens",
    "you passed {input} input tokens and requested {output} output tokens…context length is only {limit}",
    "the decoder prompt (length {used}) is longer than the maximum model length of {limit}",
    // OpenAI, Azure, DeepSeek, llama-cpp-python, OpenRouter.
    "maximum context length is {limit} tokens…({input} of text input, {input} of tool input, {output} in the output",
    "maximum context length is {limit} tokens…({input} of text input, {output} in the output",
    "maximum context length is {limit} tokens…({input} in the messages, {input} in the functions, and {output} in the completion",
    "maximum context length is {limit} tokens…({input} in the messages, {input} in the functions",
    "maximum context length is {limit} tokens…({input} in the messages, {output} in the completion",
    "maximum context length is {limit} tokens…({input} in your prompt; {output} for the completion",
    "maximum context length is {limit} tokens…resulted in {used} tokens",
    "maximum context length is {limit} tokens…you requested…{used} tokens",
    "maximum context length is {limit}",
    "input tokens exceed the configured limit of {limit} tokens…resulted in {used} tokens",
    "input tokens exceed the configured limit of {limit}",
    // Anthropic, Bedrock.
    "exceed context limit: {input} + {output} > {limit}",
    "prompt is too long: {used} tokens > {limit} maximum",
    // Gemini.
    "input token count ({used}) exceeds the maximum number of tokens allowed ({limit})",
    "exceeds the maximum number of tokens allowed ({limit})",
    // Mistral, Cerebras, xAI, Copilot, Kimi, Alibaba.
    "prompt contains {used} tokens…too large for model with {limit} maximum context length",
    "current length is {used} while limit is {limit}",
    "maximum prompt length is {limit} but the request contains {used} tokens",
    "maximum prompt length is {limit}",
    "prompt token count of {used} exceeds the limit of {limit}",
    "exceeded model token limit: {limit} (requested: {used})",
    "input length {used} exceeds the maximum allowed input length of {limit}",
    "range of input length should be [1, {limit}]",
    // Together, text-generation-inference.
    "must be <= {limit}. given: {input} inputs tokens and {output} max_new_tokens",
    "inputs tokens + max_new_tokens must be <= {limit}",
    // SGLang.
    "the input ({used} tokens) is longer than the model's context length ({limit} tokens)",
    "maximum context length of {limit} tokens…a total of…tokens: {input} tokens from the input messages and {output} tokens for the completion",
    "maximum context length of {limit} tokens…a total of {used} tokens",
    "maximum context length of {limit} tokens",
    "input length ({used} tokens) exceeds the maximum allowed length ({limit} tokens)",
    // llama.cpp, LM Studio.
    "request ({used} tokens) exceeds the available context size ({limit} tokens)",
    "greater than the context length (n_keep: {used}>= n_ctx: {limit})",
    "keep the first {used} tokens when context…context length of only {limit} tokens",
    "the input has {used} tokens, but the context length only supports {limit} tokens",
    "reached context length of {limit} tokens",
    "prompt has {used} tokens, but the configured context size is {limit} tokens",
    // Those who give no number.
    "prompt is too long",
    "prompt too long; exceeded",
    "input is too long for requested model",
    "too many input tokens",
    "expected maxlength:",
    "exceeds the context window",
    "context window exceeds limit",
    "contextwindowexceedederror",
    "context length exceeded",
    "context size has been exceeded",
    "exceeds the available context size",
    "longer than the context length",
    "exceeds the context length",
    "does not fit in context length",
    "input token count…exceeds the maximum",
    "request payload size exceeds",
    "reduce the length of the messages",
    "status code (no body)",
];

#[cfg(test)]
mod tests {
    use super::*;

    enum Is {
        Not,
        /// Used and limit.
        Long(Option<u64>, Option<u64>),
        /// Input, output and limit.
        Output(u64, u64, u64),
    }
    use Is::{Long, Not, Output};

    fn check(shapes: &[(&str, u16, &str, Is)]) {
        for (server, status, body, is) in shapes {
            let expected = match *is {
                Not => Overflow::NotOverflow,
                Long(used, limit) => {
                    Overflow::InputTooLong { used: used.map(Tokens::new), limit: limit.map(Tokens::new) }
                }
                Output(input, max_tokens, limit) => Overflow::OutputBudget {
                    input: Tokens::new(input),
                    max_tokens: Tokens::new(max_tokens),
                    limit: Tokens::new(limit),
                },
            };
            assert_eq!(classify(*status, body), expected, "{server}: {body}");
        }
    }

    #[test]
    fn openai_and_those_who_speak_like_it_are_understood() {
        check(&[
            (
                "openai",
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                Long(Some(204_308), Some(128_000)),
            ),
            (
                "openai, output",
                400,
                r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, you requested 4201 tokens (3177 in the messages, 1024 in the completion). Please reduce the length of the messages or completion.","code":"context_length_exceeded"}}"#,
                Output(3_177, 1_024, 4_097),
            ),
            (
                "openai, functions",
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the messages, 730 in the functions, and 800 in the completion).","code":"context_length_exceeded"}}"#,
                Output(7_413, 800, 8_192),
            ),
            (
                "openai, input over",
                400,
                r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, you requested 6201 tokens (5177 in the messages, 1024 in the completion)."}}"#,
                Long(Some(5_177), Some(4_097)),
            ),
            (
                "openai, configured",
                400,
                r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens. Please reduce the length of the messages.","code":"context_length_exceeded"}}"#,
                Long(Some(300_123), Some(272_000)),
            ),
            (
                "responses",
                400,
                r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
                Long(None, None),
            ),
            (
                "responses, stream",
                200,
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#,
                Long(None, None),
            ),
            (
                "deepseek",
                400,
                r#"{"error":{"message":"This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
                Output(122_942, 8_192, 131_072),
            ),
            (
                "groq",
                400,
                r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                Long(None, None),
            ),
            (
                "openrouter",
                400,
                r#"{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 135349 tokens (60662 of text input, 10687 of tool input, 64000 in the output). Please reduce the length of either one, or use the context-compression plugin.","code":400,"metadata":{"provider_name":null}}}"#,
                Output(71_349, 64_000, 131_072),
            ),
            (
                "openrouter, raw",
                400,
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"provider_name":"Anthropic","raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}}"}}}"#,
                Long(Some(213_462), Some(200_000)),
            ),
            (
                "openrouter, stream",
                200,
                r#"{"id":"gen-1","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":400,"message":"This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens (9000 of text input)."}}"#,
                Long(Some(9_000), Some(8_192)),
            ),
            (
                "llama-cpp-python",
                400,
                r#"{"error":{"message":"This model's maximum context length is 2048 tokens. However, you requested 4047 tokens (4031 in the messages, 16 in the completion). Please reduce the length of the messages or completion.","code":"context_length_exceeded"}}"#,
                Long(Some(4_031), Some(2_048)),
            ),
            ("llama-cpp-python, stream", 200, "", Long(None, None)),
            (
                "litellm",
                400,
                r#"{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: the request was refused","type":null,"param":null,"code":"400"}}"#,
                Long(None, None),
            ),
            (
                "litellm, telling",
                400,
                r#"{"error":{"message":"litellm.ContextWindowExceededError: AnthropicException - {\"type\":\"error\",\"error\":{\"message\":\"prompt is too long: 201000 tokens > 200000 maximum\"}}","code":"400"}}"#,
                Long(Some(201_000), Some(200_000)),
            ),
        ]);
    }

    #[test]
    fn anthropic_bedrock_and_gemini_are_understood() {
        check(&[
            (
                "anthropic",
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"},"request_id":"req_1"}"#,
                Long(Some(213_462), Some(200_000)),
            ),
            (
                "anthropic, output",
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again"}}"#,
                Output(199_759, 8_192, 200_000),
            ),
            (
                "anthropic, cut",
                200,
                r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"and"}],"stop_reason":"model_context_window_exceeded"}"#,
                Long(None, None),
            ),
            (
                "anthropic, body",
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                Long(None, None),
            ),
            (
                "anthropic, stream",
                200,
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}\n\n",
                Long(Some(210_000), Some(200_000)),
            ),
            (
                "vertex",
                400,
                r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}}"}}"#,
                Long(Some(213_462), Some(200_000)),
            ),
            (
                "gemini",
                400,
                r#"{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}"#,
                Long(Some(1_196_265), Some(1_048_575)),
            ),
            (
                "gemini, no count",
                400,
                r#"{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}"#,
                Long(None, Some(1_048_575)),
            ),
            (
                "gemini, bytes",
                400,
                r#"{"error":{"code":400,"message":"Request payload size exceeds the limit: 20971520 bytes.","status":"INVALID_ARGUMENT"}}"#,
                Long(None, None),
            ),
            (
                "gemini, array",
                400,
                r#"[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]"#,
                Long(Some(1_196_265), Some(1_048_575)),
            ),
            ("bedrock", 400, r#"{"message":"Input is too long for requested model."}"#, Long(None, None)),
            (
                "bedrock, claude",
                400,
                r#"{"message":"The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum"}"#,
                Long(Some(200_049), Some(200_000)),
            ),
            (
                "bedrock, many",
                400,
                r#"{"message":"Too many input tokens. Max input tokens exceeded."}"#,
                Long(None, None),
            ),
            (
                "bedrock, schema",
                400,
                r#"{"message":"Malformed input request: expected maxLength: 2048, actual: 9001, please reformat your input and try again."}"#,
                Long(None, None),
            ),
        ]);
    }

    #[test]
    fn the_other_hosts_are_understood() {
        check(&[
            (
                "mistral",
                400,
                r#"{"object":"error","message":"Prompt contains 159202 tokens and 0 draft tokens, too large for model with 131072 maximum context length","type":"invalid_request_invalid_args","param":null,"code":"3051"}"#,
                Long(Some(159_202), Some(131_072)),
            ),
            (
                "mistral, code alone",
                400,
                r#"{"object":"error","message":"Bad request","code":"3051"}"#,
                Long(None, None),
            ),
            (
                "cerebras",
                400,
                r#"{"message":"Please reduce the length of the messages or completion. Current length is 9042 while limit is 8192","type":"invalid_request_error","code":"context_length_exceeded"}"#,
                Long(Some(9_042), Some(8_192)),
            ),
            ("cerebras, no body", 413, "", Long(None, None)),
            ("cerebras, by its sdk", 400, "400 status code (no body)", Long(None, None)),
            (
                "together",
                422,
                r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and 1024 `max_new_tokens`","type":"invalid_request_error"}}"#,
                Long(Some(79_993), Some(65_537)),
            ),
            (
                "together, newer",
                400,
                r#"{"error":{"message":"The input (516368 tokens) is longer than the model's context length (262144 tokens)."}}"#,
                Long(Some(516_368), Some(262_144)),
            ),
            (
                "tgi",
                422,
                r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 `inputs` tokens and 512 `max_new_tokens`","error_type":"validation"}"#,
                Output(3_900, 512, 4_096),
            ),
            (
                "xai",
                400,
                r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 149617 tokens."}"#,
                Long(Some(149_617), Some(131_072)),
            ),
            (
                "copilot",
                400,
                r#"{"error":{"message":"prompt token count of 130001 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#,
                Long(Some(130_001), Some(128_000)),
            ),
            (
                "minimax",
                400,
                r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)"}}"#,
                Long(None, None),
            ),
            (
                "kimi",
                400,
                r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 131072 (requested: 150233)","type":"invalid_request_error"}}"#,
                Long(Some(150_233), Some(131_072)),
            ),
            ("z.ai", 400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#, Long(None, None)),
            (
                "anthropic, cut in a stream",
                200,
                r#"{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":7}}"#,
                Long(None, None),
            ),
            (
                "z.ai, silent",
                200,
                r#"{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"model_context_window_exceeded"}]}"#,
                Long(None, None),
            ),
            (
                "alibaba",
                400,
                r#"{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","code":"invalid_parameter_error"}}"#,
                Long(None, Some(129_024)),
            ),
            (
                "alibaba, newer",
                400,
                r#"{"error":{"message":"Input length 131393 exceeds the maximum allowed input length of 131040 tokens."}}"#,
                Long(Some(131_393), Some(131_040)),
            ),
        ]);
    }

    #[test]
    fn local_servers_are_understood() {
        check(&[
            (
                "vllm",
                400,
                r#"{"error":{"message":"This model's maximum context length is 40960 tokens. However, you requested 100 output tokens and your prompt contains at least 40861 input tokens, for a total of at least 40961 tokens. Please reduce the length of the input prompt or the number of requested output tokens.","type":"BadRequestError","param":"input_tokens","code":400}}"#,
                Output(40_861, 100, 40_960),
            ),
            (
                "vllm, characters",
                400,
                r#"{"error":{"message":"This model's maximum context length is 40960 tokens. However, you requested 100 output tokens and your prompt contains 900000 characters (more than 653760 characters, which is the upper bound for 40860 input tokens).","type":"BadRequestError","code":400}}"#,
                Long(None, Some(40_960)),
            ),
            (
                "vllm, older",
                400,
                r#"{"object":"error","message":"You passed 170753 input tokens and requested 32000 output tokens. However, the model's context length is only 202752 tokens, resulting in a maximum input length of 170752 tokens.","type":"BadRequestError","code":400}"#,
                Output(170_753, 32_000, 202_752),
            ),
            (
                "vllm, decoder",
                400,
                r#"{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller.","code":400}"#,
                Long(Some(9_000), Some(8_192)),
            ),
            (
                "sglang",
                400,
                r#"{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens).","type":"BadRequestError","code":400}"#,
                Long(Some(9_000), Some(8_192)),
            ),
            (
                "sglang, total",
                400,
                r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9100 tokens: 8000 tokens from the input messages and 1100 tokens for the completion.","code":400}"#,
                Output(8_000, 1_100, 8_192),
            ),
            (
                "sglang, allowed",
                400,
                r#"{"object":"error","message":"Input length (9000 tokens) exceeds the maximum allowed length (8185 tokens). Use a shorter input or enable --allow-auto-truncate.","code":400}"#,
                Long(Some(9_000), Some(8_185)),
            ),
            (
                "llama.cpp",
                400,
                r#"{"error":{"code":400,"message":"request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}"#,
                Long(Some(4_031), Some(2_048)),
            ),
            (
                "llama.cpp, fields alone",
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size.","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}"#,
                Long(Some(4_031), Some(2_048)),
            ),
            (
                "ollama",
                400,
                r#"{"error":"the prompt is longer than the context length currently available to the model; shorten the prompt"}"#,
                Long(None, None),
            ),
            ("ollama, embeddings", 400, r#"{"error":"the input length exceeds the context length"}"#, Long(None, None)),
            (
                "ollama, cloud",
                400,
                r#"{"error":"prompt too long; exceeded max context length by 12 tokens"}"#,
                Long(None, None),
            ),
            (
                "lm studio",
                400,
                r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length."}"#,
                Long(Some(13_055), Some(4_096)),
            ),
            (
                "lm studio, keep",
                400,
                r#"{"error":"Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
                Long(Some(15_857), Some(4_096)),
            ),
            (
                "lm studio, fit",
                400,
                r#"{"error":"Input does not fit in context length. The input has 31430 tokens, but the context length only supports 30000 tokens."}"#,
                Long(Some(31_430), Some(30_000)),
            ),
            (
                "lm studio, mlx",
                200,
                "event: error\ndata: {\"error\":{\"message\":\"Context size has been exceeded.\"},\"message\":\"Context size has been exceeded.\"}\n\n",
                Long(None, None),
            ),
            (
                "lm studio, middle",
                400,
                r#"{"error":"Reached context length of 4096 tokens with model qwen that does not currently support mid-generation context overflow."}"#,
                Long(None, Some(4_096)),
            ),
        ]);
    }

    #[test]
    fn what_is_about_something_else_is_not_an_overflow() {
        check(&[
            (
                "openai, minute",
                429,
                r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389.","type":"tokens","code":"rate_limit_exceeded"}}"#,
                Not,
            ),
            (
                "groq, minute",
                413,
                r#"{"error":{"message":"Request too large for model `x` in organization `org` on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
                Not,
            ),
            ("bedrock, throttle", 429, r#"{"message":"Too many tokens, please wait before trying again."}"#, Not),
            (
                "bedrock, throttle as 400",
                400,
                r#"{"__type":"ThrottlingException","message":"Too many input tokens for now"}"#,
                Not,
            ),
            (
                "openai, field",
                400,
                r#"{"error":{"message":"Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760.","code":"string_above_max_length"}}"#,
                Not,
            ),
            (
                "quota",
                400,
                r#"{"error":{"message":"You exceeded your current quota; prompt is too long for your plan"}}"#,
                Not,
            ),
            ("key", 401, r#"{"error":{"message":"prompt is too long"}}"#, Not),
            ("server", 500, r#"{"error":{"message":"context length exceeded","code":"context_length_exceeded"}}"#, Not),
            (
                "bad request",
                400,
                r#"{"error":{"message":"messages: roles must alternate","type":"invalid_request_error"}}"#,
                Not,
            ),
            ("validation", 422, "", Not),
            (
                "echo",
                422,
                r#"{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":{"content":"prompt is too long: 3 tokens > 2 maximum"}}]}"#,
                Not,
            ),
            (
                "answer about it",
                200,
                r#"{"choices":[{"message":{"role":"assistant","content":"The error says: prompt is too long: 3 tokens > 2 maximum"},"finish_reason":"stop"}]}"#,
                Not,
            ),
            ("plain answer about it", 200, "prompt is too long: 3 tokens > 2 maximum", Not),
            ("delta that is json", 200, "data: {\"delta\":\"{\\\"error\\\":\\\"prompt is too long\\\"}\"}\n\n", Not),
            (
                "delta about it",
                200,
                "data: {\"type\":\"response.output_text.delta\",\"delta\":\"prompt is too long\"}\n\n",
                Not,
            ),
        ]);
    }

    #[test]
    fn an_error_wrapped_eight_times_is_read_and_a_deeper_one_is_left() {
        let wrapped = |times| {
            (0..times).fold(String::from("\"prompt is too long\""), |inner, _| format!("{{\"error\":{inner}}}"))
        };
        check(&[
            ("eight", 400, &wrapped(8), Long(None, None)),
            ("nine", 400, &wrapped(9), Not),
            ("many", 400, &wrapped(9_000), Not),
        ]);
    }

    #[test]
    fn a_retry_aims_below_the_limit_in_our_own_tokens() {
        for (used, limit, estimated, target) in [
            (Some(200_000), Some(100_000), 160_000, Some(72_000)),
            (Some(100_000), Some(100_000), 120_000, Some(108_000)),
            (None, Some(100_000), 160_000, Some(90_000)),
            (Some(0), Some(100_000), 160_000, Some(90_000)),
            (Some(200_000), None, 160_000, None),
        ] {
            let overflow = Overflow::InputTooLong { used: used.map(Tokens::new), limit: limit.map(Tokens::new) };
            assert_eq!(overflow.retry_target(Tokens::new(estimated)), target.map(Tokens::new), "{overflow:?}");
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
        assert_eq!(overflow.retry_target(Tokens::new(1)), None);
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
