//! A rejected request: status, message and rule, and the error body in each protocol's form.

use serde_json::{Value, json};

use super::endpoint::ProviderProtocol;
use super::request::AnswerSeed;

/// The error that a provider answers an invalid request with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderRejection {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
    /// The rule that was broken: `C1`, `auth`.
    pub(crate) rule: &'static str,
}

impl ProviderRejection {
    /// A 400 with this message.
    pub(crate) fn invalid(message: impl Into<String>) -> ProviderRejection {
        ProviderRejection { status: 400, message: message.into(), param: None, code: None, rule: "schema" }
    }

    /// The same with another status.
    pub(crate) fn with_status(self, status: u16) -> ProviderRejection {
        ProviderRejection { status, ..self }
    }

    /// The same with the name of the field that is wrong.
    pub(crate) fn about(self, param: impl Into<String>) -> ProviderRejection {
        ProviderRejection { param: Some(param.into()), ..self }
    }

    /// The same with a code.
    pub(crate) fn coded(self, code: &'static str) -> ProviderRejection {
        ProviderRejection { code: Some(code), ..self }
    }

    /// The same with the rule that was broken.
    pub(crate) fn breaking(self, rule: &'static str) -> ProviderRejection {
        ProviderRejection { rule, ..self }
    }

    /// Returns the error body in a protocol's form.
    pub(crate) fn body(&self, protocol: ProviderProtocol, seed: &AnswerSeed) -> Value {
        match protocol {
            ProviderProtocol::Chat | ProviderProtocol::Responses => {
                openai_error(&self.message, self.openai_kind(), self.param.as_deref(), self.code)
            }
            ProviderProtocol::Anthropic => json!({
                "type": "error",
                "error": {"type": self.anthropic_kind(), "message": self.message},
                "request_id": seed.id("req_", 0, 24),
            }),
            ProviderProtocol::Gemini => {
                json!({"error": {"code": self.status, "message": self.message, "status": self.gemini_status()}})
            }
        }
    }

    fn openai_kind(&self) -> &'static str {
        match self.status {
            500.. => "server_error",
            429 => "requests",
            _ => "invalid_request_error",
        }
    }

    fn anthropic_kind(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        }
    }

    fn gemini_status(&self) -> &'static str {
        match self.status {
            401 | 403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            500.. => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        }
    }
}

/// OpenAI's error object.
pub(crate) fn openai_error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}
