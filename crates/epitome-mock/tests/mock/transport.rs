//! What is around the body: keys, paths, encodings, sizes, records, and lines that go dead.

use std::io::Write;
use std::time::{Duration, Instant};

use epitome_mock::MockSettings;
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use serde_json::{Value, json};

use crate::bench::{Bench, chat, client, messages, responses, with};

/// A path, the headers, the status, and words of the answer.
type Turned<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, &'a str);

#[tokio::test]
async fn who_has_no_key_or_no_version_or_no_path_is_told_so() {
    let bench = Bench::new();
    let version = ("anthropic-version", "2023-06-01");
    let key = ("x-api-key", "k");
    let body = messages(10).to_string();
    let cases: [Turned<'_>; 6] = [
        ("/v1/messages", &[version], 401, "authentication_error"),
        ("/v1/messages", &[key], 400, "anthropic-version: header is required"),
        ("/v1/chat/completions", &[], 401, "You didn't provide an API key."),
        ("/v1beta/models/m:generateContent", &[], 403, "PERMISSION_DENIED"),
        ("/v1/nothing", &[key], 404, "Invalid URL (POST /v1/nothing)"),
        ("/v1/messages/nothing", &[key, version], 404, "not_found_error"),
    ];
    for (path, headers, status, says) in cases {
        let got = bench.bare(Method::POST, path, headers, &body).await;
        assert_eq!(got.status, status, "{path}");
        assert!(got.text().contains(says), "{path}: {}", got.text());
    }
    let rules: Vec<String> = bench.mock.violations().into_iter().map(|broken| broken.rule).collect();
    assert_eq!(rules, ["auth", "header", "auth", "auth", "not-found", "not-found"]);
    for key in [("authorization", "Bearer k"), ("api-key", "k"), ("x-goog-api-key", "k")] {
        let got = bench.bare(Method::POST, "/v1/chat/completions", &[key], &chat(10).to_string()).await;
        assert_eq!(got.status, 200, "{key:?}");
    }
    bench
        .bare(Method::POST, "/v1beta/models/m:generateContent?key=k", &[], &crate::bench::gemini(10).to_string())
        .await
        .fine();
}

#[tokio::test]
async fn every_request_is_remembered_byte_for_byte() {
    let bench = Bench::new();
    let odd = r#"{ "model":"m" ,"messages":[{"role":"user","content":"\u00e9"}] }"#;
    bench.send("/v1/chat/completions?x=1", &[("x-epitome-thread", "t")], odd.into()).await.fine();
    bench.send("/v1/chat/completions", &[], b"{".to_vec()).await;
    let requests = bench.mock.requests();
    assert_eq!(requests[0].body, odd.as_bytes());
    assert_eq!((requests[0].path.as_str(), requests[0].status), ("/v1/chat/completions?x=1", 200));
    assert_eq!(requests[0].headers["x-epitome-thread"], "t");
    assert!(requests[0].prompt_tokens.unwrap() > 0);
    assert_eq!((requests[1].status, requests[1].json()), (400, None));
    bench.mock.reset();
    assert!(bench.mock.requests().is_empty());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[tokio::test]
async fn packed_bodies_are_read_and_packed_answers_given() {
    let bench = Bench::new();
    let body = chat(1_000).to_string().into_bytes();
    let plain =
        bench.send("/v1/chat/completions", &[], body.clone()).await.fine().json()["usage"]["prompt_tokens"].clone();
    for (name, packed) in [("gzip", gzip(&body)), ("zstd", zstd(&body))] {
        let got = bench.send("/v1/chat/completions", &[("content-encoding", name)], packed).await.fine();
        assert_eq!(got.json()["usage"]["prompt_tokens"], plain, "{name}");
    }
    let broken = bench.send("/v1/chat/completions", &[("content-encoding", "gzip")], body.clone()).await;
    assert_eq!(broken.status, 400);
    for stream in [false, true] {
        let request = with(chat(10), json!({"stream": stream}));
        let got = bench.post_with("/v1/chat/completions", &[("x-mock-encoding", "gzip")], &request).await.fine();
        assert_eq!(got.headers["content-encoding"], "gzip");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&got.bytes[..]), &mut text).unwrap();
        assert!(text.contains("mock"), "{text}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_too_large_packed_or_not() {
    let bench = Bench::over(MockSettings { body_bytes_max: 100_000, ..MockSettings::default() });
    let body = messages(60_000).to_string().into_bytes();
    for (headers, body) in [(&[][..], body.clone()), (&[("content-encoding", "gzip")][..], gzip(&body))] {
        let got = bench.send("/v1/messages", headers, body).await;
        assert_eq!((got.status, got.json()["error"]["type"].clone()), (413, json!("request_too_large")));
    }
}

#[tokio::test]
async fn a_line_goes_dead_after_as_many_events_as_it_is_told() {
    let bench = Bench::new();
    let stream = |request: Value| with(request, json!({"stream": true}));
    for events in [0, 1, 4] {
        let fault = format!("die-mid-stream={events}");
        let got = bench.post_with("/v1/messages", &[("x-mock-fault", &fault)], &stream(messages(10))).await;
        assert_eq!((got.status, got.events().len()), (200, events), "{}", got.text());
    }
    let whole = bench.post_with("/v1/messages", &[("x-mock-fault", "die-mid-stream=1")], &messages(10)).await;
    assert!(serde_json::from_slice::<Value>(&whole.bytes).is_err());
    let start = Instant::now();
    bench.post_with("/v1/chat/completions", &[("x-mock-fault", "slow=30")], &stream(chat(10))).await.fine();
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_stalled_answer_does_not_come() {
    let bench = Bench::new();
    for (fault, request) in [("stall", with(responses(10), json!({"stream": true}))), ("stall-head", responses(10))] {
        let headers = [("x-mock-fault", fault)];
        let answer = bench.post_with("/v1/responses", &headers, &request);
        assert!(tokio::time::timeout(Duration::from_millis(200), answer).await.is_err(), "{fault}");
    }
}

#[tokio::test]
async fn garbage_is_neither_json_nor_events() {
    let bench = Bench::new();
    let got = bench.post_with("/v1/chat/completions", &[("x-mock-fault", "garbage")], &chat(10)).await.fine();
    assert!(serde_json::from_slice::<Value>(&got.bytes).is_err());
}

#[tokio::test]
async fn a_lax_mock_answers_what_a_strict_one_refuses_and_keeps_nothing() {
    let bench = Bench::over(MockSettings { lax: true, ..MockSettings::default() });
    let odd = json!({"messages": [{"role": "tool", "content": null}]});
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
        assert!(bench.post(path, &odd).await.fine().json()["usage"].is_object(), "{path}");
        let streamed = bench.post(path, &with(odd.clone(), json!({"stream": true}))).await.fine();
        assert!(streamed.events().len() > 3, "{path}");
    }
    assert!(bench.mock.requests().is_empty());
}

#[tokio::test]
async fn models_are_listed_as_each_provider_lists_them() {
    let bench = Bench::new();
    let openai = bench.bare(Method::GET, "/v1/models", &[("authorization", "Bearer k")], "").await.fine().json();
    assert_eq!(openai["object"], "list");
    let headers = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")];
    let anthropic = bench.bare(Method::GET, "/v1/models", &headers, "").await.fine().json();
    assert_eq!(anthropic["data"][0]["type"], "model");
}

#[tokio::test]
async fn a_mock_that_was_stopped_is_gone() {
    let bench = Bench::new();
    let url = bench.mock.url();
    bench.mock.stop().await;
    assert!(client().get(format!("{url}/mock/stats")).send().await.is_err());
}
