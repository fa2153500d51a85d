//! Search by meaning: paraphrases are found, nothing that fails takes an answer away, and vectors are kept like what they are of.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, EngineParts, OpenThread};
use epitome_runtime::event::{Bus, Event, EventKind, Listener};
use epitome_runtime::ids::{Moment, ThreadKey};
use epitome_runtime::model::Embeddings;
use epitome_runtime::recall::{
    EmbedLimits, PromptLines, RecallFilter, RecallRequest, RecallResult, SearchByMeaning, Who,
};
use epitome_runtime::store::{
    JobId, JobKind, JobState, MemoryStore, NewJob, SqliteStore, Store, StoredVector, VectorRow, Write,
};
use epitome_runtime::upkeep::{check, rotate};
use epitome_runtime::vault::Keys;

use crate::embedder::Embedder;
use crate::world::{KEY, finds, go_on, keys, open, owner, settings, tenant, thread_id};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::json;

const END: (u64, u32) = (u64::MAX, u32::MAX);
const ALL: EmbedLimits = EmbedLimits { passages_max: 10_000, time_max: Duration::from_secs(60) };

async fn engine_on(store: &Arc<dyn Store>, keys: Keys, embeddings: Option<Embeddings>) -> Engine {
    let parts = EngineParts { store: Arc::clone(store), keys, embeddings, ..EngineParts::in_memory(settings()) };
    Engine::new(parts).await.unwrap()
}

/// The same with objects that outlast it.
async fn engine_over(store: &Arc<dyn Store>, objects: &Arc<InMemory>, keys: Keys, embedder: &Embedder) -> Engine {
    let (store, embeddings) = (Arc::clone(store), Some(embedder.client()));
    let objects: Arc<dyn ObjectStore> = objects.clone();
    Engine::new(EngineParts { store, objects, keys, embeddings, ..EngineParts::in_memory(settings()) }).await.unwrap()
}

fn stores() -> [Arc<dyn Store>; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(SqliteStore::in_memory().unwrap())]
}

/// What tools said, long ago: each is one passage of a message that left the prompts.
const NOTES: [&str; 3] =
    ["The automobile of the mayor stands in the yard.", "The harbor code is V-17.", "The kitten sleeps on the roof."];

/// The numbers of the messages that hold the notes.
const CAR: &str = "m3";
const CAT: &str = "m11";

/// Lets a thread read the notes, and go on until they have left its prompts.
async fn compacted(thread: &mut OpenThread) {
    for (at, note) in NOTES.iter().enumerate() {
        let function = json!({"name": "read", "arguments": json!({"path": format!("note-{at}")}).to_string()});
        let call = json!({"id": format!("note_{at}"), "type": "function", "function": function});
        let messages = [
            json!({"role": "user", "content": format!("Read note {at}.")}),
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": format!("note_{at}"), "content": note}),
            json!({"role": "assistant", "content": "Done."}),
        ];
        thread.append(messages.map(|message| message.to_string())).await.unwrap();
    }
    go_on(thread, 0..12).await;
    assert!(thread.row().version > 0, "something was compacted");
}

/// Searches without regard to what the prompt holds.
async fn search(engine: &Engine, thread: &OpenThread, request: impl Into<RecallRequest>) -> RecallResult {
    engine.search(thread.row(), &request.into(), None).await.unwrap()
}

/// The first passage that a search for a car found, which no note calls so.
async fn finds_the_car(engine: &Engine, thread: &OpenThread) {
    let found = search(engine, thread, "which sedan").await;
    let first = found.hits.first().map(|hit| hit.reference.as_str());
    assert_eq!((found.by_meaning, first), (SearchByMeaning::Done, Some(CAR)), "{}", found.render());
}

async fn work_all(engine: &Engine) {
    while engine.work_once().await {}
}

async fn vectors(store: &Arc<dyn Store>, key: &ThreadKey) -> Vec<VectorRow> {
    store.vectors(key, END, 10_000).await.unwrap()
}

fn shows(found: &RecallResult, words: &str) -> bool {
    found.hits.iter().any(|hit| hit.text.contains(words))
}

