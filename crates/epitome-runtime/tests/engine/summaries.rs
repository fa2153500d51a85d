//! Summaries by a model: used when they are good, replaced when they are not, cached, and asked for once.

use std::sync::Arc;
use std::time::Duration;

use epitome_runtime::engine::{Background, Engine, EngineParts, EngineSettings, Jobs, StepRequest};
use epitome_runtime::event::{Bus, CompactionStats, Event, EventKind, Hook};
use epitome_runtime::ids::ThreadKey;
use epitome_runtime::model::{Hear, Model, ModelAnswer, ModelError, ModelPrompt, Scripted};
use epitome_runtime::store::{JobKind, MemoryStore};
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};

use crate::world::{go_on, holds, open, owner, said, settings, thread_id, turn};

pub const GOOD: &str = r#"{"goal":"Keep the quince modules in order.","progress":[{"text":"module_0 was read","message":3}],
    "open_items":[{"description":"Write the quince notes.","context":"","priority":"high"}]}"#;

pub fn answer(answer: &str) -> Scripted {
    Scripted::parse(&format!(
        "model = \"scripted-1\"\ndialect = \"chat\"\n\n[[answer]]\nfor = \"summary\"\nrepeat = true\n{answer}\n"
    ))
    .unwrap()
}

pub fn summarizer(model: &Arc<Scripted>, timeout: Duration) -> Arc<ModelSummarizer> {
    Arc::new(ModelSummarizer::new(Arc::clone(model) as Arc<dyn Model>, timeout))
}

async fn engine_with(summarizer: Summarizer) -> Engine {
    Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings()) }).await.unwrap()
}

async fn events(engine: &Engine, name: &str) -> Vec<Event> {
    let key = epitome_runtime::ids::ThreadKey::new(owner().tenant, thread_id(name));
    engine.log().events(&key, 0, 10_000).await.unwrap().into_iter().map(|(_, event)| event).collect()
}

#[tokio::test]
async fn a_good_answer_is_used_and_what_code_carries_is_carried() {
    let model = Arc::new(answer(&format!("text = '''{GOOD}'''")));
    let engine = engine_with(Summarizer::WithFallback(summarizer(&model, Duration::from_secs(5)))).await;
    let mut thread = open(&engine).await;
    let steps = go_on(&mut thread, 0..12).await;
    let prompt = said(steps.last().unwrap());
    assert!(prompt.contains("Never delete production data."), "{prompt}");
    for words in ["Keep the quince modules in order.", "module_0 was read", "Write the quince notes."] {
        assert_eq!(prompt.matches(words).count(), 1, "{words}: {prompt}");
    }
    let completed: Vec<Event> =
        events(&engine, "t1").await.into_iter().filter(|event| event.kind == EventKind::CompactionCompleted).collect();
    assert!(completed.iter().any(|event| event.details["author"] == "model"), "{completed:?}");
    assert!(model.asked() > 0);
}

#[tokio::test]
async fn the_words_of_a_later_round_replace_those_of_the_earlier_ones() {
    let answers: String = (1..=6)
        .map(|round| {
            let text = format!(
                r#"{{"goal":"Order the modules, stage {round}.","progress":[{{"text":"Finding {round} holds.","message":3}}],
                "decisions":[{{"decision":"Keep layout {round}.","rationale":"","message":3}}],
                "open_items":[{{"description":"Write note {round}.","context":"","priority":"high"}}]}}"#
            );
            let repeat = if round == 6 { "repeat = true\n" } else { "" };
            format!("[[answer]]\nfor = \"summary\"\n{repeat}text = '''{text}'''\n\n")
        })
        .collect();
    let script = format!("model = \"scripted-1\"\ndialect = \"chat\"\n\n{answers}");
    let model = Arc::new(Scripted::parse(&script).unwrap());
    let engine = engine_with(Summarizer::WithFallback(summarizer(&model, Duration::from_secs(5)))).await;
    let mut thread = open(&engine).await;
    let steps = go_on(&mut thread, 0..40).await;
    let asked = model.asked();
    assert!(asked >= 3, "three rounds at least: {asked}");
    let newest = asked.min(6);
    let prompt = said(steps.last().unwrap());
    for round in 1..=newest {
        for words in [
            format!("Order the modules, stage {round}."),
            format!("Finding {round} holds."),
            format!("Keep layout {round}."),
            format!("Write note {round}."),
        ] {
            assert_eq!(prompt.matches(&words).count(), usize::from(round == newest), "{words}: {prompt}");
        }
    }
    assert!(prompt.contains("Never delete production data."), "{prompt}");
}

