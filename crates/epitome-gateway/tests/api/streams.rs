//! Streams: events as they happen, and again from where a client was.

use epitome_runtime::event::{Event, EventKind};
use epitome_runtime::ids::{Moment, ThreadKey};

use crate::fixture::{Running, SOON};
use crate::world::{ACME, BOLT, World, tenant, thread};

/// Reads a stream until so many events came; each as its fields.
async fn events(running: &Running, path: &str, headers: &[(&str, &str)], count: usize) -> Vec<String> {
    let mut response = running.get(path, headers).await;
    assert_eq!(response.status(), 200);
    read(&mut response, count).await
}

async fn read(response: &mut reqwest::Response, count: usize) -> Vec<String> {
    let mut text = String::new();
    let reading = async {
        while text.matches("\n\n").count() < count {
            let chunk = response.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    tokio::time::timeout(SOON, reading).await.expect("they come soon");
    text.split("\n\n").take(count).map(str::to_owned).collect()
}

fn field<'a>(event: &'a str, name: &str) -> Option<&'a str> {
    event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

async fn happen(running: &Running, owner: &str, name: &str, kind: EventKind) {
    let event = Event::new(Moment::now(), ThreadKey::new(tenant(owner), thread(name)), kind);
    running.engine.log().apply(&[running.engine.log().add_event(&event)]).await.unwrap();
    running.engine.bus().emit(&event);
}

#[tokio::test]
async fn a_threads_stream_begins_with_what_was_and_goes_on_with_what_comes() {
    let world = World::new().await;
    let known = world.fine("/api/threads/t-long/events?limit=1000").await["events"].as_array().unwrap().len();
    let mut response = world.running.get("/api/threads/t-long/events/stream", &[ACME]).await;
    let past = read(&mut response, known).await;
    let ids: Vec<String> = past.iter().filter_map(|event| field(event, "id")).map(str::to_owned).collect();
    assert_eq!(ids, (1..=known).map(|number| number.to_string()).collect::<Vec<_>>());
    happen(&world.running, "acme", "t-long", EventKind::ArtifactRead).await;
    let next = read(&mut response, 1).await;
    assert_eq!(
        (field(&next[0], "event"), field(&next[0], "id")),
        (Some("artifact_read"), Some(&*(known + 1).to_string()))
    );
}

#[tokio::test]
async fn a_client_that_comes_back_goes_on_where_it_was() {
    let world = World::new().await;
    let headers = [ACME, ("last-event-id", "2")];
    let resumed = events(&world.running, "/api/threads/t-long/events/stream", &headers, 1).await;
    assert_eq!(field(&resumed[0], "id"), Some("3"));
    let odd = world.running.json("/api/threads/t-long/events/stream", &[ACME, ("last-event-id", "x")]).await;
    assert_eq!(odd.0, 400);
}

#[tokio::test]
async fn the_stream_of_all_threads_is_the_tenants_own() {
    let world = World::new().await;
    let mut response = world.running.get("/api/events", &[BOLT]).await;
    happen(&world.running, "acme", "t-long", EventKind::ArtifactRead).await;
    happen(&world.running, "bolt", "b-own", EventKind::ArtifactDenied).await;
    let heard = read(&mut response, 1).await;
    assert_eq!(field(&heard[0], "event"), Some("artifact_denied"));
    assert!(field(&heard[0], "data").unwrap().contains("b-own"));
}
