//! Limits hold: on what comes back, on what is waited for, on how often a provider is asked, on what is learned of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use epitome::budget::{Meter, Overflow, Tokens, counter_for};
use epitome::wire::Dialect;
use epitome_runtime::engine::{Background, Engine, EngineParts, EngineSettings, Step, StepRequest};
use epitome_runtime::model::{Hear, Model, ModelAnswer, ModelError, ModelPrompt, Scripted, ServedModel};
use epitome_runtime::store::MemoryStore;
use epitome_testkit::{FaultyObjects, ObjectCall, ObjectFault};
use object_store::memory::InMemory;
use serde_json::json;

use crate::world::{WINDOW, engine, hints, long, move_out, open, owner, says, settings, thread_id, turn};

fn in_window(tokens: u64) -> EngineSettings {
    EngineSettings { window: Some(Tokens::new(tokens)), ..settings() }
}

#[tokio::test(start_paused = true)]
async fn a_hung_object_store_is_waited_for_once_however_many_artifacts_there_are() {
    let timeout = Duration::from_secs(20);
    let objects = FaultyObjects::new(Arc::new(InMemory::new()));
    let settings = EngineSettings { object_timeout: timeout, ..in_window(150_000) };
    let engine = Engine::new(EngineParts { objects: Arc::new(objects.clone()), ..EngineParts::in_memory(settings) })
        .await
        .unwrap();
    let mut thread = open(&engine).await;
    thread.append((0..40).flat_map(|at| long(at, 400))).await.unwrap();
    objects.fail_always(ObjectCall::Put, ObjectFault::Hung);
    let begun = tokio::time::Instant::now();
    let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
    let times = begun.elapsed().as_secs_f64() / timeout.as_secs_f64();
    assert_eq!(step.version, 1);
    assert!(hints(&engine, &thread).await.len() > 16, "many were to be written");
    assert!(times < 1.5, "{times} times its timeout");
}

#[tokio::test(start_paused = true)]
async fn without_a_worker_the_hard_mark_costs_a_short_wait_and_not_the_whole_one() {
    let wait = Duration::from_secs(100);
    let settings = EngineSettings { background: Background::On { wait }, ..settings() };
    let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
    let mut thread = open(&engine).await;
    let mut longest = Duration::ZERO;
    for at in 0..20 {
        thread.append(turn(at)).await.unwrap();
        let begun = tokio::time::Instant::now();
        let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
        assert!(step.tokens <= step.room.limit);
        longest = longest.max(begun.elapsed());
    }
    assert!(thread.row().version > 1, "the hard mark was reached");
    assert!(longest < wait / 10, "{longest:?} of {wait:?}");
}

/// A provider that finds something else wrong with each request.
#[derive(Debug)]
struct Fickle {
    asked: AtomicU64,
    says: fn(u64) -> Overflow,
}

#[async_trait]
impl Model for Fickle {
    fn id(&self) -> &'static str {
        "fickle"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    async fn answer(&self, _: &ModelPrompt, _: &mut Hear<'_>) -> Result<ModelAnswer, ModelError> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(asked < 100, "it is asked for ever");
        Err(ModelError::Overflow {
            status: 400,
            overflow: (self.says)(asked),
            message: "too much".into(),
            quoted: false,
        })
    }
}

fn output_budget(input: u64) -> Overflow {
    let (max_tokens, limit) = (Tokens::new(9000), Tokens::new(8000));
    Overflow::OutputBudget { input: Tokens::new(input), max_tokens, limit }
}

fn too_long(limit: u64) -> Overflow {
    Overflow::InputTooLong { used: Some(Tokens::new(limit + 1)), limit: Some(Tokens::new(limit)) }
}

