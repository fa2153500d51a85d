//! A refusal, read: what kind of error a response or an event of a stream amounts to.
//!
//! Whether it is an overflow is the core's to say. Of what a provider writes only its message is kept, clipped: the rest
//! may echo the request.

use std::time::Duration;

use epitome::budget::{Overflow, classify, is_quoted};
use serde_json::Value;

use super::ModelError;

/// The most characters kept of a provider's words.
const WORDS_CHARS_MAX: usize = 500;

/// Reads a response with a bad status.
pub fn read_refusal(status: u16, body: &str) -> ModelError {
    refused(status, None, body)
}

/// The error that a response with a bad status is.
pub(super) fn refused(status: u16, asked: Option<Duration>, body: &str) -> ModelError {
    let said = Said::read(body);
    said.into_error(status, asked, classify(status, body), is_quoted(status, body))
}

/// The error that an event of a stream, or a body with a good status, holds.
pub(super) fn refused_within(data: &str) -> ModelError {
    let said = Said::read(data);
    // Whoever calls this knows that it is an error, so all of it may be read as one.
    let overflow = classify(400, data);
    let unsaid = if overflow == Overflow::NotOverflow { 500 } else { 400 };
    let status = said.status().unwrap_or(unsaid);
    said.into_error(status, None, overflow, is_quoted(400, data))
}

/// The error that a stream without any event is: some servers say so that the prompt is too long.
pub(super) fn said_nothing() -> ModelError {
    let message = "it ended its stream without a word, as servers do whose window is too small".into();
    ModelError::Overflow { status: 200, overflow: classify(200, ""), message, quoted: false }
}

/// The parts of a provider's error body.
#[derive(Debug, Default)]
struct Said {
    codes: Vec<String>,
    message: String,
}

impl Said {
    fn read(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Said { codes: Vec::new(), message: clipped(body) };
        };
        let outer = value.as_array().and_then(|list| list.first()).unwrap_or(&value);
        let inner =
            [outer.pointer("/response/error"), outer.get("error")].into_iter().flatten().find(|own| !own.is_null());
        let inner = inner.unwrap_or(outer);
        let codes = [inner, outer].into_iter().flat_map(codes).collect();
        Said { codes, message: clipped(message(inner).or_else(|| message(outer)).unwrap_or_default()) }
    }

    /// The status that an error without one stands for.
    fn status(&self) -> Option<u16> {
        let number = |code: &String| code.parse().ok().filter(|status| (400..600).contains(status));
        self.codes.iter().find_map(number).or_else(|| self.codes.iter().find_map(|code| status_of(code)))
    }

    fn has(&self, list: &[&str]) -> bool {
        self.codes.iter().any(|code| list.contains(&code.as_str()))
    }

    fn into_error(self, status: u16, asked: Option<Duration>, overflow: Overflow, quoted: bool) -> ModelError {
        let throttled = self.has(&THROTTLED)
            || self.codes.iter().any(|code| code.starts_with("throttling"))
            || matches!(status, 429 | 503 | 529);
        let passing = matches!(status, 408 | 409 | 500..);
        match overflow {
            Overflow::NotOverflow if self.has(&SPENT) => ModelError::Refused(status, self.message),
            Overflow::NotOverflow if throttled || (passing && asked.is_some()) => {
                ModelError::Throttled { status, after: asked, message: self.message }
            }
            Overflow::NotOverflow if passing => ModelError::Failed(status, self.message),
            Overflow::NotOverflow => ModelError::Refused(status, self.message),
            overflow => ModelError::Overflow { status, overflow, message: self.message, quoted },
        }
    }
}

/// Codes of those who want one to wait, whatever the status.
const THROTTLED: [&str; 7] = [
    "rate_limit_exceeded",
    "rate_limit_error",
    "too_many_requests",
    "overloaded_error",
    "server_overloaded",
    "slow_down",
    "resource_exhausted",
];

/// Codes of those for whom waiting is no help: somebody has to pay.
const SPENT: [&str; 3] = ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"];

