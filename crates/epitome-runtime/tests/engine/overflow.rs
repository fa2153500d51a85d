//! A provider that says "too long": the window is learnt, the prompt is compacted harder, the answer comes.

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::wire::Dialect;
use epitome_runtime::engine::{Engine, Parts, Settings, StepRequest};
use epitome_runtime::model::{Model, Scripted};
use serde_json::json;

use crate::world::{owner, thread_id, turn};

#[tokio::test]
async fn a_window_that_nobody_told_is_learnt_from_the_refusal_and_kept() {
    let script = "model = \"tiny-1\"\nwindow = 3000\n\n[[answer]]\ntext = \"Yes, go on.\"\nrepeat = true\n";
    let model = Scripted::parse(script).unwrap();
    let store = Arc::new(epitome_runtime::store::Memory::new());
    let settings = Settings { model: Some("tiny-1".into()), ..Settings::default() };
    let parts = || Parts { store: store.clone(), ..Parts::in_memory(settings.clone()) };
    let engine = Engine::new(parts()).await.unwrap();
    let mut thread = engine.open(&owner(), thread_id("t"), Dialect::Chat).await.unwrap();
    for at in 0..20 {
        thread.append(turn(at)).await.unwrap();
        thread.append([json!({"role": "user", "content": "Shall I go on?"}).to_string()]).await.unwrap();
        let answer = thread.ask(&model, &StepRequest::default(), false, &mut |_| {}).await.unwrap();
        assert_eq!(answer.text, "Yes, go on.");
    }
    assert_eq!(engine.learnt().windows.of(model.id()).tokens(), Tokens::new(3000));
    let other = Engine::new(parts()).await.unwrap();
    assert_eq!(other.learnt().windows.of(model.id()).tokens(), Tokens::new(3000), "another engine knows it too");
}

#[tokio::test]
async fn a_prompt_that_can_never_fit_ends_with_the_providers_own_error() {
    let script = "model = \"tiny-2\"\nwindow = 20\n\n[[answer]]\ntext = \"?\"\nrepeat = true\n";
    let model = Scripted::parse(script).unwrap();
    let engine = Engine::new(Parts::in_memory(Settings::default())).await.unwrap();
    let mut thread = engine.open(&owner(), thread_id("t"), Dialect::Chat).await.unwrap();
    thread.append([json!({"role": "user", "content": "word ".repeat(500)}).to_string()]).await.unwrap();
    let error = thread.ask(&model, &StepRequest::default(), false, &mut |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert_eq!(model.asked(), 4, "three steps harder, then no more");
}
