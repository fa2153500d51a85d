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
/// The largest number that a program in JavaScript reads as it is.
pub(super) const SAFE_MAX: u64 = (1 << 53) - 1;

/// The caller.
pub(super) struct ApiCaller(pub Access);

impl FromRequestParts<Api> for ApiCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().ok_or(ApiError::Unknown(Unknown::NoKey))?;
        Ok(ApiCaller(caller.access()))
    }
}

/// The parameters after the question mark. One that there is not is an error.
pub(super) struct QueryParams<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Api> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Api) -> Result<Self, ApiError> {
        let asked = Query::<T>::from_request_parts(parts, state).await;
        asked.map(|Query(asked)| QueryParams(asked)).map_err(|error| ApiError::Query(error.body_text()))
    }
}

/// The names in the path. One that cannot be a name is that of nothing.
pub(super) struct PathParams<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Api> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Api) -> Result<Self, ApiError> {
        let named = Path::<T>::from_request_parts(parts, state).await;
        named.map(|Path(named)| PathParams(named)).map_err(|_| ApiError::NotFound("thing"))
    }
}

/// A whole number from here to there.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct BoundedNumber<const LEAST: u64, const MOST: u64>(u64);

/// A number that a page begins behind.
pub(super) type Number = BoundedNumber<0, SAFE_MAX>;
/// A number of something that is counted from 1.
pub(super) type Ordinal = BoundedNumber<1, SAFE_MAX>;
/// The most items of a page.
pub(super) type Limit = BoundedNumber<1, LIMIT_MAX>;

impl<const LEAST: u64, const MOST: u64> BoundedNumber<LEAST, MOST> {
    pub(super) fn get(self) -> u64 {
        self.0
    }

    /// As a number of things in memory.
    pub(super) fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const LEAST: u64, const MOST: u64> TryFrom<u64> for BoundedNumber<LEAST, MOST> {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        if (LEAST..=MOST).contains(&number) {
            Ok(BoundedNumber(number))
        } else {
            Err(format!("{number} is not a whole number from {LEAST} to {MOST}"))
        }
    }
}

/// A page, by the item before it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    pub after: Option<String>,
    limit: Option<Limit>,
}

/// A page, by its first number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NumberedPageQuery {
    after: Option<Number>,
    limit: Option<Limit>,
}

impl PageQuery {
    pub(super) fn limit(&self) -> usize {
        limit_of(self.limit)
    }
}

impl NumberedPageQuery {
    pub(super) fn after(&self) -> u64 {
        self.after.map_or(0, Number::get)
    }

    pub(super) fn limit(&self) -> usize {
        limit_of(self.limit)
    }
}

fn limit_of(limit: Option<Limit>) -> usize {
    limit.map_or(LIMIT as usize, Limit::count)
}

/// No parameters at all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParams {}

impl Api {
    pub(super) fn engine(&self) -> &epitome_runtime::engine::Engine {
        &self.engine
    }

    pub(super) fn log(&self) -> &epitome_runtime::log::Log {
        self.engine.log()
    }

    /// A thread of the tenant, by the name in the path.
    pub(super) async fn thread(&self, access: &Access, name: &str) -> Result<ThreadRow, ApiError> {
        let absent = ApiError::NotFound("thread");
        let id: ThreadId = name.parse().map_err(|_| absent.clone())?;
        let key = ThreadKey::new(access.tenant.clone(), id);
        self.log().thread(&key).await?.ok_or(absent)
    }
}
