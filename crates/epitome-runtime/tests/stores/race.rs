//! Two processes, one thread: every plan that was committed is there, in a row.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use epitome_runtime::store::Store;

use crate::process::{Shared, store_of_second};
use crate::sample::{commit, create, key};

const COMMITS_EACH: u64 = 5_000;
/// After so many commits a process pauses.
const BREATH: u64 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_commit_ten_thousand_plans_in_sqlite_and_none_is_lost() {
    race(Shared::sqlite, "race::two_processes_commit_ten_thousand_plans_in_sqlite_and_none_is_lost").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_commit_ten_thousand_plans_in_postgres_and_none_is_lost() {
    race(Shared::postgres, "race::two_processes_commit_ten_thousand_plans_in_postgres_and_none_is_lost").await;
}

async fn race(shared: fn() -> Shared, test: &str) {
    if let Some(store) = store_of_second().await {
        return commit_all(&store, "second").await;
    }
    let shared = shared();
    let store = shared.open().await;
    store.apply(&[create(&key("raced"))]).await.unwrap();
    let mut second = shared.second(test);
    // A process takes a while to start: what is done before it has begun races nobody.
    while store.thread(&key("raced")).await.unwrap().is_none_or(|row| row.version == 0) {
        assert!(second.try_wait().unwrap().is_none(), "the second process ended before it began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    commit_all(&store, "first").await;
    assert!(second.wait().unwrap().success(), "the second process failed");
    let bodies = bodies(&store).await;
    let turns = bodies.windows(2).filter(|pair| pair[0].as_bytes()[0] != pair[1].as_bytes()[0]).count();
    assert!(turns > 1, "the two did not race: they took {turns} turns");
    assert_eq!(bodies.into_iter().collect::<BTreeSet<_>>(), wanted());
    assert_eq!(store.thread(&key("raced")).await.unwrap().map(|row| row.version), Some(2 * COMMITS_EACH));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

async fn commit_all(store: &Arc<dyn Store>, name: &str) {
    let key = key("raced");
    let mut version = 0;
    for number in 0..COMMITS_EACH {
        while let Err(error) = store.apply(&[commit(&key, version + 1, &format!("{name} {number}"))]).await {
            assert!(error.is_conflict(), "{error}");
            version = store.thread(&key).await.unwrap().map_or(0, |row| row.version);
        }
        version += 1;
        if number % BREATH == BREATH - 1 {
            // Whoever waits for the lock wakes only now and then: without a pause one process could do all before it.
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}

/// What every version holds; there is one of each from 1 on.
async fn bodies(store: &Arc<dyn Store>) -> Vec<String> {
    let mut bodies = Vec::new();
    for version in 1..=2 * COMMITS_EACH {
        let plan = store.plan(&key("raced"), Some(version)).await.unwrap();
        bodies.push(String::from_utf8(plan.unwrap_or_else(|| panic!("version {version} is lost")).body).unwrap());
    }
    bodies
}

fn wanted() -> BTreeSet<String> {
    let of = |name: &'static str| (0..COMMITS_EACH).map(move |number| format!("{name} {number}"));
    of("first").chain(of("second")).collect()
}
