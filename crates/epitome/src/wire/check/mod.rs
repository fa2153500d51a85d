//! The strict check: whether a provider would take a request, rule by rule, and where it would not.
//!
//! It reads a request as JSON and reports; it never repairs, never fails and never asks anyone. What cannot be decided
//! from the request alone is not guessed: [`Rule::reach`] says which rules those are. Block, part and item types it
//! does not know are carried, never reported. The cost is linear in the size of the request.

mod ai_sdk;
mod anthropic;
mod calls;
mod chat;
mod place;
mod responses;
mod rule;

pub use place::Place;
pub use rule::{Reach, Rule, Severity};

use std::fmt;

use serde_json::{Map, Value};

use super::Dialect;
use place::List;

/// A rule that a request breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where it is broken.
    pub place: Place,
    /// What is wrong there, in one sentence.
    pub detail: String,
}

impl Violation {
    /// What it costs.
    pub fn severity(&self) -> Severity {
        self.rule.severity()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.rule, self.place, self.detail)
    }
}

/// Whether the end of a message list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastExchange {
    /// It is a request to be sent: every call must be answered.
    Closed,
    /// It is a session that stopped in flight: calls of the very last exchange may still be unanswered.
    Open,
}

/// Checks a whole request, or a bare list of messages or items, against a dialect's rules.
///
/// Rules about other fields of a request (`tools`, `thinking`, `store`, …) are skipped on a bare list. The violations
/// come in the order of their places.
///
/// ```
/// use epitome::wire::{Dialect, LastExchange, check};
///
/// let request = serde_json::json!([
///     {"role": "user", "content": "read it"},
///     {"role": "assistant", "content": null, "tool_calls": [
///         {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
/// ]);
/// let violations = check(Dialect::Chat, &request, LastExchange::Closed);
/// assert_eq!(violations[0].rule.name(), "C1");
/// assert_eq!(violations[0].place.to_string(), "messages.1.tool_calls.0");
/// assert!(check(Dialect::Chat, &request, LastExchange::Open).is_empty());
/// ```
pub fn check(dialect: Dialect, request: &Value, tail: LastExchange) -> Vec<Violation> {
    let mut report = Report::default();
    match dialect {
        Dialect::Chat => chat::check(request, tail, &mut report),
        Dialect::Responses => responses::check(request, tail, &mut report),
        Dialect::Anthropic => anthropic::check(request, tail, &mut report),
        Dialect::AiSdk => ai_sdk::check(request, tail, &mut report),
    }
    report.0.sort_by_key(|violation| (violation.place, violation.rule));
    report.0
}
#[derive(Default)]
struct Report(Vec<Violation>);

impl Report {
    fn add(&mut self, rule: Rule, place: Place, detail: impl Into<String>) {
        self.0.push(Violation { rule, place, detail: detail.into() });
    }
}

/// A request taken apart: its list, and the fields around it unless only the list was given.
struct Request<'a> {
    fields: Option<&'a Map<String, Value>>,
    entries: &'a [Value],
}

impl<'a> Request<'a> {
    /// Finds the list in a request; nothing if there is none.
    fn open(request: &'a Value, list: List) -> Option<Self> {
        let (fields, entries) = match request {
            Value::Array(entries) => (None, entries),
            Value::Object(fields) => (Some(fields), fields.get(list.name())?.as_array()?),
            _ => return None,
        };
        Some(Request { fields, entries })
    }

    /// A field of the request; nothing if it is null.
    fn field(&self, name: &str) -> Option<&'a Value> {
        self.fields.and_then(|fields| fields.get(name)).filter(|value| !value.is_null())
    }

    /// True for a whole request that declares no tools.
    fn lacks_tools(&self) -> bool {
        let declared = self.field("tools").is_some_and(|tools| tools.as_array().is_none_or(|tools| !tools.is_empty()));
        self.fields.is_some() && !declared
    }
}
fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}
fn present<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// The parts of a message whose content is a list; none otherwise.
fn parts(message: &Value) -> &[Value] {
    list(message, "content")
}

/// The entries of a field that is a list; none otherwise.
fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
