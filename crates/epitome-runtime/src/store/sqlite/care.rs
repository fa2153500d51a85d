//! Looking after a database: what is wrong with it, and what may go.

use rusqlite::{Connection, params};

use super::failure::Result;
use crate::ids::Moment;

/// Looks for damage and describes it in sentences.
pub(super) fn check(conn: &Connection) -> Result<Vec<String>> {
    let mut pragma = conn.prepare("PRAGMA integrity_check(100)")?;
    let lines: Vec<String> = pragma.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut found: Vec<String> =
        lines.into_iter().filter(|line| line != "ok").map(|line| format!("SQLite says: {line}.")).collect();
    let mut pragma = conn.prepare("PRAGMA foreign_key_check")?;
    let tables: Vec<String> = pragma.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    found.extend(tables.iter().map(|table| format!("A row of {table} belongs to a thread that is not there.")));
    found.append(&mut gaps(conn)?);
    Ok(found)
}

/// Threads that do not hold all their messages, plans and events, and rows of threads that are not there.
fn gaps(conn: &Connection) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (rows, first, end) in [("messages", "base", "length"), ("plans", "1", "version + 1"), ("events", "1", "NULL")] {
        let sql = format!(
            "SELECT tenant || '/' || thread FROM (SELECT *, \
             (SELECT count(*) FROM {rows} WHERE slot BETWEEN no << 32 AND ((no + 1) << 32) - 1) AS held, \
             (SELECT min(slot) - (no << 32) FROM {rows} WHERE slot BETWEEN no << 32 AND ((no + 1) << 32) - 1) AS low, \
             (SELECT max(slot) - (no << 32) FROM {rows} WHERE slot BETWEEN no << 32 AND ((no + 1) << 32) - 1) AS high \
             FROM threads) WHERE CASE WHEN held = 0 THEN coalesce({end}, {first}) <> {first} \
             ELSE low <> {first} OR high + 1 <> coalesce({end}, high + 1) OR held <> high - low + 1 END"
        );
        let mut select = conn.prepare(&sql)?;
        let threads: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        found.extend(threads.into_iter().map(|thread| format!("Thread {thread} does not hold all of its {rows}.")));
        let strays = format!("SELECT count(*) FROM {rows} WHERE slot >> 32 NOT IN (SELECT no FROM threads)");
        let strays: i64 = conn.query_row(&strays, [], |row| row.get(0))?;
        found.extend((strays > 0).then(|| format!("{strays} of the {rows} belong to a thread that is not there.")));
    }
    Ok(found)
}

/// Writes the database anew: the index without the terms of removed passages, and no page with anything old in it.
pub(super) fn scrub(conn: &mut Connection) -> Result<()> {
    conn.execute_batch("INSERT INTO search (search) VALUES ('optimize'); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?;
    Ok(())
}

/// Removes what has had its time, and gives space back. How many rows that were.
pub(super) fn vacuum(conn: &mut Connection, before: Moment) -> Result<u64> {
    let transaction = conn.transaction()?;
    let documents = transaction.execute("DELETE FROM documents WHERE expires < ?", params![before.0])?;
    let finished = "DELETE FROM jobs WHERE state IN ('done', 'dead') AND queued < ?";
    let jobs = transaction.execute(finished, params![before.0])?;
    transaction.commit()?;
    give_back(conn)?;
    Ok((documents + jobs) as u64)
}

/// Gives free pages back to the file system. Each step of the first statement gives one.
fn give_back(conn: &Connection) -> Result<()> {
    let mut pragma = conn.prepare("PRAGMA incremental_vacuum")?;
    let mut pages = pragma.query([])?;
    while pages.next()?.is_some() {}
    Ok(conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?)
}