#[tokio::test]
async fn asking_ends_after_a_few_requests_whatever_the_provider_says() {
    let kinds: [fn(u64) -> Overflow; 5] = [
        |asked| output_budget(1000 + asked % 2),
        |asked| output_budget(1000 + asked),
        |_| output_budget(1000),
        |asked| too_long(8000 - asked),
        |asked| if asked % 2 == 0 { output_budget(1000 + asked) } else { too_long(8000 + asked) },
    ];
    for (kind, says_what) in kinds.into_iter().enumerate() {
        let engine = engine().await;
        let mut thread = open(&engine).await;
        thread.append([says("user", "hello")]).await.unwrap();
        let model = Fickle { asked: AtomicU64::new(0), says: says_what };
        let outcome = thread.ask(&model, &StepRequest::default(), false, &mut |_| {}).await;
        assert!(outcome.is_err());
        let asked = model.asked.load(Ordering::SeqCst);
        assert!((2..=8).contains(&asked), "kind {kind}: {asked} requests");
    }
}

/// A provider that counts what it is sent as we do.
#[derive(Debug)]
struct Honest;

#[async_trait]
impl Model for Honest {
    fn id(&self) -> &'static str {
        "honest-1"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    async fn answer(&self, prompt: &ModelPrompt, hear: &mut Hear<'_>) -> Result<ModelAnswer, ModelError> {
        let counter = counter_for(Some(self.id()));
        // It bills the wrapping of what it is sent, as every provider does.
        let fixed = Meter::new(&*counter, Dialect::Chat).fixed(prompt.system.as_deref(), prompt.tools.as_deref());
        let messages = prompt.messages.iter().map(|text| counter.count(text).get());
        let input = messages.sum::<u64>() + fixed.total().get();
        let script = format!(
            "model = \"honest-1\"\n[[answer]]\ntext = \"ok\"\n\
             usage = {{ input = {input}, output = 3, cached = 0, written = 0 }}\n"
        );
        Scripted::parse(&script).unwrap().answer(prompt, hear).await
    }
}

fn served(model: &str) -> ServedModel {
    ServedModel::new(owner().tenant, "", model)
}

fn tools(count: usize) -> String {
    let tool = |number: usize| {
        json!({"type": "function", "function": {"name": format!("tool_{number}"),
            "description": "does a thing that is described here at some length for the model to know when",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}})
    };
    serde_json::Value::Array((0..count).map(tool).collect()).to_string()
}

#[tokio::test]
async fn an_honest_provider_with_large_tools_leaves_the_calibration_near_one() {
    let settings = EngineSettings { model: Some("honest-1".into()), ..in_window(100_000) };
    let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
    let mut thread = open(&engine).await;
    let request = StepRequest {
        tools: Some(tools(100)),
        system: Some(json!("Be careful. ".repeat(200)).to_string()),
        ..StepRequest::default()
    };
    let fixed = thread.prepare_step(&request).await.unwrap().fixed;
    for _ in 0..8 {
        thread.append([says("user", &"some words in a request ".repeat(20))]).await.unwrap();
        let step = thread.prepare_step(&request).await.unwrap();
        assert!(step.tokens < fixed, "the tools are the larger part");
        thread.ask(&Honest, &request, false, &mut |_| {}).await.unwrap();
        let factor = engine.factor_of(&served("honest-1")).expect("something was learned");
        assert!((0.9..1.1).contains(&factor), "{factor}");
    }
}

/// The strings of a message, one on each line.
fn words_in(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => format!("{text}\n"),
        serde_json::Value::Array(items) => items.iter().map(words_in).collect(),
        serde_json::Value::Object(fields) => fields.values().map(words_in).collect(),
        _ => String::new(),
    }
}

/// By our own count, the whole prompt is no larger than the window.
fn is_within(step: &Step, window: u64, engine: &Engine) {
    // A provider reads the words, not JSON's signs around and inside them.
    let words = step.messages.iter().map(|message| words_in(&serde_json::from_str(message).unwrap()));
    let rendered: u64 = words.map(|words| engine.counter().count(&words).get()).sum();
    assert!(step.counted() <= Tokens::new(window), "{} of {window}", step.counted());
    assert!(rendered <= window, "{rendered} of {window} as it is written");
}

