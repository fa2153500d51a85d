//! Which thread a request is about: the one it names, the one that its session is fixed to, or the newest.

use epitome_runtime::artifact::{Access, Permission};
use epitome_runtime::engine::{Engine, EngineError};
use epitome_runtime::ids::ThreadId;
use epitome_runtime::store::ThreadRow;

use super::server::Session;
use crate::tools::{no_thread, sentence};

/// Threads are asked for so many at once.
const PAGE: usize = 500;
/// With more threads than this, one has to be named.
const LOOKED_AT_MAX: usize = 20_000;

/// The thread that a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChosenThread {
    /// Its name.
    pub thread: ThreadId,
    /// True if nobody named it.
    pub is_guess: bool,
}

impl ChosenThread {
    /// The thread that is named, or else the session's, or else the newest; or why there is none, in a sentence.
    pub async fn of(engine: &Engine, session: &Session, named: Option<&str>) -> Result<ChosenThread, String> {
        match (named, &session.thread) {
            (Some(named), Some(fixed)) if named != fixed.as_str() => {
                Err(format!("This connection is about thread `{fixed}` alone. Leave `thread` out."))
            }
            (_, Some(fixed)) => Ok(ChosenThread { thread: fixed.clone(), is_guess: false }),
            (Some(named), None) => {
                let thread = named.parse().map_err(|_| no_thread(named))?;
                Ok(ChosenThread { thread, is_guess: false })
            }
            (None, None) => {
                let newest = newest(engine, &session.access).await?;
                Ok(ChosenThread { thread: newest.key.thread, is_guess: true })
            }
        }
    }
}

/// The tenant's most recently updated thread.
async fn newest(engine: &Engine, access: &Access) -> Result<ThreadRow, String> {
    if !access.may(Permission::ReadThread) {
        return Err(sentence(&EngineError::NotAllowed));
    }
    let (mut newest, mut after, mut count) = (None::<ThreadRow>, None, 0);
    loop {
        let page = engine.log().store().threads(&access.tenant, after.as_ref(), PAGE).await;
        let page = page.map_err(|error| sentence(&error.into()))?;
        let is_last = page.len() < PAGE;
        count += page.len();
        after = page.last().map(|row| row.key.thread.clone());
        newest = newest.into_iter().chain(page).max_by_key(|row| row.updated);
        if is_last {
            return newest.ok_or_else(|| "There is no thread yet.".to_owned());
        }
        if count >= LOOKED_AT_MAX {
            return Err("There are too many threads to look for the newest one. Name one with `thread`.".to_owned());
        }
    }
}
