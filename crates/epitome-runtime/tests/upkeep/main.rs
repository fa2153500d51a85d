//! Looking after a store that an agent worked with: plans, events, forks, artifacts and memory, under one key after another.

#![allow(clippy::unwrap_used)]

#[path = "../engine/world.rs"]
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome_runtime::artifact::PutOptions;
use epitome_runtime::engine::{Engine, Parts};
use epitome_runtime::ids::{Moment, ThreadKey};
use epitome_runtime::log::Document;
use epitome_runtime::recall::{Query, recall};
use epitome_runtime::store::{DocumentKey, DocumentKind, Memory, Sensitivity, Store, Write};
use epitome_runtime::upkeep::{Checked, UpkeepError, check, rotate};
use epitome_runtime::vault::Keys;
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
        Ground { store: Arc::new(Memory::new()), objects: Arc::new(InMemory::new()) }
    }

    async fn engine(&self, keys: Keys) -> Engine {
        let Ground { store, objects } = self.clone();
        Engine::new(Parts { store, objects, keys, ..Parts::in_memory(settings()) }).await.unwrap()
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

/// Documents of every kind, and an artifact, as they are kept now and then.
async fn keep_by_hand(engine: &Engine) {
    let (tenant, at) = (owner().tenant, Moment(1));
    let document =
        |kind, name| Document { tenant: &tenant, kind, name, value: &"said", expected: None, at, expires: None };
    let mut writes: Vec<Write> = DocumentKind::ALL
        .iter()
        .filter(|kind| **kind != DocumentKind::Secret)
        .map(|kind| engine.log().put_document(&document(*kind, "t1")))
        .collect();
    let options = PutOptions { at, sensitivity: Sensitivity::Internal, ttl: None, tokens: Tokens::ZERO };
    writes.push(engine.artifacts().put(&owner(), &thread_id("t1"), b"what was said", options).await.unwrap());
    engine.log().apply(&writes).await.unwrap();
}

fn keys(text: &[(&str, char)]) -> Keys {
    let lines: Vec<String> =
        text.iter().map(|(name, digit)| format!("{name}:{}", digit.to_string().repeat(64))).collect();
    lines.join("\n").parse().unwrap()
}

async fn checked(engine: &Engine) -> Checked {
    check(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap()
}

/// The hits of a search for what only the first turn said.
async fn recalled(engine: &Engine, thread: &str) -> Vec<String> {
    let key = ThreadKey::new(owner().tenant, thread_id(thread));
    let row = engine.log().thread(&key).await.unwrap().unwrap();
    let query = Query { words: "zephyr0", tokens_max: Tokens::new(500), hits_max: 5 };
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
    let engine = ground.engine(keys(&[("one", '1')])).await;
    assert!(!checked(&engine).await.findings.is_empty(), "the old key opens nothing");
}

#[tokio::test]
async fn what_cannot_be_opened_is_left_and_named() {
    let ground = Ground::new();
    ground.worked(keys(&[("lost", '9')])).await;
    let engine = ground.engine(keys(&[("one", '1')])).await;
    let rotated = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
    assert_eq!(rotated.messages, 0);
    assert!(
        rotated.left.iter().any(|left| left.contains("the key lost, which is not configured")),
        "{:?}",
        rotated.left
    );
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
    for &kind in DocumentKind::ALL {
        let found = ground.store.documents(&owner().tenant, kind, None, 100).await.unwrap();
        assert!(!found.is_empty(), "{kind}");
        assert!(found.iter().all(|(_, row)| !engine.log().vault().needs_reseal(&row.body)), "{kind}");
    }
    let key = DocumentKey::new(owner().tenant, DocumentKind::Memory, "nobody");
    let orphan = Write::PutDocument { key, expected: None, at: Moment(1), expires: None, body: vec![9] };
    ground.store.apply(&[orphan]).await.unwrap();
    let findings = checked(&engine).await.findings;
    assert_eq!(findings.len(), 2, "it does not open, and belongs to nobody: {findings:?}");
}
