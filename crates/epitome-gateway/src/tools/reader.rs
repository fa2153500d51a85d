//! A thread that is read back: one that is open, or one that was imported from an agent's own session.
//!
//! An imported session cannot be continued, but what is in it can be read and searched all the same.

use epitome::thread::{Media, Part};
use epitome::wire::media_in;
use epitome_runtime::artifact::{Access, Permission};
use epitome_runtime::engine::{Engine, EngineError, OpenThread};
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::log::{LogEntry, LogError};
use epitome_runtime::recall::{
    FileQuestion, MessageSelection, RecallRequest, RecallResult, file_answer, read_messages,
};
use epitome_runtime::store::ThreadRow;
use serde_json::Value;

use super::call::ReadTarget;

/// A thread that is read back.
#[derive(Debug)]
pub enum Reader<'a> {
    /// One that is open.
    Open(&'a mut OpenThread),
    /// One that can only be read.
    Imported(&'a Imported),
}

/// A thread, opened as far as it can be.
#[derive(Debug)]
pub enum OpenedThread {
    /// It can be read and continued.
    Open(Box<OpenThread>),
    /// It can be read.
    Imported(Box<Imported>),
}

impl OpenedThread {
    /// Opens a thread that is there.
    pub async fn load(engine: &Engine, access: &Access, thread: ThreadId) -> Result<OpenedThread, EngineError> {
        match engine.resume(access, thread.clone()).await {
            Ok(open) => Ok(OpenedThread::Open(Box::new(open))),
            Err(EngineError::Foreign(_)) => {
                Ok(OpenedThread::Imported(Box::new(Imported::load(engine, access, thread).await?)))
            }
            Err(error) => Err(error),
        }
    }

    /// It as something to read.
    pub fn reader(&mut self) -> Reader<'_> {
        match self {
            OpenedThread::Open(open) => Reader::Open(open),
            OpenedThread::Imported(imported) => Reader::Imported(imported),
        }
    }
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

    async fn messages(&self, selection: &MessageSelection) -> Result<Vec<LogEntry>, EngineError> {
        self.may_read()?;
        Ok(read_messages(self.engine.log(), &self.row, selection).await?)
    }

    async fn file_answer(&self, question: &FileQuestion) -> Result<String, EngineError> {
        self.may_read()?;
        let tools = &self.engine.settings().policy.tools;
        Ok(file_answer(self.engine.log(), &self.row, question, tools).await?)
    }

    async fn artifact(&self, id: &str) -> Result<String, EngineError> {
        Ok(self.engine.artifacts().read(&self.access, id, Moment::now()).await?.into_text())
    }

    async fn recall(&self, request: &RecallRequest) -> Result<RecallResult, EngineError> {
        self.may_read()?;
        self.engine.search(&self.row, request, None).await
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
    /// Messages: one as it is, several each under its number and role.
    fn of_messages(entries: &[LogEntry], is_single: bool) -> ReadContent {
        let media = entries.iter().flat_map(|entry| &entry.message.parts).flat_map(Part::media).cloned().collect();
        let told = |entry: &LogEntry| match is_single {
            true => entry.words(),
            false => format!("[m{} {}]\n{}", entry.place + 1, entry.message.role.name(), entry.words()),
        };
        ReadContent { text: entries.iter().map(told).collect::<Vec<_>>().join("\n\n"), media }
    }

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

    /// The whole of what is to be read.
    pub async fn read(&mut self, target: &ReadTarget) -> Result<ReadContent, EngineError> {
        match target {
            ReadTarget::Artifact(id) => {
                let content = match self {
                    Reader::Open(thread) => thread.read_artifact(id).await?.into_text(),
                    Reader::Imported(imported) => imported.artifact(id).await?,
                };
                Ok(ReadContent::of_artifact(id, content))
            }
            ReadTarget::Messages(selection, around) => {
                let is_single = *around == 0 && selection.single().is_some();
                let selection = selection.with_neighbors(*around, self.row().length);
                let entries = match self {
                    Reader::Open(thread) => thread.read_messages(&selection).await?,
                    Reader::Imported(imported) => imported.messages(&selection).await?,
                };
                if entries.is_empty() {
                    return Err(EngineError::NoMessage(selection.to_string()));
                }
                Ok(ReadContent::of_messages(&entries, is_single))
            }
            ReadTarget::File(question) => {
                let text = match self {
                    Reader::Open(thread) => thread.file_answer(question).await?,
                    Reader::Imported(imported) => imported.file_answer(question).await?,
                };
                Ok(ReadContent { text, media: Vec::new() })
            }
        }
    }

    /// Passages that fit a query.
    pub async fn recall(&mut self, request: &RecallRequest) -> Result<RecallResult, EngineError> {
        match self {
            Reader::Open(thread) => thread.recall(request.clone()).await,
            Reader::Imported(imported) => imported.recall(request).await,
        }
    }
}
