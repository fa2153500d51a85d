//! Responses: R1 to R10 in OpenAI's words. What the server kept was put into the request before.

use epitome::wire::{Dialect, Rule, Violation};
use serde_json::Value;

use super::first;
use crate::rejection::ProviderRejection;
use crate::request::MockRequest;
use crate::seal;

pub(super) fn judge(request: &MockRequest) -> Result<(), ProviderRejection> {
    match first(Dialect::Responses, request, |_| false) {
        Some(violation) => Err(tell(request, &violation).breaking(violation.rule.name())),
        None => Ok(()),
    }
}

fn tell(request: &MockRequest, violation: &Violation) -> ProviderRejection {
    let items = request.list("input");
    let at = violation.place.index().unwrap_or(0);
    let item = items.get(at).unwrap_or(&Value::Null);
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let (id, call_id) = (text("id"), text("call_id"));
    let about_input = |message: String| ProviderRejection::invalid(message).about("input");
    match violation.rule {
        Rule::R1 => about_input(format!("No tool output found for {} {call_id}.", tool(text("type")))),
        Rule::R2 if violation.detail.contains("already") => {
            about_input(format!("Duplicate tool output found for function call {call_id}."))
        }
        Rule::R2 | Rule::R6 => about_input(format!(
            "No tool call found for {} output with call_id {call_id}.",
            tool(text("type").trim_end_matches("_output"))
        )),
        Rule::R3 => {
            about_input(format!("Item '{id}' of type 'reasoning' was provided without its required following item."))
        }
        Rule::R5 => about_input(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` \
             set to true, or remove this item from your input."
        )),
        Rule::R9 => about_input("The `compaction_trigger` item must be the final input item.".into()),
        Rule::R10 => about_input(format!(
            "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
        )),
        _ => shape(request, item, violation),
    }
}

fn tool(kind: &str) -> String {
    kind.replace('_', " ")
}

fn shape(request: &MockRequest, item: &Value, violation: &Violation) -> ProviderRejection {
    let Some(at) = violation.place.index() else { return no_input(request) };
    let has_role = item.get("role").is_some_and(|role| !role.is_null());
    let is_message = matches!(item.get("type").and_then(Value::as_str), Some("message") | None);
    if has_role && !is_message {
        let param = format!("input[{at}].role");
        return ProviderRejection::invalid(format!("Unknown parameter: '{param}'."))
            .about(param)
            .coded("unknown_parameter");
    }
    let param = match violation.place.part() {
        Some(part) => format!("input[{at}].content[{part}]"),
        None => format!("input[{at}]"),
    };
    ProviderRejection::invalid(format!("Invalid value for '{param}': {}", violation.detail))
        .about(param)
        .coded("invalid_value")
}

fn no_input(request: &MockRequest) -> ProviderRejection {
    match request.field("input") {
        None => ProviderRejection::invalid("Missing required parameter: 'input'.")
            .about("input")
            .coded("missing_required_parameter"),
        Some(_) => ProviderRejection::invalid(
            "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        )
        .about("input")
        .coded("empty_array"),
    }
}

/// Every sealed content was sealed here, for this model.
pub(super) fn judge_seals(request: &MockRequest) -> Result<(), ProviderRejection> {
    for item in request.list("input") {
        let Some(sealed) = item.get("encrypted_content").and_then(Value::as_str).filter(|seal| !seal.is_empty()) else {
            continue;
        };
        if seal::decrypt(request.model(), sealed).is_none() {
            let id = item.get("id").and_then(Value::as_str).unwrap_or("unknown");
            return Err(ProviderRejection::invalid(format!(
                "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be \
                 decrypted or parsed."
            ))
            .coded("invalid_encrypted_content")
            .breaking("R8"));
        }
    }
    Ok(())
}
