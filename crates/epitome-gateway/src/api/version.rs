//! What program it is.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use super::ApiError;
use super::ask::{Asked, Nothing};

/// The program and its version.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Version {
    /// Its name.
    name: &'static str,
    /// Its version.
    version: &'static str,
}

pub(super) async fn show(Asked(Nothing {}): Asked<Nothing>) -> Result<Json<Version>, ApiError> {
    Ok(Json(Version { name: "epitome", version: env!("CARGO_PKG_VERSION") }))
}
