//! What the mock hands out and knows again: thinking, encrypted reasoning, stored responses.

use serde_json::{Value, json};

use crate::bench::Bench;

const BOUND: &str = "claude-opus-5-5";
const UNBOUND: &str = "claude-sonnet-4-5";
const BINDING: (&str, &str) = ("anthropic-beta", "thinking-binding-controls-2026-08-01");

fn thinking(model: &str, messages: &[Value]) -> Value {
    json!({"model": model, "max_tokens": 100, "thinking": {"type": "adaptive"}, "system": "s", "messages": messages})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The message that a request is answered with, as a client sends it back.
async fn said(bench: &Bench, body: &Value) -> Value {
    let answer = bench.post("/v1/messages", body).await.fine().json();
    json!({"role": "assistant", "content": answer["content"]})
}

#[tokio::test]
async fn a_bound_thought_is_only_taken_after_its_own_prefix() {
    let bench = Bench::new();
    let first = said(&bench, &thinking(BOUND, &[user("one")])).await;
    assert_eq!(first["content"][0]["type"], "thinking");
    let whole = [user("one"), first.clone(), user("two")];
    bench.post("/v1/messages", &thinking(BOUND, &whole)).await.fine();
    let marked =
        json!({"role": "user", "content": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]});
    bench.post("/v1/messages", &thinking(BOUND, &[marked, first.clone(), user("two")])).await.fine();

    let edited = thinking(BOUND, &[user("a summary"), first.clone(), user("two")]);
    let got = bench.post("/v1/messages", &edited).await;
    assert_eq!(
        (got.status, got.message().as_str()),
        (
            400,
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. \
             Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
        )
    );
    let mut dropping = edited.clone();
    dropping["thinking"]["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
    assert_eq!(
        bench.post("/v1/messages", &dropping).await.message(),
        "thinking.block_binding: Extra inputs are not permitted"
    );
    bench.post_with("/v1/messages", &[BINDING], &dropping).await.fine();

    let unbound = thinking(UNBOUND, &[user("a summary"), first, user("two")]);
    bench.post("/v1/messages", &unbound).await.fine();
}

#[tokio::test]
async fn a_thought_after_an_edit_is_bound_to_the_edited_prefix() {
    let bench = Bench::new();
    let first = said(&bench, &thinking(BOUND, &[user("one")])).await;
    let mut edited = thinking(BOUND, &[user("a summary"), first.clone(), user("two")]);
    edited["thinking"]["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
    let answer = bench.post_with("/v1/messages", &[BINDING], &edited).await.fine().json();
    let second = json!({"role": "assistant", "content": answer["content"]});
    let stripped = json!({"role": "assistant", "content": [first["content"][1]]});
    let next = thinking(BOUND, &[user("a summary"), first, user("two"), second.clone(), user("three")]);
    assert!(bench.post("/v1/messages", &next).await.message().starts_with("messages.1.content.0"));
    let next = thinking(BOUND, &[user("a summary"), stripped, user("two"), second, user("three")]);
    assert!(bench.post("/v1/messages", &next).await.message().starts_with("messages.3.content.0"));
}

#[tokio::test]
async fn a_changed_thought_of_the_latest_message_is_told_apart() {
    let bench = Bench::new();
    let mut first = said(&bench, &thinking(UNBOUND, &[user("one")])).await;
    first["content"][0]["thinking"] = "other words".into();
    let got = bench.post("/v1/messages", &thinking(UNBOUND, &[user("one"), first.clone(), user("two")])).await;
    assert_eq!(
        got.message(),
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. \
         These blocks must remain as they were in the original response."
    );
    let later = [user("one"), first, user("two"), json!({"role": "assistant", "content": "a"}), user("three")];
    let got = bench.post("/v1/messages", &thinking(UNBOUND, &later)).await;
    assert_eq!(got.message(), "messages.1.content.0: Invalid `signature` in `thinking` block");
}

fn reasoning(input: Value, fields: Value) -> Value {
    let request = json!({"model": "gpt-5.6", "reasoning": {"effort": "low"}, "input": input});
    crate::bench::with(request, fields)
}

#[tokio::test]
async fn encrypted_reasoning_is_taken_back_by_the_model_that_sealed_it() {
    let bench = Bench::new();
    let stateless = json!({"store": false});
    let first = bench.post("/v1/responses", &reasoning(json!([user("one")]), stateless.clone())).await.fine().json();
    let output = first["output"].as_array().unwrap().clone();
    assert_eq!(output[0]["type"], "reasoning");
    let mut items = vec![user("one")];
    items.extend(output);
    items.push(user("two"));
    bench.post("/v1/responses", &reasoning(items.clone().into(), stateless.clone())).await.fine();
    let other = crate::bench::with(reasoning(items.into(), stateless), json!({"model": "gpt-4.1"}));
    assert_eq!(bench.post("/v1/responses", &other).await.json()["error"]["code"], "invalid_encrypted_content");
}

#[tokio::test]
async fn a_stored_item_keeps_its_reasoning_and_is_known_by_its_id() {
    let bench = Bench::new();
    let first = bench.post("/v1/responses", &reasoning(json!([user("one")]), json!({}))).await.fine().json();
    let (thought, message) = (&first["output"][0], &first["output"][1]);
    let by_id = json!([user("one"), {"type": "reasoning", "id": thought["id"], "summary": []}, message, user("two")]);
    bench.post("/v1/responses", &reasoning(by_id, json!({}))).await.fine();
    let reference = json!([user("one"), {"type": "item_reference", "id": thought["id"]},
        {"type": "item_reference", "id": message["id"]}, user("two")]);
    bench.post("/v1/responses", &reasoning(reference, json!({}))).await.fine();
    let got = bench.post("/v1/responses", &reasoning(json!([user("one"), message, user("two")]), json!({}))).await;
    assert_eq!(
        got.message(),
        format!(
            "Item '{}' of type 'message' was provided without its required 'reasoning' item: '{}'.",
            message["id"].as_str().unwrap(),
            thought["id"].as_str().unwrap()
        )
    );
    let mut nameless = message.clone();
    nameless.as_object_mut().unwrap().remove("id");
    bench.post("/v1/responses", &reasoning(json!([user("one"), nameless, user("two")]), json!({}))).await.fine();
}

#[tokio::test]
async fn a_previous_response_and_a_conversation_hold_what_came_before() {
    let bench = Bench::new();
    let tokens = |answer: &Value| answer["usage"]["input_tokens"].as_u64().unwrap();
    let first =
        bench.post("/v1/responses", &json!({"model": "m", "input": crate::bench::long(500)})).await.fine().json();
    let next = json!({"model": "m", "input": "two", "previous_response_id": first["id"]});
    let second = bench.post("/v1/responses", &next).await.fine().json();
    assert!(tokens(&second) > tokens(&first), "{second}");
    let got = bench
        .bare(
            reqwest::Method::GET,
            &format!("/v1/responses/{}", first["id"].as_str().unwrap()),
            &[("x-api-key", "sk-test")],
            "",
        )
        .await;
    assert_eq!(got.fine().json()["id"], first["id"]);

    let unstored = json!({"model": "m", "input": "one", "store": false});
    let lost = bench.post("/v1/responses", &unstored).await.fine().json();
    let next = json!({"model": "m", "input": "two", "previous_response_id": lost["id"]});
    let error = bench.post("/v1/responses", &next).await.json()["error"].clone();
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("previous_response_not_found"), &json!("previous_response_id"))
    );

    let conversation = bench.post("/v1/conversations", &json!({})).await.fine().json()["id"].clone();
    let turn = |text: String| json!({"model": "m", "input": text, "conversation": conversation});
    let first = bench.post("/v1/responses", &turn(crate::bench::long(500))).await.fine().json();
    let second = bench.post("/v1/responses", &turn("two".into())).await.fine().json();
    assert!(tokens(&second) > tokens(&first), "{second}");
    let nowhere = json!({"model": "m", "input": "q", "conversation": "conv_0"});
    assert_eq!(bench.post("/v1/responses", &nowhere).await.status, 404);
}

