//! Under budget: what came goes on as it came, in both directions.

use std::io::Write as _;

use epitome::wire::Dialect;
use epitome_mock::{MockServer, MockSettings, ProviderFault};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::talk::{DIALECTS, Talk, path};
use crate::wire::{Line, Then};
use crate::world::{Got, Plan, SOON, post, send};

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Bodies that a parser and a writer would not give back as they are.
const ODD_CHAT: [&str; 8] = [
    r#"{"model":"mock","messages":[{"role":"user","content":"hi"}]}"#,
    "  {\r\n\t\"messages\" : [ { \"content\" : \"hi\" , \"role\" : \"user\" } ] , \"model\" : \"mock\" }\n\n",
    r#"{"model":"mock","messages":[{"role":"user","content":"\u0068\u00ed \ud83d\ude00 \/ 😀"}]}"#,
    r#"{"model":"mock","messages":[{"role":"user","content":"hi"}],"seed":123456789012345678901234567890,"temperature":1.0000000000000000001,"top_p":1E0}"#,
    r#"{"z_unknown":{"b":[1,2,{"a":null}],"a":-0.0},"model":"mock","a_unknown":true,"messages":[{"role":"user","content":"hi","x":1}]}"#,
    r#"{"model":"mock","model":"mock","messages":[{"role":"user","content":"hi"}]}"#,
    r#"{"model":"mock","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}"#,
    r#"{"model":"mock","stream":true,"messages":[{"role":"system","content":""},{"role":"user","content":"hi"}],"tools":[]}"#,
];

