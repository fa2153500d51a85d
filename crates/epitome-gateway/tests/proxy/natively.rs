//! What providers do natively: kept responses, conversations, compactions of their own, cache marks, thinking, seals.

use epitome::wire::{Dialect, cache_marks};
use epitome_mock::{CacheRules, MockWork};
use serde_json::{Value, json};

use crate::talk::Talk;
use crate::world::{Got, Plan, World};

const BUDGET: u64 = 8_000;

fn plan() -> Plan {
    Plan::new().window(12_000).budget(BUDGET).mock(|mock| {
        mock.work = MockWork { turns: 60, bytes: 1_500, ..MockWork::default() };
        mock.cache = CacheRules { tokens_min: 256, ..CacheRules::default() };
    })
}

/// Works the mock's job off; `before` may change the history before each request.
async fn worked_off(world: &World, talk: &mut Talk, before: fn(&mut Talk)) -> Vec<Got> {
    let mut turns = Vec::new();
    loop {
        before(talk);
        let got = talk.send(&world.gate).await.fine();
        let answer = talk.read(&got);
        turns.push(got);
        if answer.calls.is_empty() {
            return turns;
        }
        talk.takes(&answer, 300);
        assert!(turns.len() < 100, "it never ends");
    }
}

#[tokio::test]
async fn a_chain_of_kept_responses_goes_on_over_compactions() {
    for stream in [false, true] {
        let world = plan().start().await;
        let mut talk = Talk::new(Dialect::Responses).streaming(stream);
        let mut plans = Vec::new();
        for turn in 0..62 {
            let got = talk.send(&world.gate).await.fine();
            let answer = talk.read(&got);
            assert_eq!(got.told("failed-open"), None, "turn {turn}");
            plans.push(got.plan());
            let original = got.plan() == 0;
            if original {
                assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body(), "turn {turn}");
            }
            if answer.calls.is_empty() {
                break;
            }
            // Only what is new is sent; the provider has the rest.
            talk.messages.clear();
            let id = answer.id.clone().expect("a response has an id");
            talk.takes(&answer, 300);
            talk.messages.retain(|message| message.contains("function_call_output"));
            talk = talk.field("previous_response_id", json!(id));
        }
        assert!(*plans.last().unwrap() >= 2, "{plans:?}");
        assert_eq!(world.mock.account("sk-test").overflowed, 0);
        world.assert_lawful();
    }
}

#[tokio::test]
async fn a_response_that_nobody_here_knows_is_the_providers() {
    let world = plan().start().await;
    let talk = Talk::new(Dialect::Responses).field("previous_response_id", json!("resp_of_elsewhere")).grown(12_000);
    let got = talk.send(&world.gate).await;
    assert_eq!(got.status, 400);
    assert!(got.text().contains("resp_of_elsewhere"), "{}", got.text());
    assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body());
    assert_eq!(world.mock.requests().len(), 1);
}

#[tokio::test]
async fn a_conversation_of_the_providers_is_left_to_it() {
    let world = plan().start().await;
    let made = world.post("/v1/conversations", &[], "{}").await.fine().json();
    let talk = Talk::new(Dialect::Responses).field("conversation", made["id"].clone()).grown(2_000);
    for _ in 0..2 {
        talk.send(&world.gate).await;
        assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body());
    }
}

#[tokio::test]
async fn who_has_the_provider_look_after_the_context_is_left_alone() {
    let world = Plan::new().window(100_000).budget(BUDGET).start().await;
    let native = [
        Talk::new(Dialect::Anthropic)
            .field("context_management", json!({"edits": [{"type": "clear_tool_uses_20250919"}]}))
            .header("anthropic-beta", "context-management-2025-06-27"),
        Talk::new(Dialect::Anthropic)
            .field("context_management", json!({"edits": [{"type": "compact_20260112"}]}))
            .header("anthropic-beta", "compact-2026-01-12"),
        Talk::new(Dialect::Anthropic)
            .field("compaction", json!({"type": "summarize"}))
            .header("anthropic-beta", "compact-2026-09-04"),
        Talk::new(Dialect::Responses)
            .field("context_management", json!([{"type": "compaction", "compact_threshold": 50_000}])),
    ];
    for talk in native {
        let talk = talk.grown(14_000);
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body());
        assert_eq!(got.told("retries"), None);
    }
    // What only clears thinking says nothing of the rest.
    let talk = Talk::new(Dialect::Anthropic)
        .field("context_management", json!({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}))
        .header("anthropic-beta", "context-management-2025-06-27")
        .grown(14_000);
    assert_eq!(talk.send(&world.gate).await.fine().plan(), 1);
    world.assert_lawful();
}

#[tokio::test]
async fn what_a_provider_compacted_stays_first_and_as_it_is() {
    let world = Plan::new().window(12_000).budget(BUDGET).start().await;
    // The provider's own endpoint is passed on, whatever the size.
    let long = Talk::new(Dialect::Responses).grown(5_000);
    let compacted = world.post("/v1/responses/compact", &[], long.body()).await.fine().json();
    assert_eq!(String::from_utf8_lossy(&world.newest().body), long.body());
    let items = compacted["output"].as_array().unwrap();
    assert_eq!(items.last().unwrap()["type"], "compaction");
    let mut talk = Talk::new(Dialect::Responses);
    talk.messages = items.iter().map(Value::to_string).collect();
    talk.says("Go on with it.");
    let mut talk = talk.grown(14_000);
    let got = talk.send(&world.gate).await.fine();
    assert!(got.plan() >= 1);
    let sent = String::from_utf8(world.newest().body.to_vec()).unwrap();
    assert!(sent.contains(&talk.messages[..items.len()].join(",")), "they stand as they came");
    talk.works(100);
    let next = talk.send(&world.gate).await.fine();
    assert_eq!(next.placed().1, "continue");
    world.assert_lawful();
}

