//! It fails open: whatever breaks in here, the request goes out as it came, and nothing is lost for good.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use epitome::wire::Dialect;
use epitome_runtime::engine::Background;
use epitome_runtime::model::{Hear, Model, ModelAnswer, ModelError, ModelPrompt, Scripted};
use epitome_runtime::store::MemoryStore;
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};
use epitome_testkit::{FaultyStore, StoreFault};

use crate::talk::{DIALECTS, Talk};
use crate::world::{Got, Plan, SOON, World};

fn faulty() -> Arc<FaultyStore> {
    Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())))
}

fn plan(store: &Arc<FaultyStore>) -> Plan {
    Plan::new()
        .window(40_000)
        .budget(8_000)
        .store(store.clone())
        .settings(|settings| settings.serve.store_patience_ms.0 = Duration::from_millis(300))
}

/// Sends a request, and again while the gateway goes without its store: one that did not answer is left alone for some
/// seconds, and calls that hung are given up in their own time.
async fn sent_until_stored(world: &World, talk: &Talk) -> Got {
    let began = Instant::now();
    loop {
        let got = talk.send(&world.gate).await.fine();
        if got.told("failed-open").is_none() {
            return got;
        }
        assert!(began.elapsed() < SOON, "the store is still left alone");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn without_its_store_a_request_goes_out_as_it_came_and_says_so() {
    for fault in StoreFault::ALL.into_iter().filter(|fault| *fault != StoreFault::Garbage) {
        for dialect in DIALECTS {
            let store = faulty();
            let world = plan(&store).start().await;
            store.fail(0, usize::MAX, fault);
            for tokens in [500, 14_000] {
                let talk = Talk::about(dialect, &format!("{tokens} tokens.")).grown(tokens);
                let sent = tokio::time::timeout(SOON, talk.send(&world.gate));
                let got = sent.await.unwrap_or_else(|_| panic!("{fault:?} keeps it")).fine();
                assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body(), "{fault:?}");
                assert_eq!(got.told("failed-open"), Some("store"), "{fault:?} {dialect:?} {tokens}");
            }
        }
    }
}

#[tokio::test]
async fn a_thread_at_hand_goes_on_while_the_store_is_gone_and_nothing_is_lost() {
    for fault in [StoreFault::Refused, StoreFault::Hung] {
        let store = faulty();
        let world = plan(&store).start().await;
        let mut talk = Talk::new(Dialect::Chat).grown(3_000);
        let (thread, _) = talk.send(&world.gate).await.fine().placed();
        world.gate.logged(&thread, 2).await;
        store.fail(0, usize::MAX, fault);
        for _ in 0..3 {
            talk.works(300);
            talk.send(&world.gate).await.fine();
            assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body(), "{fault:?}");
        }
        store.heal();
        // The store is left alone for a while; then everything is made up for.
        talk.works(300);
        let got = sent_until_stored(&world, &talk).await;
        assert_eq!(got.placed().0, thread, "{fault:?}");
        let logged = world.gate.logged(&thread, talk.messages.len() - 1).await;
        let sent: Vec<serde_json::Value> =
            talk.messages[1..].iter().map(|message| serde_json::from_str(message).unwrap()).collect();
        assert_eq!(logged, sent, "{fault:?}: everything is in the log");
        // And compaction works again.
        let talk = talk.grown(14_000);
        // Calls that hung may still be given up meanwhile, and then the store is left alone once more.
        let began = Instant::now();
        while talk.send(&world.gate).await.fine().plan() == 0 {
            assert!(began.elapsed() < SOON, "{fault:?}: it does not compact any more");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(world.newest().prompt_tokens.unwrap() <= 8_000);
    }
}

/// However often a request needs the store, it waits for one that hangs no longer than it may in total.
#[tokio::test(flavor = "multi_thread")]
async fn one_request_waits_once_in_total_for_a_store_that_hangs() {
    let patience = Duration::from_secs(2);
    for dialect in DIALECTS {
        // New, at hand and small, at hand and grown over its budget, and compacted already.
        for (before, more) in [(0, 14_000), (3_000, 300), (3_000, 12_000), (14_000, 300)] {
            let store = faulty();
            let plan = plan(&store).settings(|settings| settings.serve.store_patience_ms.0 = patience);
            let world = plan.start().await;
            let mut talk = Talk::about(dialect, "A task.").grown(before);
            let began = Instant::now();
            if before > 0 {
                talk.send(&world.gate).await.fine();
            }
            let usual = began.elapsed();
            store.fail(0, usize::MAX, StoreFault::Hung);
            let talk = talk.says("And now?").clone().grown(more);
            let began = Instant::now();
            talk.send(&world.gate).await.fine();
            let took = began.elapsed();
            assert!(took < patience * 2 + usual * 3, "{dialect:?} {before} {more}: {took:?}, usually {usual:?}");
            store.heal();
        }
    }
}

#[tokio::test]
async fn a_compacted_thread_goes_on_or_goes_out_whole_while_the_store_hangs() {
    let store = faulty();
    let world = plan(&store).start().await;
    let mut talk = Talk::new(Dialect::Anthropic).grown(14_000);
    assert_eq!(talk.send(&world.gate).await.fine().plan(), 1);
    store.fail(0, usize::MAX, StoreFault::Hung);
    talk.works(300);
    let got = talk.send(&world.gate).await.fine();
    match got.told("failed-open") {
        Some(_) => assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body()),
        None => assert_eq!(got.plan(), 1, "what is at hand needs no store"),
    }
    store.heal();
    talk.works(300);
    let got = sent_until_stored(&world, &talk).await;
    assert!(got.plan() >= 1);
    world.assert_lawful();
    crate::identity::settled(&world.gate, &got.placed().0, talk.messages.len()).await;
}

