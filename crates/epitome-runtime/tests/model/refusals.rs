//! Every way in which providers refuse, over HTTP: as a status with a body, and inside a stream.

use epitome::budget::{Overflow, Tokens};
use epitome::wire::Dialect;
use epitome_runtime::model::{LEARNED_WINDOW_MIN, ModelError, believable_limit};
use serde::Deserialize;

use crate::server::{Reply, Server};
use crate::{SPOKEN, WAYS, ask, model, prompt};

/// A refusal and what it should be understood as.
#[derive(Debug, Deserialize)]
struct Shape {
    server: String,
    status: u16,
    is: Is,
    body: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Is {
    Output { input: Tokens, output: Tokens, limit: Tokens },
    Long { used: Option<Tokens>, limit: Option<Tokens> },
    Else(String),
}

impl Is {
    fn overflow(&self) -> Option<Overflow> {
        match *self {
            Is::Output { input, output, limit } => Some(Overflow::OutputBudget { input, max_tokens: output, limit }),
            Is::Long { used, limit } => Some(Overflow::InputTooLong { used, limit }),
            Is::Else(_) => None,
        }
    }

    fn is(&self, error: &ModelError) -> bool {
        match (self, error) {
            (Is::Else(kind), ModelError::Throttled { .. }) => kind == "throttled",
            (Is::Else(kind), ModelError::Refused(..)) => kind == "refused",
            (Is::Else(kind), ModelError::Failed(..)) => kind == "failed",
            (_, ModelError::Overflow { overflow, .. }) => self.overflow() == Some(*overflow),
            _ => false,
        }
    }
}

fn shapes() -> Vec<Shape> {
    let lines = include_str!("../../../../testdata/refusals.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks a server that gives these replies, in each dialect and way, and gives each error with the shape it is of.
async fn errors(
    shapes: &[&Shape],
    ways: &[bool],
    reply: fn(&Shape) -> Reply,
    mut check: impl FnMut(&Shape, ModelError),
) {
    for dialect in SPOKEN {
        for stream in ways {
            let server = Server::start(shapes.iter().map(|shape| reply(shape))).await;
            let model = model(&server.url, dialect);
            for shape in shapes {
                let (answer, heard) = ask(&model, &prompt(dialect, "hello", *stream)).await;
                assert_eq!(heard, [], "{}", shape.server);
                check(shape, answer.unwrap_err());
            }
        }
    }
}

#[tokio::test]
async fn every_refusal_is_understood_as_a_status_with_a_body() {
    let shapes = shapes();
    assert!(shapes.len() > 60, "the table is there");
    let all: Vec<&Shape> = shapes.iter().collect();
    let reply = |shape: &Shape| Reply::json(shape.status, &shape.body);
    errors(&all, &WAYS, reply, |shape, error| assert!(shape.is.is(&error), "{shape:?}: {error:?}")).await;
}

#[tokio::test]
async fn every_overflow_is_understood_inside_a_stream() {
    let shapes = shapes();
    let objects: Vec<&Shape> =
        shapes.iter().filter(|shape| shape.is.overflow().is_some() && shape.body.starts_with('{')).collect();
    let reply = |shape: &Shape| Reply::events(&format!("event: error\ndata: {}\n\n", shape.body));
    errors(&objects, &[true], reply, |shape, error| assert!(shape.is.is(&error), "{shape:?}: {error:?}")).await;
}

#[tokio::test]
async fn a_stream_that_ends_without_an_event_is_an_overflow() {
    for body in ["", ": keep-alive\n\n", "data: [DONE]\n\n"] {
        let server = Server::start([Reply::events(body)]).await;
        for dialect in [Dialect::Chat, Dialect::Responses] {
            let error = ask(&model(&server.url, dialect), &prompt(dialect, "hello", true)).await.0.unwrap_err();
            assert!(matches!(error, ModelError::Overflow { status: 200, .. }), "{body:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn errors_that_only_streams_have_are_understood() {
    let long = |used: u64, limit: u64| Is::Long { used: Some(Tokens::new(used)), limit: Some(Tokens::new(limit)) };
    let unsaid = || Is::Long { used: None, limit: None };
    let kind = |kind: &str| Is::Else(kind.into());
    for (dialect, body, is) in [
        (
            Dialect::Responses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#,
            unsaid(),
        ),
        (
            Dialect::Responses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"sorry"}}}"#,
            kind("failed"),
        ),
        (Dialect::Responses, r#"{"type":"error","code":"rate_limit_exceeded","message":"slow"}"#, kind("throttled")),
        (
            Dialect::Chat,
            r#"{"id":"gen-1","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":400,"message":"This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens (9000 of text input)."}}"#,
            long(9000, 8192),
        ),
        (Dialect::Chat, r#"{"error":{"code":502,"message":"upstream"},"choices":[]}"#, kind("failed")),
        (
            Dialect::Chat,
            r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"model_context_window_exceeded"}]}"#,
            unsaid(),
        ),
        (
            Dialect::Anthropic,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            kind("throttled"),
        ),
        (
            Dialect::Anthropic,
            r#"{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":0}}"#,
            unsaid(),
        ),
    ] {
        let server = Server::start([Reply::events(&format!("data: {body}\n\n"))]).await;
        let error = ask(&model(&server.url, dialect), &prompt(dialect, "hello", true)).await.0.unwrap_err();
        assert!(is.is(&error), "{body}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_speaks_of_an_overflow_is_an_answer() {
    let text = "The error says: prompt is too long: 3 tokens > 2 maximum";
    let body =
        serde_json::json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]});
    let server = Server::start([Reply::json(200, &body.to_string())]).await;
    let answer = ask(&model(&server.url, Dialect::Chat), &prompt(Dialect::Chat, "hello", false)).await.0.unwrap();
    assert_eq!(answer.text, text);
}

#[tokio::test]
async fn the_window_that_a_refusal_names_is_believed() {
    let shapes = shapes();
    let told: Vec<&Shape> = shapes.iter().filter(|shape| shape.is.overflow().is_some()).collect();
    let reply = |shape: &Shape| Reply::json(shape.status, &shape.body);
    errors(&told, &[false], reply, |shape, error| {
        let overflow = shape.is.overflow().unwrap();
        let limit = overflow.limit().filter(|limit| *limit >= LEARNED_WINDOW_MIN && shape.status >= 400);
        let counted = match overflow {
            Overflow::InputTooLong { used: Some(used), .. } => used,
            Overflow::OutputBudget { input, .. } => input,
            _ => limit.unwrap_or_default(),
        };
        assert_eq!(believable_limit(counted, &error), limit, "{shape:?}");
        assert_eq!(believable_limit(Tokens::new(10), &error), None, "that is no prompt to be refused: {shape:?}");
    })
    .await;
}
