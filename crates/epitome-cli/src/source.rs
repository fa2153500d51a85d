//! The source of an imported thread: the file's exact bytes, and what of it the model no longer saw.
//!
//! A small file is kept in a document, a large one as an artifact that the document names.

use epitome::session::{LogMessage, Session};
use epitome_runtime::artifact::PutOptions;
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::log::NewDocument;
use epitome_runtime::store::{DocumentKind, Write};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::open_store::OpenStore;

/// A file of more bytes is an artifact.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Where a thread came from.
#[derive(Debug, Serialize, Deserialize)]
pub struct Source {
    /// The file's name.
    pub file: String,
    /// Its format.
    pub format: String,
    /// How many messages it has.
    pub messages: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The messages that the model no longer saw, as runs of places: first, and the one after the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<(u64, u64)>,
    /// The messages that are in the search index, as such runs: all but copies that a compaction made.
    pub indexed: Vec<(u64, u64)>,
    kept: Kept,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    Text(String),
    Artifact(String),
}

impl Source {
    /// The source of a thread, if it was imported.
    pub async fn of(open_store: &OpenStore, thread: &ThreadId) -> Result<Option<Source>, Failure> {
        Ok(open_store.log().document(&open_store.access.tenant, DocumentKind::Source, thread.as_str()).await?.0)
    }

    /// The writes that keep a session's file.
    pub async fn keep(
        open_store: &OpenStore,
        thread: &ThreadId,
        file: String,
        session: &Session,
    ) -> Result<Vec<Write>, Failure> {
        let text = session.source().as_str();
        let mut writes = Vec::new();
        let kept = match text.len() > DOCUMENT_BYTES_MAX {
            false => Kept::Text(text.to_owned()),
            true => {
                let sensitivity = open_store.configured.config().artifacts.sensitivity;
                let tokens = epitome::budget::Tokens::ZERO;
                let options = PutOptions { at: Moment::now(), sensitivity, ttl: None, tokens };
                let artifacts = open_store.engine.artifacts();
                writes.push(artifacts.put(&open_store.access, thread, text.as_bytes(), options).await?);
                Kept::Artifact(artifacts.id(&open_store.access.tenant, text.as_bytes()).as_str().to_owned())
            }
        };
        let source = Source {
            file,
            format: session.format().name().to_owned(),
            messages: session.log().len() as u64,
            bytes: text.len() as u64,
            left: runs(session, |message| !message.in_context),
            indexed: runs(session, |message| message.copy_of.is_none()),
            kept,
        };
        writes.push(open_store.log().put_document(NewDocument::new(
            &open_store.access.tenant,
            DocumentKind::Source,
            thread.as_str(),
            &source,
        )));
        Ok(writes)
    }

    /// The file's text.
    pub async fn text(self, open_store: &OpenStore) -> Result<String, Failure> {
        match self.kept {
            Kept::Text(text) => Ok(text),
            Kept::Artifact(id) => {
                Ok(open_store.engine.artifacts().read(&open_store.access, &id, Moment::now()).await?.into_text())
            }
        }
    }
}

/// The runs of messages of a session's log that are so.
fn runs(session: &Session, is_so: impl Fn(&LogMessage) -> bool) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (at, _) in (0..).zip(session.log()).filter(|(_, message)| is_so(message)) {
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}
