//! Artifacts as resources: `epitome://thread/{thread}/artifact/{id}`, newest first.
//!
//! An address names a message as well: `epitome://thread/{thread}/artifact/m41`. What may not be read is not listed.

use std::collections::{BTreeMap, BTreeSet};

use epitome_runtime::artifact::{Access, Permission};
use epitome_runtime::engine::{Engine, EngineError};
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::log::ArtifactHint;
use epitome_runtime::store::ArtifactRow;
use rmcp::model::{Resource, ResourceTemplate};

use super::server::Session;

/// So many resources are listed at once.
const PAGE: usize = 50;
/// Artifacts are asked for so many at once.
const FETCH: usize = 500;
/// The most artifacts that are looked at for a list.
const LOOKED_AT_MAX: usize = 100_000;

/// The addresses, as a template.
pub(super) const TEMPLATE: &str = "epitome://thread/{thread}/artifact/{id}";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceUri {
    pub thread: ThreadId,
    pub id: String,
}

impl ResourceUri {
    /// The address that is written so.
    pub fn parse(uri: &str) -> Option<ResourceUri> {
        let (thread, id) = uri.strip_prefix("epitome://thread/")?.split_once("/artifact/")?;
        let is_id = !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_id.then_some(ResourceUri { thread: thread.parse().ok()?, id: id.to_owned() })
    }

    fn uri(thread: &ThreadId, id: &str) -> String {
        TEMPLATE.replace("{thread}", thread.as_str()).replace("{id}", id)
    }
}

/// The cursor of a list: the artifact before the next page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListCursor {
    /// Newest first.
    at: std::cmp::Reverse<i64>,
    id: String,
}

impl ListCursor {
    fn of(row: &ArtifactRow) -> ListCursor {
        ListCursor { at: std::cmp::Reverse(row.at.0), id: row.id.clone() }
    }

