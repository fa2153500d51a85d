//! Gemini: G1 to G4.

use serde_json::Value;

use crate::rejection::ProviderRejection;
use crate::request::MockRequest;
use crate::seal;

pub(super) fn judge(request: &MockRequest) -> Result<(), ProviderRejection> {
    let contents = request.list("contents");
    if contents.is_empty() {
        return Err(rejection("G4", "* GenerateContentRequest.contents: contents is not specified".into()));
    }
    for (at, content) in contents.iter().enumerate() {
        judge_content(at, content)?;
    }
    judge_pairs(contents)?;
    match contents.last().map(role) {
        Some("user") => Ok(()),
        _ => Err(rejection(
            "G4",
            "Please ensure that single turn requests end with a user role or the role field is empty.".into(),
        )),
    }
}

fn rejection(rule: &'static str, message: String) -> ProviderRejection {
    ProviderRejection::invalid(message).breaking(rule)
}

fn role(content: &Value) -> &str {
    content.get("role").and_then(Value::as_str).unwrap_or("user")
}

fn parts(content: &Value) -> &[Value] {
    content.get("parts").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn count(content: &Value, field: &str) -> usize {
    parts(content).iter().filter(|part| part.get(field).is_some()).count()
}

fn judge_content(at: usize, content: &Value) -> Result<(), ProviderRejection> {
    if !matches!(role(content), "user" | "model" | "function") {
        return Err(rejection("G4", "Please use a valid role: user, model.".into()));
    }
    if parts(content).is_empty() {
        let message = format!("* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.");
        return Err(rejection("G4", message));
    }
    Ok(())
}

fn judge_pairs(contents: &[Value]) -> Result<(), ProviderRejection> {
    for (at, content) in contents.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &contents[before]);
        let (calls, answers) = (count(content, "functionCall"), count(content, "functionResponse"));
        if calls > 0 && before.is_none_or(|before| role(before) == "model") {
            let message = "Please ensure that function call turn comes immediately after a user turn or after a function response turn.";
            return Err(rejection("G1", message.into()));
        }
        let asked_for = before.map_or(0, |before| count(before, "functionCall"));
        if answers != asked_for && (answers > 0 || asked_for > 0) {
            let message = "Please ensure that the number of function response parts is equal to the number of function call \
                           parts of the function call turn.";
            return Err(rejection("G2", message.into()));
        }
    }
    Ok(())
}

/// The value with which a client skips the check of a signature.
const SKIPPED: &str = "skip_thought_signature_validator";

/// The first call of each step since the user spoke carries a signature, on models that think with calls.
pub(super) fn judge_seals(request: &MockRequest) -> Result<(), ProviderRejection> {
    if !request.model().contains("gemini-3") {
        return Ok(());
    }
    let contents = request.list("contents");
    let speaks = |content: &Value| role(content) == "user" && count(content, "functionResponse") == 0;
    let start = contents.iter().rposition(speaks).unwrap_or(0);
    for (at, content) in contents.iter().enumerate().skip(start) {
        let Some(part) = parts(content).iter().find(|part| part.get("functionCall").is_some()) else { continue };
        let signature = part.get("thoughtSignature").and_then(Value::as_str);
        if !signature.is_some_and(|seal| seal == SKIPPED || seal::decrypt("gemini", seal).is_some()) {
            let name = part.pointer("/functionCall/name").and_then(Value::as_str).unwrap_or_default();
            let message = format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                 correctly, and missing thought_signature may lead to degraded model performance. Additional data, function \
                 call `default_api:{name}`, position {}.",
                at + 1
            );
            return Err(rejection("G3", message));
        }
    }
    Ok(())
}