#[tokio::test]
async fn what_comes_back_stays_within_a_window_that_is_smaller_than_its_limits() {
    let (store, objects) = (Arc::new(MemoryStore::new()), Arc::new(InMemory::new()));
    let parts = |window| EngineParts {
        store: store.clone(),
        objects: objects.clone(),
        ..EngineParts::in_memory(in_window(window))
    };
    let engine = Engine::new(parts(26_000)).await.unwrap();
    let mut thread = open(&engine).await;
    move_out(&mut thread, 5).await;
    let ids: Vec<String> = hints(&engine, &thread).await.into_iter().map(|hint| hint.id).collect();
    for window in [12_000, 6000, 4000, 3000, 2048] {
        let engine = Engine::new(parts(window)).await.unwrap();
        let name = thread_id(&format!("window-{window}"));
        let mut fork = engine.fork(&owner(), thread_id("t1"), thread.row().length, name).await.unwrap();
        fork.append([says("user", &format!("Look at {}", ids.join(" and ")))]).await.unwrap();
        for _ in 0..3 {
            let step = fork.prepare_step(&StepRequest::default()).await.unwrap();
            assert!(!step.rehydrated.is_empty(), "something comes back into {window}");
            is_within(&step, window, &engine);
        }
    }
}

#[tokio::test]
async fn the_memory_block_stays_within_the_window_however_much_is_remembered() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    thread.append([says("user", "hello")]).await.unwrap();
    for number in 0..40 {
        thread.remember(&format!("entry {number} {}", "words and more words ".repeat(100))).await.unwrap();
    }
    thread.remember(&"huge ".repeat(20_000)).await.unwrap();
    let request = StepRequest { with_memory: true, ..StepRequest::default() };
    let step = thread.prepare_step(&request).await.unwrap();
    assert!(step.rehydrated_tokens > Tokens::ZERO, "it is there");
    is_within(&step, WINDOW, &engine);
    for at in 0..8 {
        thread.append(turn(at)).await.unwrap();
        is_within(&thread.prepare_step(&request).await.unwrap(), WINDOW, &engine);
    }
}

fn compare(number: usize, pair: &[String]) -> [String; 2] {
    let call = format!("compare_{number}");
    [
        json!({"role": "assistant", "content": "", "tool_calls": [{"id": call, "type": "function",
            "function": {"name": "diff", "arguments": json!({"files": pair}).to_string()}}]})
        .to_string(),
        json!({"role": "tool", "tool_call_id": call, "content": "ok"}).to_string(),
    ]
}

#[tokio::test]
async fn the_limits_per_turn_hold_over_many_steps_of_one_turn() {
    // Once the tokens are the narrower limit, once the number of artifacts.
    for (total, artifacts_max) in [(6000, 9), (60_000, 2)] {
        let mut settings = in_window(150_000);
        let rules = &mut settings.policy.rehydrate;
        (rules.total, rules.artifacts_max) = (Tokens::new(total), artifacts_max);
        let rules = rules.clone();
        let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
        let mut thread = open(&engine).await;
        thread.append((0..40).flat_map(|at| long(at, 400))).await.unwrap();
        thread.prepare_step(&StepRequest::default()).await.unwrap();
        let ids: Vec<String> = hints(&engine, &thread).await.into_iter().map(|hint| hint.id).collect();
        assert!(ids.len() > 9, "{} were moved out", ids.len());
        thread.append([says("user", "Go through all of it.")]).await.unwrap();
        let (mut came, mut tokens) = (BTreeSet::new(), Tokens::ZERO);
        for (number, pair) in ids.chunks(2).enumerate() {
            thread.append(compare(number, pair)).await.unwrap();
            let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
            for back in &step.rehydrated {
                if came.insert(back.reference.clone()) {
                    tokens += engine.counter().count(&back.content);
                }
            }
            assert!(step.rehydrated_tokens <= rules.total);
            assert!(came.len() <= artifacts_max && tokens <= rules.total, "{tokens} in {} artifacts", came.len());
        }
        assert!(!came.is_empty(), "some came");
    }
}
