//! Keys of the gateway's own: wherever a client puts one, it names the tenant and stays here.

use base64::Engine as _;
use epitome_gateway::settings::ApiKey;
use epitome_runtime::model::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::wire::{Line, Then};
use crate::world::{Gate, Plan, SOON};

const ACME: &str = "ek-acme-5ab1e77e0d";
const BOLT: &str = "ek-bolt-0ff5e7";
const ANSWER: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

/// What a request is for, and how it is written.
const ENDPOINTS: [(&str, &str, &str, &str); 6] = [
    ("an answer", "POST /v1/chat/completions", "", CHAT),
    ("a count", "POST /v1/messages/count_tokens", "anthropic-version: 2023-06-01\r\n", CHAT),
    ("something passed through", "GET /v1/models", "", ""),
    ("something unread", "POST /v1/chat/completions", "", "{no json"),
    ("another provider's", "POST /v1beta/models/gemini-pro:generateContent", "", "{}"),
    (
        "another protocol",
        "GET /v1/realtime",
        "Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n",
        "",
    ),
];

const HEADERS: [&str; 9] = [
    "Authorization",
    "X-Api-Key",
    "api-key",
    "X-Goog-Api-Key",
    "X-Epitome-Key",
    "Proxy-Authorization",
    "Cookie",
    "Sec-WebSocket-Protocol",
    "X-Custom-Thing",
];

/// The ways to write a key in a header.
fn spellings(key: &str) -> Vec<String> {
    let basic = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    vec![
        key.to_owned(),
        format!("Bearer {key}"),
        format!("bEARER   {key}"),
        format!("Bearer\t{key}"),
        format!("Bearer{key}"),
        format!("Token {key}"),
        format!("token=\"{key}\""),
        format!("Basic {}", basic(key.to_owned())),
        format!("Basic {}", basic(format!("user:{key}"))),
        format!("Basic {}", basic(format!("{key}:"))),
        format!("kept-one, Bearer {key}"),
        format!("Bearer {key} , kept-one"),
    ]
}

/// The ways to write a key in a query.
fn queries(key: &str) -> Vec<String> {
    let percent: String = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let names = ["key", "api_key", "api-key", "access_token", "Token"];
    let mut all: Vec<String> = names.iter().map(|name| format!("?{name}={key}")).collect();
    all.extend([
        format!("?kept=1&key={percent}"),
        format!("?key={percent}&kept=1"),
        format!("?a={key}&kept=1&b={key}"),
    ]);
    all
}

async fn gate(line: &Line, keys_required: bool) -> Gate {
    let key = |(tenant, secret): (&str, &str)| ApiKey { tenant: tenant.parse().unwrap(), secret: Secret::new(secret) };
    let keys = [("acme", ACME), ("bolt", BOLT)].map(key);
    let settings = move |settings: &mut epitome_gateway::settings::Settings| {
        settings.keys = keys.into();
        settings.serve.keys_required = keys_required;
    };
    Plan::new().settings(settings).gate(&line.url()).await
}

/// Sends a request as it is written, and what came back.
async fn asked(gate: &Gate, request: &str) -> String {
    let mut stream = gate.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut said)).await;
    read.unwrap_or_else(|_| panic!("no end of the answer to\n{request}")).unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

