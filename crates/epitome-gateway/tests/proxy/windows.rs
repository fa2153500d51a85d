//! Learned windows: they belong to a tenant, an upstream and a model, and one error never shrinks a listed one.

use epitome::wire::Dialect;
use epitome_gateway::settings::ApiKey;
use epitome_mock::MockServer;
use epitome_runtime::engine::{Engine, EngineParts};
use epitome_runtime::ids::TenantId;
use epitome_runtime::model::{LESSONS_MAX, Secret};
use serde_json::json;

use crate::talk::Talk;
use crate::wire::{Line, Then};
use crate::world::{Folder, Gate, Plan, World};

const WINDOW: u64 = 8_000;

/// A gateway for two tenants over a store that lasts.
fn plan(folder: &Folder) -> Plan {
    let keys = ["acme", "bolt"].map(|tenant| {
        let secret = Secret::new(&format!("ek-{tenant}"));
        ApiKey { tenant: tenant.parse().unwrap(), secret }
    });
    Plan::new().store(folder.store()).objects(folder.objects()).settings(|settings| settings.keys = keys.into())
}

/// A conversation of a tenant that does not fit the small window.
fn talk(tenant: &str, model: &str, task: &str) -> Talk {
    let key = format!("ek-{tenant}");
    Talk::about(Dialect::Chat, task).model(model).header("x-epitome-key", &key).grown(16_000)
}

/// Sends a conversation: how often it was sent again, and whether it was compacted.
async fn outcome(gate: &Gate, talk: &Talk) -> (u64, bool) {
    let got = talk.send(gate).await.fine();
    (got.told("retries").map_or(0, |retries| retries.parse().unwrap()), got.plan() > 0)
}

/// The windows that a tenant's requests taught, once what is over is written down.
async fn learned(folder: &Folder, tenant: &str) -> Vec<(String, u64)> {
    let parts = EngineParts {
        store: folder.store(),
        ..EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default())
    };
    let engine = Engine::new(parts).await.unwrap();
    let book = engine.lessons(&tenant.parse::<TenantId>().unwrap()).await.unwrap();
    let window =
        |lesson: &epitome_runtime::model::ModelLesson| Some((lesson.model.clone(), lesson.window?.tokens.get()));
    book.iter().filter_map(window).collect()
}

/// Two conversations of acme are refused, so that even a listed window is learned; everything is written down.
async fn taught(folder: &Folder, model: &str) -> MockServer {
    let World { mock, gate } = plan(folder).window(WINDOW).start().await;
    for (at, task) in ["One task.", "Another task."].into_iter().enumerate() {
        let (retries, is_compacted) = outcome(&gate, &talk("acme", model, task)).await;
        assert!(is_compacted, "{model}: {task}");
        assert!(retries > 0 || at > 0, "{model}: {task}");
    }
    gate.stop().await;
    mock
}

#[tokio::test]
async fn one_tenants_overflow_leaves_anothers_window_alone_also_after_a_restart() {
    for model in ["mock", "gpt-4o"] {
        let folder = Folder::new();
        let mock = taught(&folder, model).await;
        assert_eq!(learned(&folder, "acme").await, [(model.to_owned(), WINDOW)]);
        assert_eq!(learned(&folder, "bolt").await, []);
        let wide = MockServer::start(Default::default()).unwrap();
        let gate = plan(&folder).gate(&mock.url()).await;
        assert_eq!(outcome(&gate, &talk("acme", model, "A third task.")).await, (0, true), "{model}: it is known");
        gate.stop().await;
        // The same address with a larger window cannot be had here, so bolt asks for it by its header.
        let gate = plan(&folder).gate(&mock.url()).await;
        let bolt = talk("bolt", model, "A task of bolt's.").header("x-mock-window", "128000");
        assert_eq!(outcome(&gate, &bolt).await, (0, false), "{model}: bolt's prompt goes out as it came");
        gate.stop().await;
        let gate = plan(&folder).gate(&wide.url()).await;
        let acme = talk("acme", model, "A fourth task.");
        assert_eq!(outcome(&gate, &acme).await, (0, false), "{model}: another upstream is another window");
        gate.stop().await;
    }
}

#[tokio::test]
async fn a_listed_window_is_not_lowered_by_one_conversation() {
    let folder = Folder::new();
    let World { mock, gate } = plan(&folder).window(WINDOW).start().await;
    let (retries, _) = outcome(&gate, &talk("acme", "gpt-4o", "One task.")).await;
    assert!(retries > 0);
    let other = |task| talk("acme", "gpt-4o", task).header("x-mock-window", "128000");
    assert_eq!(outcome(&gate, &other("Another task.")).await, (0, false));
    gate.stop().await;
    assert_eq!(learned(&folder, "acme").await, []);
    let gate = plan(&folder).gate(&mock.url()).await;
    assert_eq!(outcome(&gate, &other("A third task.")).await, (0, false));
}

