//! The server over HTTP, on a real socket.

use axum::Router;
use epitome_gateway::mcp::{Hosts, http_service};
use epitome_runtime::artifact::Access;
use http::request::Parts;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::client::said;
use crate::world::{World, owner};

/// A gateway of one service, on a port of its own.
struct Site {
    url: String,
    client: Client,
}

/// Each key opens the tenant of its name.
fn who(parts: &Parts) -> Option<Access> {
    let key = parts.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
    ["acme", "rival"].contains(&key).then(|| owner(key))
}

impl Site {
    async fn of(world: &World, hosts: Hosts) -> Site {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let app = Router::new().nest_service("/mcp", http_service(world.engine.clone(), world.caps, hosts, who));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Site { url, client: Client::builder().no_proxy().build().unwrap() }
    }

    fn post(&self, path: &str, method: &str, params: Value) -> RequestBuilder {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.client.post(format!("{}{path}", self.url));
        request.header("accept", "application/json, text/event-stream").json(&body)
    }

    fn ask(&self, method: &str, params: Value) -> RequestBuilder {
        self.post("", method, params).bearer_auth("acme")
    }
}

/// The answer, which is one JSON object.
async fn answer(request: RequestBuilder) -> Value {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(!response.headers().contains_key("mcp-session-id"), "nothing is kept");
    response.json().await.unwrap()
}

fn recall(words: &str) -> Value {
    json!({"name": "recall", "arguments": {"query": words}})
}

#[tokio::test]
async fn requests_of_the_old_and_of_the_new_protocol_are_answered_without_a_session() {
    let world = World::new().await;
    world.moved_out("acme", "t", 2).await;
    let site = Site::of(&world, Hosts::Loopback).await;
    for version in ["2025-06-18", "2025-11-25"] {
        let hello =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let hello = answer(site.ask("initialize", hello)).await;
        assert_eq!(hello["result"]["protocolVersion"], version, "{hello}");
        let request = site.ask("tools/call", recall("zephyr1")).header("mcp-protocol-version", version);
        let (text, is_error) = said(&answer(request).await);
        assert!(!is_error && text.contains("zephyr1 turns"), "{text}");
    }
    let mut call = recall("zephyr1");
    call["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = site.ask("tools/call", call).header("mcp-protocol-version", "2026-07-28");
    let request = request.header("mcp-method", "tools/call").header("mcp-name", "recall");
    let found = answer(request).await;
    assert_eq!(found["result"]["resultType"], "complete", "{found}");
    assert!(said(&found).0.contains("zephyr1 turns"));
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let request = site.client.post(&site.url).bearer_auth("acme").json(&done);
    let request = request.header("accept", "application/json, text/event-stream");
    assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn nobody_gets_in_without_a_key_and_nobody_sees_anothers() {
    let world = World::new().await;
    world.moved_out("acme", "t", 2).await;
    let site = Site::of(&world, Hosts::Loopback).await;
    for request in [site.post("", "tools/list", json!({})), site.post("", "tools/list", json!({})).bearer_auth("thief")]
    {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let said: Value = response.json().await.unwrap();
        assert!(said["error"]["message"].as_str().unwrap().contains("needs a key"), "{said}");
    }
    let mut call = recall("zephyr1");
    call["arguments"]["thread"] = json!("t");
    let theirs = answer(site.post("", "tools/call", call.clone()).bearer_auth("rival")).await;
    call["arguments"]["thread"] = json!("u");
    let nowhere = answer(site.post("", "tools/call", call).bearer_auth("rival")).await;
    let (theirs, nowhere) = (said(&theirs), said(&nowhere));
    assert_eq!((theirs.0.replace("`t`", ""), theirs.1), (nowhere.0.replace("`u`", ""), true));
    let listed = answer(site.post("", "resources/list", json!({})).bearer_auth("rival")).await;
    assert_eq!(listed["result"]["resources"], json!([]));
}

#[tokio::test]
async fn the_address_or_a_header_fixes_the_thread() {
    let world = World::new().await;
    world.moved_out("acme", "a:1", 2).await;
    world.moved_out("acme", "b", 2).await;
    let site = Site::of(&world, Hosts::Loopback).await;
    let by_query =
        |name: &str| site.post(&format!("?x=1&thread={name}"), "tools/call", recall("zephyr0")).bearer_auth("acme");
    let by_header = |name: &str| site.ask("tools/call", recall("zephyr0")).header("x-epitome-thread", name.to_owned());
    for request in [by_query("a%3A1"), by_header("a:1")] {
        let (text, is_error) = said(&answer(request).await);
        assert!(!is_error && !text.contains("used last") && text.contains("zephyr0"), "{text}");
    }
    let (text, is_error) = said(&answer(by_header("nowhere")).await);
    assert!(is_error && text.contains("There is no thread `nowhere`"), "{text}");
    let refused = by_query("not%20a%20name").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(refused.text().await.unwrap().contains("`not a name` is not the name of a thread."));
}

#[tokio::test]
async fn a_page_of_another_site_is_turned_away() {
    let world = World::new().await;
    let site = Site::of(&world, Hosts::Loopback).await;
    let anywhere = Site::of(&world, Hosts::Any).await;
    let named = Site::of(&world, Hosts::Named(vec!["gateway.example".to_owned()])).await;
    let with =
        |site: &Site, name: &'static str, value: &'static str| site.ask("tools/list", json!({})).header(name, value);
    for (request, status) in [
        (with(&site, "host", "127.0.0.1:1"), StatusCode::OK),
        (with(&site, "host", "localhost"), StatusCode::OK),
        (with(&site, "host", "evil.example"), StatusCode::FORBIDDEN),
        (with(&site, "origin", "http://localhost:6274"), StatusCode::OK),
        (with(&site, "origin", "http://[::1]:80"), StatusCode::OK),
        (with(&site, "origin", "https://evil.example"), StatusCode::FORBIDDEN),
        (with(&site, "origin", "http://localhost.evil.example"), StatusCode::FORBIDDEN),
        (with(&site, "origin", "null"), StatusCode::FORBIDDEN),
        (with(&anywhere, "host", "gateway.example"), StatusCode::OK),
        (with(&anywhere, "origin", "https://evil.example"), StatusCode::FORBIDDEN),
        (with(&named, "host", "gateway.example:8080"), StatusCode::OK),
        (with(&named, "host", "evil.example"), StatusCode::FORBIDDEN),
    ] {
        let asked = format!("{request:?}");
        assert_eq!(request.send().await.unwrap().status(), status, "{asked}");
    }
}

#[tokio::test]
async fn what_is_no_request_gets_a_status_that_says_so() {
    let world = World::new().await;
    let site = Site::of(&world, Hosts::Loopback).await;
    let get =
        site.client.get(&site.url).bearer_auth("acme").header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(get.status(), StatusCode::METHOD_NOT_ALLOWED);
    let accept = "application/json, text/event-stream";
    let post = |body: String| site.client.post(&site.url).bearer_auth("acme").header("accept", accept).body(body);
    let typed = |body: String| post(body).header("content-type", "application/json");
    let status = async |request: RequestBuilder| request.send().await.unwrap().status();
    assert!(status(typed("{".to_owned())).await.is_client_error());
    assert_eq!(status(post("{}".to_owned())).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(status(typed(" ".repeat(5 << 20))).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(status(site.post("/", "tools/list", json!({})).bearer_auth("acme")).await, StatusCode::OK);
}
