use std::time::Duration;

use epitome_runtime::engine::{Saved, StepRequest};
use epitome_runtime::event::EventKind;

use crate::world::{engine, finds, go_on, holds, open, owner, said, thread_id, turn};

#[tokio::test]
async fn a_thread_outgrows_its_window_and_every_prompt_fits_and_holds_the_users_constraint() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    let steps = go_on(&mut thread, 0..30).await;
    assert!(thread.row().version >= 3, "{} plans", thread.row().version);
    assert!(said(steps.last().unwrap()).contains("Never delete production data."));
    assert!(thread.thread().len() < 60, "{} messages are loaded of {}", thread.thread().len(), thread.row().length);
    assert_eq!(thread.row().length, 120);
}

#[tokio::test]
async fn a_thread_that_is_opened_anew_yields_the_same_prompt() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..17).await;
    let one = thread.prepare_step(&StepRequest::default()).await.unwrap();
    let mut again = engine.resume(&owner(), thread_id("t1")).await.unwrap();
    let other = again.prepare_step(&StepRequest::default()).await.unwrap();
    assert_eq!(one.messages, other.messages);
    assert_eq!(again.thread().tip(), thread.thread().tip());
    go_on(&mut again, 17..30).await;
    // What somebody else wrote is looked for when a moment has passed.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = thread.prepare_step(&StepRequest::default()).await.unwrap();
    assert_eq!(late.messages, again.prepare_step(&StepRequest::default()).await.unwrap().messages);
}

#[tokio::test]
async fn between_compactions_a_prompt_begins_with_the_one_before() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    let steps = go_on(&mut thread, 0..25).await;
    let mut kept = 0;
    for pair in steps.windows(2).filter(|pair| pair[0].version == pair[1].version) {
        assert!(pair[1].messages.starts_with(&pair[0].messages));
        kept += 1;
    }
    assert!(kept > steps.len() / 2, "{kept} of {}", steps.len());
}

#[tokio::test]
async fn what_left_the_prompt_is_read_back_by_its_id_and_found_by_its_words() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..30).await;
    let found = thread.recall("what did value_3_17 come from?").await.unwrap();
    assert!(found.hits.iter().any(|hit| hit.text.contains("value_3_17")), "{}", found.render());
    assert!(found.tokens <= engine.settings().recall_tokens);
    assert!(engine.counter().count(&found.render()) <= engine.settings().recall_tokens);
    let whole = thread.read_message("m3", None).await.unwrap();
    assert!(whole.contains("value_0_0 ") && whole.contains("value_0_39 "));
    assert_eq!(thread.read_message("m3", Some(2..=2)).await.unwrap(), whole.lines().nth(1).unwrap());
    assert!(thread.read_message("m3000", None).await.is_err());
    let events = engine.log().events(thread.key(), 0, 1000).await.unwrap();
    let completed = events.iter().filter(|(_, event)| event.kind == EventKind::CompactionCompleted).count() as u64;
    assert_eq!(completed, thread.row().version);
}

#[tokio::test]
async fn a_fork_shares_what_came_before_and_goes_its_own_way() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..20).await;
    let before = thread.prepare_step(&StepRequest::default()).await.unwrap();
    let length = thread.row().length;
    let mut fork = engine.fork(&owner(), thread_id("t1"), length, thread_id("t2")).await.unwrap();
    assert_eq!(fork.prepare_step(&StepRequest::default()).await.unwrap().messages, before.messages);
    go_on(&mut fork, 20..34).await;
    assert_eq!(thread.prepare_step(&StepRequest::default()).await.unwrap().messages, before.messages);
    let found = fork.recall("zephyr2").await.unwrap();
    assert!(finds(&found, "zephyr2 "), "{}", found.render());
    let mut early = engine.fork(&owner(), thread_id("t1"), 6, thread_id("t3")).await.unwrap();
    let step = early.prepare_step(&StepRequest::default()).await.unwrap();
    assert_eq!(step.messages.len(), 6);
    assert!(step.messages.iter().zip(turn(0)).all(|(shared, message)| **shared == *message));
}

#[tokio::test]
async fn two_who_append_at_the_same_time_lose_nothing() {
    let engine = engine().await;
    let (mut one, mut two) = (open(&engine).await, open(&engine).await);
    for at in 0..12 {
        for (number, message) in turn(at).into_iter().enumerate() {
            let who = if (at + number) % 2 == 0 { &mut one } else { &mut two };
            assert_eq!(who.append([message]).await.unwrap(), Saved::Yes);
        }
        holds(&one.prepare_step(&StepRequest::default()).await.unwrap());
        holds(&two.prepare_step(&StepRequest::default()).await.unwrap());
    }
    assert_eq!(one.row().length, 48);
    let log = engine.log();
    let entries = log.read(one.row(), 0..48).await.unwrap();
    let all: Vec<String> = (0..12).flat_map(turn).collect();
    assert_eq!(entries.iter().map(|entry| entry.message.raw.as_str().to_owned()).collect::<Vec<_>>(), all);
}

#[tokio::test]
async fn engines_that_count_otherwise_share_a_thread_and_each_keeps_to_its_own_room() {
    let store = std::sync::Arc::new(epitome_runtime::store::MemoryStore::new());
    let engine = |tokenizer: &str| {
        let mut settings = crate::world::settings();
        settings.policy.count.tokenizer = tokenizer.to_owned();
        let parts = epitome_runtime::engine::EngineParts {
            store: store.clone(),
            ..epitome_runtime::engine::EngineParts::in_memory(settings)
        };
        epitome_runtime::engine::Engine::new(parts)
    };
    let (exact, rough) = (engine("o200k").await.unwrap(), engine("chars/3").await.unwrap());
    let (mut one, mut two) = (open(&exact).await, open(&rough).await);
    for at in 0..12 {
        let (who, engine) = if at % 2 == 0 { (&mut one, &exact) } else { (&mut two, &rough) };
        for message in turn(at) {
            who.append([message]).await.unwrap();
        }
        let step = who.prepare_step(&StepRequest::default()).await.unwrap();
        holds(&step);
        let counted: u64 = step.messages.iter().map(|message| engine.counter().count(message).get()).sum();
        assert!(counted < step.room.limit.get() * 3 / 2, "{counted} in {}", step.room.limit);
    }
    assert!(one.row().version > 0);
}
