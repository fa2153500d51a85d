//! What threads, tenants and keys share, and what they do not.

use std::sync::Arc;
use std::time::Duration;

use epitome::budget::{Meter, Tokens, counter_for};
use epitome::thread::{Raw, Thread};
use epitome::wire::{Dialect, decode_message};
use epitome_runtime::artifact::{Access, Permission, Permissions};
use epitome_runtime::engine::{ArtifactRetention, Background, Engine, EngineParts, EngineSettings, StepRequest};
use epitome_runtime::event::{Bus, Event, Listener};
use epitome_runtime::ids::Moment;
use epitome_runtime::model::Model;
use epitome_runtime::store::{JobKind, MemoryStore, Sensitivity, SqliteStore, Store};
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};
use epitome_runtime::vault::Keys;
use epitome_testkit::{FaultyObjects, ObjectCall, ObjectFault};
use object_store::memory::InMemory;

use crate::summaries::{GOOD, Recorder, answer, summarizer};
use crate::world::{
    KEY, engine, finds, go_on, hints, keys, move_out, open, owner, raws, said, says, settings, tenant, thread_id, turn,
};

#[tokio::test]
async fn a_fork_onto_a_thread_that_is_there_is_an_error_and_changes_nothing() {
    for store in [Arc::new(MemoryStore::new()) as Arc<dyn Store>, Arc::new(SqliteStore::in_memory().unwrap())] {
        let engine = Engine::new(EngineParts { store, ..EngineParts::in_memory(settings()) }).await.unwrap();
        let mut one = open(&engine).await;
        go_on(&mut one, 0..12).await;
        let mut other = engine.open(&owner(), thread_id("other"), Dialect::Chat).await.unwrap();
        other.append((0..20).map(|at| says("user", &format!("unrelated {at}")))).await.unwrap();
        let before = (other.row().clone(), other.prepare_step(&StepRequest::default()).await.unwrap().messages);
        for at in [0, 4, one.row().length] {
            assert!(engine.fork(&owner(), thread_id("t1"), at, thread_id("other")).await.is_err());
            assert!(engine.fork(&owner(), thread_id("t1"), at, thread_id("t1")).await.is_err());
        }
        let mut again = engine.resume(&owner(), thread_id("other")).await.unwrap();
        let after = (again.row().clone(), again.prepare_step(&StepRequest::default()).await.unwrap().messages);
        assert_eq!(before, after);
        assert!(again.memory().await.unwrap().render().is_empty());
    }
}

#[tokio::test]
async fn a_fork_of_a_fork_takes_over_its_grandparents_plan_where_its_parent_has_none() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let engine = Engine::new(EngineParts { store, ..EngineParts::in_memory(settings()) }).await.unwrap();
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..20).await;
    let mut child = engine.fork(&owner(), thread_id("t1"), 60, thread_id("child")).await.unwrap();
    go_on(&mut child, 100..110).await;
    let (first, _) = engine.log().plan(child.key(), Some(1)).await.unwrap().unwrap();
    assert!(first.covers > 30, "the child has no plan that is as old");
    let mut grandchild = engine.fork(&owner(), thread_id("child"), 30, thread_id("grandchild")).await.unwrap();
    let mut direct = engine.fork(&owner(), thread_id("t1"), 30, thread_id("direct")).await.unwrap();
    assert_eq!((grandchild.row().version, grandchild.row().length), (1, 30));
    let (plan, _) = engine.log().plan(grandchild.key(), None).await.unwrap().unwrap();
    assert!(plan.covers <= 30 && plan.covers > 0);
    assert_eq!(raws(&engine, &grandchild).await, raws(&engine, &thread).await[..30]);
    for at in 200..206 {
        for fork in [&mut grandchild, &mut direct] {
            go_on(fork, at..at + 1).await;
        }
        let request = StepRequest::default();
        let (one, two) =
            (grandchild.prepare_step(&request).await.unwrap(), direct.prepare_step(&request).await.unwrap());
        assert_eq!(one.messages, two.messages, "as if it were the grandparent's own fork");
    }
    for (word, is_known) in [("zephyr2", true), ("zephyr18", false), ("zephyr105", false)] {
        let found = grandchild.recall(word).await.unwrap();
        assert_eq!(finds(&found, word), is_known, "{word}");
    }
}

