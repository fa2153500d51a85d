//! One request has one size: the header, the library and the provider's own count say the same number.

use epitome::budget::{Meter, counter_for};
use epitome::thread::{Raw, Thread};
use epitome::wire::{Dialect, Document};
use serde_json::{Value, json};

use crate::talk::path;
use crate::world::Plan;

/// Requests of three dialects, with and without tools, system prompts and media.
pub fn requests() -> Vec<(&'static str, Dialect, Value)> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string", "description": "Which file."}}});
    let claude_tools: Vec<Value> = ["read", "write", "list"]
        .map(|name| json!({"name": name, "description": "Does something with a file.", "input_schema": schema}))
        .into();
    let chat_tool = json!({"type": "function", "function": {"name": "read", "parameters": schema}});
    let responses_tool = json!({"type": "function", "name": "read", "parameters": schema});
    let png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAASwAAADICAAAAAB3tIOJAAAA";
    let user = json!({"role": "user", "content": "Which files are there? ".repeat(20)});
    let pdf = json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}});
    let developer = json!({"role": "developer", "content": "Be brief."});
    vec![
        ("claude", Dialect::Anthropic, json!({"model": "claude-sonnet-4-5", "max_tokens": 50, "messages": [user]})),
        (
            "claude, tools",
            Dialect::Anthropic,
            json!({"model": "claude-sonnet-4-5", "max_tokens": 50, "system": "Be brief.", "tools": claude_tools, "messages": [user]}),
        ),
        (
            "claude, blocks",
            Dialect::Anthropic,
            json!({"model": "claude-sonnet-4-5", "max_tokens": 50, "messages": [{"role": "user", "content": [pdf, {"type": "text", "text": "What is it?"}]}],
                "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]}),
        ),
        ("chat", Dialect::Chat, json!({"model": "gpt-4o", "messages": [user]})),
        (
            "chat, tools",
            Dialect::Chat,
            json!({"model": "gpt-4o", "tools": [chat_tool], "messages": [{"role": "system", "content": "Be brief."}, developer, user]}),
        ),
        (
            "chat, image",
            Dialect::Chat,
            json!({"model": "gpt-4o", "messages": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": png}}, {"type": "text", "text": "What is it?"}]}]}),
        ),
        ("responses", Dialect::Responses, json!({"model": "gpt-5", "input": [user]})),
        (
            "responses, tools",
            Dialect::Responses,
            json!({"model": "gpt-5", "instructions": "Be brief.", "tools": [responses_tool], "input": [developer, user]}),
        ),
        (
            "responses, file",
            Dialect::Responses,
            json!({"model": "gpt-5", "instructions": "Be brief.", "input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-abc"}]}]}),
        ),
        ("a model nobody knows", Dialect::Chat, json!({"model": "mock", "messages": [user]})),
    ]
}

/// The size of a request by the library alone.
fn size(dialect: Dialect, body: &str) -> u64 {
    let document = Document::decode(body, Some(dialect)).unwrap();
    let counter = counter_for(document.model());
    let meter = Meter::new(&*counter, dialect);
    let mut thread = Thread::new();
    thread.extend(document.messages(), &meter);
    let fixed = meter.fixed(document.system().map(Raw::as_str), document.tools().map(Raw::as_str));
    (thread.total() + fixed.total()).get()
}

#[tokio::test]
async fn the_header_the_library_and_the_provider_say_the_same_number() {
    for (claim, dialect, request) in requests() {
        // Spaces say nothing to a model.
        for body in [request.to_string(), serde_json::to_string_pretty(&request).unwrap()] {
            let world = Plan::new().settings(|settings| settings.serve.budget = None).start().await;
            // Something that has to be counted on its way, and something that need not be.
            for headers in [&[][..], &[("x-epitome-budget", "100000")][..]] {
                let got = world.post(path(dialect), headers, body.clone()).await.fine();
                let told: u64 =
                    got.told("tokens-before").unwrap_or_else(|| panic!("{claim}: {got:?}")).parse().unwrap();
                assert_eq!(told, size(dialect, &body), "{claim}: the header and the library");
                assert_eq!(Some(told), world.newest().prompt_tokens, "{claim}: the header and the provider");
            }
        }
    }
}
