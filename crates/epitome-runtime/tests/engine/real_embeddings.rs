//! A real embedding model: questions that share no word with what answers them.

use std::sync::Arc;
use std::time::Duration;

use epitome::wire::Dialect;
use epitome_runtime::engine::{Engine, EngineParts};
use epitome_runtime::model::{EmbeddingSettings, Embeddings, Endpoint};
use epitome_runtime::recall::{SearchByMeaning, terms};
use epitome_runtime::store::{MemoryStore, PostgresStore, SqliteStore, Store};
use epitome_runtime::vault::Keys;

use serde_json::json;

use crate::world::{KEY, go_on, owner, settings, thread_id};

/// A question, and what answers it.
const PAIRS: [(&str, &str); 6] = [
    ("how fast does the car go", "An automobile moves at eighty kilometers per hour here."),
    ("forgotten password", "Account credentials are recovered with the blue form."),
    ("the dog is ill", "Our puppy has been sick since Monday and sees a veterinarian."),
    ("costs too much money", "This offer is far too expensive for us."),
    ("database outage", "Postgres went down at night and nobody could connect."),
    ("meal in the evening", "Dinner is soup with bread."),
];

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run scripts/test, or scripts/services start and then `set -a; . target/services/env`"
        )
    })
}

fn embeddings() -> Embeddings {
    let endpoint = Endpoint::new(&variable("EPITOME_TEST_EMBEDDINGS"), Dialect::Chat, "all-MiniLM-L6-v2");
    let settings = EmbeddingSettings { search_timeout: Duration::from_secs(30), ..EmbeddingSettings::default() };
    Embeddings::new(endpoint, settings).unwrap()
}

async fn finds_every_paraphrase(store: Arc<dyn Store>, keys: Keys) {
    let parts = |embeddings| EngineParts {
        store: Arc::clone(&store),
        keys: keys.clone(),
        embeddings,
        ..EngineParts::in_memory(settings())
    };
    let engine = Engine::new(parts(Some(embeddings()))).await.unwrap();
    let id = thread_id(&format!("real-{}", uuid::Uuid::now_v7()));
    let mut thread = engine.open(&owner(), id, Dialect::Chat).await.unwrap();
    for (at, (_, said)) in PAIRS.iter().enumerate() {
        let function = json!({"name": "read", "arguments": json!({"path": format!("note-{at}")}).to_string()});
        let call = json!({"id": format!("note_{at}"), "type": "function", "function": function});
        let messages = [
            json!({"role": "user", "content": format!("Read note {at}.")}),
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": format!("note_{at}"), "content": said}),
            json!({"role": "assistant", "content": "Done."}),
        ];
        thread.append(messages.map(|message| message.to_string())).await.unwrap();
    }
    go_on(&mut thread, 0..10).await;
    while engine.work_once().await {}
    let by_words = Engine::new(parts(None)).await.unwrap();
    for (question, said) in PAIRS {
        let found = engine.search(thread.row(), &question.into(), None).await.unwrap();
        assert_eq!(found.by_meaning, SearchByMeaning::Done, "{question}");
        let best: Vec<&str> = found.hits.iter().take(2).map(|hit| hit.text.as_str()).collect();
        assert!(best.contains(&said), "{question}: {}", found.render());
        // What words find holds a word of the question, and the answer holds none that tells.
        let words: Vec<String> = terms(question).into_iter().filter(|word| word.len() > 3).collect();
        assert!(terms(said).iter().all(|word| !words.contains(word)), "{question} shares a word with {said}");
        let found = by_words.search(thread.row(), &words.join(" ").as_str().into(), None).await.unwrap();
        assert!(found.hits.iter().all(|hit| hit.text != said), "{question}: words alone find it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_finds_every_paraphrase_in_every_store_open_or_sealed() {
    finds_every_paraphrase(Arc::new(MemoryStore::new()), Keys::none()).await;
    finds_every_paraphrase(Arc::new(SqliteStore::in_memory().unwrap()), KEY.parse().unwrap()).await;
}

/// With the extension the database compares, unless the vectors are sealed; without it, this process does.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_finds_every_paraphrase_in_postgres_with_and_without_pgvector() {
    for (variable_name, has_extension) in [("EPITOME_TEST_PGVECTOR", true), ("EPITOME_TEST_POSTGRES", false)] {
        for keys in [Keys::none(), KEY.parse().unwrap()] {
            let schema = format!("test_{}", uuid::Uuid::now_v7().simple());
            let settings = epitome_runtime::store::PostgresSettings { schema, ..Default::default() };
            let store = PostgresStore::connect_with(&variable(variable_name), &settings).await.unwrap();
            let near = store.nearest(&owner().tenant, &[], "", &[1.0], 1).await.unwrap();
            assert_eq!(near.is_some(), has_extension, "{variable_name}");
            finds_every_paraphrase(Arc::new(store), keys).await;
        }
    }
}