fn written((_, line, more, body): (&str, &str, &str, &str), query: &str, headers: &str) -> String {
    let close = if more.contains("Connection") { "" } else { "Connection: close\r\n" };
    format!(
        "{line}{query} HTTP/1.1\r\nHost: gateway\r\n{more}{close}{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// How many threads a tenant has.
async fn threads(gate: &Gate, key: &str) -> usize {
    gate.flush().await;
    let got = gate.send("GET", "/api/threads?limit=1000", &[("x-epitome-key", key)], Vec::new()).await;
    got.json()["threads"].as_array().unwrap_or_else(|| panic!("{}", got.text())).len()
}

/// Nothing of a key came to the provider, and everything else did.
#[track_caller]
fn assert_keyless(heard: &str, request: &str, body: &str) {
    for key in [ACME, BOLT] {
        let percent: String = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert!(!heard.contains(key) && !heard.contains(&percent), "{request}\n=>\n{heard}");
    }
    let words = heard.split(|char: char| !char.is_ascii_alphanumeric() && !"+/=".contains(char));
    for decoded in words.filter_map(|word| base64::engine::general_purpose::STANDARD.decode(word).ok()) {
        let decoded = String::from_utf8_lossy(&decoded).into_owned();
        assert!(!decoded.contains(ACME) && !decoded.contains(BOLT), "{request}\n=>\n{heard}");
    }
    for kept in ["kept-one", "kept=1"] {
        assert_eq!(heard.contains(kept), request.contains(kept), "{kept}: {request}\n=>\n{heard}");
    }
    assert!(heard.ends_with(&format!("\r\n\r\n{body}")), "{request}\n=>\n{heard}");
}

#[tokio::test]
async fn wherever_a_key_stands_it_names_its_tenant_and_stays_here() {
    let line = Line::saying(ANSWER, Then::Close).await;
    let gate = gate(&line, true).await;
    for endpoint in ENDPOINTS {
        let mut requests = Vec::new();
        for (name, spelling) in
            HEADERS.iter().flat_map(|name| spellings(ACME).into_iter().map(move |text| (name, text)))
        {
            // What is the gateway's own does not go on at all.
            if spelling.contains("kept-one") && ["X-Epitome-Key", "Proxy-Authorization"].contains(name) {
                continue;
            }
            let spelling =
                if *name == "Cookie" { format!("kept=1; s={}; t=2", spelling.replace(',', ";")) } else { spelling };
            requests.push(("", format!("{name}: {spelling}\r\n")));
            requests.push(("", format!("{name}: kept=1\r\n{name}: {spelling}\r\n")));
            requests.push(("", format!("{name}: {spelling}\r\nAuthorization: Bearer kept-one\r\n")));
        }
        requests.retain(|(_, headers)| {
            !headers.contains("X-Epitome-Key: kept=1") && !headers.contains("Proxy-Authorization: kept=1")
        });
        let queries = queries(ACME);
        requests.extend(queries.iter().map(|query| (query.as_str(), String::new())));
        for (query, headers) in requests {
            let request = written(endpoint, query, &headers);
            let said = asked(&gate, &request).await;
            assert!(said.starts_with("HTTP/1.1 200 "), "{}: {request}\n=>\n{said}", endpoint.0);
            assert_keyless(line.heard().last().unwrap(), &request, endpoint.3);
        }
    }
    assert!(threads(&gate, ACME).await > 0);
    assert_eq!(threads(&gate, BOLT).await, 0, "what is acme's is acme's alone");
}

#[tokio::test]
async fn a_key_beside_a_providers_own_names_its_tenant_where_none_is_needed() {
    let line = Line::saying(ANSWER, Then::Close).await;
    let gate = gate(&line, false).await;
    let beside = format!("Authorization: Bearer kept-one\r\nX-Api-Key: {BOLT}\r\n");
    let request = written(ENDPOINTS[0], "", &beside);
    assert!(asked(&gate, &request).await.starts_with("HTTP/1.1 200 "));
    assert_keyless(line.heard().last().unwrap(), &request, CHAT);
    assert_eq!((threads(&gate, BOLT).await, threads(&gate, ACME).await), (1, 0));
}

#[tokio::test]
async fn keys_of_two_tenants_are_refused_with_a_sentence_and_the_provider_hears_nothing() {
    let line = Line::saying(ANSWER, Then::Close).await;
    let gate = gate(&line, false).await;
    for endpoint in ENDPOINTS {
        for (query, headers) in [
            (String::new(), format!("X-Epitome-Key: {ACME}\r\nX-Api-Key: {BOLT}\r\n")),
            (String::new(), format!("Authorization: Bearer {ACME}\r\nAuthorization: Token {BOLT}\r\n")),
            (String::new(), format!("X-Api-Key: {ACME}, {BOLT}\r\n")),
            (format!("?key={BOLT}"), format!("Authorization: Bearer {ACME}\r\n")),
        ] {
            let said = asked(&gate, &written(endpoint, &query, &headers)).await;
            assert!(said.starts_with("HTTP/1.1 401 ") && said.contains("keys of two tenants"), "{headers}{said}");
        }
        // Nor can a path go on without a part of it.
        let said = asked(&gate, &written(endpoint, &format!("/{ACME}"), "")).await;
        assert!(said.starts_with("HTTP/1.1 401 ") && said.contains("is in the path"), "{said}");
    }
    assert_eq!(line.heard(), [""; 0]);
}
