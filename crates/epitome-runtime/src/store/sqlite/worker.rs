//! The connections of a database: one that writes, on a thread of its own, and a few that read.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::failure::Fault;
use super::file::OpenFile;
use super::{apply, open};
use crate::store::{Result, StoreError, Write};

const READERS_MAX: usize = 4;

/// The most batches in one transaction.
const GROUP_MAX: usize = 64;

type Work = Box<dyn FnOnce(&mut Connection) + Send>;

enum Task {
    Apply(Batch),
    Run(Work),
}

struct Batch {
    writes: Vec<Write>,
    reply: oneshot::Sender<Result<()>>,
}

/// The connection that writes, with group commit.
///
/// ```text
/// apply(a) ─┐            thread epitome-sqlite
/// apply(b) ─┼─► queue ─► BEGIN; SAVEPOINT a …; SAVEPOINT b … (conflict, rolled back); SAVEPOINT c …; COMMIT ─► answers
/// apply(c) ─┘            one fsync for all that waited together; a: Ok, b: Conflict, c: Ok
/// ```
///
/// A commit costs an fsync, which takes longer than the statements. While the thread commits, other batches gather in the
/// queue, and the next transaction takes up to 64 of them. Each has a savepoint of its own: one can fail without the others.
/// No batch is answered before the transaction is on disk. If the transaction itself fails, each batch is tried alone, so
/// that a bad one cannot take the others down; a locked database fails all of them at once, because each alone would wait
/// for the same lock again.
///
/// Dropping the writer closes the queue, lets the thread write what is in it, and joins it.
#[derive(Debug)]
pub(super) struct Writer {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. With a file, batches fail from the moment at which the file is deleted.
    pub(super) fn new(conn: Connection, file: Option<OpenFile>) -> Result<Self> {
        let (tasks, queue) = channel();
        let thread =
            std::thread::Builder::new().name("epitome-sqlite".into()).spawn(move || serve(conn, file.as_ref(), &queue));
        let thread = thread.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Writer { tasks: Some(tasks), thread: Some(thread) })
    }

    /// Applies writes, all of them or none.
    pub(super) async fn apply(&self, writes: Vec<Write>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.send(Task::Apply(Batch { writes, reply }))?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Runs other work on the connection, between two transactions.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Task::Run(Box::new(move |conn| drop(reply.send(work(conn).map_err(StoreError::from))))))?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    fn send(&self, task: Task) -> Result<()> {
        self.tasks.as_ref().ok_or_else(stopped)?.send(task).map_err(|_| stopped())
    }
}

impl Drop for Writer {
    /// Waits until the queue is written and the database is closed.
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("its writer has stopped".into())
}

fn serve(mut conn: Connection, file: Option<&OpenFile>, queue: &Receiver<Task>) {
    while let Ok(task) = queue.recv() {
        let mut group = Vec::new();
        let mut after = take(task, &mut group);
        while after.is_none() && group.len() < GROUP_MAX {
            let Ok(task) = queue.try_recv() else { break };
            after = take(task, &mut group);
        }
        // A transaction on a file that was deleted succeeds, and is gone with the process.
        match file.filter(|file| !file.is_there()) {
            None => commit(&mut conn, group),
            Some(file) => group.into_iter().for_each(|batch| drop(batch.reply.send(Err(file.deleted())))),
        }
        if let Some(work) = after {
            work(&mut conn);
        }
    }
}

fn take(task: Task, group: &mut Vec<Batch>) -> Option<Work> {
    match task {
        Task::Apply(batch) => {
            group.push(batch);
            None
        }
        Task::Run(work) => Some(work),
    }
}

fn commit(conn: &mut Connection, group: Vec<Batch>) {
    if group.len() > 1 {
        match together(conn, &group) {
            Ok(outcomes) => return answer(group, outcomes),
            // Each alone would wait as long again.
            Err(fault) if fault.is_locked() => {
                let error = StoreError::from(fault);
                return group.into_iter().for_each(|batch| drop(batch.reply.send(Err(error.clone()))));
            }
            Err(_) => {}
        }
    }
    for batch in group {
        if batch.reply.is_closed() {
            continue;
        }
        let outcome = alone(conn, &batch.writes).map_err(StoreError::from);
        drop(batch.reply.send(outcome));
    }
}

fn answer(group: Vec<Batch>, outcomes: Vec<Result<()>>) {
    for (batch, outcome) in group.into_iter().zip(outcomes) {
        drop(batch.reply.send(outcome));
    }
}

fn alone(conn: &mut Connection, writes: &[Write]) -> Result<(), Fault> {
    let transaction = conn.transaction()?;
    apply::all(&transaction, writes)?;
    Ok(transaction.commit()?)
}

/// Applies all batches in one transaction. Fails as a whole when the database does; a conflict is its batch's outcome.
fn together(conn: &mut Connection, group: &[Batch]) -> Result<Vec<Result<()>>, Fault> {
    let mut transaction = conn.transaction()?;
    let mut outcomes = Vec::with_capacity(group.len());
    for batch in group {
        let savepoint = transaction.savepoint()?;
        outcomes.push(match apply::all(&savepoint, &batch.writes) {
            Ok(()) => {
                savepoint.commit()?;
                Ok(())
            }
            Err(fault) if fault.is_of_the_write() => {
                savepoint.finish()?;
                Err(fault.into())
            }
            Err(fault) => return Err(fault),
        });
    }
    transaction.commit()?;
    Ok(outcomes)
}

/// Connections that read, opened as they are needed.
#[derive(Debug)]
pub(super) struct Readers {
    file: OpenFile,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(file: OpenFile) -> Self {
        Readers { file, idle: Mutex::new(Vec::new()), permits: Arc::new(Semaphore::new(READERS_MAX)) }
    }

    /// Reads, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| stopped())?;
        let readers = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            // A caller that stopped waiting has not stopped this thread, so that its permit stays taken.
            let _permit = permit;
            readers.with(work).map_err(StoreError::from)
        });
        done.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        if !self.file.is_there() {
            return Err(self.file.deleted().into());
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut conn = idle.map_or_else(|| open::reader(self.file.path()), Ok)?;
        let answer = work(&mut conn)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        Ok(answer)
    }
}
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn reads_that_nobody_waits_for_any_more_count_until_they_are_over() {
        let path = std::env::temp_dir().join(format!("epitome-readers-{}.db", uuid::Uuid::now_v7()));
        drop(Connection::open(&path).unwrap());
        let readers = Arc::new(Readers::new(OpenFile::at(&path)));
        let (go_on, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let moment = Duration::from_millis(50);
        for _ in 0..READERS_MAX {
            let wait = Arc::clone(&wait);
            let stuck = readers.read(move |_| {
                let _ = wait.lock().unwrap_or_else(PoisonError::into_inner).recv();
                Ok(())
            });
            assert!(tokio::time::timeout(moment, stuck).await.is_err());
        }
        assert!(tokio::time::timeout(moment, readers.read(|_| Ok(()))).await.is_err(), "all of them are still reading");
        drop(go_on);
        readers.read(|_| Ok(())).await.unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
