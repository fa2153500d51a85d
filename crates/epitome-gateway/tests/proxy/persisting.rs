//! What a client has the answer to is in the store, and a store that does not answer holds nobody up for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use epitome::wire::Dialect;
use epitome_gateway::settings::{Persist, Settings};
use epitome_runtime::engine::{Engine, EngineParts};
use epitome_runtime::ids::TenantId;
use epitome_runtime::store::{DocumentKind, MemoryStore, Store};
use epitome_testkit::{FaultyStore, StoreFault};
use serde_json::Value;

use crate::talk::{DIALECTS, Talk};
use crate::world::{Folder, Got, Plan, SOON};

/// A store that takes its time, and the one beneath, which does not.
fn slow() -> (Arc<FaultyStore>, Arc<dyn Store>) {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    (Arc::new(FaultyStore::new(memory.clone())), memory)
}

/// The messages that a store has of a thread now, and how many answers to it.
async fn held(store: &Arc<dyn Store>, thread: &str) -> (Vec<Value>, usize) {
    let parts = EngineParts {
        store: store.clone(),
        ..EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default())
    };
    let engine = Engine::new(parts).await.unwrap();
    let (log, tenant) = (engine.log(), TenantId::local());
    let key = epitome_runtime::ids::ThreadKey::new(tenant.clone(), thread.parse().unwrap());
    let Some(row) = log.thread(&key).await.unwrap() else { return (Vec::new(), 0) };
    let entries = log.read(&row, 0..row.length).await.unwrap();
    let messages = entries.iter().map(|entry| serde_json::from_str(entry.message.raw.as_str()).unwrap()).collect();
    let answers = log.documents::<Value>(&tenant, DocumentKind::Answer, None, 1000).await.unwrap();
    (messages, answers.iter().filter(|(_, kept)| kept["thread"] == thread).count())
}

fn sent(talk: &Talk) -> Vec<Value> {
    let system = usize::from(talk.dialect == Dialect::Chat);
    talk.messages[system..].iter().map(|message| serde_json::from_str(message).unwrap()).collect()
}

/// What the last event of a stream holds.
fn last_event(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "message_stop",
        Dialect::Responses => "response.completed",
        _ => "[DONE]",
    }
}

/// Reads a stream until the client has its last event, and no further.
async fn until_the_last_event(mut response: reqwest::Response, dialect: Dialect) {
    let mut text = String::new();
    while !text.contains(last_event(dialect)) {
        let piece =
            response.chunk().await.unwrap().unwrap_or_else(|| panic!("it ended without its last event: {text}"));
        text.push_str(&String::from_utf8_lossy(&piece));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_last_byte_the_messages_and_the_answer_are_in_the_store() {
    for dialect in DIALECTS {
        for (stream, has_tools, tokens) in [
            (false, false, 0),
            (true, false, 0),
            (false, true, 0),
            (true, true, 0),
            (true, false, 12_000),
            (false, false, 12_000),
        ] {
            let (store, memory) = slow();
            let world = Plan::new().window(40_000).budget(8_000).store(store.clone()).start().await;
            store.delay(Duration::from_millis(30));
            let mut talk = Talk::new(dialect).streaming(stream).grown(tokens);
            if has_tools {
                talk = talk.header("x-epitome-tools", "on");
            }
            for turn in 0..3 {
                let got = talk.send(&world.gate).await.fine();
                assert_eq!(got.told("failed-open"), None, "{dialect:?}");
                let (messages, answers) = held(&memory, &got.placed().0).await;
                assert_eq!(messages, sent(&talk), "{dialect:?} {stream} {has_tools} {tokens} {turn}");
                assert_eq!(answers, turn + 1, "{dialect:?} {stream} {has_tools} {tokens}: its answers");
                talk.works(20);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_with_the_last_event_finds_the_messages_in_the_store() {
    for dialect in DIALECTS {
        for has_tools in [false, true] {
            let (store, memory) = slow();
            let world = Plan::new().store(store.clone()).start().await;
            store.delay(Duration::from_millis(30));
            let mut talk = Talk::new(dialect).streaming(true);
            let headers: &[(&str, &str)] = if has_tools { &[("x-epitome-tools", "on")] } else { &[] };
            for turn in 0..3 {
                let response = world.gate.begin(talk.path(), headers, talk.body()).await;
                let thread = response.headers()["x-epitome-thread"].to_str().unwrap().to_owned();
                until_the_last_event(response, dialect).await;
                let (messages, _) = held(&memory, &thread).await;
                assert_eq!(messages, sent(&talk), "{dialect:?} {has_tools} {turn}");
                talk.works(20);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_holds_the_end_of_an_answer_once_and_then_nobodys() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            let (store, _) = slow();
            let patience = Duration::from_millis(400);
            let plan = Plan::new().store(store.clone());
            let world = plan.settings(|settings| settings.serve.store_patience_ms.0 = patience).start().await;
            let mut talk = Talk::new(dialect).streaming(stream);
            talk.send(&world.gate).await.fine();
            store.fail(0, usize::MAX, StoreFault::Hung);
            for turn in 0..3 {
                talk.works(20);
                let began = Instant::now();
                talk.send(&world.gate).await.fine();
                assert!(began.elapsed() < patience * 6, "{dialect:?} {stream} {turn}: {:?}", began.elapsed());
            }
            store.heal();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn told_so_an_answer_waits_for_nothing_and_is_written_down_soon_after() {
    for stream in [false, true] {
        // One that nobody else uses: on a shared store the next request may come to another gateway.
        let folder = Folder::new();
        let sqlite = folder.store();
        let store = Arc::new(FaultyStore::new(sqlite.clone()));
        let unhurried = |settings: &mut Settings| {
            settings.serve.persist = Persist::AfterAnswer;
            // Longer than the store takes: nothing is given up for it.
            settings.serve.store_patience_ms.0 = SOON;
        };
        let world = Plan::new().store(store.clone()).settings(unhurried).start().await;
        // The store answers nobody while the answer comes.
        store.delay(SOON / 10);
        let talk = Talk::about(Dialect::Chat, "Say something.").streaming(stream);
        talk.send(&world.gate).await.fine();
        let mut talk = talk;
        talk.hears("Something.").says("And now?");
        let got: Got = talk.send(&world.gate).await.fine();
        assert_ne!(held(&sqlite, &got.placed().0).await.0, sent(&talk), "{stream}: it was not waited for");
        store.delay(Duration::ZERO);
        let began = Instant::now();
        while held(&sqlite, &got.placed().0).await.0 != sent(&talk) {
            assert!(began.elapsed() < SOON, "{stream}: it never got there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
