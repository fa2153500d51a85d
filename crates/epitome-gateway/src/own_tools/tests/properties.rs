//! Whatever a provider says, and however its bytes are split, the client has one valid answer and no trace of ours.

use bytes::Bytes;
use epitome::wire::{Dialect, LastExchange, check};
use epitome_runtime::model::AnswerReader;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::client::{Understood, understand};
use super::provider::{Answer, Part};
use super::{TOOLS, request, spliced};
use crate::own_tools::{AnswerEnd, AnswerSplicer, inject};
use crate::tools::Outcome;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

/// What a response repeats of a request that the client did not write.
const OWN_TOOLS: &str = r#",{"type":"function","name":"read_artifact","parameters":{"type":"object"}},{"type":"function","name":"recall","parameters":{"type":"object"}}"#;

fn text() -> impl Strategy<Value = Part> {
    proptest::collection::vec("[a-z\"\\\\é ]{0,5}[a-z]", 1..4).prop_map(Part::Text)
}

fn thinking() -> impl Strategy<Value = Part> {
    ("[a-z]{1,6}", any::<bool>()).prop_map(|(text, tells)| Part::Thinking(text, tells))
}

fn call(name: &'static str) -> impl Strategy<Value = Part> {
    "[a-z ]{0,8}".prop_map(move |query| Part::Call(name, serde_json::json!({ "q": query }).to_string()))
}

/// Thinking and words, then calls of these tools.
fn parts(calls: impl Strategy<Value = Vec<Part>>) -> impl Strategy<Value = Vec<Part>> {
    let said = (proptest::option::of(thinking()), proptest::collection::vec(text(), 0..2));
    (said, calls).prop_map(|((thinking, said), calls)| thinking.into_iter().chain(said).chain(calls).collect())
}

fn ours() -> impl Strategy<Value = Part> {
    prop_oneof![call("recall"), call("read_artifact")]
}

/// Answers that call ours alone, then one that does whatever it likes.
fn exchange() -> impl Strategy<Value = Vec<Vec<Part>>> {
    let round = parts(proptest::collection::vec(ours(), 1..3));
    let mixed = proptest::collection::vec(prop_oneof![ours(), call("read")], 0..4);
    let with_theirs = (mixed, call("read"), 0usize..4).prop_map(|(mut calls, theirs, at)| {
        calls.insert(at.min(calls.len()), theirs);
        calls
    });
    let done = text().prop_map(|said| vec![said]);
    let last = prop_oneof![parts(with_theirs), done];
    (proptest::collection::vec(round, 0..3), last).prop_map(|(mut rounds, last)| {
        rounds.push(last);
        rounds
    })
}

fn answers(exchange: &[Vec<Part>], piece_bytes: usize) -> Vec<Answer<'_>> {
    exchange.iter().enumerate().map(|(number, parts)| Answer { number, parts, piece_bytes }).collect()
}

/// What a client should understand, less the usage.
fn expected(answers: &[Answer<'_>]) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut calls = Vec::new();
    for answer in answers {
        for (at, part) in answer.parts.iter().enumerate() {
            match part {
                Part::Text(pieces) => text.push_str(&pieces.concat()),
                Part::Call("read", arguments) => calls.push(format!("their_{}_{at} read({arguments})", answer.number)),
                _ => {}
            }
        }
    }
    (text, calls)
}

/// What the client makes of an answer can be sent back, with its own results and nothing of ours.
fn check_next_request(dialect: Dialect, client: &str) {
    let mut reader = AnswerReader::new(dialect).unwrap();
    for (name, data) in super::parsed(client) {
        let data = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        reader.take(&name, &data).unwrap();
    }
    let answer = reader.finish().unwrap();
    let mut request: Value = serde_json::from_str(request(dialect)).unwrap();
    let key = if dialect == Dialect::Responses { "input" } else { "messages" };
    let list = request[key].as_array_mut().unwrap();
    list.extend(answer.messages.iter().map(|message| serde_json::from_str(message).unwrap()));
    let results = answer.calls.iter().map(|call| match dialect {
        Dialect::Chat => json!({"role": "tool", "tool_call_id": call.id, "content": "x"}),
        Dialect::Responses => json!({"type": "function_call_output", "call_id": call.id, "output": "x"}),
        _ => json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "x"}]}),
    });
    let results: Vec<Value> = match dialect {
        Dialect::Anthropic if answer.calls.len() > 1 => {
            let blocks: Vec<Value> = results.map(|result| result["content"][0].clone()).collect();
            vec![json!({"role": "user", "content": blocks})]
        }
        _ => results.collect(),
    };
    list.extend(results);
    let violations = check(dialect, &request, LastExchange::Open);
    assert!(violations.is_empty(), "{violations:?}\n{request}");
}