#[tokio::test]
async fn a_fork_has_its_parents_memory_block_and_then_its_own() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..10).await;
    thread.remember("the capybara entry").await.unwrap();
    let length = thread.row().length;
    let mut fork = engine.fork(&owner(), thread_id("t1"), length, thread_id("fork")).await.unwrap();
    let request = StepRequest { with_memory: true, ..StepRequest::default() };
    assert!(said(&fork.prepare_step(&request).await.unwrap()).contains("the capybara entry"));
    fork.remember("the ocelot entry").await.unwrap();
    assert!(fork.memory().await.unwrap().render().contains("capybara"));
    assert!(!thread.memory().await.unwrap().render().contains("ocelot"));
}

#[tokio::test]
async fn a_fork_has_its_parents_state_only_where_nothing_behind_it_was_merged_into_that() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..20).await;
    let length = thread.row().length;
    assert!(thread.row().version > 0, "something was compacted");
    let (tenant, log) = (owner().tenant, engine.log());
    let (kind, value) = (epitome_runtime::store::DocumentKind::State, serde_json::json!({"goal": "capybara"}));
    let at = epitome_runtime::ids::Moment::now();
    let document = epitome_runtime::log::NewDocument::new(&tenant, kind, "t1", &value).at(at);
    log.apply(&[log.put_document(document)]).await.unwrap();
    for (name, at, has_it) in [("early", 2, false), ("late", length, true)] {
        engine.fork(&owner(), thread_id("t1"), at, thread_id(name)).await.unwrap();
        let (state, _) = log.document::<serde_json::Value>(&tenant, kind, name).await.unwrap();
        assert_eq!(state.is_some(), has_it, "{name}");
    }
}

#[tokio::test]
async fn tenants_with_the_same_conversation_share_neither_a_call_nor_a_cached_summary() {
    let model = Arc::new(answer(&format!("text = '''{GOOD}'''\ndelay_ms = 50")));
    let seen = Arc::new(Recorder { model: model.clone(), prompts: std::sync::Mutex::default() });
    let asks = ModelSummarizer::new(seen.clone() as Arc<dyn Model>, Duration::from_secs(5));
    let parts = EngineParts {
        summarizer: Summarizer::WithFallback(Arc::new(asks)),
        ..EngineParts::in_memory(EngineSettings { model: Some("scripted-1".into()), ..settings() })
    };
    let engine = Engine::new(parts).await.unwrap();
    let mut threads = Vec::new();
    for (name, id) in [("acme", "a"), ("globex", "a"), ("initech", "a"), ("acme", "b")] {
        let access = Access::owner(tenant(name), "tester");
        let mut thread = engine.open(&access, thread_id(id), Dialect::Chat).await.unwrap();
        thread.append((0..6).flat_map(turn)).await.unwrap();
        threads.push(thread);
    }
    let [acme, globex, initech, again] = &mut threads[..] else { unreachable!() };
    let request = StepRequest::default();
    let (one, two) = tokio::join!(acme.prepare_step(&request), globex.prepare_step(&request));
    assert_eq!((one.unwrap().version, two.unwrap().version), (1, 1));
    assert_eq!(model.asked(), 2, "at the same time, each has a call");
    initech.prepare_step(&request).await.unwrap();
    assert_eq!(model.asked(), 3, "later, nothing is found");
    again.prepare_step(&request).await.unwrap();
    assert_eq!(model.asked(), 3, "within a tenant it is found");
    let own = StepRequest { system: Some("\"A prompt of its own.\"".into()), ..StepRequest::default() };
    let mut other = engine.open(&owner(), thread_id("c"), Dialect::Chat).await.unwrap();
    other.append((0..6).flat_map(turn)).await.unwrap();
    other.prepare_step(&own).await.unwrap();
    let systems: Vec<_> = seen.prompts.lock().unwrap().iter().map(|prompt| prompt.system.clone()).collect();
    assert_eq!(systems, [None, None, None, own.system], "nor under another system prompt");
}

