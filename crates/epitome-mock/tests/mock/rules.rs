//! Every rule, told as its provider tells it.

use serde_json::{Value, json};

use crate::bench::Bench;

/// A request that breaks a rule, and what it is told.
struct Case {
    rule: &'static str,
    body: Value,
    says: &'static str,
}

/// The one door: the request is refused with this message, and the rule is noted.
async fn refuses(path: &str, headers: &[(&str, &str)], cases: Vec<Case>) {
    for case in cases {
        let bench = Bench::new();
        let got = bench.post_with(path, headers, &case.body).await;
        assert_eq!((got.status, got.message()), (400, case.says.to_owned()), "{}: {}", case.rule, case.body);
        let rules: Vec<String> = bench.mock.violations().into_iter().map(|broken| broken.rule).collect();
        assert_eq!(rules, [case.rule], "{}", case.body);
    }
}

fn chat(messages: Value) -> Value {
    json!({"model": "gpt-5.6", "messages": messages})
}

fn calls(id: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}]})
}

#[tokio::test]
async fn chat_completions_refuses_in_openais_words() {
    let user = json!({"role": "user", "content": "q"});
    let answer = json!({"role": "tool", "tool_call_id": "call_x", "content": "r"});
    refuses("/v1/chat/completions", &[], vec![
        Case {
            rule: "C1",
            body: chat(json!([user, calls("call_x"), user])),
            says: "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                   'tool_call_id'. The following tool_call_ids did not have response messages: call_x",
        },
        Case {
            rule: "C1",
            body: json!({"model": "deepseek-chat", "messages": [user, calls("call_x"), user]}),
            says: "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                   'tool_call_id'. The following tool_call_ids did not have response messages: call_x (insufficient tool \
                   messages following tool_calls message)",
        },
        Case {
            rule: "C2",
            body: chat(json!([user, answer])),
            says: "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                   'tool_calls'.",
        },
        Case {
            rule: "C3",
            body: chat(json!([])),
            says: "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        },
        Case { rule: "C3", body: json!({"model": "m"}), says: "Missing required parameter: 'messages'." },
        Case {
            rule: "C3",
            body: chat(json!([{"role": "user", "content": null}])),
            says: "Invalid value for 'content': expected a string, got null.",
        },
        Case {
            rule: "C4",
            body: chat(json!([user, {"role": "assistant", "content": null}])),
            says: "Invalid value for 'content': expected a string, got null.",
        },
        Case {
            rule: "C5",
            body: chat(json!([user, {"role": "assistant", "tool_calls": [
                {"id": "call_x", "type": "function", "function": {"name": "read", "arguments": "{\"p\":"}}]}, answer])),
            says: "Invalid 'messages[1].tool_calls[0].function.arguments': expected a string of JSON that is an object.",
        },
        Case {
            rule: "C6",
            body: json!({"model": "mistral-large", "tools": [], "messages": [user, calls("call_x"), answer]}),
            says: "Mistral wants nine letters or digits as a call id, not `call_x`.",
        },
        Case {
            rule: "C7",
            body: json!({"model": "gemma-3", "messages": [user, user]}),
            says: "Conversation roles must alternate user/assistant/user/assistant/...",
        },
        Case {
            rule: "C8",
            body: json!({"model": "anthropic/claude-sonnet-4-5", "messages": [user, calls("call_x"), answer]}),
            says: "litellm.UnsupportedParamsError: Anthropic expects the `tools=` param to be passed in, when using tool \
                   calling.",
        },
        Case {
            rule: "C9",
            body: chat(json!([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}, user])),
            says: "Invalid 'messages[0]'. Image URLs are only allowed for messages with role 'user', but this message with \
                   role 'system' contains an image URL.",
        },
        Case { rule: "schema", body: json!({"messages": [user]}), says: "you must provide a model parameter" },
    ])
    .await;
}

#[tokio::test]
async fn an_unanswered_call_is_told_with_the_place_where_its_answer_was_expected() {
    let user = json!({"role": "user", "content": "q"});
    let got = Bench::new().post("/v1/chat/completions", &chat(json!([user, calls("call_x"), user]))).await;
    let error = &got.json()["error"];
    assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &json!("messages.[2].role")));
    assert_eq!(error["code"], Value::Null);
}

fn input(items: Value) -> Value {
    json!({"model": "gpt-5.6", "input": items})
}