#[tokio::test]
async fn a_paraphrase_is_found_by_meaning_once_a_worker_has_made_vectors() {
    for (keys, has_key) in keys().into_iter().zip([false, true]) {
        for store in stores() {
            let embedder = Embedder::start().await;
            let engine = engine_on(&store, keys.clone(), Some(embedder.client())).await;
            let mut thread = open(&engine).await;
            compacted(&mut thread).await;
            assert_eq!(embedder.texts(), [""; 0], "nothing is embedded on a request's way");
            let before = search(&engine, &thread, "which sedan").await;
            assert!(before.by_meaning == SearchByMeaning::Partly && before.hits.is_empty(), "{}", before.render());
            assert!(before.render().contains("searched by words alone"), "{}", before.render());

            work_all(&engine).await;
            finds_the_car(&engine, &thread).await;
            let exact = search(&engine, &thread, "V-17").await;
            assert_eq!(exact.hits[0].text, NOTES[1], "words are found as before: {}", exact.render());
            let nonsense = search(&engine, &thread, "quincunx").await;
            assert!(nonsense.hits.is_empty(), "something is nearest to anything: {}", nonsense.render());

            let alone = engine_on(&store, keys.clone(), None).await;
            let found = search(&alone, &thread, "which sedan").await;
            assert!(found.by_meaning.is_off() && found.hits.is_empty(), "words alone do not find it");
            let rows = vectors(&store, thread.key()).await;
            let is_sealed = |row: &VectorRow| matches!(row.vector, StoredVector::Sealed(_));
            assert!(rows.len() > 10 && rows.iter().all(|row| is_sealed(row) == has_key));
        }
    }
}

#[tokio::test]
async fn filters_and_what_the_prompt_holds_count_for_what_is_found_by_meaning() {
    let (embedder, store) = (Embedder::start().await, stores()[1].clone());
    let engine = engine_on(&store, Keys::none(), Some(embedder.client())).await;
    let mut thread = open(&engine).await;
    compacted(&mut thread).await;
    work_all(&engine).await;
    let none = RecallFilter::default;
    for (filter, is_found) in [
        (RecallFilter { who: Some(Who::Tool), ..none() }, true),
        (RecallFilter { who: Some(Who::Assistant), ..none() }, false),
        (RecallFilter { tool: Some("read".into()), newest: true, ..none() }, true),
        (RecallFilter { file: Some("note-2".into()), ..none() }, true),
        (RecallFilter { file: Some("note-1".into()), ..none() }, false),
        (RecallFilter { after: Some(10), ..none() }, true),
        (RecallFilter { after: Some(11), ..none() }, false),
    ] {
        let request = RecallRequest { filter: filter.clone(), ..RecallRequest::from("feline") };
        let found = search(&engine, &thread, request).await;
        assert_eq!(shows(&found, NOTES[2]), is_found, "{filter:?}: {}", found.render());
    }
    let prompt = PromptLines::of_texts([NOTES[2]]);
    let found = engine.search(thread.row(), &"feline".into(), Some(&prompt)).await.unwrap();
    assert_eq!(found.render(), format!("[in the prompt already: {CAT}]"));
}

#[derive(Default)]
struct Heard(Mutex<Vec<EventKind>>);

impl Listener for Heard {
    fn hear(&self, event: &Event) {
        self.0.lock().unwrap().push(event.kind);
    }
}

#[tokio::test]
async fn an_endpoint_that_is_down_takes_no_answer_away_and_is_told() {
    let (embedder, heard) = (Embedder::start().await, Arc::new(Heard::default()));
    let bus = Bus::new().with_listener(heard.clone());
    let parts = EngineParts { embeddings: Some(embedder.client()), bus, ..EngineParts::in_memory(settings()) };
    let engine = Engine::new(parts).await.unwrap();
    embedder.is_down(true);
    let mut thread = open(&engine).await;
    compacted(&mut thread).await;
    let found = search(&engine, &thread, "harbor").await;
    assert_eq!((found.by_meaning, finds(&found, "V-17")), (SearchByMeaning::Failed, true));
    assert!(found.render().contains("[searched by words alone: the embedding endpoint gave no answer]"));
    let nothing = thread.recall("sedan").await.unwrap();
    assert!(
        nothing.by_meaning == SearchByMeaning::Failed
            && nothing.hits.is_empty()
            && nothing.render().contains("searched by words alone"),
        "{}",
        nothing.render()
    );
    assert!(heard.0.lock().unwrap().contains(&EventKind::EmbeddingFailed));

    // The job fails, is kept, and is done when the endpoint is there again.
    assert!(engine.work_once().await, "there is a job");
    let job = engine.log().store().job(thread.key(), &JobKind::Embed).await.unwrap().unwrap();
    assert_eq!((job.state, job.error.as_deref()), (JobState::Ready, Some("the embedding endpoint gave no vectors")));
    embedder.is_down(false);
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    work_all(&engine).await;
    finds_the_car(&engine, &thread).await;
}

