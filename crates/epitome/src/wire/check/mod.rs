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
pub enum Tail {
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
/// use epitome::wire::{Dialect, Tail, check};
///
/// let request = serde_json::json!([
///     {"role": "user", "content": "read it"},
///     {"role": "assistant", "content": null, "tool_calls": [
///         {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
/// ]);
/// let violations = check(Dialect::Chat, &request, Tail::Closed);
/// assert_eq!(violations[0].rule.name(), "C1");
/// assert_eq!(violations[0].place.to_string(), "messages.1.tool_calls.0");
/// assert!(check(Dialect::Chat, &request, Tail::Open).is_empty());
/// ```
pub fn check(dialect: Dialect, request: &Value, tail: Tail) -> Vec<Violation> {
    let mut report = Report::default();
    match dialect {
        Dialect::Chat => chat::check(request, tail, &mut report),
        Dialect::Responses => responses::check(request, tail, &mut report),
        Dialect::Anthropic => anthropic::check(request, tail, &mut report),
        Dialect::AiSdk => ai_sdk::check(request, tail, &mut report),
    }
    report.in_order()
}
#[derive(Default)]
struct Report(Vec<Violation>);

impl Report {
    fn add(&mut self, rule: Rule, place: Place, detail: impl Into<String>) {
        self.0.push(Violation { rule, place, detail: detail.into() });
    }

    fn in_order(mut self) -> Vec<Violation> {
        self.0.sort_by_key(|violation| (violation.place, violation.rule));
        self.0
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
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Dialect, Reach, Rule, Tail};

    /// A request and the rules it breaks: `C1 messages.1; C2 messages.3`, or nothing.
    pub(super) struct Case {
        pub(super) claim: &'static str,
        pub(super) request: &'static str,
        pub(super) expect: &'static str,
    }

    /// Checks every case; a request written as `{"open": [...]}` is a list with an open tail.
    pub(super) fn check(dialect: Dialect, cases: &[Case]) {
        for Case { claim, request, expect } in cases {
            let request: Value = serde_json::from_str(request).unwrap_or_else(|error| panic!("{claim}: {error}"));
            let found = match request.get("open") {
                Some(list) => verdict(dialect, list, Tail::Open),
                None => verdict(dialect, &request, Tail::Closed),
            };
            assert_eq!(&found, expect, "{claim}");
        }
    }

    /// The rules a request breaks, as a case writes them.
    pub(super) fn verdict(dialect: Dialect, request: &Value, tail: Tail) -> String {
        let violations = super::check(dialect, request, tail);
        violations.iter().map(|found| format!("{} {}", found.rule, found.place)).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn every_rule_that_can_be_judged_has_a_request_that_breaks_it_alone() {
        let cases = [
            super::chat::tests::CASES,
            super::responses::tests::CASES,
            super::anthropic::tests::CASES,
            super::ai_sdk::tests::CASES,
        ];
        let broken: BTreeSet<&str> = cases.iter().flat_map(|cases| cases.iter().filter_map(only_rule)).collect();
        let judged = Rule::ALL.iter().filter(|rule| !matches!(rule.reach(), Reach::Nothing(_)));
        assert_eq!(judged.map(|rule| rule.name()).collect::<BTreeSet<_>>(), broken);
    }

    fn only_rule(case: &Case) -> Option<&'static str> {
        let rules: BTreeSet<&str> = case.expect.split("; ").filter_map(|found| found.split(' ').next()).collect();
        rules.first().copied().filter(|rule| rules.len() == 1 && !rule.is_empty())
    }

    proptest! {
        #[test]
        fn no_json_makes_the_check_panic_or_waver(request in json_value()) {
            for dialect in Dialect::ALL {
                for tail in [Tail::Closed, Tail::Open] {
                    let violations = super::check(dialect, &request, tail);
                    prop_assert!(violations.iter().all(|found| found.rule.dialect() == dialect));
                    prop_assert_eq!(violations, super::check(dialect, &request, tail));
                }
            }
        }

        #[test]
        fn an_open_tail_never_breaks_more_rules(request in json_value()) {
            for dialect in Dialect::ALL {
                let closed = super::check(dialect, &request, Tail::Closed);
                let open = super::check(dialect, &request, Tail::Open);
                prop_assert!(open.iter().all(|found| closed.contains(found)));
            }
        }
    }

    /// Words that the checker looks for, so that generated JSON gets past its first question.
    const WORDS: &[&str] = &[
        "",
        " ",
        "a",
        "b",
        "{}",
        "user",
        "assistant",
        "tool",
        "system",
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "server_tool_use",
        "web_search_tool_result",
        "function_call",
        "function_call_output",
        "reasoning",
        "local_shell_call",
        "local_shell_call_output",
        "item_reference",
        "compaction",
        "compaction_trigger",
        "message",
        "tool-call",
        "tool-result",
        "tool-approval-request",
        "tool-approval-response",
        "enabled",
        "disabled",
        "mistral",
    ];
    const FIELDS: &[&str] = &[
        "role",
        "content",
        "type",
        "id",
        "call_id",
        "tool_use_id",
        "tool_call_id",
        "toolCallId",
        "approvalId",
        "name",
        "input",
        "output",
        "text",
        "signature",
        "tool_calls",
        "function",
        "arguments",
        "cache_control",
        "encrypted_content",
    ];
    const REQUEST_FIELDS: &[&str] =
        &["messages", "input", "system", "tools", "thinking", "store", "model", "reasoning"];

    fn json_value() -> impl Strategy<Value = Value> {
        let lists = prop::collection::vec(anything(), 0..8).prop_map(Value::Array).boxed();
        let field = prop_oneof![lists.clone(), anything()];
        let requests = prop::collection::vec((prop::sample::select(REQUEST_FIELDS), field), 0..6).prop_map(object);
        prop_oneof![anything(), lists, requests]
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            1 => Just(Value::Null),
            1 => any::<bool>().prop_map(Value::from),
            1 => any::<i64>().prop_map(Value::from),
            6 => prop::sample::select(WORDS).prop_map(|word| json!(word)),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                3 => prop::collection::vec((prop::sample::select(FIELDS), inner), 0..6).prop_map(object),
            ]
        })
    }

    fn object(fields: Vec<(&str, Value)>) -> Value {
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
