//! What SQLite says, in the store's words.

use rusqlite::{Error, ErrorCode, ffi};

use crate::store::StoreError;

/// The result of a statement.
pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;

/// A failure on its way to the caller. Apart from [`StoreError`] so that SQLite's errors stay out of the public surface.
#[derive(Debug)]
pub(super) struct Fault(StoreError);

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault(told(&error))
    }
}

impl From<Fault> for StoreError {
    fn from(Fault(error): Fault) -> Self {
        error
    }
}

impl Fault {
    /// Tells whether somebody else may have been in the way.
    pub(super) fn may_pass(&self) -> bool {
        self.is_locked() || matches!(self.0, StoreError::Unavailable(_) | StoreError::Refused(_))
    }

    /// Tells whether another process has the database.
    pub(super) fn is_locked(&self) -> bool {
        matches!(self.0, StoreError::Locked(_))
    }

    /// Tells whether it is about the write itself and not about the database.
    pub(super) fn is_of_the_write(&self) -> bool {
        matches!(self.0, StoreError::Conflict(_) | StoreError::Refused(_))
    }
}

/// SQLite's error in the store's words.
pub(super) fn told(error: &Error) -> StoreError {
    let reason = error.to_string();
    match error {
        Error::SqliteFailure(code, _) => of_code(*code, reason),
        Error::InvalidColumnType(..) | Error::FromSqlConversionFailure(..) | Error::IntegralValueOutOfRange(..) => {
            StoreError::Damaged(reason)
        }
        _ => StoreError::Refused(reason),
    }
}

fn of_code(code: ffi::Error, reason: String) -> StoreError {
    let no_room = [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE].contains(&code.extended_code);
    match code.code {
        ErrorCode::DiskFull => StoreError::Full(reason),
        ErrorCode::SystemIoFailure if no_room => StoreError::Full(reason),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Locked(reason)
        }
        ErrorCode::ReadOnly => StoreError::ReadOnly(reason),
        ErrorCode::CannotOpen | ErrorCode::SystemIoFailure => StoreError::Unavailable(reason),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged(reason),
        _ => StoreError::Refused(reason),
    }
}
