//! Probes, ids and numbers: what an operator sees.

use std::sync::Arc;

use epitome_gateway::settings::Settings;
use epitome_runtime::engine::{Engine, EngineParts};
use epitome_runtime::store::MemoryStore;
use epitome_testkit::{FaultyObjects, FaultyStore, ObjectCall, ObjectFault, StoreFault};
use object_store::memory::InMemory;

use crate::fixture::{Running, said_to};

#[tokio::test]
async fn it_is_ready_and_says_why() {
    let running = Running::new(Settings::default()).await;
    let (status, body) = running.json("/readyz", &[]).await;
    assert_eq!((status, &body["status"]), (200, &"ready".into()), "{body}");
    let names: Vec<&str> =
        body["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["serving", "upstreams", "store", "artifacts"]);
}

#[tokio::test]
async fn without_its_store_it_stays_in_service_and_says_so() {
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
    let parts = EngineParts {
        store: store.clone(),
        ..EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default())
    };
    let running = Running::of(Settings::default(), Engine::new(parts).await.unwrap()).await;
    assert_eq!(running.get("/readyz", &[]).await.status(), 200);
    store.fail(0, usize::MAX, StoreFault::Refused);
    let body = readiness(&running, "degraded").await;
    assert_eq!((&body["checks"][2]["ok"], &body["checks"][2]["detail"]), (&false.into(), &"cannot be reached".into()));
    assert_eq!(running.get("/livez", &[]).await.status(), 200);
    assert_eq!(running.get("/echo", &[]).await.status(), 200, "the proxy goes on");
    let (status, body) = running.json("/api/threads", &[]).await;
    assert_eq!((status, &body["error"]["code"]), (503, &"unavailable".into()), "{body}");
}

/// What `/readyz` says once it says this: what it saw of the store is told again for a moment.
async fn readiness(running: &Running, expected: &str) -> serde_json::Value {
    let began = std::time::Instant::now();
    loop {
        let (status, body) = running.json("/readyz", &[]).await;
        assert_eq!(status, 200, "{body}");
        if body["status"] == expected {
            return body;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{expected} does not come: {body}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_store_that_is_read_and_takes_no_writes_is_not_well() {
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
    let parts = EngineParts {
        store: store.clone(),
        ..EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default())
    };
    let running = Running::of(Settings::default(), Engine::new(parts).await.unwrap()).await;
    readiness(&running, "ready").await;
    for (fault, detail) in [(StoreFault::Full, "its disk is full"), (StoreFault::Garbage, "cannot be reached")] {
        store.fail(0, usize::MAX, fault);
        let body = readiness(&running, "degraded").await;
        assert_eq!(body["checks"][2]["detail"], detail, "{fault:?}");
        store.heal();
        readiness(&running, "ready").await;
    }
}

#[tokio::test]
async fn artifacts_that_cannot_be_written_are_told_of_until_they_can_be() {
    let objects = FaultyObjects::new(Arc::new(InMemory::new()));
    for (fault, detail) in [(ObjectFault::Full, "their disk is full"), (ObjectFault::Refused, "cannot be written")] {
        objects.fail_always(ObjectCall::Put, fault);
        let settings = epitome_runtime::engine::EngineSettings::default();
        let parts = EngineParts { objects: Arc::new(objects.clone()), ..EngineParts::in_memory(settings) };
        let running = Running::of(Settings::default(), Engine::new(parts).await.unwrap()).await;
        let body = readiness(&running, "degraded").await;
        assert_eq!(body["checks"][3]["name"], "artifacts");
        assert_eq!(body["checks"][3]["detail"], detail, "{fault:?}");
        objects.mend();
        readiness(&running, "ready").await;
    }
}

#[tokio::test]
async fn a_request_has_an_id_and_a_proxied_answer_keeps_the_providers() {
    let running = Running::new(Settings::default()).await;
    let own = running.get("/livez", &[("x-request-id", "mine-1")]).await;
    assert_eq!(own.headers()["x-request-id"], "mine-1");
    let proxied = running.get("/echo", &[("x-request-id", "mine-2")]).await;
    assert!(!proxied.headers().contains_key("x-request-id"));
    assert_eq!(proxied.headers()["x-epitome-request"], "mine-2");
    assert_eq!(proxied.text().await.unwrap(), "mine-2", "the proxy knows it");
    let odd = running.get("/echo", &[("x-request-id", "a b{}")]).await;
    assert_eq!(odd.headers()["x-epitome-request"].len(), 32);
}

#[tokio::test]
async fn headers_keep_their_spelling() {
    let running = Running::new(Settings::default()).await;
    let said =
        said_to(&running, "GET /echo HTTP/1.1\r\nHost: localhost\r\nX-WeiRD-Name: 1\r\nConnection: close\r\n\r\n")
            .await;
    assert!(said.contains("\r\nX-WeiRD-Name: 1\r\n"), "{said}");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_status() {
    let running = Running::new(Settings::default()).await;
    for path in ["/echo", "/echo", "/livez", "/api/threads", "/api/threads/none"] {
        let _ = running.get(path, &[]).await.bytes().await.unwrap();
    }
    let text = running.get("/metrics", &[]).await.text().await.unwrap();
    for line in [
        "epitome_gateway_requests_total{route=\"proxy\",status=\"200\"} 2",
        "epitome_gateway_requests_total{route=\"health\",status=\"200\"} 1",
        "epitome_gateway_requests_total{route=\"api\",status=\"404\"} 1",
        "epitome_gateway_requests_in_flight 1",
        "epitome_gateway_answer_bytes_total{route=\"proxy\"} 64",
        "epitome_compactions_failed_total 0",
        "epitome_gateway_failed_open_total{reason=\"store\"} 0",
        "epitome_gateway_failed_open_total{reason=\"hidden\"} 0",
        "epitome_gateway_refused_total{reason=\"busy\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
