//! Every message is saved, and saved once, whoever gives up, stalls or appends at the same time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, Saved, StepRequest};
use epitome_runtime::store::{MemoryStore, SqliteStore};
use epitome_runtime::vault::Keys;
use epitome_testkit::{FaultyStore, StoreFault};

use crate::world::{keys, open, raws, says, settings};

/// One is refused a question and its answer; meanwhile another appends `theirs`.
async fn is_refused_meanwhile(fault: StoreFault, keys: Keys, theirs: &[String]) {
    let memory = Arc::new(MemoryStore::new());
    let faulty = FaultyStore::new(memory.clone());
    let parts = || EngineParts { keys: keys.clone(), ..EngineParts::in_memory(settings()) };
    let one = Engine::new(EngineParts { store: Arc::new(faulty.clone()), ..parts() }).await.unwrap();
    let two = Engine::new(EngineParts { store: memory, ..parts() }).await.unwrap();
    let (mut thread, mut other) = (open(&one).await, open(&two).await);
    faulty.fail(0, 1, fault);
    let ours = [says("user", "continue"), says("assistant", "The answer of one.")];
    let saved = thread.append(ours.clone()).await.unwrap();
    assert!(matches!(saved, Saved::Waiting { messages: 2, .. }), "{saved:?}");
    other.append(theirs.to_vec()).await.unwrap();
    faulty.heal();
    let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
    assert_eq!(step.saved, Saved::Yes);
    let all = [theirs, &ours].concat();
    assert_eq!(raws(&one, &thread).await, all, "{fault:?}");
    assert_eq!(step.messages, all, "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_append_loses_nothing_when_another_appends_the_same_first_message_meanwhile() {
    let theirs = [says("user", "continue"), says("assistant", "The answer of two."), says("user", "And now?")];
    for fault in [StoreFault::Refused, StoreFault::Hung, StoreFault::Full] {
        for keys in keys() {
            for count in 0..=theirs.len() {
                is_refused_meanwhile(fault, keys.clone(), &theirs[..count]).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_that_was_made_and_not_confirmed_is_not_made_again() {
    for keys in keys() {
        let faulty = FaultyStore::new(Arc::new(MemoryStore::new()));
        let parts = EngineParts { store: Arc::new(faulty.clone()), keys, ..EngineParts::in_memory(settings()) };
        let engine = Engine::new(parts).await.unwrap();
        let mut thread = open(&engine).await;
        let all = ["one", "two", "three"].map(|words| says("user", words));
        thread.append([all[0].clone()]).await.unwrap();
        faulty.fail(0, 1, StoreFault::Dropped);
        let saved = thread.append([all[1].clone()]).await.unwrap();
        assert!(matches!(saved, Saved::Waiting { .. }), "{saved:?}");
        faulty.heal();
        assert_eq!(thread.append([all[2].clone()]).await.unwrap(), Saved::Yes);
        assert_eq!(raws(&engine, &thread).await, all);
    }
}

/// What the caller waits for before giving up: some turns of the executor, or some time.
async fn a_while(number: u64) {
    match number % 2 {
        0 => {
            for _ in 0..number * number {
                tokio::task::yield_now().await;
            }
        }
        _ => tokio::time::sleep(Duration::from_micros(number * 600)).await,
    }
}

async fn given_up_after(wait: impl Future<Output = ()>, work: impl Future) {
    tokio::select! {
        biased;
        () = wait => {}
        _ = work => {}
    }
}

async fn gives_up_at_any_moment(keys: Keys) {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let engine = Engine::new(EngineParts { store, keys, ..EngineParts::in_memory(settings()) }).await.unwrap();
    let mut thread = open(&engine).await;
    let mut all = Vec::new();
    for number in 0..50 {
        let (asked, answered) = (says("user", &format!("message {number}")), says("assistant", &format!("{number}")));
        // A future that is never polled appends nothing; from its first poll on it does.
        {
            let append = thread.append([asked.clone()]);
            tokio::pin!(append);
            let begun = std::future::poll_fn(|context| std::task::Poll::Ready(append.as_mut().poll(context))).await;
            if begun.is_pending() {
                given_up_after(a_while(number), append).await;
            }
        }
        thread.append([answered.clone()]).await.unwrap();
        all.extend([asked, answered]);
    }
    assert_eq!(thread.prepare_step(&StepRequest::default()).await.unwrap().saved, Saved::Yes);
    assert_eq!(raws(&engine, &thread).await, all);
}

#[tokio::test]
async fn an_append_that_is_dropped_at_any_moment_neither_loses_nor_doubles_a_message() {
    for keys in keys() {
        gives_up_at_any_moment(keys).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stalls_for_longer_than_its_patience_doubles_nothing() {
    for keys in keys() {
        let folder = std::env::temp_dir().join(format!("epitome-stall-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        let store = Arc::new(SqliteStore::open(&path).unwrap());
        let settings = EngineSettings { store_timeout: Duration::from_millis(250), ..settings() };
        let engine = Engine::new(EngineParts { store, keys, ..EngineParts::in_memory(settings) }).await.unwrap();
        let mut thread = open(&engine).await;
        let all = ["first", "only once", "last"].map(|words| says("user", words));
        thread.append([all[0].clone()]).await.unwrap();
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let saved = thread.append([all[1].clone()]).await.unwrap();
        assert!(matches!(saved, Saved::Waiting { messages: 1, .. }), "{saved:?}");
        thread.prepare_step(&StepRequest::default()).await.unwrap();
        other.execute_batch("COMMIT").unwrap();
        thread.append([all[2].clone()]).await.unwrap();
        while thread.saved() != Saved::Yes {
            thread.prepare_step(&StepRequest::default()).await.unwrap();
        }
        assert_eq!(raws(&engine, &thread).await, all);
        drop((thread, engine, other));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
