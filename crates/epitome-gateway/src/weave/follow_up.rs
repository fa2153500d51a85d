//! The follow-up: the request as it was sent, with the model's answer and the results at the end of its messages.
//!
//! What was sent before stays byte for byte, so the provider finds all of it in its cache.

use epitome::wire::{Dialect, RawFields, item_id, set_field, splice, without_id};
use epitome_runtime::model::ModelAnswer;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::edit::text_at;
use super::inject::extended;
use crate::tools::Outcome;

/// An answer that calls nothing but ours, and what came of the calls, in their order: items for the end of the request.
pub(super) fn items(
    dialect: Dialect,
    request: &str,
    answer: &ModelAnswer,
    outcomes: &[Outcome],
) -> Option<Vec<String>> {
    let fields: RawFields<'_> = serde_json::from_str(request).ok()?;
    let mut items = match dialect {
        Dialect::Responses if is_unstored(&fields) => without_lost_reasoning(&answer.messages),
        _ => answer.messages.clone(),
    };
    items.extend(results(dialect, answer, outcomes));
    Some(items)
}

/// The request with items at the end of its messages.
pub(super) fn with_items(dialect: Dialect, request: &str, items: &[String]) -> Option<String> {
    let fields: RawFields<'_> = serde_json::from_str(request).ok()?;
    let key = if dialect == Dialect::Responses { "input" } else { "messages" };
    let before = fields.get(key)?.get();
    match before.starts_with('"') {
        true => Some(set_field(request, key, &extended(&as_list(before), &items.join(",")))),
        false => Some(splice(request, before, &extended(before, &items.join(",")))),
    }
}

/// An input that is nothing but words, as the list it stands for.
fn as_list(words: &str) -> String {
    format!(r#"[{{"type":"message","role":"user","content":{words}}}]"#)
}

fn results(dialect: Dialect, answer: &ModelAnswer, outcomes: &[Outcome]) -> Vec<String> {
    let answered = answer.calls.iter().zip(outcomes);
    match dialect {
        Dialect::Anthropic => {
            let block = |(call, outcome): (&epitome::thread::ToolCall, &Outcome)| {
                let mut block = json!({"type": "tool_result", "tool_use_id": call.id, "content": outcome.text});
                if outcome.is_error {
                    block["is_error"] = Value::Bool(true);
                }
                block
            };
            let blocks: Vec<Value> = answered.map(block).collect();
            vec![json!({"role": "user", "content": blocks}).to_string()]
        }
        Dialect::Responses => answered
            .map(|(call, outcome)| {
                json!({"type": "function_call_output", "call_id": call.id, "output": outcome.text}).to_string()
            })
            .collect(),
        Dialect::Chat | Dialect::AiSdk => answered
            .map(|(call, outcome)| {
                json!({"role": "tool", "tool_call_id": call.id, "content": outcome.text}).to_string()
            })
            .collect(),
    }
}

/// Whether the provider keeps nothing, so that an id alone tells it nothing.
fn is_unstored(request: &RawFields<'_>) -> bool {
    request.get("store").map(RawValue::get) == Some("false")
}

/// The items without reasoning that only an id tells of. What stood behind such an item loses its id as well, by which
/// the provider would miss the reasoning.
fn without_lost_reasoning(items: &[String]) -> Vec<String> {
    let is_lost = |item: &String| {
        text_at(item, "type").as_deref() == Some("reasoning")
            && item_id(item).is_some()
            && text_at(item, "encrypted_content").is_none_or(|sealed| sealed.is_empty())
    };
    if !items.iter().any(is_lost) {
        return items.to_vec();
    }
    items.iter().filter(|item| !is_lost(item)).map(|item| without_id(item)).collect()
}
