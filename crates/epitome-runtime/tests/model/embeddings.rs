//! Texts to vectors over a real socket: what is sent, what is asked again, and how long a search waits.

use std::time::{Duration, Instant};

use epitome::wire::Dialect;
use epitome_runtime::model::{BreakerSettings, EmbeddingSettings, Embeddings, Endpoint, ModelError, Retry};
use serde_json::{Value, json};

use crate::endpoint;
use crate::server::{Reply, Server};

fn vectors(count: usize) -> Reply {
    let data: Vec<Value> = (0..count).map(|index| json!({"index": index, "embedding": [3.0, 4.0]})).collect();
    Reply::json(200, &json!({"object": "list", "data": data}).to_string())
}

fn client(endpoint: Endpoint, settings: EmbeddingSettings) -> Embeddings {
    Embeddings::new(endpoint, settings).unwrap()
}

#[tokio::test]
async fn a_request_names_model_texts_and_size_and_carries_the_key() {
    for (base, dimensions) in [("", None), ("/v1", Some(64)), ("/v1/embeddings", None)] {
        let server = Server::start([vectors(2)]).await;
        let endpoint =
            Endpoint { key: Some("sk-hidden".into()), ..endpoint(&(server.url.clone() + base), Dialect::Chat) };
        let settings = EmbeddingSettings { dimensions, ..EmbeddingSettings::default() };
        let made = client(endpoint, settings).embed(&["one", "two"]).await;
        assert_eq!(made, Ok(vec![vec![0.6, 0.8]; 2]));
        let asked = server.asked();
        let (head, body) = asked[0].split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: Bearer sk-hidden"), "{head}");
        let mut expected = json!({"model": "m", "input": ["one", "two"], "encoding_format": "float"});
        if let Some(dimensions) = dimensions {
            expected["dimensions"] = json!(dimensions);
        }
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
    }
}

#[tokio::test]
async fn what_passes_is_asked_again_and_a_refusal_is_not() {
    let broken = || Reply::json(500, r#"{"error":{"message":"the key sk-hidden overheats"}}"#);
    let quick = Retry { attempts: 3, base: Duration::from_millis(1), ..Retry::default() };
    let with_key = |server: &Server| Endpoint {
        key: Some("sk-hidden".into()),
        retry: quick,
        ..endpoint(&server.url, Dialect::Chat)
    };
    let server = Server::start([broken(), broken(), vectors(1)]).await;
    assert!(client(with_key(&server), EmbeddingSettings::default()).embed(&["one"]).await.is_ok());
    assert_eq!(server.asked().len(), 3);
    let server = Server::start([broken()]).await;
    let error = client(with_key(&server), EmbeddingSettings::default()).embed(&["one"]).await.unwrap_err().to_string();
    assert!(server.asked().len() == 3 && !error.contains("sk-hidden"), "{error}");
    let server = Server::start([Reply::json(401, r#"{"error":{"message":"no"}}"#), vectors(1)]).await;
    let error = client(with_key(&server), EmbeddingSettings::default()).embed(&["one"]).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused(401, _)) && server.asked().len() == 1, "{error}");
}

#[tokio::test]
async fn a_search_waits_for_an_endpoint_that_hangs_no_longer_than_it_may_and_soon_not_at_all() {
    let server = Server::start([Reply::hang()]).await;
    let trip = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    let settings = EmbeddingSettings { search_timeout: Duration::from_millis(100), ..EmbeddingSettings::default() };
    let embeddings = client(Endpoint { trip, ..endpoint(&server.url, Dialect::Chat) }, settings);
    for _ in 0..2 {
        let error = embeddings.embed_words("one").await.unwrap_err();
        assert!(matches!(error, ModelError::TimedOut(..)), "{error}");
    }
    let started = Instant::now();
    let error = embeddings.embed_words("one").await.unwrap_err();
    assert!(matches!(error, ModelError::Open(2, _)) && started.elapsed() < Duration::from_millis(90), "{error}");
}
