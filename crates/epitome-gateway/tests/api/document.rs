//! The document: it is the one that the table makes, it is served, and every answer is as it says.

use epitome_gateway::api::{ENDPOINTS, openapi};
use serde_json::{Value, json};

use crate::schema::mistakes;
use crate::world::{ACME, World};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");

/// Checks a file against what it should be; `EPITOME_BLESS=1` writes it.
fn is_blessed(path: &str, expected: &str) {
    if std::env::var_os("EPITOME_BLESS").is_some() {
        std::fs::write(path, expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "{path} is not what the table of endpoints makes; EPITOME_BLESS=1 writes it");
}

#[test]
fn the_document_that_is_checked_in_is_the_one_that_the_table_makes() {
    is_blessed(DOCUMENT, &format!("{:#}\n", openapi()));
}

#[test]
fn the_page_lists_every_endpoint() {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let (begin, end) = ("<!-- endpoints -->\n", "<!-- end -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let row = |endpoint: &epitome_gateway::api::Endpoint| {
        let names: Vec<String> = endpoint.parameters.iter().map(|parameter| format!("`{}`", parameter.name)).collect();
        format!("| `{}` | {} | {} |\n", endpoint.path, names.join(", "), endpoint.about)
    };
    let rows: String = ENDPOINTS.iter().map(row).collect();
    is_blessed(PAGE, &format!("{before}{begin}| path | takes | answers |\n|---|---|---|\n{rows}{end}{after}"));
}

/// A path with real names in it, and a query with every parameter that has an example here.
fn asked(path: &str, world: &World) -> String {
    let needed = match path.rsplit('/').next() {
        Some("recall") => "?query=module_0",
        Some("read") => "?id=m1",
        _ => "",
    };
    path.replace("{thread}", "t-long").replace("{version}", "1").replace("{artifact}", &world.artifact) + needed
}

/// The body of endpoints that take POST alone.
fn body(path: &str) -> Option<Value> {
    path.ends_with("/handoff").then(|| json!({"goal": "Speed module_1 up"}))
}

/// Asks an endpoint with its method.
async fn send(world: &World, path: &str, url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let Some(body) = body(path) else { return world.running.get(url, headers).await };
    let request = crate::fixture::client().post(world.running.url(url)).header("content-type", "application/json");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(body.to_string()).send().await.unwrap()
}

/// An endpoint's own operation in the document.
fn operation<'d>(path: &str, item: &'d Value) -> &'d Value {
    &item[if body(path).is_some() { "post" } else { "get" }]
}

