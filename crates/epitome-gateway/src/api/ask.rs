//! What a request of the API asks: who, for what, and how much of it.

use axum::extract::{FromRequestParts, Path, Query};
use epitome_runtime::artifact::Access;
use epitome_runtime::ids::{ThreadId, ThreadKey};
use epitome_runtime::store::ThreadRow;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Api, ApiError};
use crate::caller::{Caller, Unknown};

/// The most of anything in one answer, and how much there is of it when nobody says.
pub(super) const LIMIT_MAX: u64 = 1000;
pub(super) const LIMIT: u64 = 50;

/// Who asks.
pub(super) struct Who(pub Access);

impl FromRequestParts<Api> for Who {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().ok_or(ApiError::Unknown(Unknown::NoKey))?;
        Ok(Who(caller.access()))
    }
}

/// The parameters after the question mark. One that there is not is an error.
pub(super) struct Asked<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Api) -> Result<Self, ApiError> {
        let asked = Query::<T>::from_request_parts(parts, state).await;
        asked.map(|Query(asked)| Asked(asked)).map_err(|error| ApiError::Query { reason: error.body_text() })
    }
}

/// The names in the path. One that cannot be a name is that of nothing.
pub(super) struct Named<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Api> for Named<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Api) -> Result<Self, ApiError> {
        let named = Path::<T>::from_request_parts(parts, state).await;
        named.map(|Path(named)| Named(named)).map_err(|_| ApiError::NotFound { what: "thing" })
    }
}

/// How many at most.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Limit(u64);

impl Limit {
    pub(super) fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for Limit {
    fn default() -> Self {
        Limit(LIMIT)
    }
}

impl TryFrom<u64> for Limit {
    type Error = String;

    fn try_from(limit: u64) -> Result<Self, String> {
        match limit {
            1..=LIMIT_MAX => Ok(Limit(limit)),
            _ => Err(format!("`limit` is a whole number from 1 to {LIMIT_MAX}")),
        }
    }
}

/// Which page, where one is named by what came before it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PageAsked {
    pub after: Option<String>,
    pub limit: Limit,
}

/// Which page, where one is numbered.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NumberedPage {
    pub after: u64,
    pub limit: Limit,
}

/// No parameters at all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl Api {
    pub(super) fn engine(&self) -> &epitome_runtime::engine::Engine {
        &self.engine
    }

    pub(super) fn log(&self) -> &epitome_runtime::log::Log {
        self.engine.log()
    }

    /// A thread of the tenant, by the name in the path.
    pub(super) async fn thread(&self, access: &Access, name: &str) -> Result<ThreadRow, ApiError> {
        let absent = ApiError::NotFound { what: "thread" };
        let id: ThreadId = name.parse().map_err(|_| absent.clone())?;
        let key = ThreadKey::new(access.tenant.clone(), id);
        self.log().thread(&key).await?.ok_or(absent)
    }
}