#[tokio::test]
async fn responses_refuses_in_openais_words() {
    let user = json!({"role": "user", "content": "q"});
    let call = json!({"type": "function_call", "call_id": "call_x", "name": "read", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "call_x", "output": "r"});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"});
    refuses("/v1/responses", &[], vec![
        Case { rule: "R1", body: input(json!([user, call])), says: "No tool output found for function call call_x." },
        Case {
            rule: "R2",
            body: input(json!([user, output])),
            says: "No tool call found for function call output with call_id call_x.",
        },
        Case {
            rule: "R3",
            body: input(json!([user, reasoning, user])),
            says: "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        },
        Case {
            rule: "R5",
            body: json!({"model": "m", "store": false, "input": [user, {"type": "reasoning", "id": "rs_1", "summary": []},
                {"role": "assistant", "content": "a"}]}),
            says: "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with \
                   `store` set to true, or remove this item from your input.",
        },
        Case {
            rule: "R5",
            body: input(json!([user, {"type": "item_reference", "id": "msg_1"}])),
            says: "Item with id 'msg_1' not found.",
        },
        Case {
            rule: "R6",
            body: input(json!([user, output, call])),
            says: "No tool call found for function call output with call_id call_x.",
        },
        Case {
            rule: "R7",
            body: input(json!([user, {"type": "function_call", "role": "assistant", "call_id": "call_x", "name": "read",
                "arguments": "{}"}, output])),
            says: "Unknown parameter: 'input[1].role'.",
        },
        Case { rule: "R7", body: json!({"model": "m"}), says: "Missing required parameter: 'input'." },
        Case {
            rule: "R8",
            body: json!({"model": "m", "store": false, "input": [user, reasoning, {"role": "assistant", "content": "a"}]}),
            says: "The encrypted content for item rs_1 could not be verified. Reason: Encrypted content could not be \
                   decrypted or parsed.",
        },
        Case {
            rule: "R9",
            body: input(json!([{"type": "compaction_trigger"}, user])),
            says: "The `compaction_trigger` item must be the final input item.",
        },
        Case {
            rule: "R10",
            body: input(json!([{"type": "message", "id": "msg_1", "role": "user", "content": "q"},
                {"type": "message", "id": "msg_1", "role": "user", "content": "q"}])),
            says: "Duplicate item found with id msg_1. Remove duplicate items from your input and try again.",
        },
        Case {
            rule: "previous-response",
            body: json!({"model": "m", "previous_response_id": "resp_0", "input": "q"}),
            says: "Previous response with id 'resp_0' not found.",
        },
    ])
    .await;
}

fn messages(messages: Value) -> Value {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages, "tools": [
        {"name": "read", "input_schema": {"type": "object"}}]})
}

#[tokio::test]
async fn messages_refuses_in_anthropics_words() {
    let user = json!({"role": "user", "content": "q"});
    let uses =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}]});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"});
    let answered = json!({"role": "user", "content": [result]});
    let block = |text: &str| json!({"type": "text", "text": text});
    let marked = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let without_tools = |list: Value| json!({"model": "m", "max_tokens": 9, "messages": list});
    let plus = |list: Value, field: &str, value: Value| {
        let mut body = messages(list);
        body[field] = value;
        body
    };
    refuses("/v1/messages", &[], vec![
        Case {
            rule: "A1",
            body: messages(json!([user, uses, user])),
            says: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each \
                   `tool_use` block must have a corresponding `tool_result` block in the next message.",
        },
        Case {
            rule: "A2",
            body: messages(json!([user, {"role": "assistant", "content": "a"}, answered])),
            says: "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each \
                   `tool_result` block must have a corresponding `tool_use` block in the previous message.",
        },
        Case {
            rule: "A3",
            body: messages(json!([user, uses, {"role": "user", "content": [block("first"), result]}])),
            says: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each \
                   `tool_use` block must have a corresponding `tool_result` block in the next message.",
        },
        Case {
            rule: "A4",
            body: messages(json!([{"role": "assistant", "content": "a"}, user])),
            says: "messages: first message must use the \"user\" role",
        },
        Case {
            rule: "A5",
            body: messages(json!([{"role": "user", "content": [block("")]}])),
            says: "messages: text content blocks must be non-empty",
        },
        Case {
            rule: "A5",
            body: messages(json!([{"role": "user", "content": []}])),
            says: "messages.0: all messages must have non-empty content except for the optional final assistant message",
        },
        Case {
            rule: "A5",
            body: messages(json!([{"role": "tool", "content": "q"}])),
            says: "messages: Unexpected role \"tool\". Allowed roles are \"user\" or \"assistant\". For a system prompt, use \
                   the top-level `system` parameter.",
        },
        Case {
            rule: "A6",
            body: {
                let mut body = plus(json!([user, uses, answered]), "thinking", json!({"type": "enabled", "budget_tokens": 1024}));
                body["max_tokens"] = 2000.into();
                body
            },
            says: "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When \
                   `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the \
                   lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from \
                   previous turns. To avoid this requirement, disable `thinking`.",
        },
        Case {
            rule: "A7",
            body: plus(json!([user, {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"}, block("a")]}]), "thinking", json!({"type": "disabled"})),
            says: "messages.1.content.0: When thinking is disabled, an `assistant` message in the final position cannot \
                   contain `thinking`.",
        },
        Case {
            rule: "A9",
            body: messages(json!([user, {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "EqQB"}, block("a")]}, user])),
            says: "messages.1.content.0: Invalid `signature` in `thinking` block",
        },
        Case {
            rule: "A11",
            body: without_tools(json!([user, uses, answered])),
            says: "Requests which include `tool_use` or `tool_result` blocks must define tools",
        },
        Case {
            rule: "A12",
            body: messages(json!([user,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a:1", "name": "read", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a:1", "content": "r"}]}])),
            says: "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        },
        Case {
            rule: "A13",
            body: messages(json!([user, {"role": "assistant", "content": "so "}])),
            says: "messages: final assistant content cannot end with trailing whitespace",
        },
        Case {
                rule: "A13",
                body: json!({"model": "claude-opus-5-5", "max_tokens": 9, "messages": [user, {"role": "assistant", "content": "so"}]}),
                says: "This model does not support assistant message prefill. The conversation must end with a user message.",
            },
            Case {
            rule: "A14",
            body: messages(json!([{"role": "user", "content": [
                marked("1"), marked("2"), marked("3"), marked("4"), marked("5")]}])),
            says: "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        },
        Case {
            rule: "A15",
            body: plus(json!([user]), "context_management", json!({"edits": []})),
            says: "context_management: Extra inputs are not permitted",
        },
        Case {
            rule: "A15",
            body: plus(json!([user]), "compaction", json!({"type": "summarize"})),
            says: "compaction: Extra inputs are not permitted",
        },
        Case {
            rule: "A15",
            body: plus(json!([user]), "thinking",
                json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}})),
            says: "thinking.block_binding: Extra inputs are not permitted",
        },
        Case {
            rule: "A16",
            body: messages(json!([user, uses, answered, uses, answered])),
            says: "messages.3.content.0: `tool_use` ids must be unique",
        },
        Case { rule: "schema", body: json!({"model": "m", "messages": [user]}), says: "max_tokens: Field required" },
    ])
    .await;
}

