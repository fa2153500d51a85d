//! Rows of the SQL stores as values. Each store says how it reads a column; which columns a row has stands here, once.

use std::str::FromStr;

use epitome::thread::MessageId;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::encode::id_from;
use super::{
    ArtifactRow, DocumentKey, DocumentRow, EventRow, Found, JobId, JobKind, JobRow, JobState, Lease, MessageRow,
    PlanRow, Sensitivity, StoredKind, ThreadRow,
};
use crate::ids::{Moment, TenantId, ThreadKey};

/// A row of a query. Numbers are signed, because both databases know signed ones only.
pub(super) trait Columns {
    /// The error of the database's driver.
    type Error;

    fn maybe_number(&self, column: &str) -> Result<Option<i64>, Self::Error>;
    fn maybe_text(&self, column: &str) -> Result<Option<String>, Self::Error>;
    fn maybe_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, Self::Error>;
    /// The place of a message, the version of a plan or the number of an event within its thread.
    fn place(&self, column: &str) -> Result<u64, Self::Error>;
    fn sensitivity(&self) -> Result<Option<Sensitivity>, Self::Error>;
    /// The error of a column that does not hold what was written.
    fn unreadable(column: &str) -> Self::Error;

    fn number(&self, column: &str) -> Result<i64, Self::Error> {
        self.maybe_number(column)?.ok_or_else(|| Self::unreadable(column))
    }

    fn text(&self, column: &str) -> Result<String, Self::Error> {
        self.maybe_text(column)?.ok_or_else(|| Self::unreadable(column))
    }

    fn bytes(&self, column: &str) -> Result<Vec<u8>, Self::Error> {
        self.maybe_bytes(column)?.ok_or_else(|| Self::unreadable(column))
    }

    fn amount(&self, column: &str) -> Result<u64, Self::Error> {
        self.number(column).map(i64::cast_unsigned)
    }

    fn small(&self, column: &str) -> Result<u32, Self::Error> {
        u32::try_from(self.number(column)?).map_err(|_| Self::unreadable(column))
    }

    fn moment(&self, column: &str) -> Result<Moment, Self::Error> {
        self.number(column).map(Moment)
    }

    fn parsed<T: FromStr>(&self, column: &str) -> Result<T, Self::Error> {
        self.text(column)?.parse().map_err(|_| Self::unreadable(column))
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, Self::Error> {
        serde_json::from_str(&self.text(column)?).map_err(|_| Self::unreadable(column))
    }

    fn id(&self, column: &str) -> Result<MessageId, Self::Error> {
        id_from(&self.bytes(column)?).ok_or_else(|| Self::unreadable(column))
    }

    fn uuid(&self, column: &str) -> Result<Uuid, Self::Error> {
        Uuid::from_slice(&self.bytes(column)?).map_err(|_| Self::unreadable(column))
    }

    fn thread_key(&self) -> Result<ThreadKey, Self::Error> {
        Ok(ThreadKey::new(self.parsed("tenant")?, self.parsed("thread")?))
    }
}

/// A value that a row of a query holds.
pub(super) trait FromColumns: Sized + Send + 'static {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error>;
}

impl FromColumns for ThreadRow {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(ThreadRow {
            key: row.thread_key()?,
            created: row.moment("created")?,
            updated: row.moment("updated")?,
            length: row.amount("length")?,
            tip: row.id("tip")?,
            turn: row.small("turn")?,
            tokens: row.amount("tokens")?,
            version: row.amount("version")?,
            dialect: row.text("dialect")?,
            counter: row.text("counter")?,
            shared: row.json("shared")?,
            scope: row.text("scope")?,
            labels: row.bytes("labels")?,
        })
    }
}

impl FromColumns for MessageRow {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(MessageRow {
            place: row.place("place")?,
            id: row.id("id")?,
            turn: row.small("turn")?,
            part_tokens: row.json("parts")?,
            at: row.moment("at")?,
            body: row.bytes("body")?,
        })
    }
}

impl FromColumns for Found {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Found { thread: row.parsed("thread")?, place: row.place("place")? })
    }
}

impl FromColumns for PlanRow {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(PlanRow {
            version: row.place("version")?,
            at: row.moment("at")?,
            covers: row.amount("covers")?,
            live_from: row.amount("live_from")?,
            policy: row.text("policy")?,
            before: row.amount("before")?,
            after: row.amount("after")?,
            compacted: row.json("compacted")?,
            body: row.bytes("body")?,
        })
    }
}

impl FromColumns for EventRow {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let (number, at) = (row.place("number")?, row.moment("at")?);
        Ok(EventRow { number, at, kind: row.text("kind")?, body: row.bytes("body")? })
    }
}

impl FromColumns for DocumentRow {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let (version, at) = (row.amount("version")?, row.moment("at")?);
        Ok(DocumentRow { version, at, expires: row.maybe_number("expires")?.map(Moment), body: row.bytes("body")? })
    }
}

impl FromColumns for (DocumentKey, DocumentRow) {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let (kind, name) = (StoredKind::read(&row.text("kind")?), row.text("name")?);
        Ok((DocumentKey { tenant: row.parsed("tenant")?, kind, name }, DocumentRow::read(row)?))
    }
}

impl FromColumns for ArtifactRow {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(ArtifactRow {
            id: row.text("id")?,
            tenant: row.parsed("tenant")?,
            thread: row.parsed("thread")?,
            at: row.moment("at")?,
            expires: row.maybe_number("expires")?.map(Moment),
            key_id: row.maybe_text("key_id")?,
            sensitivity: row.sensitivity()?.ok_or_else(|| C::unreadable("sensitivity"))?,
            bytes: row.amount("bytes")?,
            tokens: row.amount("tokens")?,
        })
    }
}

impl FromColumns for JobRow {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let lease = match row.maybe_bytes("token")? {
            Some(_) => {
                let (worker, until) = (row.text("worker")?, row.moment("lease_until")?);
                Some(Lease { worker, token: row.uuid("token")?, until })
            }
            None => None,
        };
        Ok(JobRow {
            id: JobId(row.uuid("id")?),
            key: row.thread_key()?,
            kind: JobKind::from_name(&row.text("kind")?),
            state: JobState::from_name(&row.text("state")?).ok_or_else(|| C::unreadable("state"))?,
            attempts: row.small("attempts")?,
            attempts_max: row.small("attempts_max")?,
            due: row.moment("due")?,
            queued: row.moment("queued")?,
            lease,
            payload: row.text("payload")?,
            error: row.maybe_text("error")?,
        })
    }
}

impl FromColumns for TenantId {
    fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        row.parsed("tenant")
    }
}