#[tokio::test]
async fn a_native_compaction_keeps_the_thoughts_that_come_after_it() {
    let bench = Bench::new();
    let beta = [("anthropic-beta", "compact-2026-09-04")];
    let old = [user("one"), json!({"role": "assistant", "content": "a"})];
    let asking = [old[0].clone(), old[1].clone(), user("two")];
    let kept = said(&bench, &thinking(BOUND, &asking)).await;
    let mut compacting = thinking(BOUND, &old);
    compacting["compaction"] = json!({"type": "summarize"});
    let block = bench.post_with("/v1/messages", &beta, &compacting).await.fine().json()["content"][0].clone();
    let compacted = |block: Value| {
        let first = json!({"role": "assistant", "content": [block]});
        thinking(BOUND, &[first, user("two"), kept.clone(), user("three")])
    };
    bench.post_with("/v1/messages", &beta, &compacted(block.clone())).await.fine();
    let plain = json!({"type": "compaction", "content": block["content"]});
    let got = bench.post_with("/v1/messages", &beta, &compacted(plain)).await;
    assert!(got.message().contains("bound to a different conversation"), "{}", got.text());
    let forged = json!({"type": "compaction", "content": "s", "encrypted_content": "x"});
    let got = bench.post_with("/v1/messages", &beta, &compacted(forged)).await;
    assert_eq!(got.message(), "messages.0.content.0: Invalid `encrypted_content` in `compaction` block");
}
