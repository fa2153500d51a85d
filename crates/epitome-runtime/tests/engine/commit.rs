//! Committing: races are run again, the same input gives the same result, and nobody's hook is in the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use epitome_runtime::engine::{Engine, EngineParts, StepRequest};
use epitome_runtime::event::{Bus, CompactionStats, Hook};
use epitome_runtime::ids::ThreadKey;
use epitome_runtime::store::MemoryStore;

use crate::world::{engine, go_on, holds, open, settings, turn};

#[tokio::test(flavor = "multi_thread")]
async fn many_who_compact_one_thread_at_once_all_get_a_prompt_and_the_versions_have_no_gap() {
    let engine = engine().await;
    let mut first = open(&engine).await;
    for at in 0..6 {
        first.append(turn(at)).await.unwrap();
    }
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut thread = open(&engine).await;
                for at in 0..8 {
                    thread.append(turn(100 + number * 10 + at)).await.unwrap();
                    let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
                    assert!(step.tokens <= step.room.limit, "{:?}", step.warnings);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let step = first.prepare_step(&StepRequest::default()).await.unwrap();
    assert!(step.version > 1);
    assert_eq!(first.row().length, 24 + 6 * 8 * 4);
    for version in 1..=step.version {
        let (row, _) = engine.log().plan(first.key(), Some(version)).await.unwrap().unwrap();
        assert_eq!(row.version, version);
    }
    let entries = engine.log().read(first.row(), 0..first.row().length).await.unwrap();
    for number in 0..6 {
        for at in 0..8 {
            for message in turn(100 + number * 10 + at) {
                assert_eq!(entries.iter().filter(|entry| entry.message.raw.as_str() == message).count(), 1);
            }
        }
    }
}

#[tokio::test]
async fn the_same_span_under_the_same_policy_gives_the_same_plan() {
    let mut plans = Vec::new();
    for _ in 0..2 {
        let secret = Arc::new(MemoryStore::new());
        let engine = Engine::new(EngineParts { store: secret, ..EngineParts::in_memory(settings()) }).await.unwrap();
        let mut thread = open(&engine).await;
        go_on(&mut thread, 0..9).await;
        let (row, plan) = engine.log().plan(thread.key(), None).await.unwrap().unwrap();
        plans.push((row.compacted, row.after, plan.compaction.summaries, plan.compaction.plan.tip));
    }
    assert_eq!(plans[0], plans[1]);
}

#[derive(Default)]
struct Counted {
    before: AtomicU64,
    after: AtomicU64,
}

#[async_trait]
impl Hook for Counted {
    async fn on_before_compaction(&self, _: &ThreadKey, stats: &CompactionStats) {
        assert!(stats.tokens_before > stats.tokens_after && stats.compacted_blocks > 0);
        self.before.fetch_add(1, Ordering::SeqCst);
    }

    async fn on_after_compaction(&self, _: &ThreadKey, stats: &CompactionStats) {
        assert!(stats.summary_block_count == 1);
        self.after.fetch_add(1, Ordering::SeqCst);
    }
}

struct Hanging;

#[async_trait]
impl Hook for Hanging {
    async fn on_before_compaction(&self, _: &ThreadKey, _: &CompactionStats) {
        std::future::pending::<()>().await;
    }

    async fn on_after_compaction(&self, _: &ThreadKey, _: &CompactionStats) {
        panic!("a hook of somebody else's")
    }
}

#[tokio::test]
async fn hooks_hear_of_every_compaction_and_one_that_hangs_or_panics_stops_none() {
    let counted = Arc::new(Counted::default());
    let bus = Bus::new().with_hook(Arc::new(Hanging)).with_hook(counted.clone());
    let bus = bus.with_hook_limit(Duration::from_millis(20));
    let engine = Engine::new(EngineParts { bus, ..EngineParts::in_memory(settings()) }).await.unwrap();
    let mut thread = open(&engine).await;
    let steps = go_on(&mut thread, 0..14).await;
    holds(steps.last().unwrap());
    let compactions = thread.row().version;
    assert!(compactions > 0);
    assert_eq!(counted.before.load(Ordering::SeqCst), compactions);
    assert_eq!(counted.after.load(Ordering::SeqCst), compactions);
}
