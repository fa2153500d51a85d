//! The ledger: every request with the provider's own usage, and losses as losses.

use std::sync::Arc;

use epitome::wire::Dialect;
use epitome_mock::{CacheRules, MockWork, ProviderFault};
use epitome_runtime::model::{Model, Scripted};
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};
use serde_json::Value;

use crate::talk::{DIALECTS, Talk};
use crate::world::{Gate, Plan, SOON};

fn plan() -> Plan {
    Plan::new().window(12_000).budget(8_000).mock(|mock| {
        mock.work = MockWork { turns: 40, bytes: 1_500, ..MockWork::default() };
        mock.cache = CacheRules { tokens_min: 256, ..CacheRules::default() };
    })
}

/// The entries of a thread, once there are as many.
async fn entries(gate: &Gate, thread: &str, count: usize) -> Vec<Value> {
    let began = std::time::Instant::now();
    loop {
        gate.running.ledger().flush().await.unwrap();
        let got = gate.send("GET", &format!("/api/threads/{thread}/ledger?limit=200"), &[], Vec::new()).await;
        let entries = match got.status {
            200 => got.json()["entries"].as_array().unwrap().clone(),
            _ => Vec::new(),
        };
        if entries.len() >= count {
            return entries;
        }
        assert!(began.elapsed() < SOON, "{} of {count} entries: {}", entries.len(), got.text());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn every_request_is_written_down_with_the_providers_own_usage() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            let world = plan().start().await;
            // What a cached token costs is half of another for the one, and a tenth for the other.
            let model = if stream { "gpt-4o" } else { "gpt-5" };
            let mut talk = Talk::new(dialect).streaming(stream).model(model);
            let mut usages = Vec::new();
            let thread = loop {
                let got = talk.send(&world.gate).await.fine();
                let answer = talk.read(&got);
                usages.push(answer.usage.unwrap());
                if answer.calls.is_empty() {
                    break got.placed().0;
                }
                talk.takes(&answer, 300);
            };
            let entries = entries(&world.gate, &thread, usages.len()).await;
            let of =
                |name: &str| entries.iter().map(|entry| entry["usage"][name].as_u64().unwrap()).collect::<Vec<_>>();
            let mut told: Vec<u64> = usages.iter().map(|usage| usage.input).collect();
            let mut written = of("input");
            told.sort_unstable();
            written.sort_unstable();
            assert_eq!(written, told, "{dialect:?} stream={stream}");
            let account = world.mock.account("sk-test");
            assert_eq!(of("output").iter().sum::<u64>(), account.output_tokens);
            assert_eq!(of("cached").iter().sum::<u64>(), account.cache_read_tokens);
            for entry in &entries {
                let number = |name: &str| entry[name].as_f64().unwrap_or_else(|| panic!("{name}: {entry}"));
                assert!((number("without") - number("paid") - number("saved")).abs() < 1e-9, "{entry}");
                if entry["changed"] == false {
                    assert!(
                        number("saved").abs() < 1e-9 || entry["tokens_original"] != entry["usage"]["input"],
                        "{entry}"
                    );
                }
            }
            // A compaction rewrites what was cached: where that is nearly free, it is dearer than nothing, and told so.
            let saved: Vec<f64> = entries.iter().map(|entry| entry["saved"].as_f64().unwrap()).collect();
            match (dialect, stream) {
                (Dialect::Anthropic, _) => {}
                (_, true) => assert!(saved.iter().any(|saved| *saved > 0.0), "{saved:?}"),
                (_, false) => assert!(saved.iter().any(|saved| *saved < 0.0), "{saved:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_was_sent_again_says_so() {
    let world = Plan::new().window(8_000).start().await;
    let talk = Talk::new(Dialect::Chat).grown(16_000);
    let got = talk.send(&world.gate).await.fine();
    let retries: usize = got.told("retries").unwrap().parse().unwrap();
    let entries = entries(&world.gate, &got.placed().0, 1).await;
    let extra = entries[0]["extra"].as_array().cloned().unwrap_or_default();
    assert_eq!(extra.iter().filter(|extra| extra["kind"] == "retry").count(), retries, "{}", entries[0]);
}

#[tokio::test]
async fn what_was_not_answered_costs_nothing() {
    let world = Plan::new().start().await;
    let mut talk = Talk::new(Dialect::Anthropic);
    talk.send_with(&world.gate, &[("x-mock-fault", "529")]).await;
    talk.works(100);
    let got = talk.send(&world.gate).await.fine();
    let entries = entries(&world.gate, &got.placed().0, 1).await;
    assert_eq!(entries.len(), 1, "{entries:?}");
}

#[tokio::test]
async fn an_answer_that_was_thrown_away_is_paid_for_as_well() {
    let world = Plan::new().window(8_000).mock(|mock| mock.overflow = ProviderFault::named("ollama-truncates"));
    let world = world.start().await;
    let talk = Talk::new(Dialect::Chat).model("of-nobody").grown(16_000);
    let got = talk.send(&world.gate).await.fine();
    let entries = entries(&world.gate, &got.placed().0, 1).await;
    let inputs: Vec<u64> =
        entries[0]["extra"].as_array().unwrap().iter().map(|extra| extra["usage"]["input"].as_u64().unwrap()).collect();
    assert!(!inputs.is_empty() && inputs.iter().all(|input| *input > 0), "{}", entries[0]);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_paid_for_as_far_as_it_came() {
    for dialect in DIALECTS {
        let world = Plan::new().start().await;
        let mut talk = Talk::new(dialect).streaming(true);
        let got = talk.send_with(&world.gate, &[("x-mock-fault", "die-mid-stream=6")]).await;
        assert!(!got.is_whole, "{}", got.text());
        let thread = got.placed().0;
        let broken = entries(&world.gate, &thread, 1).await.remove(0);
        assert_eq!(broken["estimated"], true, "{dialect:?}: {broken}");
        assert!(broken["usage"]["input"].as_u64().unwrap() > 10, "{dialect:?}: {broken}");
        assert!(broken["saved"].as_f64().unwrap().abs() < 1e-9, "it would have broken off as well: {broken}");
        talk.works(100);
        talk.send(&world.gate).await.fine();
        assert!(entries(&world.gate, &thread, 2).await[1].get("estimated").is_none());
    }
}

#[tokio::test]
async fn a_fork_begins_with_what_its_parent_has_cached() {
    let world = plan().start().await;
    let mut talk = Talk::new(Dialect::Chat).model("gpt-5").grown(3_000);
    talk.send(&world.gate).await.fine();
    let mut fork = talk.clone();
    talk.works(300);
    let thread = talk.send(&world.gate).await.fine().placed().0;
    entries(&world.gate, &thread, 2).await;
    fork.hears("Another way.").says("Go on.");
    let got = fork.grown(9_000).send(&world.gate).await.fine();
    assert_eq!((got.placed().1.as_str(), got.plan()), ("fork", 1));
    let entries = entries(&world.gate, &got.placed().0, 1).await;
    assert!(entries[0]["tokens_original_cached"].as_u64().unwrap() > 1_000, "{}", entries[0]);
}

/// A model whose summaries take a thousand tokens.
const WRITER: &str = "model = \"gpt-5\"\ndialect = \"chat\"\n\n[[answer]]\nfor = \"summary\"\nrepeat = true\nusage = { input = 1000, cached = 0, written = 0, output = 50 }\ntext = '{\"goal\":\"Fix the bug.\",\"progress\":[{\"text\":\"files were read\",\"message\":2}]}'\n";

#[tokio::test]
async fn a_models_summary_stands_with_the_request_that_follows_it() {
    let model = Arc::new(Scripted::parse(WRITER).unwrap());
    let summarizer = ModelSummarizer::new(model as Arc<dyn Model>, std::time::Duration::from_secs(20));
    let world = plan().summarizer(Summarizer::WithFallback(Arc::new(summarizer))).start().await;
    let got = Talk::new(Dialect::Chat).model("gpt-5").grown(9_000).send(&world.gate).await.fine();
    assert_eq!(got.plan(), 1);
    let entries = entries(&world.gate, &got.placed().0, 1).await;
    let summaries = entries[0]["extra"].as_array().cloned().unwrap_or_default();
    let summary = summaries.iter().find(|extra| extra["kind"] == "summary").unwrap_or_else(|| panic!("{}", entries[0]));
    assert!(summary["usage"]["input"].as_u64().unwrap() >= 1000, "{summary}");
}
