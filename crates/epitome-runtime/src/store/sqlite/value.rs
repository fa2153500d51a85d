//! Values as SQLite keeps them: signed integers, bytes and JSON text.

use std::str::FromStr;

use epitome::thread::MessageId;
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Error, Row};
use serde::de::DeserializeOwned;

use crate::ids::Moment;
use crate::store::encode::id_from;

/// A column's amount; SQLite knows signed ones only.
pub(super) fn amount(row: &Row<'_>, column: &str) -> Result<u64, Error> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

/// A column's moment.
pub(super) fn moment(row: &Row<'_>, column: &str) -> Result<Moment, Error> {
    row.get(column).map(Moment)
}

/// A column's text as what it means.
pub(super) fn parsed<T: FromStr>(row: &Row<'_>, column: &str) -> Result<T, Error> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| unreadable(column))
}

/// A column's JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T, Error> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|_| unreadable(column))
}

/// A column's message id.
pub(super) fn id(row: &Row<'_>, column: &str) -> Result<MessageId, Error> {
    let bytes: [u8; 32] = row.get(column)?;
    id_from(&bytes).ok_or_else(|| unreadable(column))
}

/// A column that does not hold what was written.
pub(super) fn unreadable(column: &str) -> Error {
    let what = format!("the column {column} does not hold what was written");
    Error::FromSqlConversionFailure(0, Type::Text, Box::new(FromSqlError::Other(what.into())))
}

pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
