//! What was moved out comes back when it is called for: into one prompt, within its limits, not too often.

use epitome::budget::Tokens;
use epitome_runtime::artifact::{Access, Permission, Permissions};
use epitome_runtime::engine::{
    ArtifactRetention, Engine, EngineParts, EngineSettings, OpenThread, SensitivityRule, StepRequest,
};
use epitome_runtime::event::EventKind;
use epitome_runtime::store::Sensitivity;
use serde_json::json;

use crate::world::{holds, long, open, said, settings, turn};

/// A thread with some long results moved out.
async fn moved_out(sensitivity: Sensitivity) -> (Engine, OpenThread) {
    let retention = ArtifactRetention { sensitivity, ..ArtifactRetention::default() };
    moved_out_under(EngineSettings { retention, ..settings() }).await
}

async fn moved_out_under(settings: EngineSettings) -> (Engine, OpenThread) {
    let window = Some(Tokens::new(26_000));
    let engine = Engine::new(EngineParts::in_memory(EngineSettings { window, ..settings })).await.unwrap();
    let mut thread = open(&engine).await;
    for at in 0..5 {
        thread.append(long(at, 400)).await.unwrap();
    }
    let mut at = 5;
    while thread.row().version == 0 {
        thread.append(turn(at)).await.unwrap();
        thread.prepare_step(&StepRequest::default()).await.unwrap();
        at += 1;
    }
    (engine, thread)
}

async fn ids(engine: &Engine, thread: &OpenThread) -> Vec<(String, Vec<String>)> {
    let (_, plan) = engine.log().plan(thread.key(), None).await.unwrap().unwrap();
    plan.hints.into_iter().map(|hint| (hint.id, hint.names)).collect()
}

async fn say(thread: &mut OpenThread, role: &str, words: &str) -> epitome_runtime::engine::Step {
    thread.append([json!({"role": role, "content": words}).to_string()]).await.unwrap();
    let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
    if role == "user" {
        holds(&step);
    }
    step
}

#[tokio::test]
async fn an_id_in_a_message_brings_its_content_back_for_one_turn_and_then_it_cools_down() {
    let (engine, mut thread) = moved_out(Sensitivity::Internal).await;
    let (id, _) = ids(&engine, &thread).await.remove(0);
    let length = thread.row().length;
    let step = say(&mut thread, "user", &format!("Look at artifact:{id} again.")).await;
    assert_eq!(step.rehydrated.len(), 1);
    assert!(said(&step).contains("Brought back for this request") && said(&step).contains("padding of module_"));
    assert!(thread.rehydration().should_skip_aggressive_compaction());
    assert_eq!(thread.row().length, length + 1, "it is not in the log");
    say(&mut thread, "assistant", "Done.").await;
    let next = say(&mut thread, "user", &format!("And {id} once more.")).await;
    assert!(next.rehydrated.is_empty(), "it cools down");
    say(&mut thread, "assistant", "Well.").await;
    let later = say(&mut thread, "user", &format!("Now {id}.")).await;
    assert_eq!(later.rehydrated.len(), 1, "two turns later it may come again");
    let part = &id[..id.len() - 1];
    say(&mut thread, "assistant", "Well.").await;
    assert!(say(&mut thread, "user", &format!("{part} is not an id.")).await.rehydrated.is_empty());
}

#[tokio::test]
async fn an_id_in_a_calls_arguments_or_a_question_about_its_file_brings_content_back() {
    let (engine, mut thread) = moved_out(Sensitivity::Internal).await;
    let hints = ids(&engine, &thread).await;
    let (id, names) = &hints[0];
    let call = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "diff", "arguments": json!({"left": format!("artifact:{id}")}).to_string()}}]});
    thread.append([json!({"role": "user", "content": "Compare."}).to_string(), call.to_string()]).await.unwrap();
    thread.append([json!({"role": "tool", "tool_call_id": "c1", "content": "equal"}).to_string()]).await.unwrap();
    let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
    assert_eq!(step.rehydrated.len(), 1, "by a call");
    let file = names[0].rsplit('/').next().unwrap();
    let (_, mut thread) = moved_out(Sensitivity::Internal).await;
    assert!(say(&mut thread, "user", &format!("Change {file}.")).await.rehydrated.is_empty(), "that is no question");
    let step = say(&mut thread, "user", &format!("What was in {file}?")).await;
    assert_eq!(step.rehydrated.len(), 1, "by a question");
}

