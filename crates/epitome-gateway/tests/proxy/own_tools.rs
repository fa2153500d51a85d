//! The gateway's own tools: answered inside, invisible outside, and not spoken of where they are off.

use epitome::wire::Dialect;
use epitome_gateway::settings::{ClientSwitch, Switch};
use epitome_mock::{MockWork, RecordedRequest};

use crate::talk::{DIALECTS, Talk};
use crate::wire::{Line, Then};
use crate::world::Plan;

fn plan() -> Plan {
    Plan::new().window(14_000).budget(9_000).mock(|mock| {
        mock.work = MockWork { turns: 40, bytes: 1_500, gateway_tools: true, ..MockWork::default() };
    })
}

const NAMES: [&str; 2] = ["read_artifact", "recall"];

#[tokio::test]
async fn calls_of_them_are_answered_inside_and_the_client_sees_no_trace() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            let world = plan().with_tools().start().await;
            let mut talk = Talk::new(dialect).streaming(stream);
            let mut turns = 0;
            loop {
                let got = talk.send(&world.gate).await.fine();
                let text = got.text();
                for name in NAMES {
                    assert!(!text.contains(name), "{dialect:?} stream={stream} turn {turns}: {text}");
                }
                let answer = talk.read(&got);
                turns += 1;
                if answer.calls.is_empty() {
                    assert!(answer.text.contains("WORK DONE"), "{answer:?}");
                    assert!(got.plan() >= 2, "{dialect:?}: {}", got.plan());
                    break;
                }
                assert!(turns <= 41, "it never ends");
                talk.takes(&answer, 300);
            }
            world.assert_lawful();
            let sent = world.mock.requests();
            assert!(sent.len() > turns, "{dialect:?}: they were never called");
            let first = String::from_utf8(sent[0].body.to_vec()).unwrap();
            assert!(NAMES.iter().all(|name| first.contains(name)), "they are there from the first request on");
            assert!(sent.iter().all(|sent| sent.status == 200));
            // Between compactions the prompt only grows, the tools included.
            let starts = |sent: &bytes::Bytes| sent[..sent.len().min(900)].to_vec();
            assert!(sent.iter().all(|one| starts(&one.body)[..400] == starts(&sent[0].body)[..400]));
        }
    }
}

#[tokio::test]
async fn a_prompt_that_their_answers_make_too_long_is_made_smaller() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            // In one of these windows there is room for what the client sends, and not for what is read back behind it.
            let mut refused = 0;
            for window in [7_900, 8_300, 8_100, 7_700] {
                refused += rounds_refused(window, dialect, stream).await;
            }
            assert!(refused > 0, "{dialect:?} stream={stream}: every round fitted, so that nothing is shown");
        }
    }
}

/// How many times the provider found a round too long in a job that was done in a window nevertheless.
async fn rounds_refused(window: u64, dialect: Dialect, stream: bool) -> usize {
    let world = plan().window(window).with_tools().start().await;
    let mut talk = Talk::new(dialect).streaming(stream);
    for turn in 0.. {
        assert!(turn <= 41, "it never ends");
        let answer = talk.read(&talk.send(&world.gate).await.fine());
        if answer.calls.is_empty() {
            assert!(answer.text.contains("WORK DONE"), "{answer:?}");
            break;
        }
        talk.takes(&answer, 900);
    }
    world.assert_lawful();
    let is_round = |sent: &&RecordedRequest| NAMES.iter().any(|name| holds_a_call(&sent.body, name));
    world.mock.requests().iter().filter(is_round).filter(|sent| sent.status == 400).count()
}

/// Whether a request follows a call of this tool up.
fn holds_a_call(body: &[u8], name: &str) -> bool {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
    let items = body.get("messages").or(body.get("input")).and_then(|items| items.as_array()).unwrap();
    let call = format!("\"name\":\"{name}\"");
    items.iter().any(|item| item.to_string().contains(&call))
}

#[tokio::test]
async fn where_they_are_off_nobody_speaks_of_them() {
    for dialect in DIALECTS {
        let world = plan().start().await;
        let talk = Talk::new(dialect).grown(20_000);
        let got = talk.send(&world.gate).await.fine();
        assert!(got.plan() >= 1);
        let sent = String::from_utf8(world.newest().body.to_vec()).unwrap();
        for name in NAMES {
            assert!(!sent.contains(name), "{dialect:?}: {name}");
        }
    }
}

#[tokio::test]
async fn who_gets_them_is_told_by_client_by_header_and_by_having_tools() {
    let rules = [("codex", Switch::On), ("pi", Switch::Off)];
    let rules = rules.map(|(client, switch)| ClientSwitch { client: client.to_owned(), switch });
    let world = plan().settings(|settings| settings.serve.tools_for = rules.into()).start().await;
    let talk = Talk::new(Dialect::Responses);
    let mut bare = Talk::new(Dialect::Responses);
    bare.fields.as_object_mut().unwrap().remove("tools");
    for (talk, headers, has) in [
        (&talk, vec![("user-agent", "codex_exec/0.1")], true),
        (&talk, vec![("user-agent", "pi (x)")], false),
        (&talk, vec![("user-agent", "curl/8")], false),
        (&talk, vec![("user-agent", "curl/8"), ("x-epitome-tools", "on")], true),
        (&talk, vec![("user-agent", "codex_exec/0.1"), ("x-epitome-tools", "off")], false),
        (&bare, vec![("user-agent", "codex_exec/0.1")], false),
    ] {
        talk.send_with(&world.gate, &headers).await.fine();
        let sent = String::from_utf8(world.newest().body.to_vec()).unwrap();
        assert_eq!(sent.contains("read_artifact"), has, "{headers:?}");
    }
}

/// A model that does nothing but recall.
fn recalls(stream: bool) -> String {
    let call =
        r#"{"index":0,"id":"call_1","type":"function","function":{"name":"recall","arguments":"{\"query\":\"x\"}"}}"#;
    let (kind, body) = match stream {
        false => {
            let call = call.replace("\"index\":0,", "");
            let message = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
            let choice = format!(r#"{{"index":0,"message":{message},"finish_reason":"tool_calls"}}"#);
            ("application/json", format!(r#"{{"id":"c","object":"chat.completion","model":"m","choices":[{choice}]}}"#))
        }
        true => {
            let chunk = |delta: &str, finish: &str| {
                let choice = format!(r#"{{"index":0,"delta":{delta},"finish_reason":{finish}}}"#);
                let chunk = r#""id":"c","object":"chat.completion.chunk","model":"m""#;
                format!("data: {{{chunk},\"choices\":[{choice}]}}\n\n")
            };
            let calls = chunk(&format!(r#"{{"role":"assistant","tool_calls":[{call}]}}"#), "null");
            ("text/event-stream", format!("{calls}{}data: [DONE]\n\n", chunk("{}", "\"tool_calls\"")))
        }
    };
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

#[tokio::test]
async fn a_model_that_never_stops_calling_them_is_stopped() {
    for stream in [false, true] {
        let line = Line::saying(recalls(stream), Then::Close).await;
        let gate = Plan::new().with_tools().gate(&line.url()).await;
        let talk = Talk::new(Dialect::Chat).streaming(stream);
        let got = talk.send(&gate).await;
        let rounds = line.heard().len();
        assert!((2..=8).contains(&rounds), "{rounds} rounds");
        assert!(!got.text().contains("recall"), "stream={stream}: {}", got.text());
        if stream {
            assert!(got.text().contains("[DONE]") || got.text().contains("error"), "{}", got.text());
        }
    }
}