    /// The cursor that is written so.
    pub fn parse(text: &str) -> Option<ListCursor> {
        let (at, id) = text.split_once('.')?;
        Some(ListCursor { at: std::cmp::Reverse(at.parse().ok()?), id: id.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}.{}", self.at.0, self.id)
    }
}

/// A part of the list, and the cursor of the next.
pub(super) struct ResourceList {
    pub resources: Vec<Resource>,
    pub next: Option<String>,
}

/// The artifacts that a session may read, newest first.
pub(super) async fn list(
    engine: &Engine,
    session: &Session,
    after: Option<ListCursor>,
) -> Result<ResourceList, EngineError> {
    let mut rows = newest(engine, session, after).await?;
    let next = (rows.len() > PAGE).then(|| ListCursor::of(&rows[PAGE - 1]).text());
    rows.truncate(PAGE);
    let threads = rows.iter().map(|row| &row.thread).chain(&session.thread).collect();
    let hints = hints(engine, &session.access, threads).await;
    let resource = |row| resource(row, session.thread.as_ref().unwrap_or(&row.thread), hints.get(&row.id));
    Ok(ResourceList { resources: rows.iter().map(resource).collect(), next })
}

/// One more than a part of the list, of those behind the cursor.
async fn newest(
    engine: &Engine,
    session: &Session,
    after: Option<ListCursor>,
) -> Result<Vec<ArtifactRow>, EngineError> {
    let access = &session.access;
    if !access.may(Permission::ReadThread) || !access.may(Permission::ReadArtifact) {
        return Ok(Vec::new());
    }
    let family = match &session.thread {
        Some(thread) => Some(ThreadFamily::of(engine, access, thread).await?),
        None => None,
    };
    let now = Moment::now();
    let is_listed = |row: &ArtifactRow| {
        let is_here = family
            .as_ref()
            .is_none_or(|family| family.threads.contains(&row.thread) || family.named.contains_key(&row.id));
        let is_readable = access.may_read(row.sensitivity) && row.expires.is_none_or(|expires| expires > now);
        is_here && is_readable && after.as_ref().is_none_or(|after| ListCursor::of(row) > *after)
    };
    let (mut best, mut last, mut count) = (Vec::new(), None::<String>, 0);
    loop {
        let page = engine.log().store().artifacts(&access.tenant, last.as_deref(), FETCH).await?;
        let is_last = page.len() < FETCH;
        count += page.len();
        last = page.last().map(|row| row.id.clone());
        best.extend(page.into_iter().filter(is_listed));
        best.sort_by_key(ListCursor::of);
        best.truncate(PAGE + 1);
        if is_last || count >= LOOKED_AT_MAX {
            return Ok(best);
        }
    }
}

/// What belongs to a thread: what it moved out first, or what it was forked from, and what its plans name. The same content
/// is one artifact, whichever thread moved it out.
struct ThreadFamily {
    threads: BTreeSet<ThreadId>,
    named: BTreeMap<String, ArtifactHint>,
}

impl ThreadFamily {
    async fn of(engine: &Engine, access: &Access, thread: &ThreadId) -> Result<ThreadFamily, EngineError> {
        let row = engine.log().thread(&ThreadKey::new(access.tenant.clone(), thread.clone())).await?;
        let shared = row.into_iter().flat_map(|row| row.shared).map(|segment| segment.thread);
        let threads = shared.chain([thread.clone()]).collect();
        Ok(ThreadFamily { threads, named: hints(engine, access, BTreeSet::from([thread])).await })
    }
}

/// Collects the hints about artifacts from the newest plans of threads.
async fn hints(engine: &Engine, access: &Access, threads: BTreeSet<&ThreadId>) -> BTreeMap<String, ArtifactHint> {
    let mut hints = BTreeMap::new();
    for thread in threads {
        let key = ThreadKey::new(access.tenant.clone(), thread.clone());
        // A list without names is better than none.
        let plan = engine.log().plan(&key, None).await.ok().flatten();
        hints.extend(plan.into_iter().flat_map(|(_, stored)| stored.hints).map(|hint| (hint.id.clone(), hint)));
    }
    hints
}

fn resource(row: &ArtifactRow, thread: &ThreadId, hint: Option<&ArtifactHint>) -> Resource {
    let message = hint.map(|hint| format!(" Message m{}.", hint.place + 1)).unwrap_or_default();
    let about = format!("{} tokens, moved out of thread {thread} at {}.{message}", row.tokens, row.at);
    let title = hint.map(|hint| hint.names.first().cloned().unwrap_or_else(|| format!("m{}", hint.place + 1)));
    Resource::new(ResourceUri::uri(thread, &row.id), row.id.clone())
        .with_title(title.unwrap_or_else(|| row.id.clone()))
        .with_description(about)
        .with_mime_type("text/plain")
        .with_size(row.bytes)
}

/// The templates of URIs.
pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "artifact")
        .with_title("Content that was moved out of a thread's prompt")
        .with_description("`id` is an artifact's id, or a message such as m41.")
        .with_mime_type("text/plain")
}

#[cfg(test)]
mod tests {
    use super::{ListCursor, ResourceUri};

    #[test]
    fn an_address_names_a_thread_and_what_is_in_it() {
        let parsed = |uri: &str| ResourceUri::parse(uri).map(|address| format!("{} {}", address.thread, address.id));
        assert_eq!(
            parsed("epitome://thread/a:b@c/artifact/9f86d081884c7d65").as_deref(),
            Some("a:b@c 9f86d081884c7d65")
        );
        assert_eq!(parsed("epitome://thread/t/artifact/m41").as_deref(), Some("t m41"));
        for uri in [
            "epitome://thread/t/artifact/",
            "epitome://thread//artifact/m1",
            "epitome://thread/../artifact/m1",
            "epitome://thread/a/b/artifact/m1",
            "epitome://thread/t/artifact/../../x",
            "file:///etc/passwd",
            "",
        ] {
            assert_eq!(parsed(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_cursor_reads_back_and_newer_artifacts_come_first() {
        let cursor = |at: i64, id: &str| ListCursor { at: std::cmp::Reverse(at), id: id.to_owned() };
        assert_eq!(ListCursor::parse(&cursor(7, "a").text()), Some(cursor(7, "a")));
        assert!(cursor(7, "a") < cursor(6, "z") && cursor(7, "a") < cursor(7, "b"));
        assert!(ListCursor::parse("7").is_none() && ListCursor::parse("x.a").is_none());
    }
}