#[tokio::test]
async fn every_bad_answer_gives_way_to_the_embedded_summarizer_and_says_why() {
    let long = format!(r#"text = '''{{"goal":"{}"}}'''"#, "more and more words ".repeat(4000));
    for (script, reason) in [
        ("text = ''", "empty"),
        ("text = 'This is a nice conversation about modules.'", "bad"),
        ("text = '''{\"goal\":\"a'''\nfinish = \"length\"", "cut"),
        (long.as_str(), "grown"),
        ("text = \"I'm sorry, but I can't help with that.\"", "refused"),
        (&format!("text = '''{GOOD}'''\ndelay_ms = 60000"), "late"),
        ("error = { kind = \"unreachable\", message = \"connection refused\" }", "unreachable"),
        ("error = { kind = \"garbled\", message = \"half an answer\" }", "garbled"),
        ("error = { kind = \"status\", status = 401, message = \"no\" }", "rejected"),
        ("error = { kind = \"status\", status = 429, message = \"slow down\" }", "throttled"),
    ] {
        let model = Arc::new(answer(script));
        let timeout = Duration::from_millis(60);
        let heard = Arc::new(Heard::default());
        let bus = epitome_runtime::event::Bus::new().with_listener(heard.clone());
        let summarizer = Summarizer::WithFallback(summarizer(&model, timeout));
        let parts = EngineParts { summarizer, bus, ..EngineParts::in_memory(settings()) };
        let engine = Engine::new(parts).await.unwrap();
        let mut thread = open(&engine).await;
        go_on(&mut thread, 0..8).await;
        assert!(thread.row().version > 0, "{reason}");
        let heard = heard.0.lock().unwrap();
        let fallen: Vec<_> = heard.iter().filter(|event| event.kind == EventKind::SummaryFellBack).collect();
        assert!(!fallen.is_empty(), "{reason}: nobody was told");
        assert!(fallen.iter().all(|event| event.details["reason"] == reason), "{reason}: {fallen:?}");
    }
}

#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<Event>>);

impl epitome_runtime::event::Listener for Heard {
    fn hear(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[tokio::test]
async fn the_same_span_is_summarized_once_by_two_who_ask_at_the_same_time_and_from_the_cache_later() {
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(answer(&format!("text = '''{GOOD}'''\ndelay_ms = 50")));
    let summarizer = Summarizer::WithFallback(summarizer(&model, Duration::from_secs(5)));
    let parts = || EngineParts {
        store: store.clone(),
        summarizer: summarizer.clone(),
        ..EngineParts::in_memory(EngineSettings { background: Background::Off, ..settings() })
    };
    let engine = Engine::new(parts()).await.unwrap();
    let (mut one, mut two) = (
        engine.open(&owner(), thread_id("a"), epitome::wire::Dialect::Chat).await.unwrap(),
        engine.open(&owner(), thread_id("b"), epitome::wire::Dialect::Chat).await.unwrap(),
    );
    let all: Vec<String> = (0..6).flat_map(turn).collect();
    one.append(all.clone()).await.unwrap();
    two.append(all).await.unwrap();
    let request = StepRequest::default();
    let (first, second) = tokio::join!(one.prepare_step(&request), two.prepare_step(&request));
    assert_eq!(first.unwrap().messages, second.unwrap().messages);
    assert_eq!(model.asked(), 1, "one call for both");
    let other = Engine::new(parts()).await.unwrap();
    let mut three = other.open(&owner(), thread_id("c"), epitome::wire::Dialect::Chat).await.unwrap();
    three.append((0..6).flat_map(turn)).await.unwrap();
    three.prepare_step(&request).await.unwrap();
    assert_eq!(model.asked(), 1, "found again by another engine");
}

#[tokio::test]
async fn with_the_same_model_the_agents_own_request_is_the_prefix_of_the_question() {
    let script = format!("text = '''{GOOD}'''");
    let model = Arc::new(answer(&script));
    let seen = Arc::new(Recorder { model, prompts: std::sync::Mutex::default() });
    let summarizer = ModelSummarizer::new(seen.clone() as Arc<dyn Model>, Duration::from_secs(5));
    let parts = EngineParts {
        summarizer: Summarizer::WithFallback(Arc::new(summarizer)),
        ..EngineParts::in_memory(EngineSettings { model: Some("scripted-1".into()), ..settings() })
    };
    let engine = Engine::new(parts).await.unwrap();
    let mut thread = open(&engine).await;
    let request =
        StepRequest { system: Some("\"You are careful.\"".into()), tools: Some("[]".into()), ..StepRequest::default() };
    let mut before = Vec::new();
    for at in 0..6 {
        thread.append(turn(at)).await.unwrap();
        let step = thread.prepare_step(&request).await.unwrap();
        holds(&step);
        if step.compacted.is_some() {
            break;
        }
        before = step.prompt().messages;
    }
    let prompts = seen.prompts.lock().unwrap();
    let asked = prompts.first().expect("the model was asked");
    assert!(asked.messages.starts_with(&before), "the prefix is the agent's own request");
    assert_eq!(
        (asked.system.as_deref(), asked.tools.as_deref()),
        (request.system.as_deref(), request.tools.as_deref())
    );
}

#[tokio::test]
async fn a_long_summary_of_the_same_model_is_shortened_in_a_question_of_its_own() {
    let long = format!(r#"{{"goal":"{}"}}"#, "order ".repeat(60));
    let script = format!(
        "model = \"scripted-1\"\ndialect = \"chat\"\n\n[[answer]]\nfor = \"summary\"\ntext = '''{long}'''\n\n\
         [[answer]]\nfor = \"summary\"\nrepeat = true\ntext = '''{GOOD}'''\n"
    );
    let model = Arc::new(Scripted::parse(&script).unwrap());
    let seen = Arc::new(Recorder { model, prompts: std::sync::Mutex::default() });
    let summarizer = ModelSummarizer::new(seen.clone() as Arc<dyn Model>, Duration::from_secs(5));
    let mut policy = settings().policy;
    policy.summarize.rollup = epitome::budget::Tokens::new(40);
    let parts = EngineParts {
        summarizer: Summarizer::WithFallback(Arc::new(summarizer)),
        ..EngineParts::in_memory(EngineSettings { model: Some("scripted-1".into()), policy, ..settings() })
    };
    let engine = Engine::new(parts).await.unwrap();
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..8).await;
    let prompts = seen.prompts.lock().unwrap();
    let shorter = prompts.get(1).expect("a second question");
    assert!(shorter.messages.len() <= 2, "{} messages", shorter.messages.len());
    let all = shorter.messages.join("\n");
    assert!(all.contains("half its length") && all.contains("The schema:"), "{all}");
}

/// A model that refuses every request with a temperature.
#[derive(Debug)]
struct WithoutTemperature(Recorder);

#[async_trait::async_trait]
impl Model for WithoutTemperature {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn dialect(&self) -> epitome::wire::Dialect {
        self.0.dialect()
    }

    async fn answer(&self, prompt: &ModelPrompt, hear: &mut Hear<'_>) -> Result<ModelAnswer, ModelError> {
        let answer = self.0.answer(prompt, hear).await;
        let words = "Unsupported value: 'temperature' does not support 0.3 with this model.".to_owned();
        if prompt.settings.contains_key("temperature") { Err(ModelError::Refused(400, words)) } else { answer }
    }
}

#[tokio::test]
async fn a_policys_temperature_is_sent_and_left_out_for_a_model_that_takes_none() {
    let model = Arc::new(answer(&format!("text = '''{GOOD}'''")));
    let seen = Arc::new(WithoutTemperature(Recorder { model, prompts: std::sync::Mutex::default() }));
    let summarizer = ModelSummarizer::new(seen.clone() as Arc<dyn Model>, Duration::from_secs(5));
    let policy = epitome::policy::preset("layer").unwrap();
    let window = Some(epitome::budget::Tokens::new(16_000));
    let parts = EngineParts {
        summarizer: Summarizer::WithFallback(Arc::new(summarizer)),
        ..EngineParts::in_memory(EngineSettings { policy, window, ..settings() })
    };
    let engine = Engine::new(parts).await.unwrap();
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..16).await;
    let temperature = |prompt: &ModelPrompt| prompt.settings.get("temperature").and_then(serde_json::Value::as_f64);
    let of = |prompt: &ModelPrompt| (temperature(prompt), prompt.max_output.map(epitome::budget::Tokens::get));
    let asked: Vec<(Option<f64>, Option<u64>)> = seen.0.prompts.lock().unwrap().iter().map(of).take(2).collect();
    assert_eq!(asked, [(Some(0.3), Some(1000)), (None, Some(1000))]);
    let events = events(&engine, "t1").await;
    let mut done = events.iter().filter(|event| event.kind == EventKind::CompactionCompleted);
    assert!(done.next().is_some_and(|event| event.details["author"] == "model"), "{events:?}");
}

#[tokio::test]
async fn the_memory_block_is_folded_by_the_model_and_by_code_where_that_fails() {
    for (script, is_used) in [("text = 'The person likes quinces.'", true), ("finish = 'refusal'\ntext = 'no'", false)]
    {
        let script = format!("model = \"scripted-1\"\ndialect = \"chat\"\n\n[[answer]]\nrepeat = true\n{script}\n");
        let model = Arc::new(Scripted::parse(&script).unwrap());
        let engine = engine_with(Summarizer::WithFallback(summarizer(&model, Duration::from_secs(5)))).await;
        let mut thread = open(&engine).await;
        for number in 0..15 {
            thread.remember(&format!("entry {number} of what the person likes")).await.unwrap();
        }
        let memory = thread.memory().await.unwrap();
        assert_eq!((memory.entries().len(), model.asked()), (5, 1));
        assert_eq!(memory.summary() == "The person likes quinces.", is_used, "{}", memory.summary());
        assert!(is_used || memory.summary().contains("entry 9"), "{}", memory.summary());
    }
}

/// The order of what happens around a compaction: hooks, and questions to the model.
#[derive(Debug, Default)]
struct Order(std::sync::Mutex<Vec<&'static str>>);

impl Order {
    fn add(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }
}

#[async_trait::async_trait]
impl Hook for Order {
    async fn on_before_compaction(&self, _: &ThreadKey, _: &CompactionStats) {
        self.add("before");
    }

    async fn on_after_compaction(&self, _: &ThreadKey, _: &CompactionStats) {
        self.add("after");
    }
}

#[derive(Debug)]
struct Ordered(Arc<Scripted>, Arc<Order>);

#[async_trait::async_trait]
impl Model for Ordered {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn dialect(&self) -> epitome::wire::Dialect {
        self.0.dialect()
    }

    async fn answer(&self, prompt: &ModelPrompt, hear: &mut Hear<'_>) -> Result<ModelAnswer, ModelError> {
        self.1.add("asked");
        self.0.answer(prompt, hear).await
    }
}

#[tokio::test]
async fn hooks_are_told_before_the_model_is_asked_and_after_whatever_becomes_of_it() {
    let (good, bad) = (format!("text = '''{GOOD}'''"), "text = 'no'".to_owned());
    for (script, may_fall_back) in [(good, true), (bad.clone(), true), (bad, false)] {
        let order = Arc::new(Order::default());
        let model = Ordered(Arc::new(answer(&script)), order.clone());
        let model = Arc::new(ModelSummarizer::new(Arc::new(model), Duration::from_secs(5)));
        let summarizer = if may_fall_back { Summarizer::WithFallback(model) } else { Summarizer::Model(model) };
        let bus = Bus::new().with_hook(order.clone());
        let settings = EngineSettings { background: Background::Off, ..settings() };
        let engine = Engine::new(EngineParts { summarizer, bus, ..EngineParts::in_memory(settings) }).await.unwrap();
        let mut thread = open(&engine).await;
        for at in 0..8 {
            thread.append(turn(at)).await.unwrap();
            thread.prepare_step(&StepRequest::default()).await.unwrap();
        }
        let order = order.0.lock().unwrap();
        let count = |name: &str| order.iter().filter(|own| **own == name).count();
        assert_eq!(count("before"), count("after"), "{order:?}");
        assert_eq!(order.last(), Some(&"after"), "{order:?}");
        assert_eq!(order[..2], ["before", "asked"], "{order:?}");
    }
}

#[tokio::test]
async fn hooks_are_told_of_the_end_when_the_caller_goes_away() {
    let order = Arc::new(Order::default());
    let model = Ordered(Arc::new(answer(&format!("text = '''{GOOD}'''\ndelay_ms = 60000"))), order.clone());
    let summarizer = Summarizer::Model(Arc::new(ModelSummarizer::new(Arc::new(model), Duration::from_secs(60))));
    let bus = Bus::new().with_hook(order.clone());
    let settings = EngineSettings { background: Background::Off, ..settings() };
    let engine = Engine::new(EngineParts { summarizer, bus, ..EngineParts::in_memory(settings) }).await.unwrap();
    let mut thread = open(&engine).await;
    thread.append((0..8).flat_map(turn)).await.unwrap();
    let request = StepRequest::default();
    tokio::select! {
        _ = thread.prepare_step(&request) => unreachable!("the model takes a minute"),
        () = async { while !order.0.lock().unwrap().contains(&"asked") { tokio::task::yield_now().await } } => {}
    }
    let told = async {
        while !order.0.lock().unwrap().contains(&"after") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), told).await.expect("the hook hears of the end");
}

#[derive(Debug)]
pub struct Recorder {
    pub model: Arc<Scripted>,
    pub prompts: std::sync::Mutex<Vec<epitome_runtime::model::ModelPrompt>>,
}

#[async_trait::async_trait]
impl Model for Recorder {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn dialect(&self) -> epitome::wire::Dialect {
        self.model.dialect()
    }

    async fn answer(
        &self,
        prompt: &epitome_runtime::model::ModelPrompt,
        hear: &mut epitome_runtime::model::Hear<'_>,
    ) -> Result<epitome_runtime::model::ModelAnswer, epitome_runtime::model::ModelError> {
        self.prompts.lock().unwrap().push(prompt.clone());
        self.model.answer(prompt, hear).await
    }
}

#[tokio::test]
async fn a_summarizer_with_a_small_window_is_asked_in_pieces_and_never_more_than_it_takes() {
    let script = format!(
        "model = \"scripted-1\"\ndialect = \"chat\"\nwindow = 4000\n\n[[answer]]\nfor = \"summary\"\nrepeat = true\ntext = '''{GOOD}'''\n"
    );
    let model = Arc::new(Scripted::parse(&script).unwrap());
    let summarizer = ModelSummarizer::new(Arc::clone(&model) as Arc<dyn Model>, Duration::from_secs(5))
        .with_window(epitome::budget::Tokens::new(4000));
    let window = Some(epitome::budget::Tokens::new(40_000));
    let parts = EngineParts {
        summarizer: Summarizer::WithFallback(Arc::new(summarizer)),
        ..EngineParts::in_memory(EngineSettings { window, ..settings() })
    };
    let engine = Engine::new(parts).await.unwrap();
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..40).await;
    let events = events(&engine, "t1").await;
    let completed: Vec<_> = events.iter().filter(|event| event.kind == EventKind::CompactionCompleted).collect();
    assert!(!completed.is_empty() && completed.iter().all(|event| event.details["author"] == "model"), "{completed:?}");
    assert!(model.asked() > completed.len() as u64, "{} questions", model.asked());
}

#[tokio::test]
async fn compaction_runs_in_the_background_and_swaps_in_when_it_is_ready() {
    let model = Arc::new(answer(&format!("text = '''{GOOD}'''\ndelay_ms = 30")));
    let settings = EngineSettings {
        background: Background::On { wait: Duration::from_secs(5) },
        jobs: Jobs { poll: Duration::from_millis(10), ..Jobs::default() },
        window: Some(epitome::budget::Tokens::new(12_000)),
        ..settings()
    };
    let summarizer = Summarizer::WithFallback(summarizer(&model, Duration::from_secs(5)));
    let engine = Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings) }).await.unwrap();
    let worker = engine.work();
    let mut thread = open(&engine).await;
    let mut seen_compacting = 0;
    for at in 0..40 {
        thread.append(turn(at)).await.unwrap();
        let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
        holds(&step);
        assert!(said(&step).contains(&format!("Request {at}:")));
        seen_compacting += usize::from(step.is_compacting && thread.is_compacting().await.unwrap());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.stop().await;
    assert!(seen_compacting > 0, "it was visible");
    let events = events(&engine, "t1").await;
    let by_model = events.iter().filter(|event| event.kind == EventKind::CompactionCompleted);
    assert!(by_model.filter(|event| event.details["author"] == "model").count() > 1);
    let entries = engine.log().read(thread.row(), 0..thread.row().length).await.unwrap();
    assert_eq!(entries.len(), 160, "nothing that came meanwhile is lost");
}

