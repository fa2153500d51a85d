//! Locks: who may listen to whom, and with which key.

use std::net::SocketAddr;

use epitome_gateway::serve::{ListenError, Listening, Openness};
use epitome_gateway::settings::{ApiKey, Settings};
use epitome_runtime::model::Secret;

use crate::fixture::Running;

fn with_key() -> Settings {
    let key = ApiKey { tenant: "acme".parse().unwrap(), secret: Secret::new("ek-acme") };
    Settings { keys: vec![key], ..Settings::default() }
}

#[tokio::test]
async fn it_refuses_to_listen_to_everybody_without_keys() {
    let open = |mut settings: Settings| {
        settings.serve.listen = SocketAddr::from(([0, 0, 0, 0], 0));
        settings
    };
    let refused = Listening::on(&open(Settings::default()), Openness::Local).await.unwrap_err();
    assert!(matches!(refused, ListenError::Open(_)), "{refused}");
    assert!(refused.to_string().contains("`serve.keys`"), "{refused}");
    assert!(Listening::on(&open(with_key()), Openness::Local).await.is_ok());
    assert!(Listening::on(&open(Settings::default()), Openness::Anybody).await.is_ok());
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let running = Running::new(Settings::default()).await;
    let mut settings = Settings::default();
    settings.serve.listen = running.address;
    let error = Listening::on(&settings, Openness::Local).await.unwrap_err().to_string();
    assert!(error.contains(&running.address.to_string()), "{error}");
}

#[tokio::test]
async fn where_there_are_keys_only_probes_go_without_one() {
    let running = Running::new(with_key()).await;
    for open in ["/livez", "/readyz", "/health"] {
        assert_eq!(running.get(open, &[]).await.status(), 200, "{open}");
    }
    for locked in ["/metrics", "/api/threads", "/api/events", "/api/openapi.json", "/api/none", "/mcp"] {
        let (status, body) = running.json(locked, &[]).await;
        assert_eq!((status, &body["error"]["code"]), (401, &"unknown_caller".into()), "{locked}");
        let wrong = running.get(locked, &[("authorization", "Bearer ek-wrong")]).await;
        assert_eq!(wrong.status(), 401, "{locked}");
        assert_eq!(wrong.headers()["www-authenticate"], "Bearer");
    }
    for key in [("x-epitome-key", "ek-acme"), ("authorization", "Bearer ek-acme")] {
        assert_eq!(running.get("/api/threads", &[key]).await.status(), 200);
    }
    // A foreign page has no key, so whoever has one is asked nothing else.
    let keyed = [("x-epitome-key", "ek-acme"), ("host", "gateway.example")];
    assert_eq!(running.get("/api/threads", &keyed).await.status(), 200);
}

#[tokio::test]
async fn without_keys_a_page_of_another_site_reads_nothing() {
    let running = Running::new(Settings::default()).await;
    for foreign in [("host", "evil.test"), ("origin", "https://evil.test"), ("origin", "null")] {
        for own in ["/api/threads", "/metrics"] {
            let (status, body) = running.json(own, &[foreign]).await;
            assert_eq!((status, &body["error"]["code"]), (403, &"foreign".into()), "{foreign:?}");
        }
    }
    let here = [("origin", "http://localhost:3000")];
    assert_eq!(running.get("/api/threads", &here).await.status(), 200);
}
