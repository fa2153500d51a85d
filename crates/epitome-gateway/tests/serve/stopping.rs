//! Stopping: what is under way is finished, up to a grace, and nothing new is begun.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::fixture::{Running, SOON, with_limits};

fn patient() -> epitome_gateway::settings::Settings {
    with_limits(|serve| serve.shutdown_grace_s.0 = Duration::from_secs(60))
}

#[tokio::test]
async fn a_stream_under_way_is_finished() {
    let running = Running::new(patient()).await;
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(running.get("/stream/20", &[]).await);
    }
    running.stopper.finish();
    for stream in streams {
        let text = stream.text().await.expect("it is whole");
        assert_eq!(text.lines().count(), 20, "{text}");
    }
    let address = running.address;
    assert_eq!(running.ended().await.cut, 0);
    assert!(TcpStream::connect(address).await.is_err(), "it still listens");
}

#[tokio::test]
async fn an_idle_connection_and_a_follower_of_events_do_not_keep_it() {
    let running = Running::new(patient()).await;
    let client = crate::fixture::client();
    let kept = client.get(running.url("/echo")).send().await.unwrap();
    assert_eq!(kept.status(), 200);
    let events = running.get("/api/events", &[]).await;
    let began = Instant::now();
    running.stopper.finish();
    assert_eq!(events.text().await.expect("it ends well"), "");
    assert_eq!(running.ended().await.cut, 0);
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn what_takes_longer_than_the_grace_is_cut_off_and_counted() {
    let running = Running::new(with_limits(|serve| serve.shutdown_grace_s.0 = Duration::from_millis(200))).await;
    let endless = running.get("/endless", &[]).await;
    running.stopper.finish();
    assert!(endless.text().await.is_err(), "a cut stream looks whole");
    assert_eq!(running.ended().await.cut, 1);
}

#[tokio::test]
async fn told_twice_it_ends_at_once() {
    let running = Running::new(patient()).await;
    let endless = running.get("/endless", &[]).await;
    let began = Instant::now();
    running.stopper.finish();
    running.stopper.at_once();
    assert!(endless.text().await.is_err());
    assert_eq!(running.ended().await.cut, 1);
    assert!(began.elapsed() < SOON);
}