#[tokio::test]
async fn at_the_hard_mark_a_request_waits_for_so_long_and_then_goes_on_without_the_model() {
    let model = Arc::new(answer(&format!("text = '''{GOOD}'''\ndelay_ms = 60000")));
    let settings = EngineSettings { background: Background::On { wait: Duration::from_millis(80) }, ..settings() };
    let summarizer = Summarizer::WithFallback(summarizer(&model, Duration::from_secs(60)));
    let engine = Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings) }).await.unwrap();
    let worker = engine.work();
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..10).await;
    assert!(thread.row().version > 0, "it was compacted all the same");
    drop(worker);
}

#[tokio::test]
async fn a_worker_that_dies_hands_its_job_on_and_a_late_one_commits_nothing() {
    let store = Arc::new(MemoryStore::new());
    let settings = |lease: u64| EngineSettings {
        background: Background::On { wait: Duration::from_millis(1) },
        jobs: Jobs { lease: Duration::from_millis(lease), poll: Duration::from_millis(5), ..Jobs::default() },
        window: Some(epitome::budget::Tokens::new(20_000)),
        ..crate::world::settings()
    };
    let engine =
        Engine::new(EngineParts { store: store.clone(), ..EngineParts::in_memory(settings(60)) }).await.unwrap();
    let mut thread = open(&engine).await;
    let mut at = 0;
    while !thread.prepare_step(&StepRequest::default()).await.unwrap().is_compacting {
        thread.append(turn(at)).await.unwrap();
        at += 1;
    }
    // A worker takes the job and is never heard of again.
    let now = epitome_runtime::ids::Moment::now();
    let token = uuid::Uuid::now_v7();
    let until = now.after(Duration::from_secs(3));
    let lease = epitome_runtime::store::Lease { worker: "gone".into(), token, until };
    let job = engine.log().store().claim(&JobKind::Compact, &lease, now).await.unwrap().expect("there is a job");
    assert!(!engine.work_once().await, "it is taken");
    while epitome_runtime::ids::Moment::now() <= until {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(engine.work_once().await, "it is handed on");
    let finish =
        epitome_runtime::store::Write::FinishJob { job: job.id, token, end: epitome_runtime::store::JobEnd::Done };
    assert!(engine.log().apply(&[finish]).await.unwrap_err().is_conflict(), "the one who is late has no say");
    assert!(thread.prepare_step(&StepRequest::default()).await.unwrap().version == 1);
}