/// The same exchange with answers that come whole.
fn woven_whole(dialect: Dialect, answers: &[Answer<'_>]) -> String {
    let injected = inject(request(dialect), dialect, &TOOLS).unwrap();
    let mut splicer = AnswerSplicer::whole(dialect, &injected.tools);
    for answer in answers {
        splicer.push_body(Bytes::from(answer.whole(dialect)));
        match splicer.end_of_answer() {
            AnswerEnd::OwnCalls(calls) => {
                let found = |_| Outcome::answer("Port 7311.");
                splicer.follow_up(&injected.body, &calls.iter().map(found).collect::<Vec<_>>()).unwrap();
            }
            AnswerEnd::Done(rest) => return String::from_utf8(rest.concat()).unwrap(),
            AnswerEnd::Broken(_) => panic!("broken"),
        }
    }
    panic!("never done")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_client_sees_one_valid_answer_and_no_trace_of_ours(
        exchange in exchange(), argument_bytes in 1usize..12, piece_bytes in 1usize..80,
    ) {
        let answers = answers(&exchange, argument_bytes);
        for dialect in DIALECTS {
            let streams: Vec<String> = answers.iter().map(|answer| answer.streamed(dialect)).collect();
            let seen = spliced(dialect, &streams, piece_bytes, 9);
            let Understood { text, calls, end: _, usage } = understand(dialect, &seen.client);
            prop_assert_eq!((text, calls), expected(&answers), "{:?}", dialect);
            prop_assert_eq!(seen.calls.len(), exchange.len() - 1);
            prop_assert!(!seen.broke);
            seen.check_requests(dialect);
            check_next_request(dialect, &seen.client);
            let last = answers.last().unwrap();
            let reported = if dialect == Dialect::Chat { &usage["prompt_tokens"] } else { &usage["input_tokens"] };
            if dialect != Dialect::Anthropic || exchange.len() > 1 {
                prop_assert_eq!(reported, &last.usage(Dialect::Responses)["input_tokens"]);
            }
            let inputs: Vec<u64> = seen.usage.iter().map(|usage| usage.input).collect();
            prop_assert_eq!(inputs, (1..=exchange.len() as u64).map(|at| 100 * at).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_answer_without_ours_comes_through_byte_for_byte(
        said in proptest::collection::vec(text(), 1..3), theirs in proptest::collection::vec(call("read"), 0..3),
        thinking in proptest::option::of(thinking()), piece_bytes in 1usize..80,
    ) {
        let parts: Vec<Part> = thinking.into_iter().chain(said).chain(theirs).collect();
        let answer = Answer { number: 0, parts: &parts, piece_bytes: 5 };
        for dialect in [Dialect::Chat, Dialect::Anthropic] {
            let stream = answer.streamed(dialect);
            prop_assert_eq!(spliced(dialect, std::slice::from_ref(&stream), piece_bytes, 9).client, stream);
            prop_assert_eq!(woven_whole(dialect, std::slice::from_ref(&answer)), answer.whole(dialect));
        }
        let without_tools = |text: String| text.replace(OWN_TOOLS, "");
        let stream = answer.streamed(Dialect::Responses);
        let client = spliced(Dialect::Responses, std::slice::from_ref(&stream), piece_bytes, 9).client;
        prop_assert_eq!(client, without_tools(stream));
        let whole = woven_whole(Dialect::Responses, std::slice::from_ref(&answer));
        prop_assert_eq!(whole, without_tools(answer.whole(Dialect::Responses)));
    }

    #[test]
    fn an_answer_that_comes_whole_says_what_a_streamed_one_says(exchange in exchange()) {
        let answers = answers(&exchange, 5);
        for dialect in DIALECTS {
            let whole = woven_whole(dialect, &answers);
            for ours in ["recall", "read_artifact", "own_", "Port 7311."] {
                prop_assert!(!whole.contains(ours), "{} in {}", ours, whole);
            }
            let streams: Vec<String> = answers.iter().map(|answer| answer.streamed(dialect)).collect();
            let client = spliced(dialect, &streams, 4096, 9).client;
            let mut reader = AnswerReader::new(dialect).unwrap();
            for (name, data) in super::parsed(&client) {
                let data = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                reader.take(&name, &data).unwrap();
            }
            let streamed = reader.finish().unwrap();
            let read = AnswerReader::read(dialect, &whole).unwrap().unwrap();
            prop_assert_eq!(&read.text, &streamed.text);
            prop_assert_eq!(&read.calls, &streamed.calls);
            prop_assert_eq!(read.finish, streamed.finish);
        }
    }
}
