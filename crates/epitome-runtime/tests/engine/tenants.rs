//! No tenant reads another's thread or artifact, by any id; and with a key nothing that was said lies about in the open.

use std::sync::Arc;

use epitome::wire::Dialect;
use epitome_runtime::artifact::{Access, Permission, Permissions};
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, StepRequest};
use epitome_runtime::store::SqliteStore;
use epitome_runtime::vault::Keys;

use crate::world::{go_on, open, owner, said, settings, tenant, thread_id, turn};

fn stranger() -> Access {
    Access::owner(tenant("globex"), "stranger")
}

#[tokio::test]
async fn the_same_thread_id_is_another_thread_for_another_tenant() {
    let engine = crate::world::engine().await;
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..12).await;
    assert!(engine.resume(&stranger(), thread_id("t1")).await.is_err(), "it is not there for a stranger");
    assert!(engine.fork(&stranger(), thread_id("t1"), 3, thread_id("t9")).await.is_err());
    let mut own = engine.open(&stranger(), thread_id("t1"), Dialect::Chat).await.unwrap();
    assert_eq!(own.row().length, 0);
    assert!(own.recall("zephyr2 module_2").await.unwrap().hits.is_empty());
    assert!(own.read_message("m1", None).await.is_err());
    assert!(own.prepare_step(&StepRequest::default()).await.unwrap().messages.is_empty());
    assert!(engine.log().events(own.key(), 0, 10).await.unwrap().is_empty());
    assert_eq!(engine.log().store().threads(&tenant("globex"), None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_artifacts_id_is_no_use_to_another_tenant_nor_guessed_from_its_content() {
    let engine = Engine::new(EngineParts::in_memory(EngineSettings {
        window: Some(epitome::budget::Tokens::new(18_000)),
        ..settings()
    }))
    .await
    .unwrap();
    let mut thread = open(&engine).await;
    let padding = "// padding\\n".repeat(900);
    for at in 0..3 {
        let widen = |message: String| message.replacen("0: let value", &format!("{padding}0: let value"), 1);
        thread.append(turn(at).into_iter().map(widen)).await.unwrap();
    }
    go_on(&mut thread, 3..9).await;
    let (_, plan) = engine.log().plan(thread.key(), None).await.unwrap().unwrap();
    let hint = plan.hints.first().expect("something was moved out").clone();
    let content = thread.read_artifact(&hint.id).await.unwrap().into_text();
    let mut own = engine.open(&stranger(), thread_id("x"), Dialect::Chat).await.unwrap();
    let leaked = own.read_artifact(&hint.id).await.unwrap_err().to_string();
    let unknown = own.read_artifact("0123456789abcdef01234567").await.unwrap_err().to_string();
    assert_eq!(leaked, unknown, "nothing is told apart");
    let plain = epitome::plan::ArtifactId::of(content.as_bytes());
    assert!(!hint.id.starts_with(plain.as_str()), "a hash of the content is not its id");
    let theirs = engine.artifacts().id(&tenant("globex"), content.as_bytes());
    assert_ne!(theirs.as_str(), hint.id, "the same content has another id in another tenant");
    let poor = Access::new(tenant("acme"), "poor", Permissions::none().with(Permission::ReadThread));
    let mut poor = engine.resume(&poor, thread_id("t1")).await.unwrap();
    assert_eq!(poor.read_artifact(&hint.id).await.unwrap_err().to_string(), unknown);
    assert!(poor.read_message("m1", None).await.is_ok() && poor.recall("padding").await.is_ok());
    assert!(poor.append(turn(1)).await.is_err() && poor.remember("x").await.is_err());
    assert!(poor.prepare_step(&StepRequest::default()).await.is_err());
    let none = Access::new(tenant("acme"), "none", Permissions::none());
    assert!(engine.resume(&none, thread_id("t1")).await.is_err());
}

/// Everything in a folder, files of any depth.
fn bytes_under(folder: &std::path::Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(bytes_under(&path)),
            false => all.extend(std::fs::read(path).unwrap()),
        }
    }
    all
}

fn holds_text(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn with_a_key_nothing_that_was_said_stands_in_any_file_and_recall_still_finds_it() {
    for key in [None, Some("k1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")] {
        let folder = std::env::temp_dir().join(format!("epitome-{}-{}", std::process::id(), key.is_some()));
        std::fs::create_dir_all(folder.join("objects")).unwrap();
        let keys: Keys = key.map_or_else(Keys::none, |key| key.parse().unwrap());
        let store = Arc::new(SqliteStore::open(folder.join("store.db")).unwrap());
        let objects = object_store::local::LocalFileSystem::new_with_prefix(folder.join("objects")).unwrap();
        let window = Some(epitome::budget::Tokens::new(18_000));
        let parts = EngineParts {
            store,
            objects: Arc::new(objects),
            keys,
            ..EngineParts::in_memory(EngineSettings { window, ..settings() })
        };
        let engine = Engine::new(parts).await.unwrap();
        let mut thread = open(&engine).await;
        let padding = "// quincunx padding\\n".repeat(600);
        for at in 0..3 {
            let widen = |message: String| message.replacen("0: let value", &format!("{padding}0: let value"), 1);
            thread.append(turn(at).into_iter().map(widen)).await.unwrap();
        }
        go_on(&mut thread, 3..30).await;
        thread.remember("the capybara entry").await.unwrap();
        let found = thread.recall("quincunx value_2_7").await.unwrap();
        assert!(found.hits.iter().any(|hit| hit.text.contains("quincunx")), "{}", found.render());
        assert!(said(&thread.prepare_step(&StepRequest::default()).await.unwrap()).contains("Never delete"));
        drop((thread, engine));
        let bytes = bytes_under(&folder);
        assert!(bytes.len() > 20_000);
        for word in ["quincunx", "zephyr", "compute(", "Never delete", "module_", "capybara"] {
            assert_eq!(holds_text(&bytes, word), key.is_none(), "{word} with {key:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[tokio::test]
async fn errors_and_events_hold_nothing_that_was_said_and_no_key() {
    let keys: Keys = "k1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".parse().unwrap();
    let engine = Engine::new(EngineParts { keys, ..EngineParts::in_memory(settings()) }).await.unwrap();
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..15).await;
    let events = engine.log().events(thread.key(), 0, 1000).await.unwrap();
    let told = serde_json::to_string(&events.iter().map(|(_, event)| event).collect::<Vec<_>>()).unwrap();
    assert!(told.contains("compaction_completed"));
    for word in ["zephyr", "compute(", "Never delete", "module_3.rs", "000102030405"] {
        assert!(!told.contains(word), "{word}");
    }
    assert!(!format!("{engine:?}").contains("000102030405"));
    let _ = owner();
}
