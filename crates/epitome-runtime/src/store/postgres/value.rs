//! Values as Postgres keeps them: signed integers, bytes and text.

use tokio_postgres::Row;

use super::failure::Fault;
use crate::store::columns::Columns;
use crate::store::{Sensitivity, StoreError};

impl Columns for Row {
    type Error = Fault;

    fn maybe_number(&self, column: &str) -> Result<Option<i64>, Fault> {
        Ok(self.try_get(column)?)
    }

    fn maybe_text(&self, column: &str) -> Result<Option<String>, Fault> {
        Ok(self.try_get(column)?)
    }

    fn maybe_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.try_get(column)?)
    }

    fn place(&self, column: &str) -> Result<u64, Fault> {
        self.amount(column)
    }

    fn sensitivity(&self) -> Result<Option<Sensitivity>, Fault> {
        let rank = usize::try_from(self.try_get::<_, i16>("sensitivity")?).ok();
        Ok(rank.and_then(|rank| Sensitivity::ALL.get(rank)).copied())
    }

    fn unreadable(column: &str) -> Fault {
        StoreError::Damaged(format!("the column {column} does not hold what was written")).into()
    }
}

/// A place as a bound; there is nothing after the last one that can be stored.
pub(super) fn bound(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}
