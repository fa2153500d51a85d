//! A real model with a window of 2048 tokens behind the gateway: a conversation that grows far past it is answered to the
//! end on every protocol, and between compactions the server reads what it knows from its cache.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use epitome::wire::{Dialect, Voice, say};
use epitome_gateway::ledger::{Ledger, PriceList};
use epitome_gateway::proxy::Relay;
use epitome_gateway::serve::{Gateway, Listening, Metrics, Openness, Stop};
use epitome_gateway::settings::{Provider, Serve, Settings, Upstream, UpstreamRoute};
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings};
use serde_json::{Value, json};

/// How many questions are asked in one conversation.
const TURNS: usize = 11;

fn model_url() -> String {
    std::env::var("EPITOME_TEST_MODEL").expect("EPITOME_TEST_MODEL says where the model is; scripts/test starts it")
}

async fn gateway() -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url: http::Uri = model_url().trim_end_matches("/v1").parse().unwrap();
    let upstream = |family| Upstream { route: UpstreamRoute::Provider(family), url: url.clone(), key: None };
    let settings = Arc::new(Settings {
        serve: Serve { listen: "127.0.0.1:0".parse().unwrap(), ..Serve::default() },
        upstreams: vec![upstream(Provider::OpenAi), upstream(Provider::Anthropic)],
        ..Settings::default()
    });
    let engine =
        Engine::new(EngineParts::in_memory(EngineSettings::new(epitome_gateway::policy::usual()))).await.unwrap();
    let metrics = Arc::new(Metrics::new());
    let ledger = Arc::new(Ledger::new(engine.log().clone(), PriceList::shipped()));
    let proxy = Relay::new(Arc::clone(&settings), engine.clone(), BTreeMap::new(), Arc::clone(&metrics), ledger);
    let listening = Listening::on(&settings, Openness::Local).await.unwrap();
    let base = listening.url();
    let compactions = Arc::new(epitome_runtime::event::CompactionMetrics::new());
    let gateway = Gateway { settings, engine, proxy, metrics, compactions, mcp: None };
    let (stopper, stop) = Stop::pair();
    tokio::spawn(async move {
        let _keep = stopper;
        gateway.serve(listening, stop).await
    });
    base
}

fn question(at: usize) -> String {
    let facts: String = (0..22).map(|line| format!("Item {at}-{line} stands on shelf {}. ", line * 7 + at)).collect();
    format!("{facts}Answer with one word: is item {at}-3 on a shelf?")
}

/// What one protocol says of an answer: its words, and how much of the prompt came from the cache.
struct Spoken {
    dialect: Dialect,
    path: &'static str,
    request: fn(&[Value]) -> Value,
    words: fn(&Value) -> Option<&str>,
    cached: fn(&Value) -> Option<u64>,
}

const PROTOCOLS: [Spoken; 3] = [
    Spoken {
        dialect: Dialect::Chat,
        path: "/v1/chat/completions",
        request: |messages| json!({"model": "smollm2", "messages": messages, "max_tokens": 4}),
        words: |answer| answer.pointer("/choices/0/message/content")?.as_str(),
        cached: |answer| answer.pointer("/usage/prompt_tokens_details/cached_tokens")?.as_u64(),
    },
    Spoken {
        dialect: Dialect::Responses,
        path: "/v1/responses",
        request: |messages| json!({"model": "smollm2", "input": messages, "max_output_tokens": 4}),
        words: |answer| answer.pointer("/output/0/content/0/text")?.as_str(),
        cached: |answer| answer.pointer("/usage/input_tokens_details/cached_tokens")?.as_u64(),
    },
    Spoken {
        dialect: Dialect::Anthropic,
        path: "/v1/messages",
        request: |messages| json!({"model": "smollm2", "messages": messages, "max_tokens": 4}),
        words: |answer| answer.pointer("/content/0/text")?.as_str(),
        cached: |answer| answer.pointer("/usage/cache_read_input_tokens")?.as_u64(),
    },
];

fn said(dialect: Dialect, voice: Voice, words: &str) -> Value {
    serde_json::from_str(&say(dialect, voice, words)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_far_past_the_window_is_answered_and_keeps_the_cache_on_every_protocol() {
    for spoken in PROTOCOLS {
        let base = gateway().await;
        let client = reqwest::Client::new();
        let (mut messages, mut plans, mut kept_hits) = (Vec::new(), 0, 0);
        for at in 0..TURNS {
            messages.push(said(spoken.dialect, Voice::User, &question(at)));
            let sent = client.post(format!("{base}{}", spoken.path)).json(&(spoken.request)(&messages));
            let answer = sent.header("authorization", "Bearer none").send().await.unwrap();
            let header =
                |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let (status, plan, cache) = (answer.status(), header("x-epitome-plan"), header("x-epitome-cache"));
            let answer: Value = answer.json().await.unwrap();
            assert!(status.is_success(), "{} turn {at}: {status} {answer}", spoken.path);
            plans = plan.and_then(|plan| plan.parse().ok()).unwrap_or(plans);
            let cached = (spoken.cached)(&answer).unwrap_or(0);
            kept_hits += usize::from(cache.as_deref() == Some("kept") && cached > 100);
            let words = (spoken.words)(&answer).unwrap_or("yes").trim().to_owned();
            let words = if words.is_empty() { "yes".to_owned() } else { words };
            messages.push(said(spoken.dialect, Voice::Assistant, &words));
        }
        assert!(plans >= 2, "{}: {plans} plans", spoken.path);
        assert!(kept_hits >= 3, "{}: the cache was hit {kept_hits} times between compactions", spoken.path);
    }
}