#[tokio::test]
async fn an_error_that_repeats_the_callers_words_teaches_nothing() {
    let echo = "maximum context length is 1200 tokens";
    for message in [
        format!("Invalid value: '{echo}'. Supported values are: 'system' and 'user'."),
        format!("Unknown parameter: \\\"my {echo}\\\"."),
    ] {
        let body =
            format!(r#"{{"error":{{"message":"{message}","type":"invalid_request_error","code":"invalid_value"}}}}"#);
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let line = Line::saying([head.as_bytes(), body.as_bytes()].concat(), Then::Close).await;
        for model in ["gpt-4.1", "made-up"] {
            let folder = Folder::new();
            let gate = plan(&folder).gate(&line.url()).await;
            for task in ["One task.", "Another task.", "A third task."] {
                let got = talk("acme", model, task).send(&gate).await;
                assert_eq!(
                    (got.status, got.text()),
                    (400, body.clone()),
                    "what nothing helps against comes back as it was"
                );
            }
            gate.stop().await;
            assert_eq!(learned(&folder, "acme").await, [], "{model}: {message}");
            let mock = MockServer::start(Default::default()).unwrap();
            let gate = plan(&folder).gate(&mock.url()).await;
            assert_eq!(outcome(&gate, &talk("bolt", model, "A task of bolt's.")).await, (0, false), "{model}");
        }
    }
}

#[tokio::test]
async fn a_larger_prompt_that_is_accepted_ends_a_learned_window() {
    let folder = Folder::new();
    let mock = taught(&folder, "mock").await;
    assert_eq!(learned(&folder, "acme").await, [("mock".to_owned(), WINDOW)]);
    let parts = EngineParts {
        store: folder.store(),
        ..EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default())
    };
    let engine = Engine::new(parts).await.unwrap();
    let served = epitome_runtime::model::ServedModel::new("acme".parse().unwrap(), mock.url(), "mock");
    let usage = epitome_runtime::model::Usage { input: WINDOW + 1, ..Default::default() };
    let counted = epitome::budget::Tokens::new(WINDOW);
    engine.learn(&served, |lesson| lesson.accept(counted, &usage)).await;
    drop(engine);
    assert_eq!(learned(&folder, "acme").await, []);
    let gate = plan(&folder).gate(&mock.url()).await;
    let wide = talk("acme", "mock", "A third task.").header("x-mock-window", "128000");
    assert_eq!(outcome(&gate, &wide).await, (0, false));
}

#[tokio::test]
async fn a_request_that_cannot_shrink_and_is_accepted_ends_a_learned_window() {
    let folder = Folder::new();
    let mock = taught(&folder, "mock").await;
    assert_eq!(learned(&folder, "acme").await, [("mock".to_owned(), WINDOW)]);
    let gate = plan(&folder).gate(&mock.url()).await;
    let wide = |talk: Talk| talk.header("x-mock-window", "128000");
    let order: String = (0..3_000).map(|at| format!("point {at} of the order. ")).collect();
    let mut large = Talk::about(Dialect::Chat, "Go on.").model("mock").header("x-epitome-key", "ek-acme");
    large.messages[0] = json!({"role": "system", "content": order}).to_string();
    assert_eq!(outcome(&gate, &wide(large)).await.0, 0, "it is above the window, and the provider takes it");
    gate.flush().await;
    assert_eq!(
        outcome(&gate, &wide(talk("acme", "mock", "A third task."))).await,
        (0, false),
        "the window is wide again"
    );
    gate.stop().await;
    assert_eq!(learned(&folder, "acme").await, []);
}

#[tokio::test]
async fn made_up_model_names_do_not_grow_the_store_without_bound() {
    let folder = Folder::new();
    let World { mock: _mock, gate } = plan(&folder).start().await;
    for at in 0..LESSONS_MAX + 10 {
        let talk = Talk::about(Dialect::Chat, "A task.").model(&format!("made-up-{at}"));
        let talk = talk.header("x-epitome-key", "ek-acme").field("user", json!("someone")).grown(6_000);
        talk.send(&gate).await.fine();
    }
    gate.stop().await;
    let parts = EngineParts {
        store: folder.store(),
        ..EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default())
    };
    let engine = Engine::new(parts).await.unwrap();
    let count = engine.lessons(&"acme".parse().unwrap()).await.unwrap().iter().count();
    assert_eq!(count, LESSONS_MAX);
}
