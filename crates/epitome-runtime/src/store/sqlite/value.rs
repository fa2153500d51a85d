//! Values as SQLite keeps them: signed integers, bytes and JSON text; the place of a row within its thread is in its slot.

use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Error, Row};

use super::slot;
use crate::store::Sensitivity;
use crate::store::columns::Columns;

impl Columns for Row<'_> {
    type Error = Error;

    fn maybe_number(&self, column: &str) -> Result<Option<i64>, Error> {
        self.get(column)
    }

    fn maybe_text(&self, column: &str) -> Result<Option<String>, Error> {
        self.get(column)
    }

    fn maybe_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, Error> {
        self.get(column)
    }

    fn place(&self, _column: &str) -> Result<u64, Error> {
        self.get("slot").map(slot::place)
    }

    fn sensitivity(&self) -> Result<Option<Sensitivity>, Error> {
        Ok(Sensitivity::from_name(&self.text("sensitivity")?))
    }

    fn unreadable(column: &str) -> Error {
        let what = format!("the column {column} does not hold what was written");
        Error::FromSqlConversionFailure(0, Type::Text, Box::new(FromSqlError::Other(what.into())))
    }
}
