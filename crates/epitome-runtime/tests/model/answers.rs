//! Answers: whole and in pieces, they become messages that can be appended to the thread as they are.

use epitome::summary::Finish;
use epitome::wire::{Dialect, LastExchange, Severity, Voice, check, say};
use epitome_runtime::model::{ModelAnswer, ModelError, StreamPiece, Usage};
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::{WAYS, ask, model, prompt};

/// The answer to a reply, and what was heard of it.
async fn answer(dialect: Dialect, reply: Reply, stream: bool) -> (Result<ModelAnswer, ModelError>, Vec<StreamPiece>) {
    let server = Server::start([reply]).await;
    ask(&model(&server.url, dialect), &prompt(dialect, "hello", stream)).await
}

/// A stream of events, each named by its type where it has one.
fn stream(events: &[Value]) -> String {
    let named = |event: &Value| event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    events.iter().map(|event| format!("{}data: {event}\n\n", named(event))).collect()
}

/// What was heard: pieces of a kind joined, in their order.
fn joined(heard: &[StreamPiece]) -> String {
    let mut text = String::new();
    for piece in heard {
        match piece {
            StreamPiece::Text(words) => text += &format!("text {words:?}\n"),
            StreamPiece::Reasoning(words) => text += &format!("reasoning {words:?}\n"),
            StreamPiece::Call { id, name } => text += &format!("call {id} {name}\n"),
            StreamPiece::Arguments(words) => text += &format!("arguments {words:?}\n"),
            other => panic!("{other:?} is new"),
        }
    }
    text
}

/// How an answer looks in a snapshot.
fn shown(answer: &ModelAnswer) -> String {
    let ModelAnswer { messages, text, calls, finish, usage, id: _ } = answer;
    let calls: Vec<String> = calls.iter().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect();
    let usage = usage.map(|own| format!("{}/{}/{}/{}", own.input, own.cached, own.written, own.output));
    format!(
        "{}\ntext {text:?}\ncalls {calls:?}\nfinish {finish:?}\nusage {}",
        messages.join("\n"),
        usage.unwrap_or_default()
    )
}

/// Whether a thread with the answer in it, and the results of its calls, is one that the provider takes.
fn fits(dialect: Dialect, answer: &ModelAnswer) {
    let mut messages = vec![say(dialect, Voice::User, "hello")];
    messages.extend(answer.messages.iter().cloned());
    let results = answer.calls.iter().map(|call| match dialect {
        Dialect::Chat => json!({"role": "tool", "tool_call_id": call.id, "content": "ok"}),
        Dialect::Responses => json!({"type": "function_call_output", "call_id": call.id, "output": "ok"}),
        _ => json!({"type": "tool_result", "tool_use_id": call.id, "content": "ok"}),
    });
    match dialect {
        Dialect::Anthropic if !answer.calls.is_empty() => {
            messages.push(json!({"role": "user", "content": results.collect::<Vec<_>>()}).to_string());
        }
        _ => messages.extend(results.map(|result| result.to_string())),
    }
    messages.push(say(dialect, Voice::User, "go on"));
    let list: Value = messages.iter().map(|message| serde_json::from_str::<Value>(message).unwrap()).collect();
    let wrong: Vec<_> = check(dialect, &list, LastExchange::Closed)
        .into_iter()
        .filter(|own| own.severity() == Severity::Error)
        .collect();
    assert_eq!(wrong, []);
}

fn chat_chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null})
}

fn chat_stream() -> String {
    stream(&[
        chat_chunk(json!({"role": "assistant", "content": "", "reasoning_content": "Let me "}), Value::Null),
        chat_chunk(json!({"reasoning_content": "see.", "vendor": {"trace": "t1"}}), Value::Null),
        chat_chunk(json!({"content": "Both: 雪"}), Value::Null),
        chat_chunk(json!({"content": " ☃"}), Value::Null),
        json!({"choices": [{"index": 1, "delta": {"content": "another choice"}, "finish_reason": null}]}),
        chat_chunk(
            json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}}]}),
            Value::Null,
        ),
        chat_chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"p\""}}]}), Value::Null),
        chat_chunk(
            json!({"tool_calls": [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "list", "arguments": ""}, "extra_content": {"signature": "s"}}]}),
            Value::Null,
        ),
        chat_chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}), Value::Null),
        chat_chunk(json!({}), json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 25, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 5}}}),
    ]) + "data: [DONE]\n\n"
}

