//! What Postgres says, in the store's words.

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// A failure on its way to the caller. Apart from [`StoreError`] so that Postgres's errors stay out of the public surface.
#[derive(Debug)]
pub(in crate::store) enum Fault {
    /// It will be the same when it is tried again at once.
    Told(StoreError),
    /// Postgres broke off one of two transactions that stood in each other's way.
    Raced,
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Told(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let raced = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        match error.code() {
            Some(code) if raced.contains(code) => Fault::Raced,
            _ => Fault::Told(told(&error)),
        }
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            other => Fault::Told(StoreError::Unavailable(other.to_string())),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Told(error) => error,
            Fault::Raced => StoreError::conflict("what another transaction is writing"),
        }
    }
}

fn told(error: &Error) -> StoreError {
    let reason = words(error);
    let Some(code) = error.code() else { return without_code(error, reason) };
    match code.code() {
        "23505" => StoreError::conflict(reason),
        "53100" => StoreError::Full(reason),
        "XX001" | "XX002" => StoreError::Damaged(reason),
        "25006" => StoreError::ReadOnly(reason),
        "55P03" => StoreError::Locked(reason),
        "57014" => StoreError::Unavailable(reason),
        other if ["08", "53", "57", "58"].contains(&&other[..2]) => StoreError::Unavailable(reason),
        _ => StoreError::Refused(reason),
    }
}

/// Judges an error of the driver itself, mostly a lost connection, by its words: the driver has no kinds for them.
fn without_code(error: &Error, reason: String) -> StoreError {
    let broken = std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
    let begins = |words| reason.starts_with(words);
    if error.is_closed() || broken || begins("timeout") || begins("unexpected message") {
        StoreError::Unavailable(reason)
    } else if begins("error deserializing") {
        StoreError::Damaged(reason)
    } else {
        StoreError::Refused(reason)
    }
}

/// The driver's words with what is behind them.
fn words(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => told.to_string(),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