#[tokio::test]
async fn what_comes_back_stays_within_its_limits() {
    let (engine, mut thread) = moved_out(Sensitivity::Internal).await;
    let hints = ids(&engine, &thread).await;
    let all: Vec<String> = hints.iter().map(|(id, _)| id.clone()).collect();
    assert!(all.len() >= 2, "{} were moved out", all.len());
    let rules = engine.settings().policy.rehydrate.clone();
    let step = say(&mut thread, "user", &format!("All of {}.", all.join(" and "))).await;
    assert!(!step.rehydrated.is_empty() && step.rehydrated.len() <= rules.artifacts_max);
    assert!(step.rehydrated_tokens <= rules.total);
    for back in &step.rehydrated {
        assert!(engine.counter().count(&back.content) <= rules.tokens_max);
    }
}

#[tokio::test]
async fn what_is_confidential_comes_back_on_purpose_only() {
    let (engine, mut thread) = moved_out(Sensitivity::Confidential).await;
    let (id, _) = ids(&engine, &thread).await.remove(0);
    let step = say(&mut thread, "user", &format!("Look at {id}.")).await;
    assert!(step.rehydrated.is_empty());
    let events = engine.log().events(thread.key(), 0, 1000).await.unwrap();
    assert!(events.iter().any(|(_, event)| event.kind == EventKind::RehydrationBlockedSensitivity));
    assert!(thread.read_artifact(&id).await.unwrap().text().contains("padding"));
    assert_eq!(thread.quality().explicit_reads, 1);
}

#[tokio::test]
async fn a_rule_makes_the_content_of_one_file_confidential_and_a_setting_says_what_comes_back() {
    let (engine, thread) = moved_out(Sensitivity::Internal).await;
    let names: Vec<String> = ids(&engine, &thread).await.into_iter().map(|(_, names)| names[0].clone()).collect();
    assert!(names.len() >= 2 && names[0] != names[1], "{names:?}");
    let file = names[0].rsplit('/').next().unwrap();
    let rule = SensitivityRule { pattern: file.to_owned(), sensitivity: Sensitivity::Confidential };
    let ruled = EngineSettings { sensitivity_rules: vec![rule], ..settings() };
    let (engine, mut thread) = moved_out_under(ruled.clone()).await;
    let hints = ids(&engine, &thread).await;
    let id_of = |name: &str| hints.iter().find(|(_, names)| names[0] == *name).map(|(id, _)| id.clone()).unwrap();
    let (secret, open) = (id_of(&names[0]), id_of(&names[1]));
    let step = say(&mut thread, "user", &format!("Look at {secret} and at {open}.")).await;
    assert_eq!(step.rehydrated.len(), 1, "only the other file comes back by itself");
    // Who may not read confidential content reads the other artifact, and nothing back by number: a message may quote it.
    let permissions = Permissions::all().without(Permission::ReadConfidential);
    let access = Access { permissions, ..Access::owner(thread.key().tenant.clone(), "guest") };
    let mut guest = engine.resume(&access, thread.key().thread.clone()).await.unwrap();
    assert!(guest.read_artifact(&secret).await.is_err());
    assert!(guest.read_artifact(&open).await.is_ok());
    assert!(guest.read_message("m1", None).await.is_err());
    assert!(thread.read_artifact(&secret).await.is_ok() && thread.read_message("m1", None).await.is_ok());
    let all = EngineSettings { auto_rehydrate: Sensitivity::ALL.to_vec(), ..ruled };
    let (_, mut thread) = moved_out_under(all).await;
    let step = say(&mut thread, "user", &format!("What was in {file}?")).await;
    assert_eq!(step.rehydrated.len(), 1, "where the setting allows it, it comes back");
}
