//! Vectors of texts.

use epitome_mock::ProviderFault;
use serde_json::{Value, json};

use crate::bench::Bench;

fn request(input: Value) -> Value {
    json!({"model": "mock-embedding", "input": input})
}

fn vectors(answer: &Value) -> Vec<Vec<f64>> {
    let data = answer["data"].as_array().expect("a list");
    data.iter().map(|item| serde_json::from_value(item["embedding"].clone()).expect("numbers")).collect()
}

fn cosine(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[tokio::test]
async fn texts_with_the_same_words_are_near_and_the_same_text_is_the_same() {
    let bench = Bench::new();
    let texts = json!(["the harbor is closed", "closed is the harbor", "harbors closing", "I like soup"]);
    for path in ["/v1/embeddings", "/embeddings"] {
        let answer = bench.post(path, &request(texts.clone())).await.fine().json();
        let all = vectors(&answer);
        assert_eq!((all.len(), all[0].len()), (4, 256));
        assert!((cosine(&all[0], &all[0]) - 1.0).abs() < 1e-5 && cosine(&all[0], &all[1]) > 0.95, "{path}");
        assert!(cosine(&all[0], &all[2]) > 0.1 && cosine(&all[0], &all[3]) < 0.1, "{path}");
        let alone = bench.post(path, &request(json!("closed is the harbor"))).await.fine().json();
        assert_eq!(vectors(&alone)[0], all[1]);
        assert_eq!((&answer["data"][3]["index"], &answer["object"]), (&json!(3), &json!("list")));
        assert!(answer["usage"]["prompt_tokens"].as_u64() > Some(10), "{}", answer["usage"]);
    }
}

#[tokio::test]
async fn a_vector_has_the_size_and_the_form_that_are_asked_for() {
    let bench = Bench::new();
    let with = |fields: Value| crate::bench::with(request(json!("one two")), fields);
    let answer = bench.post("/v1/embeddings", &with(json!({"dimensions": 8}))).await.fine().json();
    assert_eq!(vectors(&answer)[0].len(), 8);
    let answer = bench.post("/v1/embeddings", &with(json!({"dimensions": 3, "encoding_format": "base64"}))).await;
    let packed = answer.fine().json()["data"][0]["embedding"].as_str().expect("a text").to_owned();
    assert_eq!(packed.len(), 16, "three numbers of four bytes: {packed}");
}

#[tokio::test]
async fn a_request_that_openai_refuses_is_refused_and_faults_are_made() {
    let bench = Bench::new();
    for (body, field) in [
        (json!({"input": "a"}), "model"),
        (json!({"model": "m"}), "input"),
        (request(json!([])), "input"),
        (request(json!(["a", ""])), "input"),
        (request(json!([[1, 2]])), "input"),
        (request(json!(vec!["a"; 2049])), "input"),
        (crate::bench::with(request(json!("a")), json!({"dimensions": 0})), "dimensions"),
        (crate::bench::with(request(json!("a")), json!({"encoding_format": "hex"})), "encoding_format"),
    ] {
        let got = bench.post("/v1/embeddings", &body).await;
        assert_eq!((got.status, &got.json()["error"]["param"]), (400, &json!(field)), "{body}");
    }
    let fault = "500".parse::<ProviderFault>();
    let Ok(fault) = fault else { panic!("{fault:?}") };
    bench.mock.fail_next(fault, 1);
    assert!(bench.post("/v1/embeddings", &request(json!("a"))).await.status >= 500);
    bench.post("/v1/embeddings", &request(json!("a"))).await.fine();
}
