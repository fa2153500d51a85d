//! Notes on a thread: what is hidden is in no later prompt and still in the log; pins and memory are in every prompt.

use epitome::budget::Tokens;
use epitome::policy::Preset;
use epitome::wire::Dialect;
use epitome_runtime::engine::{
    Engine, EngineError, EngineParts, EngineSettings, NoteChange, OpenThread, Step, StepRequest,
};
use epitome_runtime::event::EventKind;

use crate::world::{engine, move_out, open, owner, raws, says, settings, thread_id, turn};

const STANDS: &str = "[a listing of no interest]";

fn hide(message: &str) -> NoteChange {
    NoteChange::Hide { message: message.to_owned(), text: STANDS.to_owned() }
}

fn pin(text: &str) -> NoteChange {
    NoteChange::Pin { text: text.to_owned() }
}

fn remember(text: &str) -> NoteChange {
    NoteChange::Remember { text: text.to_owned() }
}

fn said(step: &Step) -> String {
    step.messages.iter().map(|message| format!("{message}\n")).collect()
}

async fn prompt(thread: &mut OpenThread) -> String {
    said(&thread.prepare_step(&StepRequest::default()).await.unwrap())
}

async fn compacted(thread: &mut OpenThread) -> String {
    let request = StepRequest { force: true, budget: Some(Tokens::new(1_500)), ..StepRequest::default() };
    let step = thread.prepare_step(&request).await.unwrap();
    assert!(step.compacted.is_some(), "{:?}", step.warnings);
    said(&step)
}

#[tokio::test]
async fn a_hidden_message_is_in_no_later_prompt_and_the_log_keeps_it() {
    for preset in Preset::ALL {
        let settings = EngineSettings { window: Some(Tokens::new(6_000)), ..EngineSettings::new(preset.policy()) };
        let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
        let mut thread = open(&engine).await;
        thread
            .append([says("user", "The code of the safe is 8812."), says("assistant", "I keep it: 8812.")])
            .await
            .unwrap();
        thread.append(turn(1)).await.unwrap();
        let before = raws(&engine, &thread).await;
        assert!(prompt(&mut thread).await.contains("8812"), "{preset:?}");
        let notes = thread.annotate(&hide("m1")).await.unwrap();
        assert_eq!((notes.hidden[0].message.as_str(), notes.hidden[0].text.as_str()), ("m1", STANDS));
        thread.annotate(&hide("m2")).await.unwrap();
        // The result of a call: the call stays, and nothing that a provider would refuse comes of it.
        thread.annotate(&hide("m5")).await.unwrap();
        let mut again = engine.resume(&owner(), thread_id("t1")).await.unwrap();
        for thread in [&mut thread, &mut again] {
            let said = prompt(thread).await;
            assert!(
                !said.contains("8812") && !said.contains("value_1_7") && said.contains(STANDS),
                "{preset:?}: {said}"
            );
        }
        for at in 2..12 {
            again.append(turn(at)).await.unwrap();
        }
        let said = compacted(&mut again).await;
        assert!(!said.contains("8812") && !said.contains("value_1_7"), "{preset:?}: {said}");
        let log = raws(&engine, &again).await;
        assert_eq!(log[..before.len()], before, "{preset:?}: the log is as it was");
        let told = engine.log().events(again.key(), 0, 1000).await.unwrap();
        let told = told.iter().filter(|(_, event)| event.kind == EventKind::MessageHidden);
        assert_eq!(told.map(|(_, event)| event.span).collect::<Vec<_>>(), [Some((0, 1)), Some((1, 2)), Some((4, 5))]);
    }
}

#[tokio::test]
async fn whoever_has_the_thread_open_shows_it_as_it_was_noted_last() {
    let engine = engine().await;
    let mut reader = open(&engine).await;
    reader.append([says("user", "The code is 8812.")]).await.unwrap();
    let mut other = engine.resume(&owner(), thread_id("t1")).await.unwrap();
    other.annotate(&hide("m1")).await.unwrap();
    // Right after an append the store is not asked; that somebody noted something is known all the same.
    reader.append([says("assistant", "Noted.")]).await.unwrap();
    assert!(engine.is_annotated(reader.key()) && !prompt(&mut reader).await.contains("8812"));
    other.annotate(&NoteChange::Show { message: "m1".to_owned() }).await.unwrap();
    reader.append([says("user", "And now?")]).await.unwrap();
    assert!(!engine.is_annotated(reader.key()) && prompt(&mut reader).await.contains("8812"));
    // Another process, with nothing but the store in common.
    let settings = settings();
    let parts = || EngineParts { store: engine.log().store().clone(), ..EngineParts::in_memory(settings.clone()) };
    let elsewhere = Engine::new(parts()).await.unwrap();
    let mut far = elsewhere.resume(&owner(), thread_id("t1")).await.unwrap();
    far.annotate(&hide("m1")).await.unwrap();
    engine.look_for_annotations(reader.key()).await.unwrap();
    assert!(!prompt(&mut reader).await.contains("8812"));
}

