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
    #[error("there is no such {what}, or it is not available to you")]
    NotFound {
        /// What.
        what: &'static str,
    },
    /// A parameter is wrong.
    #[error("the parameter `{name}` is not allowed: {reason}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// The reason.
        reason: String,
    },
    /// The parameters after the question mark are wrong.
    #[error("the query string is not allowed: {reason}")]
    Query {
        /// The reason.
        reason: String,
    },
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
    pub enum ApiErrorCode {
        /// The key is missing or unknown.
        UnknownCaller = "unknown_caller",
        /// The request is for another host, or from another site's page.
        Foreign = "foreign",
        /// The endpoint does not exist.
        NoRoute = "no_route",
        /// The endpoint does not accept the method.
        Method = "method",
        /// The resource does not exist, or is another tenant's.
        NotFound = "not_found",
        /// A parameter is not allowed.
        Parameter = "parameter",
        /// The thread has messages and no prompt.
        NoPrompt = "no_prompt",
        /// The store does not answer.
        Unavailable = "unavailable",
        /// Stored data cannot be read.
        Unreadable = "unreadable",
    }
}

impl ApiError {
    /// Returns its status.
    pub fn status(&self) -> StatusCode {
        match self {
            ApiError::Unknown(_) => StatusCode::UNAUTHORIZED,
            ApiError::Foreign => StatusCode::FORBIDDEN,
            ApiError::NoRoute | ApiError::NotFound { .. } => StatusCode::NOT_FOUND,
            ApiError::Method => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::Parameter { .. } | ApiError::Query { .. } => StatusCode::BAD_REQUEST,
            ApiError::NoPrompt => StatusCode::CONFLICT,
            ApiError::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Unreadable => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns its code, for programs.
    pub fn code(&self) -> ApiErrorCode {
        match self {
            ApiError::Unknown(_) => ApiErrorCode::UnknownCaller,
            ApiError::Foreign => ApiErrorCode::Foreign,
            ApiError::NoRoute => ApiErrorCode::NoRoute,
            ApiError::Method => ApiErrorCode::Method,
            ApiError::NotFound { .. } => ApiErrorCode::NotFound,
            ApiError::Parameter { .. } | ApiError::Query { .. } => ApiErrorCode::Parameter,
            ApiError::NoPrompt => ApiErrorCode::NoPrompt,
            ApiError::Unavailable => ApiErrorCode::Unavailable,
            ApiError::Unreadable => ApiErrorCode::Unreadable,
        }
    }

    /// Returns the sentence that says what to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            ApiError::Unknown(_) => "The setting `serve.keys` lists the valid keys.",
            ApiError::Foreign => "Use 127.0.0.1 or localhost, or set `serve.keys` and send a key.",
            ApiError::NoRoute => "`GET /api/openapi.json` describes every endpoint.",
            ApiError::Method => "Every endpoint accepts GET only.",
            ApiError::NotFound { .. } => "`GET /api/threads` lists the threads.",
            ApiError::NoPrompt => "`GET /api/threads/{thread}/messages` returns its messages.",
            ApiError::Parameter { .. } | ApiError::Query { .. } => "`GET /api/openapi.json` describes the parameters.",
            ApiError::Unavailable => "Try again in a moment; `GET /readyz` reports the state of the store.",
            ApiError::Unreadable => "`epitome store check` looks for damage and for missing keys.",
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code().name(), "message": self.to_string(), "hint": self.hint()});
        let mut response = (self.status(), Json(json!({"error": error}))).into_response();
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
            LogError::NoThread { .. } => ApiError::NotFound { what: "thread" },
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
            EngineError::NotAllowed => ApiError::NotFound { what: "thread" },
            EngineError::Foreign { .. } => ApiError::NoPrompt,
            error => {
                tracing::warn!(%error, "the API failed to read a thread");
                ApiError::Unreadable
            }
        }
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        match denied.is_passing() {
            true => ApiError::Unavailable,
            false => ApiError::NotFound { what: "artifact" },
        }
    }
}
