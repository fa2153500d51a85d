//! Why nothing was read, in a sentence that a model can act on. Whether another tenant has something is not told.

use epitome_runtime::artifact::{DenialReason, Denied};
use epitome_runtime::engine::EngineError;
use epitome_runtime::log::LogError;
use epitome_runtime::store::ThreadRow;

use super::call::shown;

/// An error as a sentence: a capital at its beginning, a full stop at its end.
pub fn sentence(error: &EngineError) -> String {
    match error {
        EngineError::Log(error) if error.is_passing() => later(error),
        EngineError::Log(LogError::NoThread(thread)) => no_thread(thread.as_str()),
        error => epitome_runtime::sentence(error),
    }
}

/// There is no such thread, or it is another tenant's: nobody can tell which from this.
pub(crate) fn no_thread(thread: &str) -> String {
    format!("There is no thread `{}`, or it is not available to you.", shown(thread))
}

fn later(error: &LogError) -> String {
    format!("The store cannot be read at the moment ({error}). Try again later, or go on without it.")
}

/// Explains to a model why an artifact or a message was not read.
pub fn refused(error: &EngineError, id: &str, row: &ThreadRow) -> String {
    match error {
        EngineError::Denied(denied) => unavailable(denied, &shown(id)),
        EngineError::NoMessage(_) if row.length == 0 => "The thread has no messages yet.".to_owned(),
        EngineError::NoMessage(_) => {
            format!("There is no message {} in the thread: it has m1 to m{}.", shown(id), row.length)
        }
        error => sentence(error),
    }
}

/// Only whoever may read an artifact hears that its time is over; for everybody else there is none.
fn unavailable(denied: &Denied, id: &str) -> String {
    match denied.reason() {
        DenialReason::Expired => {
            format!("Artifact {id} has expired and is not given out any more. If it is needed, make it again.")
        }
        _ if denied.is_passing() => {
            format!("Artifact {id} cannot be reached at the moment. Try again later, or go on without it.")
        }
        _ => absent(id),
    }
}

/// Explains to a model that a thread has no such artifact.
pub(super) fn no_artifact(id: &str) -> String {
    absent(&shown(id))
}

fn absent(id: &str) -> String {
    format!(
        "There is no artifact `{id}`, or it is not available to you. Use the id as a placeholder names it, or \
         search with `recall`."
    )
}
