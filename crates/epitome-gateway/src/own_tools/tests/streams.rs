//! Streams that some provider sends, one by one.

use bytes::Bytes;
use epitome::wire::Dialect::{self, Anthropic, Chat, Responses};
use serde_json::{Value, json};

use super::client::understand;
use super::provider::{Answer, Part, stream};
use super::{Seen, TOOLS, parsed, spliced};
use crate::own_tools::{ANSWER_BYTES_MAX, AnswerEnd, AnswerSplicer, GIVEN_UP};
use crate::sse::{Event, Framer};
use crate::tools::Outcome;

/// Splices answers that are given as JSON events, a line each, split at every byte, and checks that the split is nothing
/// to anybody.
fn splice_events(dialect: Dialect, answers: &[&str]) -> Seen {
    let streams: Vec<String> = answers.iter().map(|lines| stream(dialect, lines)).collect();
    let whole = spliced(dialect, &streams, usize::MAX, 9);
    for piece_bytes in 1..40 {
        let seen = spliced(dialect, &streams, piece_bytes, 9);
        assert_eq!(seen.client, whole.client, "in pieces of {piece_bytes}");
        assert_eq!(seen.bodies, whole.bodies, "in pieces of {piece_bytes}");
    }
    whole.check_requests(dialect);
    whole
}

fn done(dialect: Dialect, number: usize) -> String {
    let parts = [Part::Text(vec!["7311".into()])];
    Answer { number, parts: &parts, piece_bytes: 8 }.streamed(dialect)
}

fn last_message(body: &str, key: &str, back: usize) -> Value {
    let body: Value = serde_json::from_str(body).unwrap();
    let list = body[key].as_array().unwrap();
    list[list.len() - back].clone()
}

