//! Values as Postgres keeps them: signed integers, bytes and text.

use std::str::FromStr;

use epitome::thread::MessageId;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::failure::Fault;
use crate::ids::Moment;
use crate::store::StoreError;
use crate::store::encode::id_from;

/// A column's amount.
pub(super) fn amount(row: &Row, column: &str) -> Result<u64, Fault> {
    Ok(row.try_get::<_, i64>(column)?.cast_unsigned())
}

/// A column's small number.
pub(super) fn small(row: &Row, column: &str) -> Result<u32, Fault> {
    u32::try_from(row.try_get::<_, i64>(column)?).map_err(|_| unreadable(column))
}

/// A column's moment.
pub(super) fn moment(row: &Row, column: &str) -> Result<Moment, Fault> {
    Ok(Moment(row.try_get(column)?))
}

/// A column's moment, if there is one.
pub(super) fn maybe(row: &Row, column: &str) -> Result<Option<Moment>, Fault> {
    Ok(row.try_get::<_, Option<i64>>(column)?.map(Moment))
}

/// A column's text as what it means.
pub(super) fn parsed<T: FromStr>(row: &Row, column: &str) -> Result<T, Fault> {
    row.try_get::<_, &str>(column)?.parse().map_err(|_| unreadable(column))
}

/// A column's JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T, Fault> {
    serde_json::from_str(row.try_get(column)?).map_err(|_| unreadable(column))
}

/// A column's message id.
pub(super) fn id(row: &Row, column: &str) -> Result<MessageId, Fault> {
    id_from(row.try_get(column)?).ok_or_else(|| unreadable(column))
}

/// A column that does not hold what was written.
pub(super) fn unreadable(column: &str) -> Fault {
    StoreError::Damaged { reason: format!("the column {column} does not hold what was written") }.into()
}

/// A place as a bound; there is nothing after the last one that can be stored.
pub(super) fn bound(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
