//! Asking again, giving up, and leaving alone.

use std::time::Duration;

use epitome::wire::Dialect;
use epitome_runtime::model::{BreakerSettings, Endpoint, HttpModel, ModelError, Retry, Timeouts};

use crate::server::{Reply, Server};
use crate::{WAYS, ask, endpoint, prompt};

const GOOD: &str = r#"{"choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}"#;

const HALF: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ye\"}}]}\n\n";

/// An endpoint that is asked so often, with hardly a pause.
fn patient(url: &str, attempts: u32) -> Endpoint {
    let moment = Duration::from_millis(1);
    let retry = Retry { attempts, base: moment, max: moment, total: Duration::from_secs(60) };
    Endpoint { retry, ..endpoint(url, Dialect::Chat) }
}

fn model(endpoint: Endpoint) -> HttpModel {
    HttpModel::new(endpoint).unwrap()
}

#[tokio::test]
async fn what_may_pass_is_asked_again_and_what_may_not_is_not() {
    for (status, passes) in [
        (408, true),
        (409, true),
        (429, true),
        (500, true),
        (502, true),
        (503, true),
        (504, true),
        (529, true),
        (301, false),
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (413, false),
        (422, false),
    ] {
        for stream in WAYS {
            let server = Server::start([Reply::json(status, "{}"), Reply::json(200, GOOD)]).await;
            let answer = ask(&model(patient(&server.url, 3)), &prompt(Dialect::Chat, "hello", stream)).await.0;
            assert_eq!((answer.is_ok(), server.asked().len()), (passes, if passes { 2 } else { 1 }), "{status}");
        }
    }
}

