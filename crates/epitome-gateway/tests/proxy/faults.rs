//! Faults on the line: providers that die, clients that leave, bodies that are none.

use std::time::{Duration, Instant};

use epitome::wire::Dialect;
use epitome_mock::{MockServer, MockSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::talk::{DIALECTS, Talk};
use crate::wire::{Line, Then};
use crate::world::{Plan, SOON, post};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A piece of a body.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn word(text: &str) -> String {
    chunk(&format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    ))
}

#[tokio::test]
async fn an_upstream_that_dies_mid_stream_dies_for_the_client_at_the_same_place() {
    let world = Plan::new().start().await;
    let twin = MockServer::start(MockSettings::default()).unwrap();
    for dialect in DIALECTS {
        for events in 0..6 {
            for stream in [true, false] {
                let talk = Talk::about(dialect, &format!("{events}")).streaming(stream);
                let fault = format!("die-mid-stream={events}");
                let headers = [("x-mock-fault", fault.as_str())];
                let direct = post(&format!("{}{}", twin.url(), talk.path()), &headers, talk.body().into()).await;
                let through = talk.send_with(&world.gate, &headers).await;
                assert_eq!(through.text(), direct.text(), "{dialect:?} after {events}");
                assert_eq!(through.is_whole, direct.is_whole, "{dialect:?} after {events}: {}", through.text());
            }
        }
    }
    let talk = Talk::new(Dialect::Chat);
    let got = talk.send(&world.gate).await.fine();
    assert_eq!(got.placed().1, "new");
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_with_tools_of_ours_as_well() {
    let world = Plan::new().with_tools().start().await;
    for dialect in DIALECTS {
        for (events, stream) in [(0, true), (1, true), (2, true), (4, true), (1, false)] {
            let talk = Talk::about(dialect, &format!("{events} {stream}")).streaming(stream);
            let fault = format!("die-mid-stream={events}");
            let got = talk.send_with(&world.gate, &[("x-mock-fault", fault.as_str())]).await;
            let says_so = !got.is_whole || got.status >= 500 || got.text().contains("error");
            assert!(says_so, "{dialect:?} after {events}, stream={stream}: {} {}", got.status, got.text());
        }
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_told_as_a_bad_gateway() {
    // A port that is held and not listened to: nobody else can be there.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gate = Plan::new().gate(&format!("http://{}", held.local_addr().unwrap())).await;
    for dialect in DIALECTS {
        let got = Talk::new(dialect).send(&gate).await;
        assert_eq!((got.status, got.told("refused")), (502, Some("upstream_unreachable")), "{}", got.text());
        assert!(got.json()["error"]["message"].as_str().unwrap().contains("127.0.0.1"));
    }
}

#[tokio::test]
async fn an_upstream_that_never_answers_is_given_up() {
    let world = Plan::new()
        .settings(|settings| {
            settings.serve.first_byte_timeout_s.0 = Duration::from_millis(300);
            settings.serve.idle_timeout_s.0 = Duration::from_millis(300);
        })
        .start()
        .await;
    let talk = Talk::new(Dialect::Anthropic).streaming(true);
    let got = talk.send_with(&world.gate, &[("x-mock-fault", "stall-head")]).await;
    assert_eq!((got.status, got.told("refused")), (504, Some("upstream_timeout")), "{}", got.text());
    let began = Instant::now();
    let got = talk.send_with(&world.gate, &[("x-mock-fault", "stall=4")]).await;
    assert_eq!(got.status, 200);
    assert!(!got.is_whole && began.elapsed() < SOON, "{}", got.text());
}

#[tokio::test]
async fn an_error_that_drips_is_not_kept_from_the_client() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut piece = [0; 4096];
                let _ = stream.read(&mut piece).await;
                let head =
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n";
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
    });
    let gate = Plan::new().gate(&url).await;
    for (dialect, stream) in DIALECTS.into_iter().flat_map(|dialect| [(dialect, true), (dialect, false)]) {
        let talk = Talk::new(dialect).streaming(stream);
        let begun = tokio::time::timeout(SOON, gate.begin(talk.path(), &[], talk.body())).await;
        let mut response = begun.unwrap_or_else(|_| panic!("{dialect:?} stream={stream}: it is held back"));
        assert_eq!(response.status(), 400);
        assert!(response.chunk().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_client_that_leaves_mid_stream_takes_the_upstream_connection_with_it() {
    let line = Line::saying(format!("{HEAD}{}", word("hello")), Then::Wait).await;
    let gate = Plan::new().gate(&line.url()).await;
    for number in 1..=6 {
        let talk = Talk::about(Dialect::Chat, &format!("{number}")).streaming(true);
        let tools = if number % 2 == 0 { "on" } else { "off" };
        let mut response = gate.begin(talk.path(), &[("x-epitome-tools", tools)], talk.body()).await;
        assert!(response.chunk().await.unwrap().is_some());
        drop(response);
        line.closed(number).await;
    }
    let began = Instant::now();
    while gate.in_flight().await > 0 {
        assert!(began.elapsed() < SOON, "a request is still under way");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // What they sent is in the log all the same.
    gate.flush().await;
    let threads = gate.ask("/api/threads").await;
    assert_eq!(threads["threads"].as_array().unwrap().len(), 6, "{threads}");
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_is_forgotten_and_its_words_are_not() {
    let line = Line::saying("", Then::Wait).await;
    let gate = Plan::new().gate(&line.url()).await;
    let talk = Talk::new(Dialect::Chat);
    let body = talk.body();
    let mut stream = gate.connect().await;
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    let began = Instant::now();
    while line.heard().is_empty() {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(stream);
    line.closed(1).await;
    let logged = || async { gate.ask("/api/threads").await["threads"].as_array().unwrap().len() };
    while logged().await == 0 {
        assert!(began.elapsed() < SOON, "what it sent is not in the log");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_slow_reader_holds_back_the_provider_and_not_the_memory() {
    let line = Line::saying(format!("{HEAD}{}", word("hello")), Then::Flood).await;
    let gate = Plan::new().gate(&line.url()).await;
    let talk = Talk::new(Dialect::Chat).streaming(true);
    let mut response = gate.begin(talk.path(), &[], talk.body()).await;
    assert!(response.chunk().await.unwrap().is_some());
    // Others are served meanwhile, and the slow one still gets its bytes afterwards.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(gate.send("GET", "/livez", &[], Vec::new()).await.status, 200);
    let mut bytes = 0;
    while bytes < 1 << 20 {
        bytes += response.chunk().await.unwrap().expect("it goes on").len();
    }
    drop(response);
    line.closed(1).await;
}

#[tokio::test]
async fn what_is_no_request_is_the_providers_to_judge() {
    let world = Plan::new().start().await;
    let bodies: [&[u8]; 9] = [
        b"",
        b"{not json",
        b"[]",
        b"null",
        b"\"text\"",
        b"{\"model\":\"mock\"}",
        b"{\"model\":\"mock\",\"messages\":\"text\",\"input\":7}",
        b"{\"model\":\"mock\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}],\"input\":[]}",
        b"{\"model\":\"mock\",\"messages\":[7,null,[]],\"input\":[7,null,[]]}",
    ];
    for dialect in DIALECTS {
        for body in bodies {
            let before = world.mock.requests().len();
            let path = crate::talk::path(dialect);
            let got = world.post(path, &[], body.to_vec()).await;
            assert_eq!(world.mock.requests().len(), before + 1, "{}", String::from_utf8_lossy(body));
            assert_eq!(world.newest().body, body);
            assert_eq!(got.status, world.newest().status);
            assert_eq!(got.told("refused"), None);
        }
        let deep = format!("{{\"model\":\"mock\",\"messages\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
        world.post(crate::talk::path(dialect), &[], deep.clone()).await;
        assert_eq!(world.newest().body, deep);
    }
    // A body that says it is packed and is not.
    let got = world.post("/v1/chat/completions", &[("content-encoding", "gzip")], "{}").await;
    assert_eq!(world.newest().body, "{}");
    assert_eq!(got.status, world.newest().status);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_the_provider_hears_nothing() {
    let world = Plan::new().settings(|settings| settings.serve.body_mb_max.0 = 64 << 10).start().await;
    for dialect in DIALECTS {
        let got = Talk::new(dialect).grown(40_000).send(&world.gate).await;
        assert_eq!((got.status, got.told("refused")), (413, Some("body_too_large")), "{}", got.text());
        Talk::new(dialect).grown(2_000).send(&world.gate).await.fine();
    }
    assert_eq!(world.mock.requests().len(), 3);
}

#[tokio::test]
async fn where_there_is_no_memory_to_read_a_body_it_goes_out_as_it_came() {
    let world = Plan::new().settings(|settings| settings.serve.body_memory_mb_max.0 = 100 << 10).start().await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).grown(20_000);
        assert!((40 << 10..80 << 10).contains(&talk.body().len()), "{}", talk.body().len());
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(got.told("failed-open"), Some("memory"), "{dialect:?}");
        assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body());
        let small = Talk::about(dialect, "A small one.");
        assert_eq!(small.send(&world.gate).await.fine().told("failed-open"), None, "{dialect:?}: it is free again");
    }
}

#[tokio::test]
async fn where_there_is_no_memory_for_a_body_its_client_is_told_to_come_back() {
    for dialect in DIALECTS {
        let line = Line::saying("", Then::Wait).await;
        let gate =
            Plan::new().settings(|settings| settings.serve.body_memory_mb_max.0 = 100 << 10).gate(&line.url()).await;
        let talk = Talk::new(dialect).grown(12_000);
        let (first, second) = (talk.send(&gate), async {
            let began = Instant::now();
            while line.heard().is_empty() {
                assert!(began.elapsed() < SOON, "the first request does not go on");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // The first is with its provider, and held for as long as it is there.
            talk.send(&gate).await
        });
        let got = tokio::select! {
            _ = first => panic!("the provider never answers"),
            got = second => got,
        };
        assert_eq!((got.status, got.told("refused")), (503, Some("body_memory")), "{}", got.text());
        assert_eq!(got.headers["retry-after"], "1");
        assert!(
            got.json()["error"]["message"].as_str().unwrap().contains("serve.body_memory_mb_max"),
            "{}",
            got.text()
        );
    }
}

#[tokio::test]
async fn a_body_that_never_comes_is_not_waited_for() {
    let world =
        Plan::new().settings(|settings| settings.serve.body_timeout_s.0 = Duration::from_millis(300)).start().await;
    let mut stream = world.gate.connect().await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{\"model\"";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut said)).await.expect("it is let go");
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert!(world.mock.requests().is_empty());
}

#[tokio::test]
async fn large_headers_within_the_limit_go_on() {
    let world = Plan::new().start().await;
    let large = "x".repeat(20_000);
    let talk = Talk::new(Dialect::Chat);
    talk.send_with(&world.gate, &[("x-large", &large)]).await.fine();
    assert_eq!(world.newest().headers["x-large"], large);
    let got = talk.send_with(&world.gate, &[("x-large", &"x".repeat(80_000))]).await;
    assert_eq!(got.status, 431);
}

#[tokio::test]
async fn many_broken_requests_leave_nothing_behind() {
    let world = Plan::new().start().await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..60 {
        let talk = Talk::about(DIALECTS[number % 3], &format!("{number}")).streaming(true);
        let fault = ["die-mid-stream=2", "slow=20", "500", "overloaded-mid-stream", "garbage"][number % 5];
        let url = world.gate.url(talk.path());
        all.spawn(async move { post(&url, &[("x-mock-fault", fault)], talk.body().into()).await });
    }
    while let Some(got) = all.join_next().await {
        assert!(got.unwrap().status >= 200);
    }
    let began = Instant::now();
    while world.gate.in_flight().await > 0 {
        assert!(began.elapsed() < SOON, "a request is still under way");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