#[tokio::test]
async fn chat_deltas_become_one_message_with_its_calls() {
    let (answer, heard) = answer(Dialect::Chat, Reply::events(&chat_stream()), true).await;
    let answer = answer.unwrap();
    insta::assert_snapshot!(shown(&answer), @r#"
    {"role":"assistant","content":"Both: 雪 ☃","reasoning_content":"Let me see.","vendor":{"trace":"t1"},"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}},{"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"},"extra_content":{"signature":"s"}}]}
    text "Both: 雪 ☃"
    calls ["call_1 read {\"p\":1}", "call_2 list {}"]
    finish ToolCall
    usage 25/5/0/8
    "#);
    insta::assert_snapshot!(joined(&heard), @r#"
    reasoning "Let me "
    reasoning "see."
    text "Both: 雪"
    text " ☃"
    call call_1 read
    arguments "{\"p\""
    call call_2 list
    "#);
    fits(Dialect::Chat, &answer);
}

fn responses_stream() -> String {
    let item =
        |index: u64, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    stream(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "delta": "Let me see."}),
        item(
            0,
            json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Let me see."}], "encrypted_content": "gAAAA=="}),
        ),
        json!({"type": "response.output_text.delta", "delta": "Both: 雪"}),
        json!({"type": "response.output_text.delta", "delta": " ☃"}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "delta": "{\"p\":1}"}),
        item(
            2,
            json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{\"p\":1}", "status": "completed"}),
        ),
        item(
            1,
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "new", "content": [{"type": "output_text", "text": "Both: 雪 ☃", "annotations": []}]}),
        ),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [], "usage": {"input_tokens": 25, "output_tokens": 8, "input_tokens_details": {"cached_tokens": 5}}}}),
    ])
}

#[tokio::test]
async fn responses_items_are_kept_as_they_were_done() {
    let (answer, heard) = answer(Dialect::Responses, Reply::events(&responses_stream()), true).await;
    let answer = answer.unwrap();
    insta::assert_snapshot!(shown(&answer), @r#"
    {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Let me see."}],"encrypted_content":"gAAAA=="}
    {"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"new","content":[{"type":"output_text","text":"Both: 雪 ☃","annotations":[]}]}
    {"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{\"p\":1}","status":"completed"}
    text "Both: 雪 ☃"
    calls ["call_1 read {\"p\":1}"]
    finish ToolCall
    usage 25/5/0/8
    "#);
    insta::assert_snapshot!(joined(&heard), @r#"
    reasoning "Let me see."
    text "Both: 雪"
    text " ☃"
    call call_1 read
    arguments "{\"p\":1}"
    "#);
    fits(Dialect::Responses, &answer);
}

fn anthropic_stream() -> String {
    let start =
        |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    stream(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 1}}}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "see."})),
        delta(0, json!({"type": "signature_delta", "signature": "EqQB=="})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "AAAA"})),
        stop(1),
        start(2, json!({"type": "text", "text": ""})),
        stop(2),
        start(3, json!({"type": "text", "text": ""})),
        delta(3, json!({"type": "text_delta", "text": "Both: 雪"})),
        delta(3, json!({"type": "citations_delta", "citation": {"cited_text": "x"}})),
        delta(3, json!({"type": "text_delta", "text": " ☃"})),
        stop(3),
        start(4, json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})),
        delta(4, json!({"type": "input_json_delta", "partial_json": "{\"query\":\"snow\"}"})),
        stop(4),
        start(5, json!({"type": "new_block", "told": "a"})),
        delta(5, json!({"type": "new_delta", "told": "b"})),
        stop(5),
        start(
            6,
            json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}, "caller": {"type": "direct"}}),
        ),
        delta(6, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(6, json!({"type": "input_json_delta", "partial_json": "{\"p\": 1.10, "})),
        delta(6, json!({"type": "input_json_delta", "partial_json": "\"n\": 123456789012345678901234567890}"})),
        stop(6),
        start(7, json!({"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}})),
        stop(7),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 8}}),
        json!({"type": "message_stop"}),
    ])
}

