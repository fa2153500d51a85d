//! Limits: on heads, on patience, on how much at once.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;

use crate::fixture::{Running, SOON, rest_of, said_to, with_limits};

#[tokio::test]
async fn a_client_that_never_finishes_its_head_is_let_go() {
    let running = Running::new(with_limits(|serve| serve.head_timeout_s.0 = Duration::from_millis(200))).await;
    let mut slow = running.connect().await;
    slow.write_all(b"GET /echo HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let began = Instant::now();
    let dripping = async {
        // A byte now and then does not help: the head as a whole has its time.
        while slow.write_all(b"a").await.is_ok() && began.elapsed() < SOON {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    dripping.await;
    assert!(began.elapsed() < SOON, "it still listens");
    assert_eq!(running.get("/livez", &[]).await.status(), 200);
}

#[tokio::test]
async fn a_client_that_says_nothing_is_let_go() {
    let running = Running::new(with_limits(|serve| serve.head_timeout_s.0 = Duration::from_millis(200))).await;
    let mut silent = running.connect().await;
    assert_eq!(rest_of(&mut silent).await, "");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_as_that() {
    let running = Running::new(with_limits(|serve| serve.head_kb_max.0 = 16 << 10)).await;
    let head = |bytes: usize| {
        format!("GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: {}\r\n\r\n", "a".repeat(bytes))
    };
    let fine = said_to(&running, &head(8 << 10)).await;
    assert!(fine.starts_with("HTTP/1.1 200 "), "{fine}");
    let large = said_to(&running, &head(20 << 10)).await;
    assert!(large.starts_with("HTTP/1.1 431 "), "{large}");
    let many: String = (0..200).map(|number| format!("X-{number}: a\r\n")).collect();
    let many = said_to(&running, &format!("GET /echo HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")).await;
    assert!(many.starts_with("HTTP/1.1 431 "), "{many}");
}

#[tokio::test]
async fn a_body_that_is_too_large_for_its_own_endpoints_is_refused_before_it_comes() {
    let running = Running::new(with_limits(|_| {})).await;
    for path in ["/api/threads", "/mcp", "/livez"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100000000\r\n\r\n"
        );
        let said = said_to(&running, &head).await;
        assert!(said.starts_with("HTTP/1.1 413 "), "{path}: {said}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_rest_goes_on() {
    let running = Running::new(with_limits(|_| {})).await;
    for garbage in ["\x16\x03\x01 hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n"] {
        let said = said_to(&running, garbage).await;
        assert!(said.starts_with("HTTP/1.1 400 ") || said.is_empty(), "{said}");
    }
    assert_eq!(running.get("/livez", &[]).await.status(), 200);
}

#[tokio::test]
async fn one_request_too_many_is_told_to_come_back_and_probes_are_not() {
    let running = Running::new(with_limits(|serve| serve.requests_max = 1)).await;
    let first = running.get("/endless", &[]).await;
    let second = running.get("/v1/messages", &[]).await;
    assert_eq!(second.status(), 503);
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(second.headers()["x-epitome-refused"], "busy");
    let body: serde_json::Value = second.json().await.unwrap();
    assert_eq!(body["error"]["type"], "overloaded_error", "{body}");
    let (_, body) = running.json("/v1/chat/completions", &[]).await;
    assert_eq!(body["error"]["code"], "busy", "{body}");
    for probe in ["/livez", "/readyz", "/metrics", "/api/threads"] {
        assert_eq!(running.get(probe, &[]).await.status(), 200, "{probe}");
    }
    drop(first);
    let began = Instant::now();
    while running.get("/echo", &[]).await.status() != 200 {
        assert!(began.elapsed() < SOON, "a client that left still counts");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_an_answer_is_forgotten() {
    let running = Running::new(with_limits(|serve| serve.requests_max = 1)).await;
    let mut stream = running.connect().await;
    stream.write_all(b"GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    // Looked for with requests that take no place: one that did could be there first, and the place would be taken.
    let began = Instant::now();
    while running.in_flight().await < 1 {
        assert!(began.elapsed() < SOON, "the first request has not begun");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(running.get("/echo", &[]).await.status(), 503, "the place is taken");
    drop(stream);
    while running.get("/echo", &[]).await.status() != 200 {
        assert!(began.elapsed() < SOON, "it still holds its place");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let metrics = running.get("/metrics", &[]).await.text().await.unwrap();
    assert!(metrics.contains("epitome_gateway_requests_total{route=\"proxy\",status=\"499\"} 1"), "{metrics}");
}
