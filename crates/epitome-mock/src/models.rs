//! The models that the mock says it has; it answers for any other as well.

use serde_json::{Value, json};

use super::request::MockRequest;

const NAMES: [&str; 7] =
    ["mock", "mock-8k", "mock-32k", "mock-200k", "claude-sonnet-4-5", "claude-opus-5-5", "gpt-5.6"];

/// The list, as the provider that is spoken to writes it.
pub(crate) fn models(request: &MockRequest) -> Value {
    if request.headers.contains_key("anthropic-version") {
        let data: Vec<Value> = NAMES.iter().map(|name| anthropic(name)).collect();
        return json!({"data": data, "has_more": false, "first_id": NAMES[0], "last_id": NAMES[NAMES.len() - 1]});
    }
    let data: Vec<Value> = NAMES.iter().map(|name| openai(name)).collect();
    json!({"object": "list", "data": data})
}

fn anthropic(name: &str) -> Value {
    json!({"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"})
}

fn openai(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": super::encode::CREATED, "owned_by": "mock"})
}
