//! Whatever fails, a request that could succeed without us succeeds, and the log is whole afterwards.

use std::sync::Arc;
use std::time::Duration;

use epitome_runtime::engine::{Background, Engine, EngineParts, EngineSettings, OpenThread, Saved, StepRequest};
use epitome_runtime::store::MemoryStore;
use epitome_testkit::{FaultyObjects, FaultyStore, ObjectCall, ObjectFault, StoreFault};
use object_store::memory::InMemory;

use crate::world::{KEY, hints, holds, move_out, open, said, settings, turn};

const TIMEOUT: Duration = Duration::from_millis(30);

struct World {
    engine: Engine,
    store: FaultyStore,
    thread: OpenThread,
}

/// A thread that is about to be compacted.
async fn world(background: Background) -> World {
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    let settings = EngineSettings { store_timeout: TIMEOUT, background, ..settings() };
    let parts = EngineParts { store: Arc::new(store.clone()), ..EngineParts::in_memory(settings) };
    let engine = Engine::new(parts).await.unwrap();
    let mut thread = open(&engine).await;
    for at in 0..5 {
        thread.append(turn(at)).await.unwrap();
    }
    World { engine, store, thread }
}

/// Two turns that go through a compaction; every prompt must be there, hold, and have the newest message in it.
async fn go_through(thread: &mut OpenThread, turns: std::ops::Range<usize>) {
    for at in turns {
        for message in turn(at) {
            thread.append([message.clone()]).await.unwrap();
            let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
            if !message.contains("tool_calls") {
                holds(&step);
            }
            assert!(said(&step).contains(&format!("odule_{at}")), "the newest message is in the prompt");
        }
    }
}

async fn is_whole(world: &mut World, turns: usize) {
    world.store.heal();
    world.thread.prepare_step(&StepRequest::default()).await.unwrap();
    assert_eq!(world.thread.saved(), Saved::Yes);
    let row = world.engine.log().thread(world.thread.key()).await.unwrap().unwrap();
    let entries = world.engine.log().read(&row, 0..row.length).await.unwrap();
    let raws: Vec<String> = entries.iter().map(|entry| entry.message.raw.as_str().to_owned()).collect();
    let all: Vec<String> = (0..turns).flat_map(turn).collect();
    assert_eq!(raws.len(), all.len());
    assert_eq!(raws, all);
}

async fn every_call_fails_once(background: Background) {
    let calls = {
        let mut world = world(background).await;
        world.store.fail(usize::MAX, 0, StoreFault::Refused);
        go_through(&mut world.thread, 5..8).await;
        if matches!(background, Background::On { .. }) {
            world.engine.work_once().await;
        }
        world.store.calls().len()
    };
    assert!(calls > 12, "{calls} calls");
    for fault in StoreFault::ALL {
        for (first, count) in (0..calls).map(|first| (first, 1)).chain([(0, 7), (3, 40), (0, usize::MAX)]) {
            let mut world = world(background).await;
            world.store.fail(first, count, fault);
            go_through(&mut world.thread, 5..8).await;
            if matches!(background, Background::On { .. }) {
                world.engine.work_once().await;
            }
            is_whole(&mut world, 8).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_any_call_in_any_way_stops_no_request_and_loses_nothing() {
    every_call_fails_once(Background::Off).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_around_a_background_compaction_stops_no_request_and_loses_nothing() {
    every_call_fails_once(Background::On { wait: Duration::from_millis(20) }).await;
}

#[tokio::test]
async fn an_object_store_that_fails_in_any_way_stops_no_compaction_and_what_left_is_read_from_the_log() {
    for fault in [ObjectFault::Refused, ObjectFault::Hung, ObjectFault::Garbage, ObjectFault::Half, ObjectFault::Full] {
        let objects = FaultyObjects::new(Arc::new(InMemory::new()));
        let parts = EngineParts { objects: Arc::new(objects.clone()), ..EngineParts::in_memory(settings()) };
        let window = Some(epitome::budget::Tokens::new(18_000));
        let parts =
            EngineParts { settings: EngineSettings { object_timeout: TIMEOUT, window, ..parts.settings }, ..parts };
        let engine = Engine::new(parts).await.unwrap();
        let mut thread = open(&engine).await;
        for call in [ObjectCall::Put, ObjectCall::Get] {
            objects.fail_always(call, fault);
        }
        thread.append((0..3).flat_map(|at| long(turn(at)))).await.unwrap();
        go_through(&mut thread, 3..8).await;
        assert!(thread.row().version > 0, "{fault:?}");
        let (_, plan) = engine.log().plan(thread.key(), None).await.unwrap().unwrap();
        assert!(!plan.hints.is_empty(), "something was moved out");
        for hint in plan.hints {
            let content = thread.read_artifact(&hint.id).await.unwrap();
            assert!(content.text().contains("compute("), "{fault:?}: {}", content.text());
        }
    }
}

#[tokio::test]
async fn what_could_not_be_kept_apart_is_read_from_the_log_under_a_later_key_alone() {
    let (store, objects) = (Arc::new(MemoryStore::new()), FaultyObjects::new(Arc::new(InMemory::new())));
    let engine = |keys: &str| {
        let settings = EngineSettings { window: Some(epitome::budget::Tokens::new(26_000)), ..settings() };
        let (store, objects, keys) = (store.clone(), Arc::new(objects.clone()), keys.parse().unwrap());
        Engine::new(EngineParts { store, objects, keys, ..EngineParts::in_memory(settings) })
    };
    let newer = format!("k2:{}", "2".repeat(64));
    objects.fail_always(ObjectCall::Put, ObjectFault::Full);
    let first = engine(KEY).await.unwrap();
    let mut thread = open(&first).await;
    move_out(&mut thread, 5).await;
    let hints = hints(&first, &thread).await;
    assert!(!hints.is_empty(), "something was moved out");
    drop((thread, first));
    for keys in [format!("{newer}\n{KEY}"), newer.clone()] {
        let engine = engine(&keys).await.unwrap();
        let mut thread = open(&engine).await;
        for hint in &hints {
            let content = thread.read_artifact(&hint.id).await.unwrap();
            assert!(content.text().contains("padding of module_"), "{}", content.text());
        }
        let rotated = epitome_runtime::upkeep::rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
        assert_eq!(rotated.left, [""; 0]);
    }
}

/// The turn with a result that is long enough to be moved out.
fn long(turn: Vec<String>) -> Vec<String> {
    let padding = "// compute(0, 0) and so on\\n".repeat(360);
    turn.into_iter().map(|message| message.replacen("0: let value", &format!("{padding}0: let value"), 1)).collect()
}
