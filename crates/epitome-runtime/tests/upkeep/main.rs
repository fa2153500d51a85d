//! Looking after a store that an agent worked with: plans, events, forks, artifacts and memory, under one key after another.

#![allow(clippy::unwrap_used)]

#[path = "../engine/world.rs"]
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome_runtime::artifact::PutOptions;
use epitome_runtime::engine::{Engine, EngineError, EngineParts};
use epitome_runtime::ids::{Moment, ThreadKey};
use epitome_runtime::log::NewDocument;
use epitome_runtime::recall::{RecallRequest, recall};
use epitome_runtime::store::{
    DocumentKey, DocumentKind, DocumentRow, MemoryStore, Owner, Retention, Sensitivity, Store, StoredKind, Write,
};
use epitome_runtime::upkeep::{CheckReport, UpkeepError, check, documents_of, expire, rotate};
use epitome_runtime::vault::{Keys, Sealing};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use world::{go_on, owner, settings, thread_id};

/// A store and its objects, without an engine.
#[derive(Clone)]
struct Ground {
    store: Arc<dyn Store>,
    objects: Arc<dyn ObjectStore>,
}

impl Ground {
    fn new() -> Self {
        Ground { store: Arc::new(MemoryStore::new()), objects: Arc::new(InMemory::new()) }
    }

    async fn engine(&self, keys: Keys) -> Engine {
        self.try_engine(keys).await.unwrap()
    }

    async fn try_engine(&self, keys: Keys) -> Result<Engine, EngineError> {
        let Ground { store, objects } = self.clone();
        Engine::new(EngineParts { store, objects, keys, ..EngineParts::in_memory(settings()) }).await
    }

    /// Puts the secret back in the open, as stores had it before it was sealed.
    async fn expose_secret(&self, keys: Keys) {
        let engine = self.engine(keys).await;
        let system = "epitome.system".parse().unwrap();
        let log = engine.log();
        let (secret, _) = log.document::<serde_json::Value>(&system, DocumentKind::Secret, "store").await.unwrap();
        let body = [&[0], secret.unwrap()["secret"].to_string().as_bytes()].concat();
        let key = DocumentKey::new(system, DocumentKind::Secret, "store");
        let write = Write::PutDocument { key, expected: None, at: Moment(1), expires: None, body };
        self.store.apply(&[write]).await.unwrap();
    }

    /// All documents of all tenants.
    async fn documents(&self) -> Vec<(DocumentKey, DocumentRow)> {
        let mut all = Vec::new();
        for tenant in self.store.tenants().await.unwrap() {
            all.extend(self.store.all_documents(&tenant, None, 10_000).await.unwrap());
        }
        all
    }

    /// A thread that was compacted, and a fork of it that was compacted again.
    async fn worked(&self, keys: Keys) {
        let engine = self.engine(keys).await;
        let mut thread = world::open(&engine).await;
        go_on(&mut thread, 0..12).await;
        let at = thread.row().length;
        let mut fork = engine.fork(&owner(), thread_id("t1"), at - 4, thread_id("t2")).await.unwrap();
        go_on(&mut fork, 12..20).await;
        assert!(thread.row().version > 0 && fork.row().version > 1, "both were compacted");
        keep_by_hand(&engine).await;
    }
}

/// The name that a document of a kind has which belongs to the first thread.
fn name_of(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::MemoryFolded => "t1@3",
        DocumentKind::Ledger => "t1/0000001-abc",
        DocumentKind::Answer => "t1:3:req-7",
        _ => "t1",
    }
}

/// Documents of every kind, and an artifact, as they are kept now and then.
async fn keep_by_hand(engine: &Engine) {
    let (tenant, at) = (owner().tenant, Moment(1));
    let document = |kind, name| NewDocument::new(&tenant, kind, name, &"t1").at(at);
    let mut writes: Vec<Write> =
        DocumentKind::ALL.iter().map(|kind| engine.log().put_document(document(*kind, name_of(*kind)))).collect();
    let options = PutOptions { at, sensitivity: Sensitivity::Internal, ttl: None, tokens: Tokens::ZERO };
    writes.push(engine.artifacts().put(&owner(), &thread_id("t1"), b"what was said", options).await.unwrap());
    engine.log().apply(&writes).await.unwrap();
}