#[tokio::test]
async fn a_crash_anywhere_between_the_commit_and_the_last_vector_loses_no_passage_and_pays_for_none_twice() {
    for store in stores() {
        let embedder = Embedder::start().await;
        let key = {
            let engine = engine_on(&store, Keys::none(), Some(embedder.client())).await;
            let mut thread = open(&engine).await;
            compacted(&mut thread).await;
            thread.key().clone()
            // The process ends here: the compaction is committed, no vector is made.
        };
        let engine = engine_on(&store, Keys::none(), Some(embedder.client())).await;
        let row = engine.log().thread(&key).await.unwrap().unwrap();
        embedder.goes_down_after(1);
        assert!(engine.embed_passages(&row, ALL).await.is_err(), "it ends after the first batch");
        assert_eq!(vectors(&store, &key).await.len(), 8, "which is kept");
        embedder.is_down(false);

        let after = engine_on(&store, Keys::none(), Some(embedder.client())).await;
        work_all(&after).await;
        let texts = embedder.texts();
        let indexed = vectors(&store, &key).await.len();
        assert_eq!(texts.len(), indexed, "each passage was sent once");
        finds_the_car(&after, &after.resume(&owner(), key.thread).await.unwrap()).await;
    }
}

#[tokio::test]
async fn a_text_that_the_model_refuses_holds_up_no_other() {
    let (embedder, store) = (Embedder::start().await, stores()[1].clone());
    embedder.refuses("V-17");
    let engine = engine_on(&store, Keys::none(), Some(embedder.client())).await;
    let mut thread = open(&engine).await;
    compacted(&mut thread).await;
    let report = engine.embed_passages(thread.row(), ALL).await.unwrap();
    assert!(report.refused == 1 && report.embedded > 8 && !report.is_more, "{report:?}");
    let found = search(&engine, &thread, "sedan").await;
    assert_eq!((found.by_meaning, found.hits[0].reference.as_str()), (SearchByMeaning::Done, CAR));
    assert!(finds(&search(&engine, &thread, "harbor").await, "V-17"), "and by words it is found");
    let made = embedder.texts().len();
    work_all(&engine).await;
    assert_eq!(embedder.texts().len(), made, "it is not sent again");

    // An endpoint that refuses everything says nothing of a text.
    embedder.refuses("");
    let mut other = engine.open(&owner(), thread_id("t2"), epitome::wire::Dialect::Chat).await.unwrap();
    compacted(&mut other).await;
    assert!(engine.embed_passages(other.row(), ALL).await.is_err());
    assert!(vectors(&store, other.key()).await.is_empty());
}

#[tokio::test]
async fn vectors_of_another_model_are_made_anew_and_never_compared() {
    let (embedder, store) = (Embedder::start().await, stores()[1].clone());
    let engine = engine_on(&store, Keys::none(), Some(embedder.client())).await;
    let mut thread = open(&engine).await;
    compacted(&mut thread).await;
    work_all(&engine).await;
    let before = vectors(&store, thread.key()).await;
    let others = before.iter().map(|row| VectorRow { space: "another".into(), ..row.clone() }).collect();
    store.apply(&[Write::PutVectors { key: thread.key().clone(), rows: others }]).await.unwrap();
    let found = search(&engine, &thread, "sedan").await;
    assert!(found.by_meaning == SearchByMeaning::Partly && found.hits.is_empty(), "{}", found.render());
    work_all(&engine).await;
    assert_eq!(vectors(&store, thread.key()).await, before);
    assert!(before.iter().all(|row| !row.space.contains("concepts")), "a model's name is not readable");
}

