//! What program it is.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use super::ApiError;
use super::extract::{NoParams, QueryParams};

/// The program and its version.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Version {
    /// Its name.
    name: &'static str,
    /// Its version.
    version: &'static str,
}

pub(super) async fn show(QueryParams(NoParams {}): QueryParams<NoParams>) -> Result<Json<Version>, ApiError> {
    Ok(Json(Version { name: "epitome", version: env!("CARGO_PKG_VERSION") }))
}
