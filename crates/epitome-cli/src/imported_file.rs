//! The file that a thread was imported from: its exact bytes, and which of its messages the model no longer saw.
//!
//! A small file is stored in a document, a large one as an artifact that the document names.

use epitome::budget::Tokens;
use epitome::session::{LogMessage, Session};
use epitome_runtime::artifact::PutOptions;
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::log::{NewDocument, place_runs};
use epitome_runtime::store::{DocumentKind, Write};
use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::open_store::OpenStore;

/// Larger files become artifacts.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// The document that describes an imported file.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportedFile {
    /// The file's name.
    file: String,
    format: String,
    pub messages: u64,
    bytes: u64,
    /// The messages that the model no longer saw, as runs of places: the first, and the one after the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<(u64, u64)>,
    /// The messages in the search index, as such runs: all but copies that a compaction made.
    indexed: Vec<(u64, u64)>,
    kept: Content,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Text(String),
    Artifact(String),
}

impl ImportedFile {
    /// Finds the file of a thread, if it was imported.
    pub async fn of(store: &OpenStore, thread: &ThreadId) -> Result<Option<ImportedFile>> {
        Ok(store.log().document(&store.access.tenant, DocumentKind::Source, thread.as_str()).await?.0)
    }

    /// Stores a large file's bytes, and returns the writes for the rest.
    pub async fn put(store: &OpenStore, thread: &ThreadId, file: String, session: &Session) -> Result<Vec<Write>> {
        let text = session.source().as_str();
        let mut writes = Vec::new();
        let kept = if text.len() <= DOCUMENT_BYTES_MAX {
            Content::Text(text.to_owned())
        } else {
            let sensitivity = store.config.values().artifacts.sensitivity;
            let options = PutOptions { at: Moment::now(), sensitivity, ttl: None, tokens: Tokens::ZERO };
            let artifacts = store.engine.artifacts();
            writes.push(artifacts.put(&store.access, thread, text.as_bytes(), options).await?);
            Content::Artifact(artifacts.id(&store.access.tenant, text.as_bytes()).as_str().to_owned())
        };
        let imported = ImportedFile {
            file,
            format: session.format().name().to_owned(),
            messages: session.log().len() as u64,
            bytes: text.len() as u64,
            left: runs(session, |message| !message.in_context),
            indexed: runs(session, |message| message.copy_of.is_none()),
            kept,
        };
        // A document without its thread is left from an import that was interrupted; this one replaces it.
        let tenant = &store.access.tenant;
        let document = NewDocument::new(tenant, DocumentKind::Source, thread.as_str(), &imported);
        writes.push(store.log().put_document(document));
        Ok(writes)
    }

    /// Reads the file's text.
    pub async fn text(self, store: &OpenStore) -> Result<String> {
        match self.kept {
            Content::Text(text) => Ok(text),
            Content::Artifact(id) => {
                Ok(store.engine.artifacts().read(&store.access, &id, Moment::now()).await?.into_text())
            }
        }
    }
}

/// Returns the runs of messages that match, as their first place and the one after their last.
fn runs(session: &Session, matches: impl Fn(&LogMessage) -> bool) -> Vec<(u64, u64)> {
    place_runs((0..).zip(session.log()).filter(|(_, message)| matches(message)).map(|(place, _)| place))
}
