//! Errors of the API, each declared once: its status, its code, its sentence and what to do next.

use axum::Json;
use axum::response::{IntoResponse, Response};
use epitome_runtime::artifact::Denied;
use epitome_runtime::engine::EngineError;
use epitome_runtime::log::LogError;
use epitome_runtime::store::StoreError;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::caller::Unknown;

/// Why the API does not answer what was asked.
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
    #[error("the endpoint does not take this method")]
    Method,
    /// There is no such thing, or it is another tenant's.
    #[error("there is no such {what}, or it is not available to you")]
    NotFound {
        /// What.
        what: &'static str,
    },
    /// A parameter is wrong.
    #[error("the parameter `{name}` is wrong: {reason}")]
    Parameter {
        /// Which.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// The parameters after the question mark are wrong.
    #[error("the parameters are wrong: {reason}")]
    Query {
        /// Why.
        reason: String,
    },
    /// The thread is another program's session, and no model is sent it.
    #[error("the thread was imported from another program's session; it has messages and no prompt")]
    NoPrompt,
    /// The store does not answer.
    #[error("the store does not answer at the moment")]
    Unavailable,
    /// What is stored cannot be read.
    #[error("what is stored cannot be read")]
    Unreadable,
}

impl ApiError {
    /// Its status.
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

    /// Its name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ApiError::Unknown(_) => "unknown_caller",
            ApiError::Foreign => "foreign",
            ApiError::NoRoute => "no_route",
            ApiError::Method => "method",
            ApiError::NotFound { .. } => "not_found",
            ApiError::Parameter { .. } | ApiError::Query { .. } => "parameter",
            ApiError::NoPrompt => "no_prompt",
            ApiError::Unavailable => "unavailable",
            ApiError::Unreadable => "unreadable",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            ApiError::Unknown(_) => "`serve.keys` lists whose keys there are.",
            ApiError::Foreign => "Ask at 127.0.0.1 or localhost, or set `serve.keys` and send one.",
            ApiError::NoRoute => "`GET /api/openapi.json` describes every endpoint.",
            ApiError::Method => "Every endpoint is asked with GET.",
            ApiError::NotFound { .. } => "`GET /api/threads` lists the threads that there are.",
            ApiError::NoPrompt => "`GET /api/threads/{thread}/messages` gives its messages.",
            ApiError::Parameter { .. } | ApiError::Query { .. } => "`GET /api/openapi.json` says what is allowed.",
            ApiError::Unavailable => "Try again in a moment; `GET /readyz` says how the store is.",
            ApiError::Unreadable => "`epitome store check` looks for damage, and for keys that are missing.",
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code(), "message": self.to_string(), "hint": self.hint()});
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
        tracing::warn!(%error, "the API could not read the store");
        if error.is_passing() { ApiError::Unavailable } else { ApiError::Unreadable }
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Store(error) => error.into(),
            LogError::NoThread { .. } => ApiError::NotFound { what: "thread" },
            error => {
                tracing::warn!(%error, "the API could not read the log");
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
                tracing::warn!(%error, "the API could not read a thread");
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
