//! Refusals: what the gateway itself answers a proxied request with, in the shape of the provider that was meant.
//!
//! Each is declared once: its status, its name and its sentence. A provider's own errors never come from here.

use bytes::Bytes;
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

/// Why the gateway does not pass a request on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody knows the caller.
    #[error("{0}")]
    Unknown(Unknown),
    /// There are too many requests.
    #[error("the gateway has {max} requests under way, which is the most it takes; try again in a moment")]
    Busy {
        /// The most at once.
        max: usize,
    },
    /// The body is too large.
    #[error("the request's body is larger than the gateway takes, which is {max} bytes; `serve.body_mb_max` sets it")]
    BodyTooLarge {
        /// The most bytes.
        max: usize,
    },
    /// The bodies of all requests together take as much memory as they may.
    #[error(
        "the gateway holds as many bytes of request bodies as it may, which is {max}; `serve.body_memory_mb_max` sets it; try again in a moment"
    )]
    OutOfMemory {
        /// The most bytes.
        max: usize,
    },
    /// The body took too long.
    #[error("the request's body did not come: nothing of it for {seconds} s; `serve.body_timeout_s` sets it")]
    BodyTimeout {
        /// For how long nothing came.
        seconds: u64,
    },
    /// The body came too slowly.
    #[error("the request's body took longer than {seconds} s, which is ten times `serve.body_timeout_s`")]
    BodySlow {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The body broke off or cannot be unpacked.
    #[error("the request's body cannot be read: {reason}")]
    BadBody {
        /// Why.
        reason: String,
    },
    /// What the request asks of the gateway makes no sense.
    #[error("{reason}")]
    Unclear {
        /// Why.
        reason: String,
    },
    /// A page of another site asks where the gateway has a key of its own.
    #[error(
        "the gateway has a key of its own for this provider and none that locks it: ask at 127.0.0.1 or localhost, not from a page of another site, or set `serve.keys`"
    )]
    Foreign,
    /// Nobody is configured for it.
    #[error("no upstream is configured for this request; `serve.upstreams` or `--upstream` names one")]
    NoUpstream,
    /// The provider cannot be reached.
    #[error("the provider at {host} cannot be reached: {reason}")]
    Unreachable {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// The provider did not answer in time.
    #[error("the provider at {host} did not answer within {seconds} s; `serve.first_byte_timeout_s` sets it")]
    Timeout {
        /// Who.
        host: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The gateway itself broke off.
    #[error("the gateway broke off while it answered; its log says why")]
    Broken,
}

impl Refusal {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Unknown(_) => StatusCode::UNAUTHORIZED,
            Refusal::Busy { .. } | Refusal::OutOfMemory { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::BodyTimeout { .. } | Refusal::BodySlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Refusal::BadBody { .. } | Refusal::Unclear { .. } => StatusCode::BAD_REQUEST,
            Refusal::NoUpstream => StatusCode::NOT_FOUND,
            Refusal::Foreign => StatusCode::FORBIDDEN,
            Refusal::Unreachable { .. } => StatusCode::BAD_GATEWAY,
            Refusal::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Refusal::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Its name, as headers and metrics have it.
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::Unknown(_) => "unknown_caller",
            Refusal::Busy { .. } => "busy",
            Refusal::BodyTooLarge { .. } => "body_too_large",
            Refusal::OutOfMemory { .. } => "body_memory",
            Refusal::BodyTimeout { .. } | Refusal::BodySlow { .. } => "body_timeout",
            Refusal::BadBody { .. } => "bad_body",
            Refusal::Unclear { .. } => "unclear",
            Refusal::NoUpstream => "no_upstream",
            Refusal::Foreign => "foreign",
            Refusal::Unreachable { .. } => "upstream_unreachable",
            Refusal::Timeout { .. } => "upstream_timeout",
            Refusal::Broken => "broken",
        }
    }

    /// It as an answer that a client of this family understands.
    pub fn response(&self, family: Provider) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body(family).to_string())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(REFUSED_HEADER, HeaderValue::from_static(self.name()));
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
        refusal if refusal.status().is_client_error() => ("invalid_request_error", refusal.name()),
        refusal => ("server_error", refusal.name()),
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
            assert_eq!(response.headers()[REFUSED_HEADER], refusal.name());
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(body.pointer(place), Some(&json!(expected)), "{refusal}: {body}");
            assert_eq!(body.pointer("/error/message"), Some(&json!(refusal.to_string())), "{body}");
        }
    }
}
