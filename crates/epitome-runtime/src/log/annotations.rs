//! Annotations: what people noted about a thread, beside its messages. The messages themselves stay as they were received.

use std::collections::BTreeMap;

use epitome::thread::Thread;
use serde::{Deserialize, Serialize};

use super::{Log, Result};
use crate::ids::ThreadKey;
use crate::store::DocumentKind;

/// The notes on a thread that change its prompts.
///
/// They are one document, written with the version that was read, so that two people who note something at once both keep
/// their note. A hidden message stays in the log, in exports and in what `recall` finds; only prompts have the replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// The hidden messages by their places in the log, each with the words that stand for it.
    pub hidden: BTreeMap<u64, String>,
    /// Words that every later prompt must hold.
    pub pins: Vec<String>,
    /// Words that were pinned and are no more: the next compaction leaves them out.
    pub unpinned: Vec<String>,
    /// True if the thread has a memory block, which then is in its prompts.
    pub has_memory: bool,
}

impl Annotations {
    /// Tells whether prompts are the same without them.
    pub fn is_empty(&self) -> bool {
        *self == Annotations::default()
    }

    /// Returns the notes that hold for the first `length` messages: those of a fork.
    pub(crate) fn until(mut self, length: u64) -> Annotations {
        self.hidden.retain(|place, _| *place < length);
        self
    }

    /// Hides the messages that are loaded.
    pub(crate) fn apply(&self, thread: &mut Thread) {
        if self.hidden.is_empty() {
            return;
        }
        for at in 0..thread.len() {
            let message = thread.message(at);
            let words = self.hidden.get(&(message.log_place() as u64)).filter(|_| !message.is_summary());
            if let Some(words) = words {
                thread.hide(at, words.as_str());
            }
        }
    }
}

impl Log {
    /// The notes on a thread, with the version of the document.
    pub async fn annotations(&self, key: &ThreadKey) -> Result<(Annotations, u64)> {
        let (notes, version) = self.document(&key.tenant, DocumentKind::Annotations, key.thread.as_str()).await?;
        Ok((notes.unwrap_or_default(), version))
    }
}
