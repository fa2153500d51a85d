//! The prefix cache, in each protocol's own fields, and what it costs.

use epitome_mock::{CacheRules, MockSettings};
use serde_json::{Value, json};

use crate::bench::{Bench, long};

fn marked(text: &str) -> Value {
    json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})
}

fn messages(blocks: Vec<Value>) -> Value {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 10, "messages": [{"role": "user", "content": blocks}]})
}

/// Uncached, written and read tokens of a Messages answer.
async fn served(bench: &Bench, body: &Value) -> (u64, u64, u64) {
    let usage = bench.post("/v1/messages", body).await.fine().json()["usage"].clone();
    let field = |name: &str| usage[name].as_u64().unwrap();
    (field("input_tokens"), field("cache_creation_input_tokens"), field("cache_read_input_tokens"))
}

#[tokio::test]
async fn anthropic_writes_up_to_a_mark_and_reads_it_again() {
    let bench = Bench::new();
    let (plain, written, read) = served(&bench, &messages(vec![marked(&long(2_000)), marked("tail")])).await;
    assert!(written > 2_000 && read == 0 && plain < 20, "{plain} {written} {read}");
    let next = messages(vec![marked(&long(2_000)), marked("tail"), marked(&long(1_000))]);
    let (_, second, found) = served(&bench, &next).await;
    assert_eq!(found, written);
    assert!(second > 1_000 && second < 2_000, "{second}");
}

#[tokio::test]
async fn what_is_not_marked_too_short_changed_or_anothers_is_not_cached() {
    let long = long(2_000);
    for (claim, body) in [
        ("no mark", messages(vec![json!({"type": "text", "text": long})])),
        ("too short", messages(vec![marked("short")])),
    ] {
        let bench = Bench::new();
        for _ in 0..2 {
            let (_, written, read) = served(&bench, &body).await;
            assert_eq!((written, read), (0, 0), "{claim}");
        }
    }
    let bench = Bench::new();
    let (_, written, _) = served(&bench, &messages(vec![marked(&long)])).await;
    let (_, again, read) = served(&bench, &messages(vec![marked(&format!("!{long}"))])).await;
    assert!(written > 0 && again > 0 && read == 0);
    let headers = [("authorization", "Bearer other"), ("anthropic-version", "2023-06-01")];
    let body = messages(vec![marked(&long)]).to_string();
    let other = bench.bare(reqwest::Method::POST, "/v1/messages", &headers, &body).await.fine().json();
    assert_eq!(other["usage"]["cache_read_input_tokens"], 0);
}

#[tokio::test]
async fn a_mark_looks_twenty_blocks_back_and_no_further() {
    for (between, found) in [(19, true), (20, true), (21, false)] {
        let bench = Bench::new();
        let start = long(2_000);
        served(&bench, &messages(vec![marked(&start)])).await;
        let mut blocks = vec![json!({"type": "text", "text": start})];
        blocks.extend((0..between - 1).map(|at| json!({"type": "text", "text": format!("block {at}")})));
        blocks.push(marked("end"));
        let (_, _, read) = served(&bench, &messages(blocks)).await;
        assert_eq!(read > 0, found, "{between}");
    }
}

#[tokio::test]
async fn an_hour_is_written_and_told_apart() {
    let bench = Bench::new();
    let long_lived = json!({"type": "text", "text": long(2_000), "cache_control": {"type": "ephemeral", "ttl": "1h"}});
    let usage =
        bench.post("/v1/messages", &messages(vec![long_lived, marked(&long(500))])).await.fine().json()["usage"]
            .clone();
    let split = &usage["cache_creation"];
    assert!(split["ephemeral_1h_input_tokens"].as_u64() > split["ephemeral_5m_input_tokens"].as_u64(), "{usage}");
    assert!(split["ephemeral_5m_input_tokens"].as_u64().unwrap() > 500, "{usage}");
}

#[tokio::test]
async fn openai_caches_by_itself_in_steps_of_128() {
    let bench = Bench::new();
    let chat = |extra: &str| {
        json!({"model": "mock", "messages": [
            {"role": "system", "content": long(2_000)}, {"role": "user", "content": "q"}, {"role": "user", "content": extra}]})
    };
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    let first = bench.post("/v1/chat/completions", &chat("one")).await.fine().json();
    let second = bench.post("/v1/chat/completions", &chat("two")).await.fine().json();
    assert_eq!(cached(&first), 0);
    assert!(cached(&second) >= 1_920 && cached(&second).is_multiple_of(128), "{second}");
    assert!(second["usage"]["prompt_tokens"].as_u64().unwrap() > cached(&second));
    let short = json!({"model": "mock", "messages": [{"role": "user", "content": long(500)}]});
    for _ in 0..2 {
        assert_eq!(cached(&bench.post("/v1/chat/completions", &short).await.fine().json()), 0);
    }
    let responses = json!({"model": "mock", "instructions": long(2_000), "input": "q"});
    bench.post("/v1/responses", &responses).await.fine();
    let again = bench.post("/v1/responses", &responses).await.fine().json();
    assert!(again["usage"]["input_tokens_details"]["cached_tokens"].as_u64().unwrap() >= 1_920, "{again}");
}

#[tokio::test]
async fn a_prefix_dies_when_it_is_not_used() {
    let rules = CacheRules { ttl: std::time::Duration::from_millis(50), ..CacheRules::default() };
    let bench = Bench::over(MockSettings { cache: rules, ..MockSettings::default() });
    let body = messages(vec![marked(&long(2_000))]);
    served(&bench, &body).await;
    tokio::time::sleep(std::time::Duration::from_millis(80)).await;
    assert_eq!(served(&bench, &body).await.2, 0);
}

#[tokio::test]
async fn each_key_pays_for_what_it_read_and_wrote() {
    let bench = Bench::new();
    let body = messages(vec![marked(&long(2_000))]);
    let (plain, written, _) = served(&bench, &body).await;
    let (plain_again, _, read) = served(&bench, &body).await;
    let account = bench.mock.account("sk-test");
    let expected =
        (plain + plain_again) as f64 + written as f64 * 1.25 + read as f64 * 0.1 + account.output_tokens as f64 * 5.0;
    assert!((account.cost - expected).abs() < 1e-6, "{account:?} {expected}");
    let stats = bench.bare(reqwest::Method::GET, "/mock/stats", &[], "").await.fine().json();
    assert_eq!(stats["accounts"]["sk-test"]["cache_read_tokens"], read);
    assert_eq!(stats["accounts"]["sk-test"]["answered"], 2);
}