#[tokio::test]
async fn a_pin_is_in_the_next_prompt_and_in_every_later_one_until_it_is_removed() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    thread.append(turn(0)).await.unwrap();
    let words = "The staging host is db-7.internal.";
    let notes = thread.annotate(&pin(words)).await.unwrap();
    assert_eq!(notes.pins, [words]);
    assert_eq!(thread.annotate(&pin(words)).await.unwrap().pins, [words], "once is enough");
    assert!(prompt(&mut thread).await.contains(words));
    for round in 0..3 {
        for at in 0..12 {
            thread.append(turn(1 + 12 * round + at)).await.unwrap();
        }
        assert!(compacted(&mut thread).await.contains(words), "round {round}");
        thread = engine.resume(&owner(), thread_id("t1")).await.unwrap();
        assert!(prompt(&mut thread).await.contains(words), "round {round}");
    }
    let notes = thread.annotate(&NoteChange::Unpin { text: words.to_owned() }).await.unwrap();
    assert_eq!(notes.pins, Vec::<String>::new());
    for at in 50..62 {
        thread.append(turn(at)).await.unwrap();
    }
    assert!(!compacted(&mut thread).await.contains(words));
}

#[tokio::test]
async fn a_memory_block_is_in_every_prompt_without_being_asked_for() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    thread.append(turn(0)).await.unwrap();
    let notes = thread.annotate(&remember("The user prefers Celsius.")).await.unwrap();
    assert_eq!(notes.memory.entries, ["The user prefers Celsius."]);
    for at in 0..30 {
        thread.annotate(&remember(&format!("Day {at}: it rained."))).await.unwrap();
    }
    let mut again = engine.resume(&owner(), thread_id("t1")).await.unwrap();
    let said = prompt(&mut again).await;
    assert!(said.contains("The user prefers Celsius.") && said.contains("Day 29"), "{said}");
}

#[tokio::test]
async fn a_fork_takes_along_the_notes_on_the_messages_that_it_shares() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    thread
        .append([says("user", "The code is 8812."), says("assistant", "Noted: 9034."), says("user", "Go on.")])
        .await
        .unwrap();
    for change in [hide("m1"), hide("m2"), pin("Be brief.")] {
        thread.annotate(&change).await.unwrap();
    }
    let mut fork = engine.fork(&owner(), thread_id("t1"), 1, thread_id("t2")).await.unwrap();
    fork.append([says("assistant", "Said here: 9034.")]).await.unwrap();
    let said = prompt(&mut fork).await;
    assert!(!said.contains("8812") && said.contains("9034") && said.contains("Be brief."), "{said}");
}

#[tokio::test]
async fn a_note_that_cannot_be_kept_is_refused_with_a_sentence() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    move_out(&mut thread, 2).await;
    compacted(&mut thread).await;
    let show = NoteChange::Show { message: "m1".to_owned() };
    let unpin = NoteChange::Unpin { text: "nobody pinned this".to_owned() };
    let empty = NoteChange::Hide { message: "m1".to_owned(), text: "  ".to_owned() };
    for (change, says) in [
        (hide("m9999"), "there is no message m9999"),
        (hide("the first"), "there is no message the first"),
        (hide("m6"), "m6 has left the prompt already"),
        (show, "m1 is not hidden"),
        (unpin, "no such pin"),
        (pin(&"x".repeat(5_000)), "the most are 4000"),
        (remember(""), "it is empty"),
        (empty, "it is empty"),
    ] {
        let error = thread.annotate(&change).await.unwrap_err().to_string();
        assert!(error.contains(says), "{change:?}: {error}");
    }
    let notes = thread.notes().await.unwrap();
    assert!(notes.hidden.is_empty() && notes.pins.is_empty() && notes.memory.entries.is_empty(), "{notes:?}");
    let reader = epitome_runtime::artifact::Access::new(
        crate::world::tenant("acme"),
        "reader",
        epitome_runtime::artifact::Permissions::all().without(epitome_runtime::artifact::Permission::WriteThread),
    );
    let mut reader = engine.resume(&reader, thread_id("t1")).await.unwrap();
    assert!(matches!(reader.annotate(&pin("x")).await, Err(EngineError::NotAllowed)));
    assert!(reader.notes().await.is_ok());
}

#[tokio::test]
async fn an_answer_that_asks_again_counts_although_the_next_question_came_with_it() {
    let engine = engine().await;
    let mut thread = engine.open(&owner(), thread_id("t1"), Dialect::Chat).await.unwrap();
    let question = says("assistant", "What was the budget again?");
    let place = |thread: &OpenThread| thread.length();
    // Before a compaction nothing can have been compacted away.
    thread.append([says("user", "Hello."), question.clone(), says("user", "A thousand.")]).await.unwrap();
    assert_eq!(thread.quality().agent_asked_for_context, 0);
    move_out(&mut thread, 0).await;
    thread.append_at(place(&thread), [question.clone(), says("user", "A thousand, as I said.")]).await.unwrap();
    assert_eq!(thread.quality().agent_asked_for_context, 1);
    assert_eq!(thread.quality().turns_since_compaction, 1);
    thread.append_at(place(&thread), [says("assistant", "Thank you."), says("user", "Go on.")]).await.unwrap();
    assert_eq!((thread.quality().agent_asked_for_context, thread.quality().turns_since_compaction), (1, 2));
    for _ in 0..2 {
        thread.append_at(place(&thread), [question.clone(), says("user", "A thousand!")]).await.unwrap();
    }
    let notes = engine.resume(&owner(), thread_id("t1")).await.unwrap().notes().await.unwrap();
    assert_eq!((notes.quality.agent_asked_for_context, notes.asks_often), (3, true));
    let told = engine.log().events(thread.key(), 0, 1000).await.unwrap();
    assert_eq!(told.iter().filter(|(_, event)| event.kind == EventKind::ContextMissed).count(), 3);
    assert!(notes.to_string().contains("- the agent asked for what was compacted: 3\n"), "{notes}");
    let done = thread.annotate(&NoteChange::EndTask { completed: true }).await.unwrap();
    assert_eq!(done.quality.task_completed, Some(true));
}