/// Chat answers: each is one that calls ours alone, in a form that some server has; one more ends the turn.
const OWN_CHAT_ANSWERS: [(&str, &str); 6] = [
    (
        "a name in pieces, arguments in pieces",
        r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"own_1","type":"function","function":{"name":"re"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"call"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}"#,
    ),
    (
        "the call whole, with the end, and the usage beside it",
        r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"own_1","type":"function","function":{"name":"recall","arguments":"{\"q\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    ),
    (
        "an end that does not speak of calls",
        r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"own_1","type":"function","function":{"name":"recall","arguments":"{\"q\":1}"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    ),
    (
        "no index, and the role with every chunk",
        r#"{"id":"a","created":1,"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"delta":{"tool_calls":[{"id":"own_1","type":"function","function":{"name":"recall","arguments":"{\"q\":1}"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    ),
    (
        "the name again with every piece",
        r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"own_1","function":{"name":"recall","arguments":"{\"q\""}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"own_1","function":{"name":"recall","arguments":":1}"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    ),
    (
        "a first chunk without choices",
        r#"{"id":"a","created":1,"choices":[],"prompt_filter_results":[]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"own_1","type":"function","function":{"name":"recall","arguments":"{\"q\":1}"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    ),
];

#[test]
fn a_call_of_ours_is_recognized_in_every_form_that_chat_servers_send() {
    for (form, lines) in OWN_CHAT_ANSWERS {
        let streams = [stream(Chat, lines), done(Chat, 1)];
        for piece_bytes in [1, 7, 4096] {
            let seen = spliced(Chat, &streams, piece_bytes, 9);
            assert_eq!(seen.calls, [[r#"recall({"q":1})"#]], "{form}");
            assert_eq!(understand(Chat, &seen.client).text, "7311", "{form}");
            seen.check_requests(Chat);
            let call = &last_message(&seen.bodies[1], "messages", 2)["tool_calls"][0];
            assert_eq!(call["function"], json!({"name": "recall", "arguments": "{\"q\":1}"}), "{form}");
        }
    }
}

#[test]
fn calls_of_the_clients_are_numbered_through_without_ours() {
    let seen = splice_events(
        Chat,
        &[
            r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"own_1","type":"function","function":{"name":"recall","arguments":""}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"a1","type":"function","function":{"name":"read","arguments":""}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":2,"id":"a2","type":"custom","custom":{"name":"patch","input":"*"}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":1}"}},{"index":1,"function":{"arguments":"{\"p\""}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":":2}"}}]},"finish_reason":"tool_calls"}]}
        {"id":"a","created":1,"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        ],
    );
    let understood = understand(Chat, &seen.client);
    assert_eq!(understood.calls, [r#"a1 read({"p":2})"#, "a2 patch(*)"]);
    assert_eq!((understood.usage, seen.calls.len()), (json!({"prompt_tokens": 1, "completion_tokens": 2}), 0));
}

#[test]
fn a_client_may_have_tools_whose_names_begin_like_ours() {
    for name in ["read", "rec", "recall_all", "re"] {
        let lines = r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"NAME","arguments":""}}]},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
        let streamed = stream(Chat, &lines.replace("NAME", name));
        assert_eq!(spliced(Chat, std::slice::from_ref(&streamed), 9, 9).client, streamed, "{name}");
    }
}

#[test]
fn a_model_that_goes_on_calling_is_told_to_stop_and_then_stopped() {
    let parts = [Part::Text(vec!["Hm.".into()]), Part::Call("recall", r#"{"q":1}"#.into())];
    for (dialect, end) in [(Chat, "stop"), (Responses, "completed"), (Anthropic, "end_turn")] {
        let streams: Vec<String> =
            (0..3).map(|number| Answer { number, parts: &parts, piece_bytes: 9 }.streamed(dialect)).collect();
        let seen = spliced(dialect, &streams, 50, 2);
        let understood = understand(dialect, &seen.client);
        assert_eq!((understood.text.as_str(), understood.end.as_str()), ("Hm.Hm.Hm.", end));
        seen.check_requests(dialect);
        assert!(seen.bodies[2].contains(GIVEN_UP) && !seen.bodies[1].contains(GIVEN_UP));
    }
}

#[test]
fn a_call_cut_off_by_the_limit_is_not_performed_and_the_client_learns_of_the_limit() {
    let chat = stream(
        Chat,
        r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"Hm."},"finish_reason":null}]}
        {"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"own_1","type":"function","function":{"name":"recall","arguments":"{\"q"}}]},"finish_reason":"length"}]}"#,
    );
    let anthropic = stream(
        Anthropic,
        r#"{"type":"message_start","message":{"id":"m","model":"claude-opus-4-6","usage":{"input_tokens":1,"output_tokens":1}}}
        {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hm."}}
        {"type":"content_block_stop","index":0}
        {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"own_1","name":"recall","input":{}}}
        {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"q"}}
        {"type":"content_block_stop","index":1}
        {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":9}}
        {"type":"message_stop"}"#,
    );
    for (dialect, streamed, end) in [(Chat, chat, "length"), (Anthropic, anthropic, "max_tokens")] {
        let seen = spliced(dialect, &[streamed], 20, 9);
        assert_eq!((understand(dialect, &seen.client).end.as_str(), seen.calls.len()), (end, 0));
    }
}