#[tokio::test]
async fn a_rotation_seals_vectors_anew_and_makes_none_again() {
    for store in stores() {
        let (embedder, objects) = (Embedder::start().await, Arc::new(InMemory::new()));
        let engine = engine_over(&store, &objects, Keys::none(), &embedder).await;
        let mut thread = open(&engine).await;
        compacted(&mut thread).await;
        work_all(&engine).await;
        let (key, made) = (thread.key().clone(), embedder.texts().len());
        let other = KEY.replace("k1", "k2").replace("0001", "ff01");
        for (during, after) in [(KEY.to_owned(), KEY.to_owned()), (format!("{other}\n{KEY}"), other.clone())] {
            let engine = engine_over(&store, &objects, during.parse().unwrap(), &embedder).await;
            let findings = check(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap().findings;
            assert!(findings.iter().any(|finding| finding.contains(&format!("{made} vectors"))), "{findings:?}");
            let rotated = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
            assert_eq!((rotated.vectors, rotated.left.len()), (made as u64, 0));
            let again = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
            assert_eq!(again.vectors, 0, "what is under the key stays");

            let engine = engine_over(&store, &objects, after.parse().unwrap(), &embedder).await;
            let findings = check(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap().findings;
            assert_eq!(findings, [""; 0]);
            let rows = vectors(&store, &key).await;
            assert!(rows.iter().all(|row| matches!(row.vector, StoredVector::Sealed(_))) && rows.len() == made);
            finds_the_car(&engine, &engine.resume(&owner(), key.thread.clone()).await.unwrap()).await;
        }
        assert!(embedder.texts().len() <= made + 2, "only the words of the searches were sent");
    }
}

#[tokio::test]
async fn no_tenant_finds_anothers_passages_by_meaning_and_a_moved_vector_does_not_open() {
    let key = || KEY.parse::<Keys>().unwrap();
    for store in stores() {
        let embedder = Embedder::start().await;
        let engine = engine_on(&store, key(), Some(embedder.client())).await;
        let mut theirs = open(&engine).await;
        compacted(&mut theirs).await;
        // The same name of a thread with another tenant, who never speaks of cars.
        let bolt = Access::owner(tenant("bolt"), "tester");
        let mut own = engine.open(&bolt, thread_id("t1"), epitome::wire::Dialect::Chat).await.unwrap();
        go_on(&mut own, 0..12).await;
        work_all(&engine).await;
        let found = search(&engine, &own, "which sedan").await;
        assert!(found.by_meaning == SearchByMeaning::Done && !finds(&found, "automobile"), "{}", found.render());

        // Somebody who can write to the store puts the other tenant's vectors under this one's passages.
        let moved = vectors(&store, theirs.key()).await;
        let spaces: Vec<String> = vectors(&store, own.key()).await.into_iter().map(|row| row.space).collect();
        assert_ne!(moved[0].space, spaces[0], "a model has another name with another tenant");
        let rows = moved.into_iter().map(|row| VectorRow { space: spaces[0].clone(), ..row }).collect();
        store.apply(&[Write::PutVectors { key: own.key().clone(), rows }]).await.unwrap();
        let found = search(&engine, &own, "which sedan").await;
        assert!(found.by_meaning == SearchByMeaning::Partly && !finds(&found, "automobile"), "{}", found.render());
        let findings = check(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap().findings;
        assert!(findings.iter().any(|finding| finding.contains("The vector of message")), "{findings:?}");
    }
}

#[tokio::test]
async fn a_fork_finds_by_meaning_what_its_parent_embedded() {
    let (embedder, store) = (Embedder::start().await, stores()[1].clone());
    let engine = engine_on(&store, Keys::none(), Some(embedder.client())).await;
    let mut thread = open(&engine).await;
    compacted(&mut thread).await;
    work_all(&engine).await;
    let made = embedder.texts().len();
    let at = thread.row().length - 2;
    let fork = engine.fork(&owner(), thread_id("t1"), at, thread_id("t2")).await.unwrap();
    finds_the_car(&engine, &fork).await;
    assert_eq!(embedder.texts().len(), made + 1, "nothing is embedded again");
}

#[tokio::test]
async fn a_worker_that_only_embeds_leaves_compactions_to_others() {
    let (embedder, store) = (Embedder::start().await, stores()[0].clone());
    let engine = engine_on(&store, Keys::none(), Some(embedder.client())).await;
    let mut thread = open(&engine).await;
    compacted(&mut thread).await;
    let now = Moment::now();
    let other = ThreadKey::new(owner().tenant, thread_id("t2"));
    let job = NewJob {
        id: JobId::new(),
        key: other.clone(),
        kind: JobKind::Compact,
        attempts_max: 2,
        due: now,
        queued: now,
        payload: String::new(),
    };
    store.apply(&[Write::Enqueue(Box::new(job))]).await.unwrap();
    let worker = engine.embed_in_background();
    let outcome = async || search(&engine, &thread, "which sedan").await.by_meaning;
    for _ in 0..200 {
        if outcome().await == SearchByMeaning::Done {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    worker.stop().await;
    finds_the_car(&engine, &thread).await;
    let left = store.job(&other, &JobKind::Compact).await.unwrap().unwrap();
    assert_eq!((left.state, left.attempts), (JobState::Ready, 0));
}
