//! The rules of Vercel AI SDK message lists (`CoreMessage`, `ModelMessage`), S1 to S7.
//!
//! The SDK's own versions differ in field names (`args` or `input`, `result` or `output`), so only what all of them
//! share is judged. What the provider behind the SDK asks for in addition is not.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::calls::{Answer, Calls};
use super::{LastExchange, List, Place, Report, Request, Rule, list, parts, text};
pub(super) fn check(request: &Value, tail: LastExchange, report: &mut Report) {
    let Some(request) = Request::open(request, List::Messages).filter(|request| !request.entries.is_empty()) else {
        let whole = Place::whole(List::Messages);
        return report.add(Rule::S3, whole, "`messages` must be a list with at least one message.");
    };
    for (at, message) in request.entries.iter().enumerate() {
        check_message(message, Place::entry(List::Messages, at), report);
    }
    check_pairs(request.entries, tail, report);
    check_system(request.entries, report);
}

crate::named_enum! {
    enum Role {
        System = "system",
        User = "user",
        Assistant = "assistant",
        Tool = "tool",
    }
}

fn role(message: &Value) -> Option<Role> {
    Role::from_name(text(message, "role")?)
}

fn check_message(message: &Value, place: Place, report: &mut Report) {
    let Some(role) = role(message) else {
        return report.add(Rule::S3, place, "A message must have a role of system, user, assistant or tool.");
    };
    match (role, message.get("content")) {
        (Role::Tool, Some(Value::String(_))) => {
            report.add(Rule::S3, place, "The `content` of a tool message must be a list of parts.");
        }
        (Role::System, Some(Value::Array(_))) => {
            report.add(Rule::S3, place, "The `content` of a system message must be a string.");
        }
        // What it says are calls beside its content, as in old versions.
        (Role::Assistant, Some(Value::String(_) | Value::Array(_))) if !list(message, "toolCalls").is_empty() => {}
        (_, Some(Value::String(text))) if text.is_empty() => report.add(Rule::S4, place, "The message is empty."),
        (_, Some(Value::Array(parts))) if parts.iter().all(is_empty_text) => {
            report.add(Rule::S4, place, "The message has no part that says anything.");
        }
        (_, Some(Value::String(_) | Value::Array(_))) => {}
        _ => report.add(Rule::S3, place, "`content` must be a string or a list of parts."),
    }
    for (at, part) in parts(message).iter().enumerate() {
        check_part(part, role, place.content(at), report);
    }
}

/// The SDK itself drops such parts before it sends a message.
fn is_empty_text(part: &Value) -> bool {
    text(part, "type") == Some("text") && text(part, "text") == Some("")
}

fn check_part(part: &Value, role: Role, place: Place, report: &mut Report) {
    let Some(kind) = text(part, "type") else {
        return report.add(Rule::S3, place, "A part must be an object with a `type`.");
    };
    for field in fields_of(kind).iter().filter(|field| text(part, field).is_none()) {
        report.add(Rule::S3, place, format!("The `{field}` of a {kind} part must be a string."));
    }
    if !may_hold(role, kind) {
        report.add(Rule::S6, place, format!("A {kind} part does not belong in a {} message.", role.name()));
    }
}

/// The textual fields that every version of the SDK asks for.
fn fields_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "text" | "reasoning" => &["text"],
        "tool-call" | "tool-result" => &["toolCallId", "toolName"],
        "tool-approval-request" => &["approvalId", "toolCallId"],
        "tool-approval-response" => &["approvalId"],
        _ => &[],
    }
}

fn may_hold(role: Role, kind: &str) -> bool {
    match kind {
        "tool-call" | "reasoning" | "redacted-reasoning" | "tool-approval-request" => role == Role::Assistant,
        "tool-result" => matches!(role, Role::Tool | Role::Assistant),
        "tool-approval-response" => role == Role::Tool,
        "text" | "image" | "file" => role != Role::Tool,
        _ => true,
    }
}

