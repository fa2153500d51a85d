//! The window and every shape of the catalog.

use epitome::budget::{Overflow, Tokens, classify};
use epitome_mock::{FaultKind, MockSettings, ProviderFault};
use serde_json::{Value, json};

use crate::bench::{Bench, Got, chat, gemini, long, messages, responses, with};

const WINDOW: u64 = 4_000;

fn small() -> Bench {
    Bench::over(MockSettings { window: Some(Tokens::new(WINDOW)), ..MockSettings::default() })
}

/// A path, a request of so many tokens, and what it is told.
type Told = (&'static str, fn(usize) -> Value, &'static str);

#[tokio::test]
async fn each_protocol_tells_an_overflow_as_its_provider_does() {
    let bench = small();
    let cases: [Told; 4] = [
        (
            "/v1/chat/completions",
            chat,
            "This model's maximum context length is 4000 tokens. However, your messages resulted in N tokens. Please reduce \
             the length of the messages.",
        ),
        (
            "/v1/responses",
            responses,
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        ("/v1/messages", messages, "prompt is too long: N tokens > 4000 maximum"),
        (
            "/v1beta/models/mock:generateContent",
            gemini,
            "The input token count (N) exceeds the maximum number of tokens allowed (4000).",
        ),
    ];
    for (path, request, says) in cases {
        bench.post(path, &request(2_000)).await.fine();
        let got = bench.post(path, &request(6_000)).await;
        assert_eq!((got.status, without_count(&got.message())), (400, says.to_owned()), "{path}");
        let streamed = bench.post(path, &with(request(6_000), json!({"stream": true}))).await;
        assert_eq!(streamed.status, 400, "{path}");
    }
    assert_eq!(bench.mock.account("sk-test").overflowed, 8);
}

/// A message with its five-digit or four-digit count of tokens left out, but for the window.
fn without_count(message: &str) -> String {
    let words = message.split(' ').map(|word| {
        let digits: String = word.chars().filter(char::is_ascii_digit).collect();
        if digits.len() >= 4 && digits != "4000" { word.replace(&digits, "N") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_window_comes_from_the_name_the_header_or_the_setting_and_can_change() {
    let bench = small();
    let named = |model: &str| with(chat(6_000), json!({"model": model}));
    assert_eq!(bench.post("/v1/chat/completions", &named("mock")).await.status, 400);
    bench.post("/v1/chat/completions", &named("mock-8k")).await.fine();
    bench.post_with("/v1/chat/completions", &[("x-mock-window", "9000")], &named("mock")).await.fine();
    bench.mock.set_window(Some(Tokens::new(9_000)));
    bench.post("/v1/chat/completions", &named("mock")).await.fine();
    bench.bare(reqwest::Method::POST, "/mock/window", &[], r#"{"window":100}"#).await.fine();
    assert_eq!(bench.post("/v1/chat/completions", &named("mock")).await.status, 400);
}

#[tokio::test]
async fn tools_and_system_count_against_the_window() {
    let bench = small();
    let tool = json!({"name": "read", "description": long(3_000), "input_schema": {"type": "object"}});
    let body = with(messages(500), json!({"tools": [tool], "system": long(1_000)}));
    assert_eq!(bench.post("/v1/messages", &body).await.status, 400);
    let counted = bench.post("/v1/messages/count_tokens", &body).await.fine().json()["input_tokens"].as_u64().unwrap();
    assert!((4_000..6_500).contains(&counted), "{counted}");
}

#[tokio::test]
async fn only_shapes_that_count_the_output_refuse_for_it() {
    let bench = small();
    let body = with(messages(3_000), json!({"max_tokens": 3_000}));
    bench.post("/v1/messages", &body).await.fine();
    let got = bench.post_with("/v1/messages", &[("x-mock-overflow", "anthropic-output")], &body).await;
    let message = got.message();
    let input = bench.post("/v1/messages/count_tokens", &body).await.json()["input_tokens"].clone();
    assert_eq!(
        message,
        format!(
            "input length and `max_tokens` exceed context limit: {input} + 3000 > 4000, decrease input length or \
             `max_tokens` and try again"
        )
    );
    let Overflow::OutputBudget { max_tokens, limit, .. } = classify(got.status, &got.text()) else {
        panic!("{message}")
    };
    assert_eq!((max_tokens.get(), limit.get()), (3_000, WINDOW));
}

/// What a shape of the catalog is sent with, and what the library makes of it.
async fn told(bench: &Bench, fault: &ProviderFault, stream: bool) -> (Got, Overflow) {
    let body = with(chat(6_000), json!({"stream": stream, "max_tokens": 1_000}));
    let header = if fault.kind() == FaultKind::Overflow { "x-mock-overflow" } else { "x-mock-fault" };
    let got = bench.post_with("/v1/chat/completions", &[(header, fault.name())], &body).await;
    let read = classify(got.status, &got.text());
    (got, read)
}

#[tokio::test]
async fn the_library_tells_every_overflow_of_the_catalog_from_what_only_looks_like_one() {
    let bench = small();
    for fault in ProviderFault::all().filter(|fault| fault.kind() != FaultKind::Broken) {
        for stream in [false, true] {
            let (got, read) = told(&bench, &fault, stream).await;
            let hidden =
                ["anthropic-stop-reason", "zai-silent", "ollama-truncates", "sglang-truncates", "lmstudio-empty"];
            if hidden.contains(&fault.name()) {
                assert_eq!(got.status, 200, "{}", fault.name());
                continue;
            }
            let is_overflow = read != Overflow::NotOverflow;
            let expected = fault.kind() == FaultKind::Overflow;
            assert_eq!(is_overflow, expected, "{} stream {stream}: {} {}", fault.name(), got.status, got.text());
            if let Some(limit) = read.limit() {
                assert_eq!(limit.get(), WINDOW, "{}: {}", fault.name(), got.text());
            }
        }
    }
}

#[tokio::test]
async fn silent_overflows_answer_200_and_show_only_in_what_they_say() {
    let bench = small();
    let sent = |name: &'static str, path: &'static str, body: Value| {
        let bench = &bench;
        async move { bench.post_with(path, &[("x-mock-overflow", name)], &body).await.fine() }
    };
    let full = sent("anthropic-stop-reason", "/v1/messages", messages(6_000)).await.json();
    assert_eq!(full["stop_reason"], "model_context_window_exceeded");
    let cut = sent("ollama-truncates", "/v1/chat/completions", chat(6_000)).await.json();
    assert_eq!(cut["usage"]["prompt_tokens"], 3_000);
    let zai = sent("zai-silent", "/v1/chat/completions", chat(6_000)).await.json();
    assert_eq!(zai["choices"][0]["finish_reason"], "model_context_window_exceeded");
    let stream = |request: Value| with(request, json!({"stream": true}));
    let empty = sent("lmstudio-empty", "/v1/chat/completions", stream(chat(6_000))).await;
    assert!(
        empty
            .events()
            .iter()
            .all(|event| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().is_empty())
    );
    let nothing = sent("llama-cpp-python", "/v1/chat/completions", stream(chat(6_000))).await;
    assert_eq!(
        (nothing.text().as_str(), &nothing.headers["content-type"]),
        ("", &"text/event-stream; charset=utf-8".parse().unwrap())
    );
    let failed = sent("responses-failed-stream", "/v1/responses", stream(responses(6_000))).await;
    assert_eq!(failed.kinds(), ["response.created", "response.in_progress", "response.failed"]);
    assert_eq!(failed.events()[2]["response"]["error"]["code"], "context_length_exceeded");
}

#[tokio::test]
async fn a_fault_is_forced_whatever_the_size() {
    let bench = small();
    for (name, status) in [
        ("500", 500),
        ("503", 503),
        ("529", 529),
        ("429", 429),
        ("anthropic", 400),
        ("tpm-429", 429),
        ("groq-tpm-413", 413),
    ] {
        let got = bench.post_with("/v1/messages", &[("x-mock-fault", name)], &messages(10)).await;
        assert_eq!(got.status, status, "{name}");
    }
    let unknown = bench.post_with("/v1/messages", &[("x-mock-fault", "nothing")], &messages(10)).await;
    assert_eq!(unknown.message(), "`nothing` is not in the catalog; `epitome mock --list` shows it");
    let forced = bench.post_with("/v1/messages", &[("x-mock-fault", "anthropic")], &messages(10)).await;
    assert_eq!(forced.message(), "prompt is too long: 4800 tokens > 4000 maximum");
}

#[tokio::test]
async fn the_next_requests_fail_as_often_as_they_shall() {
    let bench = small();
    bench.mock.fail_next("529".parse().unwrap(), 2);
    bench.bare(reqwest::Method::POST, "/mock/faults", &[], r#"{"name":"500","times":1}"#).await.fine();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(bench.post("/v1/messages", &messages(10)).await.status);
    }
    assert_eq!(statuses, [529, 529, 500, 200]);
}

#[test]
fn names_are_unique_and_every_shape_of_the_table_is_there() {
    let mut names: Vec<&str> = ProviderFault::all().map(|fault| fault.name()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for server in [
        "openai",
        "responses",
        "azure",
        "anthropic",
        "vertex",
        "gemini",
        "bedrock",
        "mistral",
        "deepseek",
        "groq",
        "cerebras",
        "together",
        "tgi",
        "openrouter",
        "xai",
        "vllm",
        "sglang",
        "llama-cpp",
        "llama-cpp-python",
        "ollama",
        "lmstudio",
        "copilot",
        "minimax",
        "kimi",
        "zai",
        "qwen",
        "litellm",
    ] {
        assert!(names.iter().any(|name| name.starts_with(server)), "{server}");
    }
}
