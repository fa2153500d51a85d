//! Errors of the API, each declared once: its status, its code, its sentence and what to do next.

use axum::Json;
use axum::response::{IntoResponse, Response};
use epitome_runtime::artifact::Denied;
use epitome_runtime::engine::EngineError;
use epitome_runtime::log::LogError;
use epitome_runtime::named_enum;
use epitome_runtime::store::StoreError;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::caller::Unknown;

/// An error of the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// Nobody knows the caller.
    #[error("{0}")]
    Unknown(Unknown),
    /// The request was meant for another host, or comes from a page of another site.
    #[error("the request is not for this machine, or comes from another site's page")]
    Foreign,
    /// There is no such endpoint.
    #[error("there is no such endpoint")]
    NoRoute,
    /// The endpoint is there for another method.
    #[error("the endpoint does not accept this method")]
    Method,
    /// There is no such thing, or it is another tenant's.
    #[error("there is no such {0}, or it is not available to you")]
    NotFound(&'static str),
    /// A parameter is wrong.
    #[error("the parameter `{0}` is not allowed: {1}")]
    Parameter(&'static str, String),
    /// The parameters after the question mark are wrong.
    #[error("the query string is not allowed: {0}")]
    Query(String),
    /// The body of a change is wrong.
    #[error("the body is not allowed: {0}")]
    Body(String),
    /// The parameters find nothing: they name nothing to read or to search for, or what they name is not there.
    #[error("{0}")]
    Nothing(String),
    /// The change is understood and cannot be made.
    #[error("{0}")]
    Note(String),
    /// There is no handoff.
    #[error("{0}")]
    Handoff(String),
    /// The thread is another program's session, and no model is sent it.
    #[error("the thread was imported from another program's session; it has messages and no prompt")]
    NoPrompt,
    /// The store does not answer.
    #[error("the store does not answer at the moment")]
    Unavailable,
    /// Stored data cannot be read.
    #[error("stored data cannot be read")]
    Unreadable,
}

named_enum! {
    /// The codes of errors, for programs; `docs/api.md` lists them.
    enum ErrorCode {
        UnknownCaller = "unknown_caller",
        Foreign = "foreign",
        NoRoute = "no_route",
        Method = "method",
        NotFound = "not_found",
        Parameter = "parameter",
        Body = "body",
        Note = "note",
        Handoff = "handoff",
        NoPrompt = "no_prompt",
        Unavailable = "unavailable",
        Unreadable = "unreadable",
    }
}

impl ApiError {
    /// Returns its status, its code for programs, and the sentence that says what to do next.
    fn status_code_hint(&self) -> (StatusCode, ErrorCode, &'static str) {
        match self {
            ApiError::Unknown(_) => {
                (StatusCode::UNAUTHORIZED, ErrorCode::UnknownCaller, "The setting `serve.keys` lists the valid keys.")
            }
            ApiError::Foreign => (
                StatusCode::FORBIDDEN,
                ErrorCode::Foreign,
                "Use 127.0.0.1 or localhost, or set `serve.keys` and send a key.",
            ),
            ApiError::NoRoute => {
                (StatusCode::NOT_FOUND, ErrorCode::NoRoute, "`GET /api/openapi.json` describes every endpoint.")
            }
            ApiError::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                ErrorCode::Method,
                "`GET /api/openapi.json` describes every endpoint with its methods.",
            ),
            ApiError::NotFound(_) => {
                (StatusCode::NOT_FOUND, ErrorCode::NotFound, "`GET /api/threads` lists the threads.")
            }
            ApiError::Parameter(..) | ApiError::Query(_) => {
                (StatusCode::BAD_REQUEST, ErrorCode::Parameter, "`GET /api/openapi.json` describes the parameters.")
            }
            ApiError::Nothing(_) => {
                (StatusCode::NOT_FOUND, ErrorCode::NotFound, "`GET /api/openapi.json` describes the parameters.")
            }
            ApiError::Body(_) => {
                (StatusCode::BAD_REQUEST, ErrorCode::Body, "`GET /api/openapi.json` describes the changes.")
            }
            ApiError::Note(_) => {
                (StatusCode::CONFLICT, ErrorCode::Note, "`GET /api/openapi.json` describes the changes.")
            }
            ApiError::Handoff(_) => (
                StatusCode::CONFLICT,
                ErrorCode::Handoff,
                "Begin the new thread with the goal itself, or allow more tokens.",
            ),
            ApiError::NoPrompt => (
                StatusCode::CONFLICT,
                ErrorCode::NoPrompt,
                "`GET /api/threads/{thread}/messages` returns its messages.",
            ),
            ApiError::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::Unavailable,
                "Try again in a moment; `GET /readyz` reports the state of the store.",
            ),
            ApiError::Unreadable => (
                StatusCode::INTERNAL_SERVER_ERROR,
                ErrorCode::Unreadable,
                "`epitome store check` looks for damage and for missing keys.",
            ),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code, hint) = self.status_code_hint();
        let error = json!({"code": code.name(), "message": self.to_string(), "hint": hint});
        let mut response = (status, Json(json!({"error": error}))).into_response();
        let header = match self {
            ApiError::Unknown(_) => Some((WWW_AUTHENTICATE, "Bearer")),
            ApiError::Unavailable => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        response.headers_mut().extend(header.map(|(name, value)| (name, HeaderValue::from_static(value))));
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the API failed to read the store");
        if error.is_passing() { ApiError::Unavailable } else { ApiError::Unreadable }
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Store(error) => error.into(),
            LogError::NoThread(_) => ApiError::NotFound("thread"),
            error => {
                tracing::warn!(%error, "the API failed to read the log");
                ApiError::Unreadable
            }
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Log(error) => error.into(),
            EngineError::Denied(denied) => denied.into(),
            EngineError::NotAllowed => ApiError::NotFound("thread"),
            EngineError::Foreign(_) => ApiError::NoPrompt,
            error @ (EngineError::LeftPrompt(_)
            | EngineError::NotHidden(_)
            | EngineError::NotPinned(_)
            | EngineError::Note(_)) => ApiError::Note(error.to_string()),
            error @ EngineError::Handoff(_) => ApiError::Handoff(error.to_string()),
            EngineError::NoMessage(_) => ApiError::NotFound("message"),
            error @ EngineError::ForeignNumber(_) => ApiError::Nothing(epitome_runtime::sentence(&error)),
            error => {
                tracing::warn!(%error, "the API failed to read a thread");
                ApiError::Unreadable
            }
        }
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        if denied.is_passing() { ApiError::Unavailable } else { ApiError::NotFound("artifact") }
    }
}
