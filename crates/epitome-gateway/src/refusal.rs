//! Refusals: errors that the gateway itself answers a proxied request with, in the shape of the provider that was meant. A
//! provider's own errors never come from here.

use bytes::Bytes;
use epitome_runtime::named_enum;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::caller::Unknown;
use crate::settings::Provider;

/// The header that says that the gateway refused, and why.
pub const REFUSED_HEADER: HeaderName = HeaderName::from_static("x-epitome-refused");

/// Seconds after which a client that was turned away may try again.
const RETRY_AFTER_S: &str = "1";

/// The reason for which the gateway answers a request itself, with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Unknown(Unknown),
    #[error("epitome: too many requests at once (`serve.requests_max` is {max}); try again in a moment")]
    Busy { max: usize },
    #[error("epitome: the request's body is larger than {max} bytes (`serve.body_mb_max`)")]
    BodyTooLarge { max: usize },
    #[error(
        "epitome: the bodies of all requests use {max} bytes of memory, the most allowed (`serve.body_memory_mb_max`); try again in a moment"
    )]
    OutOfMemory { max: usize },
    #[error("epitome: no part of the request's body arrived for {seconds} s (`serve.body_timeout_s`)")]
    BodyTimeout { seconds: u64 },
    #[error("epitome: the request's body took longer than {seconds} s (ten times `serve.body_timeout_s`)")]
    BodySlow { seconds: u64 },
    #[error("epitome: the request's body cannot be read: {reason}")]
    BadBody { reason: String },
    #[error("{reason}")]
    Unclear { reason: String },
    #[error(
        "epitome: the gateway would send its own provider key, so it accepts only requests to 127.0.0.1 or localhost that come from no other site's page; set `serve.keys` to allow others"
    )]
    Foreign,
    #[error("epitome: no upstream is configured for this request; add one with `serve.upstreams` or `--upstream`")]
    NoUpstream,
    #[error("epitome: the provider at {host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("epitome: the provider at {host} did not answer within {seconds} s (`serve.first_byte_timeout_s`)")]
    Timeout { host: String, seconds: u64 },
    #[error("epitome: an internal error; see the gateway's log")]
    Broken,
}

named_enum! {
    /// The kinds of refusals, by the names that the header `x-epitome-refused` and the metrics have for them.
    pub enum RefusalKind {
        UnknownCaller = "unknown_caller",
        Busy = "busy",
        BodyTooLarge = "body_too_large",
        BodyMemory = "body_memory",
        BodyTimeout = "body_timeout",
        BadBody = "bad_body",
        Unclear = "unclear",
        NoUpstream = "no_upstream",
        Foreign = "foreign",
        UpstreamUnreachable = "upstream_unreachable",
        UpstreamTimeout = "upstream_timeout",
        Broken = "broken",
    }
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        self.status_and_kind().0
    }

    /// Returns its kind, whose name is in the header and in the metrics.
    pub fn kind(&self) -> RefusalKind {
        self.status_and_kind().1
    }

    fn status_and_kind(&self) -> (StatusCode, RefusalKind) {
        match self {
            Refusal::Unknown(_) => (StatusCode::UNAUTHORIZED, RefusalKind::UnknownCaller),
            Refusal::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, RefusalKind::Busy),
            Refusal::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, RefusalKind::BodyTooLarge),
            Refusal::OutOfMemory { .. } => (StatusCode::SERVICE_UNAVAILABLE, RefusalKind::BodyMemory),
            Refusal::BodyTimeout { .. } => (StatusCode::REQUEST_TIMEOUT, RefusalKind::BodyTimeout),
            Refusal::BodySlow { .. } => (StatusCode::REQUEST_TIMEOUT, RefusalKind::BodyTimeout),
            Refusal::BadBody { .. } => (StatusCode::BAD_REQUEST, RefusalKind::BadBody),
            Refusal::Unclear { .. } => (StatusCode::BAD_REQUEST, RefusalKind::Unclear),
            Refusal::NoUpstream => (StatusCode::NOT_FOUND, RefusalKind::NoUpstream),
            Refusal::Foreign => (StatusCode::FORBIDDEN, RefusalKind::Foreign),
            Refusal::Unreachable { .. } => (StatusCode::BAD_GATEWAY, RefusalKind::UpstreamUnreachable),
            Refusal::Timeout { .. } => (StatusCode::GATEWAY_TIMEOUT, RefusalKind::UpstreamTimeout),
            Refusal::Broken => (StatusCode::INTERNAL_SERVER_ERROR, RefusalKind::Broken),
        }
    }

    /// Writes it in the shape of the provider that was meant.
    pub fn response(&self, family: Provider) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body(family).to_string())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(REFUSED_HEADER, HeaderValue::from_static(self.kind().name()));
        // The rest of a body that was not taken in is not waited for; whoever sent it is not to use its connection again.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        response
    }

    fn body(&self, family: Provider) -> Value {
        let (message, status) = (self.to_string(), self.status());
        match family {
            Provider::OpenAi => {
                let (kind, code) = openai_kind(self);
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Provider::Anthropic => {
                json!({"type": "error", "error": {"type": anthropic_kind(status), "message": message}})
            }
            Provider::Gemini => {
                json!({"error": {"code": status.as_u16(), "message": message, "status": gemini_kind(status)}})
            }
        }
    }
}

