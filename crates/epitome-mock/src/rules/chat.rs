//! Chat Completions: C1 to C9 in OpenAI's words, or in those of the back-end that has the rule.

use epitome::wire::{Dialect, Rule, Violation};
use serde_json::Value;

use super::first;
use crate::rejection::ProviderRejection;
use crate::request::MockRequest;

pub(super) fn judge(request: &MockRequest, pedantic: bool) -> Result<(), ProviderRejection> {
    let model = request.model().to_lowercase();
    let counts = |rule| pedantic || is_enforced(rule, &model);
    match first(Dialect::Chat, request, counts) {
        Some(violation) => Err(tell(request, &violation).breaking(violation.rule.name())),
        None => Ok(()),
    }
}

/// Returns true if back-ends that serve this model have the rule.
fn is_enforced(rule: Rule, model: &str) -> bool {
    match rule {
        Rule::C6 => true,
        Rule::C7 => ["gemma", "llama-2", "llama2"].iter().any(|name| model.contains(name)),
        Rule::C8 => ["claude", "bedrock/", "anthropic/"].iter().any(|name| model.contains(name)),
        _ => false,
    }
}

fn tell(request: &MockRequest, violation: &Violation) -> ProviderRejection {
    let messages = request.list("messages");
    let at = violation.place.index().unwrap_or(0);
    let message = messages.get(at).unwrap_or(&Value::Null);
    match violation.rule {
        Rule::C1 => unanswered(request, messages, at),
        Rule::C2 => stray(request, at),
        Rule::C4 => null_content(at),
        Rule::C5 => ProviderRejection::invalid(format!(
            "Invalid 'messages[{at}].tool_calls[{}].function.arguments': expected a string of JSON that is an object.",
            violation.place.part().unwrap_or(0)
        ))
        .about(format!("messages[{at}].tool_calls[{}].function.arguments", violation.place.part().unwrap_or(0)))
        .coded("invalid_value"),
        Rule::C7 => ProviderRejection::invalid("Conversation roles must alternate user/assistant/user/assistant/..."),
        Rule::C8 => ProviderRejection::invalid(
            "litellm.UnsupportedParamsError: Anthropic expects the `tools=` param to be passed in, when using tool calling.",
        ),
        Rule::C9 => ProviderRejection::invalid(format!(
            "Invalid 'messages[{at}]'. Image URLs are only allowed for messages with role 'user', but this message with \
             role '{}' contains an image URL.",
            message.get("role").and_then(Value::as_str).unwrap_or_default()
        ))
        .about(format!("messages[{at}]"))
        .coded("invalid_value"),
        Rule::C3 => shape(request, message, violation),
        _ => ProviderRejection::invalid(violation.detail.clone()).about("messages"),
    }
}

fn is_deepseek(request: &MockRequest) -> bool {
    request.model().contains("deepseek")
}

fn unanswered(request: &MockRequest, messages: &[Value], at: usize) -> ProviderRejection {
    let answers = messages.iter().skip(at + 1).take_while(|message| role(message) == "tool");
    let answered: Vec<&str> = answers.filter_map(|message| message.get("tool_call_id")?.as_str()).collect();
    let calls = messages[at].get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    let missing: Vec<&str> =
        calls.filter_map(|call| call.get("id")?.as_str()).filter(|id| !answered.contains(id)).collect();
    let deepseek = if is_deepseek(request) { " (insufficient tool messages following tool_calls message)" } else { "" };
    ProviderRejection::invalid(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
         following tool_call_ids did not have response messages: {}{deepseek}",
        missing.join(", ")
    ))
    .about(format!("messages.[{}].role", at + 1 + answered.len()))
}

fn stray(request: &MockRequest, at: usize) -> ProviderRejection {
    let message = match is_deepseek(request) {
        true => "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        false => {
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        }
    };
    ProviderRejection::invalid(message).about(format!("messages.[{at}].role"))
}

fn null_content(at: usize) -> ProviderRejection {
    ProviderRejection::invalid("Invalid value for 'content': expected a string, got null.")
        .about(format!("messages.[{at}].content"))
}

fn shape(request: &MockRequest, message: &Value, violation: &Violation) -> ProviderRejection {
    let Some(at) = violation.place.index() else { return no_messages(request) };
    if message.get("tool_calls").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return empty_list(&format!("messages[{at}].tool_calls"));
    }
    if message.get("role").is_none() {
        let param = format!("messages[{at}].role");
        let message = format!("Missing required parameter: '{param}'.");
        return ProviderRejection::invalid(message).about(param).coded("missing_required_parameter");
    }
    if violation.place.part().is_none()
        && message.get("content").is_none_or(Value::is_null)
        && role(message) != "assistant"
    {
        return null_content(at);
    }
    let param = violation
        .place
        .part()
        .map_or_else(|| format!("messages[{at}]"), |part| format!("messages[{at}].content[{part}]"));
    ProviderRejection::invalid(format!("Invalid '{param}': {}", violation.detail)).about(param).coded("invalid_value")
}

fn no_messages(request: &MockRequest) -> ProviderRejection {
    match request.field("messages") {
        None => ProviderRejection::invalid("Missing required parameter: 'messages'.")
            .about("messages")
            .coded("missing_required_parameter"),
        Some(_) => empty_list("messages"),
    }
}

fn empty_list(param: &str) -> ProviderRejection {
    ProviderRejection::invalid(format!(
        "Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    ))
    .about(param)
    .coded("empty_array")
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}
