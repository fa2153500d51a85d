//! A provider that says "too long": the window is learned, the prompt is compacted harder, the answer comes.

use std::sync::Arc;

use epitome::budget::{Tokens, Window};
use epitome::wire::Dialect;
use epitome_runtime::engine::{Clock, Engine, EngineParts, EngineSettings, StepRequest};
use epitome_runtime::ids::Moment;
use epitome_runtime::model::{LEARNED_FOR, Model, Scripted, ServedModel};
use serde_json::json;

use crate::world::{owner, thread_id, turn};

#[tokio::test]
async fn a_window_that_nobody_told_is_learned_from_the_refusal_and_kept() {
    let script = "model = \"tiny-1\"\nwindow = 3000\n\n[[answer]]\ntext = \"Yes, go on.\"\nrepeat = true\n";
    let model = Scripted::parse(script).unwrap();
    let store = Arc::new(epitome_runtime::store::MemoryStore::new());
    let settings = EngineSettings { model: Some("tiny-1".into()), ..EngineSettings::default() };
    let parts = || EngineParts { store: store.clone(), ..EngineParts::in_memory(settings.clone()) };
    let engine = Engine::new(parts()).await.unwrap();
    let mut thread = engine.open(&owner(), thread_id("t"), Dialect::Chat).await.unwrap();
    for at in 0..20 {
        thread.append(turn(at)).await.unwrap();
        thread.append([json!({"role": "user", "content": "Shall I go on?"}).to_string()]).await.unwrap();
        let answer = thread.ask(&model, &StepRequest::default(), false, &mut |_| {}).await.unwrap();
        assert_eq!(answer.text, "Yes, go on.");
    }
    let served = ServedModel::new(owner().tenant, "", model.id());
    assert_eq!(engine.window_of(&served), Window::Learned(Tokens::new(3000)));
    let other = Engine::new(parts()).await.unwrap();
    other.open(&owner(), thread_id("t"), Dialect::Chat).await.unwrap();
    assert_eq!(other.window_of(&served), Window::Learned(Tokens::new(3000)), "another engine knows it too");
    for stranger in [
        ServedModel { tenant: "bolt".parse().unwrap(), ..served.clone() },
        ServedModel { upstream: "http://127.0.0.1:1".into(), ..served.clone() },
    ] {
        other.refresh_lessons(&stranger.tenant).await;
        assert_eq!(other.window_of(&stranger), Window::Fallback(Tokens::new(128_000)), "{stranger:?}");
        assert_eq!(other.factor_of(&stranger), None, "{stranger:?}");
    }
    assert!(other.factor_of(&served).is_some());
}