fn openai_kind(refusal: &Refusal) -> (&'static str, &'static str) {
    match refusal {
        Refusal::Unknown(_) => ("invalid_request_error", "invalid_api_key"),
        refusal if refusal.status().is_client_error() => ("invalid_request_error", refusal.kind().name()),
        refusal => ("server_error", refusal.kind().name()),
    }
}

fn anthropic_kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "api_error",
    }
}

fn gemini_kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::GATEWAY_TIMEOUT => "DEADLINE_EXCEEDED",
        status if status.is_client_error() => "INVALID_ARGUMENT",
        _ => "UNAVAILABLE",
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_refusal_has_the_shape_of_the_provider_that_was_meant() {
        let cases = [
            (Refusal::Unknown(Unknown::NoKey), Provider::OpenAi, "/error/code", "invalid_api_key"),
            (Refusal::Unknown(Unknown::WrongKey), Provider::Anthropic, "/error/type", "authentication_error"),
            (Refusal::Unknown(Unknown::NoKey), Provider::Gemini, "/error/status", "UNAUTHENTICATED"),
            (Refusal::Busy { max: 2 }, Provider::Anthropic, "/error/type", "overloaded_error"),
            (Refusal::BodyTooLarge { max: 2 }, Provider::Anthropic, "/error/type", "request_too_large"),
            (Refusal::BodyTooLarge { max: 2 }, Provider::OpenAi, "/error/type", "invalid_request_error"),
            (Refusal::OutOfMemory { max: 2 }, Provider::Anthropic, "/error/type", "overloaded_error"),
            (Refusal::OutOfMemory { max: 2 }, Provider::OpenAi, "/error/code", "body_memory"),
            (Refusal::OutOfMemory { max: 2 }, Provider::Gemini, "/error/status", "UNAVAILABLE"),
            (Refusal::Timeout { host: "h".into(), seconds: 1 }, Provider::Gemini, "/error/status", "DEADLINE_EXCEEDED"),
        ];
        for (refusal, family, place, expected) in cases {
            let response = refusal.response(family);
            assert_eq!(response.status(), refusal.status());
            assert_eq!(response.headers()[REFUSED_HEADER], refusal.kind().name());
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(body.pointer(place), Some(&json!(expected)), "{refusal}: {body}");
            assert_eq!(body.pointer("/error/message"), Some(&json!(refusal.to_string())), "{body}");
        }
    }
}