#[test]
fn an_incomplete_response_ends_as_one_without_our_calls() {
    let seen = splice_events(
        Responses,
        &[
            r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","output":[],"store":false}}
        {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"fc_own_1","type":"function_call","call_id":"own_1","name":"recall","arguments":""}}
        {"type":"response.incomplete","sequence_number":2,"response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"store":false,"output":[{"id":"fc_own_1","type":"function_call","call_id":"own_1","name":"recall","arguments":"{"}],"usage":null}}"#,
        ],
    );
    assert_eq!(understand(Responses, &seen.client).end, "incomplete");
}

#[test]
fn reasoning_goes_with_the_call_behind_it_unless_the_client_has_read_of_it() {
    let call = || Part::Call("recall", r#"{"q":1}"#.into());
    for (tells, shown) in [(false, 0), (true, 1)] {
        let parts = [Part::Thinking("hm".into(), tells), call()];
        let streams = [Answer { number: 0, parts: &parts, piece_bytes: 9 }.streamed(Responses), done(Responses, 1)];
        let seen = spliced(Responses, &streams, 33, 9);
        understand(Responses, &seen.client);
        let items = parsed(&seen.client).pop().unwrap().1["response"]["output"].as_array().unwrap().len();
        assert_eq!(items, 1 + shown);
        let input: Value = serde_json::from_str(&seen.bodies[1]).unwrap();
        let kinds: Vec<&str> =
            input["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["message", "reasoning", "function_call", "function_call_output"]);
        assert_eq!(input["input"][1]["encrypted_content"], "gAAAAhm");
    }
}

#[test]
fn reasoning_before_our_call_and_the_clients_stays_with_the_clients() {
    let parts = [
        Part::Thinking("hm".into(), false),
        Part::Call("recall", r#"{"q":1}"#.into()),
        Part::Call("read", r#"{"p":1}"#.into()),
    ];
    let answer = Answer { number: 0, parts: &parts, piece_bytes: 9 };
    let seen = spliced(Responses, &[answer.streamed(Responses)], 33, 9);
    assert_eq!(understand(Responses, &seen.client).calls.len(), 1);
    let last = parsed(&seen.client).pop().unwrap().1;
    let ids: Vec<&Value> = last["response"]["output"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, ["rs_0_0", "fc_their_0_2"]);
}

#[test]
fn signed_and_redacted_thinking_goes_into_the_follow_up_as_it_came() {
    let seen = splice_events(
        Anthropic,
        &[
            r#"{"type":"message_start","message":{"id":"m","model":"claude-opus-4-6","usage":{"input_tokens":1,"output_tokens":1}}}
            {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
            {"type":"ping"}
            {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}
            {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see."}}
            {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB+/="}}
            {"type":"content_block_stop","index":0}
            {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"gAAA"}}
            {"type":"content_block_stop","index":1}
            {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"own_1","name":"recall","input":{}}}
            {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}
            {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"q\": 1.0"}}
            {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"}"}}
            {"type":"content_block_stop","index":2}
            {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}
            {"type":"message_stop"}"#,
            r#"{"type":"message_start","message":{"id":"m2","model":"claude-opus-4-6","usage":{"input_tokens":20,"cache_read_input_tokens":5,"output_tokens":1}}}
            {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}
            {"type":"content_block_stop","index":0}
            {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
            {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"7311"}}
            {"type":"content_block_stop","index":1}
            {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":4}}
            {"type":"message_stop"}"#,
        ],
    );
    assert!(seen.bodies[1].contains(
        r#","content":[{"type":"thinking","thinking":"Let me see.","signature":"EqQB+/="},{"type":"redacted_thinking","data":"gAAA"},{"type":"tool_use","id":"own_1","name":"recall","input":{"q": 1.0}}]}"#
    ), "{}", seen.bodies[1]);
    let understood = understand(Anthropic, &seen.client);
    assert_eq!(understood.text, "7311");
    assert_eq!(understood.usage, json!({"output_tokens": 4, "input_tokens": 20, "cache_read_input_tokens": 5}));
    assert!(seen.client.contains("srv_1"), "what the provider answers itself is the client's to see");
    let inputs: Vec<(u64, u64)> = seen.usage.iter().map(|usage| (usage.input, usage.output)).collect();
    assert_eq!(inputs, [(1, 9), (25, 4)]);
}

#[test]
fn thinking_bound_to_what_the_client_does_not_have_is_not_shown_to_it() {
    let parts = |text: &str| vec![Part::Thinking(text.into(), true), Part::Call("recall", r#"{"q":1}"#.into())];
    let last = [Part::Thinking("second".into(), true), Part::Text(vec!["7311".into()])];
    for (model, shown) in [("claude-opus-4-6", true), ("claude-opus-5-5", false)] {
        let streams = [
            Answer { number: 0, parts: &parts("first"), piece_bytes: 9 }.streamed(Anthropic),
            Answer { number: 1, parts: &last, piece_bytes: 9 }.streamed(Anthropic),
        ]
        .map(|stream| stream.replace("claude-opus-4-6", model));
        let seen = spliced(Anthropic, &streams, 64, 9);
        understand(Anthropic, &seen.client);
        assert!(seen.client.contains("sig-first"));
        assert_eq!(seen.client.contains("sig-second"), shown, "{model}");
    }
}

#[test]
fn thinking_in_whole_answers_is_bound_as_well() {
    let first = [Part::Thinking("first".into(), true), Part::Call("recall", r#"{"q":1}"#.into())];
    let last = [Part::Thinking("second".into(), true), Part::Text(vec!["7311".into()])];
    for (model, shown) in [("claude-opus-4-6", true), ("claude-opus-5-5", false)] {
        let mut splicer = AnswerSplicer::whole(Anthropic, &TOOLS);
        let mut push = |number, parts| {
            let body = Answer { number, parts, piece_bytes: 9 }.whole(Anthropic).replace("claude-opus-4-6", model);
            splicer.push_body(Bytes::from(body));
            let turn = splicer.end_of_answer();
            splicer.give_up(r#"{"messages":[]}"#);
            turn
        };
        assert!(matches!(push(0, &first), AnswerEnd::OwnCalls(_)));
        let AnswerEnd::Done(body) = push(1, &last) else { panic!("not done") };
        let body = String::from_utf8(body.concat()).unwrap();
        assert!(body.contains("sig-first") && body.contains("sig-second") == shown, "{model}: {body}");
    }
}

#[test]
fn a_provider_that_keeps_responses_is_asked_for_the_last_of_them() {
    let own = [Part::Call("recall", "{}".into())];
    for (store, id) in [("false", "resp_0"), ("true", "resp_1")] {
        let streams = [Answer { number: 0, parts: &own, piece_bytes: 9 }.streamed(Responses), done(Responses, 1)]
            .map(|stream| stream.replace(r#""store":false"#, &format!(r#""store":{store}"#)));
        let seen = spliced(Responses, &streams, 64, 9);
        assert_eq!(parsed(&seen.client).pop().unwrap().1["response"]["id"], id);
    }
}

#[test]
fn an_answer_too_long_to_be_kept_is_forwarded_and_ends_for_the_client() {
    let mut splicer = AnswerSplicer::streaming(Anthropic, &TOOLS);
    let padding = "x".repeat(ANSWER_BYTES_MAX / 4);
    let long = Event::read(Bytes::from(stream(Anthropic, &json!({"type": "ping", "x": padding}).to_string())));
    for _ in 0..4 {
        assert_eq!(splicer.push(&long), [&long.raw]);
    }
    let own = [Part::Text(vec!["Hm.".into()]), Part::Call("recall", "{}".into())];
    let streamed = Answer { number: 0, parts: &own, piece_bytes: 9 }.streamed(Anthropic);
    let events: Vec<Event> = Framer::default().push(streamed).collect();
    let mut client: Vec<Bytes> = events.iter().flat_map(|event| splicer.push(event)).collect();
    let AnswerEnd::Done(rest) = splicer.end_of_answer() else { panic!("not done") };
    client.extend(rest);
    assert_eq!(understand(Anthropic, &String::from_utf8(client.concat()).unwrap()).end, "end_turn");
}

#[test]
fn lines_may_end_as_on_a_typewriter() {
    let own = [Part::Text(vec!["Hm.".into()]), Part::Call("recall", "{}".into())];
    for dialect in [Chat, Responses, Anthropic] {
        let streams = [Answer { number: 0, parts: &own, piece_bytes: 9 }.streamed(dialect), done(dialect, 1)];
        let client = spliced(dialect, &streams, 64, 9).client;
        let typed = spliced(dialect, &streams.map(|stream| stream.replace('\n', "\r\n")), 7, 9).client;
        assert_eq!(typed, client.replace('\n', "\r\n"));
    }
}

#[test]
fn what_the_provider_calls_itself_does_not_keep_ours_from_being_answered() {
    let search = r#"{"type":"tool_search_call","id":"ts_1","call_id":"c","execution":"server","arguments":{}}"#;
    let own = r#"{"type":"function_call","id":"fc_1","call_id":"own_1","name":"recall","arguments":"{}"}"#;
    let mut splicer = AnswerSplicer::whole(Responses, &TOOLS);
    splicer.push_body(Bytes::from(format!(r#"{{"status":"completed","output":[{search},{own}]}}"#)));
    let AnswerEnd::OwnCalls(calls) = splicer.end_of_answer() else { panic!("not ours") };
    assert_eq!(calls.len(), 1);
    let found = Outcome::answer("Port 7311.");
    let body = splicer.follow_up(r#"{"input":[]}"#, &[found]).unwrap();
    assert!(body.starts_with(&format!(r#"{{"input":[{search},{own},{{"type":"function_call_output""#)), "{body}");
}

#[test]
fn an_error_in_the_middle_of_a_stream_is_forwarded_as_it_is() {
    let chat = r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"x"},"finish_reason":null}]}
        {"error":{"message":"overloaded","type":"server_error"}}"#;
    let chat = stream(Chat, chat).replace("data: [DONE]\n\n", "");
    let anthropic = r#"{"type":"message_start","message":{"id":"m","model":"claude-opus-4-6","usage":{}}}
        {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let responses = r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","output":[]}}
        {"type":"response.failed","sequence_number":1,"response":{"id":"r","status":"failed","error":{"code":"server_error","message":"x"},"output":[]}}"#;
    for (dialect, streamed) in
        [(Chat, chat), (Anthropic, stream(Anthropic, anthropic)), (Responses, stream(Responses, responses))]
    {
        let alone = spliced(dialect, std::slice::from_ref(&streamed), 30, 9);
        assert_eq!(alone.client, streamed, "in the first answer");
        let own = Answer { number: 0, parts: &[Part::Call("recall", "{}".into())], piece_bytes: 9 }.streamed(dialect);
        let later = spliced(dialect, &[own, streamed], 30, 9).client;
        let errors = later.matches("overloaded").count() + later.matches("Overloaded").count();
        assert!(errors <= 2 && later.matches(r#""error":{"#).count() == 1, "one error, once: {later}");
    }
}

#[test]
fn an_answer_that_breaks_off_after_ours_ends_in_the_error_of_its_dialect() {
    let own = [Part::Text(vec!["Hm.".into()]), Part::Call("recall", "{}".into())];
    let ends = [Chat, Responses, Anthropic].map(|dialect| {
        let first = Answer { number: 0, parts: &own, piece_bytes: 9 }.streamed(dialect);
        let cut: String = done(dialect, 1).split_inclusive("\n\n").take(2).collect();
        let seen = spliced(dialect, &[first, cut], 64, 9);
        assert!(seen.broke);
        seen.client.split_inclusive("\n\n").last().unwrap().trim_end().to_owned()
    });
    insta::assert_snapshot!(ends.join("\n"), @r#"
    data: {"error":{"message":"The upstream provider failed in the middle of the answer.","type":"server_error","param":null,"code":null}}
    event: response.failed
    data: {"type":"response.failed","sequence_number":8,"response":{"id":"resp_0","object":"response","created_at":1000,"status":"failed","error":{"code":"server_error","message":"The upstream provider failed in the middle of the answer."},"incomplete_details":null,"model":"gpt-5.6","output":[{"id":"msg_0_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hm.","annotations":[]}]}],"usage":null}}
    event: error
    data: {"type":"error","error":{"type":"api_error","message":"The upstream provider failed in the middle of the answer."}}
    "#);
}

#[test]
fn a_refused_follow_up_is_told_in_the_providers_words() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#;
    let told = [Chat, Responses, Anthropic].map(|dialect| {
        let mut splicer = AnswerSplicer::streaming(dialect, &TOOLS);
        let told = splicer.fail(Some(body)).concat();
        assert!(splicer.fail(Some(body)).is_empty(), "once");
        String::from_utf8(told).unwrap().trim_end().to_owned()
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    data: {"error":{"message":"Overloaded","type":"overloaded_error","param":null,"code":null}}
    event: response.failed
    data: {"type":"response.failed","sequence_number":0,"response":{"id":null,"object":"response","created_at":0,"status":"failed","error":{"code":"overloaded_error","message":"Overloaded"},"incomplete_details":null,"model":null,"output":[],"usage":null}}
    event: error
    data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
    "#);
}

#[test]
fn the_first_answer_breaks_off_as_without_us() {
    for dialect in [Chat, Responses, Anthropic] {
        let cut: String = done(dialect, 0).split_inclusive("\n\n").take(2).collect();
        let seen = spliced(dialect, std::slice::from_ref(&cut), 64, 9);
        assert!(seen.broke);
        let told = |stream: &str| parsed(stream).len();
        assert_eq!(told(&seen.client), told(&cut));
    }
}

#[test]
fn bytes_that_cannot_be_read_are_forwarded() {
    for dialect in [Chat, Responses, Anthropic] {
        for raw in [": ping\n\n", "data: {nonsense\n\n", "\n", "data: 5\n\n", "data: [1]\n\n"] {
            let mut splicer = AnswerSplicer::streaming(dialect, &TOOLS);
            assert_eq!(splicer.push(&Event::read(Bytes::from_static(raw.as_bytes()))), [raw], "{dialect} {raw:?}");
        }
        let mut splicer = AnswerSplicer::streaming(dialect, &TOOLS);
        let invalid = Bytes::from_static(b"data: \xff\n\n");
        assert_eq!(splicer.push(&Event::read(invalid.clone())), [invalid]);
    }
}

/// Follows up a request with a Responses answer of these items.
fn followed(request: &str, items: &str) -> Value {
    let mut splicer = AnswerSplicer::whole(Responses, &TOOLS);
    splicer.push_body(Bytes::from(format!(r#"{{"id":"r","status":"completed","output":{items}}}"#)));
    assert!(matches!(splicer.end_of_answer(), AnswerEnd::OwnCalls(_)));
    let outcome = Outcome::answer("Port 7311.");
    serde_json::from_str(&splicer.follow_up(request, &[outcome]).unwrap()).unwrap()
}

#[test]
fn an_input_of_words_becomes_the_list_it_stands_for() {
    let call = r#"[{"type":"function_call","id":"fc_1","call_id":"own_1","name":"recall","arguments":"{}"}]"#;
    let body = followed(r#"{"input":"What \"port\"?","model":"m"}"#, call);
    assert_eq!(body["input"][0], json!({"type": "message", "role": "user", "content": "What \"port\"?"}));
    assert_eq!(body["input"][2], json!({"type": "function_call_output", "call_id": "own_1", "output": "Port 7311."}));
}

#[test]
fn reasoning_that_nobody_keeps_is_not_referred_to() {
    let items = r#"[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call","id":"fc_1","call_id":"own_1","name":"recall","arguments":"{}"}]"#;
    let kinds =
        |body: &Value| body["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect::<Vec<_>>();
    let unstored = followed(r#"{"store":false,"input":[]}"#, items);
    assert_eq!(kinds(&unstored), ["function_call", "function_call_output"]);
    assert_eq!(unstored["input"][0].get("id"), None);
    assert_eq!(kinds(&followed(r#"{"input":[]}"#, items)), ["reasoning", "function_call", "function_call_output"]);
}

#[test]
fn a_failed_call_is_told_as_one_where_the_dialect_can_tell() {
    let mut splicer = AnswerSplicer::whole(Anthropic, &TOOLS);
    splicer.push_body(Bytes::from_static(
        br#"{"content":[{"type":"tool_use","id":"own_1","name":"recall","input":{}}],"stop_reason":"tool_use"}"#,
    ));
    assert!(matches!(splicer.end_of_answer(), AnswerEnd::OwnCalls(_)));
    let body = splicer.give_up(r#"{"messages":[{"role":"user","content":"x"}]}"#).unwrap();
    assert_eq!(last_message(&body, "messages", 1)["content"][0]["is_error"], true);
}

#[test]
fn a_body_that_is_no_answer_is_the_clients_as_it_is() {
    for dialect in [Chat, Responses, Anthropic] {
        for body in ["", "not json", r#"{"error":{"message":"x"}}"#, r#"{ "choices": [] }"#] {
            let mut splicer = AnswerSplicer::whole(dialect, &TOOLS);
            splicer.push_body(Bytes::from_static(body.as_bytes()));
            assert_eq!(splicer.end_of_answer(), AnswerEnd::Done(vec![Bytes::from_static(body.as_bytes())]));
        }
    }
}

#[test]
fn outcomes_must_answer_every_call() {
    let mut splicer = AnswerSplicer::whole(Responses, &TOOLS);
    assert_eq!(splicer.follow_up("{}", &[]), None, "nothing was called");
}