#[tokio::test]
async fn a_body_that_fits_goes_on_byte_for_byte() {
    let world = Plan::new().start().await;
    let mut all: Vec<(Dialect, String)> = ODD_CHAT.iter().map(|body| (Dialect::Chat, (*body).to_owned())).collect();
    all.push((Dialect::Responses, r#"{ "input":"h\u0069" ,"model":"mock"}"#.to_owned()));
    all.push((Dialect::Responses, r#"{"model":"mock","input":[],"unknown":1e400}"#.to_owned()));
    for dialect in DIALECTS {
        for stream in [false, true] {
            all.push((dialect, Talk::new(dialect).streaming(stream).grown(2_000).body()));
        }
    }
    for (dialect, body) in all {
        world.post(path(dialect), &[], body.clone()).await;
        assert_eq!(String::from_utf8_lossy(&world.newest().body), body);
    }
}

#[tokio::test]
async fn a_packed_body_goes_on_packed_and_its_thread_is_known() {
    let world = Plan::new().start().await;
    let text = Talk::new(Dialect::Chat).grown(1_000).body();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    let mut threads = Vec::new();
    for (name, body) in [("gzip", &gzip), ("zstd", &zstd)] {
        let got = world.post("/v1/chat/completions", &[("content-encoding", name)], body.clone()).await.fine();
        let sent = world.newest();
        assert_eq!(sent.body, body, "{name}");
        assert_eq!(sent.headers["content-encoding"], name);
        threads.push(got.placed().0);
    }
    assert_eq!(threads[0], threads[1], "the same history, however it is packed");
}

/// What a client sees of an answer, but for what belongs to a moment, to a connection or to the gateway.
fn seen(got: &Got) -> (u16, Vec<(String, String)>, String) {
    let passing = ["date", "connection", "keep-alive", "transfer-encoding"];
    let mut headers: Vec<(String, String)> = got
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .filter(|(name, _)| !passing.contains(&name.as_str()) && !name.starts_with("x-epitome-"))
        .collect();
    headers.sort();
    (got.status, headers, got.text())
}

/// Method, path, headers besides, and body.
type Ask<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, String);

#[tokio::test]
async fn an_answer_comes_back_as_the_provider_gave_it() {
    let world = Plan::new().start().await;
    let twin = MockServer::start(MockSettings::default()).unwrap();
    let mut asked: Vec<Ask<'_>> = vec![
        ("GET", "/v1/models", vec![], String::new()),
        ("GET", "/v1/models?limit=5&after=a%2Fb", vec![("anthropic-version", "2023-06-01")], String::new()),
        ("GET", "/v1/nothing/here", vec![], String::new()),
        ("DELETE", "/v1/responses/resp_1", vec![], String::new()),
        ("POST", "/v1/embeddings", vec![], r#"{"input":"a"}"#.to_owned()),
        ("POST", "/v1/messages", vec![], r#"{"model":"mock","messages":[]}"#.to_owned()),
        ("POST", "/v1/chat/completions", vec![], "{not json".to_owned()),
        (
            "POST",
            "/v1beta/models/gemini-2:generateContent",
            vec![],
            r#"{"contents":[{"parts":[{"text":"a"}]}]}"#.to_owned(),
        ),
    ];
    for dialect in DIALECTS {
        for stream in [false, true] {
            let talk = Talk::new(dialect).streaming(stream).grown(1_500);
            asked.push(("POST", talk.path(), vec![], talk.body()));
            asked.push(("POST", talk.path(), vec![("x-mock-encoding", "gzip")], talk.body()));
            asked.push(("POST", talk.path(), vec![("x-mock-fault", "500")], talk.body()));
            asked.push(("POST", talk.path(), vec![("x-mock-fault", "529")], talk.body()));
        }
    }
    asked.push(("POST", "/v1/messages/count_tokens", vec![], Talk::new(Dialect::Anthropic).grown(800).body()));
    asked.push(("POST", "/v1/responses/input_tokens", vec![], Talk::new(Dialect::Responses).grown(800).body()));
    for (method, path, headers, body) in asked {
        let usual = [("x-api-key", "sk-test"), ("content-type", "application/json")];
        let version = ("anthropic-version", "2023-06-01");
        let more = if path.starts_with("/v1/messages") { vec![version] } else { vec![] };
        let headers: Vec<(&str, &str)> = usual.into_iter().chain(more).chain(headers).collect();
        let through = world.gate.send(method, path, &headers, body.clone().into_bytes()).await;
        let direct = send(method, &format!("{}{path}", twin.url()), &headers, body.into_bytes()).await;
        assert_eq!(seen(&through), seen(&direct), "{method} {path} {headers:?}");
        assert_eq!(world.newest().path, path);
    }
}

#[tokio::test]
async fn headers_keep_their_spelling_their_order_and_their_doubles() {
    let answer = "HTTP/1.1 200 OK\r\nX-Own-Thing: 1\r\nContent-Type: application/json\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nx-MiXed: 3\r\nContent-Length: 2\r\n\r\n{}";
    let line = Line::saying(answer, Then::Close).await;
    let gate = Plan::new().gate(&line.url()).await;
    let body = r#"{"model":"m","messages":[]}"#;
    for path in ["/v1/chat/completions?a=1&b=%20x", "/v1/other?x"] {
        let mut stream = gate.connect().await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: gateway\r\nX-Stainless-Lang: js\r\nAuthorization: Bearer sk-1\r\nx-lower: 1\r\nX-UPPER: 2\r\nX-Twice: a\r\nX-Twice: b\r\nUser-Agent: Odd/1.0 (äé)\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-Epitome-Pin: mine\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.unwrap();
        let said = String::from_utf8_lossy(&said).into_owned();
        let heard = line.heard().pop().unwrap();
        assert!(heard.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{heard}");
        assert!(heard.ends_with(body), "{heard}");
        for kept in [
            "X-Stainless-Lang: js",
            "Authorization: Bearer sk-1",
            "x-lower: 1",
            "X-UPPER: 2",
            "X-Twice: a\r\nX-Twice: b",
            "User-Agent: Odd/1.0 (äé)",
            &format!("Content-Length: {}", body.len()),
        ] {
            assert!(heard.contains(&format!("\r\n{kept}\r\n")), "{kept} is not in\n{heard}");
        }
        let place = |name: &str| heard.find(name).unwrap_or_else(|| panic!("{name}: {heard}"));
        assert!(place("X-Stainless-Lang") < place("Authorization") && place("x-lower") < place("X-UPPER"), "{heard}");
        for gone in ["gateway\r\n", "X-Hop", "x-hop", "X-Epitome", "x-epitome"] {
            assert!(!heard.contains(gone), "{gone} is in\n{heard}");
        }
        for kept in
            ["X-Own-Thing: 1", "Content-Type: application/json", "Set-Cookie: a=1", "Set-Cookie: b=2", "x-MiXed: 3"]
        {
            assert!(said.contains(&format!("\r\n{kept}\r\n")), "{kept} is not in\n{said}");
        }
        assert!(said.ends_with("{}"), "{said}");
    }
}

#[tokio::test]
async fn a_stream_arrives_piece_by_piece_and_not_at_its_end() {
    let world = Plan::new().start().await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).streaming(true);
        let mut response = world.gate.begin(talk.path(), &[("x-mock-fault", "slow=60")], talk.body()).await;
        let mut pieces = 0;
        while let Some(chunk) = response.chunk().await.unwrap() {
            assert!(!chunk.is_empty());
            pieces += 1;
        }
        assert!(pieces >= 4, "{dialect:?} came in {pieces} pieces");
    }
    // A provider that stops after its first word: whoever waited for the end would wait for ever.
    let word = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n";
    let stream = format!("{STREAM_HEAD}{:x}\r\n{word}\r\n", word.len());
    let line = Line::saying(stream, Then::Wait).await;
    let gate = Plan::new().gate(&line.url()).await;
    let talk = Talk::new(Dialect::Chat).streaming(true);
    let mut response = gate.begin(talk.path(), &[], talk.body()).await;
    assert_eq!(response.chunk().await.unwrap().unwrap(), word);
}

#[tokio::test]
async fn what_wants_to_be_left_alone_is() {
    let world = Plan::new().window(100_000).budget(2_000).start().await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).grown(6_000).header("x-epitome-bypass", "on");
        let got = talk.send(&world.gate).await.fine();
        let sent = world.newest();
        assert_eq!(String::from_utf8_lossy(&sent.body), talk.body());
        assert!(sent.headers.keys().all(|name| !name.as_str().starts_with("x-epitome")), "{:?}", sent.headers);
        assert_eq!(got.told("thread"), None, "nothing is kept of it");
    }
}

#[tokio::test]
async fn the_clients_key_goes_on_and_a_gateways_own_key_does_not() {
    use epitome_gateway::settings::ApiKey;
    use epitome_runtime::model::Secret;
    let with_keys = |keys_required| {
        Plan::new().settings(move |settings| {
            settings.keys = vec![ApiKey { tenant: "acme".parse().unwrap(), secret: Secret::new("ek-acme") }];
            settings.serve.keys_required = keys_required;
        })
    };
    let world = Plan::new().start().await;
    let body = ODD_CHAT[0];
    for name in ["authorization", "x-api-key", "api-key"] {
        let usual = [("content-type", "application/json"), (name, "Bearer sk-mine")];
        world.gate.send("POST", "/v1/chat/completions", &usual, body.into()).await;
        assert_eq!(world.newest().headers[name], "Bearer sk-mine");
    }
    let world = with_keys(true).start().await;
    let refused = world.gate.post("/v1/chat/completions", &[], body).await;
    assert_eq!((refused.status, refused.told("refused")), (401, Some("unknown_caller")));
    assert!(world.mock.requests().is_empty());
    world.gate.post("/v1/chat/completions", &[("x-epitome-key", "ek-acme")], body).await.fine();
    assert_eq!(world.newest().headers["x-api-key"], "sk-test");
    let as_key = world.gate.post("/v1/chat/completions", &[("x-api-key", "ek-acme")], body).await;
    assert_eq!(as_key.status, 401, "the provider gets no key, and says so");
    assert!(!world.newest().headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn upstreams_are_chosen_by_path_and_by_model() {
    use epitome_gateway::settings::{Provider, Serve, Settings, Upstream, UpstreamRoute};
    let [by_path, by_model, other] = [0, 1, 2].map(|_| MockServer::start(MockSettings::default()).unwrap());
    let upstream = |route, url: String| Upstream { route, url: url.parse().unwrap(), key: None };
    let settings = Settings {
        serve: Serve { listen: "127.0.0.1:0".parse().unwrap(), ..Serve::default() },
        upstreams: vec![
            upstream(UpstreamRoute::Path("/groq".into()), format!("{}/v1", by_path.url())),
            Upstream {
                key: Some(epitome_runtime::model::Secret::new("sk-of-the-gateway")),
                ..upstream(UpstreamRoute::Model("claude-*".into()), by_model.url())
            },
            upstream(UpstreamRoute::Provider(Provider::OpenAi), other.url()),
            upstream(UpstreamRoute::Provider(Provider::Anthropic), other.url()),
        ],
        ..Settings::default()
    };
    let parts = epitome_runtime::engine::EngineParts::in_memory(epitome_runtime::engine::EngineSettings::default());
    let gate = crate::world::Gate::of(settings, epitome_runtime::engine::Engine::new(parts).await.unwrap()).await;
    let body = |model: &str| Talk::new(Dialect::Chat).model(model).body();
    for (path, model, mock, arrives) in [
        ("/groq/v1/chat/completions", "mock", &by_path, "/v1/chat/completions"),
        ("/groq/chat/completions?x=1", "claude-x", &by_path, "/v1/chat/completions?x=1"),
        ("/v1/chat/completions", "claude-sonnet", &by_model, "/v1/chat/completions"),
        ("/v1/chat/completions", "mock", &other, "/v1/chat/completions"),
    ] {
        gate.post(path, &[], body(model)).await.fine();
        let all: Vec<_> = [&by_path, &by_model, &other].iter().flat_map(|mock| mock.requests()).collect();
        assert_eq!(all.len(), 1, "{path} {model}");
        assert_eq!(mock.requests()[0].path, arrives);
        let sent = &mock.requests()[0].headers;
        let keys: Vec<&str> = ["x-api-key", "authorization"]
            .iter()
            .filter_map(|name| sent.get(*name)?.to_str().ok())
            .map(|key| key.trim_start_matches("Bearer "))
            .collect();
        let expected = if std::ptr::eq(mock, &by_model) { "sk-of-the-gateway" } else { "sk-test" };
        assert_eq!(keys, [expected], "{path} {model}");
        [&by_path, &by_model, &other].iter().for_each(|mock| mock.reset());
    }
    // What is passed on unread names its model too, in its body or in its path.
    for (path, body, mock) in [
        ("/v1/embeddings", r#"{"input":"\"model\": x","model":"claude-embed"}"#, &by_model),
        ("/v1/embeddings", r#"{"input":"hi","model":"embed"}"#, &other),
        ("/v1/embeddings", r#"{"input":"hi"}"#, &other),
        ("/v1/models/claude-x", r#"{}"#, &by_model),
        ("/groq/v1/embeddings", r#"{"model":"claude-embed"}"#, &by_path),
    ] {
        gate.post(path, &[], body).await;
        assert_eq!(mock.requests().len(), 1, "{path} {body}");
        assert_eq!(mock.requests()[0].body, body.as_bytes());
        [&by_path, &by_model, &other].iter().for_each(|mock| mock.reset());
    }
    // Who wants to be left alone goes where everybody goes.
    gate.post("/v1/chat/completions", &[("x-epitome-bypass", "on")], body("claude-sonnet")).await.fine();
    assert_eq!(by_model.requests().len(), 1);
}

#[tokio::test]
async fn a_fault_that_is_no_overflow_is_the_clients_to_see() {
    let world = Plan::new().start().await;
    let twin = MockServer::start(MockSettings::default()).unwrap();
    for name in ["429", "500", "503", "529", "garbage", "overloaded-mid-stream"] {
        assert!(ProviderFault::named(name).is_some(), "{name}");
        for stream in [false, true] {
            let talk = Talk::new(Dialect::Anthropic).streaming(stream);
            let headers = [("x-mock-fault", name)];
            let through = talk.send_with(&world.gate, &headers).await;
            let direct = post(&format!("{}{}", twin.url(), talk.path()), &headers, talk.body().into()).await;
            assert_eq!(seen(&through), seen(&direct), "{name}");
        }
    }
    assert_eq!(world.mock.requests().len(), twin.requests().len(), "nothing was tried twice");
}

#[tokio::test]
async fn a_stream_that_cannot_be_an_overflow_begins_when_the_provider_begins() {
    // A provider that says no word behind its head: whoever waited for one would wait for ever.
    let line = Line::saying(STREAM_HEAD, Then::Wait).await;
    let gate = Plan::new().gate(&line.url()).await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).streaming(true);
        let begun = tokio::time::timeout(SOON, gate.begin(talk.path(), &[], talk.body())).await;
        assert_eq!(begun.unwrap_or_else(|_| panic!("{dialect:?}: the head is held back")).status(), 200);
    }
}

#[tokio::test]
async fn what_no_window_holds_goes_on_unread() {
    let world = Plan::new().mock(|mock| mock.lax = true).start().await;
    for dialect in DIALECTS {
        let mut talk = Talk::new(dialect);
        talk.says(&"a b c d ".repeat((9 << 20) / 8));
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(got.told("thread"), None, "{dialect:?}");
    }
}
