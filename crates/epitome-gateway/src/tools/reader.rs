//! A thread that is read back: one that is open, or one that was imported from an agent's own session.
//!
//! An imported session cannot be continued, but what is in it can be read and searched all the same.

use epitome::thread::{Media, Part};
use epitome::wire::media_in;
use epitome_runtime::artifact::{Access, Permission};
use epitome_runtime::engine::{Engine, EngineError, OpenThread};
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::log::LogError;
use epitome_runtime::recall::{RecallQuery, RecallResult, recall};
use epitome_runtime::store::ThreadRow;
use serde_json::Value;

/// The most passages of an answer of recall.
const HITS_MAX: usize = 12;

/// A thread that is read back.
#[derive(Debug)]
pub enum Reader<'a> {
    /// One that is open.
    Open(&'a mut OpenThread),
    /// One that can only be read.
    Imported(&'a Imported),
}

/// A thread that was imported from an agent's own session.
#[derive(Debug)]
pub struct Imported {
    engine: Engine,
    access: Access,
    row: ThreadRow,
}

impl Imported {
    /// The thread, if it is there.
    pub async fn load(engine: &Engine, access: &Access, thread: ThreadId) -> Result<Imported, EngineError> {
        let imported = |row| Imported { engine: engine.clone(), access: access.clone(), row };
        if !access.may(Permission::ReadThread) {
            return Err(EngineError::NotAllowed);
        }
        let key = ThreadKey::new(access.tenant.clone(), thread);
        let row = engine.log().thread(&key).await?;
        Ok(imported(row.ok_or(LogError::NoThread(key.thread))?))
    }

    /// Its messages are read with the same permission as its artifacts.
    fn may_read(&self) -> Result<(), EngineError> {
        if self.access.may_read(self.engine.settings().retention.sensitivity) {
            Ok(())
        } else {
            Err(EngineError::NotAllowed)
        }
    }

    async fn message(&self, reference: &str) -> Result<ReadContent, EngineError> {
        self.may_read()?;
        let missing = || EngineError::NoMessage(reference.to_owned());
        let place = place(reference).filter(|place| *place < self.row.length).ok_or_else(missing)?;
        let entry = self.engine.log().read(&self.row, place..place + 1).await?.pop();
        let entry = entry.ok_or_else(missing)?;
        Ok(ReadContent {
            text: entry.words(),
            media: entry.message.parts.iter().flat_map(Part::media).cloned().collect(),
        })
    }

    async fn artifact(&self, id: &str) -> Result<String, EngineError> {
        Ok(self.engine.artifacts().read(&self.access, id, Moment::now()).await?.into_text())
    }

    async fn recall(&self, words: &str) -> Result<RecallResult, EngineError> {
        self.may_read()?;
        let query = RecallQuery { words, tokens_max: self.engine.settings().recall_tokens, hits_max: HITS_MAX };
        Ok(recall(self.engine.log(), &self.row, &query, &**self.engine.counter()).await?)
    }
}

/// Content that was read back.
#[derive(Clone, Debug, Default)]
pub struct ReadContent {
    /// Its words. Media is named in them, not spelled out.
    pub text: String,
    /// The images and files in it, each as the part it came as.
    pub media: Vec<Media>,
}

impl ReadContent {
    /// An artifact's content: words, or a part that was more than words.
    fn of_artifact(id: &str, content: String) -> ReadContent {
        let media = if content.starts_with('{') { media_in(&content) } else { Vec::new() };
        if media.is_empty() {
            return ReadContent { text: content, media };
        }
        let named = media.iter().map(|media| format!("[{}: {media}]", media.kind.label()));
        let text: Vec<String> = std::iter::once(format!("artifact {id}")).chain(named).chain(words(&content)).collect();
        ReadContent { text: text.join("\n"), media }
    }
}

/// The words of a tool's answer beside its media.
fn words(content: &str) -> Option<String> {
    let value: Value = serde_json::from_str(content).ok()?;
    let blocks = ["/content", "/output", "/output/value"].iter().find_map(|place| value.pointer(place)?.as_array())?;
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    Some(texts.join("\n"))
}

impl Reader<'_> {
    /// The thread's row in the store.
    pub fn row(&self) -> &ThreadRow {
        match self {
            Reader::Open(thread) => thread.row(),
            Reader::Imported(imported) => &imported.row,
        }
    }

    /// The whole of an artifact, or of a message as its references call it.
    pub async fn read(&mut self, id: &str) -> Result<ReadContent, EngineError> {
        match (self, place(id)) {
            (Reader::Open(thread), Some(_)) => {
                Ok(ReadContent { text: thread.read_message(id, None).await?, media: thread.message_media(id).await? })
            }
            (Reader::Open(thread), None) => {
                Ok(ReadContent::of_artifact(id, thread.read_artifact(id).await?.into_text()))
            }
            (Reader::Imported(imported), Some(_)) => imported.message(id).await,
            (Reader::Imported(imported), None) => Ok(ReadContent::of_artifact(id, imported.artifact(id).await?)),
        }
    }

    /// Passages that fit a query.
    pub async fn recall(&mut self, words: &str) -> Result<RecallResult, EngineError> {
        match self {
            Reader::Open(thread) => thread.recall(words).await,
            Reader::Imported(imported) => imported.recall(words).await,
        }
    }
}

/// The place of a message, from 0, by its reference: `m41`. Nothing that looks otherwise is one.
pub(super) fn place(reference: &str) -> Option<u64> {
    let digits = reference.strip_prefix('m').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse::<u64>().map(|number| number.wrapping_sub(1)).ok()
}
