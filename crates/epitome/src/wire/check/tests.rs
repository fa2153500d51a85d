//! Every rule is broken by a request of its own, and no JSON makes the checks panic.

mod ai_sdk;
mod anthropic;
mod chat;
mod responses;

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Dialect, LastExchange, Reach, Rule};

/// A request and the rules it breaks: `C1 messages.1; C2 messages.3`, or nothing.
struct Case {
    claim: &'static str,
    request: &'static str,
    expect: &'static str,
}

/// Checks every case; a request written as `{"open": [...]}` is a list with an open tail.
fn check(dialect: Dialect, cases: &[Case]) {
    for Case { claim, request, expect } in cases {
        let request: Value = serde_json::from_str(request).unwrap_or_else(|error| panic!("{claim}: {error}"));
        let found = match request.get("open") {
            Some(list) => verdict(dialect, list, LastExchange::Open),
            None => verdict(dialect, &request, LastExchange::Closed),
        };
        assert_eq!(&found, expect, "{claim}");
    }
}

/// The rules a request breaks, as a case writes them.
fn verdict(dialect: Dialect, request: &Value, tail: LastExchange) -> String {
    let violations = super::check(dialect, request, tail);
    violations.iter().map(|found| format!("{} {}", found.rule, found.place)).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_rule_that_can_be_judged_has_a_request_that_breaks_it_alone() {
    let cases = [chat::CASES, responses::CASES, anthropic::CASES, ai_sdk::CASES];
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
            for tail in [LastExchange::Closed, LastExchange::Open] {
                let violations = super::check(dialect, &request, tail);
                prop_assert!(violations.iter().all(|found| found.rule.dialect() == dialect));
                prop_assert_eq!(violations, super::check(dialect, &request, tail));
            }
        }
    }

    #[test]
    fn an_open_tail_never_breaks_more_rules(request in json_value()) {
        for dialect in Dialect::ALL {
            let closed = super::check(dialect, &request, LastExchange::Closed);
            let open = super::check(dialect, &request, LastExchange::Open);
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
const REQUEST_FIELDS: &[&str] = &["messages", "input", "system", "tools", "thinking", "store", "model", "reasoning"];

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
