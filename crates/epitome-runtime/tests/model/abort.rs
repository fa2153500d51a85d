//! Aborting a call: nothing of it is left.

use std::time::Duration;

use epitome::wire::Dialect;
use epitome_runtime::model::{Endpoint, HttpModel, Model, Retry};

use crate::server::{Reply, Server};
use crate::{WAYS, endpoint, model, prompt};

#[tokio::test]
async fn a_call_dropped_before_its_answer_closes_the_connection() {
    for stream in WAYS {
        let mut server = Server::start([Reply::hang()]).await;
        let model = model(&server.url, Dialect::Chat);
        let call =
            tokio::spawn(async move { model.answer(&prompt(Dialect::Chat, "hello", stream), &mut |_| {}).await });
        while server.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        call.abort();
        server.client_gone().await;
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_call_dropped_in_the_middle_of_its_stream_closes_the_connection() {
    let piece = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let mut server = Server::start([Reply::events(piece).and_hang()]).await;
    let model = model(&server.url, Dialect::Chat);
    let (tell, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let call = tokio::spawn(async move {
        let mut hear = |piece: &_| drop(tell.send(format!("{piece:?}")));
        model.answer(&prompt(Dialect::Chat, "hello", true), &mut hear).await
    });
    assert_eq!(heard.recv().await.as_deref(), Some("Text(\"a\")"));
    call.abort();
    server.client_gone().await;
}

#[tokio::test]
async fn a_call_dropped_while_it_waits_to_ask_again_does_not_ask() {
    let server = Server::start([Reply::json(500, "")]).await;
    let pause = Duration::from_millis(100);
    let retry = Retry { attempts: 100, base: pause, max: pause, ..Retry::default() };
    let model = HttpModel::new(Endpoint { retry, ..endpoint(&server.url, Dialect::Chat) }).unwrap();
    let call = tokio::spawn(async move { model.answer(&prompt(Dialect::Chat, "hello", false), &mut |_| {}).await });
    while server.asked().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    call.abort();
    let _ = call.await;
    // What was on its way when it was dropped may still arrive; nothing follows it.
    tokio::time::sleep(5 * pause).await;
    let asked = server.asked().len();
    tokio::time::sleep(10 * pause).await;
    assert_eq!(server.asked().len(), asked);
}