#[tokio::test]
async fn a_cached_summary_that_has_expired_is_not_used() {
    for (lasts, asked) in [(Duration::from_millis(1), 2), (Duration::from_secs(3600), 1)] {
        let model = Arc::new(answer(&format!("text = '''{GOOD}'''")));
        let summarizer = Summarizer::WithFallback(summarizer(&model, Duration::from_secs(5)));
        let settings = EngineSettings { summary_cache: lasts, ..settings() };
        let engine = Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings) }).await.unwrap();
        for name in ["a", "b"] {
            let mut thread = engine.open(&owner(), thread_id(name), Dialect::Chat).await.unwrap();
            thread.append((0..6).flat_map(turn)).await.unwrap();
            thread.prepare_step(&StepRequest::default()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(model.asked(), asked, "kept for {lasts:?}");
    }
}

async fn keeping(retention: ArtifactRetention) -> Engine {
    let window = Some(Tokens::new(26_000));
    Engine::new(EngineParts::in_memory(EngineSettings { retention, window, ..settings() })).await.unwrap()
}

#[tokio::test]
async fn recall_and_read_message_ask_for_the_permission_of_what_is_kept() {
    for (sensitivity, needed) in [
        (Sensitivity::Internal, None),
        (Sensitivity::Confidential, Some(Permission::ReadConfidential)),
        (Sensitivity::Restricted, Some(Permission::ReadRestricted)),
    ] {
        let engine = keeping(ArtifactRetention { sensitivity, ..ArtifactRetention::default() }).await;
        move_out(&mut open(&engine).await, 5).await;
        let base = Permissions::none().with(Permission::ReadThread).with(Permission::WriteThread);
        let with = needed.map_or(base, |permission| base.with(permission));
        for (permissions, may) in [(base, needed.is_none()), (with, true)] {
            let access = Access::new(tenant("acme"), "somebody", permissions);
            let mut thread = engine.resume(&access, thread_id("t1")).await.unwrap();
            assert_eq!(thread.read_message("m1", None).await.is_ok(), may, "{sensitivity:?}");
            let found = thread.recall("padding module_0").await;
            assert_eq!(found.is_ok_and(|found| !found.hits.is_empty()), may, "{sensitivity:?}");
        }
    }
}

#[tokio::test]
async fn an_expired_artifact_is_unreadable_before_and_after_a_sweep() {
    for ttl in [None, Some(Duration::from_millis(1))] {
        let engine = keeping(ArtifactRetention { ttl, ..ArtifactRetention::default() }).await;
        let mut thread = open(&engine).await;
        move_out(&mut thread, 5).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        for hint in hints(&engine, &thread).await {
            assert_eq!(thread.read_artifact(&hint.id).await.is_ok(), ttl.is_none());
        }
        let later = Moment::now().after(Duration::from_secs(30 * 86_400));
        let swept = engine.artifacts().sweep(later).await.unwrap();
        assert_eq!(swept.expired > 0, ttl.is_some());
        let mut again = engine.resume(&owner(), thread_id("t1")).await.unwrap();
        for hint in hints(&engine, &thread).await {
            assert_eq!(thread.read_artifact(&hint.id).await.is_ok(), ttl.is_none());
            assert_eq!(again.read_artifact(&hint.id).await.is_ok(), ttl.is_none());
        }
    }
}

#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<Event>>);