fn check_pairs(messages: &[Value], tail: LastExchange, report: &mut Report) {
    let mut exchange = Exchange::default();
    let mut last = None;
    for (at, message) in messages.iter().enumerate() {
        let role = role(message);
        if exchange_ends(last, role) {
            exchange.close(report);
        }
        for (part_at, part) in parts(message).iter().enumerate() {
            let place = Place::entry(List::Messages, at).content(part_at);
            match role {
                Some(Role::Assistant) => exchange.read_said(part, place, report),
                Some(Role::Tool) => exchange.read_answer(part, place, report),
                _ => {}
            }
        }
        for call in list(message, "toolCalls").iter().filter(|_| role == Some(Role::Assistant)) {
            if let Some(id) = text(call, "toolCallId") {
                exchange.make(call, id, Place::entry(List::Messages, at), report);
            }
        }
        last = role;
    }
    if tail == LastExchange::Closed {
        exchange.close(report);
    }
}

/// An exchange is a run of assistant messages and the run of tool messages after it.
fn exchange_ends(last: Option<Role>, role: Option<Role>) -> bool {
    match role {
        Some(Role::Tool) => false,
        Some(Role::Assistant) => last != Some(Role::Assistant),
        Some(Role::System | Role::User) | None => true,
    }
}

/// The calls of an exchange, and what excuses some of them from an answer.
#[derive(Default)]
struct Exchange<'a> {
    calls: Calls<'a>,
    /// The calls that wait for an approval, by the approval's id.
    approvals: HashMap<&'a str, &'a str>,
    /// Calls whose approval was answered; the SDK runs them, or not, itself.
    decided: HashSet<&'a str>,
    /// Calls that the provider runs, of all exchanges: their results may come late.
    provider: HashSet<&'a str>,
}

impl<'a> Exchange<'a> {
    fn read_said(&mut self, part: &'a Value, place: Place, report: &mut Report) {
        let Some(id) = text(part, "toolCallId") else { return };
        match text(part, "type") {
            Some("tool-call") => self.make(part, id, place, report),
            Some("tool-result") => self.answer(id, place, report),
            Some("tool-approval-request") => {
                self.approvals.extend(text(part, "approvalId").map(|approval| (approval, id)));
            }
            _ => {}
        }
    }

    fn read_answer(&mut self, part: &'a Value, place: Place, report: &mut Report) {
        match text(part, "type") {
            Some("tool-result") => {
                if let Some(id) = text(part, "toolCallId") {
                    self.answer(id, place, report);
                }
            }
            Some("tool-approval-response") => {
                let call = text(part, "approvalId").and_then(|approval| self.approvals.get(approval));
                self.decided.extend(call);
            }
            _ => {}
        }
    }

    fn make(&mut self, part: &'a Value, id: &'a str, place: Place, report: &mut Report) {
        if part.get("providerExecuted").and_then(Value::as_bool) == Some(true) {
            self.provider.insert(id);
        } else if !self.calls.make(id, place) {
            report.add(Rule::S5, place, format!("Two calls of the exchange have the id `{id}`."));
        }
    }

    fn answer(&mut self, id: &str, place: Place, report: &mut Report) {
        match self.calls.answer(id) {
            Answer::First => {}
            Answer::Again => report.add(Rule::S5, place, format!("The call `{id}` has more than one result.")),
            Answer::Stray if self.provider.contains(id) => {}
            Answer::Stray => {
                report.add(
                    Rule::S2,
                    place,
                    format!("No tool-call `{id}` in the assistant messages before the result."),
                );
            }
        }
    }

    fn close(&mut self, report: &mut Report) {
        for (id, place) in self.calls.close().filter(|(id, _)| !self.decided.contains(id)) {
            report.add(Rule::S1, place, format!("Tool result is missing for tool call `{id}`."));
        }
        self.approvals.clear();
        self.decided.clear();
    }
}

fn check_system(messages: &[Value], report: &mut Report) {
    let late = messages.iter().enumerate().skip_while(|(_, message)| role(message) == Some(Role::System));
    for (at, _) in late.filter(|(_, message)| role(message) == Some(Role::System)) {
        let place = Place::entry(List::Messages, at);
        report.add(Rule::S7, place, "Providers behind the SDK refuse a system message after other messages.");
    }
}
