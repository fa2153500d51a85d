//! Tenants: what is another's is answered as what there is not.

use crate::world::{BOLT, World};

#[tokio::test]
async fn each_tenant_lists_its_own_threads() {
    let world = World::new().await;
    let (_, bolts) = world.running.json("/api/threads", &[BOLT]).await;
    let ids: Vec<&str> =
        bolts["threads"].as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["b-own"]);
    assert!(!world.fine("/api/threads").await.to_string().contains("b-own"));
}

#[tokio::test]
async fn anothers_thing_cannot_be_told_from_nothing() {
    let world = World::new().await;
    let below = [
        "",
        "/messages",
        "/prompt",
        "/plans",
        "/plans/1",
        "/receipt",
        "/events",
        "/events/stream",
        "/artifacts",
        "/ledger",
    ];
    for end in below {
        let theirs = world.running.json(&format!("/api/threads/t-long{end}"), &[BOLT]).await;
        let none = world.running.json(&format!("/api/threads/t-none{end}"), &[BOLT]).await;
        assert_eq!(theirs, none, "{end}");
        assert_eq!(theirs.0, 404);
    }
    let theirs = world.running.json(&format!("/api/artifacts/{}", world.artifact), &[BOLT]).await;
    let none = world.running.json(&format!("/api/artifacts/{}", "0".repeat(world.artifact.len())), &[BOLT]).await;
    assert_eq!(theirs, none);
    assert_eq!(theirs.0, 404);
}