#[tokio::test]
async fn every_answer_is_as_the_document_says() {
    let world = World::new().await;
    let document = world.fine("/api/openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), ENDPOINTS.len());
    for (path, item) in paths {
        let response = send(&world, path, &asked(path, &world), &[ACME]).await;
        assert_eq!(response.status(), 200, "{path}");
        let said = response.headers()["content-type"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let content = operation(path, item)["responses"]["200"]["content"].as_object().unwrap();
        let (content_type, content) = content.iter().next().unwrap();
        assert_eq!(said, *content_type, "{path}");
        if said == "application/json" {
            let body: Value = response.json().await.unwrap();
            let wrong = mistakes(&document, &content["schema"], &body, "");
            assert!(wrong.is_empty(), "{path}: {wrong:#?}\n{body:#}");
        }
    }
}

/// What makes each error of the document.
const WRONG: [(&str, &str); 6] = [
    ("/api/threads?limit=0", "400"),
    ("/api/threads?limt=5", "400"),
    ("/api/threads/t-long/messages?from=0", "400"),
    ("/api/threads/none", "404"),
    ("/api/threads/t-long/plans/99", "404"),
    ("/api/ledger?since=yesterday", "400"),
];

#[tokio::test]
async fn every_error_is_as_the_document_says() {
    let world = World::new().await;
    let document = openapi();
    let schema = &document["components"]["responses"]["Error"]["content"]["application/json"]["schema"];
    for (path, status) in WRONG {
        let (found, body) = world.ask(path).await;
        assert_eq!(found.to_string(), status, "{path}: {body}");
        assert_eq!(mistakes(&document, schema, &body, ""), Vec::<String>::new(), "{path}");
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        let responses = operation(path, item)["responses"].as_object().unwrap();
        let without_key = send(&world, path, &asked(path, &world), &[]).await.status().as_u16().to_string();
        assert!(responses.contains_key(&without_key), "{path} without a key: {without_key}");
        let (is_open, is_metrics) = (operation(path, item)["security"].is_array(), path == "/metrics");
        assert_eq!(without_key == "401", !is_open, "{path}");
        if !is_open && !is_metrics {
            let asked = asked(path, &world);
            let sign = if asked.contains('?') { '&' } else { '?' };
            let answer = send(&world, path, &format!("{asked}{sign}no_such_parameter=1"), &[ACME]).await;
            assert_eq!(answer.status(), 400, "{path}");
        }
        if path.contains('{') {
            let named = path.replace("{thread}", "none").replace("{version}", "1").replace("{artifact}", "none");
            let answer = send(&world, path, &named, &[ACME]).await;
            let status = answer.status();
            let body: Value = answer.json().await.unwrap();
            assert_eq!((status.as_u16(), &body["error"]["code"]), (404, &"not_found".into()), "{named}: {body}");
        }
    }
}

#[tokio::test]
async fn what_is_no_endpoint_or_another_method_is_told_so() {
    let world = World::new().await;
    let (status, body) = world.ask("/api/nothing").await;
    assert_eq!((status, &body["error"]["code"]), (404, &"no_route".into()));
    let posted = crate::fixture::client().post(world.running.url("/api/threads")).header(ACME.0, ACME.1);
    let posted = posted.send().await.unwrap();
    assert_eq!(posted.status(), 405);
    let body: Value = posted.json().await.unwrap();
    assert_eq!(body["error"]["code"], "method", "{body}");
}

#[tokio::test]
async fn a_change_of_the_notes_is_answered_as_the_document_says() {
    let world = World::new().await;
    let document = openapi();
    let item = &document["paths"]["/api/threads/{thread}/notes"]["post"];
    let body = &item["requestBody"]["content"]["application/json"]["schema"];
    let answer = &item["responses"]["200"]["content"]["application/json"]["schema"];
    let error = &document["components"]["responses"]["Error"]["content"]["application/json"]["schema"];
    let post = async |path: &str, body: &Value| {
        let request = crate::fixture::client().post(world.running.url(path)).header(ACME.0, ACME.1);
        let response = request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let path = "/api/threads/t-short-fork/notes";
    for change in [
        json!({"action": "hide", "message": "m1", "text": "[hidden]"}),
        json!({"action": "show", "message": "m1"}),
        json!({"action": "pin", "text": "Be brief."}),
        json!({"action": "unpin", "text": "Be brief."}),
        json!({"action": "remember", "text": "It rained."}),
        json!({"action": "end_task", "completed": false}),
    ] {
        assert_eq!(mistakes(&document, body, &change, ""), Vec::<String>::new(), "{change}");
        let (status, notes) = post(path, &change).await;
        assert_eq!(status, 200, "{change}: {notes}");
        assert_eq!(mistakes(&document, answer, &notes, ""), Vec::<String>::new(), "{notes:#}");
        assert_eq!(notes, world.fine(path).await, "{change}");
    }
    for (change, status, code) in [
        (json!({"action": "hide", "message": "m99", "text": "x"}), 404, "not_found"),
        (json!({"action": "show", "message": "m1"}), 409, "note"),
        (json!({"action": "erase"}), 400, "body"),
        (json!([]), 400, "body"),
    ] {
        let (answered, said) = post(path, &change).await;
        assert_eq!((answered, &said["error"]["code"]), (status, &code.into()), "{change}: {said}");
        assert_eq!(mistakes(&document, error, &said, ""), Vec::<String>::new());
    }
    let elsewhere = post("/api/threads/b-own/notes", &json!({"action": "pin", "text": "x"})).await;
    assert_eq!(elsewhere.0, 404, "another tenant's: {}", elsewhere.1);
}

#[tokio::test]
async fn a_handoff_begins_with_its_goal_and_leaves_the_thread_as_it_is() {
    let world = World::new().await;
    let path = "/api/threads/t-long/handoff";
    let post = async |path: &str, body: &Value| {
        let request = crate::fixture::client().post(world.running.url(path)).header(ACME.0, ACME.1);
        let response = request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let before = (world.fine("/api/threads/t-long").await, world.fine("/api/threads/t-long/prompt").await);
    let (status, handed) = post(path, &json!({"goal": "Speed module_1.rs up", "budget": 2000})).await;
    assert_eq!(status, 200, "{handed}");
    let text = handed["text"].as_str().unwrap();
    assert!(text.contains("## Goal\nSpeed module_1.rs up\n") && text.contains("t-long"), "{text}");
    // It left the prompt long ago, and is read from the log.
    assert!(text.contains("m5 (binds): Request 1: look at module_1.rs."), "{text}");
    assert!(text.contains("left out here: m1, m9,"), "{text}");
    assert!(text.contains("Never delete production data.") && !text.contains("Request 2:"), "{text}");
    assert_eq!(handed["messages"], json!([{"role": "user", "content": text}]));
    assert!(handed["tokens"].as_u64().unwrap() <= 2000 && handed["model"].is_null(), "{handed}");
    let after = (world.fine("/api/threads/t-long").await, world.fine("/api/threads/t-long/prompt").await);
    assert_eq!(before, after);
    for (path, body, status, code) in [
        (path, json!({"goal": " "}), 409, "handoff"),
        (path, json!({"goal": "x", "budget": 3}), 409, "handoff"),
        (path, json!({"aim": "x"}), 400, "body"),
        ("/api/threads/b-own/handoff", json!({"goal": "x"}), 404, "not_found"),
    ] {
        let (answered, said) = post(path, &body).await;
        assert_eq!((answered, &said["error"]["code"]), (status, &code.into()), "{body}: {said}");
    }
}