#[tokio::test]
async fn a_prompt_that_can_never_fit_ends_with_the_providers_own_error() {
    let script = "model = \"tiny-2\"\nwindow = 20\n\n[[answer]]\ntext = \"?\"\nrepeat = true\n";
    let model = Scripted::parse(script).unwrap();
    let engine = Engine::new(EngineParts::in_memory(EngineSettings::default())).await.unwrap();
    let mut thread = engine.open(&owner(), thread_id("t"), Dialect::Chat).await.unwrap();
    thread.append([json!({"role": "user", "content": "word ".repeat(500)}).to_string()]).await.unwrap();
    let error = thread.ask(&model, &StepRequest::default(), false, &mut |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert_eq!(model.asked(), 4, "three steps harder, then no more");
}

/// A model with a window that nobody told, and what it is known as.
fn tiny(model: &str) -> (Scripted, ServedModel) {
    let script = format!("model = \"{model}\"\nwindow = 3000\n\n[[answer]]\ntext = \"Yes.\"\nrepeat = true\n");
    let model = Scripted::parse(&script).unwrap();
    let served = ServedModel::new(owner().tenant, "", model.id());
    (model, served)
}

/// A conversation that outgrows the window.
async fn outgrow(engine: &Engine, model: &Scripted, name: &str) {
    let mut thread = engine.open(&owner(), thread_id(name), Dialect::Chat).await.unwrap();
    for at in 0..20 {
        thread.append(turn(at)).await.unwrap();
        thread.append([json!({"role": "user", "content": "Shall I go on?"}).to_string()]).await.unwrap();
        thread.ask(model, &StepRequest::default(), false, &mut |_| {}).await.unwrap();
    }
}

#[tokio::test]
async fn a_listed_window_is_lowered_by_a_second_conversation_and_not_by_one() {
    let settings = EngineSettings { model: Some("gpt-4o".into()), ..EngineSettings::default() };
    let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
    let (model, served) = tiny("gpt-4o");
    outgrow(&engine, &model, "one").await;
    assert_eq!(engine.window_of(&served), Window::Listed(Tokens::new(128_000)));
    outgrow(&engine, &model, "another").await;
    assert_eq!(engine.window_of(&served), Window::Learned(Tokens::new(3000)));
}

#[tokio::test]
async fn a_learned_window_is_forgotten_after_its_time_and_learned_anew() {
    let days = Arc::new(std::sync::atomic::AtomicI64::new(0));
    let clock = {
        let days = days.clone();
        Clock::new(move || Moment(days.load(std::sync::atomic::Ordering::SeqCst) * 86_400_000))
    };
    let engine = Engine::new(EngineParts::in_memory(EngineSettings::default())).await.unwrap().with_clock(clock);
    let (model, served) = tiny("tiny-1");
    outgrow(&engine, &model, "one").await;
    let learned_for = i64::try_from(LEARNED_FOR.as_secs() / 86_400).unwrap();
    days.store(learned_for - 1, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(engine.window_of(&served), Window::Learned(Tokens::new(3000)));
    days.store(learned_for, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(engine.window_of(&served), Window::Fallback(Tokens::new(128_000)));
    outgrow(&engine, &model, "another").await;
    assert_eq!(engine.window_of(&served), Window::Learned(Tokens::new(3000)));
}

#[tokio::test]
async fn a_reset_is_not_undone_by_an_engine_that_did_not_know_of_it() {
    let store = Arc::new(epitome_runtime::store::MemoryStore::new());
    let parts = || EngineParts { store: store.clone(), ..EngineParts::in_memory(EngineSettings::default()) };
    let engine = Engine::new(parts()).await.unwrap();
    let (model, served) = tiny("tiny-1");
    outgrow(&engine, &model, "one").await;
    let other = Engine::new(parts()).await.unwrap();
    let forgotten = other.forget_lessons(&served.tenant, Some("tiny-1"), None).await.unwrap();
    assert_eq!(forgotten.len(), 1);
    let second = ServedModel { model: "tiny-2".into(), ..served.clone() };
    let usage = epitome_runtime::model::Usage { input: 1300, ..Default::default() };
    engine.learn(&second, |lesson| lesson.accept(Tokens::new(1000), &usage)).await;
    let book = engine.lessons(&served.tenant).await.unwrap();
    let models: Vec<&str> = book.iter().map(|lesson| lesson.model.as_str()).collect();
    assert_eq!(models, ["tiny-2"]);
    assert_eq!(engine.window_of(&served), Window::Fallback(Tokens::new(128_000)));
}

#[tokio::test]
async fn what_an_older_version_learned_for_everybody_is_not_believed() {
    let store = Arc::new(epitome_runtime::store::MemoryStore::new());
    let parts = || EngineParts { store: store.clone(), ..EngineParts::in_memory(EngineSettings::default()) };
    let engine = Engine::new(parts()).await.unwrap();
    let system = "epitome.system".parse().unwrap();
    let old = json!({"windows": {"gpt-4o": 1200}, "calibration": {"gpt-4o": 2.0}});
    let document =
        epitome_runtime::log::NewDocument::new(&system, epitome_runtime::store::DocumentKind::Learned, "models", &old);
    engine.log().apply(&[engine.log().put_document(document)]).await.unwrap();
    let engine = Engine::new(parts()).await.unwrap();
    engine.open(&owner(), thread_id("t"), Dialect::Chat).await.unwrap();
    let served = ServedModel::new(owner().tenant, "", "gpt-4o");
    assert_eq!(engine.window_of(&served), Window::Listed(Tokens::new(128_000)));
    assert_eq!(engine.factor_of(&served), None);
    assert_eq!(engine.lessons(&system).await.unwrap().iter().count(), 0);
}
