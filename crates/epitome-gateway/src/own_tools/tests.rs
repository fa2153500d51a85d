//! Streams as providers send them, and what a client sees of them.

mod client;
mod properties;
mod provider;
mod streams;

use bytes::Bytes;
use epitome::wire::{Dialect, LastExchange, check};
use epitome_runtime::model::Usage;
use serde_json::Value;

use super::{AnswerEnd, AnswerSplicer, inject};
use crate::sse::{Event, Framer};
use crate::tools::{Outcome, Tool};

/// The gateway's tools.
pub(super) const TOOLS: [Tool; 2] = [
    Tool { name: "read_artifact", description: "Reads.", parameters: r#"{"type":"object"}"# },
    Tool { name: "recall", description: "Finds.", parameters: r#"{"type":"object"}"# },
];

/// What became of a request.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What the client got.
    pub(super) client: String,
    /// The requests that went upstream.
    pub(super) bodies: Vec<String>,
    /// What was called in each answer, as `name(arguments)`.
    pub(super) calls: Vec<Vec<String>>,
    pub(super) usage: Vec<Usage>,
    pub(super) broke: bool,
}

/// A client's request, with tools of its own.
pub(super) fn request(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat => {
            r#"{"model":"gpt-5.6", "messages":[ {"role":"user","content":"What was the port?"} ],"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}],"stream":true}"#
        }
        Dialect::Responses => {
            r#"{"model":"gpt-5.6","store":false,"include":["reasoning.encrypted_content"],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"What was the port?"}]}],"tools":[{"type":"function","name":"read","parameters":{"type":"object"}}],"stream":true}"#
        }
        _ => {
            r#"{"model":"claude-opus-4-6","max_tokens":32000,"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"What was the port?"}],"tools":[{"name":"read","input_schema":{"type":"object"}}],"stream":true}"#
        }
    }
}

/// Gives a request these answers, each in pieces of so many bytes; gives up after so many rounds.
pub(super) fn spliced(dialect: Dialect, answers: &[String], piece_bytes: usize, rounds_max: usize) -> Seen {
    let injected = inject(request(dialect), dialect, &TOOLS).unwrap();
    let mut splicer = AnswerSplicer::streaming(dialect, &injected.tools);
    let mut body = injected.body.clone();
    let mut seen = Seen::default();
    for answer in answers {
        seen.bodies.push(body.clone());
        let mut framer = Framer::default();
        let mut events: Vec<Event> = Vec::new();
        for piece in answer.as_bytes().chunks(piece_bytes) {
            events.extend(framer.push(Bytes::copy_from_slice(piece)));
        }
        events.extend(framer.rest());
        let now = events.iter().flat_map(|event| splicer.push(event)).collect();
        seen.send(now);
        match splicer.end_of_answer() {
            AnswerEnd::OwnCalls(calls) => {
                seen.calls.push(calls.iter().map(|call| format!("{}({})", call.name, call.arguments)).collect());
                let found = |_| Outcome::answer("Port 7311.");
                let next = if seen.calls.len() >= rounds_max {
                    splicer.give_up(&injected.body)
                } else {
                    splicer.follow_up(&injected.body, &calls.iter().map(found).collect::<Vec<_>>())
                };
                body = next.unwrap();
            }
            AnswerEnd::Done(rest) => seen.send(rest),
            AnswerEnd::Broken(rest) => {
                seen.broke = true;
                seen.send(rest);
                if seen.bodies.len() > 1 {
                    seen.send(splicer.fail(None));
                }
            }
        }
    }
    seen.usage = splicer.usage().to_vec();
    seen
}

impl Seen {
    fn send(&mut self, bytes: Vec<Bytes>) {
        bytes.iter().for_each(|bytes| self.client.push_str(std::str::from_utf8(bytes).unwrap()));
    }

    /// Each request is one that the provider takes, and its messages begin with those of the one before.
    pub(super) fn check_requests(&self, dialect: Dialect) {
        let key = if dialect == Dialect::Responses { "\"input\":" } else { "\"messages\":" };
        for body in &self.bodies {
            let violations = check(dialect, &serde_json::from_str(body).unwrap(), LastExchange::Closed);
            assert!(violations.is_empty(), "{violations:?}\n{body}");
        }
        for pair in self.bodies.windows(2) {
            let end = list_end(&pair[0], key);
            assert!(pair[1].starts_with(&pair[0][..end]), "{}\n{}", pair[0], pair[1]);
            assert!(pair[1].ends_with(&pair[0][end..]), "{}\n{}", pair[0], pair[1]);
            assert!(pair[1].len() > pair[0].len());
        }
    }
}

/// Where the last element of the list under a key ends.
fn list_end(body: &str, key: &str) -> usize {
    let start = body.find(key).unwrap() + key.len();
    let list = serde_json::Deserializer::from_str(&body[start..]).into_iter::<&serde_json::value::RawValue>().next();
    let list = list.unwrap().unwrap().get();
    start + list.strip_suffix(']').unwrap().trim_end().len()
}

pub(super) fn parsed(stream: &str) -> Vec<(String, Value)> {
    let mut framer = Framer::default();
    let events: Vec<Event> = framer.push(stream.to_owned()).collect();
    assert_eq!(framer.rest(), None, "every event is ended by a blank line:\n{stream}");
    let read = |event: &Event| {
        let data = event.text()?;
        Some((event.name().to_owned(), serde_json::from_str(data).unwrap_or_else(|_| Value::from(data))))
    };
    events.iter().filter_map(read).collect()
}