#[tokio::test]
async fn one_failure_in_the_middle_never_fails_a_request() {
    // Whichever call to the store fails, the client gets its answer.
    for first in 0..24 {
        let store = faulty();
        let world = plan(&store).start().await;
        let mut talk = Talk::new(Dialect::Responses).grown(7_500);
        talk.send(&world.gate).await.fine();
        store.fail(first, 1, StoreFault::Refused);
        for _ in 0..3 {
            talk.works(380);
            talk.send(&world.gate).await.fine();
        }
        world.assert_lawful();
    }
}

#[tokio::test]
async fn a_store_that_answers_nonsense_never_fails_a_request() {
    for first in 0..12 {
        let store = faulty();
        let world = plan(&store).start().await;
        let mut talk = Talk::new(Dialect::Anthropic).grown(14_000);
        talk.send(&world.gate).await.fine();
        store.fail(first, 3, StoreFault::Garbage);
        for _ in 0..3 {
            talk.works(380);
            talk.send(&world.gate).await.fine();
            assert!(String::from_utf8_lossy(&world.newest().body).contains("parser.rs"));
        }
        world.assert_lawful();
    }
}

/// A model that breaks whoever asks it, a number of times.
#[derive(Debug)]
struct Breaking(AtomicUsize);

impl Model for Breaking {
    fn id(&self) -> &str {
        "breaking"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn answer<'s, 'p, 'h, 'w, 'a>(
        &'s self,
        _: &'p ModelPrompt,
        _: &'h mut Hear<'w>,
    ) -> Pin<Box<dyn Future<Output = Result<ModelAnswer, ModelError>> + Send + 'a>>
    where
        's: 'a,
        'p: 'a,
        'h: 'a,
        'w: 'a,
        Self: 'a,
    {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "this is the bug that the test is about");
        let reason = "it does not answer any more".to_owned();
        Box::pin(async { Err(ModelError::Unreachable(reason)) })
    }
}

#[tokio::test]
async fn a_bug_in_planning_sends_what_came_and_is_over_with_the_bug() {
    let model: Arc<dyn Model> = Arc::new(Breaking(AtomicUsize::new(1)));
    let summarizer = Summarizer::WithFallback(Arc::new(ModelSummarizer::new(model, Duration::from_secs(5))));
    let world = Plan::new().window(40_000).budget(8_000).summarizer(summarizer).start().await;
    let mut talk = Talk::new(Dialect::Chat).grown(14_000);
    let got = talk.send(&world.gate).await.fine();
    assert_eq!(got.told("failed-open"), Some("broken"));
    assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body());
    talk.works(300);
    let got = talk.send(&world.gate).await.fine();
    assert_eq!(got.told("failed-open"), None);
    assert!(got.plan() >= 1);
    crate::identity::settled(&world.gate, &got.placed().0, talk.messages.len() - 1).await;
    world.assert_lawful();
}

#[tokio::test]
async fn a_slow_summarizer_keeps_nobody_waiting() {
    let script = "model = \"slow\"\ndialect = \"chat\"\n\n[[answer]]\nfor = \"summary\"\nrepeat = true\ntext = 'x'\ndelay_ms = 60000\n";
    for fallback in [true, false] {
        let model: Arc<dyn Model> = Arc::new(Scripted::parse(script).unwrap());
        let model = Arc::new(ModelSummarizer::new(model, Duration::from_secs(30)));
        let summarizer = if fallback { Summarizer::WithFallback(model) } else { Summarizer::Model(model) };
        let world = Plan::new()
            .window(40_000)
            .budget(8_000)
            .summarizer(summarizer)
            .engine(|engine| engine.background = Background::On { wait: Duration::from_millis(400) })
            .settings(|settings| settings.serve.store_patience_ms.0 = Duration::from_millis(400))
            .start()
            .await;
        let talk = Talk::new(Dialect::Chat).grown(14_000);
        let sent = tokio::time::timeout(SOON, talk.send(&world.gate));
        let got = sent.await.unwrap_or_else(|_| panic!("fallback={fallback}: it waits for the model")).fine();
        world.assert_lawful();
        match got.plan() {
            0 => assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body(), "fallback={fallback}"),
            _ => assert!(world.newest().prompt_tokens.unwrap() <= 8_000, "fallback={fallback}"),
        }
    }
}
