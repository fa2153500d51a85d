//! Background jobs: what they may do, what they ask, and when they end.

use std::sync::Arc;
use std::time::Duration;

use epitome::budget::Tokens;
use epitome::wire::{Dialect, LastExchange, Severity, check};
use epitome_runtime::engine::{Background, Engine, EngineParts, EngineSettings, Jobs, OpenThread, StepRequest};
use epitome_runtime::event::EventKind;
use epitome_runtime::model::{Model, ModelPrompt};
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};

use crate::summaries::{GOOD, Recorder, answer, summarizer};
use crate::world::{hints, long, open, owner, says, settings, thread_id, turn};

fn in_background(wait: Duration) -> EngineSettings {
    EngineSettings { background: Background::On { wait }, ..settings() }
}

/// Goes on until a compaction is queued. Answers the next turn.
async fn until_queued(thread: &mut OpenThread, first: usize) -> usize {
    for at in first..first + 60 {
        thread.append(turn(at)).await.unwrap();
        if thread.prepare_step(&StepRequest::default()).await.unwrap().is_compacting {
            return at + 1;
        }
    }
    panic!("nothing was queued");
}

async fn moved_out(engine: &Engine, thread: &OpenThread) -> usize {
    let events = engine.log().events(thread.key(), 0, 10_000).await.unwrap();
    events.iter().filter(|(_, event)| event.kind == EventKind::CompactionExternalized).count()
}

/// A job that is carried out in a turn in which content came back, or none. Answers how often it moved content out.
async fn job_after(is_called_for: bool) -> usize {
    let settings = EngineSettings { window: Some(Tokens::new(150_000)), ..in_background(Duration::from_millis(10)) };
    let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
    let mut thread = open(&engine).await;
    thread.append((0..24).flat_map(|at| long(at, 400))).await.unwrap();
    thread.prepare_step(&StepRequest { force: true, ..StepRequest::default() }).await.unwrap();
    let id = hints(&engine, &thread).await.remove(0).id;
    thread.append((24..45).flat_map(|at| long(at, 400))).await.unwrap();
    let named = if is_called_for { id } else { "it".to_owned() };
    thread.append([says("user", &format!("Look at {named}."))]).await.unwrap();
    let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
    assert_eq!((step.rehydrated.len(), step.is_compacting), (usize::from(is_called_for), true));
    let before = moved_out(&engine, &thread).await;
    assert!(engine.work_once().await, "there is a job");
    assert!(thread.prepare_step(&StepRequest::default()).await.unwrap().version > step.version, "it was made");
    moved_out(&engine, &thread).await - before
}

#[tokio::test]
async fn a_job_moves_nothing_out_in_the_turn_of_a_rehydration() {
    assert_eq!(job_after(true).await, 0);
    assert_eq!(job_after(false).await, 1, "in another turn it does");
}

fn wrong_with(prompt: &ModelPrompt) -> Vec<String> {
    let list = format!("[{}]", prompt.messages.join(","));
    let found = check(Dialect::Chat, &serde_json::from_str(&list).unwrap(), LastExchange::Closed);
    let errors = found.into_iter().filter(|violation| violation.severity() == Severity::Error);
    errors.map(|violation| format!("{violation:?}")).collect()
}

#[tokio::test]
async fn while_a_call_is_open_the_question_is_put_as_a_transcript_that_a_provider_takes() {
    for is_open in [false, true] {
        let model = Arc::new(answer(&format!("text = '''{GOOD}'''")));
        let seen = Arc::new(Recorder { model, prompts: std::sync::Mutex::default() });
        let asks = ModelSummarizer::new(seen.clone() as Arc<dyn Model>, Duration::from_secs(5));
        let settings = EngineSettings { model: Some("scripted-1".into()), ..in_background(Duration::from_millis(5)) };
        let summarizer = Summarizer::WithFallback(Arc::new(asks));
        let engine = Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings) }).await.unwrap();
        let mut thread = open(&engine).await;
        let at = until_queued(&mut thread, 0).await;
        let said = if is_open { 2 } else { 4 };
        thread.append(turn(at).into_iter().take(said)).await.unwrap();
        assert!(engine.work_once().await);
        let prompts = seen.prompts.lock().unwrap();
        assert!(!prompts.is_empty(), "the model was asked");
        for prompt in prompts.iter() {
            assert_eq!(wrong_with(prompt), Vec::<String>::new());
            let is_transcript = prompt.messages.iter().any(|message| message.contains("<epitome-transcript>"));
            assert_eq!(is_transcript, is_open);
        }
    }
}

#[tokio::test]
async fn whoever_forces_a_compaction_has_the_model_asked_with_background_on_or_off() {
    for background in [Background::Off, Background::On { wait: Duration::from_millis(50) }] {
        let model = Arc::new(answer(&format!("text = '''{GOOD}'''")));
        let summarizer = Summarizer::Model(summarizer(&model, Duration::from_secs(5)));
        let settings = EngineSettings { background, ..settings() };
        let engine = Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings) }).await.unwrap();
        let mut thread = open(&engine).await;
        thread.append((0..4).flat_map(turn)).await.unwrap();
        let step = thread.prepare_step(&StepRequest { force: true, ..StepRequest::default() }).await.unwrap();
        assert_eq!((step.version, model.asked()), (1, 1), "{background:?}: {:?}", step.warnings);
    }
}

#[tokio::test]
async fn a_worker_that_is_dropped_takes_no_further_job() {
    let jobs = Jobs { concurrency: 2, poll: Duration::from_millis(5), ..Jobs::default() };
    let model = Arc::new(answer(&format!("text = '''{GOOD}'''\ndelay_ms = 300")));
    let summarizer = Summarizer::WithFallback(summarizer(&model, Duration::from_secs(5)));
    let settings = EngineSettings { jobs, ..in_background(Duration::from_millis(5)) };
    let engine = Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings) }).await.unwrap();
    let mut threads = Vec::new();
    for number in 0..6 {
        let id = thread_id(&format!("w{number}"));
        let mut thread = engine.open(&owner(), id, Dialect::Chat).await.unwrap();
        until_queued(&mut thread, 100 * number).await;
        threads.push(thread);
    }
    let worker = engine.work();
    while model.asked() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(worker);
    let compacted = async || {
        let mut compacted = 0;
        for thread in &threads {
            compacted += usize::from(engine.log().thread(thread.key()).await.unwrap().unwrap().version > 0);
        }
        compacted
    };
    // Those under way are finished, however long that takes here.
    while compacted().await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // More than long enough for the others, had it gone on.
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert_eq!((compacted().await, model.asked()), (2, 2), "those under way are finished, and no other is begun");
}