/// Marks the newest block of the newest two messages of the user, as clients do, and no other.
fn mark_newest(talk: &mut Talk) {
    let mut messages: Vec<Value> = talk.messages.iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    for message in &mut messages {
        for block in message["content"].as_array_mut().into_iter().flatten() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    let mut left = 2;
    for message in messages.iter_mut().rev().filter(|message| message["role"] == "user") {
        if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            block["cache_control"] = json!({"type": "ephemeral"});
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    talk.messages = messages.iter().map(Value::to_string).collect();
}

#[tokio::test]
async fn cache_marks_are_at_most_four_and_the_cache_survives_between_compactions() {
    let world = plan().start().await;
    let mut talk = Talk::new(Dialect::Anthropic).field(
        "system",
        json!([{"type": "text", "text": "You are an agent. Never delete files.", "cache_control": {"type": "ephemeral"}}]),
    );
    let turns = worked_off(&world, &mut talk, mark_newest).await;
    world.assert_lawful();
    let (mut kept, mut hit) = (0, 0);
    for (at, (turn, sent)) in turns.iter().zip(world.mock.requests()).enumerate() {
        let text = String::from_utf8(sent.body.to_vec()).unwrap();
        let marks = cache_marks(&text).len();
        assert!(marks <= 4, "turn {at}: {marks} marks");
        let usage = talk.read(turn).usage.unwrap();
        if at > 0 && turn.told("cache") == Some("kept") {
            kept += 1;
            hit += usize::from(usage.cached > 0);
        }
        if turn.told("cache") == Some("rewritten") {
            // One stands on the operator's words; the others went with their blocks, and one came to the summary.
            assert!(marks >= 2, "turn {at}: no mark came to the summary");
        }
    }
    assert!(turns.last().unwrap().plan() >= 3);
    assert!(hit + 6 >= kept, "{hit} of {kept} requests under a kept plan read the cache");
    let account = world.mock.account("sk-test");
    assert!(account.cache_read_tokens > account.input_tokens / 2, "{account:?}");
    let threads: std::collections::BTreeSet<String> = turns.iter().map(|turn| turn.placed().0).collect();
    assert_eq!(threads.len(), 1, "marks that move make no new thread");
}

/// Marks the newest block of the user for an hour.
fn mark_for_an_hour(talk: &mut Talk) {
    mark_newest(talk);
    let long = r#""cache_control":{"ttl":"1h","type":"ephemeral"}"#;
    for message in &mut talk.messages {
        *message = message.replace(r#""cache_control":{"type":"ephemeral"}"#, long);
    }
}

#[tokio::test]
async fn marks_for_an_hour_stay_lawful_over_compactions() {
    let world = plan().start().await;
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let mut talk = Talk::new(Dialect::Anthropic)
        .field("system", json!([{"type": "text", "text": "You are an agent.", "cache_control": mark}]));
    let turns = worked_off(&world, &mut talk, mark_for_an_hour).await;
    world.assert_lawful();
    assert!(turns.last().unwrap().plan() >= 2);
    let threads: std::collections::BTreeSet<String> = turns.iter().map(|turn| turn.placed().0).collect();
    assert_eq!(threads.len(), 1);
}

#[tokio::test]
async fn thinking_is_kept_or_let_go_of_as_its_model_demands() {
    for (model, thinking) in [
        ("claude-opus-5-5", json!({"type": "adaptive"})),
        ("claude-sonnet-4-5", json!({"type": "enabled", "budget_tokens": 1024})),
    ] {
        for stream in [false, true] {
            let world = plan().start().await;
            let mut talk = Talk::new(Dialect::Anthropic)
                .model(model)
                .streaming(stream)
                .field("max_tokens", json!(2_000))
                .field("thinking", thinking.clone())
                .header("anthropic-beta", "some-beta-2025-01-01");
            let turns = worked_off(&world, &mut talk, |_| {}).await;
            world.assert_lawful();
            assert!(turns.last().unwrap().plan() >= 2, "{model}");
            for (turn, sent) in turns.iter().zip(world.mock.requests()) {
                let betas = sent.headers["anthropic-beta"].to_str().unwrap();
                assert!(betas.contains("some-beta-2025-01-01"), "{betas}");
                let asks_to_drop = betas.contains("thinking-binding-controls-2026-08-01");
                let is_bound = model == "claude-opus-5-5";
                assert_eq!(asks_to_drop, is_bound && turn.plan() > 0, "{model} under plan {}", turn.plan());
            }
        }
    }
}

#[tokio::test]
async fn sealed_reasoning_stays_with_what_it_belongs_to() {
    for store in [false, true] {
        for stream in [false, true] {
            let world = plan().start().await;
            let mut talk = Talk::new(Dialect::Responses)
                .model("gpt-5-mock")
                .streaming(stream)
                .field("reasoning", json!({"effort": "medium"}))
                .field("include", json!(["reasoning.encrypted_content"]))
                .field("store", json!(store));
            let turns = worked_off(&world, &mut talk, |_| {}).await;
            world.assert_lawful();
            assert!(turns.last().unwrap().plan() >= 2, "store={store}");
            let sealed = |body: &[u8]| String::from_utf8_lossy(body).contains("encrypted_content\":\"");
            assert!(sealed(&world.newest().body), "some of it is kept");
        }
    }
}
