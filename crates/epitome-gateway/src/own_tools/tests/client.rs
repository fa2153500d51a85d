//! A strict client of each dialect: it fails on any stream that a provider would not send, and says what it understood.

use std::collections::BTreeMap;

use epitome::wire::Dialect;
use serde_json::Value;

use super::parsed;

/// What a client understood of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::own_tools) struct Understood {
    pub(in crate::own_tools) text: String,
    /// Each call as `id name(arguments)`.
    pub(in crate::own_tools) calls: Vec<String>,
    /// The word it ended with.
    pub(in crate::own_tools) end: String,
    /// The usage it was told last.
    pub(in crate::own_tools) usage: Value,
}

/// Reads a whole stream, and fails unless it is one.
pub(in crate::own_tools) fn understand(dialect: Dialect, stream: &str) -> Understood {
    for ours in ["recall", "read_artifact", "own_", "Port 7311."] {
        assert!(!stream.contains(ours), "a trace of the gateway, {ours}, in:\n{stream}");
    }
    match dialect {
        Dialect::Chat => chat(stream),
        Dialect::Responses => responses(stream),
        _ => anthropic(stream),
    }
}

fn str_at<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn chat(stream: &str) -> Understood {
    let mut understood = Understood::default();
    let mut events = parsed(stream);
    assert_eq!(events.pop().unwrap().1, "[DONE]", "the last event of\n{stream}");
    let mut roles = 0;
    let mut calls: Vec<(String, String, String)> = Vec::new();
    let first = events[0].1.clone();
    for (_, chunk) in events {
        assert_eq!((&chunk["id"], &chunk["created"]), (&first["id"], &first["created"]), "{stream}");
        assert!(chunk["usage"].is_null() || !understood.end.is_empty(), "usage before the end: {stream}");
        if chunk["usage"].is_object() {
            assert!(understood.usage.is_null(), "usage twice: {stream}");
            understood.usage = chunk["usage"].clone();
        }
        let Some(choice) = chunk.pointer("/choices/0") else { continue };
        assert!(understood.end.is_empty(), "a choice behind the end: {stream}");
        roles += usize::from(choice.pointer("/delta/role").is_some());
        understood.text.push_str(str_at(choice, "/delta/content"));
        for piece in choice.pointer("/delta/tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let index = piece["index"].as_u64().unwrap() as usize;
            assert!(index <= calls.len(), "call {index} comes before its predecessors: {stream}");
            if index == calls.len() {
                assert_ne!(str_at(piece, "/id"), "", "a call begins without an id: {stream}");
                calls.push(Default::default());
            }
            calls[index].0.push_str(str_at(piece, "/id"));
            let body = if piece["custom"].is_object() { "custom" } else { "function" };
            calls[index].1.push_str(str_at(&piece[body], "/name"));
            calls[index].2.push_str(str_at(&piece[body], if body == "custom" { "/input" } else { "/arguments" }));
        }
        understood.end = str_at(choice, "/finish_reason").to_owned();
    }
    assert_eq!(roles, 1, "{stream}");
    assert_ne!(understood.end, "", "no end: {stream}");
    assert_eq!(understood.end == "tool_calls", !calls.is_empty(), "{stream}");
    understood.calls = calls.into_iter().map(|(id, name, arguments)| format!("{id} {name}({arguments})")).collect();
    understood
}

fn responses(stream: &str) -> Understood {
    let mut understood = Understood::default();
    let mut open: BTreeMap<u64, Value> = BTreeMap::new();
    let mut done: Vec<Value> = Vec::new();
    let mut begun = 0;
    let events = parsed(stream);
    let last = events.len() - 1;
    for (at, (name, event)) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at as u64, "{stream}");
        assert_eq!(event["type"], name.as_str(), "{stream}");
        let index = event["output_index"].as_u64();
        match name.as_str() {
            "response.created" => assert_eq!(at, 0, "{stream}"),
            "response.in_progress" => assert_eq!(at, 1, "{stream}"),
            "response.output_item.added" => {
                assert_eq!(index, Some(begun), "items are numbered through: {stream}");
                begun += 1;
                open.insert(index.unwrap(), event["item"].clone());
            }
            "response.output_item.done" => {
                let item = open.remove(&index.unwrap()).expect("an item is done that was not added");
                assert_eq!(item["id"], event["item"]["id"], "{stream}");
                if item["type"] == "function_call" {
                    let item = &event["item"];
                    let call =
                        [str_at(item, "/call_id"), " ", str_at(item, "/name"), "(", str_at(item, "/arguments"), ")"];
                    understood.calls.push(call.concat());
                }
                done.push(event["item"].clone());
            }
            "response.completed" | "response.incomplete" => {
                assert_eq!(at, last, "{stream}");
                let response = &event["response"];
                assert_eq!(
                    response["output"],
                    Value::Array(done.clone()),
                    "the list at the end is what was streamed: {stream}"
                );
                assert_eq!(response["id"], events[0].1["response"]["id"], "{stream}");
                understood.end = str_at(response, "/status").to_owned();
                understood.usage = response["usage"].clone();
            }
            _ => {
                let item = open
                    .get(&index.expect("the event of an item"))
                    .unwrap_or_else(|| panic!("{name} outside of an item: {stream}"));
                assert_eq!(event["item_id"], item["id"], "{stream}");
                if name == "response.output_text.delta" {
                    understood.text.push_str(str_at(event, "/delta"));
                }
            }
        }
    }
    assert!(open.is_empty() && !understood.end.is_empty(), "{stream}");
    understood
}

fn anthropic(stream: &str) -> Understood {
    let mut understood = Understood::default();
    let mut open: Option<(u64, Value, String)> = None;
    let mut begun = 0;
    let events: Vec<_> = parsed(stream).into_iter().filter(|(name, _)| name != "ping").collect();
    let last = events.len() - 1;
    for (at, (name, event)) in events.iter().enumerate() {
        assert_eq!(event["type"], name.as_str(), "{stream}");
        match name.as_str() {
            "message_start" => assert_eq!(at, 0, "{stream}"),
            "content_block_start" => {
                assert_eq!((event["index"].as_u64(), open.is_none()), (Some(begun), true), "{stream}");
                open = Some((begun, event["content_block"].clone(), String::new()));
                begun += 1;
            }
            "content_block_delta" => {
                let (index, _, input) = open.as_mut().expect("a delta outside of a block");
                assert_eq!(event["index"], *index, "{stream}");
                input.push_str(str_at(event, "/delta/partial_json"));
                understood.text.push_str(str_at(event, "/delta/text"));
            }
            "content_block_stop" => {
                let (index, block, input) = open.take().expect("a stop outside of a block");
                assert_eq!(event["index"], index, "{stream}");
                if block["type"] == "tool_use" {
                    understood.calls.push(format!("{} {}({input})", str_at(&block, "/id"), str_at(&block, "/name")));
                }
            }
            "message_delta" => {
                assert!(open.is_none() && understood.end.is_empty(), "{stream}");
                understood.end = str_at(event, "/delta/stop_reason").to_owned();
                understood.usage = event["usage"].clone();
            }
            "message_stop" => assert_eq!(at, last, "{stream}"),
            _ => panic!("{name} in {stream}"),
        }
    }
    assert_eq!((events[0].0.as_str(), events[last].0.as_str()), ("message_start", "message_stop"), "{stream}");
    assert_eq!(understood.end == "tool_use", !understood.calls.is_empty(), "{stream}");
    understood
}
