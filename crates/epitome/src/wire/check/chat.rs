//! The rules of OpenAI Chat Completions, C1 to C9.
//!
//! Fields that other back-ends add (`reasoning_content`, `cache_control`, …) are not judged. The deprecated `function`
//! role is known but its calls have no ids, so they are not paired.

use serde_json::Value;

use super::calls::{Answer, Calls};
use super::{LastExchange, List, Place, Report, Request, Rule, list, parts, present, text};
pub(super) fn check(request: &Value, tail: LastExchange, report: &mut Report) {
    let Some(request) = Request::open(request, List::Messages).filter(|request| !request.entries.is_empty()) else {
        let whole = Place::whole(List::Messages);
        return report.add(Rule::C3, whole, "`messages` must be a list with at least one message.");
    };
    for (at, message) in request.entries.iter().enumerate() {
        check_message(message, Place::entry(List::Messages, at), report);
    }
    check_pairs(request.entries, tail, report);
    check_alternation(request.entries, report);
    check_tools(&request, report);
    if names_mistral(&request) {
        check_mistral(request.entries, tail, report);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
    Tool,
    Function,
}

fn role(message: &Value) -> Option<Role> {
    match text(message, "role")? {
        "system" | "developer" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "tool" => Some(Role::Tool),
        "function" => Some(Role::Function),
        _ => None,
    }
}

fn check_message(message: &Value, place: Place, report: &mut Report) {
    match role(message) {
        Some(Role::Assistant) => check_assistant(message, place, report),
        Some(Role::Function) => {}
        Some(role) => check_speaker(message, role, place, report),
        None => report.add(Rule::C3, place, unknown_role(message)),
    }
    check_parts(message, place, report);
}

fn unknown_role(message: &Value) -> String {
    match present(message, "role") {
        Some(role) => format!("{role} is not a role; the roles are developer, system, user, assistant and tool."),
        None => "A message must be an object with a role.".into(),
    }
}

fn check_speaker(message: &Value, role: Role, place: Place, report: &mut Report) {
    match message.get("content") {
        Some(Value::String(_) | Value::Array(_)) => {}
        _ => report.add(Rule::C3, place, "`content` must be a string or a list of parts."),
    }
    if role == Role::Tool && text(message, "tool_call_id").is_none() {
        report.add(Rule::C3, place, "A tool message must name the call it answers in `tool_call_id`.");
    }
}

fn check_assistant(message: &Value, place: Place, report: &mut Report) {
    match message.get("content") {
        Some(Value::String(_) | Value::Array(_)) => {}
        None | Some(Value::Null) if says_something(message) => {}
        None | Some(Value::Null) => {
            report.add(Rule::C4, place, "The assistant message has neither `content` nor `tool_calls`.");
        }
        Some(_) => report.add(Rule::C3, place, "`content` must be a string, a list of parts or null."),
    }
    check_call_list(message, place, report);
    for (at, call) in list(message, "tool_calls").iter().enumerate() {
        check_call(call, place.call(at), report);
    }
}

fn says_something(message: &Value) -> bool {
    ["tool_calls", "function_call", "refusal", "audio"].iter().any(|field| present(message, field).is_some())
}

fn check_call_list(message: &Value, place: Place, report: &mut Report) {
    match present(message, "tool_calls") {
        Some(Value::Array(calls)) if !calls.is_empty() => {}
        None => {}
        Some(_) => report.add(Rule::C3, place, "`tool_calls`, where present, must be a list with at least one call."),
    }
}

fn check_call(call: &Value, place: Place, report: &mut Report) {
    if text(call, "id").is_none() {
        report.add(Rule::C3, place, "A call must be an object with an `id`.");
    }
    match (text(call, "type"), call.get("function"), call.get("custom")) {
        (Some("function") | None, Some(function), _) => check_function(function, place, report),
        (Some("custom"), _, Some(custom)) => {
            if text(custom, "name").is_none() || text(custom, "input").is_none() {
                report.add(Rule::C3, place, "A custom call must have a `name` and a textual `input`.");
            }
        }
        (Some("function" | "custom") | None, _, _) => {
            report.add(Rule::C3, place, "A call must carry a `function`, or a `custom` tool, of its own type.");
        }
        (Some(_), _, _) => {}
    }
}

fn check_function(function: &Value, place: Place, report: &mut Report) {
    if text(function, "name").is_none() {
        report.add(Rule::C3, place, "The called function must have a name.");
    }
    match text(function, "arguments") {
        Some(arguments) if matches!(serde_json::from_str(arguments), Ok(Value::Object(_))) => {}
        Some(_) => report.add(Rule::C5, place, "The text of `arguments` is not a JSON object."),
        None => report.add(Rule::C5, place, "`arguments` must be a string."),
    }
}

fn check_parts(message: &Value, place: Place, report: &mut Report) {
    if message.get("content").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        report.add(Rule::C3, place, "`content` must not be an empty list.");
    }
    for (at, part) in parts(message).iter().enumerate() {
        check_part(part, role(message), place.content(at), report);
    }
}