/// The status that goes with an error's type.
fn status_of(code: &str) -> Option<u16> {
    match code {
        "invalid_request_error" | "invalid_prompt" | "context_length_exceeded" => Some(400),
        "authentication_error" | "invalid_api_key" => Some(401),
        "permission_error" => Some(403),
        "not_found_error" | "model_not_found" => Some(404),
        "request_too_large" => Some(413),
        "rate_limit_error" | "rate_limit_exceeded" | "too_many_requests" => Some(429),
        "api_error" | "server_error" | "internal_server_error" => Some(500),
        "timeout_error" => Some(504),
        "overloaded_error" | "server_overloaded" => Some(529),
        _ => None,
    }
}

fn codes(value: &Value) -> impl Iterator<Item = String> {
    let code = |name: &str| match value.get(name)? {
        Value::String(code) => Some(code.to_lowercase()),
        Value::Number(code) => Some(code.to_string()),
        _ => None,
    };
    ["code", "type", "status", "__type", "error_type"].into_iter().filter_map(code).collect::<Vec<_>>().into_iter()
}

fn message(value: &Value) -> Option<&str> {
    let named = || ["message", "msg", "detail", "error", "reason"].iter().find_map(|name| value.get(*name)?.as_str());
    let listed = || value.get("detail")?.get(0)?.get("msg")?.as_str();
    value.as_str().or_else(named).or_else(listed)
}

fn clipped(text: &str) -> String {
    let words: String = text.trim().chars().take(WORDS_CHARS_MAX).collect();
    if words.is_empty() { "it gives no reason".to_owned() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(error: &ModelError) -> &'static str {
        match error {
            ModelError::Overflow { .. } => "overflow",
            ModelError::Throttled { .. } => "throttled",
            ModelError::Refused(..) => "refused",
            ModelError::Failed(..) => "failed",
            _ => "other",
        }
    }

    #[test]
    fn a_status_and_a_code_say_whether_to_ask_again() {
        for (status, body, is) in [
            (400, r#"{"error":{"message":"bad"}}"#, "refused"),
            (401, r#"{"error":{"message":"bad key"}}"#, "refused"),
            (404, "not here", "refused"),
            (408, "", "failed"),
            (409, "", "failed"),
            (422, r#"{"detail":[{"msg":"Field required","input":"my prompt"}]}"#, "refused"),
            (429, r#"{"error":{"type":"tokens","code":"rate_limit_exceeded"}}"#, "throttled"),
            (429, r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}"#, "refused"),
            (413, r#"{"error":{"message":"tokens per minute","code":"rate_limit_exceeded"}}"#, "throttled"),
            (400, r#"{"__type":"ThrottlingException","message":"slow"}"#, "throttled"),
            (500, "", "failed"),
            (502, "<html>bad gateway</html>", "failed"),
            (503, "", "throttled"),
            (529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, "throttled"),
            (302, "", "refused"),
        ] {
            let error = refused(status, None, body);
            assert_eq!(kind(&error), is, "{status} {body}");
            assert!(!error.to_string().contains("my prompt"));
        }
    }

    #[test]
    fn an_error_inside_a_stream_stands_for_a_status() {
        for (data, is, status) in [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "throttled", 529),
            (r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#, "failed", 500),
            (r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}"#, "failed", 500),
            (r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}"#, "throttled", 429),
            (r#"{"type":"error","code":"invalid_prompt","message":"x"}"#, "refused", 400),
            (r#"{"error":{"code":502,"message":"upstream"},"choices":[]}"#, "failed", 502),
            (r#"{"error":{"message":"nobody knows"}}"#, "failed", 500),
        ] {
            let error = refused_within(data);
            assert_eq!(kind(&error), is, "{data}");
            assert!(error.to_string().contains(&format!("({status})")), "{error}");
        }
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept() {
        let after = Some(Duration::from_secs(3));
        let error = refused(502, after, "");
        assert_eq!(error, ModelError::Throttled { status: 502, after, message: "it gives no reason".into() });
    }
}