#[tokio::test]
async fn anthropic_blocks_are_put_together_exactly() {
    let (answer, heard) = answer(Dialect::Anthropic, Reply::events(&anthropic_stream()), true).await;
    let answer = answer.unwrap();
    insta::assert_snapshot!(shown(&answer), @r#"
    {"role":"assistant","content":[{"type":"thinking","thinking":"Let me see.","signature":"EqQB=="},{"type":"redacted_thinking","data":"AAAA"},{"type":"text","text":"Both: 雪 ☃","citations":[{"cited_text":"x"}]},{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"snow"}},{"type":"new_block","told":"ab"},{"type":"tool_use","id":"toolu_1","name":"read","input":{"p": 1.10, "n": 123456789012345678901234567890},"caller":{"type":"direct"}},{"type":"tool_use","id":"toolu_2","name":"list","input":{}}]}
    text "Both: 雪 ☃"
    calls ["toolu_1 read {\"p\": 1.10, \"n\": 123456789012345678901234567890}", "toolu_2 list {}"]
    finish ToolCall
    usage 113/100/10/8
    "#);
    insta::assert_snapshot!(joined(&heard), @r#"
    reasoning "Let me "
    reasoning "see."
    text "Both: 雪"
    text " ☃"
    call toolu_1 read
    arguments "{\"p\": 1.10, "
    arguments "\"n\": 123456789012345678901234567890}"
    call toolu_2 list
    "#);
}

#[tokio::test]
async fn where_a_stream_is_cut_into_packets_changes_nothing() {
    for (dialect, text) in [
        (Dialect::Chat, chat_stream()),
        (Dialect::Responses, responses_stream()),
        (Dialect::Anthropic, anthropic_stream()),
    ] {
        let whole = answer(dialect, Reply::events(&text), true).await;
        for bytes in [1, 2, 3, 7, 1000] {
            let cut = answer(dialect, Reply::events(&text).in_pieces(bytes), true).await;
            assert_eq!(cut, whole, "{dialect} in pieces of {bytes}");
        }
        let windows = answer(dialect, Reply::events(&text.replace('\n', "\r\n")), true).await;
        assert_eq!(windows, whole, "{dialect} with other line ends");
    }
}

#[tokio::test]
async fn half_an_answer_is_never_an_answer() {
    for (dialect, text, ends) in [
        (Dialect::Chat, chat_stream(), "\"finish_reason\":\"tool_calls\""),
        (Dialect::Responses, responses_stream(), "event: response.completed"),
        (Dialect::Anthropic, anthropic_stream(), "event: message_delta"),
    ] {
        let end = text.find(ends).unwrap();
        let events: Vec<&str> = text[..end].split_inclusive("\n\n").collect();
        for count in 1..events.len() {
            let half = events[..count].concat();
            let error = answer(dialect, Reply::events(&half), true).await.0.unwrap_err();
            assert!(matches!(error, ModelError::Garbled(_)), "{dialect} after {count}: {error:?}");
            let broken = answer(dialect, Reply::events(&half).and_break(), true).await.0.unwrap_err();
            assert!(matches!(broken, ModelError::Unreachable(_)), "{dialect} after {count}: {broken:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_is_whole_once_it_has_said_how_it_ended() {
    let text = chat_stream();
    let end = text.find("data: {\"choices\":[],").unwrap();
    let (lost, _) = answer(Dialect::Chat, Reply::events(&text[..end]).and_break(), true).await;
    let (whole, _) = answer(Dialect::Chat, Reply::events(&text), true).await;
    let whole = whole.unwrap();
    assert_eq!(lost.unwrap(), ModelAnswer { usage: None, ..whole });
}

const CHAT: &str = r#"{"id":"c","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hello","refusal":null,"tool_calls":[],"reasoning_details":[{"type":"sealed","data":"x"}]}}],"usage":{"prompt_tokens":25,"completion_tokens":8}}"#;
const RESPONSES: &str = r#"{"id":"r","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"message","id":"msg_1","role":"assistant", "status":"completed","content":[{"type":"output_text","text":"Hello","annotations":[]}]}],"usage":{"input_tokens":25,"output_tokens":8}}"#;
const ANTHROPIC: &str = r#"{"id":"a","type":"message","role":"assistant","content":[{"type":"text","text":"Hello"}, {"type":"tool_use","id":"toolu_1","name":"read","input":{"p": 1.10}}],"stop_reason":"tool_use","usage":{"input_tokens":5,"cache_read_input_tokens":20,"output_tokens":8}}"#;

#[tokio::test]
async fn an_answer_that_comes_whole_keeps_its_bytes() {
    let mut all = String::new();
    for (dialect, body) in [(Dialect::Chat, CHAT), (Dialect::Responses, RESPONSES), (Dialect::Anthropic, ANTHROPIC)] {
        let answer = answer(dialect, Reply::json(200, body), false).await.0.unwrap();
        fits(dialect, &answer);
        all += &format!("{}\n\n", shown(&answer));
    }
    insta::assert_snapshot!(all, @r#"
    {"role":"assistant","content":"Hello","reasoning_details":[{"type":"sealed","data":"x"}]}
    text "Hello"
    calls []
    finish Stop
    usage 25/0/0/8

    {"type":"message","id":"msg_1","role":"assistant", "status":"completed","content":[{"type":"output_text","text":"Hello","annotations":[]}]}
    text "Hello"
    calls []
    finish Stop
    usage 25/0/0/8

    {"role":"assistant","content":[{"type":"text","text":"Hello"},{"type":"tool_use","id":"toolu_1","name":"read","input":{"p": 1.10}}]}
    text "Hello"
    calls ["toolu_1 read {\"p\": 1.10}"]
    finish ToolCall
    usage 25/20/0/8
    "#);
}

#[tokio::test]
async fn a_server_that_cannot_stream_is_heard_all_the_same() {
    for (dialect, body) in [(Dialect::Chat, CHAT), (Dialect::Responses, RESPONSES), (Dialect::Anthropic, ANTHROPIC)] {
        let (answer, heard) = answer(dialect, Reply::json(200, body), true).await;
        assert_eq!((answer.unwrap().text.as_str(), &heard[0]), ("Hello", &StreamPiece::Text("Hello".into())));
    }
}

#[tokio::test]
async fn nothing_is_heard_of_an_answer_that_was_wanted_whole() {
    assert_eq!(answer(Dialect::Chat, Reply::json(200, CHAT), false).await.1, []);
}

#[tokio::test]
async fn the_end_of_an_answer_is_told_in_each_dialect() {
    let chat = |word: &str, refusal: Value| json!({"choices": [{"finish_reason": word, "message": {"role": "assistant", "content": "x", "refusal": refusal}}]});
    let responses = |status: &str, reason: Value, part: &str| {
        json!({"status": status, "incomplete_details": {"reason": reason},
            "output": [{"type": "message", "role": "assistant", "content": [{"type": part, part: "x", "text": "x"}]}]})
    };
    let anthropic = |word: &str| json!({"content": [{"type": "text", "text": "x"}], "stop_reason": word});
    for (dialect, body, finish) in [
        (Dialect::Chat, chat("stop", Value::Null), Finish::Stop),
        (Dialect::Chat, chat("length", Value::Null), Finish::Length),
        (Dialect::Chat, chat("content_filter", Value::Null), Finish::Refusal),
        (Dialect::Chat, chat("stop", json!("I will not")), Finish::Refusal),
        (Dialect::Responses, responses("completed", Value::Null, "output_text"), Finish::Stop),
        (Dialect::Responses, responses("incomplete", json!("max_output_tokens"), "output_text"), Finish::Length),
        (Dialect::Responses, responses("incomplete", json!("content_filter"), "output_text"), Finish::Refusal),
        (Dialect::Responses, responses("completed", Value::Null, "refusal"), Finish::Refusal),
        (Dialect::Anthropic, anthropic("end_turn"), Finish::Stop),
        (Dialect::Anthropic, anthropic("max_tokens"), Finish::Length),
        (Dialect::Anthropic, anthropic("refusal"), Finish::Refusal),
        (Dialect::Anthropic, anthropic("model_context_window_exceeded"), Finish::Length),
    ] {
        let own = answer(dialect, Reply::json(200, &body.to_string()), false).await.0.unwrap();
        assert_eq!(own.finish, finish, "{body}");
    }
}

#[tokio::test]
async fn what_is_not_an_answer_is_told_as_such() {
    for body in ["", "<html>", "{}", r#"{"choices":[]}"#, r#"{"status":"in_progress","output":[]}"#, "[1]"] {
        for dialect in [Dialect::Chat, Dialect::Anthropic, Dialect::Responses] {
            for stream in WAYS {
                let answer = answer(dialect, Reply::json(200, body), stream).await.0;
                // A response without items is one; only Responses may say nothing.
                let empty = dialect == Dialect::Responses && matches!(body, "{}" | r#"{"choices":[]}"#);
                match answer {
                    Ok(answer) => assert!(empty && answer.messages.is_empty(), "{dialect} {body:?}"),
                    Err(error) => assert!(!empty && matches!(error, ModelError::Garbled(_)), "{error:?}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_page_of_some_other_server_is_no_overflow() {
    for kind in ["text/html", "text/plain"] {
        for body in ["<html>welcome</html>", ""] {
            let error = answer(Dialect::Chat, Reply::new(200, kind, body), true).await.0.unwrap_err();
            assert!(matches!(error, ModelError::Garbled(_)), "{kind} {body:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn servers_that_bend_the_rules_of_calls_are_understood() {
    let call = |index: Value, id: &str, name: &str, arguments: &str| {
        let mut call = json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
        if index.is_null() {
            call.as_object_mut().unwrap().remove("index");
        }
        chat_chunk(json!({"tool_calls": [call]}), Value::Null)
    };
    let end = chat_chunk(json!({}), json!("stop"));
    for (claim, events, calls) in [
        (
            "every call at index 0",
            vec![call(json!(0), "a", "x", "{}"), call(json!(0), "b", "y", "{}")],
            vec!["x {}", "y {}"],
        ),
        ("no index", vec![call(Value::Null, "a", "x", "{}"), call(Value::Null, "b", "y", "{}")], vec!["x {}", "y {}"]),
        (
            "the id said again",
            vec![call(json!(0), "a", "x", "{\"p\""), call(json!(0), "a", "x", ":1}")],
            vec!["x {\"p\":1}"],
        ),
        ("no id and no arguments", vec![call(json!(0), "", "x", "")], vec!["x {}"]),
    ] {
        let text = stream(&[events, vec![end.clone()]].concat());
        let (answer, heard) = answer(Dialect::Chat, Reply::events(&text), true).await;
        let answer = answer.unwrap();
        let own: Vec<String> = answer.calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect();
        assert_eq!(own, calls, "{claim}");
        assert_eq!(answer.finish, Finish::ToolCall, "{claim}");
        let told = heard.iter().filter_map(|piece| match piece {
            StreamPiece::Call { id, .. } => Some(id.as_str()),
            _ => None,
        });
        assert!(told.eq(answer.calls.iter().map(|call| &*call.id)), "{claim}: {heard:?}");
        fits(Dialect::Chat, &answer);
    }
}

#[tokio::test]
async fn half_a_call_is_left_out_where_the_output_ended() {
    let events = |word: &str| {
        stream(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "I will"}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "rm", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"path\": \"/tm"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ])
    };
    let cut = answer(Dialect::Anthropic, Reply::events(&events("max_tokens")), true).await.0.unwrap();
    assert_eq!((cut.calls.len(), cut.finish, cut.text.as_str()), (0, Finish::Length, "I will"));
    assert_eq!(cut.messages, [r#"{"role":"assistant","content":[{"type":"text","text":"I will"}]}"#]);
    assert_eq!(cut.usage, Some(Usage { input: 1, output: 9, ..Usage::default() }));
    let wrong = answer(Dialect::Anthropic, Reply::events(&events("tool_use")), true).await.0.unwrap_err();
    assert!(matches!(wrong, ModelError::Garbled(_)), "{wrong:?}");
}