fn check_part(part: &Value, role: Option<Role>, place: Place, report: &mut Report) {
    match text(part, "type") {
        Some("text") if text(part, "text").is_none() => {
            report.add(Rule::C3, place, "The `text` of a text part must be a string.");
        }
        Some(kind @ ("image_url" | "input_audio" | "file")) if role.is_some_and(|role| role != Role::User) => {
            report.add(Rule::C9, place, format!("A part of type `{kind}` is only taken in a user message."));
        }
        Some(_) => {}
        None => report.add(Rule::C3, place, "A part must be an object with a `type`."),
    }
}

fn check_pairs(messages: &[Value], tail: LastExchange, report: &mut Report) {
    let mut calls = Calls::default();
    for (at, message) in messages.iter().enumerate() {
        let place = Place::entry(List::Messages, at);
        if role(message) == Some(Role::Tool) {
            check_answer(message, &mut calls, place, report);
            continue;
        }
        report_unanswered(&mut calls, report);
        if role(message) == Some(Role::Assistant) {
            make_calls(message, &mut calls, place, report);
        }
    }
    if tail == LastExchange::Closed {
        report_unanswered(&mut calls, report);
    }
}

fn make_calls<'a>(message: &'a Value, calls: &mut Calls<'a>, place: Place, report: &mut Report) {
    for (at, call) in list(message, "tool_calls").iter().enumerate() {
        let Some(id) = text(call, "id") else { continue };
        if !calls.make(id, place.call(at)) {
            report.add(
                Rule::C1,
                place.call(at),
                format!("Two calls have the id `{id}`, and one answer is not for both."),
            );
        }
    }
}

fn check_answer(message: &Value, calls: &mut Calls<'_>, place: Place, report: &mut Report) {
    let Some(id) = text(message, "tool_call_id") else { return };
    let detail = match calls.answer(id) {
        Answer::First => return,
        Answer::Again => format!("The call `{id}` has already been answered."),
        Answer::Stray => format!(
            "No call `{id}` in the assistant message before: messages with role 'tool' must be a response to a \
             preceding message with 'tool_calls'."
        ),
    };
    report.add(Rule::C2, place, detail);
}

fn report_unanswered(calls: &mut Calls<'_>, report: &mut Report) {
    for (id, place) in calls.close() {
        let detail = format!("The call `{id}` has no tool message directly after its assistant message.");
        report.add(Rule::C1, place, detail);
    }
}

fn check_alternation(messages: &[Value], report: &mut Report) {
    let mut last = None;
    for (at, message) in messages.iter().enumerate() {
        let role = role(message);
        if let Some(detail) = out_of_turn(last, role, at) {
            report.add(Rule::C7, Place::entry(List::Messages, at), detail);
        }
        last = role;
    }
}

fn out_of_turn(last: Option<Role>, role: Option<Role>, at: usize) -> Option<&'static str> {
    match (last, role?) {
        (_, Role::System) if at > 0 => Some("A system message that is not the first message fails in many templates."),
        (Some(Role::User), Role::User) => Some("Two user messages in a row fail in templates that alternate."),
        (Some(Role::Assistant), Role::Assistant) => {
            Some("Two assistant messages in a row fail in templates that alternate.")
        }
        (Some(Role::System), Role::Assistant) => Some("The first message after the system's must be the user's."),
        (None, Role::Assistant) if at == 0 => Some("The first message must be the user's."),
        _ => None,
    }
}

fn check_tools(request: &Request<'_>, report: &mut Report) {
    if request.lacks_tools()
        && let Some(at) = request.entries.iter().position(uses_tools)
    {
        let place = Place::entry(List::Messages, at);
        report.add(Rule::C8, place, "The message holds a call or a result, but the request declares no `tools`.");
    }
}

fn uses_tools(message: &Value) -> bool {
    role(message) == Some(Role::Tool) || !list(message, "tool_calls").is_empty()
}

/// Words that a Mistral model's name holds.
const MISTRAL_NAMES: [&str; 7] = ["mistral", "mixtral", "ministral", "codestral", "devstral", "magistral", "pixtral"];

fn names_mistral(request: &Request<'_>) -> bool {
    let model = request.field("model").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    MISTRAL_NAMES.iter().any(|name| model.contains(name))
}

fn check_mistral(messages: &[Value], tail: LastExchange, report: &mut Report) {
    let mut last = None;
    for (at, message) in messages.iter().enumerate() {
        let place = Place::entry(List::Messages, at);
        check_mistral_ids(message, place, report);
        if last == Some(Role::Tool) && role(message) == Some(Role::User) {
            report.add(Rule::C6, place, "Mistral refuses a user message directly after a tool message.");
        }
        last = role(message);
    }
    if tail == LastExchange::Closed && last == Some(Role::Assistant) && !messages.last().is_some_and(is_prefix) {
        let place = Place::entry(List::Messages, messages.len() - 1);
        report.add(Rule::C6, place, "Mistral expects the last role to be user or tool.");
    }
}

fn is_prefix(message: &Value) -> bool {
    message.get("prefix").and_then(Value::as_bool) == Some(true)
}

fn check_mistral_ids(message: &Value, place: Place, report: &mut Report) {
    for (at, call) in list(message, "tool_calls").iter().enumerate() {
        if let Some(id) =
            text(call, "id").filter(|id| id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        {
            let detail = format!("Mistral wants nine letters or digits as a call id, not `{id}`.");
            report.add(Rule::C6, place.call(at), detail);
        }
    }
}