fn keys(text: &[(&str, char)]) -> Keys {
    let lines: Vec<String> =
        text.iter().map(|(name, digit)| format!("{name}:{}", digit.to_string().repeat(64))).collect();
    lines.join("\n").parse().unwrap()
}

async fn checked(engine: &Engine) -> CheckReport {
    check(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap()
}

/// The hits of a search for what only the first turn said.
async fn recalled(engine: &Engine, thread: &str) -> Vec<String> {
    let key = ThreadKey::new(owner().tenant, thread_id(thread));
    let row = engine.log().thread(&key).await.unwrap().unwrap();
    let request = RecallRequest { limit: Some(5), ..RecallRequest::from("zephyr0") };
    let query = request.query(Tokens::new(500), &engine.settings().policy.tools, None);
    let found = recall(engine.log(), &row, &query, &**engine.counter()).await.unwrap();
    found.hits.into_iter().map(|hit| hit.reference).collect()
}

#[tokio::test]
async fn a_store_that_an_agent_worked_with_is_in_order() {
    let ground = Ground::new();
    ground.worked(Keys::none()).await;
    let checked = checked(&ground.engine(Keys::none()).await).await;
    assert_eq!(checked.findings, [""; 0]);
    assert_eq!(checked.threads, 2);
    assert!(checked.plans >= 3 && checked.messages > 40, "{checked:?}");
}

#[tokio::test]
async fn a_message_in_the_place_of_another_is_found_once_and_of_who_holds_it() {
    let ground = Ground::new();
    ground.worked(Keys::none()).await;
    let key = ThreadKey::new(owner().tenant, thread_id("t1"));
    let rows = ground.store.messages(&key, 3..5).await.unwrap();
    let body = rows[1].body.clone();
    ground.store.apply(&[Write::Reseal { key, place: 3, id: rows[0].id, body }]).await.unwrap();
    let findings = checked(&ground.engine(Keys::none()).await).await.findings;
    assert_eq!(findings, ["Message 4 of acme/t1 is not the one that its id stands for."]);
}

#[tokio::test]
async fn after_each_rotation_the_new_key_alone_opens_everything() {
    let ground = Ground::new();
    ground.worked(Keys::none()).await;
    let found = recalled(&ground.engine(Keys::none()).await, "t1").await;
    assert!(!found.is_empty());
    let one = keys(&[("one", '1')]);
    let two = keys(&[("two", '2')]);
    for (during, after) in [(one.clone(), one), (keys(&[("two", '2'), ("one", '1')]), two)] {
        let engine = ground.engine(during).await;
        let rotated = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
        assert_eq!(rotated.left, [""; 0]);
        assert!(rotated.messages > 40 && rotated.plans >= 3 && rotated.events > 0, "{rotated:?}");
        assert!(rotated.documents >= DocumentKind::ALL.len() as u64 && rotated.artifacts > 0, "{rotated:?}");
        let engine = ground.engine(after).await;
        assert_eq!(checked(&engine).await.findings, [""; 0]);
        assert_eq!(recalled(&engine, "t1").await, found);
        assert!(!recalled(&engine, "t2").await.is_empty(), "a fork finds what its parent indexed");
        let mut thread = engine.resume(&owner(), thread_id("t2")).await.unwrap();
        go_on(&mut thread, 20..22).await;
    }
    let refusal = ground.try_engine(keys(&[("one", '1')])).await.unwrap_err().to_string();
    assert_eq!(refusal, "the store cannot be opened: it was sealed with the key two, which is not configured");
}

#[tokio::test]
async fn what_cannot_be_opened_is_left_and_named() {
    let ground = Ground::new();
    ground.worked(keys(&[("lost", '9')])).await;
    let refusal = ground.try_engine(keys(&[("one", '1')])).await.unwrap_err().to_string();
    assert!(refusal.contains("the key lost, which is not configured"), "{refusal}");
    ground.expose_secret(keys(&[("lost", '9')])).await;
    let engine = ground.engine(keys(&[("one", '1')])).await;
    let rotated = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
    assert_eq!((rotated.messages, rotated.plans), (0, 0));
    let [left] = &rotated.left[..] else { panic!("a missing key is told once: {:?}", rotated.left) };
    assert!(left.contains(" messages, ") && left.contains(" artifact"), "{left}");
    assert!(left.contains("cannot be sealed anew: the key lost,"), "{left}");
}

#[tokio::test]
async fn there_is_no_rotation_without_a_key() {
    let engine = Ground::new().engine(Keys::none()).await;
    let outcome = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await;
    assert!(matches!(outcome, Err(UpkeepError::NoKey)));
}

#[tokio::test]
async fn no_document_stays_in_the_open_and_an_orphan_is_found() {
    let ground = Ground::new();
    ground.worked(Keys::none()).await;
    let engine = ground.engine(keys(&[("one", '1')])).await;
    rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
    let documents = ground.documents().await;
    for kind in &DocumentKind::ALL {
        assert!(documents.iter().any(|(key, _)| key.kind == (*kind).into()), "{kind}");
    }
    for (key, row) in &documents {
        assert!(!engine.log().vault().needs_reseal(&row.body), "{key:?}");
    }
    let key = DocumentKey::new(owner().tenant, DocumentKind::Memory, "nobody");
    let orphan = Write::PutDocument { key, expected: None, at: Moment(1), expires: None, body: vec![9] };
    ground.store.apply(&[orphan]).await.unwrap();
    let findings = checked(&engine).await.findings;
    assert_eq!(findings.len(), 2, "it does not open, and belongs to nobody: {findings:?}");
}

#[tokio::test]
async fn a_kind_that_this_version_does_not_know_is_sealed_like_the_others_and_named() {
    let ground = Ground::new();
    ground.worked(Keys::none()).await;
    let key = DocumentKey { tenant: owner().tenant, kind: StoredKind::read("diary"), name: "d1".to_owned() };
    let body = b"\0\"what was said\"".to_vec();
    let diary = Write::PutDocument { key: key.clone(), expected: None, at: Moment(1), expires: None, body };
    ground.store.apply(&[diary]).await.unwrap();
    let engine = ground.engine(keys(&[("one", '1')])).await;
    let rotated = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
    assert_eq!(rotated.left, [""; 0]);
    let row = ground.store.document(&key).await.unwrap().unwrap();
    assert!(!engine.log().vault().needs_reseal(&row.body));
    let findings = checked(&engine).await.findings;
    assert_eq!(findings, ["The diary document d1 of acme is of a kind that this version does not know."]);
}

#[tokio::test]
async fn a_check_says_what_is_not_under_the_current_key_until_it_is() {
    let ground = Ground::new();
    ground.worked(Keys::none()).await;
    for (during, name) in [(keys(&[("one", '1')]), "one"), (keys(&[("two", '2'), ("one", '1')]), "two")] {
        let engine = ground.engine(during).await;
        let findings = checked(&engine).await.findings;
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(finding.starts_with(&format!("Not sealed with the key {name}: ")), "{finding}");
        assert!(
            finding.ends_with("`epitome store rotate` changes that.") && finding.contains(" artifact"),
            "{finding}"
        );
        rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
        assert_eq!(checked(&engine).await.findings, [""; 0]);
    }
}

/// Makes documents as another version wrote them: long ago, without an expiry.
async fn age(ground: &Ground) {
    for (key, row) in ground.documents().await {
        let write = Write::PutDocument { key, expected: None, at: Moment(1), expires: None, body: row.body };
        ground.store.apply(&[write]).await.unwrap();
    }
}

#[tokio::test]
async fn every_kind_goes_when_its_retention_is_over_and_not_before() {
    let ground = Ground::new();
    ground.worked(Keys::none()).await;
    age(&ground).await;
    let engine = ground.engine(Keys::none()).await;
    for kind in &DocumentKind::ALL {
        let there = |documents: Vec<(DocumentKey, DocumentRow)>| {
            documents.iter().any(|(key, _)| key.kind == (*kind).into() && key.tenant == owner().tenant)
        };
        assert!(there(ground.documents().await), "{kind}");
        if let Retention::For(time) = kind.retention() {
            expire(engine.log(), Moment(1).after(time)).await.unwrap();
            assert!(there(ground.documents().await), "{kind}: not before its time");
            expire(engine.log(), Moment(2).after(time)).await.unwrap();
            assert!(!there(ground.documents().await), "{kind}");
            keep_by_hand(&engine).await;
            age(&ground).await;
        }
    }
    let century = std::time::Duration::from_secs(100 * 365 * 24 * 60 * 60);
    expire(engine.log(), Moment(1).after(century)).await.unwrap();
    let left = ground.documents().await;
    let stays = |kind: &DocumentKind| left.iter().any(|(key, _)| key.kind == (*kind).into());
    for kind in &DocumentKind::ALL {
        assert_eq!(stays(kind), kind.retention() == Retention::WithOwner, "{kind}");
    }
}

#[tokio::test]
async fn every_document_of_a_thread_is_found_and_none_of_another() {
    for keys in [Keys::none(), keys(&[("one", '1')])] {
        let ground = Ground::new();
        ground.worked(keys.clone()).await;
        let engine = ground.engine(keys).await;
        let found = documents_of(engine.log(), &ThreadKey::new(owner().tenant, thread_id("t1"))).await.unwrap();
        for kind in &DocumentKind::ALL {
            let its = found.iter().any(|(key, _)| key.kind == (*kind).into());
            assert_eq!(its, kind.owner() != Owner::Tenant, "{kind}");
        }
        let other = documents_of(engine.log(), &ThreadKey::new(owner().tenant, thread_id("t"))).await.unwrap();
        assert!(other.is_empty(), "{other:?}");
    }
}

/// Writes a store's names as they stood in it before they were blinded.
async fn unblind(ground: &Ground, keys: Keys) {
    let engine = ground.engine(keys.clone()).await;
    let (tenant, log) = (owner().tenant, engine.log());
    for (key, row) in ground.store.all_documents(&tenant, None, 10_000).await.unwrap() {
        let Some(kind) = key.kind.known().filter(|_| key.name.contains('~')) else { continue };
        let plain = DocumentKey::new(tenant.clone(), kind, name_of(kind));
        let sealed_for = format!("{kind}/{}", plain.name);
        let body = log.vault().seal(&tenant, Sealing::Document, &sealed_for, b"\"t1\"");
        let put = Write::PutDocument { key: plain, expected: None, at: row.at, expires: row.expires, body };
        ground.store.apply(&[put, Write::DeleteDocument(key)]).await.unwrap();
    }
    let key = ThreadKey::new(tenant, thread_id("t1"));
    let (scope, counter) = ("chat:abc/talk".to_owned(), "auto:gpt-trex".to_owned());
    ground.store.apply(&[Write::NameThread { key, scope, counter }]).await.unwrap();
    ground.expose_secret(keys).await;
}

#[tokio::test]
async fn a_store_from_before_names_were_blinded_gets_blinded_names_and_everything_is_found() {
    for before in [Keys::none(), keys(&[("one", '1')])] {
        let ground = Ground::new();
        ground.worked(before.clone()).await;
        unblind(&ground, before.clone()).await;
        let names =
            |rows: &[(DocumentKey, DocumentRow)]| rows.iter().map(|(key, _)| key.name.clone()).collect::<Vec<_>>();
        assert!(names(&ground.documents().await).contains(&"t1:3:req-7".to_owned()));

        let engine = ground.engine(before.clone()).await;
        let (tenant, log) = (owner().tenant, engine.log());
        assert!(names(&ground.documents().await).iter().all(|name| !name.contains("req-7")));
        for kind in DocumentKind::ALL.iter().filter(|kind| **kind != DocumentKind::Secret) {
            let (found, _) = log.document::<serde_json::Value>(&tenant, *kind, name_of(*kind)).await.unwrap();
            assert!(found.is_some(), "{kind}");
        }
        let row = log.thread(&ThreadKey::new(tenant.clone(), thread_id("t1"))).await.unwrap().unwrap();
        assert!(!row.scope.contains("talk") && !row.counter.contains("trex"), "{} {}", row.scope, row.counter);
        assert!(log.is_counted_with(&row, "auto:gpt-trex"));
        let first = log.read(&row, 0..1).await.unwrap().remove(0).id;
        let found = log.find(&tenant, "chat:abc/talk", &[first]).await.unwrap();
        assert_eq!(found.map(|found| found.thread), Some(thread_id("t1")));
        for other in ["chat:abc/", "chat:abd/talk", "chat:abc/talks"] {
            assert_eq!(log.find(&tenant, other, &[first]).await.unwrap(), None, "{other}");
        }
        if !log.vault().is_sealing() {
            assert_eq!(checked(&engine).await.findings, [""; 0]);
            continue;
        }
        let due = ["Not sealed with the key one: 1 document. `epitome store rotate` changes that."];
        assert_eq!(checked(&engine).await.findings, due, "the secret lay in the open");
        rotate(log, engine.artifacts(), &mut |_| {}).await.unwrap();
        assert_eq!(checked(&engine).await.findings, [""; 0]);
    }
}