#[tokio::test]
async fn attempts_end() {
    let server = Server::start([Reply::json(500, r#"{"error":{"message":"broken"}}"#)]).await;
    let error = ask(&model(patient(&server.url, 3)), &prompt(Dialect::Chat, "hello", false)).await.0.unwrap_err();
    assert_eq!(error, ModelError::Failed(500, "broken".into()));
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn every_attempt_sends_the_same_bytes() {
    let server = Server::start([Reply::json(500, ""), Reply::json(200, GOOD)]).await;
    ask(&model(patient(&server.url, 2)), &prompt(Dialect::Chat, "hello", false)).await.0.unwrap();
    let asked = server.asked();
    assert_eq!(asked[0], asked[1]);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_not_waited_for() {
    let server = Server::start([Reply::json(429, "{}").header("retry-after: 3600"), Reply::json(200, GOOD)]).await;
    let error = ask(&model(patient(&server.url, 3)), &prompt(Dialect::Chat, "hello", false)).await.0.unwrap_err();
    let ModelError::Throttled { status: 429, after: Some(after), .. } = error else { panic!("{error:?}") };
    assert_eq!((after.as_secs(), server.asked().len()), (3600, 1));
}

#[tokio::test]
async fn a_wait_that_is_asked_for_is_kept() {
    let server = Server::start([Reply::json(429, "{}").header("retry-after-ms: 300"), Reply::json(200, GOOD)]).await;
    let before = std::time::Instant::now();
    ask(&model(patient(&server.url, 3)), &prompt(Dialect::Chat, "hello", false)).await.0.unwrap();
    assert!(before.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn an_answer_of_which_a_piece_was_heard_is_not_asked_for_again() {
    for reply in [Reply::events(HALF), Reply::events(HALF).and_break()] {
        let server = Server::start([reply]).await;
        let (answer, heard) = ask(&model(patient(&server.url, 3)), &prompt(Dialect::Chat, "hello", true)).await;
        assert!(answer.unwrap_err().is_passing());
        assert_eq!((heard.len(), server.asked().len()), (1, 1));
    }
}

#[tokio::test]
async fn a_broken_connection_is_tried_again_while_nothing_was_heard() {
    for stream in WAYS {
        let server = Server::start([Reply::json(200, "{\"choices\"").and_break(), Reply::json(200, GOOD)]).await;
        let (answer, _) = ask(&model(patient(&server.url, 2)), &prompt(Dialect::Chat, "hello", stream)).await;
        assert_eq!((answer.unwrap().text.as_str(), server.asked().len()), ("yes", 2));
    }
}

#[tokio::test]
async fn nobody_there_is_told_as_such() {
    // Bound, so that nobody else gets the port, and never listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let error = ask(&model(patient(&url, 2)), &prompt(Dialect::Chat, "hello", false)).await.0.unwrap_err();
    let ModelError::Unreachable(reason) = error else { panic!("{error:?}") };
    assert!(reason.contains("refused") && !reason.contains("http"), "{reason}");
}

/// An endpoint with one short bound.
fn hasty(url: &str, bound: impl FnOnce(&mut Timeouts)) -> Endpoint {
    let mut endpoint = patient(url, 2);
    bound(&mut endpoint.timeouts);
    endpoint
}

/// Long enough for an answer to arrive on a busy machine where one is sent.
const SHORT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn each_bound_of_time_is_kept_and_named() {
    let silent = || Reply::hang();
    let headed = || Reply::events("").and_hang();
    let begun = || Reply::events(HALF).and_hang();
    type Bound = fn(&mut Timeouts);
    let first: Bound = |own| own.first_byte = SHORT;
    let idle: Bound = |own| own.idle = SHORT;
    let whole: Bound = |own| own.whole = SHORT;
    for (reply, stream, bound, what, asked) in [
        (silent(), true, first, "begin to answer", 2),
        (headed(), true, first, "begin its stream", 2),
        (begun(), true, idle, "go on with its stream", 1),
        (begun(), true, whole, "finish its answer", 1),
        (silent(), false, whole, "finish its answer", 2),
    ] {
        let server = Server::start([reply]).await;
        let model = model(hasty(&server.url, bound));
        let error = ask(&model, &prompt(Dialect::Chat, "hello", stream)).await.0.unwrap_err();
        let ModelError::TimedOut(told, within) = error else { panic!("{what}: {error:?}") };
        assert_eq!((told, within, server.asked().len()), (what, SHORT, asked));
    }
}

#[tokio::test]
async fn a_connection_that_nobody_accepts_is_given_up() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    // Once its queue is full, the system leaves further connections unanswered.
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(SHORT, tokio::net::TcpStream::connect(address)).await {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue is never full");
    }
    let model = model(hasty(&format!("http://{address}"), |own| own.connect = SHORT));
    let error = ask(&model, &prompt(Dialect::Chat, "hello", false)).await.0.unwrap_err();
    assert_eq!(error, ModelError::TimedOut("accept a connection", SHORT));
}

#[tokio::test]
async fn a_sign_of_life_is_as_good_as_a_piece() {
    const SIGN: &str = ": alive\n\n";
    let signs = SIGN.repeat(15) + HALF + "data: [DONE]\n\n";
    let reply = Reply::events(&signs).in_pieces(SIGN.len()).slowly(Duration::from_millis(100));
    let server = Server::start([reply]).await;
    let model = model(hasty(&server.url, |own| own.idle = Duration::from_secs(1)));
    assert_eq!(ask(&model, &prompt(Dialect::Chat, "hello", true)).await.0.unwrap().text, "ye");
}

#[tokio::test]
async fn whoever_fails_again_and_again_is_left_alone_by_all_clones() {
    let server = Server::start([Reply::json(500, "")]).await;
    let trip = BreakerSettings { failures: 3, rest: Duration::from_secs(600) };
    let model = model(Endpoint { trip, ..patient(&server.url, 2) });
    let hello = prompt(Dialect::Chat, "hello", false);
    let other = model.clone();
    assert!(matches!(ask(&model, &hello).await.0, Err(ModelError::Failed(..))));
    assert!(matches!(ask(&other, &hello).await.0, Err(ModelError::Failed(..))));
    for model in [&model, &other] {
        assert!(matches!(ask(model, &hello).await.0, Err(ModelError::Open(3, _))));
    }
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn one_call_finds_out_that_it_works_again() {
    let server = Server::start([Reply::json(500, ""), Reply::json(200, GOOD)]).await;
    let trip = BreakerSettings { failures: 1, rest: Duration::from_millis(1) };
    let model = model(Endpoint { trip, ..patient(&server.url, 1) });
    let hello = prompt(Dialect::Chat, "hello", false);
    assert!(ask(&model, &hello).await.0.is_err());
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(ask(&model, &hello).await.0.is_ok() && ask(&model, &hello).await.0.is_ok());
}