impl Listener for Heard {
    fn hear(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[tokio::test]
async fn a_providers_words_stand_in_no_job_and_no_event() {
    let refusal = r#"error = { kind = "status", status = 400, message = "Bad: 'Never delete production data.'" }"#;
    let model = Arc::new(answer(refusal));
    let heard = Arc::new(Heard::default());
    let parts = EngineParts {
        keys: KEY.parse().unwrap(),
        summarizer: Summarizer::Model(summarizer(&model, Duration::from_secs(5))),
        bus: Bus::new().with_listener(heard.clone()),
        ..EngineParts::in_memory(EngineSettings {
            background: Background::On { wait: Duration::from_millis(1) },
            ..settings()
        })
    };
    let engine = Engine::new(parts).await.unwrap();
    let mut thread = open(&engine).await;
    for at in 0..60 {
        thread.append(turn(at)).await.unwrap();
        if thread.prepare_step(&StepRequest::default()).await.unwrap().is_compacting {
            break;
        }
    }
    assert!(engine.work_once().await && model.asked() > 0, "the model refused");
    let job = engine.log().store().job(thread.key(), &JobKind::Compact).await.unwrap().unwrap();
    assert!(job.error.is_some());
    let kept = engine.log().events(thread.key(), 0, 1000).await.unwrap();
    let kept: Vec<Event> = kept.into_iter().map(|(_, event)| event).collect();
    let told = format!("{:?} {} {}", job, serde_json::json!(kept), serde_json::json!(*heard.0.lock().unwrap()));
    assert!(told.contains("400") && !told.contains("Never delete") && !told.contains("Bad:"), "{told}");
}

#[tokio::test]
async fn with_a_key_a_messages_id_cannot_be_made_from_its_content() {
    for (keys, is_sealed) in keys().into_iter().zip([false, true]) {
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::new(EngineParts { store: store.clone(), keys, ..EngineParts::in_memory(settings()) })
            .await
            .unwrap();
        let mut thread = open(&engine).await;
        let secret = says("user", "my PIN is 4711");
        thread.append([secret.clone()]).await.unwrap();
        let stolen = store.messages(thread.key(), 0..1).await.unwrap()[0].id;
        let counter = counter_for(None);
        let mut guess = Thread::new();
        let guessed = guess
            .append(decode_message(Dialect::Chat, &Raw::whole(secret.as_str())), &Meter::new(&*counter, Dialect::Chat));
        assert_eq!(stolen != guessed, is_sealed);
        let row = store.thread(thread.key()).await.unwrap().unwrap();
        assert_eq!(row.tip != guess.tip(), is_sealed, "nor the thread's");
    }
}

#[tokio::test]
async fn artifacts_are_read_from_the_log_after_the_key_was_changed() {
    let store = Arc::new(MemoryStore::new());
    let objects = FaultyObjects::new(Arc::new(InMemory::new()));
    let parts = |keys: Keys| EngineParts {
        store: store.clone(),
        objects: Arc::new(objects.clone()),
        keys,
        ..EngineParts::in_memory(EngineSettings { window: Some(Tokens::new(26_000)), ..settings() })
    };
    let engine = Engine::new(parts(KEY.parse().unwrap())).await.unwrap();
    let mut thread = open(&engine).await;
    move_out(&mut thread, 5).await;
    objects.fail_always(ObjectCall::Get, ObjectFault::Refused);
    let changed = format!("k2:f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f,{KEY}");
    let engine = Engine::new(parts(changed.parse().unwrap())).await.unwrap();
    let mut thread = engine.resume(&owner(), thread_id("t1")).await.unwrap();
    let moved = hints(&engine, &thread).await;
    assert!(!moved.is_empty());
    for hint in moved {
        assert!(thread.read_artifact(&hint.id).await.unwrap().text().contains("padding of module_"));
    }
    assert!(!thread.recall("padding module_0").await.unwrap().hits.is_empty(), "and what was indexed is found");
}

#[tokio::test]
async fn what_was_indexed_before_there_was_a_key_is_still_found() {
    let store = Arc::new(MemoryStore::new());
    let parts = |keys: Keys| EngineParts { store: store.clone(), keys, ..EngineParts::in_memory(settings()) };
    let engine = Engine::new(parts(Keys::none())).await.unwrap();
    go_on(&mut open(&engine).await, 0..12).await;
    let engine = Engine::new(parts(KEY.parse().unwrap())).await.unwrap();
    let mut thread = engine.resume(&owner(), thread_id("t1")).await.unwrap();
    go_on(&mut thread, 12..24).await;
    for word in ["zephyr2", "zephyr14"] {
        let found = thread.recall(word).await.unwrap();
        assert!(finds(&found, word), "{word}: {}", found.render());
    }
}