#[tokio::test]
async fn a_beta_field_with_its_header_is_taken() {
    let mut body = messages(json!([{"role": "user", "content": "q"}]));
    body["context_management"] = json!({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]});
    let headers = [("anthropic-beta", "claude-code-20250219,context-management-2025-06-27")];
    let got = Bench::new().post_with("/v1/messages?beta=true", &headers, &body).await.fine();
    assert_eq!(got.json()["context_management"], json!({"applied_edits": []}));
}

#[tokio::test]
async fn gemini_refuses_in_googles_words() {
    let user = json!({"role": "user", "parts": [{"text": "q"}]});
    let call = json!({"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]});
    let answer = json!({"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"r": 1}}}]});
    let model = json!({"role": "model", "parts": [{"text": "a"}]});
    refuses("/v1beta/models/gemini-3-pro:generateContent", &[], vec![
        Case {
            rule: "G1",
            body: json!({"contents": [user, model, call, answer]}),
            says: "Please ensure that function call turn comes immediately after a user turn or after a function response \
                   turn.",
        },
        Case {
            rule: "G2",
            body: json!({"contents": [user, call, user]}),
            says: "Please ensure that the number of function response parts is equal to the number of function call parts of \
                   the function call turn.",
        },
        Case {
            rule: "G3",
            body: json!({"contents": [user, call, answer]}),
            says: "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                   correctly, and missing thought_signature may lead to degraded model performance. Additional data, function \
                   call `default_api:read`, position 2.",
        },
        Case {
            rule: "G4",
            body: json!({"contents": []}),
            says: "* GenerateContentRequest.contents: contents is not specified",
        },
        Case {
            rule: "G4",
            body: json!({"contents": [user, model]}),
            says: "Please ensure that single turn requests end with a user role or the role field is empty.",
        },
    ])
    .await;
}

#[tokio::test]
async fn a_whole_thread_of_each_dialect_is_taken() {
    let read = |name: &str| -> Value {
        let path = format!("{}/../../testdata/threads/{name}.json", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let bench = Bench::new();
    for (name, path) in
        [("chat", "/v1/chat/completions"), ("anthropic", "/v1/messages"), ("responses", "/v1/responses")]
    {
        let thread = read(name);
        let list = match &thread {
            Value::Array(_) => thread.clone(),
            request => request.get("messages").or_else(|| request.get("input")).cloned().unwrap(),
        };
        let field = if name == "responses" { "input" } else { "messages" };
        let mut body = json!({"model": "mock", "max_tokens": 9, "tools": [
            {"name": "x", "input_schema": {}, "type": "function", "function": {"name": "x"}}]});
        body[field] = list;
        bench.post(path, &body).await.fine();
    }
}
