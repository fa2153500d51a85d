//! Opening a database: the file, the settings of a connection, and the schema brought up to date.
//!
//! A database of a newer schema, or of another program, is left as it is.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rusqlite_migration::{M, Migrations};

use super::failure::Fault;
use crate::store::rule::refused;
use crate::store::{Result, StoreError};

pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest wait for other processes that create, migrate or lock the same database, in total.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3);

const STEP_TIMEOUT: Duration = Duration::from_millis(250);

const PAUSE: Duration = Duration::from_millis(20);

/// All steps of the schema, oldest first.
pub(super) const STEPS: [&str; 4] = [
    include_str!("migrations/0001_threads.sql"),
    include_str!("migrations/0002_search.sql"),
    include_str!("migrations/0003_scope.sql"),
    include_str!("migrations/0004_vectors.sql"),
];

static MIGRATIONS: LazyLock<Migrations<'static>> = LazyLock::new(|| Migrations::new(STEPS.map(M::up).to_vec()));

/// The connection that writes. Makes the file and its folder when they are not there, and the schema the newest.
pub(super) fn writer(path: &Path, busy_timeout: Duration) -> Result<Connection, Fault> {
    make_file(path)?;
    open_file(path, busy_timeout).map_err(|fault| match StoreError::from(fault) {
        StoreError::Unavailable(reason) if is_read_only(path) => StoreError::ReadOnly(reason).into(),
        error => error.into(),
    })
}

/// Tells whether a file can be read and not be written. SQLite, which needs files beside it, only says that it cannot open them.
fn is_read_only(path: &Path) -> bool {
    let opened = OpenOptions::new().write(true).open(path);
    opened.is_err_and(|error| matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied))
}

fn open_file(path: &Path, busy_timeout: Duration) -> Result<Connection, Fault> {
    let until = Instant::now() + OPEN_TIMEOUT;
    let mut conn = Connection::open_with_flags(path, flags())?;
    conn.busy_timeout(STEP_TIMEOUT)?;
    retried(until, Fault::is_locked, || not_foreign(&conn, path))?;
    retried(until, Fault::may_pass, || set_up_file(&conn))?;
    prepare(&mut conn, until)?;
    conn.busy_timeout(busy_timeout)?;
    Ok(conn)
}

/// Sets what stays with the file. What is set already is left alone: to set it again would wait for whoever writes.
fn set_up_file(conn: &Connection) -> Result<(), Fault> {
    const INCREMENTAL: u32 = 2;
    if conn.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, u32>(0))? != INCREMENTAL {
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL;")?;
    }
    if conn.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))? != "wal" {
        conn.execute_batch("PRAGMA journal_mode = WAL;")?;
    }
    Ok(())
}

/// The only connection of a database that is in memory.
pub(super) fn in_memory() -> Result<Connection, Fault> {
    let mut conn = Connection::open_in_memory()?;
    prepare(&mut conn, Instant::now())?;
    Ok(conn)
}

/// A connection that reads while others write.
pub(super) fn reader(path: &Path) -> Result<Connection, Fault> {
    let conn = Connection::open_with_flags(path, flags())?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -16000;")?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// The schema that a file has; 0 when it is not there.
pub(super) fn schema(path: &Path) -> Result<u64, Fault> {
    if !path.exists() {
        return Ok(0);
    }
    let conn = reader(path)?;
    not_foreign(&conn, path)?;
    version(&conn)
}

fn version(conn: &Connection) -> Result<u64, Fault> {
    Ok(conn.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0))?.into())
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn prepare(conn: &mut Connection, until: Instant) -> Result<(), Fault> {
    conn.set_transaction_behavior(TransactionBehavior::Immediate);
    conn.set_prepared_statement_cache_capacity(64);
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -16000;")?;
    retried(until, Fault::may_pass, || migrate(conn))
}

/// Brings the schema up to date. Another process may do so at the same moment: then its steps stand, and ours fail.
fn migrate(conn: &mut Connection) -> Result<(), Fault> {
    let known = STEPS.len() as u64;
    let found = version(conn)?;
    if found > known {
        return Err(StoreError::Newer { found, known }.into());
    }
    if found == known {
        return Ok(());
    }
    MIGRATIONS.to_latest(conn).map_err(|error| match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
        other => StoreError::Refused(other.to_string()).into(),
    })
}

/// Works again while somebody else may have been in the way, until then.
fn retried(
    until: Instant,
    may_pass: impl Fn(&Fault) -> bool,
    mut work: impl FnMut() -> Result<(), Fault>,
) -> Result<(), Fault> {
    loop {
        match work() {
            Err(fault) if may_pass(&fault) && Instant::now() < until => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
}

/// Refuses a database that another program made.
fn not_foreign(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let unversioned =
        "SELECT (SELECT user_version FROM pragma_user_version) = 0 AND EXISTS (SELECT 1 FROM sqlite_master)";
    if conn.query_row(unversioned, [], |row| row.get(0))? {
        let path = path.display();
        refused(format!("{path} is a database of another program; name another file"))?;
    }
    Ok(())
}

/// Makes the file readable for its owner only, unless it is there.
fn make_file(path: &Path) -> Result<()> {
    let made = make_folder(path).and_then(|()| owners().open(path).map(drop));
    let Err(error) = made else { return Ok(()) };
    let reason = format!("{} cannot be made: {}", path.display(), error.kind());
    match error.kind() {
        ErrorKind::AlreadyExists => Ok(()),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Err(StoreError::Full(reason)),
        ErrorKind::ReadOnlyFilesystem => Err(StoreError::ReadOnly(reason)),
        _ => Err(StoreError::Unavailable(reason)),
    }
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .recursive(true)
        .create(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

fn owners() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
